"""Proposes other statements for a refused one: edits of its text, by what the refusal says.

Each rule is for some codes of errors. A proposal follows from the text of the statement and the
refusal alone, and may be wrong: whoever shows one has it explained first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dpsql.core.quoting import quote_text
from dpsql.errors import Error
from dpsql.syntax.split import without_comments

_NAME: Final = re.compile(r"Did you mean (.+?)\?")
_COUNT: Final = re.compile(r"SELECT key, (COUNT\(.+\)) FROM (.+) GROUP BY key")
_WORD: Final = re.compile(r"[^\W\d]\w*")
_CALLED: Final = re.compile(r"[^\W\d]\w*(?=\s*\()")
_UNITS: Final = re.compile(r"COUNT\(DISTINCT [^()]+\)")
_JOINED: Final = re.compile(r"… ON (.+)\.$")
_PARTITION: Final = re.compile(r"PARTITION BY has to name (.+)$")
_OVER: Final = re.compile(r"\bOVER\s*\(\s*(PARTITION\s+BY\b)?", re.IGNORECASE)
_GROUP: Final = re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE)
_LATER: Final = re.compile(r"\b(?:HAVING|QUALIFY|ORDER\s+BY|LIMIT)\b", re.IGNORECASE)
_SORTED: Final = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_LIMITED: Final = re.compile(r"\bLIMIT\b", re.IGNORECASE)
_NARROWED: Final = re.compile(
    r"\b(?:WHERE|JOIN|HAVING|QUALIFY|UNION|INTERSECT|EXCEPT|SAMPLE|TABLESAMPLE)\b", re.IGNORECASE
)
_AGGREGATE: Final = re.compile(r"\b(?:COUNT|SUM|AVG|MEDIAN|MIN|MAX)\s*\(", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9.]+")
_QUERY: Final = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
_IN_QUOTES: Final = re.compile(r'"([^"]*)"')
_LEAST: Final = re.compile(r"\b(?:MIN|MAX)\s*\(\s*$", re.IGNORECASE)
_ON: Final = re.compile(r"\bON\b", re.IGNORECASE)
_OR: Final = re.compile(r"\bOR\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RefusedStatement:
    """A refused statement: its text before, at and after the place, and what the refusal says.

    Its comments are blanks, as words in them are none of the statement. Without a place in it all
    of the text stands before.
    """

    before: str
    at: str
    after: str
    reason: str
    hint: str

    @classmethod
    def of(cls, sql: str, error: Error) -> RefusedStatement:
        """Cut a statement at the place of its refusal."""
        sql = without_comments(sql)
        place, start, end = error.place, len(sql), len(sql)
        if place is not None and place.source == "query":
            lines = sql.split("\n")
            start = sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1
            end = start + place.length
        return cls(sql[:start], sql[start:end], sql[end:], error.reason, error.hint or "")

    @property
    def sql(self) -> str:
        """The whole statement."""
        return f"{self.before}{self.at}{self.after}"

    def instead(self, text: str) -> str:
        """Put another text in the place."""
        return f"{self.before}{text}{self.after}"


Rule = Callable[[RefusedStatement], Iterator[str]]


def proposals(sql: str, error: Error) -> Iterator[str]:
    """Propose other statements, the likeliest first."""
    refused = RefusedStatement.of(sql, error)
    if refused.at:
        yield from _named(refused)
    for rule in _RULES.get(error.code, ()):
        yield from rule(refused)


def _named(refused: RefusedStatement) -> Iterator[str]:
    """Spell a name as it was probably meant."""
    name = _NAME.search(refused.hint)
    if name is None:
        return
    called = _CALLED.match(refused.at)
    if called is not None:
        yield refused.instead(name[1] + refused.at[called.end() :])
    yield refused.instead(name[1])
    if _WORD.fullmatch(refused.at):  # it may stand in several clauses
        yield re.sub(rf"\b{refused.at}\b", lambda _: name[1], refused.sql)


def _counted_per_key(refused: RefusedStatement) -> Iterator[str]:
    """Count for each value of the column that was asked for, or all; conditions are kept."""
    count, key = _COUNT.search(refused.hint), refused.at
    if count is None:
        return
    if _NARROWED.search(refused.sql):
        if _WORD.fullmatch(key):
            for asked in _unsorted(refused.sql):
                yield f"SELECT {key}, COUNT(*) AS n FROM {asked} GROUP BY {key}"
        yield from _counted(refused)
        return
    if _WORD.fullmatch(key) and key not in count[1]:
        yield f"SELECT {key}, {count[1]} AS n FROM {count[2]} GROUP BY {key}"
    yield f"SELECT {count[1]} AS n FROM {count[2]}"


def _counted(refused: RefusedStatement) -> Iterator[str]:
    """Count the rows of the answer that was asked for."""
    for asked in _unsorted(refused.sql):
        yield f"SELECT COUNT(*) AS n FROM {asked}"


def _unsorted(sql: str) -> Iterator[str]:
    """Make a statement a table, without its order and limit where it has them."""
    asked = sql.rstrip().rstrip(";")
    for cut in (_SORTED, _LIMITED):
        found = _last(cut, asked)
        if found is not None:
            yield f"(\n{asked[: found.start()].strip()}\n) AS asked"
    yield f"(\n{asked.strip()}\n) AS asked"


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Find the last match in a text, which takes time in proportion to its length."""
    return next(iter(deque(pattern.finditer(text), 1)), None)


