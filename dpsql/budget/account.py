"""The state of one account: its limits and its spending, in epsilon."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsql.errors import ParameterError
from dpsql.ledger import Account, Ledger, Spent, Standing, StreamRecord, Window
from dpsql.privacy.accounting.zcdp import (
    CONVERSION_SHARE,
    ZERO,
    Amount,
    Budget,
    Composition,
    PrivacyLoss,
)

POLICY, OWNER = "policy", "owner"
"""Who has set a limit: the policies file, or the owner in the ledger."""

CONVERSION = 1e-6
"""The delta that rho is converted with where no limit gives one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of an account: ``source`` is POLICY or OWNER."""

    source: str
    budget: Budget


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending of an account.

    ``loss`` is what they were charged, all added up: rho and delta under zCDP and GDP, epsilon and
    delta under basic composition. It is worth ``epsilon`` at ``delta``, by the tight conversion.
    ``queries`` counts them, ``looks`` the left-out estimates and the numbers of rows per unit that
    were found, which are charged for themselves, ``unsettled`` those of all that are running, or
    failed after reserving, and hold their whole reservation.
    """

    loss: PrivacyLoss
    epsilon: float
    delta: float
    queries: int
    unsettled: int
    looks: int = 0

    @property
    def charges(self) -> int:
        """How many charges there were: queries and estimates."""
        return self.queries + self.looks


@dataclass(frozen=True, slots=True)
class AccountReport:
    """Where one account stands.

    All of ``limits`` bind it. They apply to what was ``spent`` in the present window; ``total`` is
    what was spent over all of ``windows``. ``left`` is what all limits leave, None without any.
    ``opened`` is when the window began, empty before it is charged; ``period`` is its day or month,
    and ``renews`` how often there is a new one, empty for never. ``suspended`` is since when the
    account answers no new question, empty if it does. ``former`` are the paths by which it was
    called before, the first one first; for the owner alone. ``carried`` is the part of ``spent``
    that streams of earlier windows cost, which go on publishing in this one.
    """

    path: str
    composition: Composition
    limits: tuple[Limit, ...]
    spent: Spending
    total: Spending
    left: PrivacyLoss | None
    opened: str
    period: str
    renews: str
    windows: int
    suspended: str = ""
    former: tuple[str, ...] = ()
    carried: PrivacyLoss = ZERO

    @property
    def binding(self) -> Limit | None:
        """The limit that leaves least rho or epsilon; None without limits."""
        return _binding(self.limits)

    @property
    def delta_limit(self) -> float | None:
        """The least delta that a limit gives to questions; None without limits."""
        return min((limit.budget.limit.loss.delta for limit in self.limits), default=None)


@dataclass(frozen=True, slots=True)
class StreamReport:
    """A stream that ``account`` has paid for in full: ``charged`` is for all of its ``steps``.

    ``begun`` is the last step that was begun, ``published`` how many were published, ``created`` a
    UTC time in ISO 8601. What is left of it costs nothing.
    """

    account: str
    name: str
    steps: int
    begun: int
    published: int
    charged: PrivacyLoss
    created: str


def stream_report(found: StreamRecord) -> StreamReport:
    """Report a stream of the ledger, without its number there: that tells how much others asked."""
    return StreamReport(
        found.account,
        found.name,
        found.steps,
        found.begun,
        len(found.published),
        found.charged.loss,
        found.created,
    )


def _binding(limits: Sequence[Limit]) -> Limit | None:
    """Return the limit that leaves least rho or epsilon; None without limits."""
    return min(limits, key=lambda limit: limit.budget.limit.units, default=None)


def account_report(
    standing: Standing,
    windows: Sequence[Window],
    policy: Budget | None,
    *,
    conversion: float = CONVERSION,
    composition: Composition | None = None,
) -> AccountReport:
    """Return the report of one account.

    ``windows`` are all it ever had; ``policy`` is what the policy gives it, the first of the
    standing's limits. Where no limit says how to convert rho, ``conversion`` is used, and where
    nothing says how costs add up, ``composition``.
    """
    how = composition or _composition(standing)
    limits = _limits(standing, policy, conversion, how)
    bound = _binding(limits)
    budget = None if bound is None else bound.budget
    if budget is not None and budget.delta_conversion > 0.0:
        conversion = budget.delta_conversion
    spent, left = standing.window.spent, standing.left
    inside = left is not None and all(
        units <= most
        for limit in standing.limits
        for units, most in zip(spent.amount.units, limit.units, strict=True)
    )
    return AccountReport(
        path=standing.path,
        composition=how if budget is None else budget.composition,
        limits=limits,
        spent=spending(spent, conversion, budget if inside else None),
        total=spending(standing.total, conversion),
        left=None if left is None else left.loss,
        opened=standing.window.opened if standing.window.opened in _begun(windows) else "",
        period=standing.window.period,
        renews=standing.renews or "",
        windows=len(windows),
        suspended=standing.suspended or "",
        carried=standing.window.carried.loss,
    )


