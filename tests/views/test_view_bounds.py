"""Contribution bounds of views that nobody gives: drawn once when a view is created, and paid."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.budget.question import read_record
from dpsql.dbapi.connection import Connection
from dpsql.ir.query import range_text
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    ViewsPolicy,
)
from dpsql.policy.parameters import AUTO, USUAL_GROUPS, USUAL_ROWS, Automatic, Maxima, Parameters
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import NONE
from dpsql.views import views as views_module
from dpsql.views.definition import DrawnBounds
from dpsql.views.plan import ViewPlan

EPSILON = 8.0  # at which even a number that is too large by ten is answered
UNITS = 3000
LARGE = 40  # rows of a unit, in one group: over 15 days, some each day
GROUPS = 6
TRUTH = UNITS / GROUPS * LARGE
COUNTED = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
DECLARED = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g"
TOTAL = "SELECT COUNT(*) AS n FROM t"
REFRESH = "REFRESH MATERIALIZED VIEW v"


def create(
    select: str = COUNTED, start: str = "2026-01-01", more: str = "", name: str = "v"
) -> str:
    steps = f"step = '5 days', start = '{start}', steps = 3"
    return f"CREATE MATERIALIZED VIEW {name} WITH ({steps}{more}) AS {select}"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the day of January 2026 that it is; at first all steps have closed."""

    def set_day(day: int) -> None:
        now = datetime(2026, 1, day, 0, 30, tzinfo=UTC)
        monkeypatch.setattr(views_module, "_now", lambda: now)

    set_day(20)
    return set_day


def policy(
    composition: Composition = Composition.ZCDP, total: float = 100.0, **others: Any
) -> Policy:
    defaults: dict[str, Any] = {
        "max_rows_contributed": Automatic(instead=USUAL_ROWS),
        "max_groups_contributed": Automatic(instead=USUAL_GROUPS),
    }
    columns = {"x": ColumnPolicy(0.0, 4.0), "g": ColumnPolicy(domain=tuple(range(GROUPS)))}
    table = TablePolicy("t", PrivacyUnit("user", "u"), columns, time=TimeColumn("at"))
    return Policy(
        "d",
        Parameters(EPSILON, delta=1e-6, **defaults),
        accounts={"ana": AccountPolicy("ana", total, 1e-3, composition)},
        tables={"t": table},
        **others,
    )


@contextmanager
def opened(place: Path, rules: Policy | None = None) -> Iterator[Connection]:
    if not (place / "x.duckdb").exists():
        with duckdb.connect(str(place / "x.duckdb")) as owner:
            owner.execute(
                "CREATE TABLE t AS SELECT range % ? AS u, 'k' || range % ? % ? AS k, "
                "range % ? % ? AS g, TIMESTAMP '2026-01-01' + INTERVAL (range % 360) HOUR AS at, "
                "(range % 5)::DOUBLE AS x FROM range(?)",
                [UNITS, UNITS, GROUPS, UNITS, GROUPS, UNITS * LARGE],
            )
    with dpsql.connect(place / "x.duckdb", rules or policy(), str(place / "l.db"), "ana") as found:
        yield found


def plan_of(connection: Connection, name: str = "v") -> ViewPlan:
    views = connection._answerer.views
    return views.plan_of(views.named(name)).plan


def drawn(connection: Connection, name: str = "v") -> DrawnBounds:
    found = plan_of(connection, name).definition.drawn
    assert found is not None
    return found


def last(connection: Connection) -> list[float]:
    """The counts of the last step."""
    return [float(n) for (n,) in connection.sql("SELECT n FROM v WHERE step = 3").fetchall()]


def explained(connection: Connection, statement: str) -> str:
    lines = connection.sql(f"EXPLAIN {statement}").fetchall()
    return " ".join(" ".join(line.split()) for (line,) in lines)


def reserved(connection: Connection, statement: str) -> PrivacyLoss:
    """The price of a view, without creating it."""
    return connection.sql(f"EXPLAIN {statement}").plan.reserved


def draws(place: Path) -> int:
    """How many draws of bounds were charged."""
    with Ledger.open(place / "l.db") as ledger:
        plans = [entry.plan for entry in ledger.history("d") if '"stream"' not in entry.plan]
    names = [read_record(plan).blocks[0].mechanism for plan in plans]
    return names.count(LEFT_OUT_MECHANISM)


