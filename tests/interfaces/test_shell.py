"""The shell's pure parts: where statements end, what may come next, settings, sketches, prices."""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.present import present
from helpers.support import listed_engine
from helpers.unchecked_runs import unread
from rich.cells import cell_len
from test_docs_pages import generator

import dpsql
from dpsql.budget import BudgetReport, OwnAccount, payer
from dpsql.core.formatting import significant
from dpsql.core.schema import Table, schema_of
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import EngineError
from dpsql.interfaces.shell.cancel import Cancelled, Work
from dpsql.interfaces.shell.candidates import (
    AGGREGATES,
    FUNCTIONS_OF_ROWS,
    NOISE,
    SQL_FUNCTIONS,
    WINDOW_FUNCTIONS,
    Argument,
    Known,
    Nameable,
)
from dpsql.interfaces.shell.command import KEYS_OF_PROMPT
from dpsql.interfaces.shell.completion import candidates
from dpsql.interfaces.shell.costs import Balance, Price, balance, price, spent_between
from dpsql.interfaces.shell.screen import pager, writable
from dpsql.interfaces.shell.script import ALL, BY_NAME
from dpsql.interfaces.shell.settings import SHELL_SETTINGS, Expanded, Format, ShellSettings
from dpsql.interfaces.shell.sketch import SketchBar, grouped, sketch
from dpsql.interfaces.shell.splitter import Piece, finished, pieces
from dpsql.ledger import Ledger, Spent, Standing, Window
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Maxima, Parameters
from dpsql.privacy.accounting.zcdp import Amount, Budget, Composition, PrivacyLoss
from dpsql.results.explanation import Explanation
from dpsql.syntax.row_functions import ROW_FUNCTIONS
from dpsql.syntax.split import split

# -- where statements end ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements", "rest", "open_"),
    [
        ("select 1", [], "select 1", False),
        ("select 1;", ["select 1"], "", False),
        (
            "select ';' ; -- a;b\n select \"x;\" /* ; */;",
            ["select ';' ", 'select "x;" /* ; */'],
            "",
            0,
        ),
        ("select $$ a;b $$;", ["select $$ a;b $$"], "", False),
        ("/* a /* b; */ ; */ select 1;", ["select 1"], "", False),
        ("-- it's\nselect 1;", ["select 1"], "", False),
        ("select 'it''s;'; select 2", ["select 'it''s;'"], "select 2", False),
        ("select 'abc;", [], "select 'abc;", True),
        ("select $$ a;", [], "select $$ a;", True),
        ("/* never closed ;", [], "", True),
        (";; ;", [], "", False),
        ("", [], "", False),
        ("-- nothing; at all", [], "", False),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_stands_in_quotes_or_comments(
    text: str, statements: list[str], rest: str, open_: bool | int
) -> None:
    found = split(text)
    assert [text[start:end] for start, end in found.statements] == statements
    assert text[found.rest :] == rest
    assert found.open == open_


def run_of(text: str) -> list[Piece]:
    return list(pieces(text.splitlines(keepends=True)))


def test_pieces_know_the_line_they_begin_on() -> None:
    text = "-- first\nselect 1; select\n2;\n\\d visits\n\n  select 'a\n;\n' ; select 3\n"
    assert [(piece.text, piece.line) for piece in run_of(text)] == [
        ("select 1", 2),
        ("select\n2", 2),
        ("\\d visits", 4),
        ("select 'a\n;\n'", 6),
        ("select 3", 8),
    ]


def test_every_piece_stands_in_its_text_where_it_says() -> None:
    text = (
        "select 1;\n  select 2; select\n 3;/* x\n */ \\no\n;\nselect 'y;'\n\n; select 5; select 6"
    )
    lines = text.splitlines()
    found = run_of(text)
    assert len(found) == 7
    for piece in found:
        place = piece.place(None, "file")
        first = piece.text.split("\n")[0]
        assert lines[place.line - 1][place.column - 1 :].startswith(first)
        assert place.source == "file"


def test_a_command_is_no_command_inside_of_quotes_and_comments() -> None:
    assert [p.text for p in run_of("select '\n\\q\n';\n/*\n\\q */ select 1;")] == [
        "select '\n\\q\n'",
        "select 1",
    ]


def test_a_command_keeps_the_statement_that_was_being_typed() -> None:
    (piece,) = run_of("-- why\nselect 1\nfrom t\n\\explain\n")
    assert (piece.text, piece.typed) == ("\\explain", "-- why\nselect 1\nfrom t")


def test_statements_are_run_as_they_come_not_at_the_end() -> None:
    def lines() -> Iterator[str]:
        yield "select 1;\n"
        raise AssertionError("more was read than needed")

    assert next(pieces(lines())).text == "select 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", False),
        ("select 1;", True),
        ("select 1; select", False),
        ("select ';", False),
        ("select 1; -- done", True),
        ("/* a comment", False),
        ("-- a comment", True),
        ("", True),
        ("\\d", True),
        ("select 1\n\\explain", True),
        ("select '\n\\explain", False),
        ("exit", True),
        ("EXIT;", True),
        ("quit ", True),
        ("exit 1", False),
    ],
)
def test_enter_runs_what_is_finished_and_nothing_else(text: str, expected: bool) -> None:
    assert finished(text) is expected


