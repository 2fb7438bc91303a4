"""Refusals that teach: code, reason, place, hint, and an acceptable statement where one is known.

A proposal is made from the text and the hint alone, and shown only once it was explained, which
reads nothing: whoever asks it is answered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from dpsql.agents.proposals import proposals
from dpsql.agents.replies import Proposal, Refusal
from dpsql.core.formatting import upper_figure
from dpsql.errors import Error
from dpsql.results.explanation import Explanation

_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)"
_EPSILON: Final = re.compile(f"epsilon = {_NUMBER}")
_PRICE: Final = re.compile(f"up to epsilon {_NUMBER}")
_AT_MOST: Final = re.compile(f"at most {_NUMBER}")
_WITHIN: Final = re.compile(r"within ± ([0-9][0-9,]*(?:\.[0-9]+)?)")
_LARGER: Final = (1.05, 1.25, 1.6, 2.5, 5.0, 25.0)
_MOST_TEXT: Final = 20_000  # of a statement that is proposed


@dataclass(frozen=True, slots=True)
class Attempt:
    """The statement of a call, and the epsilon or the maximum error that it asks for."""

    sql: str
    epsilon: float | None = None
    max_error: float | None = None


ExplainAttempt = Callable[[Attempt], Explanation]
"""Explains an attempt with all else of the call; raises ``Error`` where it is refused."""


def taught_refusal(
    error: Error,
    attempt: Attempt | None = None,
    explain: ExplainAttempt | None = None,
    most: float = math.inf,
) -> Refusal:
    """Tell a refusal, with a proposal where one is accepted; ``most`` is the epsilon of those."""
    place = error.place
    accepted = None
    if attempt is not None and explain is not None:
        accepted = _accepted(error, attempt, explain, most)
    return Refusal(
        code=error.code,
        reason=error.reason,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        excerpt=None if place is None else place.pointer(),
        hint=error.hint,
        accepted=accepted,
    )


def _accepted(
    error: Error, attempt: Attempt, explain: ExplainAttempt, most: float
) -> Proposal | None:
    for proposed in _proposals(error, attempt, most):
        try:
            found = explain(proposed)
        except Error:
            continue
        price = upper_figure(found.reserved_epsilon)
        return Proposal(
            sql=proposed.sql,
            epsilon=proposed.epsilon,
            max_error=proposed.max_error,
            price_epsilon=price,
        )
    return None


def _proposals(error: Error, attempt: Attempt, most: float) -> Iterator[Attempt]:
    """Propose other attempts, the likeliest first."""
    if len(attempt.sql) > _MOST_TEXT:
        return
    for sql in proposals(attempt.sql, error):
        yield replace(attempt, sql=sql)
    if attempt.max_error is not None:
        yield from _with_larger_error(error, attempt, most)
    for found in (_EPSILON.search(error.hint or ""), _AT_MOST.search(error.reason)):
        if found is not None:
            yield Attempt(attempt.sql, min(most, float(found[1])))


def _with_larger_error(error: Error, attempt: Attempt, most: float) -> Iterator[Attempt]:
    """Ask for less accuracy, where that is too dear: as the refusal says, or by the price.

    Errors are about as the inverse of prices.
    """
    assert attempt.max_error is not None, "it asks for a maximum error"
    said = f"{error.reason} {error.hint or ''}"
    hinted = [float(each.replace(",", "")) for each in _WITHIN.findall(said)]
    guesses = [max(hinted)] if hinted else []
    price, limit = _PRICE.search(error.reason), _AT_MOST.search(error.reason)
    allowed = min(most, math.inf if limit is None else float(limit[1]))
    if price is not None and 0 < allowed < float(price[1]):
        guesses.append(attempt.max_error * float(price[1]) / allowed)
    for guess in guesses:
        for more in _LARGER:
            yield replace(attempt, max_error=float(f"{guess * more:.2g}"))
