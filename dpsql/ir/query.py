"""A query: a statement split into private blocks and a public tail.

A *private block* aggregates over one table that carries a privacy unit; it is the only part that
touches protected rows. The *tail* is everything above the blocks and sees released rows only.
Values here are complete at birth and never change; nothing in this module knows noise or budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Table
from dpsql.core.sql import Sql, Written
from dpsql.core.sql_types import SqlType
from dpsql.errors import Place
from dpsql.ir.measures import CENTERED, SUMS_OF_VALUES, Aggregate, Measure, MeasureKind, Quantile
from dpsql.ir.relations import EachRow, PublicSource, RowSet, Scan, bottom_up
from dpsql.ir.terms import Term
from dpsql.policy.model import ColumnPolicy
from dpsql.policy.parameters import ContributionBounding, Parameters

_FEW_STEPS: Final = 64
_CLOSEST: Final = 2**-9  # bounds of values that are next to 0

DECLARED_BOUNDS: Final = "declared bounds"
"""The origin of a key's values that rows outside of these bounds do not have."""
DECLARED_VALUES: Final = "declared values"
"""The origin of a key's values that rows with none of the declared ones do not have."""
OF_PUBLIC_ROWS: Final = "the rows"
"""The beginning of the origin of values that public rows have: NULL is one of theirs."""
OF_CASE: Final = "CASE"
"""The origin of a key's values that are the constants of a CASE."""


@dataclass(frozen=True, slots=True)
class Key:
    """A GROUP BY key. ``domain`` holds all values it can have, or None where they are unknown.

    They are declared of a column; or else they follow from ``origin``, in words, and may have NULL
    at their end. ``type`` is then that of the expression.
    """

    expression: exp.Expr
    text: str
    domain: tuple[object, ...] | None
    origin: str = ""
    type: SqlType | None = None


@dataclass(frozen=True, slots=True)
class TopK:
    """ORDER BY one aggregate DESC LIMIT k: ``measure`` is the score, by index.

    ``unseen``: it is the only aggregate, and only the order of the groups is made of it.
    """

    measure: int
    limit: int
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class LimitedOrder:
    """ORDER BY what noisy values have a part in, and LIMIT: of ``number`` rows, or ``percent``.

    ``measures`` are those behind these values, by index. It is no :class:`TopK`: the smallest
    values may be asked for, or the order may be that of an expression.
    """

    measures: tuple[int, ...]
    number: float
    percent: bool = False

    def shown(self, released: int) -> int:
        """Return how many of the released groups are shown."""
        number = self.number / 100 * released if self.percent else self.number  # as the tail does
        return min(int(number), released)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Source:
    """The rows of a block, and their columns.

    ``declared`` are the keys that any question over these rows could have whose values are
    declared, under the policy as it is now; ``bounds`` has what it declares of columns with bounds.
    ``edition`` is that of the data, in the owner's words. ``given`` are the public rows that an
    outer join keeps: their groups are answered, and no others. ``share`` is the probability of
    each privacy unit to be in a sample, whose rows alone are read; None where all are.
    """

    rows: RowSet
    table: Table
    declared: tuple[Key, ...] = ()
    edition: str = ""
    bounds: tuple[tuple[str, ColumnPolicy], ...] = ()
    given: RowSet | None = None
    share: Fraction | None = None

    @property
    def catalog(self) -> bool:
        """True for one table as it stands in the catalog."""
        return isinstance(self.rows, Scan)

    @property
    def share_text(self) -> str:
        """The share of units in the sample, in words: ``10%``."""
        return "100%" if self.share is None else f"{float(100 * self.share):.6g}%"


@dataclass(frozen=True, slots=True)
class Follower:
    """A key that another key decides: a column of the tail and no key of the release.

    ``place`` is its place among the keys that were asked for, ``by`` that of the other. ``values``
    are all values of the other, each with its own.
    """

    place: int
    by: int
    type: SqlType
    values: tuple[tuple[object, object], ...]


def range_text(bounds: tuple[float, float]) -> str:
    """Write the bounds of a value in words: ``0 to 96``."""
    lower, upper = bounds
    return f"{lower:,.10g} to {upper:,.10g}"