# -- completion -------------------------------------------------------------------------------

POLICY = Policy(
    "world",
    defaults=Parameters(epsilon=0.5, left_out_share=0.0),
    maxima=Maxima(epsilon=2.0),
    accounts={"ana": AccountPolicy("ana", 3.0, 1e-6)},
    tables={
        "visits": TablePolicy("visits", PrivacyUnit("person", "uid"), {"cost": ColumnPolicy(0, 9)}),
        "shops": TablePolicy("Shops", None),
    },
)
SCHEMA = schema_of(
    Table("visits", tuple(column_of(n, "BIGINT") for n in ("uid", "color", "cost", "order"))),
    Table("Shops", (column_of("k", "BIGINT"), column_of("shop name", "VARCHAR"))),
    Table("secret", (column_of("hidden", "BIGINT"),)),
)
KNOWN = Known(
    Nameable.of(POLICY, SCHEMA),
    {f"\\{name}": command.takes for name, command in BY_NAME.items()},
    ("n", "mean"),
)


def offered(text: str) -> list[str]:
    """What is suggested at the bar in a text, or at its end."""
    before, _, after = text.partition("|")
    return [str(found.text) for found in candidates(before, after, KNOWN)]


def completed(text: str) -> list[str]:
    """The texts that the suggestions make."""
    before, _, after = text.partition("|")
    return [
        before[: len(before) - found.length] + found.text + after
        for found in candidates(before, after, KNOWN)
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT * FROM ", ["visits", "Shops"]),
        ("SELECT * FROM vi", ["visits"]),
        ("SELECT * FROM visits v JOIN s", ["Shops"]),
        ("SELECT * FROM visits, ", ["visits", "Shops"]),
        ("SELECT co|FROM visits", ["color", "cost", "count(", "count_if("]),
        ("SELECT v.| FROM visits v", ["uid", "color", "cost", '"order"']),
        ("SELECT v.co| FROM visits AS v JOIN shops s ON TRUE", ["color", "cost"]),
        ("SELECT s.| FROM visits v JOIN shops s ON TRUE", ["k", '"shop name"']),
        ("SELECT s.sh| FROM shops s", ['"shop name"']),
        ("SELECT COUNT(DISTINCT | FROM visits", ["uid", "color", "cost", '"order"']),
        ("SELECT * FROM visits WHERE co", ["color", "cost"]),
        ("SELECT color FROM visits GROUP BY CO", ["color", "cost", "COUNT("]),
        ("SELECT color F", ["FALSE", "FILTER", "FROM", "FULL"]),
        ("select color fr", ["from"]),
        ("SELECT dp_int", ["dp_interval_high(", "dp_interval_low("]),
        ("EXPLAIN SEL", ["SELECT"]),
        ("SELECT 1; SET eps", ["epsilon"]),
        ("SET epsilon = ", ["0.5", "2"]),
        ("SET contribution_bounding TO ", ["sample", "weight"]),
        ("RESET k", ["k_bar"]),
        ("SHOW ", ["BUDGET", "MATERIALIZED VIEWS", "PARAMETERS", "TABLES"]),
        ("DESCRIBE v", ["visits"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (eps", ["epsilon = "]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = ", ["0.5", "2"]),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (k_bar = 9, mech", ["mechanism = "]),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'gumbel_t",
            ["'gumbel_top_k'"],
        ),
        ("\\pl", ["\\plot"]),
        ("\\d ", ["visits", "Shops"]),
        ("\\plot m", ["mean"]),
        ("\\set conf", ["confidence", "confirm"]),
        ("\\set epsilon ", ["0.5", "2"]),
        ("\\set pager ", ["on", "off"]),
        ("\\unset min", ["min_units_per_group"]),
        ("\\format js", ["json", "jsonl"]),
        ("\\x a", ["auto"]),
        ("\\confirm o", ["on", "off"]),
        ("\\help bud", ["budget"]),
        ("\\explain SELECT * FROM v", ["visits"]),
    ],
)
def test_what_is_likely_is_suggested_first(text: str, first: list[str]) -> None:
    assert offered(text)[: len(first)] == first


SCHEMAS = [
    TableName("fact"),
    TableName("fact", "mart"),
    TableName("mart.fact"),
    TableName("order lines", "my mart"),
    TableName("dim", "mart"),
]
SEVERAL = Known(
    Nameable.of(
        Policy("several", tables={n.key: TablePolicy(n, None) for n in SCHEMAS}),
        schema_of(*(Table(n, (column_of(f"c{i}", "BIGINT"),)) for i, n in enumerate(SCHEMAS))),
    ),
    {"\\d": Argument.TABLE, "\\explain": Argument.SQL},
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\d ", ["fact", "mart.fact", '"mart.fact"', '"my mart"."order lines"', "mart.dim"]),
        ("\\d mart.", ["mart.fact", '"mart.fact"', "mart.dim"]),
        ("\\d mart.fa", ["mart.fact", '"mart.fact"']),
        ("DESCRIBE mart.d", ["dim"]),
        ("SELECT * FROM mart.", ["fact", "dim"]),
        ("SELECT * FROM MART.d", ["dim"]),
        ("SELECT * FROM fact JOIN mart.", ["fact", "dim"]),
        ('SELECT * FROM "my mart".', ['"order lines"']),
        ("SELECT * FROM other.", []),
        ("SELECT fact.| FROM mart.fact", ["c1"]),
        ("SELECT fact.| FROM fact", ["c0"]),
        ("SELECT fact.| FROM main.fact", ["c0"]),
        ("SELECT mart.fact.| FROM mart.fact", ["c1"]),
        ("SELECT f.| FROM mart.fact AS f", ["c1"]),
        ('SELECT f.| FROM "mart.fact" f', ["c2"]),
        ('SELECT o.| FROM "my mart"."order lines" o', ["c3"]),
        ("SELECT * FROM fact JOIN mart.dim d ON d.", ["c4"]),
        ("SELECT * FROM mart.fact WHERE mart.fact.", ["c1"]),
    ],
)
def test_tables_of_a_schema_and_their_columns_are_suggested_behind_its_name(
    text: str, found: list[str]
) -> None:
    before, _, after = text.partition("|")
    assert [str(each.text) for each in candidates(before, after, SEVERAL)] == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'co",
        "SELECT color -- co",
        "SELECT /* co",
        "\\dt ",
        "\\d visits ",
        "SET epsilon = 0.5 ",
        "SELECT hid",
        "SELECT secret.",
        "SELECT * FROM sec",
    ],
)
def test_nothing_is_suggested_in_text_nor_of_tables_that_the_policy_does_not_list(
    text: str,
) -> None:
    assert offered(text) == []