@pytest.mark.slow
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.BASIC])
@pytest.mark.parametrize("select", [COUNTED, DECLARED, TOTAL])
def test_a_view_finds_its_bounds_and_the_truth_for_its_price(
    select: str, composition: Composition, tmp_path: Path
) -> None:
    with opened(tmp_path, policy(composition)) as ana:
        worst = reserved(ana, create(select))
        paid = ana.sql(create(select)).cost.settled
        assert paid == worst
        assert paid.epsilon == pytest.approx(EPSILON) if paid.epsilon else paid.rho > 0.5
        assert LARGE <= (drawn(ana).rows or 0) <= 1024
        ana.sql(REFRESH)
        truth = UNITS * LARGE if select == TOTAL else TRUTH
        counts = last(ana)
        assert len(counts) == (1 if select == TOTAL else GROUPS)
        assert all(abs(n - truth) < 0.2 * truth for n in counts)
        account = ana.budget()
        spent = account.epsilon_spent if composition is Composition.BASIC else account.rho_spent
        assert spent == pytest.approx(paid.epsilon or paid.rho)
    assert draws(tmp_path) == 1


@pytest.mark.slow
def test_with_the_usual_numbers_the_same_view_is_wrong_by_far(tmp_path: Path) -> None:
    with opened(tmp_path) as ana:
        ana.sql(create(more=", max_rows_contributed = 10, max_groups_contributed = 2"))
        ana.sql(REFRESH)
        assert all(n < 0.5 * TRUTH for n in last(ana))
        assert plan_of(ana).definition.drawn is None
    assert draws(tmp_path) == 0


@pytest.mark.slow
def test_a_view_goes_on_with_what_it_has_drawn(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(6)
    with opened(tmp_path) as ana:
        ana.sql(create())
        ana.sql(REFRESH)
        plan = plan_of(ana)
    clock(20)
    with opened(tmp_path) as ana:
        assert plan_of(ana) == plan
        assert plan.reaches == (drawn(ana).rows,)
        listed = ana.sql("SHOW MATERIALIZED VIEWS").fetchone()
        assert f"rows {drawn(ana).rows}, groups {drawn(ana).groups}" in (listed or ())
        assert len(ana.sql(REFRESH)) == 1
    assert draws(tmp_path) == 1


@pytest.mark.slow
def test_numbers_that_are_given_are_not_drawn(tmp_path: Path) -> None:
    with opened(tmp_path) as ana:
        ana.sql(create(more=", max_rows_contributed = 7"))
        assert (drawn(ana).rows, plan_of(ana).reaches) == (None, (7,))
        ana.sql(create(more=", max_groups_contributed = 2", name="w"))
        assert (drawn(ana, "w").groups, plan_of(ana, "w").groups) == (None, 2)
        ana.sql(create("SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k", name="y"))
        assert drawn(ana, "y").rows is None  # no number of rows matters
    with opened(tmp_path, replace(policy(), maxima=Maxima(max_rows_contributed=20))) as ana:
        ana.sql(create(name="z"))
        assert plan_of(ana, "z").reaches == (20,)


@pytest.mark.slow
def test_the_word_is_taken_wherever_a_number_is(tmp_path: Path) -> None:
    inside = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 'auto') k"
    with opened(tmp_path) as ana:
        ana.sql("SET max_rows_contributed = 3")
        ana.sql(create(COUNTED.replace("k,", f"{inside},", 1)))
        assert plan_of(ana).reaches == (drawn(ana).rows,)
        given = f", max_rows_contributed = '{AUTO}', max_groups_contributed = '{AUTO}'"
        ana.sql(create(more=given, name="w"))
        assert (drawn(ana, "w").rows or 0) >= LARGE
    with opened(tmp_path) as ana:  # what the text asks for is what was drawn
        ana.sql(REFRESH)
        assert plan_of(ana).reaches == (drawn(ana).rows,)


