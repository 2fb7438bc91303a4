"""Plots show what the answer says: its rows, its intervals, its threshold, its cost."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.present import present
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.dates import num2date
from numpy.typing import ArrayLike

mpl.use("Agg")
import matplotlib.pyplot as plt

import dpsql
from dpsql.core.formatting import cell
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.present.plot import MAX_CATEGORIES
from dpsql.present.plot_series import LABEL_WIDTH

HOSTILE = ("$\\frac{1$", "two\nlines", "<b>", "_{x}^", "a", None)
UNITS = 12_000
POLICY = Policy(
    "world",
    tables={
        "t": TablePolicy(
            "t",
            PrivacyUnit("person", "u"),
            {
                "x": ColumnPolicy(0, 10),
                "many": ColumnPolicy(domain=tuple(f"m{i}" for i in range(50))),
                "year": ColumnPolicy(domain=(2000, 2001, 2002)),
            },
        )
    },
    accounts={"ana": AccountPolicy("ana", 200.0, 1e-3)},
    defaults=Parameters(
        epsilon=3.0,
        delta=1e-6,
        max_groups_contributed=1,
        max_rows_contributed=2,
        left_out_share=0.0,
    ),
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    units = np.arange(UNITS)
    engine = dpsql.DuckDBEngine()
    engine.register(
        "t",
        {
            "u": units,
            "key": np.array(HOSTILE, dtype=object)[units % len(HOSTILE)],
            "many": np.array([f"m{i}" for i in range(50)])[units % 50],
            "year": 2000 + units % 3,
            "level": [(None, 10, 20)[u % 3] for u in range(UNITS)],
            "day": [datetime.date(2024, 1, 1 + u % 4) for u in range(UNITS)],
            "half": np.where(units % 5 < 2, "some", "others"),
            "word": np.array([None, "NULL"], dtype=object)[(units % 5 < 2).astype(int)],
            "nine": np.array([f"x{i}" for i in range(9)])[units % 9],
            "x": (units % 11).astype(float),
        },
        types={"key": "VARCHAR", "level": "BIGINT", "day": "DATE", "word": "VARCHAR"},
    )
    ledger = tmp_path_factory.mktemp("ledger") / "budget.db"
    with dpsql.connect(engine, POLICY, ledger, "ana") as opened:
        yield opened


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


BY_KEY = "SELECT key, COUNT(DISTINCT u) AS n, COUNT(*) AS c FROM t GROUP BY key"
BY_YEAR = "SELECT year, COUNT(DISTINCT u) AS n, AVG(x) AS a FROM t GROUP BY year ORDER BY year"


def bars(ax: Axes) -> BarContainer:
    (found,) = [c for c in ax.containers if isinstance(c, BarContainer)]
    return found


def error_bars(ax: Axes) -> list[ErrorbarContainer]:
    return [c for c in ax.containers if isinstance(c, ErrorbarContainer)]


def ends(container: ErrorbarContainer) -> np.ndarray:
    """Lower and upper ends of the error bars."""
    (lines,) = container.lines[2]
    return np.array([segment[:, 1] for segment in lines.get_segments()]).T


@pytest.mark.slow
def test_bars_are_the_values_and_error_bars_the_intervals(connection: dpsql.Connection) -> None:
    result = connection.sql(BY_KEY)
    ax = result.plot(confidence=0.8)
    assert [bar.get_height() for bar in bars(ax)] == [row[1] for row in result.fetchall()]
    interval = result.intervals(0.8)["n"]
    np.testing.assert_allclose(ends(error_bars(ax)[0]), [interval.low, interval.high])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "n")


def data(shown: ArrayLike) -> list[Any]:
    """The coordinates of a line."""
    return list(np.asarray(shown).tolist())


def test_another_column_can_be_drawn(connection: dpsql.Connection) -> None:
    result = connection.sql(BY_KEY)
    ax = result.plot(y="c")
    assert [bar.get_height() for bar in bars(ax)] == [row[2] for row in result.fetchall()]
    assert ax.get_ylabel() == "c"


def test_numbers_make_an_axis_of_numbers(connection: dpsql.Connection) -> None:
    result = connection.sql(BY_YEAR)
    ax = result.plot(y="a")
    (container,) = error_bars(ax)
    assert data(container.lines[0].get_xdata()) == [2000, 2001, 2002]
    assert data(container.lines[0].get_ydata()) == [row[2] for row in result.fetchall()]
    interval = result.intervals()["a"]
    np.testing.assert_allclose(ends(container), [interval.low, interval.high])
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


@pytest.mark.slow
def test_dates_make_an_axis_of_dates(connection: dpsql.Connection) -> None:
    ax = connection.sql("SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day").plot()
    (container,) = error_bars(ax)
    days = [
        num2date(x).date()  # type: ignore[no-untyped-call]
        for x in data(container.lines[0].get_xdata())
    ]
    assert days == [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)]
    ax.figure.canvas.draw()
    assert any(
        "2024" in tick.get_text() or "01" in tick.get_text() for tick in ax.get_xticklabels()
    )


def test_more_than_two_keys_make_categories(connection: dpsql.Connection) -> None:
    sql = "SELECT year, key, half, COUNT(DISTINCT u) AS n FROM t GROUP BY ALL"
    result = connection.sql(sql)
    ax = result.plot()
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert len(bars(ax)) == len(labels) == len(result)
    assert any("· NULL ·" in label for label in labels)
    only = result.plot(x="key")
    assert len(bars(only)) == len(result)  # rows with the same key keep bars of their own


BY_TWO = "SELECT {} AS a, {} AS b, COUNT(DISTINCT u) AS n FROM t GROUP BY ALL"


@pytest.mark.parametrize("along", ["year", "day"])
def test_a_second_key_makes_series_over_numbers_and_dates(
    connection: dpsql.Connection, along: str
) -> None:
    for keys, axis, title in (((along, "half"), "a", "b"), (("half", along), "b", "a")):
        result = connection.sql(BY_TWO.format(*keys))
        ax = result.plot()
        place, other = "ab".index(axis), "ab".index(title)
        legend = present(ax.get_legend())
        names = [text.get_text() for text in legend.get_texts()]
        assert (ax.get_xlabel(), legend.get_title().get_text()) == (axis, title)
        assert sorted(names[:2]) == ["others", "some"]
        assert names[2].startswith("threshold: ")
        containers = error_bars(ax)
        assert len({c.lines[0].get_color() for c in containers}) == len(containers) == 2
        for name, container in zip(names[:2], containers, strict=True):
            rows = sorted((row[place], row[2]) for row in result if row[other] == name)
            assert data(container.lines[0].get_ydata()) == [value for _, value in rows]
            assert container.lines[0].get_linestyle() == "-"


@pytest.mark.slow
def test_two_keys_of_text_make_groups_of_bars(connection: dpsql.Connection) -> None:
    result = connection.sql(BY_TWO.format("key", "word"))
    ax = result.plot()
    groups = [c for c in ax.containers if isinstance(c, BarContainer)]
    assert sum(len(group) for group in groups) == len(result)
    names = [text.get_text() for text in present(ax.get_legend()).get_texts()][:2]
    assert sorted(names) == ["'NULL'", "NULL"]
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    for name, group in zip(names, groups, strict=True):
        wanted = None if name == "NULL" else "NULL"
        assert all((bar.get_hatch() is not None) == (wanted is None) for bar in group)
        rows = [(key, n) for key, b, n in result if b == wanted]
        assert [bar.get_height() for bar in group] == [n for _, n in rows]
        middles = [round(bar.get_x() + bar.get_width() / 2) for bar in group]
        assert [ticks[place] for place in middles] == [cell(key, LABEL_WIDTH) for key, _ in rows]
    ax.figure.canvas.draw()  # names of the data are no mathematics, in a legend either


def test_too_many_series_are_categories(connection: dpsql.Connection) -> None:
    result = connection.sql(BY_TWO.format("many", "nine"))
    assert result.plot().get_xlabel() == "a, b"


def test_thousands_are_separated_of_values_and_not_of_years(connection: dpsql.Connection) -> None:
    ax = connection.sql("SELECT year, SUM(x) AS s FROM t GROUP BY year").plot()
    ax.figure.canvas.draw()
    assert any("," in tick.get_text() for tick in ax.get_yticklabels())
    assert not any("," in tick.get_text() for tick in ax.get_xticklabels())


def test_dates_are_joined_by_a_line_in_their_order_and_numbers_are_not(
    connection: dpsql.Connection,
) -> None:
    sql = "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n % 7"
    (dates,) = error_bars(connection.sql(sql).plot())
    assert dates.lines[0].get_linestyle() == "-"
    assert data(dates.lines[0].get_xdata()) == sorted(data(dates.lines[0].get_xdata()))
    (years,) = error_bars(connection.sql(BY_YEAR).plot())
    assert years.lines[0].get_linestyle() == "None"


@pytest.mark.parametrize("x", [["key", "year"], ("key", "year")])
def test_columns_of_keys_can_be_chosen(
    connection: dpsql.Connection, x: list[str] | tuple[str, str]
) -> None:
    result = connection.sql("SELECT year, key, COUNT(DISTINCT u) AS n FROM t GROUP BY ALL")
    assert result.plot(x=x).get_xlabel() == "key, year"


def test_a_null_key_has_a_bar_that_looks_different(connection: dpsql.Connection) -> None:
    ax = connection.sql(BY_KEY).plot()
    labels = ax.get_xticklabels()
    hatched = [bar.get_hatch() is not None for bar in bars(ax)]
    slanted = [label.get_fontstyle() == "italic" for label in labels]
    assert hatched == slanted == [label.get_text() == "NULL" for label in labels]
    assert sum(hatched) == 1


def test_a_null_key_stands_apart_on_an_axis_of_numbers(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT level, COUNT(DISTINCT u) AS n FROM t GROUP BY level")
    ax = result.plot()
    points, apart = error_bars(ax)
    assert sorted(data(points.lines[0].get_xdata())) == [10, 20]
    (where,) = data(apart.lines[0].get_xdata())
    assert where > 20
    assert apart.lines[0].get_marker() != points.lines[0].get_marker()
    assert [text.get_text() for text in ax.texts] == ["NULL"]
    (value,) = [n for level, n in result.fetchall() if level is None]
    assert data(apart.lines[0].get_ydata()) == [value]


def test_keys_that_have_no_place_on_an_axis_make_categories(
    connection: dpsql.Connection,
) -> None:
    sql = (
        "SELECT IF(year = 2000, 'NaN'::DOUBLE, year) AS y, COUNT(DISTINCT u) AS n FROM t GROUP BY y"
    )
    ax = connection.sql(sql).plot()
    assert sorted(tick.get_text() for tick in ax.get_xticklabels()) == ["2001", "2002", "nan"]
    assert not any(bar.get_hatch() for bar in bars(ax))


def test_of_many_categories_the_first_forty_are_drawn_and_the_caption_says_so(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql("SELECT many, COUNT(DISTINCT u) AS n FROM t GROUP BY many")
    ax = result.plot()
    assert [bar.get_height() for bar in bars(ax)] == [
        row[1] for row in result.fetchall()[:MAX_CATEGORIES]
    ]
    assert f"first {MAX_CATEGORIES} of 50 groups" in ax.get_title("left")
    assert "first" not in connection.sql(BY_KEY).plot().get_title("left")


def test_the_threshold_is_a_labelled_line_that_every_released_count_exceeds(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql(BY_KEY)
    ax = result.plot()
    (line,) = [line for line in ax.lines if "threshold" in str(line.get_label())]
    (height, _) = data(line.get_ydata())
    assert height == result.thresholds()["n"].value
    assert min(row[1] for row in result.fetchall()) > height
    assert f"groups appear above {height:.0f}" in str(line.get_label())
    assert [text.get_text() for text in present(ax.get_legend()).get_texts()] == [line.get_label()]


def test_a_threshold_that_counts_from_another_group_says_which(
    connection: dpsql.Connection,
) -> None:
    sql = f"{BY_KEY} ORDER BY n DESC LIMIT 3"
    ax = connection.sql(sql, max_groups_contributed="unlimited", k_bar=50).plot()
    (line,) = [line for line in ax.lines if "threshold" in str(line.get_label())]
    assert str(line.get_label()).endswith("above group 51 by size")


@pytest.mark.parametrize(("sql", "y"), [(BY_KEY, "c"), (BY_YEAR, "n")])
def test_where_the_column_decides_nothing_there_is_no_line(
    connection: dpsql.Connection, sql: str, y: str
) -> None:
    ax = connection.sql(sql).plot(y=y)
    assert not any("threshold" in str(line.get_label()) for line in ax.lines)
    assert ax.get_legend() is None


def test_the_caption_tells_confidence_mechanism_and_cost(connection: dpsql.Connection) -> None:
    caption = connection.sql(BY_YEAR, epsilon=2.5).plot(confidence=0.9).get_title("left")
    assert caption.startswith("90% intervals · known_domain · paid ε 2.5 at δ ")


def test_an_answer_without_keys_is_one_bar(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT COUNT(*) AS n FROM t")
    ax = result.plot()
    assert [bar.get_height() for bar in bars(ax)] == [result.fetchall()[0][0]]


def test_an_empty_answer_says_that_it_is(connection: dpsql.Connection) -> None:
    result = connection.sql(f"{BY_KEY.split(' GROUP')[0]} WHERE year = 1 GROUP BY key")
    assert len(result) == 0
    assert [text.get_text() for text in result.plot().texts] == ["no groups were released"]


def test_numbers_without_noise_of_their_own_are_drawn_without_error_bars(
    connection: dpsql.Connection,
) -> None:
    budget = connection.sql("SHOW BUDGET")
    ax = budget.plot(y="spent")
    assert error_bars(ax) == []
    assert ax.get_title("left") == ""
    odd = connection.sql("SELECT key, COUNT(DISTINCT u) % 2 AS n FROM t GROUP BY key").plot()
    assert error_bars(odd) == []
    assert "intervals" not in odd.get_title("left")


@pytest.mark.slow
def test_hostile_names_and_keys_are_drawn_as_they_are(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    result = connection.sql(
        'SELECT key AS "$\\frac{1$", COUNT(DISTINCT u) AS "$_{$" FROM t GROUP BY key'
    )
    ax = result.plot()
    present(ax.get_figure(root=True)).savefig(tmp_path / "plot.png")
    labels = {tick.get_text() for tick in ax.get_xticklabels()}
    assert {"$\\frac{1$", "two\\nlines", "_{x}^"} <= labels


def test_it_draws_on_the_axes_it_is_given_and_opens_no_other(
    connection: dpsql.Connection,
) -> None:
    figure, axes = plt.subplots(1, 2)
    assert connection.sql(BY_KEY).plot(ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert not axes[0].has_data()


def test_it_never_shows_a_window(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plot is shown by whoever asked for it")

    monkeypatch.setattr(plt, "show", refuse)
    monkeypatch.setattr(mpl.figure.Figure, "show", refuse)
    connection.sql(BY_KEY).plot()


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ({"y": "nothing"}, "column_not_in_answer", "Columns: key, n, c."),
        ({"x": "nothing"}, "column_not_in_answer", "Columns: key, n, c."),
        ({"x": ["key", "nothing"]}, "column_not_in_answer", "Columns: key, n, c."),
        ({"y": "key"}, "column_not_numeric", "Choose another for y."),
        ({"confidence": 1.0}, "confidence_out_of_range", "0.95"),
        ({"ax": "axes"}, "not_axes", None),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_choices(
    connection: dpsql.Connection, arguments: dict[str, Any], code: str, hint: str | None
) -> None:
    with fails_with(code) as caught:
        connection.sql(BY_KEY).plot(**arguments)
    assert hint is None or hint in str(caught.value.hint)
    assert plt.get_fignums() == []


def test_an_answer_without_numbers_is_refused(connection: dpsql.Connection) -> None:
    with fails_with("nothing_to_draw"):
        connection.sql("SHOW SCHEMAS").plot()


def test_without_matplotlib_it_says_what_to_install(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with fails_with("missing_package") as caught:
        connection.sql(BY_KEY).plot()
    assert caught.value.hint == "Install it with: pip install 'matplotlib>=3.10.7'"


@pytest.mark.slow
def test_results_do_not_load_matplotlib_before_somebody_plots() -> None:
    import subprocess

    program = (
        "import sys, dpsql, dpsql.results.result, dpsql.present; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
