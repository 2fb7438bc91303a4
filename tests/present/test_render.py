"""What people see: figures, tables, plans and budgets, safe to print whatever the data holds."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from decimal import Decimal
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.present import present
from rich.console import Console
from rich.text import Text

import dpsql
from dpsql import present as render
from dpsql.core.formatting import cell, json_text, plain_cell
from dpsql.errors import Place
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.present.result_files import result_markdown
from dpsql.present.tables import titled
from dpsql.privacy.accounting.zcdp import Composition

HOSTILE = (
    "<script>alert(1)</script>",
    "[bold red]markup[/bold red]",
    "\x1b[31mescape\x1b[0m",
    "two\nlines",
    "\u202eright to left",
)
MANY = 60


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    random = np.random.default_rng(5)
    units = np.arange(24_000)
    keys = np.array([*HOSTILE, None], dtype=object)
    engine = dpsql.DuckDBEngine()
    engine.register(
        "t",
        {
            "u": units,
            "key": keys[units % len(keys)],
            "many": units % MANY,
            "year": 2000 + units % 3,
            "x": random.uniform(0, 10, len(units)),
        },
        types={"key": "VARCHAR"},
    )
    policy = Policy(
        "world",
        tables={
            "t": TablePolicy(
                "t",
                PrivacyUnit("person", "u"),
                {
                    "x": ColumnPolicy(0, 10),
                    "many": ColumnPolicy(domain=tuple(range(MANY))),
                    "year": ColumnPolicy(domain=(2000, 2001, 2002)),
                },
            )
        },
        accounts={"ana": AccountPolicy("ana", 100.0, 1e-4)},
        defaults=Parameters(
            epsilon=5.0,
            delta=1e-6,
            max_groups_contributed=1,
            max_rows_contributed=1,
            left_out_share=0.0,
        ),
    )
    with dpsql.connect(engine, policy, tmp_path / "budget.db", "ana") as opened:
        yield opened


@pytest.fixture
def hostile(connection: dpsql.Connection) -> dpsql.Result:
    return connection.sql("SELECT key, COUNT(DISTINCT u) AS n FROM t GROUP BY key")


def body(text: str) -> list[str]:
    """The rows of a printed table: below its rule, above the blank line before the footer."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("──")) + 1
    return lines[start : lines.index("", start)]


# -- results as text --------------------------------------------------------------------------


def test_an_error_breaks_no_word_at_a_terminal_and_no_line_elsewhere() -> None:
    place = Place.in_text("SELECT " + "x, " * 40 + "nope FROM visits", 127, 131)
    error = dpsql.QueryRefused(
        "none of the tables has a column nope " * 4,
        code="expression_not_allowed",
        place=place,
        hint="Try it. " * 9,
    )
    assert render.error_console(io.StringIO()).soft_wrap
    for terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, force_terminal=terminal, width=41, color_system=None)
        console.soft_wrap = not terminal
        render.print_error(console, error)
        lines = file.getvalue().splitlines()
        assert (max(map(len, lines)) <= 41) is terminal
        assert set(file.getvalue().split()) >= {"tables", "column", "Try", "it.", "^^^^"}
        under = next(n for n, line in enumerate(lines) if "^^^^" in line)
        start = lines[under].index("^")
        assert lines[under - 1][start : start + 4] == "nope"


def test_plain_text_carries_no_control_characters_even_if_the_data_does(
    hostile: dpsql.Result,
) -> None:
    assert all(line.isprintable() for line in repr(hostile).split("\n"))
    assert "\\x1b[31mescape" in repr(hostile)
    assert "two\\nlines" in repr(hostile)


def test_markup_in_data_is_shown_and_not_obeyed(hostile: dpsql.Result) -> None:
    assert "[bold red]markup[/bold red]" in repr(hostile)


@pytest.mark.slow
def test_null_keys_are_shown_as_null(hostile: dpsql.Result) -> None:
    assert sum(line.startswith("NULL ") for line in body(repr(hostile))) == 1


