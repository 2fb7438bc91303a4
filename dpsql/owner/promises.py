"""Whether the data keep what a policy says of units: for the owner alone, who may see the data.

What is declared as ``rows_per_unit``, ``unique`` and ``one_per_unit`` only chooses bounds, which
the SQL of every question keeps, so that nobody is less protected where it is not true. Nor is
anybody where a link between tables with units of their own is of keys of several units. But answers
leave out what is beyond it, and nobody would be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from dpsql.core.formatting import printable, several
from dpsql.core.quoting import ROW_ID, table_sql
from dpsql.core.schema import fold
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine, Reads
from dpsql.engines.dialects import TWIN, dialect_of
from dpsql.errors import EngineError
from dpsql.ir.relations import scanned
from dpsql.owner.conformance import Finding, Unique, column_words
from dpsql.policy.model import ROW_PROMISE, Link, Policy, TablePolicy
from dpsql.sql.lineage.relation import Relation
from dpsql.sql.lineage.resolver import Lineage
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.parse import parse

_FOUND = "broken"
NO_KEYS: Final[Unique] = MappingProxyType({})


def broken_promises(
    policy: Policy, engine: Engine, proved: Collection[str] = (), unique: Unique = NO_KEYS
) -> list[Finding]:
    """List declarations about units that the data violate, with the number of units.

    Reads private rows, but not of tables of one row per unit that keys have ``proved`` to be such,
    nor for columns that keys have proved to be ``unique``. The policy must fit the engine's schema.
    """
    tables = (table for key, table in policy.tables.items() if key not in proved)
    found: list[Finding] = []
    for table in tables:
        keys = unique.get(table.name.key, ())
        left = tuple(names for names in table.unique if not _is_proved(names, keys))
        found += _of_table(policy, replace(table, unique=left), engine)
    for table in policy.tables.values():
        for link in table.unit_links:
            found += _of_link(policy, table, link, engine)
    return found


def _is_proved(names: Collection[str], keys: Sequence[Collection[str]]) -> bool:
    return any(set(map(fold, key)) <= set(names) for key in keys)


def promise_words(
    policy: Policy, proved: Collection[str], unique: Unique = NO_KEYS
) -> Iterator[str]:
    """Write the declarations about units that keys prove, and those of the owner's word alone."""
    kept: list[str] = []
    trusted: list[str] = []
    for key, table in policy.tables.items():
        name = printable(str(table.name), 60)
        said = [f"rows_per_unit of {name}"] if table.rows_per_unit is not None else []
        said += [
            f"one_per_unit of {name}.{printable(column, 60)}"
            for column, known in table.columns.items()
            if known.one_per_unit
        ]
        (kept if key in proved else trusted).extend(said)
        for names in table.unique:
            held = key in proved or _is_proved(names, unique.get(key, ()))
            (kept if held else trusted).append(f"unique ({column_words(names)}) of {name}")
    of_rows = [printable(str(name), 60) for name in policy.tables_of_rows]
    if of_rows:
        yield f"Of {', '.join(of_rows)}, {ROW_PROMISE}."
    if kept:
        yield f"Keys of the database prove: {', '.join(kept)}."
    if trusted:
        yield f"No key proves, so that you vouch for: {', '.join(trusted)}."


def repeats(policy: Policy, engine: Engine, table: TableName, columns: Sequence[str]) -> bool:
    """Tell whether two rows have the same values in columns. Reads the data: for its owner.

    Raises ``EngineError``.
    """
    dialect = dialect_of(engine.verdicts)
    names, source = [quoted(column) for column in columns], dialect.table(engine.schema[table.key])
    found = _count(
        engine,
        policy,
        sql(
            "SELECT 1 AS one FROM {source} WHERE {there} GROUP BY {names} HAVING count(*) > 1",
            source=source,
            there=join(" AND ", [sql("{} IS NOT NULL", name) for name in names]),
            names=join(", ", names),
        ),
        (table,),
    )
    if found is None:
        raise EngineError()
    return found > 0


def _of_table(policy: Policy, table: TablePolicy, engine: Engine) -> Iterator[Finding]:
    columns = [name for name, known in table.columns.items() if known.one_per_unit]
    if table.public or not (table.rows_per_unit is not None or table.unique or columns):
        return
    dialect = dialect_of(engine.verdicts)
    rows = _rows(policy, table, engine, dialect)
    unit = policy.unit_name(table)
    if table.rows_per_unit is not None:
        most = table.rows_per_unit
        what = f"a {unit} has at most {several(most, 'row')} here by the policy"
        hint = "Raise or remove rows_per_unit, or mend the data."
        found = _count(engine, policy, _too_many(rows, most, dialect), scanned(rows.rows))
        yield from _finding(str(table.name), what, f"have more: of these {most} count", hint, found)
    for names in table.unique:
        same = [f.column for f in rows.fields if fold(f.name) in names]
        if len(same) < len(names):
            continue  # reported as a column that does not exist
        what = f"a {unit} has no two rows with the same {column_words(names)} by the policy"
        hint = "Remove the list from `unique`, or mend the data; NULL is a value like others."
        found = _count(engine, policy, _repeated(rows, same, dialect), scanned(rows.rows))
        yield from _finding(str(table.name), what, "have some: of these one counts", hint, found)
    for name in columns:
        column = next((f for f in rows.fields if fold(f.name) == name), None)
        if column is None:
            continue  # reported as a column that does not exist
        what = f"a {unit} has one value of it by the policy"
        hint = "Remove one_per_unit, or mend the data; NULL beside a value counts as another one."
        found = _count(engine, policy, _several(rows, column.column, dialect), scanned(rows.rows))
        subject = f"{table.name}.{column.name}"
        yield from _finding(subject, what, "have several: of these one counts", hint, found)


