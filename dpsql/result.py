"""What a query returns: released rows, what they cost, how sure they are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting import ZERO, PrivacyLoss
from dpsql.errors import InterfaceError, ParameterError
from dpsql.estimates import Range, estimate_range
from dpsql.explain import Explanation
from dpsql.plan import BlockPlan
from dpsql.query import OutputColumn
from dpsql.tail import Answer, Row

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query reserved before reading and what it was charged in the end.

    The losses are what the account is charged: under zCDP composition rho and delta (the chance of
    a differentiating outcome), under basic composition epsilon and delta. ``reserved_epsilon`` and
    ``settled_epsilon`` are what the query is worth alone, at ``conversion_delta`` on top of its
    delta. Under zCDP they do not add up over queries, rho does; under basic composition they are
    the charge itself, and ``conversion_delta`` is 0.
    """

    reserved: PrivacyLoss
    settled: PrivacyLoss
    conversion_delta: float

    @property
    def reserved_epsilon(self) -> float:
        """ε of the reservation, at delta = reserved.delta + conversion_delta."""
        return self.reserved.worth(self.conversion_delta)

    @property
    def settled_epsilon(self) -> float:
        """ε of the charge, at delta = settled.delta + conversion_delta."""
        return self.settled.worth(self.conversion_delta)


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper ends for each row of a noisy column, in the order of the rows."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


FREE = Cost(ZERO, ZERO, 0.0)
"""The cost of an answer that took nothing from private rows."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What is known of the noise in an answer: of which plans, in which columns.

    ``outputs`` and ``supports`` are those of the query, ``released`` is how many groups came out of
    each plan's block. An answer without noise has none of these.
    """

    outputs: tuple[OutputColumn | None, ...] = ()
    supports: tuple[OutputColumn, ...] = ()
    plans: tuple[BlockPlan, ...] = ()
    released: tuple[int, ...] = ()


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
        noise: Noise = Noise(),
    ) -> None:
        self._answer = answer
        self._width = len(answer.names) - len(noise.supports)
        self._noise = noise
        self._explain = explain
        self.cost = cost

    @property
    def plan(self) -> Explanation:
        """How the query was answered and priced, or would be."""
        return self._explain()

    @property
    def released(self) -> bool:
        """True if the rows were computed from private ones, by drawing noise."""
        return bool(self._noise.plans)

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return self._answer.names[: self._width]

    @property
    def types(self) -> list[str]:
        """DuckDB types of the columns."""
        return self._answer.types[: self._width]

    def fetchall(self) -> list[Row]:
        """All rows as tuples of Python values."""
        return self._answer.fetchall(self._width)

    def __len__(self) -> int:
        return len(self.fetchall())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())

    def arrow(self) -> pyarrow.Table:
        """A pyarrow Table. Raises ``InterfaceError`` if pyarrow is not installed."""
        table: pyarrow.Table = self._through("pyarrow", "arrow", lambda rows: rows.to_arrow_table())
        return table

    def df(self) -> pandas.DataFrame:
        """A pandas DataFrame. Raises ``InterfaceError`` if pandas is not installed."""
        frame: pandas.DataFrame = self._through("pandas", "pandas", lambda rows: rows.df())
        return frame

    def pl(self) -> polars.DataFrame:
        """A polars DataFrame. Raises ``InterfaceError`` if polars or pyarrow is not installed."""
        _require("pyarrow", "polars")
        frame: polars.DataFrame = self._through("polars", "polars", lambda rows: rows.pl())
        return frame

    def _through(self, module: str, extra: str, convert: Callable[[Any], Any]) -> Any:
        _require(module, extra)
        return convert(self._answer.relation(self._width))

    def intervals(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Confidence intervals for the noise of each aggregate returned as it was released.

        Each interval covers, with at least this probability, the value the query would have
        returned without noise (after bounding what one unit contributes). Where keys are found by a
        threshold on a noisy score, this is before the threshold: of the groups close to it, those
        with large noise come out. Columns computed from several released values have none.
        Raises ``ParameterError`` unless 0 < confidence < 1.
        """
        if not 0 < confidence < 1:
            raise ParameterError(
                "confidence must be a number between 0 and 1",
                code="parameter_out_of_range",
                hint="For example intervals(0.95).",
            )
        return {
            name: self._interval(position, output, confidence)
            for position, (name, output) in enumerate(
                zip(self.columns, self._noise.outputs, strict=False)
            )
            if output is not None
        }

    def _interval(self, position: int, output: OutputColumn, confidence: float) -> Interval:
        aggregate = self._noise.plans[output.block].block.aggregates[output.aggregate]
        values = self._numbers(position)
        if aggregate.kind.composed:
            return self._composed_interval(output, confidence)
        margin = self._margin(output, aggregate.measures[0], confidence)
        return Interval(values - margin, values + margin)

    def _numbers(self, position: int) -> NDArray[np.float64]:
        column = self._answer.column(position)
        return np.array([np.nan if v is None else float(v) for v in column], dtype=np.float64)

    def _margin(self, output: OutputColumn, index: int, confidence: float) -> float:
        """Half the interval's width: the noise's margin, and what rounding can add."""
        plan = self._noise.plans[output.block]
        measure = plan.measures[index].measure
        groups = plan.spread_groups(self._noise.released[output.block])
        margin = plan.noise_of(index).margin(confidence, groups)
        whole = plan.is_whole(plan.block.aggregates[output.aggregate])
        if measure.weights is not None:
            return float(margin * measure.step + (0.5 if whole else 0.0))
        if measure.lattice is not None and measure.lattice.coarsening > 1:
            margin += 1
        elif whole:
            margin = float(np.ceil(margin))
        return float(margin * measure.step)

    def _composed_interval(self, output: OutputColumn, confidence: float) -> Interval:
        """All values that fit the intervals of the measures, which share the risk equally."""
        plan = self._noise.plans[output.block]
        aggregate = plan.block.aggregates[output.aggregate]
        each = 1 - (1 - confidence) / len(aggregate.measures)
        first = self._width + self._noise.supports.index(output)
        parts = [
            Range.around(self._numbers(first + i), self._margin(output, measure, each))
            for i, measure in enumerate(aggregate.measures)
        ]
        found = estimate_range(aggregate, [m.measure for m in plan.measures], parts)
        return Interval(found.low, found.high)

    def __repr__(self) -> str:
        from dpsql.render import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from dpsql.render import result_html

        return result_html(self)


def _require(module: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError:
        raise InterfaceError(
            f"{module} is not installed",
            code="missing_package",
            hint=f"Install it with: pip install 'dpsql[{extra}]'",
        ) from None