def test_names_of_tables_outside_the_policy_are_nowhere() -> None:
    texts = [
        *KNOWN.catalog.tables,
        *(c for columns in KNOWN.catalog.tables.values() for c in columns),
    ]
    assert "secret" not in texts
    assert "hidden" not in texts


def test_a_suggestion_replaces_what_was_typed_of_it() -> None:
    assert completed("SELECT COL|, cost FROM visits")[0] == "SELECT color, cost FROM visits"
    assert completed('SELECT "or| FROM visits')[0] == 'SELECT "order" FROM visits'
    assert completed("\\set tim")[0] == "\\set timing"


def test_files_are_suggested_after_i_and_o(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "one.sql").touch()
    (tmp_path / ".hidden").touch()
    assert offered("\\i ") == ["queries/"]
    assert completed("\\i queries/o") == ["\\i queries/one.sql"]
    assert completed(f"\\o {tmp_path}/q") == [f"\\o {tmp_path}/queries/"]
    assert offered("\\i nowhere/") == []


_COLUMN = {
    "BIGINT": "uid",
    "VARCHAR": "color",
    "TIMESTAMP": "at",
    "NUMBERS": "cost",
    "DOUBLE": "cost",
}
CALLS = {
    **{name: f"{name}(cost)" for name in AGGREGATES},
    "COUNT_IF": "COUNT_IF(cost > 2)",
    "QUANTILE_CONT": "QUANTILE_CONT(cost, 0.5)",
    "QUANTILE_DISC": "QUANTILE_DISC(cost, 0.5)",
    **{name: f"SUM(cost) AS s, {name}(s)" for name in NOISE},
    **{name: f"SUM(cost), {name}() OVER (ORDER BY SUM(cost))" for name in WINDOW_FUNCTIONS},
    "LAG": "LAG(SUM(cost)) OVER (ORDER BY SUM(cost))",
    "LEAD": "LEAD(SUM(cost)) OVER (ORDER BY SUM(cost))",
    **{name: f"COUNT_IF({name}(cost) > 2)" for name in FUNCTIONS_OF_ROWS},
    **{each.name.upper():
       f"COUNT_IF({each.name}({', '.join([_COLUMN[each.takes[-1]], *each.beside[:1]])}) IS NULL)"
       for each in ROW_FUNCTIONS.values()},
    "TRIM": "COUNT_IF(TRIM(color) = 'x')",
    **{name: f"COUNT_IF({name}(color, 2) = 'x')" for name in ("LEFT", "RIGHT", "SUBSTRING")},
    **{name: f"COUNT_IF({name}(cost, 2) > 1)" for name in
       ("COALESCE", "GREATEST", "LEAST", "NULLIF")},
    **{name: f"COUNT_IF({name}(cost AS INTEGER) > 1)" for name in ("CAST", "TRY_CAST")},
    "CONCAT": "COUNT_IF(CONCAT(color, 'x') = 'x')",
    "DATE_DIFF": "COUNT_IF(DATE_DIFF('day', at, at) > 1)",
    "DATE_TRUNC": "COUNT_IF(DATE_TRUNC('day', at) = at)",
    "EXTRACT": "COUNT_IF(EXTRACT(YEAR FROM at) > 1)",
}  # fmt: skip


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> dpsql.Connection:
    engine = DuckDBEngine()
    rows = {"uid": np.array([1, 2]), "color": np.array(["a", "b"]), "cost": np.array([1.0, 2.0])}
    engine.register("visits", rows | {"at": np.array(["2024-01-01"] * 2, "M8[s]")})
    rules = Policy(
        "world",
        accounts={"ana": AccountPolicy("ana", 3.0, 1e-6)},
        tables={"visits": POLICY.tables["visits"]},
    )
    return dpsql.connect(engine, rules, None, "ana")