@dataclass(frozen=True, slots=True)
class UnboundedValue:
    """A value that is summed and has no public bounds, ``whole`` if it is an integer.

    ``bounds`` are those that were found, or until then some by which its noise can be told. They
    are the ``usual`` ones of a view where too few units had values to find any.
    """

    argument: exp.Expr
    text: str
    whole: bool
    bounds: tuple[float, float]
    usual: bool = False

    @property
    def range(self) -> str:
        """The bounds in words: ``0 to 96``."""
        return range_text(self.bounds)

    @property
    def closest(self) -> bool:
        """True if its bounds are as close as they can be: of few units no others can be found."""
        lower, upper = self.bounds
        return upper - lower <= _CLOSEST


@dataclass(frozen=True, slots=True)
class BoundsFound:
    """The bounds that are found privately: of a unit's rows in a group, of its groups, of values.

    ``most_rows`` and ``most_groups`` are the largest that can be, None without a limit. ``known``:
    they are found, and the block has them.
    """

    rows: bool = False
    groups: bool = False
    most_rows: int | None = None
    most_groups: int | None = None
    values: tuple[UnboundedValue, ...] = ()
    known: bool = False


class NoiseFigure(Enum):
    """A figure of the noise on an aggregate."""

    LOW = "interval_low"
    HIGH = "interval_high"
    SCALE = "noise_scale"


