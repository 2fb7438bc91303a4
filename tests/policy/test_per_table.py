# ruff: noqa: E501
"""What is said of one table: how many rows a unit has, which columns have one value, defaults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.support import listed_engine

from dpsql.core.periods import Period
from dpsql.core.schema import Table, schema_of
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.engine import open_database
from dpsql.errors import PolicyError
from dpsql.interfaces.cli import cli
from dpsql.owner.conformance import check_links, check_policy
from dpsql.owner.draft import Draft
from dpsql.owner.draft_text import draft_policy
from dpsql.owner.promises import broken_promises, promise_words, repeats
from dpsql.policy.load import load_policy, parse_policy
from dpsql.policy.model import (
    EACH_ROW,
    ROW_PROMISE,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import Automatic, Pooling
from dpsql.policy.resolve import over_tables

HEAD = "version: 1\ndataset: d\n"
UNIT = "privacy_unit: {name: u, column: uid}"


def table(said: str, head: str = "") -> TablePolicy:
    policy = parse_policy(f"{HEAD}{head}tables:\n  t: {{{UNIT}, {said}}}\n", "p.yaml")
    found = policy.table("t")
    assert found is not None
    return found


def problem(said: str, head: str = "", unit: str = UNIT) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_policy(f"{HEAD}{head}tables:\n  t: {{{unit}, {said}}}\n", "p.yaml")
    assert caught.value.place is not None
    return caught.value


def test_what_is_said_is_what_is_meant() -> None:
    found = table(
        "rows_per_unit: 2, columns: {K: {one_per_unit: true, domain: [a, b]}, l: {lower: 0, upper: 1}}"
    )
    assert found.rows_per_unit == 2
    assert found.columns["k"] == ColumnPolicy(domain=("a", "b"), one_per_unit=True)
    assert not found.columns["l"].one_per_unit
    assert table("columns: {k: {one_per_unit: true}}").columns["k"] == ColumnPolicy(
        one_per_unit=True
    )
    assert (table("columns: {}").rows_per_unit, table("defaults: {}").defaults) == (None, {})


def test_defaults_hold_the_parameters_that_were_written_and_no_others() -> None:
    said = "defaults: {epsilon: 1, max_groups_contributed: unlimited, max_age: 12 hours}"
    assert table(said).defaults == {
        "epsilon": 1.0,
        "max_groups_contributed": None,
        "max_age": Period(seconds=12 * 3600),
    }
    assert table("defaults: {max_groups_contributed: auto}").defaults == {
        "max_groups_contributed": Automatic()
    }
    assert table("defaults: {max_age: none}").defaults == {"max_age": None}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("rows_per_unit: 0", "t.rows_per_unit: must be a whole number from 1"),
        ("rows_per_unit: 1.0", "t.rows_per_unit: must be a whole number"),
        ("rows_per_unit: true", "t.rows_per_unit: must be a whole number"),
        ("rows_per_unit: one", "t.rows_per_unit: must be a whole number"),
        ("rows_per_unit: ", "t.rows_per_unit: has no value"),
        ("columns: {k: {one_per_unit: 1}}", "t.k.one_per_unit: must be true or false"),
        ("columns: {k: {one_per_unit: false}}", "says nothing about the column"),
        ("columns: {k: {one_per_units: true}}", "t.k.one_per_units: unknown key"),
        ("defaults: 3", "t.defaults: must be a group of names"),
        ("defaults: {epsilon: 0}", "t.defaults.epsilon: epsilon must be between"),
        ("defaults: {delta: auto}", "t.defaults.delta: delta must be a number"),
        ("defaults: {max_age: soon}", "t.defaults.max_age: max_age must be a period"),
        ("defaults: {max_age: 7}", "t.defaults.max_age: max_age must be a period"),
        ("defaults: {max_age: 200 years}", "max_age must be at most"),
        ("defaults: {max_rows: 3}", "t.defaults.max_rows: unknown key"),
        ("defaults: {combine: all}", "t.defaults.combine: unknown key"),
        ("defaults: {max_rows_contributed: }", "t.defaults.max_rows_contributed: has no value"),
    ],
)
def test_what_is_wrong_is_shown_with_its_place(said: str, expected: str) -> None:
    assert expected in problem(said).reason


def test_hints_say_what_to_do() -> None:
    assert (
        problem("defaults: {max_row_contributed: 3}").hint == "Did you mean `max_rows_contributed`?"
    )
    assert problem("defaults: {combine: all}").hint == (
        "It is not for one table: set defaults.combine at the top."
    )


@pytest.mark.parametrize("said", ["epsilon: 2", "max_groups_contributed: unlimited", "k_bar: 20"])
def test_defaults_of_tables_are_within_the_maxima(said: str) -> None:
    maxima = "maxima: {epsilon: 1, max_groups_contributed: 5, k_bar: 10}\n"
    defaults = "defaults: {k_bar: 10}\n"
    found = problem(f"defaults: {{{said}}}", defaults + maxima)
    name = said.partition(":")[0]
    assert f"t.defaults.{name}: {name} must be at most" in found.reason
    assert found.hint == f"Lower it, or raise maxima.{name}."


@pytest.mark.parametrize(
    "said", ["rows_per_unit: 1", "defaults: {epsilon: 1}", "columns: {k: {one_per_unit: true}}"]
)
def test_a_public_table_promises_nothing_of_units(said: str) -> None:
    found = problem(said, unit="public: true")
    assert "a public table has no units" in found.reason


def test_a_policy_of_python_is_checked_as_well() -> None:
    unit = PrivacyUnit("u", "uid")
    for wrong in (
        TablePolicy("t", None, rows_per_unit=1),
        TablePolicy("t", unit, rows_per_unit=0),
        TablePolicy("t", unit, rows_per_unit=True),
        TablePolicy("t", unit, defaults={"epsilon": -1.0}),
        TablePolicy("t", unit, defaults={"combine": Pooling.ALL}),
    ):
        with fails_with("policy_invalid"):
            Policy("d", tables={"t": wrong})


# -- people without an id --------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "meant"), [
    ("row", EACH_ROW),
    ("ROW", EACH_ROW),
    ("{name: row, column: row}", PrivacyUnit("row", "row")),
    ("rows", PrivacyUnit("rows", "rows")),
])  # fmt: skip
def test_each_row_is_a_unit_by_one_word_alone(said: str, meant: PrivacyUnit) -> None:
    policy = parse_policy(f"{HEAD}tables:\n  t: {{privacy_unit: {said}}}\n", "p.yaml")
    assert policy.tables["t"].privacy_unit == meant
    assert not policy.tables["t"].public
    assert [str(name) for name in policy.tables_of_rows] == ["t"] * (meant is EACH_ROW)


@pytest.mark.parametrize("said", ["rows_per_unit: 1", "columns: {k: {one_per_unit: true}}"])
def test_nothing_is_promised_of_the_rows_of_a_unit_that_is_one(said: str) -> None:
    assert "a unit has one row" in problem(said, unit="privacy_unit: row").reason
    with fails_with("policy_invalid"):
        Policy("d", tables={"t": TablePolicy("t", EACH_ROW, rows_per_unit=1)})


def test_no_link_leads_to_rows_that_are_units() -> None:
    tables = "tables:\n  t: {privacy_unit: row}\n  l: {}\nlinks: [l.row -> t.row]\n"
    with pytest.raises(PolicyError) as caught:
        parse_policy(f"{HEAD}{tables}", "p.yaml")
    assert "each row of t is a unit of its own" in caught.value.reason
    linked = {"t": TablePolicy("t", EACH_ROW), "l": TablePolicy("l", None, {}, Link("k", "t", ""))}
    with fails_with("policy_invalid"):
        Policy("d", tables=linked)


@pytest.mark.parametrize(("column", "fits"), [("k", True), ("Row", False)])
def test_a_table_with_a_column_of_that_name_is_not_told_from_one_without(
    column: str, fits: bool
) -> None:
    policy = Policy("d", tables={"t": TablePolicy("t", EACH_ROW)})
    schema = schema_of(Table("t", (column_of(column, "INTEGER"),)))
    errors = [f.subject for f in check_policy(policy, schema) if f.level == "error"]
    assert errors == ([] if fits else ["t.Row"])
    assert list(promise_words(policy, ())) == [f"Of t, {ROW_PROMISE}."]


def test_a_draft_says_the_word_where_no_column_tells_people_apart() -> None:
    schema = schema_of(Table("t", (column_of("answer", "INTEGER"),)))
    text = draft_policy(schema, Draft("survey"))
    assert ROW_PROMISE in text
    assert "\n    privacy_unit: row" not in text


# -- whether it is true: for the owner alone ------------------------------------------------------

SHOP = """
version: 1
dataset: shop
accounts: {ana: {epsilon: 1, delta: 1e-6}}
tables:
  customers:
    privacy_unit: {name: customer, column: id}
    rows_per_unit: 1
    columns: {country: {one_per_unit: true}}
  orders:
    privacy_unit: {name: customer, column: cust}
    rows_per_unit: 3
    columns: {size: {one_per_unit: true}}
  lines:
    rows_per_unit: 4
    columns: {note: {one_per_unit: true}}