@pytest.mark.parametrize("name", SQL_FUNCTIONS)
def test_every_function_that_is_suggested_can_be_asked(name: str, asker: dpsql.Connection) -> None:
    assert asker.explain(f"SELECT {CALLS[name]} FROM visits").blocks


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("confidence", "0.9", 0.9),
        ("CONFIDENCE", "99%", 0.99),
        ("confirm", "50%", 0.5),
        ("confirm", "0.1", 0.1),
        ("confirm", "off", None),
        ("confirm", "on", 0.2),
        ("confirm", "0", 0.0),
        ("expanded", "on", Expanded.ON),
        ("format", "CSV", Format.CSV),
        ("format", "'json'", Format.JSON),
        ("intervals", "yes", True),
        ("max_rows", "all", None),
        ("max_rows", "25", 25),
        ("pager", "off", False),
        ("timing", "on", True),
    ],
)
def test_settings_are_read_from_text(name: str, text: str, value: object) -> None:
    changed = ShellSettings().with_text(name, text)
    assert getattr(changed, name.lower()) == value
    assert changed.without(name) == ShellSettings()


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("confidence", "1", "bad_setting"),
        ("confidence", "nan", "bad_setting"),
        ("confidence", "x", "bad_setting"),
        ("confirm", "-1", "bad_setting"),
        ("confirm", "inf", "bad_setting"),
        ("max_rows", "0", "bad_setting"),
        ("max_rows", "-5", "bad_setting"),
        ("format", "xml", "bad_setting"),
        ("timing", "", "bad_setting"),
        ("colour", "on", "unknown_setting"),
    ],
)
def test_bad_settings_are_refused_and_change_nothing(name: str, text: str, code: str) -> None:
    with fails_with(code) as caught:
        ShellSettings().with_text(name, text)
    assert caught.value.hint


