"""Several private tables of one unit, some reached through links, and public tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.kinds.registry import release_kind
from dpsql.planner import plan_query
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Link, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Overrides, Parameters
from dpsql.policy.resolve import resolve
from dpsql.sql.blocks.validate import validate
from dpsql.syntax.parse import parse
from helpers.columns import column_of
from helpers.support import SALT, Planned, binding

# Every table has its unit column (or its link) first.
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "people": (("uid", "BIGINT"), ("city", "VARCHAR"), ("age", "INTEGER")),
    "visits": (
        ("uid", "BIGINT"),
        ("k", "INTEGER"),
        ("s", "VARCHAR"),
        ("n", "INTEGER"),
        ("x", "DOUBLE"),
    ),
    "orders": (("uid", "INTEGER"), ("okey", "INTEGER"), ("k", "INTEGER"), ("price", "DOUBLE")),
    "items": (("okey", "INTEGER"), ("ikey", "INTEGER"), ("k", "INTEGER"), ("qty", "INTEGER")),
    "returns": (("ikey", "INTEGER"), ("why", "VARCHAR"), ("n", "INTEGER")),
    "logins": (("uid", "BIGINT"), ("k", "INTEGER")),
    "badges": (("uid", "VARCHAR"), ("k", "INTEGER")),
    "boxes": (("uid", "BIGINT"), ("a", "INTEGER"), ("b", "INTEGER"), ("k", "INTEGER")),
    "parts": (("a", "INTEGER"), ("b", "INTEGER"), ("k", "INTEGER")),
    "refunds": (("uid", "BIGINT"), ("a", "INTEGER"), ("b", "INTEGER"), ("k", "INTEGER")),
    "stamps": (("uid", "BIGINT"), ("no", "INTEGER"), ("k", "INTEGER")),
    "gifts": (("uid", "BIGINT"), ("whom", "BIGINT"), ("k", "INTEGER")),
    "mails": (("email", "VARCHAR"), ("k", "INTEGER")),
    "shops": (("k", "INTEGER"), ("name", "VARCHAR"), ("size", "INTEGER"), ("uid", "BIGINT")),
    "towns": (("city", "VARCHAR"), ("region", "VARCHAR")),
}
SCHEMA: Schema = schema_of(
    *(Table(name, tuple(column_of(*c) for c in columns)) for name, columns in COLUMNS.items())
)
PERSON = PrivacyUnit("person", "uid")
POLICY_TABLES = {
    "people": TablePolicy("people", PERSON, {"age": ColumnPolicy(0, 100)}),
    "visits": TablePolicy(
        "visits", PERSON, {"n": ColumnPolicy(-5, 20), "x": ColumnPolicy(-2.5, 10)}
    ),
    "orders": TablePolicy("orders", PERSON, {"price": ColumnPolicy(0, 100)}),
    "items": TablePolicy(
        "items", None, {"qty": ColumnPolicy(0, 50)}, Link("okey", "orders", "okey")
    ),
    "returns": TablePolicy(
        "returns", None, {"n": ColumnPolicy(0, 5)}, Link("ikey", "items", "ikey")
    ),
    "logins": TablePolicy("logins", None, {}, Link("uid", "people", "uid")),
    "badges": TablePolicy("badges", PERSON),
    "boxes": TablePolicy("boxes", PERSON),
    "parts": TablePolicy("parts", None, {}, Link(("b", "a"), "boxes", ("b", "a"))),
    "refunds": TablePolicy("refunds", PERSON, unit_links=(Link(("a", "b"), "boxes", ("a", "b")),)),
    "stamps": TablePolicy("stamps", PERSON, unit_links=(Link("no", "stamps", "no"),)),
    "gifts": TablePolicy("gifts", PERSON, unit_links=(Link("whom", "people", "uid"),)),
    "mails": TablePolicy("mails", PrivacyUnit("mailbox", "email")),
    "shops": TablePolicy(
        "shops", None, {"size": ColumnPolicy(0, 100), "k": ColumnPolicy(domain=(0, 1, 2, 3))}
    ),
    "towns": TablePolicy("towns", None),
}
RULES = Policy(
    "lineage",
    defaults=Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=10),
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
    tables=POLICY_TABLES,
)
CREATE = [
    f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns)})"
    for name, columns in COLUMNS.items()
]


BIND = binding(SCHEMA)


def planned_here(
    sql: str, *, rules: Policy | None = None, dialect: Dialect = DUCKDB, **parameters: Any
) -> Planned:
    """Parse, validate, plan and rewrite over these tables."""
    rules = rules or RULES  # looked up now: broken twins replace it
    resolved = resolve(rules, Overrides.of(parameters))
    asked = parse(sql), sql, rules, SCHEMA, resolved, BIND, dialect, with_groups_decided
    # That public rows have keys changes no bound: they need have none.
    query = validate(*asked, finds_one=lambda _, compared: bool(compared))
    plan = plan_query(query)
    statements = tuple(
        release_kind(b).statement(SALT, dialect).render(dialect.renderer) for b in plan.blocks
    )
    return Planned(query, plan.blocks, statements)
