"""Answers of stored releases, which were presented and are asked for again.

Presenting one unpacks its releases, runs the tail over them, computes intervals and puts them into
words. All of that follows from the plan and the releases, so it is done once as long as they are
the same: the ledger says so each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpsql.core.remembered import Remembered
from dpsql.ir.query import Query
from dpsql.ledger import Stored
from dpsql.pipeline.prepare import MOST_PLANNED_TEXT, MOST_PLANS, Prepared, Question, size_kept
from dpsql.results.explanation import Explanation
from dpsql.results.result import Cost, Result, for_another_reader, held_size


class _Same:
    """Compares a plan by its identity. A plan that is made again differs."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._prepared is self._prepared

    def __hash__(self) -> int:
        return id(self._prepared)


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """All that an answer is made of: the plan, the releases as the ledger has them, and the cost.

    A release is told by its entry, its time and the hash of its bytes.
    """

    prepared: _Same
    releases: tuple[tuple[int, str, bytes], ...]
    cost: Cost

    @classmethod
    def of(cls, prepared: Prepared, releases: Iterable[Stored], cost: Cost) -> GivenAnswer:
        """Name an answer by what it is made of."""
        found = tuple((one.entry, one.settled, one.digest) for one in releases)
        return cls(_Same(prepared), found, cost)


class AnswerMemory:
    """The answers of one account that were given last, as far as they are small.

    Safe for threads. Of one that reads rows from an engine's room nothing is kept.
    """

    def __init__(self) -> None:
        self._kept: Remembered[GivenAnswer, tuple[Prepared, Result]]
        self._kept = Remembered(MOST_PLANS, MOST_PLANNED_TEXT)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, made_of: GivenAnswer) -> tuple[Prepared, Result] | None:
        """Look up an answer and the plan that explains it; None without a kept answer."""
        return self._kept.get(made_of)

    def keep(
        self, made_of: GivenAnswer, question: Question, shown: Prepared, answer: Result
    ) -> None:
        """Keep an answer of a question, and the plan that explains it."""
        size, rows = size_kept(question, shown), held_size(answer)
        if size is None or rows is None or _may_differ(shown.query):
            return
        # The session that it was presented in can end: its explanation is not kept.
        kept = for_another_reader(answer, _unexplained)
        self._kept.keep(made_of, (shown, kept), size + rows)


def _may_differ(query: Query) -> bool:
    """Tell whether the outer query may find other rows in the same releases.

    Rows of public tables may be others when it is asked again.
    """
    return not query.steady or bool(query.public_tables or query.values)


def _unexplained() -> Explanation:
    raise AssertionError("whoever asks again brings an explanation")