def test_every_setting_can_be_shown_and_read_back() -> None:
    settings = ShellSettings(confirm=None, max_rows=None, timing=True, format=Format.MARKDOWN)
    for name, text, meaning in settings.shown():
        assert meaning
        assert settings.with_text(name, text) == settings
    assert {name for name, _, _ in settings.shown()} == set(SHELL_SETTINGS)
    for setting in SHELL_SETTINGS.values():
        for value in setting.values:
            ShellSettings().with_text(setting.name, value)


def test_commands_have_one_name_each_and_say_what_they_do() -> None:
    names = [name for command in ALL for name in command.names]
    assert len(names) == len(set(names))
    for command in ALL:
        assert command.summary
        assert (command.takes is Argument.NOTHING) is (command.usage == "")


# -- sketches ---------------------------------------------------------------------------------

ROWS = [
    SketchBar(("emergency",), "1,234 ± 54", 1234, 1180, 1288),
    SketchBar(("a ward with a very long name",), "523 ± 54", 523, 469, 577),
    SketchBar(("eyes",), "-300 ± 54", -300, -354, -246),
    SketchBar(("心臓",), "NULL", math.nan, math.nan, math.nan),
]


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 20])
def test_a_sketch_keeps_to_its_width(width: int) -> None:
    lines = sketch(ROWS, 100.0, width)
    assert len(lines) == len(ROWS) + 1
    assert all(cell_len(line.plain) <= width for line in lines)


def test_bars_are_in_proportion_and_begin_at_zero() -> None:
    bars = [SketchBar((f"k{n}",), str(n), n, math.nan, math.nan) for n in (100, 50)]
    long, short = sketch(bars, math.nan, 120)[:2]
    assert long.plain.count("█") == pytest.approx(2 * short.plain.count("█"), abs=2)
    assert long.plain.index("█") == short.plain.index("█")
    assert "│" not in long.plain


def test_negative_values_lie_left_of_zero() -> None:
    above, below = (line.plain for line in sketch(
        [SketchBar((key,), "5", value, math.nan, math.nan) for key, value in (("a", 5), ("b", -5))],
        math.nan, 60)[:2])  # fmt: skip
    assert below.rindex("█") == above.index("█")
    assert below.index("█") < above.index("█")


def test_whiskers_span_the_interval_and_cross_at_the_value() -> None:
    (line, _) = (
        line.plain for line in sketch([SketchBar(("a",), "50", 50, 25, 100)], math.nan, 118)
    )
    low, value, high = (line.index(mark) for mark in "├┼┤")
    assert low < value < high
    assert (value - low) / (high - low) == pytest.approx(1 / 3, abs=0.03)


def test_the_threshold_is_marked_at_its_place_in_each_row() -> None:
    lines = [line.plain for line in sketch(ROWS[:1] + ROWS[3:], 600.0, 100)[:2]]
    first, second = (cell_len(line[: line.index("┊")]) for line in lines)
    assert first == second
    assert all("┊" not in line.plain for line in sketch(ROWS, math.nan, 100))


