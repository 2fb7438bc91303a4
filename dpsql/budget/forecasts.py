"""How many more questions an account affords.

Three counts, of questions of one kind and setting. ``at_worst`` supposes that each costs all that
it reserves. ``about`` supposes that each costs what such questions have cost on average so far: a
top-k that returned few groups paid for those few only (pay-what-you-get, Durfee & Rogers 2019,
Algorithm 2: there k* counts what may be returned in all). ``by_delta`` is what delta alone leaves
room for: delta is never refunded, so it bounds the number of questions whatever they return (l*
there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dpsql.budget.question import LoggedQuery
from dpsql.ledger import Entry, Standing
from dpsql.planner.budget import QueryBudget
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import CONVERSION_SHARE, Amount, Composition, PrivacyLoss
from dpsql.results.explanation import Explanation

RECENT = 1000
"""How many of the latest entries are looked at for what questions have cost."""

_ANY_NUMBER = 10**9
"""What delta leaves room for beyond this is any number: nobody asks so often."""

DEFAULTS, AGAIN, GIVEN = "defaults", "again", "given"


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many more questions like one the account affords; None is any number.

    ``which``: the policy's DEFAULTS, the last question AGAIN, or one that was GIVEN. ``kind`` says
    what it asks in a few words, ``settings`` its (epsilon, delta) per block. ``usual`` is the mean
    cost of ``sample`` earlier questions like it, rounded up, None without any. ``max_queries``
    counts the questions of the account so far as well.
    """

    which: str
    kind: str
    settings: tuple[tuple[float, float], ...]
    reserved: PrivacyLoss
    usual: PrivacyLoss | None
    sample: int
    at_worst: int | None
    about: int | None
    by_delta: int | None
    max_queries: int | None


@dataclass(frozen=True, slots=True)
class ForecastQuestion:
    """A question to forecast, its price, and how to tell questions like it."""

    which: str
    kind: str
    settings: tuple[tuple[float, float], ...]
    reserved: Amount
    resembles: Callable[[Entry, LoggedQuery], bool]


def question_at(
    parameters: Parameters, composition: Composition, delta_for_conversion: float = CONVERSION_SHARE
) -> ForecastQuestion:
    """Find the dearest question of one private block with these parameters.

    Under zCDP, one whose keys are declared spends no delta. A statement of several private blocks
    pays for each.
    """
    share = delta_for_conversion
    budget = QueryBudget.of(parameters, composition, delta_for_conversion=share)
    split = budget.whole()
    dearest = budget.loss if budget.basic else split.loss
    setting = ((parameters.epsilon, parameters.delta),)
    return ForecastQuestion(
        DEFAULTS, "", setting, Amount.charge(dearest), lambda _, asked: asked.settings == setting
    )


def question_again(entry: Entry, asked: LoggedQuery) -> ForecastQuestion:
    """Return the question of an entry, asked once more of fresh noise."""
    return ForecastQuestion(
        AGAIN, asked.kind, asked.settings, entry.reserved, _same(asked.shape, entry.reserved)
    )


def question_of(explanation: Explanation) -> ForecastQuestion:
    """Return an explained question for forecasts, with its reservation as its setting."""
    shape = tuple((block.table, block.mechanism) for block in explanation.blocks)
    tops = ((b.table, "" if b.limit is None else f"top-{b.limit} of ") for b in explanation.blocks)
    kind = " + ".join(dict.fromkeys(f"{top}{table}" for table, top in tops))
    reserved = Amount.charge(explanation.reserved)
    delta = explanation.reserved.delta + explanation.conversion_delta
    setting = ((explanation.reserved_epsilon, delta),)
    return ForecastQuestion(GIVEN, kind, setting, reserved, _same(shape, reserved))


def forecast(
    question: ForecastQuestion,
    standings: Sequence[Standing],
    entries: Iterable[tuple[Entry, LoggedQuery]],
    queries: int,
) -> Forecast:
    """Tell how many more such questions fit every limit of every account in ``standings``.

    ``entries`` are earlier ones of the account, and what they asked, among which those like it are
    looked for; ``queries`` is how many it was charged for so far, in its window.
    """
    alike = [
        entry.reserved if entry.charged is None else entry.charged
        for entry, asked in entries
        if question.resembles(entry, asked)
    ]
    usual = _mean(alike)
    left = [standing.left for standing in standings if standing.left is not None]
    by_delta = _least(_that_fit(a.delta, question.reserved.delta) for a in left)
    if by_delta is not None and by_delta > _ANY_NUMBER:
        by_delta = None
    return Forecast(
        question.which,
        question.kind,
        question.settings,
        question.reserved.loss,
        None if usual is None else usual.loss,
        len(alike),
        at_worst=_least(each.affordable(question.reserved) for each in standings),
        about=None if usual is None else _about(left, question.reserved, usual),
        by_delta=by_delta,
        max_queries=None if by_delta is None else queries + by_delta,
    )


def _same(
    shape: tuple[tuple[str, str], ...], reserved: Amount
) -> Callable[[Entry, LoggedQuery], bool]:
    return lambda entry, asked: entry.reserved == reserved and asked.shape == shape


def _mean(costs: Sequence[Amount]) -> Amount | None:
    """Average some losses, each part rounded up; None if there are none."""
    if not costs:
        return None
    sums = (sum(units) for units in zip(*(cost.units for cost in costs), strict=True))
    return Amount(*(-(-total // len(costs)) for total in sums))


def _about(left: Sequence[Amount], reserved: Amount, usual: Amount) -> int | None:
    """Count the questions that fit if each reserves its worst case and pays a usual price."""
    return _least(
        _that_fit(room, held, paid)
        for amount in left
        for room, held, paid in zip(amount.units, reserved.units, usual.units, strict=True)
    )


def _that_fit(room: int, held: int, paid: int | None = None) -> int | None:
    """Count the questions that fit, the last one with its full reservation; None without a limit.

    None if any.
    """
    if held == 0:
        return None
    if held > room:
        return 0
    each = held if paid is None else min(paid, held)
    return None if each == 0 else 1 + (room - held) // each


def _least(counts: Iterable[int | None]) -> int | None:
    return min((count for count in counts if count is not None), default=None)
