# ruff: noqa: E501
"""Names of tables as one text and as two, and what statements make of them."""

from __future__ import annotations

import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.quoting import quote, quote_table
from dpsql.core.schema import Table, fold, schema_of
from dpsql.core.table_name import NameRules, TableName, only_namesake, read_parts, written
from dpsql.pipeline.kept.description import VOCABULARY, Descriptions
from dpsql.policy.fields import link_of
from dpsql.sql.lineage.table_names import name_of, parsed, settle_names, tables_named

described = Descriptions(VOCABULARY).of

PART = st.text(st.sampled_from("aAbé.\"  '😀"), min_size=1, max_size=6)
NAMES = st.builds(TableName, PART, st.one_of(st.sampled_from(["main", "MAIN"]), PART))


# -- as one text -----------------------------------------------------------------------------------


@given(NAMES)
@example(TableName('"', '"'))
@example(TableName("a.b"))
@example(TableName('a"."b', "main"))
def test_a_name_is_read_back_from_its_text(name: TableName) -> None:
    for text in (str(name), name.key):
        found = TableName.read(text)
        assert found == name
        assert found is not None
        assert found.key == name.key
    assert read_parts(written(name.schema, name.table)) == [name.schema, name.table]


@given(NAMES, NAMES)
@example(TableName("b", "a"), TableName("a.b"))
@example(TableName("c", "a.b"), TableName("b.c", "a"))
@example(TableName('a"."b'), TableName("b", "a"))
@example(TableName("É"), TableName("é"))
def test_two_names_have_one_key_only_if_the_engine_takes_them_for_one(
    one: TableName, other: TableName
) -> None:
    same = (fold(one.schema), fold(one.table)) == (fold(other.schema), fold(other.table))
    assert (one == other) == (one.key == other.key) == same
    assert (fold(quote_table(one)) == fold(quote_table(other))) == same
    assert not same or hash(one) == hash(other)


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a.b.c", '"a', '""', 'a."b"c', '"a"b']
)
def test_what_is_no_name_of_a_table_is_not_read(text: str) -> None:
    assert TableName.read(text) is None


def test_a_text_in_place_of_a_name_has_no_schema() -> None:
    assert Table("mart.fact", ()).name == TableName("mart.fact") != TableName("fact", "mart")


@pytest.mark.parametrize(
    ("name", "text"),
    [("orders", "orders"), ("My Table", "My Table"), ('a"b', 'a"b'), ("é", "é"), ("1", "1")],
)
def test_names_in_main_are_written_as_ever(name: str, text: str) -> None:
    assert str(TableName(name)) == str(TableName(name, "Main")) == text
    assert TableName(name).key == fold(text)


def test_the_only_namesake_is_found_in_any_schema() -> None:
    known = [TableName("a", "x"), TableName("b", "x"), TableName("b", "y")]
    assert only_namesake(TableName("A"), known) == known[0]
    assert only_namesake(TableName("b"), known) is None
    assert only_namesake(TableName("x.a"), known) is None


@pytest.mark.parametrize(
    ("text", "child", "parent"),
    [
        ("a.k -> b.k", TableName("a"), TableName("b")),
        ("s.a.k -> b.k", TableName("a", "s"), TableName("b")),
        ('"s.a".k -> "s"."b".k', TableName("s.a"), TableName("b", "s")),
        ('"q""".a.k -> main.b.k', TableName("a", 'q"'), TableName("b")),
    ],
)
def test_links_name_tables_with_their_schema(
    text: str, child: TableName, parent: TableName
) -> None:
    found = link_of(text)
    assert found is not None
    assert (found[0], found[1].parent) == (child, parent)
    assert found[1].pairs == (("k", "k"),)


def test_tables_of_main_are_described_without_their_schema() -> None:
    columns = (column_of("k", "BIGINT"),)
    text = (
        "table(name='Visits',columns=(column(name='k',type='BIGINT',collated=False)),"
        "view=False,unreadable=-,left out=())"
    )
    assert described(Table("Visits", columns)) == text
    assert described(Table(TableName("Visits", "MAIN"), columns)) == text
    dotted, other = Table("a.b", columns), Table(TableName("b", "a"), columns)
    assert described(dotted) != described(other)


# -- in statements ---------------------------------------------------------------------------------