def test_a_sketch_of_zeros_and_of_nulls_is_a_sketch() -> None:
    for value in (0.0, math.nan):
        assert len(sketch([SketchBar(("a",), "0", value, value, value)], math.nan, 40)) == 2


def test_a_second_key_makes_series_that_stand_together() -> None:
    rows = [("eyes", "f", 5), ("ears", "m", 2), ("eyes", "m", 3), ("ears", "f", 4)]
    bars = [SketchBar(row[:2], str(row[2]), row[2], math.nan, math.nan) for row in rows]
    together = grouped(bars)
    assert [bar.label for bar in together] == ["eyes  f", "      m", "ears  f", "      m"]
    assert [(bar.value, bar.series) for bar in together] == [(5, 0), (3, 1), (4, 0), (2, 1)]
    colours = [
        sorted({str(span.style) for span in line.spans}) for line in sketch(together, 1.0, 80)
    ]
    assert colours[0] == colours[2] != colours[1] == colours[3]


def test_keys_that_are_no_series_stay_as_they_are() -> None:
    def bars(*keys: tuple[str, ...]) -> list[SketchBar]:
        return [SketchBar(key, "1", 1, math.nan, math.nan) for key in keys]

    for rows in (
        bars(("a",), ("b",)),
        bars(("a", "x", "1"), ("a", "y", "1")),
        bars(("a", "x"), ("b", "y")),
        bars(*((f"{n % 3}", f"{n}") for n in range(20))),
        [],
    ):
        assert grouped(rows) == rows


# -- prices -----------------------------------------------------------------------------------


def prices(
    directory: Path, composition: Composition, sql: str, spend: int = 0
) -> tuple[Price, Balance, Balance, BudgetReport]:
    """The price of a query, and the balances before and after it has run."""
    engine = DuckDBEngine()
    types = {"uid": "BIGINT", "color": "VARCHAR", "cost": "DOUBLE"}
    rows = {"uid": [1, 2], "color": ["a", "b"], "cost": [1.0, 2.0]}
    engine.register("visits", rows, types=types)
    rules = Policy(
        "world",
        defaults=Parameters(0.5, 1e-8, max_rows_contributed=10, left_out_share=0.0),
        accounts={"ana": AccountPolicy("ana", 3.0, 1e-6, composition)},
        tables={"visits": POLICY.tables["visits"]},
    )
    budget = Budget.of(3.0, 1e-6, composition)
    with (
        dpsql.connect(engine, rules, directory / "budget.db", "ana") as connection,
        Ledger.open(directory / "budget.db") as ledger,
    ):
        for number in range(spend):
            connection.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > {number}")
        account = OwnAccount(payer(rules, "ana"), ledger)
        before = balance(account, budget)
        found = price(connection.explain(sql), before)
        connection.sql(sql)
        return (
            found,
            before,
            balance(OwnAccount(payer(rules, "ana"), ledger), budget),
            connection.budget(),
        )


@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("spend", [0, 2])
def test_a_price_says_what_would_be_left_and_how_many_more(
    composition: Composition, spend: int, tmp_path: Path
) -> None:
    sql = "SELECT SUM(cost) FROM visits"
    found, before, after, report = prices(tmp_path, composition, sql, spend)
    affordable = present(found.affordable)
    assert found.epsilon == pytest.approx(0.5)
    assert found.left == pytest.approx(after.left)
    assert after.left == pytest.approx(report.epsilon_remaining)
    assert after.charges == before.charges + 1 == report.queries
    assert found.share == pytest.approx(1 / affordable, abs=1 / affordable**2)
    if composition is Composition.BASIC:
        assert found.share == pytest.approx(0.5 / (3.0 - 0.5 * spend))
        assert found.affordable == 6 - spend
    else:
        room = before.budget.most.rho - before.spent.rho
        assert found.share == pytest.approx((after.spent.rho - before.spent.rho) / room)
    assert f"about {affordable - 1} more such queries" in found.question
    assert spent_between(before, before) is None
    told = spent_between(before, after)
    assert present(told).endswith(f"ε {significant(after.left, 3)} is left.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("composition", "aggregate", "said"),
    [
        (Composition.ZCDP, ", COUNT(*)", "auto, as no number is given"),
        (Composition.BASIC, ", COUNT(*)", "auto, as no number is given"),
        (Composition.GDP, ", COUNT(*)", "auto, as no number is given"),
    ],
)
def test_a_price_says_what_a_question_without_a_number_gets(
    composition: Composition, aggregate: str, said: str, tmp_path: Path
) -> None:
    sql = f"SELECT cost + 1 AS dear{aggregate} FROM visits GROUP BY 1"
    found, *_ = prices(tmp_path, composition, sql)
    assert f"is left, enough for about {present(found.affordable) - 1} more" in found.question
    assert f" max_groups_contributed is {said}" in found.question
    bare, *_ = prices(tmp_path, composition, "SELECT COUNT(*) FROM visits")
    assert "max_groups_contributed" not in bare.question


