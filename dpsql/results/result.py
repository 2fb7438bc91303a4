"""What a query returns: released rows, what they cost, how sure they are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.zcdp import ZERO, PrivacyLoss
from dpsql.accuracy.appearance import Threshold, threshold
from dpsql.accuracy.intervals import Interval, check_confidence, interval_of
from dpsql.accuracy.left_out import (
    LeftOutPart,
    ShareEstimate,
    clamped_values,
    left_out_of,
    left_out_words,
    no_estimate,
)
from dpsql.accuracy.wording import Part, ShownAggregate, summary
from dpsql.core import display
from dpsql.core.extras import install_hint
from dpsql.engines.duckdb import raise_if_interrupted
from dpsql.errors import InterfaceError
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import OutputColumn
from dpsql.results.explanation import Explanation
from dpsql.results.rows import Answer, Row

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query reserved before reading and what it was charged in the end.

    The losses are what the account is charged: under zCDP composition rho and delta (the chance of
    a differentiating outcome), under basic composition epsilon and delta. ``reserved_epsilon`` and
    ``settled_epsilon`` are what the query is worth alone, at ``conversion_delta`` on top of its
    delta. Under zCDP they do not add up over queries, rho does; under basic composition they are
    the charge itself, and ``conversion_delta`` is 0. ``answered`` is when a release that the ledger
    has stored was paid for (a UTC time in ISO 8601), and None for a new one.
    """

    reserved: PrivacyLoss
    settled: PrivacyLoss
    conversion_delta: float
    answered: str | None = None

    @property
    def stored(self) -> bool:
        """True if the release was paid for before, by the same account, and cost nothing now."""
        return self.answered is not None

    @property
    def reserved_epsilon(self) -> float:
        """The ε of the reservation, at delta = reserved.delta + conversion_delta."""
        return self.reserved.epsilon_at(self.conversion_delta)

    @property
    def settled_epsilon(self) -> float:
        """The ε of the charge, at delta = settled.delta + conversion_delta."""
        return self.settled.epsilon_at(self.conversion_delta)


FREE = Cost(ZERO, ZERO, 0.0)
"""The cost of an answer that took nothing from private rows."""


@dataclass(frozen=True, slots=True)
class AnswerNoise:
    """What is known of the noise in an answer: of which plans, in which columns.

    ``outputs`` and ``supports`` are those of the query, ``released`` is how many groups came out of
    each plan's block, ``uniform`` whether all of them came out of the same releases. An answer
    without noise has none of these.
    """

    outputs: tuple[OutputColumn | None, ...] = ()
    supports: tuple[OutputColumn, ...] = ()
    plans: tuple[BlockPlan, ...] = ()
    released: tuple[int, ...] = ()
    uniform: tuple[bool, ...] = ()


LeftOutEstimates = Mapping[tuple[int, int, bool], ShareEstimate]
"""Estimates of what bounding left out, by the block and the measure they are of.

The last part of a key is True for those of values outside their bounds.
"""


