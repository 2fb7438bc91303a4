"""Requests of analysts for more budget, and what owners decide on them."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.budget.owner import raise_limit
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import MOST_PAGE, DecisionRequest
from dpsql.server.http.bodies import ApprovedRequest, BudgetRequestFacts, BudgetRequestsReply
from dpsql.server.people.budget_requests import BudgetRequest, RequestState


def list_requests(desk: Desk, act: Act) -> BudgetRequestsReply:
    """List requests of all users."""
    limit = act.numbers.get("limit", MOST_PAGE)
    found = desk.users.requests.all(desk.guard.dataset_name, limit)
    return BudgetRequestsReply(requests=[request_facts(each) for each in found])


def approve_request(desk: Desk, act: Act) -> ApprovedRequest:
    """Raise the limit of an account to what a request asks for, unless it may spend as much."""

    def raised(found: BudgetRequest) -> bool:
        policy = desk.guard.dataset.policy
        actions = desk.ledger.owner(act.login.user)
        return raise_limit(desk.ledger, actions, policy, found.account, found.epsilon)

    changed = _decide(desk, act, RequestState.APPROVED, raised)
    return ApprovedRequest(**_decided(desk, act).facts(), raised=changed)


def refuse_request(desk: Desk, act: Act) -> BudgetRequestFacts:
    """Refuse a request."""
    _decide(desk, act, RequestState.REFUSED, lambda found: False)
    return request_facts(_decided(desk, act))


def request_facts(found: BudgetRequest) -> BudgetRequestFacts:
    """Return a request as replies have it."""
    return BudgetRequestFacts(**found.facts())


def _decide(
    desk: Desk, act: Act, state: RequestState, work: Callable[[BudgetRequest], bool]
) -> bool:
    given, requests = act.taken(DecisionRequest), desk.users.requests
    dataset = desk.guard.dataset_name
    return requests.decide(dataset, given.number, state, act.login.user, given.note, work)


def _decided(desk: Desk, act: Act) -> BudgetRequest:
    number = act.taken(DecisionRequest).number
    return desk.users.requests.request(desk.guard.dataset_name, number)
