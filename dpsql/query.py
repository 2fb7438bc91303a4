"""What is asked: a statement split into private blocks and a public tail.

A *private block* aggregates over one table that carries a privacy unit; it is the only part that
touches protected rows. The *tail* is everything above the blocks and sees released rows only.
Values here are complete at birth and never change; nothing in this module knows noise or budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from dpsql.policy import Parameters
from dpsql.schema import Table

INTERNAL_PREFIX = "__dpsql_"
ROW_ID = f"{INTERNAL_PREFIX}rid"
RELEASED_BITS = 20
"""Sensitivities of sums are kept near this many bits, well inside the samplers' range."""


class MeasureKind(Enum):
    """An integer-valued statistic of a group, the thing noise is added to."""

    UNITS = "units"  # privacy units in the group
    ROWS = "rows"  # rows in the group
    VALUES = "values"  # rows whose argument is not NULL
    NUMBERS = "numbers"  # rows whose argument is neither NULL nor NaN
    SUM = "sum"  # clamped sum of the argument, in lattice steps
    CENTERED_SUM = "centered_sum"  # sum of (argument - midpoint), in lattice steps


class AggregateKind(Enum):
    """The aggregate an analyst wrote."""

    COUNT_UNITS = "count_units"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Lattice:
    """The fixed-point grids of a bounded value.

    Rows are rounded to steps of ``quantum`` (1 for moderate integers, else a power of two, so that
    grid points are exact doubles) and summed exactly. A group's total is then divided by
    ``coarsening``, which keeps noise scales in the range of the samplers without rounding each row.
    ``low`` and ``high`` enclose the declared bounds, in steps of ``quantum``. ``integral`` says
    that the values are integers: their sums are shown as integers and none can be NaN.
    """

    lower: float
    upper: float
    quantum: float
    low: int
    high: int
    coarsening: int
    integral: bool

    @property
    def midpoint(self) -> int:
        """The step that averages are centred on."""
        return (self.low + self.high) // 2

    @property
    def half_width(self) -> int:
        """The largest distance of a step from the midpoint."""
        return max(self.high - self.midpoint, self.midpoint - self.low)

    def released(self, fine_sensitivity: int) -> int:
        """Sensitivity after coarsening: integer division can add one step, never more."""
        if self.coarsening == 1:
            return max(1, fine_sensitivity)
        return fine_sensitivity // self.coarsening + 1


@dataclass(frozen=True, slots=True)
class WeightGrid:
    """The fixed-point grid of what a unit adds to a group times the unit's weight.

    A whole weight is ``steps``. Each product is divided by ``coarsening``, towards zero, before it
    is summed: rounding a group's total instead would let every group of a unit move by a step more.
    """

    steps: int
    coarsening: int