# -- which rows tell ----------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_of_as_long_a_time_before_tell_what_comes(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    """A view that starts when the table ends has its bounds from what was before."""
    clock(16)
    with opened(tmp_path) as ana:
        ana.sql(create(start="2026-01-16"))
        assert (drawn(ana).rows or 0) >= LARGE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "select"),
    [
        ("2026-03-01", COUNTED),
        ("2026-01-01", f"{COUNTED.replace(' GROUP', ' WHERE u < 1 GROUP')}"),
    ],
)
def test_where_too_few_rows_tell_a_view_has_the_usual_numbers(
    start: str, select: str, tmp_path: Path
) -> None:
    """And works: rows that are too old, or of too few units, say nothing of later ones."""
    with opened(tmp_path) as ana:
        statement = create(select, start)
        ana.sql(statement)
        assert (drawn(ana).rows, drawn(ana).groups) == (NONE, NONE)
        plan = plan_of(ana)
        assert (plan.reaches, plan.groups) == ((USUAL_ROWS,), USUAL_GROUPS)
        told = explained(ana, statement.replace("VIEW v", "VIEW w"))
        assert f"max_rows_contributed is {USUAL_ROWS}, the usual number, as too few units" in told
        if start == "2026-01-01":
            ana.sql(REFRESH)


# -- what is told -------------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_tells_the_price_of_the_draw_and_then_the_bounds(tmp_path: Path) -> None:
    other = create(name="w")
    with opened(tmp_path) as ana:
        told = explained(ana, create())
        assert "max_rows_contributed and max_groups_contributed are found first, for ρ" in told
        assert "rows from 2026-01-01 00:00 to 2026-01-16 00:00 tell, as long a time" in told
        assert ana.budget().rho_spent == 0
        before = reserved(ana, other).rho
        paid = ana.sql(create()).cost.settled.rho
        told = explained(ana, other)
        assert f"max_rows_contributed is {drawn(ana).rows}, found privately" in told
        assert f"max_groups_contributed is {drawn(ana).groups}, found privately" in told
        known = ana.sql(other).cost.settled.rho  # which another view has for nothing
        assert known == pytest.approx(0.85 * paid, rel=1e-5)
        assert before == pytest.approx(paid)
        assert (drawn(ana).rows, drawn(ana).groups) == (
            drawn(ana, "w").rows,
            drawn(ana, "w").groups,
        )
    assert draws(tmp_path) == 1


# -- bounds of values -----------------------------------------------------------------------------


def without_bounds(composition: Composition = Composition.ZCDP, **columns: ColumnPolicy) -> Policy:
    """The policy without bounds of values: numbers of rows and groups are given."""
    rules = policy(composition)
    given = replace(rules.defaults, max_rows_contributed=LARGE, max_groups_contributed=1)
    kept = {"g": rules.tables["t"].columns["g"]}
    return replace(
        rules, defaults=given, tables={"t": replace(rules.tables["t"], columns=kept | columns)}
    )


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
@pytest.mark.parametrize(
    ("select", "truth"),
    [
        ("SELECT k, SUM(x) AS n FROM t GROUP BY k", 2 * TRUTH),
        ("SELECT g, SUM(3 - x * 4) AS n FROM t GROUP BY g", -5 * TRUTH),  # of both signs
        ("SELECT AVG(x) AS n FROM t", 2.0),
    ],
)
def test_a_view_finds_bounds_of_values_and_the_truth_for_its_price(
    select: str, truth: float, composition: Composition, tmp_path: Path
) -> None:
    with opened(tmp_path, without_bounds(composition)) as ana:
        told = explained(ana, create(select))
        assert "are found first, for" in told
        assert "-100 to 100" in told
        worst = reserved(ana, create(select))
        paid = ana.sql(create(select)).cost.settled
        assert paid == worst
        account = ana.budget()
        spent = account.epsilon_spent if composition is Composition.BASIC else account.rho_spent
        assert spent == pytest.approx(paid.epsilon or paid.rho)
        ((lower, upper),) = drawn(ana).values
        assert upper >= 3.0
        assert (lower < -8) == ("3 -" in select)
        ana.sql(REFRESH)
        assert all(abs(n - truth) < 0.25 * abs(truth) for n in last(ana))
        (caveat,) = ana.sql("SELECT n FROM v").warnings
        assert f"v clamps {select[7:].split('(')[1].split(')')[0]} to" in caveat.text
        assert not caveat.strong
    assert draws(tmp_path) == 1


