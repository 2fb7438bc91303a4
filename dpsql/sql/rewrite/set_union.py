"""The SQL of set unions: which units have which keys, and what each unit's keys weigh.

Tables are stored one after the other, each by a generated SELECT over earlier ones:

* ``kept``: the distinct pairs of unit and keys, of which a unit keeps its first
  ``max_groups_contributed`` in the order of a salted hash;
* ``keys``: every kept key with a row id, its rank among them;
* for fixed weights, ``keys`` also has the sum of what units give to each;
* for a policy, ``pairs``: the kept pairs as numbers, the unit's position in the order of a salted
  hash and the key's row id.

The rank of keys depends on no more than which keys there are, and the position of one unit
relative to another on these two units alone: what the proof of the policies relies on.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID, quote
from dpsql.core.schema import Table
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.set_union import SetUnion, Weighting
from dpsql.mechanisms.set_union_weights import STEPS
from dpsql.sql.expressions.proven_integers import Ranged, column
from dpsql.sql.rewrite.rows import UNIT, PrivateRows

KEPT, KEYS, UNITS, PAIRS = (
    f"{INTERNAL_PREFIX}{name}" for name in ("kept", "keys", "units", "pairs")
)
_POSITION, _WEIGHT, _SIZE = (
    quote(f"{INTERNAL_PREFIX}{name}") for name in ("position", "weight", "size")
)
_ROW_ID = quote(ROW_ID)
_SATURATION = 2**62


@dataclass(frozen=True, slots=True)
class SetUnionSQL:
    """The statements of one set union.

    ``tables`` are names and SELECTs, to be stored in this order; those in ``scratch`` are not
    needed once all are. ``weights`` lists the keys' weights in order of row id, in steps; it is
    None for a policy. ``named`` takes a list of row ids and returns these and their keys. ``sql``
    is all of it as one statement: row id and keys, then the weight, or for a policy the position
    of each unit that has them.
    """

    tables: tuple[tuple[str, str], ...]
    scratch: tuple[str, ...]
    weights: str | None
    named: str
    sql: str


PAIRS_BETWEEN = (
    f"SELECT {_POSITION}, {_ROW_ID} - 1 FROM {quote(PAIRS)} "
    f"WHERE {_POSITION} >= ? AND {_POSITION} < ? ORDER BY {_POSITION}, {_ROW_ID}"
)
"""Positions and key codes, from 0, of the units between two positions (from 0), in order."""


def set_union_sql(plan: BlockPlan, table: Table, salt: int) -> SetUnionSQL:
    """The statements of a set union's plan; ``salt`` is a fresh random number for each query.

    Sensitivity: ``SetUnion.sensitivity`` for the weights they lead to. One unit is in
    at most ``plan.groups`` pairs; without it, all other pairs stay, and their order too. Checked by
    ``tests/sql/test_set_union_sql.py``.
    """
    union, rows = plan.selection, PrivateRows(plan, table, salt)
    assert isinstance(union, SetUnion)
    return _policy(rows) if union.weighting is Weighting.POLICY else _fixed(rows, union.norm)


def _fixed(rows: PrivateRows, norm: int) -> SetUnionSQL:
    """Every key has the sum of what units give it: equal shares of one, rounded down."""
    keys = ", ".join(rows.keys)
    total = f"{_share(norm).sum().at_most(_SATURATION).narrowed().sql} AS {_WEIGHT}"
    sizes = f"SELECT {UNIT}, count(*) AS {_SIZE} FROM {quote(KEPT)} GROUP BY {UNIT}"
    weighed = (
        f"SELECT {keys}, {total} FROM {quote(KEPT)} JOIN ({sizes}) USING ({UNIT}) GROUP BY {keys}"
    )
    tables = ((KEPT, _kept(rows)), (KEYS, f"SELECT {_ranked(rows)}, {_WEIGHT} FROM ({weighed})"))
    in_order = f"FROM {quote(KEYS)} ORDER BY {_ROW_ID}"
    return SetUnionSQL(
        tables=tables,
        scratch=(KEPT,),
        weights=f"SELECT {_WEIGHT} {in_order}",
        named=_named(rows),
        sql=_as_one(tables, f"SELECT {_ROW_ID}, {keys}, {_WEIGHT} {in_order}"),
    )


def _share(norm: int) -> Ranged:
    """What a unit gives each of its keys: in float64 as in SetUnion.item_weights, for every size
    that it allows."""
    share = f"{STEPS} // {_SIZE}" if norm == 1 else f"floor({STEPS} / sqrt({_SIZE}))"
    return column(f"CAST({share} AS BIGINT)", 0, STEPS)


def _policy(rows: PrivateRows) -> SetUnionSQL:
    """Units and keys become numbers; pairs of them are sorted as the pass takes them."""
    keys = ", ".join(rows.keys)
    distinct_keys = f"SELECT DISTINCT {keys} FROM {quote(KEPT)}"
    position = f"row_number() OVER (ORDER BY {rows.hashed([UNIT])}, {UNIT}) - 1 AS {_POSITION}"
    same_keys = " AND ".join(f"p.{key} IS NOT DISTINCT FROM k.{key}" for key in rows.keys)
    order = f"ORDER BY {_POSITION}, {_ROW_ID}"
    tables = (
        (KEPT, _kept(rows)),
        (KEYS, f"SELECT {_ranked(rows)} FROM ({distinct_keys})"),
        (UNITS, f"SELECT {UNIT}, {position} FROM (SELECT DISTINCT {UNIT} FROM {quote(KEPT)})"),
        (
            PAIRS,
            f"SELECT {_POSITION}, {_ROW_ID} FROM {quote(KEPT)} p "
            f"JOIN {quote(KEYS)} k ON {same_keys} JOIN {quote(UNITS)} USING ({UNIT}) {order}",
        ),
    )
    last = (
        f"SELECT {_ROW_ID}, {keys}, {_POSITION} "
        f"FROM {quote(PAIRS)} JOIN {quote(KEYS)} USING ({_ROW_ID}) {order}"
    )
    return SetUnionSQL(
        tables=tables,
        scratch=(KEPT, UNITS),
        weights=None,
        named=_named(rows),
        sql=_as_one(tables, last),
    )


def _kept(rows: PrivateRows) -> str:
    columns = ", ".join([UNIT, *rows.keys])
    pairs = f"SELECT DISTINCT {columns} FROM ({rows.select()})"
    return f"SELECT {columns} FROM {rows.capped(pairs)}"


def _ranked(rows: PrivateRows) -> str:
    keys = ", ".join(rows.keys)
    return f"row_number() OVER (ORDER BY {keys}) AS {_ROW_ID}, {keys}"


def _named(rows: PrivateRows) -> str:
    columns = ", ".join([_ROW_ID, *rows.keys])
    return f"SELECT {columns} FROM {quote(KEYS)} WHERE {_ROW_ID} IN (SELECT unnest(?::BIGINT[]))"


def _as_one(tables: tuple[tuple[str, str], ...], last: str) -> str:
    steps = ", ".join(f"{quote(name)} AS MATERIALIZED ({sql})" for name, sql in tables)
    return f"WITH {steps} {last}"