def test_a_price_looks_at_the_scarcest_account_and_quantity() -> None:
    budget = Budget.of(3.0, 1e-6, Composition.ZCDP)
    asked = Explanation("q", "", (), PrivacyLoss(0.01, 1e-9), 0.5, 1e-9)

    def found(*limits: tuple[float, float]) -> Price:
        window = Window("2024-01-01T00:00:00", "", Spent())
        amounts = [Amount.limit(PrivacyLoss(rho, delta)) for rho, delta in limits]
        standings = tuple(Standing("a", (a,), None, "{}", window, Spent()) for a in amounts)
        return price(asked, Balance(budget, PrivacyLoss(0.0, 0.0), 0, standings))

    assert found((0.1, 1e-6)).share == pytest.approx(0.1, rel=1e-6)
    assert found((0.1, 2e-9)).share == pytest.approx(0.5, rel=1e-6)
    assert found((0.1, 1e-6), (0.02, 1e-6)).share == pytest.approx(0.5, rel=1e-6)
    too_much = found((0.001, 1e-6))
    assert too_much.affordable == 0
    assert too_much.share > 1
    last = found((0.0101, 1e-6))
    assert last.affordable == 1
    assert "no more such queries" in last.question
    assert not last.open
    asked = Explanation("q", "", (), PrivacyLoss(0.01, 1e-9), 0.5, 1e-9, price_open=True)
    assert "found first make it more or less" in found((0.1, 1e-6)).question


def test_a_limit_of_the_owner_counts_where_it_is_lower(tmp_path: Path) -> None:
    rules = Policy("world", accounts={"ana": AccountPolicy("ana", 3.0, 1e-6)})
    budget = Budget.of(3.0, 1e-6, Composition.ZCDP)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        account = OwnAccount(payer(rules, "ana"), ledger)
        assert balance(account, budget).left == 3.0
        owner = ledger.owner("olga")
        owner.create("world/ana")
        owner.set_limits("world/ana", Amount.limit(Budget.of(1.0, 1e-6, Composition.ZCDP).most))
        assert balance(account, budget).left == pytest.approx(1.0, rel=0.05)


# -- cancelling -------------------------------------------------------------------------------


def test_work_that_is_not_interrupted_gives_its_outcome_or_its_error() -> None:
    assert Work(lambda: None).run(lambda: 42, lambda cancelled: None) == 42

    def fails() -> None:
        raise EngineError()

    with pytest.raises(EngineError):
        Work(lambda: None).run(fails, lambda cancelled: None)


def test_ctrl_c_interrupts_until_the_work_ends_and_leaves_no_handler_behind() -> None:
    before = signal.getsignal(signal.SIGINT)
    stop = threading.Event()
    calls: list[int] = []
    told: list[bool] = []

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        assert stop.wait(10)
        raise EngineError()

    def interrupt() -> None:
        calls.append(1)
        if len(calls) == 3:
            stop.set()

    with pytest.raises(Cancelled):
        Work(interrupt).run(work, told.append)
    assert len(calls) >= 3
    assert told[-1] is True
    assert signal.getsignal(signal.SIGINT) is before