@dataclass(frozen=True, slots=True)
class Measure:
    """One noisy integer per group: its kind, its argument (and its text) and its grids.

    ``weights`` is set where units with many groups are weighted; then it replaces the lattice's own
    coarsening.
    """

    kind: MeasureKind
    argument: exp.Expr | None = None
    text: str = ""
    lattice: Lattice | None = None
    weights: WeightGrid | None = None

    def weighted(self, steps: int, max_rows_contributed: int) -> Measure:
        """The same measure of weighted units, a whole weight being ``steps``."""
        products = self.reach(max_rows_contributed) * steps
        coarsening = 1 << max(0, (products - 1).bit_length() - RELEASED_BITS)
        return replace(self, weights=WeightGrid(steps, coarsening))

    def reach(self, max_rows_contributed: int) -> int:
        """The most one unit adds to one group, in steps of the lattice's quantum."""
        if self.kind is MeasureKind.UNITS:
            return 1
        if self.lattice is None:
            return max_rows_contributed
        if self.kind is MeasureKind.SUM:
            return max_rows_contributed * max(abs(self.lattice.low), abs(self.lattice.high))
        return max_rows_contributed * self.lattice.half_width

    def sensitivity(self, max_rows_contributed: int) -> int:
        """How far one unit can move this measure in one group (Δ∞), in released steps.

        With weights it also bounds the l2 norm over all groups: a unit whose weights have the l2
        norm of g whole ones moves them by at most sqrt(g) times as much.
        """
        reach = self.reach(max_rows_contributed)
        if self.weights is not None:
            return max(1, -(-reach * self.weights.steps // self.weights.coarsening))
        return reach if self.lattice is None else self.lattice.released(reach)

    @property
    def monotone(self) -> bool:
        """True if adding a unit can only raise the measure (so selection costs half as much)."""
        if self.kind is MeasureKind.SUM:
            assert self.lattice is not None
            return self.lattice.low >= 0
        return self.kind is not MeasureKind.CENTERED_SUM

    @property
    def step(self) -> float:
        """The value of one released step, in the units of the answer."""
        if self.weights is not None:
            quantum = 1.0 if self.lattice is None else self.lattice.quantum
            return quantum * self.weights.coarsening / self.weights.steps
        return 1.0 if self.lattice is None else self.lattice.quantum * self.lattice.coarsening

    @property
    def integral(self) -> bool:
        """True if the measure is shown as an integer: counts, and sums of integers."""
        if self.lattice is None:
            return True
        return self.lattice.integral and self.lattice.quantum * self.lattice.coarsening >= 1.0

    @property
    def name(self) -> str:
        """A name for plans: ``units``, ``rows``, ``sum(dep_delay)``."""
        return f"{self.kind.value}({self.text})" if self.text else self.kind.value


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the select list: its kind and the measures (by index) it is computed from."""

    kind: AggregateKind
    measures: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Key:
    """A GROUP BY key. ``domain`` holds its declared values, or None where keys are unknown."""

    expression: exp.Expr
    text: str
    domain: tuple[object, ...] | None


@dataclass(frozen=True, slots=True)
class TopK:
    """ORDER BY one aggregate DESC LIMIT k: ``measure`` is the score, by index."""

    measure: int
    limit: int


@dataclass(frozen=True, slots=True)
class Source:
    """The rows a block reads: a FROM clause of generated SQL, and the columns it has there.

    ``catalog`` is True for one table as it stands in the catalog.
    """

    sql: str
    table: Table
    catalog: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A private block: what is counted, per which keys, over which rows.

    ``table`` names the private tables behind ``source``, for people. ``mechanism`` is the one its
    OPTIONS ask for, by name, if any.
    """

    name: str
    table: str
    source: Source
    unit_name: str
    unit_column: str
    condition: exp.Expr | None
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    aggregates: tuple[Aggregate, ...]
    top_k: TopK | None
    parameters: Parameters
    mechanism: str | None = None

    @property
    def known_domain(self) -> bool:
        """True if every key's values are declared, so absent groups are answered too."""
        return all(key.domain is not None for key in self.keys)

    @property
    def domain_size(self) -> int:
        """Number of groups of a known domain (1 without keys)."""
        size = 1
        for key in self.keys:
            assert key.domain is not None
            size *= len(key.domain)
        return size

    def key_column(self, index: int) -> str:
        """The internal column name of a key in exact and released rows."""
        return f"{INTERNAL_PREFIX}k{index}"

    def aggregate_column(self, index: int) -> str:
        """The internal column name of an aggregate in released rows."""
        return f"{INTERNAL_PREFIX}a{index}"

    def measure_column(self, index: int) -> str:
        """The internal column name of a measure in exact rows."""
        return f"{INTERNAL_PREFIX}m{index}"

    def support_column(self, index: int) -> str:
        """The released column that an average's interval needs: its noisy count."""
        return f"{INTERNAL_PREFIX}n{index}"


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the final answer and, where it is an aggregate as released, which one."""

    block: int
    aggregate: int


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One ORDER BY term of a plain tail: a released column, its direction, where NULLs go."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class PlainTail:
    """A tail that only names, sorts and limits the released columns of one block.

    ``columns`` are released columns, ``names`` what the answer calls them.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    order: tuple[SortTerm, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Query:
    """A validated statement: its private blocks, its tail, and the public tables the tail reads.

    ``tail`` is generated SQL over the blocks' released tables and the public tables.
    ``outputs`` says which columns of the answer are aggregates as released (it is empty where the
    tail is too involved to tell); ``supports`` lists the hidden trailing columns that intervals
    need; ``plain`` is the tail as a value, where it is plain and nothing in the statement can fail.
    """

    text: str
    blocks: tuple[Block, ...]
    tail: str
    public_tables: tuple[str, ...]
    outputs: tuple[OutputColumn | None, ...]
    supports: tuple[OutputColumn, ...]
    plain: PlainTail | None
    fingerprint: str