def _units_counted(refused: RefusedStatement) -> Iterator[str]:
    """Count units where rows were counted."""
    units = _UNITS.search(refused.hint)
    if units is not None:
        yield refused.instead(units[0])


def _joined_by_unit(refused: RefusedStatement) -> Iterator[str]:
    """Join by the unit as well."""
    also = _JOINED.search(refused.hint)
    if also is None or _OR.search(refused.at):
        return
    if _ON.search(refused.at):
        yield refused.instead(f"{refused.at} AND {also[1]}")
        return
    before = refused.before.rstrip()
    if before.endswith(","):
        yield f"{before[:-1].rstrip()} JOIN {refused.at} ON {also[1]}{refused.after}"


def _partitioned_by_unit(refused: RefusedStatement) -> Iterator[str]:
    """Have each window be one of a unit's rows."""
    unit = _PARTITION.search(refused.reason)
    over = _OVER.search(refused.at)
    if unit is not None and over is not None:
        rest = refused.at[over.end() :]
        parted = f"{unit[1]}," if over[1] else unit[1]
        yield refused.instead(f"{refused.at[: over.start()]}OVER (PARTITION BY {parted} {rest}")


def _grouped(refused: RefusedStatement) -> Iterator[str]:
    """Group aggregates by the column that stands beside them."""
    if _AGGREGATE.search(refused.sql) and _WORD.fullmatch(refused.at):
        yield from _grouped_also(refused)


def _grouped_also(refused: RefusedStatement) -> Iterator[str]:
    """Group by the column as well."""
    column, sql = refused.at, refused.sql.rstrip().rstrip(";")
    group = _last(_GROUP, sql)
    if group is not None:
        yield f"{sql[: group.end()]} {column},{sql[group.end() :]}"
        return
    later = _LATER.search(sql)
    end = len(sql) if later is None else later.start()
    yield f"{sql[:end].rstrip()} GROUP BY {column} {sql[end:]}".rstrip()


def _text_meant(refused: RefusedStatement) -> Iterator[str]:
    """Write a text in single quotes, where a name in double quotes is no column."""
    found = _IN_QUOTES.fullmatch(refused.at)
    if found is not None:
        yield refused.instead(quote_text(found[1]))


def _quoted(refused: RefusedStatement) -> Iterator[str]:
    """Compare a text with a text."""
    if _NUMBER.fullmatch(refused.at):
        yield refused.instead(quote_text(refused.at))


def _unsampled(refused: RefusedStatement) -> Iterator[str]:
    """Ask for all rows, which costs the same and has less noise."""
    yield refused.instead("").strip()


def _usual(refused: RefusedStatement) -> Iterator[str]:
    """Ask for the usual value, or for distinct ones, in place of one row's."""
    least = _LEAST.search(refused.before)
    if least is not None:
        yield f"{refused.before[: least.start()]}MODE({refused.at}{refused.after}"
    called = _CALLED.match(refused.at)
    if called is None:
        return
    arguments = refused.at[called.end() :].lstrip()
    if "MODE" in refused.hint:
        yield refused.instead(f"MODE{arguments}")
    if "DISTINCT" in refused.hint:
        yield refused.instead(f"{called[0]}(DISTINCT {arguments[1:]}")
        yield refused.instead(f"{called[0]}(DISTINCT {arguments[1:-1]}, ', ')")


def _query_inside(refused: RefusedStatement) -> Iterator[str]:
    """Ask the query that another statement is made of."""
    query = _QUERY.search(refused.sql)
    if query is None:
        return
    text = refused.sql[query.start() :].rstrip().rstrip(";")
    yield text
    if ")" in text:
        yield text[: text.rindex(")")]


def _first_alone(refused: RefusedStatement) -> Iterator[str]:
    """Ask the first of several statements."""
    yield refused.before.rpartition(";")[0]


_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "raw_rows": (_grouped, _counted_per_key, _counted),
    "groups_by_unit": (_counted,),
    "join_keeps_public": (_units_counted,),
    "join_needs_unit": (_joined_by_unit,),
    "window_over_private_rows": (_partitioned_by_unit,),
    "column_not_grouped": (_grouped_also,),
    "text_compared": (_quoted,),
    "unknown_column": (_text_meant,),
    "sample_not_available": (_unsampled,),
    "aggregate_not_supported": (_usual,),
    "not_numeric": (_usual,),
    "not_a_query": (_query_inside,),
    "not_a_question": (_query_inside,),
    "several_statements": (_first_alone,),
}