def test_work_between_statements_ends_where_it_looks_up() -> None:
    work, after = Work(lambda: None), []

    def counting() -> None:
        for number in range(3):
            if number == 1:
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.2)
            work.check()
            after.append(number)

    with pytest.raises(Cancelled):
        work.run(counting, lambda cancelled: None)
    assert after == [0]

    def unhindered() -> int:
        work.check()
        return 42

    assert work.run(unhindered, lambda cancelled: None) == 42


def test_an_answer_that_was_ready_when_ctrl_c_came_is_kept() -> None:
    def work() -> str:
        signal.raise_signal(signal.SIGINT)
        return "paid for"

    assert Work(lambda: None).run(work, lambda cancelled: None) == "paid for"


LONG = 'SELECT count(*) AS n, 1 AS "__dpsql_rid" FROM range(20_000_000_000) r(i) WHERE hash(i) = 7'


@pytest.mark.parametrize("way", ["exact", "scratch"])
def test_a_run_is_interrupted_from_another_thread_and_can_be_used_again(way: str) -> None:
    engine = DuckDBEngine()
    engine.register("t", {"x": np.array([1, 2])})
    run = listed_engine(engine).run()
    failed: list[str] = []

    def work() -> None:
        try:
            if way == "exact":
                unread(run).exact(LONG, (), ["n"])
            else:
                with unread(run).scratch() as scratch:
                    scratch.store("x", LONG)
        except EngineError as error:
            failed.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    started = time.monotonic()
    while thread.is_alive() and time.monotonic() - started < 20:
        time.sleep(0.05)
        run.interrupt()
    thread.join(1)
    assert failed == ["interrupted"]
    rows = unread(run).exact('SELECT count(*) AS n, 1 AS "__dpsql_rid" FROM t', (), ["n"])
    assert rows.measures["n"].tolist() == [2]
    run.interrupt()  # nothing is running: nothing happens


# -- terminals --------------------------------------------------------------------------------


def test_what_cannot_be_written_is_written_in_other_letters() -> None:
    assert writable("ε 0.5 ± 3 │ █ …", "ascii") == "eps 0.5 +- 3 | # ..."
    assert writable("ε 日", "ascii") == "eps \\u65e5"
    assert writable("ε é", "iso-8859-1") == "eps é"
    assert writable("ε 0.5", "utf-8") == "ε 0.5"
    assert writable("\ud800", "utf-8") == "\\ud800"


def test_the_pager_is_the_users_choice() -> None:
    assert pager({"TERM": "xterm", "PAGER": "cat -n"}) == ["cat", "-n"]
    assert pager({"TERM": "xterm", "PAGER": "more", "DPSQL_PAGER": "cat"}) == ["cat"]
    assert pager({"TERM": "xterm", "PAGER": ""}) is None
    assert pager({"TERM": "xterm", "PAGER": "no-such-program"}) is None
    assert pager({"TERM": "xterm", "PAGER": "cat '"}) is None
    assert pager({"TERM": "dumb", "PAGER": "cat"}) is None
    assert pager({"PAGER": "cat"}) is None


# -- the page ---------------------------------------------------------------------------------

SCREENS = generator("screens")
PAGE = SCREENS.PAGE.read_text(encoding="utf-8")


def test_the_page_tells_of_every_command_setting_and_key() -> None:
    cells = {
        cell.replace("\\|", "|") for cell in re.findall(r"^\| (`.*?`) \| ", PAGE, re.MULTILINE)
    }
    assert {f"`{command.title}`" for command in ALL} <= cells
    assert {f"`{name}`" for name in SHELL_SETTINGS} <= cells
    assert {
        ", ".join(f"`{key}`" for key in keys.split(", ")) for keys, _ in KEYS_OF_PROMPT
    } <= cells
    for format_ in Format:
        assert f"`{format_}`" in PAGE


def test_the_page_shows_every_screen_with_what_is_the_same_on_each() -> None:
    assert set(re.findall(r"<!-- screen: (\w+) -->", PAGE)) == set(SCREENS.SCREENS)
    for name, (_, parts) in SCREENS.SCREENS.items():
        found = SCREENS.block(name).search(PAGE)
        for part in (*parts, "dataset clinic"):
            assert part in found[2], name