def test_counts_show_their_symmetric_interval(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT COUNT(DISTINCT u) AS n FROM t")
    (value,), interval = result.fetchall()[0], result.intervals()["n"]
    margin = (interval.high[0] - interval.low[0]) / 2
    assert f"{value:,}   ± {margin:,.0f}" in repr(result)


@pytest.mark.slow
def test_averages_show_both_ends_at_the_precision_their_noise_deserves(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql("SELECT AVG(x) AS x FROM t")
    interval = result.intervals()["x"]
    decimals = len(body(repr(result))[0].split()[0].split(".")[1])
    half_width = (interval.high[0] - interval.low[0]) / 2
    assert 0.5 <= half_width * 10**decimals < 100
    assert f"{interval.low[0]:.{decimals}f} to {interval.high[0]:.{decimals}f}" in repr(result)


def test_intervals_follow_the_confidence_asked_for(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT COUNT(DISTINCT u) AS n FROM t")
    text = render.uncoloured(render.result_panel(result, 0.5))
    assert "50%" in text
    assert "95%" not in text
    wide = render.uncoloured(render.result_panel(result, 0.999))
    margins = [int(present(re.search(r"± ([\d,]+)", t))[1].replace(",", "")) for t in (text, wide)]
    assert margins[0] < margins[1]


@pytest.mark.slow
def test_long_results_are_cut_and_say_how_many_rows_are_left(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT many, COUNT(DISTINCT u) AS n FROM t GROUP BY many")
    assert len(result) == MANY
    assert body(repr(result))[-1] == f"… {MANY - render.MAX_ROWS} more rows"
    assert len(body(repr(result))) == render.MAX_ROWS + 1
    everything = render.uncoloured(render.result_panel(result, max_rows=None))
    assert len(body(everything)) == MANY


def test_years_are_not_given_thousands_separators(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT year, COUNT(DISTINCT u) AS n FROM t GROUP BY year ORDER BY 1")
    assert [line.split()[0] for line in body(repr(result))] == ["2000", "2001", "2002"]
    assert re.search(r"\d,\d{3}", repr(result))


def test_an_empty_release_says_so(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT key, COUNT(DISTINCT u) AS n FROM t WHERE year = 1 GROUP BY key")
    assert len(result) == 0
    assert "no groups were released" in repr(result)
    assert "paid ε" in repr(result)


def test_the_footer_tells_mechanism_cost_and_what_intervals_cover(
    connection: dpsql.Connection,
) -> None:
    top = connection.sql(
        "SELECT key, COUNT(DISTINCT u) AS n FROM t GROUP BY key ORDER BY n DESC LIMIT 50",
        max_groups_contributed="unlimited",
    )
    text = repr(top)
    assert "gumbel_top_k" in text
    assert re.search(r"paid ε [\d.]+ of 5 reserved at δ 1e-06", text)


@pytest.mark.slow
def test_a_result_says_what_it_means_in_plain_words(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT key, COUNT(DISTINCT u) AS n FROM t GROUP BY key")
    assert result.summary() in " ".join(repr(result).split())
    assert result.summary(0.5) in " ".join(
        render.uncoloured(render.result_panel(result, 0.5)).split()
    )
    assert result.summary() in Document(result._repr_html_()).text


@pytest.mark.slow
def test_columns_that_no_range_follows_have_no_interval(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT COUNT(DISTINCT u) % 7 AS rest FROM t")
    assert not any("±" in line for line in body(repr(result)))
    assert result.intervals() == {}
    assert "before the outer query" in result.summary()


def test_wide_tables_are_not_cut_when_printed_as_text(connection: dpsql.Connection) -> None:
    columns = ", ".join(f"COUNT(DISTINCT u) AS a_rather_long_column_name_{i}" for i in range(8))
    text = repr(connection.sql(f"SELECT {columns} FROM t"))
    assert all(f"a_rather_long_column_name_{i} " in text for i in range(8))
    assert "…" not in text


# -- results as HTML --------------------------------------------------------------------------


class Document:
    """A piece of HTML that is well-formed XML: its tags, its texts, its attributes."""

    def __init__(self, html: str) -> None:
        elements = list(ElementTree.fromstring(html).iter())
        self.tags = {element.tag for element in elements}
        self.text = [text for element in elements for text in (element.text, element.tail) if text]
        self.attributes = [element.attrib for element in elements]


def test_html_is_well_formed_and_escapes_data_and_column_names(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql(
        'SELECT key AS "<img src=x>", COUNT(DISTINCT u) AS "</td>&amp;" FROM t GROUP BY key'
    )
    page = Document(result._repr_html_())
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "span"}
    assert "<script>alert(1)</script>" in page.text
    assert "<img src=x>" in page.text
    assert "</td>&amp;" in page.text
    assert all(set(attributes) <= {"style"} for attributes in page.attributes)
    assert "\x1b" not in result._repr_html_()
    assert "\u202e" not in result._repr_html_()


def test_html_takes_its_colours_from_the_page_so_that_light_and_dark_ones_can_be_read(
    hostile: dpsql.Result,
) -> None:
    html = hostile._repr_html_()
    assert "opacity" in html
    assert set(re.findall(r"#[0-9a-f]{3,8}", html)) == {"#8888"}
    assert not re.search(r"(?:background|[^-]color)\s*:", html)


def test_html_cuts_long_results_too(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT many, COUNT(DISTINCT u) AS n FROM t GROUP BY many")
    html = result._repr_html_()
    assert html.count("<tr>") == render.MAX_ROWS + 1
    assert f"… {MANY - render.MAX_ROWS} more rows" in html


def test_html_tells_nulls_from_texts_that_look_like_them(connection: dpsql.Connection) -> None:
    result = connection.sql(
        "SELECT key, COUNT(DISTINCT u) AS n FROM t WHERE key IS NULL GROUP BY key"
    )
    assert '<span style="opacity:.6;font-style:italic">NULL</span>' in result._repr_html_()


@pytest.mark.slow
def test_html_of_what_is_not_a_release_has_no_footer(connection: dpsql.Connection) -> None:
    page = Document(connection.sql("SHOW SCHEMAS")._repr_html_())
    assert page.tags == {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert not any("paid" in text or "At least" in text for text in page.text)
    explained = connection.sql("EXPLAIN SELECT COUNT(*) FROM t WHERE key = '</pre><b>'")
    assert Document(explained._repr_html_()).tags == {"div", "pre", "details", "summary"}


# -- plans ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_explanation_tells_the_whole_plan(connection: dpsql.Connection) -> None:
    text = repr(
        connection.explain(
            "EXPLAIN (SQL) "
            "SELECT key, COUNT(DISTINCT u) n, AVG(x) FROM t GROUP BY key ORDER BY n DESC LIMIT 3",
            mechanism="gumbel_top_k",
        )
    )
    for part in (
        "Reserves  ε 5 at δ 1e-06",
        "protecting every person (u)",
        "Durfee & Rogers 2019",
        "gumbel_top_k",
        "gaussian_top_k",
        "laplace_positive_counts",
        "half the time",
        "95% of the time",
        "of what is left",
        "depends on the count",
        "Private SQL",
        'FROM "t"',
        "Public tail",
        "LIMIT 3",
    ):
        assert part in text, part
    assert "\x1b" not in text


def test_an_explanation_numbers_its_blocks(connection: dpsql.Connection) -> None:
    text = repr(
        connection.explain(
            "SELECT (SELECT COUNT(*) FROM t WHERE year = 2000), (SELECT COUNT(*) FROM t)"
        )
    )
    assert "Private block 1 of 2" in text
    assert "Private block 2 of 2" in text
    assert "all of it, whatever comes out" in text


def test_what_looks_like_markup_or_escapes_in_a_query_is_shown_as_it_is(
    connection: dpsql.Connection,
) -> None:
    sql = "SELECT SUM(CASE WHEN key = '[/bold]:smile:\x1b[31m' THEN x END) FROM t"
    text = repr(connection.explain(sql))
    assert "[/bold]:smile:\\x1b[31m" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_a_long_declared_domain_does_not_flood_the_plan(tmp_path: Path) -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("t", {"u": np.arange(9), "key": np.arange(9)})
    policy = Policy(
        "world",
        tables={
            "t": TablePolicy(
                "t", PrivacyUnit("person", "u"), {"key": ColumnPolicy(domain=tuple(range(9999)))}
            )
        },
        accounts={"ana": AccountPolicy("ana", 1.0, 1e-4)},
    )
    with dpsql.connect(engine, policy, None, "ana") as connection:
        text = repr(connection.explain("SELECT key, COUNT(*) FROM t GROUP BY key"))
    assert len(text) < 10_000


def test_errors_are_printed_without_control_characters() -> None:
    place = Place.in_text("a\tb\x1b[31m", 2, 3)
    error = dpsql.QueryRefused("no \x1b[31mred", code="raw_rows", place=place, hint="one\ntwo\x07")
    text = render.uncoloured(render.error_panel(error))
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.split("\n")[1:3] == ["  a b [31m", "    ^"]
    assert "hint: one\ntwo\\x07" in text


@pytest.mark.slow
def test_a_result_of_basic_composition_shows_what_it_paid_and_no_rho(tmp_path: Path) -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("t", {"uid": np.arange(100), "key": np.array(["a"] * 100)})
    policy = Policy(
        "world",
        accounts={"ana": AccountPolicy("ana", 1.0, 1e-4, Composition.BASIC)},
        tables={"t": TablePolicy("t", PrivacyUnit("person", "uid"), {})},
        defaults=Parameters(epsilon=0.5, delta=2.0**-20, left_out_share=0.0),
    )
    with dpsql.connect(engine, policy, tmp_path / "budget.db", "ana") as opened:
        text = repr(opened.sql("SELECT key, COUNT(*) AS n FROM t GROUP BY key"))
    (footer,) = [line for line in text.split("\n") if "paid" in line]
    assert footer.endswith("· paid ε 0.5 at δ 9.537e-07")
    assert "ρ" not in text


def listed(width: int) -> list[str]:
    table = titled("", "where", "finding", right=(1,))
    table.add_row(Text("error"), Text("visits.cost"), Text("a column without bounds " * 3))
    table.add_row(Text("warning"), Text(""), Text("0123456789" * 5))
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.slow
def test_a_table_is_a_list_of_lines_where_it_would_break_words() -> None:
    wide, narrow = listed(60), listed(40)
    assert wide[0].split() == ["where", "finding"]
    assert narrow == [
        *("─[ error ]───", "where   │ visits.cost"),
        *(
            "finding │ a column without bounds a",
            "          column without bounds a column",
            "          without bounds",
        ),
        *("─[ warning ]───", f"finding │ {'0123456789' * 3}", f"          {'0123456789' * 2}"),
    ]
    for width in range(24, 90):
        words = " ".join(listed(width)).replace("│", " ").split()
        assert words.count("column") == words.count("bounds") == 3
        assert "visits.cost" in words
        assert all(len(line) <= width for line in listed(width))


def test_the_text_null_is_told_apart_from_a_missing_key(connection: dpsql.Connection) -> None:
    keys = "CASE WHEN year = 2000 THEN 'NULL' WHEN year = 2001 THEN '''NULL''' END"
    sql = f"SELECT {keys} AS k, COUNT(*) AS n FROM t GROUP BY k"
    result = connection.sql(sql, epsilon=3.0)
    assert len(result) == 3
    shown = {line.split(" ")[0] for line in body(repr(result))}
    marked = {"NULL", "'NULL'", "'''NULL'''"}
    assert shown == marked
    markdown = result_markdown(result, None).splitlines()[2:]
    assert {line.split(" | ")[0].removeprefix("| ") for line in markdown} == marked
    assert sum(result._repr_html_().count(f">{escape(mark)}<") for mark in marked) == 3


def test_decimals_are_written_with_all_of_their_digits() -> None:
    zero, small = Decimal("0E-10"), Decimal("1E-7")
    assert cell(zero) == plain_cell(zero) == "0.0000000000"
    assert cell(small) == plain_cell(small) == "0.0000001"
    assert json_text([zero, small, Decimal("0.1000000000000000055")]) == (
        '[0.0, 1e-07, "0.1000000000000000055"]'
    )
