"""The owner's view of a ledger: every account, every entry, whoever was charged.

It is for whoever may read the ledger itself. What analysts are shown of it is in
:mod:`dpsql.budget.own`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice

from dpsql.budget.account import OWNER, AccountReport, any_account
from dpsql.budget.forecasts import RECENT
from dpsql.budget.payer import payer, policy_budgets
from dpsql.core.formatting import significant
from dpsql.errors import LedgerError
from dpsql.ledger import Entry, Head, Ledger, Owner
from dpsql.policy.model import Policy
from dpsql.privacy.accounting.zcdp import Budget, Composition


def account_reports(ledger: Ledger, policy: Policy | None = None) -> tuple[AccountReport, ...]:
    """Tell where every account of the ledger stands, sorted by path.

    Limits of the policy are those of ``policy`` where it has any, else those of the last charge.
    """
    known: dict[str, Budget] = {}
    for analyst in () if policy is None else policy.accounts:
        assert policy is not None
        known |= policy_budgets(policy, analyst)
    former: dict[str, list[str]] = {}
    for each in ledger.renames():
        if each.former not in (each.name, *former.setdefault(each.name, [])):
            former[each.name].append(each.former)
    return tuple(
        replace(any_account(path, known.get(path), ledger), former=tuple(former.get(path, ())))
        for path in ledger.accounts()
    )


def limit_account(
    ledger: Ledger,
    actions: Owner,
    path: str,
    epsilon: float,
    delta: float,
    composition: Composition,
) -> None:
    """Limit what an account may spend in a window, in addition to the policy.

    Epsilon and delta are converted as those of the policy are. Raises ``LedgerError``
    (``ledger_other_composition``) for a limit under which the account could not be charged any
    more, and as ``Owner.set_limits`` does.
    """
    most = Budget.of(epsilon, delta, composition).limit
    known = any_account(path, None, ledger) if path in ledger.accounts() else None
    if known is not None and known.spent.queries and known.composition != composition:
        raise LedgerError(
            f"the account {path} was charged under {known.composition} composition",
            code="ledger_other_composition",
            hint=f"give its limit with {known.composition} composition",
        )
    terms = {"epsilon": epsilon, "delta": delta, "composition": composition.value}
    actions.set_limits(path, most, terms=json.dumps(terms))


def raise_limit(
    ledger: Ledger, actions: Owner, policy: Policy, analyst: str, epsilon: float
) -> bool:
    """Let an analyst's account spend up to an epsilon in a window, by raising the owner's limit.

    Its delta and composition stay. Returns False where it may spend as much already, and nothing
    is changed: without such a limit, or with a higher one.
    Raises ``LedgerError`` (``policies_give_less``) where the policy's own limit is lower, which the
    ledger cannot raise, and as :func:`limit_account` does.
    """
    path = payer(policy, analyst).path
    given = policy_budgets(policy, analyst)[path]
    if given.epsilon < epsilon:
        raise LedgerError(
            f"the policies give the account {path} less: epsilon {significant(given.epsilon)}",
            code="policies_give_less",
            hint="Change its epsilon in the policies first; a limit in the ledger only narrows it.",
        )
    if path not in ledger.accounts():
        return False
    report = any_account(path, given, ledger)
    lower = [
        limit.budget
        for limit in report.limits
        if limit.source == OWNER and limit.budget.epsilon < epsilon
    ]
    for found in lower:
        limit_account(ledger, actions, path, epsilon, found.delta, found.composition)
    return bool(lower)


def latest_entries(
    ledger: Ledger, account: str | None, limit: int, before: int | None = None
) -> tuple[Entry, ...]:
    """Return the latest entries of an account and those below it, or of all; newest first."""
    if account is not None:
        return ledger.history(account, limit, before)
    return tuple(islice(_entries(ledger, before, limit), limit))


def all_entries(ledger: Ledger, until: Head) -> Iterator[Entry]:
    """Collect all entries of a ledger up to a head, newest first, read as they are asked for."""
    return _entries(ledger, until.seq + 1, RECENT)


def _entries(ledger: Ledger, before: int | None, at_once: int) -> Iterator[Entry]:
    datasets = [path for path in ledger.accounts() if "/" not in path]
    pages = (_pages(ledger, path, before, min(at_once, RECENT)) for path in datasets)
    return merge(*pages, key=lambda entry: entry.entry, reverse=True)


def _pages(ledger: Ledger, path: str, before: int | None, at_once: int) -> Iterator[Entry]:
    while page := ledger.history(path, at_once, before):
        yield from page
        before = page[-1].entry
