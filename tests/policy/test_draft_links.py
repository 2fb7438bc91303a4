"""Foreign keys become links of a draft, and keys numbers of rows, where they prove it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from helpers.columns import column_of

from dpsql.core.constraints import Constraints, ForeignKey
from dpsql.core.schema import LeftOut, Schema, Table, schema_of
from dpsql.core.table_name import TableName
from dpsql.owner.conformance import check_policy, tables_of_one_row
from dpsql.owner.draft import Draft, guess_unit, guess_unit_name
from dpsql.owner.draft_links import likely_link, with_foreign_keys
from dpsql.owner.draft_text import checked
from dpsql.owner.promises import promise_words
from dpsql.policy.load import parse_policy
from dpsql.policy.model import Policy

Tables = Mapping[str, str]
"""Columns of tables by name: ``id! uid>users.id``, of which ! is a key, and > refers."""


def database(tables: Tables) -> tuple[Schema, dict[str, Constraints]]:
    found, constraints = [], {}
    for name, text in tables.items():
        columns, keys, references = [], set(), []
        for part in text.split():
            column, _, end = part.partition(">")
            plain = column.rstrip("!")
            columns.append(column_of(plain, "BIGINT"))
            if column != plain:
                keys.add(plain)
            if end:
                parent, _, key = end.partition(".")
                references.append(ForeignKey(plain, TableName(parent), key))
        found.append(Table(name, tuple(columns)))
        constraints[name] = Constraints(frozenset(keys), tuple(references))
    return schema_of(*found), constraints


def drafted(tables: Tables, **units: str) -> Draft:
    """A draft with these units, by column, before its foreign keys."""
    schema, constraints = database(tables)
    draft = Draft("d").with_constraints(schema, constraints)
    for name, column in units.items():
        found = schema[name].column(column)
        assert found is not None
        draft = draft.with_unit(schema[name], found, "person")
    return draft


def links(tables: Tables, **units: str) -> dict[str, str]:
    schema, _ = database(tables)
    found = with_foreign_keys(drafted(tables, **units), schema).links
    return {
        name: f"{link.columns[0]}>{link.parent}.{link.parent_columns[0]}"
        for name, link in found.items()
    }


TPCH = {
    "customer": "c_key! c_nation>nation.n_key",
    "lineitem": "l_order>orders.o_key l_part>part.p_key",
    "nation": "n_key!",
    "orders": "o_key! o_cust>customer.c_key",
    "part": "p_key!",
}


def test_tables_are_linked_along_foreign_keys_to_the_unit() -> None:
    linked = {"lineitem": "l_order>orders.o_key", "orders": "o_cust>customer.c_key"}
    assert links(TPCH, customer="c_key") == linked
    assert links(TPCH) == linked  # by a guess
    others = {name.replace("customer", "x"): t.replace("customer", "x") for name, t in TPCH.items()}
    assert links(others) == {}  # nobody has said whose rows there are
    bare = {name: text.replace("!", "").replace(">", " ") for name, text in TPCH.items()}
    assert links(bare, customer="c_key") == {}


@pytest.mark.parametrize(
    ("tables", "linked"),
    [
        # The column that is guessed is a foreign key: its link is the same.
        ({"users": "id!", "plays": "id! user_id>users.id"}, {"plays": "user_id>users.id"}),
        # A column that says it better than a foreign key to what may be no person.
        ({"shops": "id!", "plays": "user_id shop_id>shops.id"}, {}),
        ({"shops": "id!", "plays": "id! shop_id>shops.id"}, {"plays": "shop_id>shops.id"}),
        ({"users": "id!", "shops": "id!", "p": "u>users.id s>shops.id"}, {"p": "u>users.id"}),
        # Two that are as sure: the owner has to choose.
        ({"users": "id!", "clients": "id!", "p": "u>users.id c>clients.id"}, {}),
        ({"users": "id!", "p": "payer>users.id payee>users.id"}, {}),
        # To itself, and round in a circle.
        ({"users": "id! boss>users.id"}, {}),
        ({"a": "k! b>b.k", "b": "k! a>a.k"}, {}),
        ({"users": "user_id!>a.k", "a": "k! u>users.user_id"}, {"a": "u>users.user_id"}),
        (
            {"users": "id!", "a": "k! b>b.k u>users.id", "b": "k! a>a.k"},
            {"a": "u>users.id", "b": "a>a.k"},
        ),
    ],
)
def test_one_way_to_a_unit_is_taken_and_of_several_none(
    tables: Tables, linked: dict[str, str]
) -> None:
    assert links(tables) == linked


@pytest.mark.parametrize(
    ("name", "columns", "guessed"),
    [
        ("customer", "c_key! c_nation", "c_key"),
        ("Students", "no! name", "no"),  # of student_id there is a word
        ("customer", "c_key c_nation", None),
        ("customer", "c_key! c_ssn!", None),
        ("parts", "p_key!", None),
        ("customer", "c_key! user_id", "user_id"),
    ],
)
def test_the_only_key_of_a_table_that_is_called_like_people_is_guessed(
    name: str, columns: str, guessed: str | None
) -> None:
    schema, constraints = database({name: columns})
    (table,) = schema.values()
    found = guess_unit(table, {table.name.key: constraints[name]})
    assert (found.name if found else None) == guessed
    if found is not None and guessed != "user_id":
        assert guess_unit_name(table, found) == name.lower().removesuffix("s")


def test_what_is_no_link_is_not_taken_for_one() -> None:
    users = Table(
        "users",
        (column_of("id", "BIGINT"), column_of("Up", "BIGINT")),
        left_out=(LeftOut("up", "twice"),),
    )
    cases = (
        (column_of("u", "VARCHAR"), ForeignKey("u", TableName("users"), "id")),  # another type
        (column_of("u", "BIGINT"), ForeignKey("u", TableName("users"), "up")),  # left out
        (column_of("u", "BIGINT"), ForeignKey("other", TableName("users"), "id")),
        (column_of("u", "BIGINT"), ForeignKey("u", TableName("nobody"), "id")),
        (column_of("u", "BIGINT", collated=True), ForeignKey("u", TableName("users"), "id")),
    )
    for column, key in (
        *cases,
        (column_of("u", "BIGINT"), ForeignKey("u", TableName("users"), "id")),
    ):
        schema = schema_of(users, Table("plays", (column,)))
        draft = Draft("d").with_constraints(schema, {"plays": Constraints(references=(key,))})
        linked = likely_link(schema["plays"], schema, draft) is not None
        assert linked is ((column, key) not in cases)


ONE = {
    "users": "uid! ssn!",
    "pets": "id! uid>users.uid",
    "faces": "uid!>users.uid",
    "logs": "uid n",
}


def policy_of(tables: Tables, text: str) -> tuple[Policy, Schema, dict[str, Constraints]]:
    schema, constraints = database(tables)
    return (
        parse_policy(
            f"version: 1\ndataset: d\naccounts: {{a: {{epsilon: 9, delta: 1e-4}}}}\n{text}"
        ),
        schema,
        constraints,
    )


def test_a_key_proves_one_row_per_unit() -> None:
    schema, _ = database(ONE)
    text = checked(schema, drafted(ONE, users="uid", logs="uid"))
    tables = parse_policy(text).tables
    assert {name: t.rows_per_unit for name, t in tables.items()} == {
        "users": 1,
        "faces": 1,
        "pets": None,
        "logs": None,
    }
    assert "rows_per_unit: 1  # KEY: no two rows have the same uid\n" in text
    keyless = {name: each.replace("!", "") for name, each in ONE.items()}
    assert "rows_per_unit" not in checked(database(keyless)[0], drafted(keyless, users="uid"))


def test_a_key_of_another_column_or_of_a_view_proves_nothing() -> None:
    other, schema, constraints = policy_of(ONE, "tables: {users: {privacy_unit: ssn}}")
    assert tables_of_one_row(other, schema, constraints) == {"users"}
    for tables in ({"users": "uid ssn!"}, {"users": "uid ssn"}):
        policy, schema, constraints = policy_of(tables, "tables: {users: {privacy_unit: uid}}")
        assert tables_of_one_row(policy, schema, constraints) == frozenset()
    view = schema_of(Table("users", schema["users"].columns, is_view=True))
    known = {"users": Constraints(frozenset({"uid"}))}
    assert tables_of_one_row(policy, view, known) == frozenset()
    assert tables_of_one_row(policy, schema, known) == {"users"}


def test_a_link_to_a_table_of_several_rows_per_unit_proves_nothing() -> None:
    tables = {"plays": "id! uid", "notes": "play!>plays.id"}
    text = "tables: {plays: {privacy_unit: uid}, notes: {}}\nlinks: [notes.play -> plays.id]"
    policy, schema, constraints = policy_of(tables, text)
    assert tables_of_one_row(policy, schema, constraints) == frozenset()


def test_check_asks_for_what_keys_prove_and_tells_what_they_do_not() -> None:
    text = (
        "tables:\n  users: {privacy_unit: uid}\n"
        "  faces: {privacy_unit: uid, rows_per_unit: 1, columns: {uid: {one_per_unit: true}}}\n"
        "  logs: {privacy_unit: uid, rows_per_unit: 3, columns: {n: {one_per_unit: true}}}\n"
    )
    policy, schema, constraints = policy_of(ONE, text)
    findings = check_policy(policy, schema, None, constraints)
    said = [f.subject for f in findings if "as a key proves" in f.message]
    assert said == ["users"]
    assert not [f for f in check_policy(policy, schema) if "as a key proves" in f.message]
    words = list(promise_words(policy, tables_of_one_row(policy, schema, constraints)))
    assert words == [
        "Keys of the database prove: rows_per_unit of faces, one_per_unit of faces.uid.",
        "No key proves, so that you vouch for: rows_per_unit of logs, one_per_unit of logs.n.",
    ]
    assert list(promise_words(parse_policy("version: 1\ndataset: d\ntables: {}\n"), ())) == []
