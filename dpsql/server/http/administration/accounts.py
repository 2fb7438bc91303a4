"""Accounts and their budgets, as ``dpsql budget owner`` has them. All of it is in the ledger."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from dpsql.budget.owner import account_reports, limit_account
from dpsql.errors import ParameterError
from dpsql.ledger import Owner, Renewal
from dpsql.present.budget_files import account_dict, to_json
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import (
    AccountRequest,
    AccountsReply,
    DoneReply,
    ForgetRequest,
    ForgottenReply,
    LimitRequest,
    RenameRequest,
    RenewalRequest,
)


def list_accounts(desk: Desk, act: Act) -> AccountsReply:
    """Tell where all accounts of the dataset stand."""
    ledger, dataset = desk.ledger, desk.guard.dataset
    name = dataset.policy.dataset
    found = [
        json.loads(to_json(account_dict(each)))
        for each in account_reports(ledger, dataset.policy)
        if each.path == name or each.path.startswith(f"{name}/")
    ]
    return AccountsReply(accounts=found, head=str(ledger.head()))


def create_account(desk: Desk, act: Act) -> DoneReply:
    """Create an account."""
    _owner(desk, act).create(_path(desk, act))
    return _done(desk)


def rename_account(desk: Desk, act: Act) -> DoneReply:
    """Give an account another name."""
    name = desk.require_own(act.taken(RenameRequest).name)
    _owner(desk, act).rename(_path(desk, act), name)
    return _done(desk)


def limit_spending(desk: Desk, act: Act) -> DoneReply:
    """Limit the spending of an account, or lift its limit."""
    given, path = act.taken(LimitRequest), _path(desk, act)
    if given.epsilon is None and given.delta is None:
        _owner(desk, act).set_limits(path, None)
    elif given.epsilon is None or given.delta is None:
        raise ParameterError(
            "a limit has both epsilon and delta",
            code="bad_parameter",
            hint="Give both, or neither to lift the limit.",
        )
    else:
        composition = Composition(given.composition)
        limit_account(desk.ledger, _owner(desk, act), path, given.epsilon, given.delta, composition)
    return _done(desk)


def renew_account(desk: Desk, act: Act) -> DoneReply:
    """Have windows of an account begin every day or month, or never."""
    every = act.taken(RenewalRequest).every
    renewal = None if every == "never" else Renewal(every)
    _owner(desk, act).renew(_path(desk, act), renewal)
    return _done(desk)


def begin_window(desk: Desk, act: Act) -> DoneReply:
    """Open a new window of an account now."""
    _owner(desk, act).open_window(_path(desk, act))
    return _done(desk)


def suspend_account(desk: Desk, act: Act) -> DoneReply:
    """Have an account answer no new question."""
    _owner(desk, act).suspend(_path(desk, act))
    return _done(desk)


def reopen_account(desk: Desk, act: Act) -> DoneReply:
    """Let a suspended account ask again."""
    _owner(desk, act).reopen(_path(desk, act))
    return _done(desk)


def forget_answers(desk: Desk, act: Act) -> ForgottenReply:
    """Delete stored answers of an account."""
    before = _moment(act.taken(ForgetRequest).before)
    count = _owner(desk, act).forget(_path(desk, act), before)
    return ForgottenReply(head=str(desk.ledger.head()), deleted=count)


def _owner(desk: Desk, act: Act) -> Owner:
    return desk.ledger.owner(act.login.user)


def _path(desk: Desk, act: Act) -> str:
    return desk.require_own(act.taken(AccountRequest).account)


def _done(desk: Desk) -> DoneReply:
    return DoneReply(head=str(desk.ledger.head()))


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            "this is no time", code="bad_parameter", hint="Write 2026-01-31T12:00:00+00:00."
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
