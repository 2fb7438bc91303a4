"""Coarser questions from finer releases: the values, the intervals, and what is never used."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest
from helpers.failures import fails_with
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.errors import BudgetExceeded
from dpsql.ledger import Ledger
from dpsql.pipeline.kept.release_codec import decode_roll_up_source
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.mechanisms.pooling import PublishedNoise
from dpsql.service.statements import Arguments

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

REGIONS, MONTHS, PARTS = ("north", "south", "west"), (1, 2, 3, 4), (True, False)
COLUMNS = {
    "region": ColumnPolicy(domain=REGIONS),
    "month": ColumnPolicy(domain=MONTHS),
    "part": ColumnPolicy(domain=PARTS),
    "x": ColumnPolicy(0, 6),
    "y": ColumnPolicy(-1.5, 2.5),
}
FINE = "SELECT region, month, count(*) AS n, sum(x) AS s FROM t GROUP BY region, month"
COARSE = "SELECT region, count(*) AS n FROM t GROUP BY region"
MINE = Parameters(
    epsilon=2.0, delta=1e-6, max_groups_contributed=None, max_rows_contributed=5, left_out_share=0.0
)


def rules(
    defaults: Parameters = MINE, columns: Mapping[str, ColumnPolicy] = COLUMNS, unit: str = "u"
) -> Policy:
    accounts = {name: AccountPolicy(name, 1e6, 0.1) for name in ("ana", "ben")}
    tables = {"t": TablePolicy("t", PrivacyUnit("person", unit), columns)}
    return Policy("sales", defaults, accounts=accounts, tables=tables)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("following") / "sales.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(
            "CREATE TABLE t (u BIGINT, v BIGINT, region VARCHAR, month INTEGER, part BOOLEAN, "
            "x INTEGER, y DOUBLE)"
        )
        writer.execute(
            "INSERT INTO t SELECT i, i % 601, ['north', 'south', 'west', 'east'][1 + i % 4], "
            "1 + i % 5, i % 2 = 0, i % 9, (i % 50) / 10 - 2 FROM range(3000) r(i)"
        )
    return path


Open = Callable[..., dpsql.Connection]


@pytest.fixture
def opened(table: Path, tmp_path: Path) -> Open:
    def connect(policy: Policy | None = None, who: str = "ana", **settings: Any) -> Any:
        return dpsql.connect(table, policy or rules(), tmp_path / "l.db", who, **settings)

    return connect


@pytest.fixture
def connection(opened: Open) -> Iterator[dpsql.Connection]:
    with opened() as found:
        yield found


def follows(connection: dpsql.Connection, sql: str, **parameters: Any) -> bool:
    """Whether EXPLAIN offers it, which asking then has to bear out at no cost."""
    before = connection.budget()
    offered = connection.explain(sql, **parameters).follows is not None
    if offered:
        result = connection.sql(sql, answer_from="released", **parameters)
        assert result.rolled_up
        assert result.cost.stored
        assert result.cost.settled == result.cost.reserved
        assert result.cost.settled_epsilon == 0
    else:
        with fails_with("nothing_released"):
            connection.sql(sql, answer_from="released", **parameters)
    assert connection.budget() == before
    return offered


# -- what follows -----------------------------------------------------------------------------

_KEYS = {"region": REGIONS, "month": MONTHS, "part": PARTS}
_NUMBERS = itertools.count()


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    finer=st.permutations(list(_KEYS)).flatmap(
        lambda names: st.integers(1, 3).map(lambda n: names[:n])
    ),
    choose=st.randoms(use_true_random=False),
    cap=st.sampled_from([None, 1, 2]),
)
def test_a_coarser_answer_is_the_sum_of_the_finer_released_values(
    connection: dpsql.Connection, finer: list[str], choose: Any, cap: int | None
) -> None:
    names = choose.sample(finer, choose.randint(0, len(finer)))
    where = f"WHERE x > {-1 - next(_NUMBERS)}"  # so that each example has rows of its own
    keys = ", ".join(finer)
    fine = connection.sql(
        f"SELECT {keys}, sum(x) AS s, count(*) AS n, count(x), sum(y) AS z FROM t {where} "
        f"GROUP BY {keys}",
        max_groups_contributed=cap,
    )
    given_keys = ", ".join(names)
    head, tail = (f"{given_keys}, ", f" GROUP BY {given_keys}") if names else ("", "")
    coarse = connection.sql(
        f"SELECT {head}count(*) AS n, sum(x) AS s, sum(y) AS z FROM t {where}{tail}",
        answer_from="released",
    )
    totals: dict[tuple[Any, ...], list[float]] = {}
    for row in fine.fetchall():
        by = dict(zip(finer, row, strict=False))
        s, n, _, z = row[len(finer) :]
        total = totals.setdefault(tuple(by[name] for name in names), [0, 0, 0])
        total[:] = total[0] + n, total[1] + s, total[2] + z
    shown = {row[: len(names)]: row[len(names) :] for row in coarse.fetchall()}
    assert set(shown) == set(itertools.product(*(_KEYS[name] for name in names)))
    assert {key: list(values[:2]) for key, values in shown.items()} == {
        key: values[:2] for key, values in totals.items()
    }
    for key, values in shown.items():
        assert values[2] == pytest.approx(totals[key][2], rel=1e-12, abs=1e-9)
    (added,) = coarse.rolled_up
    assert added.keys == tuple(finer)
    assert set(added.over) == set(finer) - set(names)
    assert added.groups * len(shown) == len(fine)


@pytest.mark.slow
def test_the_sum_is_of_the_latest_release_where_several_are_as_near(
    connection: dpsql.Connection,
) -> None:
    for _ in range(3):
        fine = connection.sql(FINE, fresh=True)
    sums = dict.fromkeys(REGIONS, 0)
    for region, _, n, _ in fine.fetchall():
        sums[region] += n
    assert dict(connection.sql(COARSE, answer_from="released").fetchall()) == sums
    nearer = connection.sql(FINE, epsilon=3.0, combine="off")
    connection.sql(FINE, epsilon=0.1)
    total = sum(row[2] for row in nearer.fetchall())
    asked = "SELECT count(*) FROM t"
    assert connection.sql(asked, answer_from="released").fetchall() == [(total,)]
    assert connection.sql(asked, answer_from="released", epsilon=0.01).fetchall() == [(total,)]


def test_what_is_before_a_fresh_release_is_left_alone(connection: dpsql.Connection) -> None:
    old = connection.sql(FINE, epsilon=5.0)
    new = connection.sql(FINE, epsilon=1.0, fresh=True)
    totals = [sum(row[2] for row in each.fetchall()) for each in (old, new)]
    asked = "SELECT count(*) FROM t"
    assert connection.sql(asked, answer_from="released").fetchall() == [(totals[1],)]
    all_of_them = connection.sql(asked, answer_from="released", combine="all")
    assert all_of_them.fetchall() == [(totals[0],)]


@pytest.mark.slow
def test_averages_follow_from_the_noisy_sums_and_counts(connection: dpsql.Connection) -> None:
    asked = "SELECT month, region, avg(y) AS a, var_pop(y) AS v FROM t GROUP BY month, region"
    connection.sql(asked, epsilon=900.0)
    result = connection.sql(
        "SELECT region, avg(y) AS a, stddev_pop(y) AS d FROM t GROUP BY region",
        answer_from="released",
    )
    intervals = result.intervals(1 - 1e-9)  # the noise is real: at 95% one in twenty misses
    i = np.arange(3000)
    for place, (region, a, d) in enumerate(result.fetchall()):
        mine = i[(i % 4 == REGIONS.index(region)) & (i % 5 != 4)]
        y = np.clip((mine % 50) / 10 - 2, -1.5, 2.5)
        for name, shown, true in (("a", a, y.mean()), ("d", d, y.std())):
            low, high = intervals[name].low[place], intervals[name].high[place]
            assert low <= true <= high
            assert low <= shown <= high
            assert shown == pytest.approx(true, rel=0.05, abs=0.02)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (COARSE, True),
        ("SELECT count(*) FROM t", True),
        ("SELECT sum(x) FROM t", True),
        ("SELECT month, region, sum(x) FROM t GROUP BY ALL", True),
        ("SELECT count(*) / 3, max(n) FROM (SELECT month, count(*) n FROM t GROUP BY 1)", True),
        ("SELECT region, count(*) n FROM t GROUP BY 1 HAVING n > 3 ORDER BY n DESC LIMIT 1", True),
        ("SELECT (SELECT sum(x) FROM t) / (SELECT count(*) FROM t)", True),
        ("SELECT region, count(*) FROM t GROUP BY ROLLUP (region)", True),
        ("SELECT part, count(*) FROM t GROUP BY part", False),
        ("SELECT region, part, count(*) FROM t GROUP BY region, part", False),
        ("SELECT lower(region), count(*) FROM t GROUP BY 1", False),
        ("SELECT region, count(DISTINCT u) FROM t GROUP BY region", False),
        ("SELECT region, count(x) FROM t GROUP BY region", False),
        ("SELECT region, avg(x) FROM t GROUP BY region", False),
        ("SELECT region, sum(x, contribution_bounds_per_row => (0, 5)) FROM t GROUP BY 1", False),
        ("SELECT sum(x, contribution_bounds_per_group => (0, 5)) FROM t", False),
        ("SELECT region, count(*) FROM t WHERE x > 0 GROUP BY region", False),
        ("SELECT count(*) FILTER (month = 1) FROM t", False),
        ("SELECT region, median(x) FROM t GROUP BY region", False),
        ("SELECT DISTINCT region FROM t", False),
        ("SELECT count(*) FROM t AS a JOIN t AS b USING (u)", False),
        ("SELECT (SELECT sum(x) FROM t) / (SELECT count(*) FROM t WHERE x > 1)", False),
    ],
)
def test_what_follows_and_what_does_not(
    connection: dpsql.Connection, sql: str, expected: bool
) -> None:
    connection.sql(FINE)
    assert follows(connection, sql, max_groups_contributed=3) == expected


@pytest.mark.slow
def test_numbers_of_units_add_up_only_where_a_unit_is_in_one_group(
    connection: dpsql.Connection,
) -> None:
    fine = "SELECT region, month, count(DISTINCT u) AS n FROM t GROUP BY region, month"
    coarse = "SELECT region, count(DISTINCT u) AS n FROM t GROUP BY region"
    for cap in (2, None):
        connection.sql(fine, max_groups_contributed=cap)
        assert not follows(connection, coarse, max_groups_contributed=cap)
        assert not follows(connection, coarse, max_groups_contributed=1)
    connection.sql(fine, max_groups_contributed=1, epsilon=50.0)
    assert follows(connection, coarse)
    result = connection.sql(coarse, answer_from="released")
    assert [n for _, n in result.fetchall()] == pytest.approx([600] * 3, abs=15)
    assert "at most 1 group and" in result.summary()
    distinct = "SELECT region, month, count(DISTINCT x) AS n FROM t GROUP BY region, month"
    connection.sql(distinct, max_groups_contributed=1)
    assert not follows(connection, "SELECT region, count(DISTINCT x) FROM t GROUP BY region")
    again = "SELECT month, region, count(DISTINCT x) FROM t GROUP BY month, region"
    assert follows(connection, again)


def test_a_twin_that_adds_up_numbers_of_units_is_caught(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one would that took a count of units for one of rows: 601 of them have 3000 rows."""
    units = "count(DISTINCT v) AS n"
    fine = f"SELECT region, month, {units} FROM t GROUP BY region, month"
    monkeypatch.setattr("dpsql.pipeline.kept.roll_up._adds", lambda *given: True)
    with opened(rules(unit="v")) as twin:
        twin.sql(fine, epsilon=900.0)
        ((found,),) = twin.sql(f"SELECT {units} FROM t", answer_from="released").fetchall()
        ((true,),) = twin.sql(f"SELECT {units} FROM t", epsilon=900.0).fetchall()
        assert abs(true - 601) < 10
        assert found > 1.5 * true
        monkeypatch.undo()
        assert not follows(twin, f"SELECT {units} FROM t")