@dataclass(frozen=True, slots=True)
class NoiseColumn:
    """A released column that says something of the noise on an aggregate, given by its index."""

    aggregate: int
    figure: NoiseFigure
    confidence: float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Block:
    """A private block: aggregates per group of keys over the rows of a source.

    ``table`` names the private tables behind ``source``, for people. ``mechanism`` is the one its
    OPTIONS ask for, by name, if any. ``noise_columns`` say what its tail asks of the noise.
    ``fresh`` asks for new noise even where the same was answered before. ``pools`` says that its
    values are pooled from several releases, and that each row says from which. ``counted`` says
    that its tail aggregates or excludes the groups that come out, of which small ones are missing.
    ``groups_chosen`` says what became of a number of groups that nobody gave, and why; empty where
    one was given, or ``auto`` by name, and until it is decided. ``most_rows`` and ``most_groups``
    are how many rows a unit has in a group, and in how many groups it is, by what the owner
    declares, where that was less than what was asked for; ``unit_rows`` and ``unit_groups`` are the
    same whatever was asked for, None where nothing is declared. ``table_defaults`` are the
    parameters that a table's defaults decided, by name, each with that table's. ``step_number``
    says of a row in which of several steps of a view it counts first, where these are read
    together. ``bounds_found`` says which bounds are found privately, and whether they are found
    yet: until then they are the usual ones. None where they were given, or change nothing.
    ``followers`` are keys that its tail says by others. ``public_groups`` asks to refuse it unless
    all keys are known. ``limited`` is an ORDER BY and LIMIT that its tail alone applies, to groups
    that were named without it. ``limited_order`` is one that no top-k can answer.
    ``chosen_after`` says that further clauses may choose rows by noisy values: HAVING, QUALIFY,
    OFFSET, or a LIMIT of an expression.
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
    noise_columns: tuple[NoiseColumn, ...] = ()
    fresh: bool = False
    pools: bool = False
    groups_chosen: str = ""
    counted: bool = False
    most_rows: int | None = None
    most_groups: int | None = None
    unit_rows: int | None = None
    unit_groups: int | None = None
    table_defaults: tuple[tuple[str, str], ...] = ()
    step_number: exp.Expr | None = None
    bounds_found: BoundsFound | None = None
    followers: tuple[Follower, ...] = ()
    public_groups: bool = False
    limited: TopK | None = None
    limited_order: LimitedOrder | None = None
    chosen_after: bool = False

    @property
    def chosen_by(self) -> TopK | None:
        """ORDER BY and LIMIT over its groups, whoever applies them; None without."""
        return self.top_k or self.limited

    @property
    def chooses_rows(self) -> bool:
        """True if a clause may choose among its groups by noisy values."""
        return self.chosen_after or bool(self.chosen_by or self.limited_order)

    def chosen_of(self, released: int) -> int:
        """Return how many of the released groups ORDER BY and LIMIT choose by noisy values."""
        if self.limited_order is not None:
            return self.limited_order.shown(released)
        return released if self.chosen_by is None else min(self.chosen_by.limit, released)

    @property
    def rows_are_units(self) -> bool:
        """True if each row is a unit of its own: every unit has one row, by construction."""
        return any(isinstance(node, EachRow) for node in bottom_up(self.source.rows))

    def tells_nothing(self, aggregate: int) -> bool:
        """Tell whether an aggregate is of values that no bounds but 0 and 0 were found of."""
        found = self.bounds_found
        if found is None or not found.known:
            return False
        cut = [each.argument for each in found.values if each.bounds == (0, 0)]
        measures = (self.measures[index] for index in self.aggregates[aggregate].measures)
        return any(each.argument in cut for each in measures if each.kind in SUMS_OF_VALUES)

    @property
    def valued(self) -> tuple[exp.Expr, ...]:
        """The expressions of the block over each row: keys, then measured values."""
        measured = (each.argument for each in self.measures if each.argument is not None)
        ranked = (each.ranked.argument for each in self.quantiles)
        return (*(key.expression for key in self.keys), *measured, *ranked)

    @property
    def computed(self) -> tuple[exp.Expr, ...]:
        """The expressions of the block over each row, with the condition last."""
        return self.valued if self.condition is None else (*self.valued, self.condition)

    @property
    def known_domain(self) -> bool:
        """True if every key's values are known, so absent groups are answered too."""
        return all(key.domain is not None for key in self.keys)

    @property
    def keys_made(self) -> bool:
        """True if all values of its keys are known, and not all of them declared."""
        return self.known_domain and any(key.origin for key in self.keys)

    @property
    def known_word(self) -> str:
        """How the groups of a known domain are called: ``declared``, or else ``known``."""
        return "known" if self.keys_made else "declared"

    @property
    def bounds_to_find(self) -> dict[str, int]:
        """The contribution bounds that are found privately, by parameter: the usual until then."""
        found = self.bounds_found or BoundsFound()
        bounds = {
            "max_rows_contributed": self.parameters.rows_limit if found.rows else None,
            "max_groups_contributed": self.parameters.groups_limit if found.groups else None,
        }
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def rests_on_open(self, aggregate: Aggregate) -> bool:
        """Tell whether bounds of values that are to be found decide the noise of an aggregate."""
        found = self.bounds_found
        if found is None or found.known:
            return False
        measured = [self.measures[measure].argument for measure in aggregate.measures]
        return any(value.argument in measured for value in found.values)

    @property
    def cascades(self) -> bool:
        """True if its groups are named in rounds: none is declared, and no number of groups given.

        A top-k that can rank its groups needs no such number.
        """
        return self.parameters.automatic and not self.known_domain and not self.ranks_groups

    @property
    def ranks_groups(self) -> bool:
        """True if a top-k mechanism can answer it.

        With a minimum of units per group only numbers of units can rank: a unit may carry a group
        across the minimum, and its whole score with it.
        """
        top_k, parameters = self.top_k, self.parameters
        if top_k is None or top_k.limit > parameters.k_bar:
            return False
        units = self.measures[top_k.measure].kind is MeasureKind.UNITS
        return units or parameters.min_units_per_group == 1

    @property
    def hides_small_groups(self) -> bool:
        """True if declared groups are left out where their noisy number of units is too small."""
        return self.known_domain and bool(self.keys) and self.parameters.min_units_per_group > 1

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """The quantiles asked for, each once."""
        found = (a.quantile for a in self.aggregates if a.quantile is not None)
        return tuple(dict.fromkeys(found))

    @property
    def totals(self) -> bool:
        """True if counts or sums are asked for, which lose whatever bounding leaves out."""
        return any(a.quantile is None and not a.kind.composed for a in self.aggregates)

    @property
    def sums_alone(self) -> tuple[Measure, ...]:
        """The sums whose clamps a number of rows decides, where it decides nothing else.

        None where bounds of their values are to be found as well: those are drawn at once.
        """
        values = self.bounds_found is not None and self.bounds_found.values
        return () if values else self._bounded_alone(MeasureKind.SUM)

    @property
    def values_alone(self) -> tuple[Measure, ...]:
        """The counts of distinct values that a number of rows bounds, where it bounds no other."""
        return () if self._rows_once else self._bounded_alone(MeasureKind.DISTINCT)

    @property
    def averages_alone(self) -> tuple[Measure, ...]:
        """The sums of averages and spreads that a number of rows bounds, where it bounds no other.

        None where bounds of their values are to be found as well, or a maximum error is asked for,
        or where values have so few steps that averages in whole steps would hide how they differ.
        """
        found = self.bounds_found
        exact = any(aggregate.max_error is not None for aggregate in self.aggregates)
        if exact or self.quantiles or self._rows_once or (found is not None and found.values):
            return ()
        bounded = {index for index, m in enumerate(self.measures) if m.bounded_by_rows}
        others = (each.measures for each in self.aggregates if not each.kind.composed)
        if any(index in bounded for measures in others for index in measures):
            return ()
        measures = (self.measures[index] for index in sorted(bounded))
        sums = tuple(each for each in measures if each.kind in CENTERED)
        coarse = any(m.lattice is None or m.lattice.half_width < _FEW_STEPS for m in sums)
        return () if coarse else sums

    @property
    def _rows_once(self) -> bool:
        """True if a number of rows that was found, 1, decides counts of rows: they are of units.

        What was alone when the number was drawn does not depend on which it is.
        """
        found = self.bounds_found is not None and self.bounds_found.rows
        return found and any(aggregate.one_row for aggregate in self.aggregates)

    def _bounded_alone(self, kind: MeasureKind) -> tuple[Measure, ...]:
        bounded = [m for m in self.measures if m.bounded_by_rows]
        others = any(m.kind is not kind for m in bounded) or self.quantiles
        return () if others else tuple(bounded)

    @property
    def weighted(self) -> bool:
        """True if units with many groups are to count less in each.

        Distinct values cannot: those that several units share have no weight of their own.
        """
        asked = self.parameters.contribution_bounding is ContributionBounding.WEIGHT
        return asked and all(m.kind is not MeasureKind.DISTINCT for m in self.measures)

    @property
    def domain_size(self) -> int:
        """The number of groups of a known domain (1 without keys)."""
        size = 1
        for key in self.keys:
            assert key.domain is not None
            size *= len(key.domain)
        return size

    def key_column(self, index: int) -> str:
        """Return the internal column name of a key in exact and released rows."""
        return f"{INTERNAL_PREFIX}k{index}"

    def aggregate_column(self, index: int) -> str:
        """Return the internal column name of an aggregate in released rows."""
        return f"{INTERNAL_PREFIX}a{index}"

    def measure_column(self, index: int) -> str:
        """Return the internal column name of a measure in exact rows."""
        return f"{INTERNAL_PREFIX}m{index}"

    def noise_column(self, index: int) -> str:
        """Return the internal column name of one of ``noise_columns`` in released rows."""
        return f"{INTERNAL_PREFIX}e{index}"

    def support_columns(self, index: int) -> tuple[str, ...]:
        """List the released columns that the interval of an aggregate needs beside it, if any.

        Of one that is computed from several measures: these, in the units of the answer. Where
        groups are named in rounds: the measures as they were counted, how much that supposedly
        takes from all groups together, and the cap of it. Where releases are combined: from which
        of them a row is, as the bits of a number.
        """
        aggregate = self.aggregates[index]
        parts = len(aggregate.measures) if aggregate.kind.composed or self.cascades else 0
        if self.cascades and parts:
            parts += 2
        elif self.pools and aggregate.measures:
            parts += 1
        return tuple(f"{INTERNAL_PREFIX}n{index}_{part}" for part in range(parts))

    def interval_columns(self, index: int) -> tuple[str, ...]:
        """List the released columns that the interval of an aggregate is computed from."""
        supports = self.support_columns(index)
        composed = self.aggregates[index].kind.composed
        return supports if composed else (self.aggregate_column(index), *supports)

    @property
    def told_columns(self) -> int:
        """The number of columns at the end of ``interval_columns`` that are no values."""
        return 2 if self.cascades else int(self.pools)


