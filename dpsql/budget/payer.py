"""Who pays for a connection: an account named after the dataset, and the limits that bind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from dpsql.core.names import RULE, is_account_name
from dpsql.errors import ParameterError, PolicyError
from dpsql.ledger import Account
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.privacy.accounting.zcdp import Amount, Budget, Composition


@dataclass(frozen=True, slots=True)
class Payer:
    """The ledger account that pays for a connection, with the limits on it.

    ``limits`` are those of the dataset, if the policy has a total, of the analyst, and of the
    session if it has one. ``analyst`` is the path of the analyst's account: ``path``, or the one
    above a session's.
    """

    path: str
    limits: tuple[Account, ...]
    analyst: str


def payer(
    policy: Policy, analyst: str, session: str = "", session_epsilon: float | None = None
) -> Payer:
    """Return the paying account: the analyst's, or a session's below it.

    Accounts are named after the dataset, so that another policies file buys no budget. What a
    session spends is spent by the analyst, and by the dataset; ``session_epsilon`` limits the
    session beside, at the analyst's delta.

    Raises ``UnknownName`` for an analyst without an account, ``ParameterError`` for names that
    cannot be part of a path and for a limit that is none, and ``PolicyError`` for a total that adds
    up otherwise than accounts.
    """
    budgets = policy_budgets(policy, analyst, session, session_epsilon)
    limits = tuple(
        Account(path, budget.limit, _share(policy, analyst, path))
        for path, budget in budgets.items()
    )
    path = f"{policy.dataset}/{analyst}"
    own = f"{path}/{_part('session', session)}" if session else path
    return Payer(own, limits, path)


def delta_buys(payer: Payer, price: Amount) -> int | None:
    """Tell for how many questions of a price the policy gives an analyst delta, spent or not.

    None for a price without delta.
    """
    return payer.limits[-1].limit.delta // price.delta if price.delta else None


def policy_budgets(
    policy: Policy, analyst: str, session: str = "", session_epsilon: float | None = None
) -> dict[str, Budget]:
    """Return the budgets of the dataset, if the policy has a total, and of the analyst.

    That of a session follows, if it has one. Raises as :func:`payer` does.
    """
    account = policy.account(analyst)
    own = policy_budget(account)
    path = f"{policy.dataset}/{_part('analyst', analyst)}"
    found = {path: own}
    if session_epsilon is not None:
        limited = policy_budget(replace(account, epsilon=session_epsilon))
        found[f"{path}/{_part('session', session)}"] = limited
    if policy.total is None:
        return found
    if policy.total.composition is not own.composition:
        raise PolicyError(
            f"the total and the account of {analyst} differ in their composition",
            code="policy_invalid",
            hint="Give all accounts and the total the same composition: else they do not add up.",
        )
    return {policy.dataset: policy_budget(policy.total)} | found


def _share(policy: Policy, analyst: str, path: str) -> float | None:
    """Return the part of delta that an account keeps for conversion; None for basic accounts."""
    total = policy.total if path == policy.dataset else None
    account = total or policy.account(analyst)
    basic = account.composition is Composition.BASIC
    return None if basic else account.delta_for_conversion


@lru_cache(maxsize=256)
def policy_budget(account: AccountPolicy) -> Budget:
    """Return the budget of one account of the policy."""
    share = account.delta_for_conversion
    return Budget.of(account.epsilon, account.delta, account.composition, share)


def _part(what: str, name: object) -> str:
    if not isinstance(name, str) or not is_account_name(name):
        raise ParameterError(
            f"the name of the {what} is not one: it {RULE}",
            code="bad_parameter",
            hint="give it a plain name, in Unicode's normal form C",
        )
    return name