@pytest.mark.slow
def test_groups_that_are_not_all_released_are_not_added_up(connection: dpsql.Connection) -> None:
    found = FINE.replace("region, month", "region, x")
    connection.sql(found.replace("sum(x)", "sum(y)"), max_groups_contributed=3)
    connection.sql(f"{FINE} ORDER BY n DESC LIMIT 2", mechanism="known_domain_top_k")
    connection.sql(FINE, min_units_per_group=2)
    connection.sql(FINE, max_groups_contributed=2, contribution_bounding="weight")
    connection.sql("SELECT region, month, median(x), count(*) FROM t GROUP BY ALL")
    connection.sql("SELECT region, month, count(*) FROM t GROUP BY ROLLUP (region, month)")
    assert not follows(connection, COARSE)
    assert not follows(connection, COARSE, min_units_per_group=2)
    assert not follows(connection, "SELECT count(*) FROM t", min_units_per_group=2)


@pytest.mark.slow
def test_the_answer_says_what_it_is_of(connection: dpsql.Connection) -> None:
    fine = connection.sql(FINE, max_groups_contributed=2)
    result = connection.sql(COARSE, answer_from="released")
    words = result.summary()
    assert "is a roll-up of an earlier release; it cost nothing" in words
    assert "sums of 4 groups of the release by region, month of" in words
    assert "at most 2 groups and at most 5 rows in each of its groups" in words
    assert "rows whose month has no declared value are not in them" in words
    assert "rolled up from finer groups" in str(result).replace("\n", " ")
    (added,) = result.rolled_up
    assert (added.keys, added.over, added.groups) == (("region", "month"), ("month",), 4)
    assert result.cost.answered == added.settled
    assert fine.rolled_up == ()
    told = connection.explain(COARSE)
    margin = told.blocks[0].columns[0].follows95
    interval = result.intervals()["n"]
    assert margin == float((interval.high - interval.low)[0]) / 2
    assert told.follows == added.settled
    assert "answer_from = released" in str(told)
    asked = "SELECT region, dp_interval_low(n) AS low, dp_noise_scale(n) AS scale FROM"
    rows = connection.sql(f"{asked} ({COARSE})", answer_from="released").fetchall()
    assert [low for _, low, _ in rows] == interval.low.tolist()
    assert {round(margin / scale) for _, _, scale in rows} == {2}