def _of_link(policy: Policy, table: TablePolicy, link: Link, engine: Engine) -> Iterator[Finding]:
    """Find the keys of a link between two tables of one unit whose rows have several units."""
    parent = policy.table(link.parent)
    assert parent is not None, "links are checked when the policy is made"
    dialect = dialect_of(engine.verdicts)
    sides = []
    ends = ((table, [own for own, _ in link.pairs]), (parent, [key for _, key in link.pairs]))
    for end, columns in ends:
        stored = [engine.schema[end.name.key].column(name) for name in columns]
        unit = end.privacy_unit and engine.schema[end.name.key].column(end.privacy_unit.column)
        names = [quoted(column.name) for column in stored if column is not None]
        if len(names) < len(stored) or unit is None:
            return  # reported as a column that does not exist
        source, who = dialect.table(engine.schema[end.name.key]), quoted(unit.name)
        shown = [sql("{} AS {}", who, quoted("u"))]
        shown += [sql("{} AS {}", name, quoted(f"k{at}")) for at, name in enumerate(names)]
        there = [sql("{} IS NOT NULL", name) for name in (who, *names)]
        selected, where = join(", ", shown), join(" AND ", there)
        sides.append(sql("SELECT {} FROM {} WHERE {}", selected, source, where))
    keys = join(", ", [quoted(f"k{at}") for at in range(len(link.columns))])
    pairs = dialect.derived(sql("{} UNION {}", *sides))
    units = sql("SELECT 1 AS one FROM {} GROUP BY {} HAVING count(*) > 1", pairs, keys)
    found = _count(engine, policy, units, tuple({t.name.key: t.name for t, _ in ends}.values()))
    what = f"rows with the same {column_words(link.columns)} have one {policy.unit_name(table)}"
    what += f" here and in {printable(str(parent.name), 60)} by the policy"
    hint = "Link by a key of one unit, or mend the data."
    whose = parent.privacy_unit and fold(parent.privacy_unit.column)
    if link.key == (whose,):  # a second unit in a row, which the policy does not say is the first
        what = (
            f"{column_words(link.columns)} names a {policy.unit_name(table)} beside the row's own"
        )
        hint = (
            "See Two people in a row, in the page on policies: if most are, ask by the row's own."
        )
        broken = "values stand in rows of another one, which joins along the link leave out"
    else:
        broken = "such keys are of several, and joins leave out their pairs"
    if found is None or found == 0:
        yield from _finding(str(table.name), what, "", hint, found)
    else:
        message = f"{what}, but {found:,} {broken}"
        yield Finding("warning", str(table.name), message, hint)


def _finding(
    subject: str, what: str, broken: str, hint: str, found: int | None
) -> Iterator[Finding]:
    if found is None:
        yield Finding("warning", subject, f"{what}, which could not be looked at", "Try again.")
    elif found:
        message = f"{what}, but {found:,} {broken}, and answers leave out the others"
        yield Finding("warning", subject, message, hint)


def _rows(policy: Policy, table: TablePolicy, engine: Engine, dialect: Dialect) -> Relation:
    """Return the rows of a table with the unit of each, as questions read them."""
    text = sql("SELECT * FROM {}", table_sql(table.name)).render(TWIN.renderer)
    tree = parse(text)
    assert isinstance(tree, exp.Select)
    lineage = Lineage(tree, text, policy, engine.schema, engine.bind, dialect)
    relation = lineage.of_from(tree, {})
    assert relation is not None, "the table is private"
    return lineage.operators.settled(relation)


def _too_many(rows: Relation, most: int, dialect: Dialect) -> Sql:
    """Write which units have more rows than so many."""
    source, unit = _source(rows, dialect)
    return sql("SELECT 1 AS one FROM {} GROUP BY {} HAVING count(*) > {}", source, unit, most)


def _repeated(rows: Relation, columns: Sequence[str], dialect: Dialect) -> Sql:
    """Write which units have several rows with the same values in columns."""
    source, unit = _source(rows, dialect)
    keys = join(", ", map(quoted, dict.fromkeys([str(rows.unit), *columns])))
    pairs = sql("SELECT {} AS u FROM {} GROUP BY {} HAVING count(*) > 1", unit, source, keys)
    return sql("SELECT 1 AS one FROM {} GROUP BY u", dialect.derived(pairs))


def _several(rows: Relation, column: str, dialect: Dialect) -> Sql:
    """Write which units have several values in a column, NULL among them."""
    source, unit = _source(rows, dialect)
    pairs = sql("SELECT DISTINCT {} AS u, {} AS v FROM {}", unit, quoted(column), source)
    return sql("SELECT 1 AS one FROM {} GROUP BY u HAVING count(*) > 1", dialect.derived(pairs))


def _source(rows: Relation, dialect: Dialect) -> tuple[Sql, Sql]:
    """Write the rows that belong to a unit, and the unit's column."""
    assert rows.unit is not None
    unit = quoted(rows.unit)
    return sql("{} WHERE {} IS NOT NULL", from_clause(rows.rows, dialect), unit), unit


def _count(engine: Engine, policy: Policy, units: Sql, tables: tuple[TableName, ...]) -> int | None:
    """Count the rows of generated SQL over tables; None if the engine fails, or takes too long."""
    dialect = dialect_of(engine.verdicts)
    counted = sql(
        "SELECT 1 AS {}, count(*) AS {} FROM {}",
        quoted(ROW_ID),
        quoted(_FOUND),
        dialect.derived(units),
    )
    try:
        with engine.run(policy.limits.seconds) as run:
            found = run.over(Reads(tables)).exact(counted, (), [_FOUND])
            return int(found.measures[_FOUND][0])
    except EngineError:
        return None