@pytest.mark.slow
def test_a_view_goes_on_with_bounds_of_values_that_it_has_drawn(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    """And another view over the same rows has them for nothing."""
    select = "SELECT k, SUM(x) AS n, STDDEV(x) AS d FROM t GROUP BY k"
    clock(6)
    with opened(tmp_path, without_bounds()) as ana:
        ana.sql(create(select))
        ana.sql(REFRESH)
        plan = plan_of(ana)
        assert "are found first" not in explained(ana, create(select, name="w"))
        ana.sql(create(select, name="w"))
    clock(20)
    with opened(tmp_path, without_bounds()) as ana:
        assert plan_of(ana) == plan
        told = f"values {range_text(drawn(ana).values[0])}"
        assert told in str(ana.sql("SHOW MATERIALIZED VIEWS").fetchall())
        assert len(ana.sql(REFRESH)) == 1
        assert all(abs(n - 2 * TRUTH) < 0.25 * 2 * TRUTH for n in last(ana))
    assert draws(tmp_path) == 1
    for declared in (ColumnPolicy(0.0, 77.0), ColumnPolicy(-1e6, 1e6)):
        with opened(tmp_path, without_bounds(x=declared)) as ana, fails_with("view_changed"):
            ana.sql(REFRESH)


@pytest.mark.slow
def test_bounds_of_units_and_of_values_are_drawn_beside_each_other(tmp_path: Path) -> None:
    rules = policy()
    bare = replace(rules.tables["t"], columns={})
    with opened(tmp_path, replace(rules, tables={"t": bare})) as ana:
        paid = ana.sql(create("SELECT k, SUM(x) AS n, SUM(u % 7) AS m FROM t GROUP BY k")).cost
        found = drawn(ana)
        assert (found.rows or 0) >= LARGE
        assert len(found.values) == 1  # of u % 7 they follow
        assert ana.budget().rho_spent == pytest.approx(paid.settled.rho)
        ana.sql(REFRESH)
        assert all(abs(n - 2 * TRUTH) < 0.25 * 2 * TRUTH for n in last(ana))
    assert draws(tmp_path) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("x", "2026-03-01"),  # no rows by then
        ("CAST(NULL AS DOUBLE) + x", "2026-01-01"),
        ("x * CAST('NaN' AS DOUBLE)", "2026-01-01"),
        ("x) FILTER (WHERE u = 1", "2026-01-01"),  # of one unit
    ],
)
def test_where_too_few_units_have_values_a_view_has_the_usual_bounds(
    value: str, start: str, tmp_path: Path
) -> None:
    with opened(tmp_path, without_bounds()) as ana:
        ana.sql(create(f"SELECT SUM({value}) AS n FROM t", start))
        assert drawn(ana).values == ((0.0, 0.0),)
        told = explained(ana, create(f"SELECT SUM({value}) AS n FROM t", start, name="w"))
        assert "-100 to 100, the usual bounds, as too few units had values" in told
        if start == "2026-01-01":
            ana.sql(REFRESH)
            assert abs(last(ana)[0]) < 1e5
        (caveat,) = ana.sql("SELECT * FROM v").warnings
        assert caveat.strong
        assert "to -100 to 100, as too few" in caveat.text


@pytest.mark.slow
def test_values_that_public_facts_bound_are_not_drawn_in_a_view(tmp_path: Path) -> None:
    with opened(tmp_path, without_bounds()) as ana:
        facts = "SUM(u % 10) AS a, SUM(CASE WHEN x > 2 THEN 5 ELSE 0 END) AS b"
        given = "SUM(x, contribution_bounds_per_row => (0, 4)) AS c"
        ana.sql(create(f"SELECT k, {facts}, {given} FROM t GROUP BY k"))
        assert plan_of(ana).definition.drawn is None
    assert draws(tmp_path) == 0


# -- what is refused, and what fails ------------------------------------------------------------


@pytest.mark.slow
def test_an_account_that_cannot_pay_for_the_view_pays_for_no_draw(tmp_path: Path) -> None:
    with opened(tmp_path, policy(Composition.BASIC, total=7.0)) as ana:
        with fails_with("budget_exceeded"):
            ana.sql(create())
        assert ana.budget().epsilon_spent == 0
        ana.sql(create(more=", epsilon = 6.9"))
        assert ana.budget().epsilon_spent == pytest.approx(6.9)


@pytest.mark.slow
def test_a_view_whose_name_is_taken_draws_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as ana:
        ana.sql(create())
        spent = ana.budget().rho_spent
        with fails_with("ledger_stream_exists"):
            ana.sql(create(TOTAL, name="V"))
        assert ana.budget().rho_spent == spent


