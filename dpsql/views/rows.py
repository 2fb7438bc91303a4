"""The rows of a view as a table: the releases of all published steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import table_sql
from dpsql.core.sql import join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT
from dpsql.engines.embedded.running import execute
from dpsql.ir.relations import PublishedView
from dpsql.pipeline.tail.rooms import Stay
from dpsql.sql.blocks.view_intervals import STEP
from dpsql.views.plan import ViewPlan
from dpsql.views.prepare import AS_OF, PreparedView
from dpsql.views.publication import GroupTexts, StepRelease

_ROWS = "__dpsql_rows"


@dataclass(frozen=True, slots=True)
class ViewRows:
    """All published rows: arrays of shape (rows,) by the names of columns, keys as texts."""

    view: PreparedView
    columns: dict[str, NDArray[Any]]

    def make(self, source: PublishedView, stay: Stay) -> None:
        """Make the table of a view in a room, in place of an earlier one."""
        selected = [
            quoted(STEP),
            sql("CAST({as_of} AS TIMESTAMP) AS {as_of}", as_of=quoted(AS_OF)),
            *(
                sql("TRY_CAST({n} AS {type}) AS {n}", n=quoted(c.name), type=c.type.sql)
                for c in self.view.columns
            ),
        ]
        table = table_sql(source.table.name)
        rows = sql("SELECT {} FROM {}", join(", ", selected), quoted(_ROWS))
        with stay.registered(rows=self.columns):
            # In one statement: a name that the engine has views of its own by is dropped nowhere.
            execute(stay.cursor, sql("CREATE OR REPLACE TABLE {} AS {}", table, rows))
        stay.own.add(source)


def view_rows(view: PreparedView, releases: Iterable[StepRelease]) -> ViewRows:
    """Put the releases of a view's steps together, in the order of the steps."""
    plan, found = view.plan, list(releases)
    steps = plan.definition.steps
    sizes = [len(release.groups) for release in found]
    ends = np.array([np.datetime64(steps.end(r.step), "us") for r in found], dtype="datetime64[us]")
    columns: dict[str, NDArray[Any]] = {
        STEP: np.repeat(np.array([r.step for r in found], dtype=np.int64), sizes),
        AS_OF: np.repeat(ends, sizes),
    }
    for column in view.columns:
        if column.key is not None:
            texts = _texts_of(plan, column.key)
            values = [texts(group) for release in found for group in release.groups]
            columns[column.name] = np.array(values, dtype=object)
        elif column.aggregate is not None:
            name = plan.block.aggregate_column(column.aggregate)
            parts = [release.values[name] for release in found]
            kind = np.int64 if column.type == BIGINT else np.float64
            columns[column.name] = np.concatenate(parts) if parts else np.empty(0, dtype=kind)
    return ViewRows(view, columns)


def _texts_of(plan: ViewPlan, index: int) -> Callable[[GroupTexts], str | None]:
    """Return what gives a key of a group as text: itself, or the declared value at its place."""
    if not plan.block.known_domain:
        return lambda group: group[index]
    texts = [_text(value) for value in plan.block.keys[index].domain or ()]
    return lambda group: texts[int(group[index] or 0) - 1]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
