"""The choice of the number of rows per unit: its SQL, its draw, and its release as bytes.

It is bought before the block whose rows it bounds, and by itself. What is chosen is a number of the
account's: later questions over the same rows and keys, at about the same price, have it for
nothing.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource, Reads
from dpsql.ir.plan import BlockPlan, PreparedRowsChoice
from dpsql.kinds.stored_json import json_object, require_sound
from dpsql.privacy.mechanisms.rows_choice import WHOLE_WEIGHT, RowsChoice
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.sql.expressions.proven_integers import MOST_ROWS, column
from dpsql.sql.rewrite.rows import PrivateRows

_PARTS: Final = frozenset({"rows choice", "rows"})
_VERSION: Final = 1


def rows_choice_sql(plan: BlockPlan, choice: RowsChoice, dialect: Dialect) -> Sql:
    """Write the exact row of a choice: a row id, and the weight of pairs between each two rungs.

    All are 0 over no rows. Sensitivity: when one unit is added, the weights grow by at most
    ``WHOLE_WEIGHT`` together, and none falls. Checked by ``tests/kinds/test_rows_choice_kind.py``.
    """
    rows, derived = PrivateRows(plan, 0, dialect), dialect.derived
    found, place, weight = (rows.internal(part) for part in ("found", "place", "weight"))
    pair = join(", ", [rows.unit, *rows.keys])
    pairs = sql(
        "SELECT {pair}, count(*) AS {found} FROM {rows} GROUP BY {pair}",
        pair=pair,
        found=found,
        rows=dialect.to_group(derived(rows.select()), [rows.unit, *rows.keys]),
    )
    number = sql("count(*) OVER (PARTITION BY {})", rows.unit)
    counted = sql("SELECT *, {} AS {} FROM {}", number, rows.number, derived(pairs))
    groups = column(rows.number, 1, MOST_ROWS, dialect=dialect)
    weighted = sql(
        "SELECT {} AS {}, {} AS {} FROM {}",
        _place(choice, found),
        place,
        (WHOLE_WEIGHT // groups).narrowed().sql,
        weight,
        derived(counted),
    )
    whole = column(weight, 0, WHOLE_WEIGHT, dialect=dialect)
    by_place = sql(
        "SELECT {place}, {} AS {weight} FROM {} GROUP BY {place}",
        whole.sum_over(1).narrowed().sql,
        derived(weighted),
        place=place,
        weight=weight,
    )
    total = column(weight, 0, WHOLE_WEIGHT * MOST_ROWS, dialect=dialect)
    sums = [
        sql(
            "{} AS {}",
            total.only_if(sql("{} = {}", place, digits(index))).sum_over(1).narrowed().sql,
            quoted(column_name),
        )
        for index, column_name in enumerate(_columns(choice))
    ]
    return sql("SELECT 1 AS {}, {} FROM {}", rows.row_id, join(", ", sums), derived(by_place))


def _place(choice: RowsChoice, found: Sql) -> Sql:
    """Write the number of rungs below a pair's rows."""
    cases = (
        sql("WHEN {} <= {} THEN {}", found, digits(rung), digits(index))
        for index, rung in enumerate(choice.rungs)
    )
    return sql("CASE {} ELSE {} END", join(" ", cases), digits(len(choice.rungs)))


def _columns(choice: RowsChoice) -> list[str]:
    return [f"{INTERNAL_PREFIX}weight{place}" for place in range(len(choice.rungs) + 1)]


def read_weights(source: PrivateSource, prepared: PreparedRowsChoice) -> list[int]:
    """Read the exact weights of pairs between rungs: of shape (rungs + 1,), in steps."""
    columns = _columns(prepared.choice)
    rows = source.over(Reads(prepared.tables)).exact(prepared.statement, (), columns)
    return [int(np.asarray(rows.measures[name])[0]) for name in columns]


def release_rows(prepared: PreparedRowsChoice, weights: list[int], source: EntropySource) -> int:
    """Draw the number of rows. Guarantee: ``prepared.choice.loss``."""
    return prepared.choice.draw(weights, source)


def encode_rows(rows: int) -> bytes:
    """Pack a chosen number of rows into bytes."""
    return json.dumps({"rows choice": _VERSION, "rows": rows}, separators=(",", ":")).encode()


def decode_rows(prepared: PreparedRowsChoice, payload: bytes) -> int | None:
    """Unpack a chosen number of rows; None if it is of another version, or of another ladder.

    Raises ``LedgerError`` (``ledger_corrupt``) for what no choice was packed as.
    """
    document = json_object(payload)
    require_sound(document.keys() == _PARTS)
    rows = document["rows"]
    require_sound(type(rows) is int)
    known = document["rows choice"] == _VERSION and rows in prepared.choice.rungs
    return rows if known else None