@pytest.mark.slow
def test_a_failure_of_the_draw_keeps_its_price_and_makes_no_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise ZeroDivisionError("row 17 of ana")

    with opened(tmp_path) as ana:
        price = 0.15 * reserved(ana, create()).rho
        monkeypatch.setattr("dpsql.pipeline.purchase.release_bounds", failing)
        with fails_with("engine_failed") as caught:
            ana.sql(create())
        assert "17" not in str(caught.value)
        assert caught.value.__context__ is None
        assert ana.budget().rho_spent == pytest.approx(price, rel=1e-5)
        assert not ana.sql("SHOW MATERIALIZED VIEWS").fetchall()
        monkeypatch.undo()
        with fails_with("account_suspended"):
            ana.sql(create())


_KILLED = """
import os, sys
from datetime import UTC, datetime
sys.path.insert(0, {tests!r})
from pathlib import Path
from dpsql.ledger import Ledger
from dpsql.pipeline import purchase
from dpsql.views import views
from views.test_view_bounds import create, opened
views._now = lambda: datetime(2026, 1, 20, tzinfo=UTC)
def kill(*_, **__): os.kill(os.getpid(), 9)
moment = sys.argv[2]
if moment == "read": purchase.read_choice = kill
if moment == "drawn": Ledger.settle_together = kill
if moment == "settled": Ledger.create_stream = kill
with opened(Path(sys.argv[1])) as ana:
    ana.sql(create())
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["read", "drawn", "settled"])
def test_a_killed_draw_is_paid_and_one_that_was_kept_is_not_paid_again(
    moment: str, tmp_path: Path
) -> None:
    """The price is reserved before rows are read, and a number that is shown was kept before."""
    with opened(tmp_path) as ana:
        price = 0.15 * reserved(ana, create()).rho
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", _KILLED.format(tests=tests), str(tmp_path), moment]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    with closing(
        dpsql.connect(tmp_path / "x.duckdb", policy(), str(tmp_path / "l.db"), "ana")
    ) as a:
        assert a.budget().rho_spent == pytest.approx(price, rel=1e-5)
        assert not a.sql("SHOW MATERIALIZED VIEWS").fetchall()
        a.sql(create())
        a.sql(REFRESH)
        assert len(last(a)) == GROUPS
    assert draws(tmp_path) == (1 if moment == "settled" else 2)


# -- whoever reads it ---------------------------------------------------------------------------


@pytest.mark.slow
def test_answers_from_a_view_say_which_bounds_it_has_found(tmp_path: Path) -> None:
    with opened(tmp_path) as ana:
        ana.sql(create())
        ana.sql(REFRESH)
        (caveat,) = ana.sql("SELECT sum(n) AS n FROM v WHERE step = 3").warnings
        assert (caveat.kind, caveat.strong) == ("bounds_found", False)
        assert f"v counts at most {drawn(ana).rows} rows of each user in at most" in caveat.text
        assert not ana.sql("SELECT 1 AS n").warnings
        ana.sql(create(start="2026-03-01", name="w"))
        (caveat,) = ana.sql("SELECT * FROM w").warnings
        assert caveat.strong
        assert "at most 10 rows of each user in at most 10 groups" in caveat.text
        ana.sql(create(more=", max_rows_contributed = 7, max_groups_contributed = 2", name="x"))
        assert "bounds_found" not in {c.kind for c in ana.sql("SELECT * FROM x").warnings}


@pytest.mark.slow
def test_a_view_of_others_is_priced_with_the_bounds_that_were_drawn_for_it(tmp_path: Path) -> None:
    """Whoever may read it is shown them, in the listing, too, and they were paid for apart."""
    rules = policy(views=ViewsPolicy(shared=("ana",)))
    rules = replace(rules, accounts={**rules.accounts, "bob": AccountPolicy("bob", 10.0, 1e-3)})
    with opened(tmp_path, rules) as ana:
        ana.sql(create())
        paid = ana.budget().own.spent.loss.rho
        place = tmp_path / "x.duckdb", rules, str(tmp_path / "l.db"), "bob"
        with dpsql.connect(*place) as bob:
            assert bob.budget().shown.shared.loss.rho == pytest.approx(paid, rel=1e-9)
            assert bob.sql("SHOW MATERIALIZED VIEWS").fetchall()
    with dpsql.connect(place[0], replace(rules, views=ViewsPolicy()), *place[2:]) as bob:
        assert bob.budget().shown.shared.loss.rho == pytest.approx(paid, rel=1e-9)
