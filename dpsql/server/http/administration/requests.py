"""Requests of analysts for more budget, and what owners decide on them."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dpsql.budget.owner import raise_limit
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import MOST_PAGE, DecisionRequest
from dpsql.server.http.bodies import BudgetRequestFacts, BudgetRequestsReply
from dpsql.server.people.budget_requests import BudgetRequest, RequestState


def list_requests(desk: Desk, act: Act) -> BudgetRequestsReply:
    """List requests of all users."""
    limit = act.numbers.get("limit", MOST_PAGE)
    found = desk.users.requests.all(desk.guard.dataset_name, limit)
    return BudgetRequestsReply(requests=[request_facts(each) for each in found])


def approve_request(desk: Desk, act: Act) -> BudgetRequestFacts:
    """Raise the limit of an account to what a request asks for."""
    with _deciding(desk, act, RequestState.APPROVED) as found:
        policy = desk.guard.dataset.policy
        actions = desk.ledger.owner(act.login.user)
        raise_limit(desk.ledger, actions, policy, found.account, found.epsilon)
    return _decided(desk, act)


def refuse_request(desk: Desk, act: Act) -> BudgetRequestFacts:
    """Refuse a request."""
    with _deciding(desk, act, RequestState.REFUSED):
        pass
    return _decided(desk, act)


def request_facts(found: BudgetRequest) -> BudgetRequestFacts:
    """Return a request as replies have it."""
    return BudgetRequestFacts(**found.facts())


def _deciding(desk: Desk, act: Act, state: RequestState) -> AbstractContextManager[BudgetRequest]:
    given, requests = act.taken(DecisionRequest), desk.users.requests
    dataset = desk.guard.dataset_name
    return requests.deciding(dataset, given.number, state, act.login.user, given.note)


def _decided(desk: Desk, act: Act) -> BudgetRequestFacts:
    number = act.taken(DecisionRequest).number
    return request_facts(desk.users.requests.request(desk.guard.dataset_name, number))