@dataclass(frozen=True, slots=True)
class SummedRows:
    """A sum of an aggregate over several rows of its released table, as a window takes.

    ``count`` is the place of the number of rows. ``least`` are the places of the columns that the
    interval needs, where those that are no values are the least of all rows, and not the greatest.
    ``own`` are those of one of the rows, which the sum leaves out; empty if it leaves out none.
    ``window`` tells windows apart.
    """

    count: int
    least: tuple[int, ...]
    own: tuple[int, ...]
    window: int


@dataclass(frozen=True, slots=True)
class ReleasedValue:
    """An aggregate of a block in the rows of the final answer, as it was released.

    ``columns`` are the places of the columns that its interval needs
    (``Block.interval_columns``), shown or hidden. Values with one ``source`` are of one row of the
    released table, or of all others beside it. ``repeated``: that row may be in several rows of the
    answer, as after a join.
    """

    block: int
    aggregate: int
    columns: tuple[int, ...]
    source: int = 0
    repeated: bool = False
    summed: SummedRows | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of the final answer that is computed from released values of each row.

    ``values`` are what the aggregates of the ``term`` are, and ``known`` the places of its known
    columns, by index. It is so in the rows where the columns at the places of ``branches`` have
    these numbers: each side of UNION ALL has its own.
    """

    term: Term
    values: tuple[ReleasedValue, ...]
    known: tuple[int, ...] = ()
    branches: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One ORDER BY term of a plain tail: a released column, its direction, where NULLs go."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class PlainTail:
    """A tail that only names, sorts and limits the released columns of one block.

    ``columns`` are released columns, ``names`` what the answer calls them. ``sure`` says that
    nothing in the whole statement can fail to bind, so that no types need to be checked.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    order: tuple[SortTerm, ...]
    limit: int | None
    offset: int
    sure: bool


