"""The trial on synthetic rows: it has rows of every type there is, or refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.sql_text import generated, text
from helpers.support import connect

import dpsql
from dpsql.core.schema import Table, schema_of
from dpsql.core.sql_types import BOOLEAN, SqlType
from dpsql.engines.base import twin as twin_module
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.twin import Twin
from dpsql.engines.embedded.types import _SCALARS, plain_type
from dpsql.engines.evidence.edges import edge_values
from dpsql.engines.evidence.evidence import Evidence, evidence_for
from dpsql.engines.evidence.trials import TRIED
from dpsql.errors import InternalError
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

NESTED = (
    "DOUBLE[]",
    "DECIMAL(1,1)[]",
    "VARCHAR[][]",
    "TIMESTAMP[3]",
    "BLOB[2][]",
    'STRUCT("a ""b" INTEGER, c DECIMAL(2,2)[2], d STRUCT(e DATE))',
    "MAP(VARCHAR, DOUBLE[])",
    "MAP(DECIMAL(38,38), TIME WITH TIME ZONE)",
    "UNION(x INTERVAL, y VARCHAR[])",
    "STRUCT(t TIMESTAMP_NS, u UNION(a BIT, b UUID))[]",
)


def twin_of(*types: str) -> Twin:
    columns = tuple(column_of(f"c{place}", type_) for place, type_ in enumerate(types))
    return Twin(schema_of(Table("t", columns)), evidence_for(duckdb.__version__))


def rows_of(twin: Twin, column: str) -> int:
    """How many synthetic values there are in a column."""
    sql = f"SELECT count(*), count({column}), count(DISTINCT hash({column})) FROM t"
    ((rows, values, different),) = twin._connection.execute(sql).fetchall()
    assert rows == 50
    assert different > 1
    return int(values)


@pytest.mark.slow
def test_decimals_of_every_width_and_scale_have_values() -> None:
    types = [f"DECIMAL({w},{s})" for w in range(1, 39) for s in range(w + 1)]
    with duckdb.connect() as engine:
        for type_ in types:
            values = map(text, edge_values(SqlType.of(type_)))
            (row,) = engine.execute(f"SELECT {', '.join(values)}").fetchall()
            assert len(set(row)) >= 3, type_


@pytest.mark.parametrize("type_", [*sorted(name.upper() for name in _SCALARS), *NESTED])
def test_every_type_that_a_column_can_have_has_synthetic_values(type_: str) -> None:
    known = plain_type(duckdb.sqltype(type_))
    assert known is not None
    twin = twin_of(str(known), "BIGINT")
    before = TRIED["trial"]
    assert twin.examine(generated("t"), [generated("c0")]).objection is None
    assert TRIED["trial"] == before + 1
    assert rows_of(twin, "c0") > 1
    twin.close()


def test_what_cannot_be_tried_is_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing the first time must not leave tables without rows, on which all things pass."""
    monkeypatch.setattr(
        twin_module, "edge_values", lambda type_: (generated("CAST('no number' AS INTEGER)"),)
    )
    twin = twin_of("INTEGER", "VARCHAR")
    for _ in range(3):
        with fails_with("not_tried"):
            twin.examine(generated("t"), [generated("c0")])
    monkeypatch.undo()
    assert twin.examine(generated("t"), [generated("c0")]).objection is None
    assert rows_of(twin, "c0") > 1
    twin.close()


def test_what_was_tried_over_all_rows_is_known_and_what_fails_is_not() -> None:
    twin = twin_of("INTEGER", "VARCHAR")
    before = TRIED["trial"]
    for _ in range(2):
        assert twin.examine(generated("t"), [generated("c0 > 1")]).types == (BOOLEAN,)
    assert TRIED["trial"] == before + 1
    twin.examine(generated("t"), [generated("c0 > 2")])
    twin.examine(generated("(SELECT * FROM t)"), [generated("c0 > 1")])
    assert TRIED["trial"] == before + 3
    for _ in range(2):
        with fails_with("fails"):
            twin.examine(generated("t"), [generated("c0 > CAST('a' AS INTEGER)")])
    twin.close()


def test_a_type_without_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.engines.evidence.edges.EDGES", {})
    with pytest.raises(InternalError):
        edge_values.__wrapped__(SqlType.of("UUID"))


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["DECIMAL(1,1)", "DECIMAL(2,2)[]", "STRUCT(a DECIMAL(1,1))"])
def test_questions_over_narrow_decimals_are_tried_and_answered(type_: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as owner:
        owner.execute(f"CREATE TABLE t (u BIGINT, k BIGINT, d {type_})")
        owner.execute("INSERT INTO t SELECT range % 300, range % 3, NULL FROM range(900)")
    policy = Policy(
        "x",
        Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=3),
        accounts={"ana": AccountPolicy("ana", 50.0, 1e-3)},
        tables={"t": TablePolicy("t", PrivacyUnit("u", "u"))},
    )
    before = TRIED["trial"]
    with dpsql.connect(tmp_path / "x.duckdb", policy, str(tmp_path / "l.db"), "ana") as con:
        for _ in range(2):
            found = con.sql("SELECT abs(k) AS a, count(*) FROM t GROUP BY 1", fresh=True)
            assert len(list(found)) == 3
    assert TRIED["trial"] > before