@pytest.mark.slow
def test_it_is_asked_for_by_option_by_connection_and_by_statement(opened: Open) -> None:
    option = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (answer_from = released)"
    with opened() as connection:
        connection.sql(FINE)
        assert connection.sql(COARSE.replace("SELECT", option)).rolled_up
        connection.sql("SET answer_from = 'released'")
        assert connection.sql(COARSE).rolled_up
        assert connection.sql(FINE).cost.stored
        with fails_with("nothing_released"):
            connection.sql(COARSE, fresh=True)
        connection.sql("RESET answer_from")
        bought = connection.sql(COARSE)
        assert not bought.rolled_up
        assert bought.cost.settled_epsilon > 0
    with opened(answer_from="released") as connection:
        assert connection.sql(COARSE).fetchall() == bought.fetchall()
        assert "refused" in str(connection.explain("SELECT region, count(u) FROM t GROUP BY 1"))


# -- nothing is read, and nothing is spent ----------------------------------------------------


@pytest.mark.slow
def test_no_row_is_read_and_nothing_is_written(
    connection: dpsql.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.sql(FINE)

    def refuse(*arguments: object, **named: object) -> Any:
        raise AssertionError("rows were read")

    with Ledger.open(tmp_path / "l.db") as ledger:
        head = ledger.head()
        monkeypatch.setattr(type(connection._answerer.engine), "run", refuse)
        assert follows(connection, COARSE)
        assert not follows(connection, "SELECT region, count(x) FROM t GROUP BY region")
        assert connection.sql("SELECT sum(x) FROM t", answer_from="released").rolled_up
        assert ledger.head() == head
        with pytest.raises(AssertionError):
            connection.sql(COARSE)


def test_who_has_spent_all_is_told_what_still_follows(opened: Open) -> None:
    with opened(replace(rules(), accounts={"ana": AccountPolicy("ana", 2.0, 1e-6)})) as spent:
        spent.sql(FINE, epsilon=1.9)
        with pytest.raises(BudgetExceeded) as refused:
            spent.sql(COARSE)
        assert "answer_from = released" in str(refused.value.hint)
        assert spent.sql(COARSE, answer_from="released").rolled_up
        with pytest.raises(BudgetExceeded) as refused:
            spent.sql("SELECT count(x) FROM t")
        assert "answer_from" not in str(refused.value.hint)


# -- what is never used -----------------------------------------------------------------------


@pytest.mark.slow
def test_the_release_of_another_account_is_never_used(opened: Open) -> None:
    with opened() as mine, opened(who="ben") as theirs:
        mine.sql(FINE)
        assert not follows(theirs, COARSE)
        assert follows(mine, COARSE)
    with opened(session="s") as session:
        assert follows(session, COARSE)


OTHER_POLICIES = {
    "values of a key": rules(columns=COLUMNS | {"region": ColumnPolicy(domain=REGIONS[:2])}),
    "values of a key that is added over": rules(
        columns=COLUMNS | {"month": ColumnPolicy(domain=(*MONTHS, 5))}
    ),
    "a key that is declared no more": rules(
        columns={name: each for name, each in COLUMNS.items() if name != "month"}
    ),
    "bounds": rules(columns=COLUMNS | {"x": ColumnPolicy(0, 7)}),
    "unit": rules(unit="v"),
    "rows of a unit": rules(replace(MINE, max_rows_contributed=6)),
    "least size": rules(replace(MINE, min_units_per_group=3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", OTHER_POLICIES)
def test_a_release_under_another_policy_is_never_used(change: str, opened: Open) -> None:
    asked = "SELECT region, sum(x) AS s FROM t GROUP BY region"
    with opened() as before:
        before.sql(FINE)
        assert follows(before, asked)
    with opened(OTHER_POLICIES[change]) as after:
        assert not follows(after, asked)
        if change in ("bounds", "least size"):
            return
        assert not follows(after, "SELECT sum(x) AS s FROM t")
    with opened() as again:
        assert follows(again, asked)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda d: d["sums"].update(keys=[1]),
        lambda d: d["sums"].update(kept=0),
        lambda d: d["sums"].update(measures=[["0" * 32]]),
        lambda d: d["sums"].update(more=1),
        lambda d: d["blocks"].append(d["blocks"][0]),
        lambda d: d["blocks"][0]["positions"].pop(),
        lambda d: d["blocks"][0]["positions"].reverse(),
        lambda d: d["blocks"][0]["values"].clear(),
        lambda d: d["blocks"][0]["noise"]["measures"].pop(),
        lambda d: next(iter(d["blocks"][0]["values"].values()))["values"].append(1),
        lambda d: next(iter(d["blocks"][0]["values"].values())).update(dtype="|O"),
    ],
)
def test_a_damaged_release_is_an_error_and_quotes_nothing(
    connection: dpsql.Connection, break_it: Callable[[Any], None]
) -> None:
    connection.sql(FINE)
    ledger = connection._answerer.paying_ledger()
    prepared = connection._answerer.preparer.prepare(
        connection._statements.question(FINE, Arguments())
    )
    (kept,) = ledger.stored_on_rows("sales/ana", prepared.fingerprint[64:], 5)
    assert decode_roll_up_source([kept.payload]) is not None
    document = json.loads(kept.payload)
    break_it(document)
    with fails_with("ledger_corrupt"):
        decode_roll_up_source([json.dumps(document).encode()])


# -- how sure it is ---------------------------------------------------------------------------

TRUTH = {"north": 600, "south": 600, "west": 600}


def coverage(opened: Open, rounds: int, **parameters: Any) -> float:
    """How often the intervals of sums hold the true values."""
    held = []
    with opened() as connection:
        for _ in range(rounds):
            connection.sql(FINE, fresh=True, epsilon=0.3, **parameters)
            result = connection.sql(COARSE, answer_from="released")
            assert result.rolled_up
            interval = result.intervals(0.8)["n"]
            for (key, _), low, high in zip(
                result.fetchall(), interval.low, interval.high, strict=True
            ):
                held.append(low <= TRUTH[key] <= high)
    return float(np.mean(held))


CAPS = [{"max_groups_contributed": None}, {"max_groups_contributed": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", CAPS, ids=["shared noise", "independent noise"])
def test_intervals_of_sums_cover(opened: Open, parameters: dict[str, Any]) -> None:
    found = coverage(opened, 300, **parameters)
    assert 0.72 < found < 0.94


@pytest.mark.slow
@pytest.mark.parametrize("parameters", CAPS, ids=["shared noise", "independent noise"])
def test_a_twin_with_the_noise_of_one_group_is_caught(
    opened: Open, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_one(noise: PublishedNoise, count: int, risk: float) -> float:
        return noise.noise.margin(1 - risk, noise.groups)

    monkeypatch.setattr("dpsql.kinds.rolled_up.summed_margin", of_one)
    assert coverage(opened, 150, **parameters) < 0.68


# -- PostgreSQL -------------------------------------------------------------------------------


@pytest.mark.slow
def test_releases_are_put_together_and_added_up_from_a_ledger_in_postgresql(
    table: Path, postgres_server: Server
) -> None:
    url = postgres_server.without_ledger()
    with dpsql.connect(table, rules(), url, "ana") as connection:
        assert [connection.sql(FINE, epsilon=e).pooled for e in (1.0, 1.1, 1.2)] == [1, 2, 3]
        assert follows(connection, COARSE)
        assert connection.sql(FINE, epsilon=1.1).pooled == 2
    with dpsql.connect(table, rules(), url, "ben") as other:
        assert not follows(other, COARSE)
        assert other.sql(FINE, epsilon=1.3).pooled == 1