LISTED = [TableName("t"), TableName("t", "s"), TableName("s.t"), TableName("u", "s")]
EXISTING = schema_of(*(Table(name, ()) for name in [*LISTED, TableName("x", "hidden")]))
RULES = NameRules.of((t.name for t in EXISTING.values()), "shop", LISTED)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("t", TableName("t")),
        ("main.t", TableName("t")),
        ("Public.T", TableName("t")),
        ("shop.t", TableName("t")),
        ("SHOP.main.t", TableName("t")),
        ("shop.public.t", TableName("t")),
        ("dbo.t", TableName("t")),
        ("s.t", TableName("t", "s")),
        ("shop.s.t", TableName("t", "s")),
        ('"s.t"', TableName("s.t")),
        ('main."s.t"', TableName("s.t")),
        ('"s"."t"', TableName("t", "s")),
        ("hidden.x", TableName("x", "hidden")),
        ("shop.hidden.x", None),
        ("shop.shop.t", None),
        ("other.main.t", None),
        ("range(3)", None),
    ],
)
def test_a_source_names_one_table_after_any_number_of_readings(
    source: str, name: TableName | None
) -> None:
    text = f"SELECT count(*) FROM {source}"
    tree = parsed(text, RULES)
    for _ in range(3):
        (table,) = tree.find_all(exp.Table)
        assert name_of(table) == name
        settle_names(tree, text, RULES)


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["main", "public", "shop", "s", "S", "t", "s.t", "hidden", "no"]),
        min_size=1,
        max_size=4,
    )
)
def test_reading_names_again_changes_nothing(parts: list[str]) -> None:
    text = f"WITH t AS (SELECT 1) SELECT count(*) FROM {'.'.join(map(quote, parts))}, t"
    tree = parsed(text, RULES)
    once = tree.sql("duckdb")
    settle_names(tree, text, RULES)
    assert tree.sql("duckdb") == once


def test_only_names_without_a_schema_are_answered_by_ctes() -> None:
    text = 'WITH t AS (SELECT 1 AS k) SELECT * FROM t, main.t, s.t, shop.main.t, public.t, "s.t"'
    tree = parsed(text, RULES)
    found = [name_of(table) for table in tables_named(tree)]
    main = TableName("t")
    assert found == [main, TableName("t", "s"), main, main, TableName("s.t")]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT main.t.k FROM t", '"t".k'),
        ("SELECT shop.public.T.k FROM main.t", '"t".k'),
        ("SELECT s.t.k FROM s.t", '"t".k'),
        ("SELECT s.t.k FROM s.t JOIN main.t ON TRUE", '"s.t".k'),
        ('SELECT s.t.k FROM s.t JOIN main.t ON TRUE JOIN "s.t" ON TRUE', '"s.t_".k'),
        ("SELECT s.t.k FROM t JOIN (s.u JOIN s.t ON TRUE) ON TRUE", '"s.t".k'),
        ("SELECT (SELECT s.t.k FROM u) FROM s.t", '"t".k'),
        ("SELECT s.u.k FROM s.t", "s.u.k"),
        ("SELECT s.t.k FROM s.t AS v", "s.t.k"),
        ("SELECT main.t.k FROM (SELECT 1 AS k) AS t", "main.t.k"),
        ("WITH t AS (SELECT 1 AS k) SELECT main.t.k FROM t", "main.t.k"),
        ("SELECT other.s.t.k FROM s.t", "other.s.t.k"),
    ],
)
def test_a_column_with_a_schema_means_the_nearest_table_of_that_name(
    text: str, column: str
) -> None:
    tree = parsed(text, RULES)
    (found,) = tree.find_all(exp.Column)
    assert found.sql("duckdb") == column


@pytest.mark.parametrize(
    "text",
    [
        "SELECT main.t.k FROM main.t JOIN (SELECT 1 AS k) AS t ON TRUE",
        "SELECT main.t.k FROM main.t JOIN s.u AS t ON TRUE",
    ],
)
def test_a_column_of_a_table_whose_name_means_another_is_refused(text: str) -> None:
    with fails_with("ambiguous_column"):
        parsed(text, RULES)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["main.t", "s.t", '"s.t"', "s.u", "t AS v"]), min_size=1, max_size=4)
)
def test_columns_of_tables_side_by_side_are_told_apart(sources: list[str]) -> None:
    """Whatever stands beside it, a column with a schema gets a qualifier that is its table's own."""
    sources = list(dict.fromkeys(sources))
    columns = [f"{source}.k" for source in sources if "." in source.replace('"s.t"', "")]
    if not columns:
        return
    tree = parsed(f"SELECT {', '.join(columns)} FROM {', '.join(sources)}", RULES)
    shown = {fold(table.alias_or_name): name_of(table) for table in tree.find_all(exp.Table)}
    assert len(shown) == len(sources)
    for column, written_ in zip(tree.find_all(exp.Column), columns, strict=True):
        assert column.args.get("db") is None
        assert shown[fold(column.table)] == TableName.read(written_.removesuffix(".k"))