class TailKind(Enum):
    """The resources that a tail may take."""

    SURE = "sure"  # values of bounded size, and no constant that could fail
    BOUNDED = "bounded"  # values of bounded size
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class PublicValue:
    """A subquery of the tail that stands for a value, over public tables alone.

    ``rows`` is a statement that has two rows where SQL allows one, written by the generator.
    """

    rows: str
    place: Place | None

    @property
    def rows_sql(self) -> Sql:
        """The statement as SQL."""
        return Sql(Written(self.rows))


@dataclass(frozen=True, slots=True)
class Query:
    """A validated statement: its private blocks, its tail, and the public tables the tail reads.

    ``tail`` is generated SQL over the blocks' released tables and the public tables, which stand
    here as what their names meant. ``run`` is the tail that is run: what fails for some released
    values is NULL in it. ``outputs`` says which columns of the answer are aggregates as released
    (it is empty where the tail is too involved to tell), ``computed`` what others compute from
    these; ``hidden`` is the number of trailing columns that only intervals need; ``plain`` is the
    tail as a value, where it is plain and nothing in the statement can fail; ``tail_kind`` says
    what running it may take; ``steady`` is True if the rows that it reads decide those that it
    gives, whenever it runs; ``casts`` is True if the analyst wrote casts in it; ``values`` are its
    subqueries that stand for a value.
    """

    text: str
    blocks: tuple[Block, ...]
    tail: str
    run: str
    public_tables: tuple[PublicSource, ...]
    outputs: tuple[ReleasedValue | None, ...]
    computed: tuple[tuple[ComputedColumn, ...], ...]
    hidden: int
    plain: PlainTail | None
    tail_kind: TailKind
    steady: bool = False
    casts: bool = False
    values: tuple[PublicValue, ...] = ()

    @property
    def tail_sql(self) -> Sql:
        """The tail as SQL: the validated tree as the parser's generator wrote it."""
        return Sql(Written(self.tail))

    @property
    def run_sql(self) -> Sql:
        """The tail that is run, as SQL."""
        return Sql(Written(self.run))