links: [lines.onr -> orders.onr]
"""
TRUE = (
    "CREATE TABLE customers AS SELECT i AS id, 'c' || (i % 3) AS country FROM range(9) r(i)",
    "CREATE TABLE orders AS SELECT i % 9 AS cust, i AS onr, NULL::INT AS size FROM range(27) r(i)",
    "CREATE TABLE lines AS SELECT i AS onr, 'n' || (i % 9) AS note FROM range(27) r(i)",
)


def findings(tmp_path: Path, *statements: str) -> dict[str, str]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as writer:
        for statement in (*TRUE, *statements):
            writer.execute(statement)
    (tmp_path / "p.yaml").write_text(SHOP, encoding="utf-8")
    policy, engine = load_policy(tmp_path / "p.yaml"), open_database(tmp_path / "shop.duckdb")
    try:
        assert check_policy(policy, engine.catalog().tables) == []
        return {f.subject: f.message for f in broken_promises(policy, listed_engine(engine))}
    finally:
        engine.close()


@pytest.mark.slow
def test_nothing_is_said_where_all_of_it_is_true(tmp_path: Path) -> None:
    # Rows of nobody break nothing.
    nobody = "INSERT INTO customers VALUES (NULL, 'x'), (NULL, 'y')"
    assert findings(tmp_path, nobody) == {}


@pytest.mark.slow
def test_check_counts_the_units_of_which_it_is_not_true(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        "INSERT INTO customers VALUES (1, 'c1'), (2, 'elsewhere'), (3, NULL)",
        "INSERT INTO orders VALUES (4, 100, NULL), (5, 101, 7)",
        "INSERT INTO lines SELECT 100, 'other' FROM range(2)",
    )
    assert found == {
        "customers": "a customer has at most 1 row here by the policy, but 3 have more: of these "
        "1 count, and answers leave out the others",
        "customers.country": "a customer has one value of it by the policy, but 2 have several: of "
        "these one counts, and answers leave out the others",
        "orders": "a customer has at most 3 rows here by the policy, but 2 have more: of these 3 "
        "count, and answers leave out the others",
        "orders.size": "a customer has one value of it by the policy, but 1 have several: of these "
        "one counts, and answers leave out the others",
        "lines": "a customer has at most 4 rows here by the policy, but 1 have more: of these 4 "
        "count, and answers leave out the others",
        "lines.note": "a customer has one value of it by the policy, but 1 have several: of these "
        "one counts, and answers leave out the others",
    }


@pytest.mark.slow
def test_the_command_warns_and_goes_on(tmp_path: Path) -> None:
    findings(tmp_path, "INSERT INTO customers VALUES (1, 'c1')")
    place = ["-d", f"{tmp_path}/shop.duckdb", "-p", f"{tmp_path}/p.yaml"]
    done = CliRunner().invoke(cli, ["check", *place, "-f", "json"])
    assert done.exit_code == 0
    assert '"subject": "customers"' in done.stdout
    assert "Raise or remove rows_per_unit, or mend the data." in done.stdout


@pytest.mark.slow
def test_a_table_default_above_an_account_is_noticed(tmp_path: Path) -> None:
    findings(tmp_path)
    policy = load_policy(tmp_path / "p.yaml")
    orders = replace(policy.tables["orders"], defaults={"epsilon": 2.0})
    greedy = replace(policy, tables={**policy.tables, "orders": orders})
    engine = open_database(tmp_path / "shop.duckdb")
    (found,) = check_policy(greedy, engine.catalog().tables)
    engine.close()
    assert found.message == "the account's epsilon 1 is below the default of orders, 2"


# -- drafts ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_draft_proposes_what_the_data_keep_where_its_owner_looks(tmp_path: Path) -> None:
    findings(tmp_path)
    target = tmp_path / "draft.yaml"
    command = ["init", f"{tmp_path}/shop.duckdb", "-o", str(target), "--no-ask", "--force"]
    command += ["--unit", "orders.cust=customer", "--public", "lines"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert "per_unit" not in target.read_text(encoding="utf-8")  # no row was read
    assert CliRunner().invoke(cli, [*command, "--look"]).exit_code == 0
    text = target.read_text(encoding="utf-8")
    assert (
        "    # rows_per_unit: 1  # SEEN: no customer has two rows. Confirm that none ever can.\n"
        in text
    )
    assert "    # SEEN: no customer has two values in these columns." in text
    assert "    #   size\n" in text
    assert "    #   onr\n" not in text
    customers = parse_policy(text, "draft").table("customers")
    assert customers is not None
    assert customers.rows_per_unit is None  # a comment, until its owner confirms it
    confirmed = parse_policy(text.replace("# rows_per_unit", "rows_per_unit"), "draft")
    assert confirmed.tables["customers"].rows_per_unit == 1


LINKED = f"""
tables:
  t: {{{UNIT}, defaults: {{min_units_per_group: 50, epsilon: 0.25}}}}
  visits: {{}}
  notes: {{defaults: {{min_units_per_group: 60}}}}
  lines: {{}}
  calls: {{{UNIT}}}