class Result:
    """The answer to one statement.

    ``columns``: names. ``cost``: a :class:`Cost`. ``plan``: an :class:`Explanation`, with no blocks
    where nothing private was asked for. Rows come as Python tuples (``fetchall``), Arrow, pandas or
    polars.
    """

    def __init__(
        self,
        answer: Answer,
        explain: Callable[[], Explanation],
        cost: Cost = FREE,
        noise: AnswerNoise = AnswerNoise(),
        left_out: LeftOutEstimates = MappingProxyType({}),
    ) -> None:
        self._estimates = left_out
        self._answer = answer
        self._width = len(answer.names) - len(noise.supports)
        self._noise = noise
        self._explain = explain
        self.cost = cost

    @property
    def plan(self) -> Explanation:
        """The plan: how the query was answered and priced, or would be."""
        return self._explain()

    @property
    def released(self) -> bool:
        """True if the rows were computed from private ones, by drawing noise."""
        return bool(self._noise.plans)

    @property
    def combined(self) -> int:
        """From how many releases of the question its values are put together: 1 for one alone.

        0 if nothing was released.
        """
        return max((max(1, len(plan.combined)) for plan in self._noise.plans), default=0)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that released its blocks, in their order."""
        return tuple(plan.selection.name for plan in self._noise.plans)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self._answer.names[: self._width]

    @property
    def types(self) -> list[str]:
        """The DuckDB types of the columns."""
        return self._answer.types[: self._width]

    def fetchall(self) -> list[Row]:
        """Collect all rows as tuples of Python values."""
        return self._answer.fetchall(self._width)

    def __len__(self) -> int:
        return len(self.fetchall())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())

    def arrow(self) -> pyarrow.Table:
        """Return a pyarrow Table.

        Raises ``InterfaceError`` if pyarrow is not installed, or has no type for a column.
        """
        table: pyarrow.Table = self._through("pyarrow", "arrow", lambda rows: rows.to_arrow_table())
        return table

    def df(self) -> pandas.DataFrame:
        """Return a pandas DataFrame. Raises ``InterfaceError`` as :meth:`arrow` does."""
        frame: pandas.DataFrame = self._through("pandas", "pandas", lambda rows: rows.df())
        return frame

    def pl(self) -> polars.DataFrame:
        """Return a polars DataFrame. Raises ``InterfaceError`` as :meth:`arrow` does."""
        require_package("pyarrow", "polars")
        frame: polars.DataFrame = self._through("polars", "polars", lambda rows: rows.pl())
        return frame

    def _through(self, module: str, extra: str, convert: Callable[[Any], Any]) -> Any:
        require_package(module, extra)
        rows = self._answer.relation(self._width)
        try:
            return convert(rows)
        except Exception as error:  # noqa: BLE001 (each package has its own, which may quote values)
            raise_if_interrupted(error)
            raise InterfaceError(
                f"{module} has no type for some column of the answer",
                code="no_frame_type",
                hint="Cast the column to VARCHAR in an outer query, which asks nothing new, or "
                "read the answer with fetchall().",
            ) from None

    def intervals(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Compute confidence intervals for the noise of each aggregate returned as released.

        Each interval covers, with at least this probability, the value the query would have
        returned without noise (after bounding what one unit contributes). Where keys are found by a
        threshold on a noisy score, this is before the threshold: of the groups close to it, those
        with large noise come out. Columns computed from several released values have none.
        Raises ``ParameterError`` unless 0 < confidence < 1.
        """
        confidence = check_confidence(confidence)
        return {
            name: self._interval(position, output, confidence)
            for position, (name, output) in enumerate(
                zip(self.columns, self._noise.outputs, strict=False)
            )
            if output is not None
        }

    def _interval(self, position: int, output: OutputColumn, confidence: float) -> Interval:
        plan = self._noise.plans[output.block]
        released = self._noise.released[output.block]
        supports = len(plan.block.support_columns(output.aggregate))
        positions = [] if plan.block.aggregates[output.aggregate].kind.composed else [position]
        if supports:
            first = self._width + self._noise.supports.index(output)
            positions += range(first, first + supports)
        columns = [self._numbers(position) for position in positions]
        return interval_of(plan, released, output.aggregate, columns, confidence)

    def plot(
        self,
        *,
        x: str | Sequence[str] | None = None,
        y: str | None = None,
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the rows on a matplotlib Axes, a new one unless ``ax`` is given, and return it.

        ``y`` is the column to draw, by default the first noisy one; ``x`` the column or columns
        that tell rows apart, by default those before it. One column of numbers or dates makes an
        axis with points; anything else makes bars, of which the first 40 rows are drawn. Intervals
        are error bars, NULL keys look different, the threshold is a line where ``y`` decides which
        groups appear, and the caption says what it cost.

        Raises ``InterfaceError`` if matplotlib is not installed, and ``ParameterError`` for columns
        that are not there or hold no numbers, and unless 0 < confidence < 1.
        """
        require_package("matplotlib", "plot")
        drawn: Axes = display.plot(self, x, y, confidence, ax)
        return drawn

    def thresholds(self) -> dict[str, Threshold]:
        """Return the threshold that groups had to exceed to appear, by the column that it is on."""
        found = {
            name: threshold(self._noise.plans[output.block], output.aggregate)
            for name, output in zip(self.columns, self._noise.outputs, strict=False)
            if output is not None
        }
        return {name: one for name, one in found.items() if one is not None}

    def summary(self, confidence: float = 0.95) -> str:
        """Put into plain words how close the values of the answer are, and which groups appear.

        Empty for an answer without noise. It follows from the plan and from what was released.
        Raises ``ParameterError`` unless 0 < confidence < 1.
        """
        confidence = check_confidence(confidence)
        rows, noise = len(self), self._noise
        parts = [
            Part(plan, released, self._shown(block), rows, uniform)
            for block, (plan, released, uniform) in enumerate(
                zip(noise.plans, noise.released, noise.uniform, strict=True)
            )
        ]
        said = summary(parts, confidence, self.cost.stored)
        return "\n".join([said, *self._left_out_sentences(confidence)]).strip("\n")

    @property
    def left_out(self) -> tuple[LeftOutPart, ...]:
        """How much bounding left out of each aggregate, by the columns that show it as released.

        By private estimates, where ``left_out_share`` of the price went to them; aggregates that
        count alike have one. They follow from what was released, and cost nothing more.
        """
        found: dict[tuple[object, ...], LeftOutPart] = {}
        for block, plan in enumerate(self._noise.plans):
            shown = self._shown(block)
            for index in range(len(plan.block.aggregates)):
                columns = tuple(one.name for one in shown if one.aggregate == index)
                for one in self._left_out_of(block, index, columns):
                    if shown and not columns and not one.told:
                        continue  # nobody sees it
                    key = (block, plan.block.aggregates[index].measures, one.of, one.clamped)
                    before = found[key].columns if key in found else ()
                    found[key] = replace(one, columns=(*before, *columns))
        return tuple(found.values())

    def _left_out_of(
        self, block: int, index: int, columns: tuple[str, ...]
    ) -> Iterator[LeftOutPart]:
        """Yield what is told of an aggregate, and of its values where these are clamped."""
        plan = self._noise.plans[block]
        measures = plan.block.aggregates[index].measures
        single = measures[0] if len(measures) == 1 else -1
        estimate = self._estimates.get((block, single, False))
        if estimate is None:
            yield no_estimate(plan, index, columns)
        else:
            yield left_out_of(plan, single, columns, estimate)
        clamped = self._estimates.get((block, single, True))
        if clamped is not None:
            yield clamped_values(plan, single, columns, clamped)

    @property
    def tells_left_out(self) -> bool:
        """True if a part of the price was for telling what bounding left out."""
        return any(plan.block.parameters.left_out_share for plan in self._noise.plans)

    def _left_out_sentences(self, confidence: float) -> list[str]:
        """Say what bounding left out, where the question paid for knowing it."""
        if not self.tells_left_out:
            return []
        lines = []
        for one in self.left_out:
            wider = self._narrower_than_left_out(one, confidence)
            lines.append(left_out_words(one) + (f" {wider}" if wider else ""))
        return lines

    def _narrower_than_left_out(self, found: LeftOutPart, confidence: float) -> str:
        """Say where intervals, which are of noise alone, are narrower than what is missing."""
        if not found.low or found.clamped:
            return ""
        rows, short = 0, 0
        intervals = self.intervals(confidence)
        for name in found.columns:
            values = self._numbers(self.columns.index(name))
            missing = values * (found.low / (1 - found.low)) if found.low < 1 else values * np.inf
            rows += len(values)
            short += int((values + missing > intervals[name].high).sum())
        if not short:
            return ""
        return (
            f"Beware: in {short:,} of {rows:,} values that is more than their intervals take in, "
            "which are of noise alone."
        )

    def _shown(self, block: int) -> tuple[ShownAggregate, ...]:
        """List the columns that show aggregates of a block as released."""
        columns = zip(self.columns, self._noise.outputs, strict=False)
        return tuple(
            ShownAggregate(output.aggregate, name)
            for name, output in columns
            if output is not None and output.block == block
        )

    def _numbers(self, position: int) -> NDArray[np.float64]:
        column = self._answer.column(position)
        return np.array([np.nan if v is None else float(v) for v in column], dtype=np.float64)

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


def require_package(module: str, extra: str) -> None:
    """Raise ``InterfaceError`` unless a package that one of dpsql's extras installs is there."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise InterfaceError(
            f"{module} is not installed",
            code="missing_package",
            hint=install_hint(extra),
        ) from None
