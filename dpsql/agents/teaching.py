"""Refusals that teach: code, reason, place, hint, and an acceptable statement where one is known.

A proposal is made from the text and the hint alone, and shown only once it was explained, which
reads nothing: whoever asks it is answered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dpsql.agents.proposals import proposals
from dpsql.agents.replies import Proposal, Refusal
from dpsql.core.formatting import upper_figure
from dpsql.errors import Error
from dpsql.results.explanation import Explanation

_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)"
_EPSILON: Final = re.compile(f"epsilon = {_NUMBER}")
_AT_MOST: Final = re.compile(f"at most {_NUMBER}")
_MOST_TEXT: Final = 20_000  # of a statement that is proposed


@dataclass(frozen=True, slots=True)
class Attempt:
    """The statement and the epsilon of a call."""

    sql: str
    epsilon: float | None = None


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
        return Proposal(sql=proposed.sql, epsilon=proposed.epsilon, price_epsilon=price)
    return None


def _proposals(error: Error, attempt: Attempt, most: float) -> Iterator[Attempt]:
    """Propose other attempts, the likeliest first."""
    if len(attempt.sql) > _MOST_TEXT:
        return
    for sql in proposals(attempt.sql, error):
        yield Attempt(sql, attempt.epsilon)
    for found in (_EPSILON.search(error.hint or ""), _AT_MOST.search(error.reason)):
        if found is not None:
            yield Attempt(attempt.sql, min(most, float(found[1])))