links:
  - visits.t_id -> t.id
  - notes.visit -> visits.id
  - lines.note -> notes.id
  - calls.receiver -> t.id
"""


@pytest.mark.parametrize(
    ("read", "least", "of"),
    [
        (("t",), 50, "t"),
        (("visits",), 50, "t"),
        (("notes",), 60, "notes"),
        (("lines",), 60, "notes"),
        (("lines", "t"), 60, "notes"),
        (("calls",), 50, "t"),
    ],
)
def test_a_minimum_holds_for_the_tables_that_are_linked_to_its_table(
    read: tuple[str, ...], least: int, of: str
) -> None:
    """Their rows are about the same units; what else a table says is of its own rows."""
    policy = parse_policy(f"{HEAD}{LINKED}", "p.yaml")
    tables = [TableName.of(name) for name in read]
    _, found, told = over_tables(policy, policy.defaults, tables)
    assert found.min_units_per_group == least
    assert [str(each.table) for each in told if each.parameter == "min_units_per_group"] == [of]
    assert found.epsilon == (0.25 if "t" in read else policy.defaults.epsilon)
    less = replace(
        policy.defaults, min_units_per_group=49, given=frozenset({"min_units_per_group"})
    )
    with fails_with("parameter_out_of_range"):
        over_tables(policy, less, tables)


def linked(tmp_path: Path, *rows: str) -> list[str]:
    """What a check finds in tables with links on several columns, one of them between units."""
    with duckdb.connect(str(tmp_path / "links.duckdb")) as writer:
        writer.execute("CREATE TABLE sales (who BIGINT, no INTEGER, line INTEGER)")
        writer.execute("CREATE TABLE parts (no INTEGER, line INTEGER)")
        writer.execute("CREATE TABLE refunds (whom BIGINT, no INTEGER, line INTEGER)")
        writer.execute("INSERT INTO sales VALUES (1, 5, 0), (1, 5, 1), (2, 6, 0), (NULL, NULL, 1)")
        writer.execute("INSERT INTO refunds VALUES (1, 5, 0), (NULL, 6, 0), (3, NULL, 0)")
        for text in rows:
            writer.execute(text)
    policy = parse_policy(
        f"{HEAD}accounts: {{ana: {{epsilon: 3, delta: 1e-6}}}}\ntables:\n  sales: {{privacy_unit: {{name: u, column: who}}}}\n  parts: {{}}\n"
        "  refunds: {privacy_unit: {name: u, column: whom}}\nlinks:\n"
        "  - parts.(no, line) -> sales.(no, line)\n  - refunds.(line, no) -> sales.(line, no)\n"
    )
    engine = open_database(tmp_path / "links.duckdb")
    try:
        assert check_policy(policy, engine.catalog().tables) == []
        opened = listed_engine(engine)
        found = check_links(policy, opened.schema, partial(repeats, policy, opened))
        return [f"{f.subject}: {f.message}" for f in (*found, *broken_promises(policy, opened))]
    finally:
        engine.close()


@pytest.mark.slow
def test_check_reads_links_on_several_columns_as_a_whole(tmp_path: Path) -> None:
    assert linked(tmp_path) == []
    (tmp_path / "two").mkdir()
    found = linked(
        tmp_path / "two",
        "INSERT INTO sales VALUES (2, 5, 1)",
        "INSERT INTO refunds VALUES (1, 6, 0), (4, 5, 0), (4, 7, 7)",
    )
    assert [text.split(",")[0] for text in found] == [
        "sales.(no",
        "refunds: rows with the same line",
    ]
    assert "3 such keys are of several" in found[1]


def test_check_counts_the_values_that_name_a_second_unit(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "gifts.duckdb")) as writer:
        writer.execute("CREATE TABLE people (who BIGINT)")
        writer.execute("CREATE TABLE gifts (giver BIGINT, receiver BIGINT)")
        writer.execute("INSERT INTO people VALUES (1), (2), (3)")
        writer.execute("INSERT INTO gifts VALUES (1, 1), (1, 2), (2, 2), (3, NULL), (NULL, 3)")
    policy = parse_policy(
        f"{HEAD}accounts: {{ana: {{epsilon: 3, delta: 1e-6}}}}\ntables:\n  people: {{privacy_unit: {{name: u, column: who}}}}\n"
        "  gifts: {privacy_unit: {name: u, column: giver}}\nlinks:\n  - gifts.receiver -> people.who\n"
    )
    engine = open_database(tmp_path / "gifts.duckdb")
    try:
        (found,) = broken_promises(policy, listed_engine(engine))
    finally:
        engine.close()
    assert found.subject == "gifts"
    assert found.message == (
        "receiver names a u beside the row's own, but 1 values stand in rows of another one, "
        "which joins along the link leave out"
    )
