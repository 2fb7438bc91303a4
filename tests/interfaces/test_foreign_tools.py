"""What people draw, tabulate and ask with beside pandas and Polars, on private rows.

The tools are in the extra ``tools``, which nothing of dpsql needs: where one of them is missing,
its tests are skipped, and ``make tools`` installs them all. JupySQL has a file of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy
from helpers.failures import fails_with
from helpers.support import FILL, connect, policy

import dpsql
from dpsql.policy.parameters import Parameters

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ABUNDANT = Parameters(epsilon=50.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=3)
MANY = (FILL[0].replace("SELECT i % 60,", "SELECT i % 601,"), *FILL[1:])
MARGIN = 60  # of a count under these: less likely than e^-20 to be passed
BY_COUNTER = "SELECT k, count(*) AS n, avg(x) AS mean, sum(big) AS total FROM visits GROUP BY k"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="module")
def con(directory: Path) -> Iterator[dpsql.Connection]:
    with connect(directory, *MANY, defaults=ABUNDANT) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(directory: Path, con: dpsql.Connection) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(
        f"dpsql:///{directory / 'world.duckdb'}?analyst=ana&ledger={directory / 'budget.db'}",
        connect_args={"policies": policy(ABUNDANT)},
    )
    yield made
    made.dispose()


# -- pictures and tables of an answer --------------------------------------------------------------


def test_altair_draws_an_answer_as_it_is(con: dpsql.Connection) -> None:
    alt = pytest.importorskip("altair", reason="altair is not installed")
    answer = con.sql(BY_COUNTER)
    chart = alt.Chart(answer).mark_bar().encode(x="k", y="n").to_dict()
    assert chart["encoding"]["x"]["type"] == "quantitative"
    (drawn,) = chart["datasets"].values()
    assert [tuple(row.values())[:2] for row in drawn] == [row[:2] for row in answer.fetchall()]
    days = con.sql("SELECT d, s, count(*) AS n FROM visits GROUP BY d, s")
    chart = alt.Chart(days).mark_line().encode(x="d", y="n", color="s").to_dict()
    types = {name: channel["type"] for name, channel in chart["encoding"].items()}
    assert types == {"x": "temporal", "y": "quantitative", "color": "nominal"}
    bars = alt.Chart(answer.df(intervals=True)).mark_errorbar()
    assert bars.encode(x="k", y="n_low", y2="n_high").to_dict()["encoding"]["y2"]


def test_narwhals_reads_an_answer_of_no_rows(con: dpsql.Connection) -> None:
    nw = pytest.importorskip("narwhals", reason="narwhals is not installed")
    frame = nw.from_native(con.sql("SELECT k, s, d FROM visits LIMIT 0"))
    assert frame.columns == ["k", "s", "d"]
    assert frame.shape == (0, 3)
    assert frame.schema["d"] == nw.Date


def test_great_tables_lays_out_frames_of_an_answer(con: dpsql.Connection) -> None:
    tables = pytest.importorskip("great_tables", reason="great_tables is not installed")
    answer = con.sql(BY_COUNTER)
    for frame in (answer.df(), answer.pl(), answer.arrow()):
        html = tables.GT(frame).fmt_number(columns=["mean"]).as_raw_html()
        assert html.count("<tr>") >= len(answer)


# -- marimo ----------------------------------------------------------------------------------------


def test_marimo_asks_an_engine_and_a_connection(
    con: dpsql.Connection, engine: sqlalchemy.Engine
) -> None:
    mo = pytest.importorskip("marimo", reason="marimo is not installed")
    answer = con.sql(BY_COUNTER)
    for source in (engine, con):
        frame = mo.sql(BY_COUNTER, engine=source, output=False)
        assert sorted(frame["n"].to_list()) == sorted(answer["n"])
        with pytest.raises(Exception, match="rows of a private table cannot be released"):
            mo.sql("SELECT * FROM visits LIMIT 10", engine=source, output=False)
    for table in (answer, answer.df()):
        assert len(mo.ui.table(table).data) == len(answer)


def test_marimo_lists_tables_and_columns_for_nothing(
    con: dpsql.Connection, engine: sqlalchemy.Engine
) -> None:
    engines = pytest.importorskip(
        "marimo._sql.engines.sqlalchemy", reason="marimo is not installed"
    )
    before = con.budget()
    (database,) = engines.SQLAlchemyEngine(engine).get_databases(
        include_schemas=True, include_tables=True, include_table_details=True
    )
    (schema,) = database.schemas
    assert sorted(table.name for table in schema.tables) == ["mails", "shops", "visits"]
    visits = next(table for table in schema.tables if table.name == "visits")
    types = {column.name: column.external_type for column in visits.columns}
    assert (types["d"], types["amount"]) == ("DATE", "NUMERIC(12, 2)")
    assert con.budget() == before


# -- ibis ------------------------------------------------------------------------------------------

ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "groups": lambda ibis, t, s: t.group_by("k").aggregate(
        n=t.count(), total=t.big.sum(), mean=t.x.mean()
    ),
    "order and limit": lambda ibis, t, s: (
        t.group_by("k").aggregate(n=t.count()).order_by(ibis.desc("n")).limit(2)
    ),
    "topk": lambda ibis, t, s: t.k.topk(2, name="n"),
    "value_counts": lambda ibis, t, s: t.s.value_counts(name="n"),
    "a condition": lambda ibis, t, s: (
        t.filter(t.x > 2).group_by("k").agg(n=ibis._.count()).filter(ibis._.n > 10)
    ),
    "having": lambda ibis, t, s: t.group_by("k").having(t.count() > 5).agg(n=t.count()),
    "units": lambda ibis, t, s: t.agg(n=t.Uid.nunique()),
    "a sketch": lambda ibis, t, s: t.agg(n=t.Uid.approx_nunique()),
    "spread": lambda ibis, t, s: t.agg(one=t.x.std(), other=t.x.var(), mid=t.x.median()),
    "months": lambda ibis, t, s: t.group_by(m=t.d.truncate("M")).agg(n=t.count()),
    "years": lambda ibis, t, s: t.group_by(y=t.ts.year(), h=t.ts.hour()).agg(n=t.count()),
    "weekdays": lambda ibis, t, s: t.group_by(w=t.d.day_of_week.full_name()).agg(n=t.count()),
    "cases": lambda ibis, t, s: t.group_by(b=ibis.cases((t.n < 3, "low"), else_="high")).agg(
        n=t.count()
    ),
    "buckets": lambda ibis, t, s: t.group_by(b=t.n.bucket([-5, 0, 5, 20])).agg(n=t.count()),
    "public rows": lambda ibis, t, s: t.join(s, t.k == s.k).group_by("name").agg(n=ibis._.count()),
    "shares": lambda ibis, t, s: (
        t.group_by("k").agg(n=t.count()).mutate(share=ibis._.n / ibis._.n.sum())
    ),
    "ranks": lambda ibis, t, s: (
        t.group_by("k").agg(n=t.count()).mutate(r=ibis.row_number().over(order_by=ibis.desc("n")))
    ),
    "pivot": lambda ibis, t, s: (
        t.group_by("c")
        .agg(v=t.count())
        .pivot_wider(names_from="c", values_from="v", names=["red", "green"])
    ),
    "both": lambda ibis, t, s: (
        t.group_by("k").agg(n=t.count()).union(t.group_by("k").agg(n=t.count()))
    ),
    "keys": lambda ibis, t, s: t.select("s").distinct(),
    "texts": lambda ibis, t, s: (
        t.filter(t.s.isin(["s1", "s2"])).group_by(u=t.s.upper()).agg(n=ibis._.count())
    ),
    "filled": lambda ibis, t, s: t.group_by(s=t.s.fill_null("?")).agg(n=t.count()),
    "some": lambda ibis, t, s: t.group_by("k").agg(n=t.count(where=t.n > 3)),
    "any value": lambda ibis, t, s: t.group_by("k").agg(some=t.s.arbitrary()),
    "true ones": lambda ibis, t, s: t.agg(n=(t.n > 3).sum()),
    "days": lambda ibis, t, s: t.filter(
        t.d.between(datetime.date(2024, 1, 3), datetime.date(2024, 1, 20))
    ).agg(n=ibis._.count()),
    "moments": lambda ibis, t, s: t.filter(
        t.ts >= datetime.datetime(2024, 1, 9, 12, 30, 1, 500)
    ).agg(n=ibis._.count()),
}
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "rows": (lambda ibis, t: t.head(5), "raw_rows"),
    "a list of all values": (lambda ibis, t: t.agg(all=t.n.collect()), "aggregate_not_supported"),
    "bins of the data": (
        lambda ibis, t: t.group_by(b=t.n.histogram(nbins=3)).agg(n=t.count()),
        "misplaced_aggregate",
    ),
}


def compiled(expression: Callable[..., Any], *tables: str) -> str:
    ibis = pytest.importorskip("ibis", reason="ibis is not installed")
    columns = {
        "visits": {
            **dict.fromkeys(("Uid", "k", "n", "big", "order"), "int64"),
            **dict.fromkeys(("s", "c"), "string"),
            "x": "float64",
            "d": "date",
            "ts": "timestamp",
        },
        "shops": {"k": "int64", "name": "string"},
    }
    made = [ibis.table(columns[table], name=table) for table in tables]
    return str(ibis.to_sql(expression(ibis, *made), dialect="duckdb"))


@pytest.mark.parametrize("shape", ASKED)
@pytest.mark.usefixtures("discovered_keys")
def test_what_ibis_compiles_is_answered_like_duckdb_does(
    shape: str, con: dpsql.Connection, directory: Path
) -> None:
    sql = compiled(ASKED[shape], "visits", "shops")
    answer = con.sql(sql)
    with duckdb.connect(str(directory / "world.duckdb"), read_only=True) as owner:
        truth = owner.sql(sql)
        assert answer.columns == truth.columns
        rows = truth.fetchall()
    assert answer.cost.settled.rho > 0 or answer.cost.stored
    assert len(answer) == len(rows)
    if "n" in answer.columns:
        exact = [row[answer.columns.index("n")] for row in rows]
        assert abs(sum(answer["n"]) - sum(exact)) < MARGIN * len(rows)


@pytest.mark.parametrize("shape", REFUSED)
def test_what_ibis_cannot_be_told_is_refused_for_nothing(shape: str, con: dpsql.Connection) -> None:
    expression, code = REFUSED[shape]
    before = con.budget()
    with fails_with(code) as refused:
        con.sql(compiled(expression, "visits"))
    assert refused.value.hint
    assert con.budget() == before
