"""Candidates of completion: the words of dpsql's SQL, and names of the policy and of the shell.

Other words may work, as anything goes on top. Names that the policy has not, no analyst may know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from dpsql.core.quoting import quote
from dpsql.core.schema import Schema, fold
from dpsql.core.table_name import TableName
from dpsql.core.wordlists import phrases, words
from dpsql.ir.measures import AggregateKind
from dpsql.policy.model import Policy
from dpsql.policy.parameters import (
    AUTO,
    NO_AGE,
    PARAMETER_NAMES,
    PARAMETERS,
    UNLIMITED,
    Automatic,
)
from dpsql.syntax.row_functions import ROW_FUNCTIONS

AGGREGATES: Final = tuple(sorted({name for kind in AggregateKind for name in kind.value.written}))
NOISE: Final = ("DP_INTERVAL_HIGH", "DP_INTERVAL_LOW", "DP_NOISE_SCALE")
FUNCTIONS_OF_ROWS: Final = (
    *words(
        """
        ABS CAST CEIL COALESCE CONCAT DATE_DIFF DATE_TRUNC EXTRACT FLOOR GREATEST LEAST LEFT NULLIF
        RIGHT ROUND SIGN SUBSTRING TRIM TRUNC TRY_CAST
        """
    ),
    *sorted({function.name.upper() for function in ROW_FUNCTIONS.values()}),
)
WINDOW_FUNCTIONS: Final = ("DENSE_RANK", "LAG", "LEAD", "RANK", "ROW_NUMBER")
SQL_FUNCTIONS: Final = tuple(sorted((*AGGREGATES, *NOISE, *FUNCTIONS_OF_ROWS, *WINDOW_FUNCTIONS)))

OF_VIEWS: Final = tuple(f"{verb} MATERIALIZED VIEW" for verb in ("CREATE", "DROP", "REFRESH"))
"""How statements about a view begin."""
STARTS: Final = tuple(
    sorted(
        (
            "DESCRIBE",
            "EXPLAIN",
            "PIVOT",
            "RESET",
            "SELECT",
            "SET",
            "SHOW",
            "SUMMARIZE",
            "UNPIVOT",
            "WITH",
            *OF_VIEWS,
        )
    )
)
VIEW_OPTIONS: Final = (
    *("continual", "margin", "schedule", "start", "step", "steps", "switches"),
    *("unit_contributes", "window"),
)
"""Options of CREATE MATERIALIZED VIEW beside the privacy parameters."""
SHOW_WORDS: Final = ("BUDGET", "MATERIALIZED VIEWS", "PARAMETERS", "TABLES")
KEYWORDS: Final = phrases(
    """
    ALL, AND, AS, ASC, BETWEEN, BY, CASE, CUBE, DESC, DIFFERENTIAL_PRIVACY, DISTINCT, ELSE, END,
    EXCEPT, EXISTS, FALSE, FILTER, FROM, FULL, GROUP BY, GROUPING SETS, HAVING, ILIKE, IN,
    INNER, INTERSECT, INTERVAL, IS, JOIN, LEFT, LIKE, LIMIT, NOT, NULL, NULLS LAST, OFFSET, ON,
    OPTIONS, OR, ORDER BY, OVER, PARTITION BY, QUALIFY, RIGHT, ROLLUP, SELECT, THEN, TRUE,
    UNION, UNION ALL, USING, WHEN, WHERE, WITH, WITHIN GROUP
    """
)


_PLAIN = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset(fold(word) for keyword in KEYWORDS for word in keyword.split())


@dataclass(frozen=True, slots=True)
class Nameable:
    """``tables`` are the columns of each table and view, ``parameters`` values for each privacy
    parameter: the policy's default and its maximum. ``views`` names the views among the tables."""

    tables: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, tuple[str, ...]]
    views: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: Policy, schema: Schema) -> Nameable:
        """List the names that a policy gives to analysts."""
        tables = {
            table_spelled(table.name): tuple(
                spelled(column.name) for column in schema[table.name.key].columns
            )
            for table in policy.tables.values()
        }
        return cls(tables, {name: _values(policy, name) for name in PARAMETER_NAMES})

    def with_views(self, views: Mapping[str, tuple[str, ...]]) -> Nameable:
        """Return the catalog with these materialized views, by name with columns, and no others."""
        tables = {name: found for name, found in self.tables.items() if name not in self.views}
        named = {spelled(name): tuple(map(spelled, found)) for name, found in views.items()}
        return replace(self, tables={**named, **tables}, views=tuple(named))


def spelled(name: str) -> str:
    """Write a name as it is in SQL, quoted where it has to be."""
    return name if _PLAIN.fullmatch(name) and fold(name) not in _RESERVED else quote(name)


def table_spelled(name: TableName) -> str:
    """Write the name of a table as it is in SQL, with its schema unless that is ``main``."""
    parts = [name.table] if name.in_main else [name.schema, name.table]
    return ".".join(map(spelled, parts))


def _values(policy: Policy, name: str) -> tuple[str, ...]:
    spec = PARAMETERS[name]
    if spec.words:
        return spec.words
    default = getattr(policy.defaults, name)
    if spec.period:
        return ("'1 day'", "'7 days'", NO_AGE)
    usual = default.usual if isinstance(default, Automatic) else default
    given = [usual, getattr(policy.maxima, name, None)]
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in given if value]
    if spec.unlimited and getattr(policy.maxima, name) is UNLIMITED:
        texts.append("unlimited")
    if spec.automatic is not None:
        texts.append(AUTO)
    return tuple(dict.fromkeys(texts))


class Argument(Enum):
    """The kind of argument of a backslash command."""

    NOTHING = "nothing"
    NUMBER = "number"
    TABLE = "table"
    FILE = "file"
    NAME = "name of a setting"
    SETTING = "setting and value"
    FORMAT = "format"
    SHARE = "share"
    SWITCH = "switch"
    TOPIC = "topic"
    COLUMN = "column"
    SQL = "SQL"
    QUERY = "saved query"
    NAMED_SQL = "name and SQL"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that would replace the last ``length`` characters before the cursor."""

    text: str
    length: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """All names for completion: of the database, commands, the last answer and saved queries."""

    catalog: Nameable
    commands: Mapping[str, Argument] = field(default_factory=dict)
    answer: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()


def matching(prefix: str, texts: Iterable[str], note: str) -> Iterator[Suggestion]:
    """Yield the texts that begin as typed, in any case; a quoted name also without its quotes."""
    begun = fold(prefix)
    for text in texts:
        if fold(text).startswith(begun) or fold(text.lstrip('"')).startswith(begun):
            yield Suggestion(text, len(prefix), note)
