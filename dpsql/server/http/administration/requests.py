"""Requests of analysts for more budget, and what owners decide on them."""

from __future__ import annotations

from dpsql.budget.owner import raise_limit
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import MOST_PAGE, DecisionRequest
from dpsql.server.http.bodies import BudgetRequestFacts, BudgetRequestsReply
from dpsql.server.people.budget_requests import BudgetRequest, RequestState


def list_requests(desk: Desk, act: Act) -> BudgetRequestsReply:
    """List requests of all users."""
    found = desk.users.requests.all(act.numbers.get("limit", MOST_PAGE))
    return BudgetRequestsReply(requests=[request_facts(each) for each in found])


def approve_request(desk: Desk, act: Act) -> BudgetRequestFacts:
    """Raise the limit of an account to what a request asks for."""
    given, owner = act.taken(DecisionRequest), act.login.user
    approved = RequestState.APPROVED
    with desk.users.requests.deciding(given.number, approved, owner, given.note) as found:
        policy = desk.guard.dataset.policy
        actions = desk.ledger.owner(owner)
        raise_limit(desk.ledger, actions, policy, found.account, found.epsilon)
    return request_facts(desk.users.requests.request(given.number))


def refuse_request(desk: Desk, act: Act) -> BudgetRequestFacts:
    """Refuse a request."""
    given, refused = act.taken(DecisionRequest), RequestState.REFUSED
    with desk.users.requests.deciding(given.number, refused, act.login.user, given.note):
        pass
    return request_facts(desk.users.requests.request(given.number))


def request_facts(found: BudgetRequest) -> BudgetRequestFacts:
    """Return a request as replies have it."""
    return BudgetRequestFacts(**found.facts())