class BusyMachine(Deadline):
    """A machine that gives nothing to the first call: its time is over before it has worked."""

    calls = 0

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        BusyMachine.calls += 1
        super().__init__(0.0 if BusyMachine.calls == 1 else seconds, interrupt)


ENDLESS = (
    "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
)


def test_what_a_busy_machine_gives_to_others_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_module, "Deadline", BusyMachine)
    monkeypatch.setattr(BusyMachine, "calls", 0)
    twin = twin_of("INTEGER")
    counted = "SELECT count(*) FROM range(3000) a, range(3000) b WHERE (a.range * b.range) % 7 = 3"
    assert twin.compute_constants(generated(counted)) != []
    assert BusyMachine.calls > 1


def test_work_without_end_is_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_module, "_SECONDS", 0.2)
    twin, begun = twin_of("INTEGER"), time.thread_time()
    with fails_with("query_too_large"):
        twin.compute_constants(generated(ENDLESS))
    # Work in a thread of the engine's own would be taken for a machine that is busy.
    assert 0.05 < time.thread_time() - begun < 2


FAILING = "week(a.ts - a.d)"
HIDDEN = [  # behind conditions that hold for no synthetic row
    f"SELECT count(*) FROM (SELECT * FROM visits WHERE k = 77) AS a WHERE {FAILING} = 1",
    f"SELECT count(*) FROM (SELECT uid FROM visits AS a WHERE k = 77 AND {FAILING} = 1)",
    f"SELECT count(*) FROM (SELECT uid, {FAILING} AS z FROM visits AS a WHERE k = 77) WHERE z = 1",
    f"SELECT count(*) FROM (SELECT uid, CASE WHEN k = 77 THEN {FAILING} END AS z FROM visits AS a) "
    "WHERE z = 1",
    f"SELECT count(*) FROM visits AS a WHERE uid IN (SELECT uid FROM visits WHERE n = 99) "
    f"AND {FAILING} = 1",
    "SELECT count(*) FROM visits AS b WHERE EXISTS (SELECT 1 FROM visits AS a WHERE a.uid = b.uid "
    f"AND a.k = 77 AND {FAILING} = 1)",
    "SELECT count(*) FROM (SELECT uid, d, ts FROM visits INTERSECT SELECT uid, d, ts FROM visits "
    f"WHERE n = 99) AS a WHERE {FAILING} = 1",
    f"SELECT avg(m) FROM (SELECT uid, max({FAILING}) AS m FROM visits AS a WHERE k = 77 "
    "GROUP BY uid)",
    f"SELECT count(*) FROM visits AS a JOIN visits AS b ON a.uid = b.uid AND a.k = 77 "
    f"AND {FAILING} = 1",
    "SELECT count(*) FROM visits AS a JOIN shops AS s ON a.k = s.k AND s.k = 77 "
    f"WHERE {FAILING} = 1",
    # Each holds for some of these rows, and all of them for none.
    "SELECT count(*) FROM visits AS a JOIN visits AS b ON a.uid = b.uid AND a.k = b.k "
    f"AND a.d = b.d AND a.n = b.k AND a.k = b.n AND a.uid = b.n WHERE {FAILING} = 1",
    "SELECT count(*) FROM visits AS a JOIN (SELECT d FROM generate_series(DATE '2025-01-03', "
    f"DATE '2025-01-05', INTERVAL 1 DAY) AS g(d)) AS c ON a.d = c.d WHERE {FAILING} = 1",
]


@pytest.mark.parametrize(
    "asked", [f"SELECT count(*) FROM visits AS a WHERE {FAILING} = 1", *HIDDEN]
)
def test_no_condition_stands_before_what_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Without evidence the trial alone must find what fails, wherever it stands."""
    with connect(tmp_path) as con, fails_with("can_fail"):
        con.explain(asked)
    monkeypatch.setattr(Evidence, "objection", lambda self, plan: None)
    with connect(tmp_path) as con, fails_with("fails"):
        con.explain(asked)


def test_what_fails_in_few_rows_of_the_first_of_many_tables_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evidence, "objection", lambda self, plan: None)
    tables = ", ".join(f"visits AS {name}" for name in "abcdef")
    same = " AND ".join(f"a.uid = {name}.uid" for name in "bcdef")
    with connect(tmp_path) as con, fails_with("fails"):
        con.explain(f"SELECT count(*) FROM {tables} WHERE {same} AND {FAILING} = 1")


def test_a_trial_without_rows_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.engines.base.twin._TRIED", 0)
    asked = "SELECT count(*) FROM visits AS a JOIN shops AS s ON a.k = s.k WHERE a.n + 1 > 2"
    with connect(tmp_path) as con, pytest.raises(InternalError) as refused:
        con.explain(asked)
    assert refused.value.code == "not_tried"
