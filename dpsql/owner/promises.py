"""Whether the data keep what a policy says of units: for the owner alone, who may see the data.

What is declared as ``rows_per_unit`` and ``one_per_unit`` only chooses bounds, which the SQL of
every question keeps, so that nobody is less protected where it is not true. But answers leave out
what is beyond it, and nobody would be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from dpsql.core.formatting import printable
from dpsql.core.quoting import ROW_ID, table_sql
from dpsql.core.schema import fold
from dpsql.core.sql import Sql, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine, Reads
from dpsql.engines.dialects import TWIN, dialect_of
from dpsql.errors import EngineError
from dpsql.ir.relations import scanned
from dpsql.owner.conformance import Finding
from dpsql.policy.model import ROW_PROMISE, Policy, TablePolicy
from dpsql.sql.lineage.relation import Relation
from dpsql.sql.lineage.resolver import Lineage
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.parse import parse

_FOUND = "broken"


def broken_promises(policy: Policy, engine: Engine, proved: Collection[str] = ()) -> list[Finding]:
    """List declarations about units that the data violate, with the number of units.

    Reads private rows, but not of tables of one row per unit that keys have ``proved`` to be such.
    The policy must fit the engine's schema.
    """
    tables = (table for key, table in policy.tables.items() if key not in proved)
    return [found for table in tables for found in _of_table(policy, table, engine)]


def promise_words(policy: Policy, proved: Collection[str]) -> Iterator[str]:
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
    of_rows = [printable(str(name), 60) for name in policy.tables_of_rows]
    if of_rows:
        yield f"Of {', '.join(of_rows)}, {ROW_PROMISE}."
    if kept:
        yield f"Keys of the database prove: {', '.join(kept)}."
    if trusted:
        yield f"No key proves, so that you vouch for: {', '.join(trusted)}."


def repeats(policy: Policy, engine: Engine, table: TableName, column: str) -> bool:
    """Tell whether some value stands in a column more than once. Reads the data: for its owner.

    Raises ``EngineError``.
    """
    dialect = dialect_of(engine.verdicts)
    name, source = quoted(column), dialect.table(engine.schema[table.key])
    found = _count(
        engine,
        policy,
        sql(
            "SELECT 1 AS one FROM {source} WHERE {name} IS NOT NULL "
            "GROUP BY {name} HAVING count(*) > 1",
            source=source,
            name=name,
        ),
        (table,),
    )
    if found is None:
        raise EngineError()
    return found > 0


def _of_table(policy: Policy, table: TablePolicy, engine: Engine) -> Iterator[Finding]:
    columns = [name for name, known in table.columns.items() if known.one_per_unit]
    if table.public or (table.rows_per_unit is None and not columns):
        return
    dialect = dialect_of(engine.verdicts)
    rows = _rows(policy, table, engine, dialect)
    unit = policy.unit_name(table)
    if table.rows_per_unit is not None:
        most = table.rows_per_unit
        what = f"a {unit} has at most {most} row{'s' * (most > 1)} here by the policy"
        hint = "Raise or remove rows_per_unit, or mend the data."
        found = _count(engine, policy, _too_many(rows, most, dialect), scanned(rows.rows))
        yield from _finding(str(table.name), what, f"have more: of these {most} count", hint, found)
    for name in columns:
        column = next((f for f in rows.fields if fold(f.name) == name), None)
        if column is None:
            continue  # reported as a column that does not exist
        what = f"a {unit} has one value of it by the policy"
        hint = "Remove one_per_unit, or mend the data; NULL beside a value counts as another one."
        found = _count(engine, policy, _several(rows, column.column, dialect), scanned(rows.rows))
        subject = f"{table.name}.{column.name}"
        yield from _finding(subject, what, "have several: of these one counts", hint, found)


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