def any_account(path: str, policy: Budget | None, ledger: Ledger) -> AccountReport:
    """Return the report of an account by its path alone.

    Without a budget of the policy, the policy's limit is that of the account's last charge.
    """
    given = None if policy is None else [Account(path, policy.limit)]
    *above, standing = ledger.standing(path, given)
    if policy is None and len(standing.limits) > len(ledger.standing(path, ())[-1].limits):
        policy = budget_of(standing.limits[0], CONVERSION, _composition(standing))
    asides = (limit.loss.delta for each in reversed(above) for limit in each.limits)
    conversion = next((aside for aside in asides if 0.0 < aside < 1.0), CONVERSION)
    return account_report(standing, ledger.windows(path), policy, conversion=conversion)


def spending(spent: Spent, conversion: float, budget: Budget | None = None) -> Spending:
    """Convert an account's spending to epsilon, at its own delta or at the delta of ``budget``."""
    loss = spent.amount.loss
    if budget is None:
        delta = loss.delta + (conversion if loss.rho > 0.0 else 0.0)
        epsilon = loss.epsilon_at(conversion)
    else:
        delta, epsilon = budget.delta, budget.epsilon_spent(loss)
    queries = spent.queries - spent.looks - spent.returned
    return Spending(loss, epsilon, delta, queries, spent.unsettled, spent.looks)


def budget_of(limit: Amount, conversion: float, composition: Composition) -> Budget:
    """Convert a limit in ledger units to a budget, without the owner's record of it.

    A policy usually keeps as much delta for converting rho as it gives to questions; so does this.
    """
    most = limit.loss
    if not most.rho and (limit.epsilon or composition is Composition.BASIC):
        return Budget(most.epsilon, most.delta, Composition.BASIC, 0.0, most)
    aside = most.delta if 0.0 < most.delta < 1.0 else conversion
    kind = Composition.GDP if most.gaussian else Composition.ZCDP
    return Budget(most.epsilon_at(aside), most.delta + aside, kind, aside, most)


def _limits(
    standing: Standing, policy: Budget | None, conversion: float, composition: Composition
) -> tuple[Limit, ...]:
    limits = standing.limits
    found = []
    if policy is not None:
        found, limits = [Limit(POLICY, policy)], limits[1:]
    for limit in limits:
        known = _written(standing.terms, limit)
        found.append(Limit(OWNER, known or budget_of(limit, conversion, composition)))
    return tuple(found)


def _written(terms: str, limit: Amount) -> Budget | None:
    """Read the budget that the owner wrote beside a limit; None if it amounts to another limit."""
    try:
        record = json.loads(terms)
        epsilon, delta = float(record["epsilon"]), float(record["delta"])
        share = float(record.get("delta_for_conversion", CONVERSION_SHARE))
        budget = Budget.of(epsilon, delta, Composition(record["composition"]), share)
    except (ValueError, TypeError, KeyError, OverflowError, ParameterError):
        return None
    return budget if budget.limit == limit else None


def _composition(standing: Standing) -> Composition:
    """Tell how costs add up in an account, by its charges or else its limits; zCDP by default."""
    amounts = (standing.total.amount, *standing.limits)
    found = {kind for amount in amounts for kind in _currencies(amount)}
    return found.pop() if len(found) == 1 else Composition.ZCDP


def _currencies(amount: Amount) -> Iterator[Composition]:
    """Yield the compositions of an amount's parts."""
    if amount.rho:
        yield Composition.ZCDP
    if amount.epsilon:
        yield Composition.BASIC
    if amount.gaussian:
        yield Composition.GDP


def _begun(windows: Sequence[Window]) -> set[str]:
    return {window.opened for window in windows}
