"""Tuning compares settings by their noise and by what they leave out, for a price known before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, policy, world_file
from helpers.support import FILL as SMALL_WORLD

import dpsql
from dpsql.budget.question import read_record
from dpsql.engines.duckdb import engine as engine_module
from dpsql.errors import BudgetExceeded, Error, InterfaceError, ParameterError
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.present.result_files import tuning_json
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.results.tuning import (
    TriedSetting,
    TunedAggregate,
    Tuning,
    best_sizes,
    tuned_bounds,
    tuned_caps,
)

KEYED = "SELECT k, COUNT(DISTINCT u) AS n FROM visits GROUP BY k"
DECLARED = "SELECT c, COUNT(DISTINCT u) AS n FROM visits GROUP BY c"
WHOLE = "SELECT COUNT(*) AS n FROM visits"
# Every unit is in 6 groups, with 3 rows in each; c has 40 declared values.
FILL = (
    "CREATE TABLE visits AS SELECT u, (u + 5 * g) % 37 AS k, (u + 5 * g) % 37 AS c, "
    "CASE WHEN r = 0 THEN 80.0 ELSE 10.0 END AS x FROM range(900) a(u), range(6) b(g), "
    "range(3) d(r)"
)
RULES = Policy(
    "world",
    defaults=Parameters(epsilon=4.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=2),
    accounts={ANALYST: AccountPolicy(ANALYST, 3000.0, 1e-3)},
    tables={
        "visits": TablePolicy(
            "visits",
            PrivacyUnit("person", "u"),
            {"x": ColumnPolicy(0, 100), "c": ColumnPolicy(domain=tuple(range(40)))},
        )
    },
)


def opened(directory: Path, rules: Policy = RULES, ledger: str | None = "budget.db") -> Any:
    path = directory / "visits.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as writer:
            writer.execute(FILL)
    return dpsql.connect(path, rules, ledger and directory / ledger, ANALYST)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with opened(tmp_path) as found:
        yield found


def paid(directory: Path) -> list[tuple[str, str, bool]]:
    """What was charged: the mechanism, the statement, and whether it is settled."""
    with Ledger.open(directory / "budget.db") as ledger:
        found = ledger.history("world")
    records = [(read_record(entry.plan), entry.charged is not None) for entry in found]
    return [(one.blocks[0].mechanism, one.statement, settled) for one, settled in records]


def only(tuning: Tuning) -> TunedAggregate:
    (found,) = tuning.aggregates
    return found


def best(found: TunedAggregate) -> TriedSetting:
    assert found.recommended is not None
    return found.tried[found.recommended]


# -- what is found -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_cap_that_leaves_nothing_out_is_recommended_for_large_groups(
    connection: dpsql.Connection,
) -> None:
    tried: dict[str, Any] = {"groups": [1, 3, 5, 6, 9], "share": 1.0}
    found = only(connection.tune(KEYED, **tried, size=1e6, epsilon=200.0))
    shares = {one.max_groups_contributed: one.share for one in found.tried}
    for cap, expected in ((1, 5 / 6), (3, 0.5), (5, 1 / 6), (9, 0.0)):
        assert shares[cap] == pytest.approx(expected, abs=0.05)
    assert best(found).max_groups_contributed == 9
    small = only(connection.tune(KEYED, **tried, size=1))
    assert best(small).max_groups_contributed == 1


@pytest.mark.slow
def test_rows_of_the_whole_are_tuned_by_one_estimate(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    found = only(connection.tune(WHOLE, rows=[1, 5, 9, 17, 33], share=1.0, epsilon=200.0))
    shares = {one.max_rows_contributed: one.share for one in found.tried}
    for cap in (1, 5, 9, 17):
        assert shares[cap] == pytest.approx(1 - cap / 18, abs=0.05)
    assert found.size == pytest.approx(900 * 18, rel=0.05)
    assert best(found).max_rows_contributed >= 17
    assert [name for name, _, _ in paid(tmp_path)] == [LEFT_OUT_MECHANISM]


@pytest.mark.slow
def test_rows_in_groups_are_tuned_over_both_caps(connection: dpsql.Connection) -> None:
    asked = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
    found = only(connection.tune(asked, groups=[2, 6], rows=[1, 3], share=1.0, epsilon=200.0))
    shares = [(o.max_groups_contributed, o.max_rows_contributed, o.share) for o in found.tried]
    for groups, rows, share in shares:
        assert share == pytest.approx(1 - groups * rows / 18, abs=0.05)
    chosen = best(found)
    assert (chosen.max_groups_contributed, chosen.max_rows_contributed) == (6, 3)
    assert found.size == pytest.approx(900 * 18 / 40, rel=0.1)


@pytest.mark.slow
def test_rows_are_found_to_be_the_trouble_where_nobody_gives_a_number(tmp_path: Path) -> None:
    engine = dpsql.DuckDBEngine()
    rows = np.arange(60 * 400)
    engine.register("t", {"uid": rows % 400, "k": rows % 400 % 2})
    policy = Policy(
        "world",
        defaults=Parameters(epsilon=8.0, delta=1e-6),
        accounts={"ana": AccountPolicy("ana", 1000.0, 1e-2)},
        tables={"t": TablePolicy("t", PrivacyUnit("p", "uid"), {"k": ColumnPolicy(domain=(0, 1))})},
    )
    with dpsql.connect(engine, policy, tmp_path / "ledger.db", "ana") as con:
        for asked, least in (
            ("SELECT COUNT(*) FROM t", 65),
            ("SELECT k, COUNT(*) FROM t GROUP BY k", 100),
        ):
            (found,) = con.tune(asked, share=1).aggregates
            assert found.recommended is not None
            assert found.tried[found.recommended].max_rows_contributed >= least
            (narrow,) = (
                one
                for one in found.tried
                if (one.max_groups_contributed, one.max_rows_contributed) == (1, 10)
            )
            assert narrow.share == pytest.approx(5 / 6, abs=0.1)
        (units,) = con.tune("SELECT k, COUNT(DISTINCT uid) FROM t GROUP BY k").aggregates
        assert {one.max_rows_contributed for one in units.tried} == {10}


@pytest.mark.slow
def test_bounds_outside_of_which_few_values_lie_are_recommended(
    connection: dpsql.Connection,
) -> None:
    asked = "SELECT SUM(x) AS s FROM visits"
    found = only(connection.tune(asked, bounds=[(0, 50), (0, 90), (0, 1000)], share=1.0))
    assert found.of_bounds
    assert [round(one.share or 0.0, 1) for one in found.tried] == [0.3, 0.0, 0.0]
    assert best(found).bounds == (0.0, 90.0)
    margins = [one.margin95 for one in found.tried]
    assert margins == sorted(margins)
    answer = connection.sql(
        "SELECT SUM(x, contribution_bounds_per_row => (0, 90)) AS s FROM visits"
    )
    ends = answer.intervals()["s"]
    assert (ends.high[0] - ends.low[0]) / 2 == pytest.approx(found.tried[1].margin95)


@pytest.mark.slow
def test_the_noise_of_a_setting_is_that_of_the_question_asked_with_it(
    connection: dpsql.Connection,
) -> None:
    found = only(connection.tune(DECLARED, groups=[1, 4], dry_run=True))
    for one in found.tried:
        answer = connection.explain(DECLARED, max_groups_contributed=one.max_groups_contributed)
        assert answer.blocks[0].columns[0].margin95 == pytest.approx(one.margin95)


@pytest.mark.slow
def test_a_question_that_finds_its_cap_itself_is_tuned_with_numbers(
    connection: dpsql.Connection,
) -> None:
    found = only(connection.tune(KEYED, max_groups_contributed="auto", share=1.0))
    assert [one.max_groups_contributed for one in found.tried] == [1, 2, 3, 5, 9, 17, 33]


@pytest.mark.slow
def test_declared_groups_bound_the_caps_that_are_tried(connection: dpsql.Connection) -> None:
    found = only(connection.tune(DECLARED, groups=[3, 40], share=1.0))
    nothing = found.tried[1]
    assert (nothing.share, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
    usual = only(connection.tune(DECLARED, dry_run=True))
    assert max(one.max_groups_contributed for one in usual.tried) == 33


def test_usual_caps_keep_within_the_maximum(tmp_path: Path) -> None:
    rules = replace(RULES, maxima=replace(RULES.maxima, max_groups_contributed=5))
    with opened(tmp_path, rules) as connection:
        found = only(connection.tune(KEYED, dry_run=True))
        assert [one.max_groups_contributed for one in found.tried] == [1, 2, 3, 5]
        with pytest.raises(ParameterError, match="at most 5"):
            connection.tune(KEYED, groups=[6])


# -- what it costs -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_price_is_the_share_and_known_before(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    whole = connection.explain(WHOLE).reserved.rho
    planned = connection.tune(WHOLE, share=0.2, dry_run=True)
    assert planned.cost.reserved.rho == pytest.approx(0.2 * whole, rel=1e-6)
    assert planned.cost.settled.rho == 0.0
    assert only(planned).recommended is None
    assert paid(tmp_path) == []
    done = connection.tune(WHOLE, share=0.2)
    assert done.cost.settled == planned.cost.reserved
    assert connection.budget().rho_spent == pytest.approx(done.cost.settled.rho, rel=1e-6)


@pytest.mark.slow
def test_tuned_again_it_costs_nothing_and_says_the_same(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    first = connection.tune(KEYED)
    again = connection.tune("SELECT COUNT(DISTINCT u), k AS key FROM visits GROUP BY k")
    assert again.cost.reserved.rho == 0.0
    assert only(again).tried == only(first).tried
    assert len(paid(tmp_path)) == 1
    assert connection.tune(KEYED, dry_run=True).cost.reserved.rho == 0.0


@pytest.mark.slow
def test_what_tuning_learned_is_told_with_the_question_for_nothing(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    asked = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
    connection.tune(asked, groups=[3], rows=[2], share=0.5)
    result = connection.sql(asked, left_out_share=0.03)
    assert result.left_out[0].told
    assert [name for name, _, _ in paid(tmp_path)].count(LEFT_OUT_MECHANISM) == 1


@pytest.mark.slow
def test_estimates_are_reserved_before_anything_is_read_and_kept_with_what_was_asked(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []
    original = engine_module.discreetly

    def watched(*arguments: Any, **named: Any) -> Any:
        seen.append(connection.budget())
        return original(*arguments, **named)

    monkeypatch.setattr(engine_module, "discreetly", watched)
    asked = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
    connection.tune(asked, groups=[2, 6])
    assert {report.unsettled for report in seen} == {2}
    assert paid(tmp_path) == [(LEFT_OUT_MECHANISM, asked, True)] * 2


def test_a_dry_run_reads_no_private_row_and_needs_no_ledger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("private rows were read")

    with opened(tmp_path, ledger=None) as connection:
        monkeypatch.setattr(engine_module, "discreetly", never)
        assert connection.tune(KEYED, dry_run=True).cost.reserved.rho > 0


@pytest.mark.slow
def test_tuning_that_is_too_dear_spends_nothing(tmp_path: Path) -> None:
    rules = replace(RULES, accounts={ANALYST: AccountPolicy(ANALYST, 1.0, 1e-6)})
    with opened(tmp_path, rules) as connection:
        asked = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
        with pytest.raises(BudgetExceeded):
            connection.tune(asked, groups=[1, 2, 3], share=1.0)
        assert connection.budget().rho_spent == 0.0


@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.BASIC])
@pytest.mark.slow
def test_all_settings_together_cost_the_share(composition: Composition, tmp_path: Path) -> None:
    rules = replace(RULES, accounts={ANALYST: AccountPolicy(ANALYST, 4.0, 1e-6, composition)})
    with opened(tmp_path, rules) as connection:
        asked = "SELECT c, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY c"
        tuning = connection.tune(asked, groups=[1, 3, 6], rows=[1, 3], share=1.0)
        assert 3.9 < tuning.cost.settled_epsilon <= 4.0


# -- what cannot be tuned ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("SELECT AVG(x) FROM visits", {}, "averages"),
        ("SELECT k, MEDIAN(x) FROM visits GROUP BY k", {}, "quantiles"),
        ("SELECT DISTINCT k FROM visits", {}, "keys alone"),
        ("SELECT COUNT(DISTINCT u) FROM visits", {}, "leaves out nothing"),
        (WHOLE, {"max_error": 100.0}, "max_error"),
        (KEYED, {"contribution_bounding": "weight"}, "weighted units"),
        ("SELECT 1 AS one", {}, "one private block"),
        ("SELECT k, COUNT(*) FROM visits GROUP BY ROLLUP (k)", {}, "one private block"),
        (WHOLE, {"bounds": [(0, 1)]}, "just one"),
        (KEYED, {"epsilon": 1e-6, "share": 1e-9, "delta": 1e-7}, "buys no estimate"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 4) k, "
            "COUNT(DISTINCT u) FROM visits GROUP BY k",
            {},
            "OPTIONS",
        ),
    ],
)
def test_what_cannot_be_tuned_says_why_and_costs_nothing(
    asked: str, options: dict[str, Any], words: str, connection: dpsql.Connection, tmp_path: Path
) -> None:
    with fails_with("nothing_to_tune", match=words) as found:
        connection.tune(asked, **options)
    assert found.value.hint
    assert paid(tmp_path) == []


def test_gaussian_accounts_cannot_tune(tmp_path: Path) -> None:
    account = AccountPolicy(ANALYST, 4.0, 1e-4, Composition.GDP)
    with (
        opened(tmp_path, replace(RULES, accounts={ANALYST: account})) as connection,
        pytest.raises(InterfaceError, match="gdp"),
    ):
        connection.tune(KEYED)


@pytest.mark.parametrize(
    "options",
    [
        {"groups": []},
        {"groups": 3},
        {"groups": ["few"]},
        {"groups": [1.5]},
        {"groups": range(1, 50)},
        {"groups": range(1, 10), "rows": range(1, 10)},
        {"groups": [0]},
        {"rows": [-1]},
        {"bounds": [(1, 0)]},
        {"bounds": [(0, float("inf"))]},
        {"bounds": [(0, float("nan"))]},
        {"bounds": [(0, 1, 2)]},
        {"size": 0},
        {"size": "large"},
        {"share": 0},
        {"share": 1.5},
        {"share": float("nan")},
        {"dry_run": 1},
        {"epsilon": -1},
    ],
)
def test_bad_arguments_are_refused(
    options: dict[str, Any], connection: dpsql.Connection, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError):
        connection.tune(WHOLE, **options)
    assert paid(tmp_path) == []


def test_a_question_that_is_refused_is_refused_here_too(connection: dpsql.Connection) -> None:
    with pytest.raises(Error, match="u"):
        connection.tune("SELECT u FROM visits")


# -- how it is told ----------------------------------------------------------------------------


def setting(cap: int, margin: float, share: float, low: float = 0.0, high: float = 1.0) -> Any:
    return TriedSetting(cap, 1, None, margin, None, share, low, high)


def test_each_setting_is_the_best_from_one_size_to_another() -> None:
    tried = [setting(1, 10.0, 0.5), setting(2, 20.0, 0.25), setting(3, 100.0, 0.0)]
    tried.append(setting(4, 200.0, 0.1))
    found = tuned_caps("n", tried, 100.0, "groups")
    assert [best_sizes(one) for one in found.tried] == ["up to 40", "40 to 320", "from 320", "none"]
    assert best(found).max_groups_contributed == 2
    assert best(found).error == 45.0
    for size in (1.0, 39.0, 41.0, 319.0, 321.0, 1e9):
        chosen = best(tuned_caps("n", tried, size, "groups"))
        assert chosen.best_from is not None
        assert chosen.best_to is not None
        assert chosen.best_from <= size <= chosen.best_to


def test_of_equal_settings_the_first_is_the_best() -> None:
    found = tuned_caps("n", [setting(1, 5.0, 0.0), setting(2, 5.0, 0.0)], 10.0, "groups")
    assert [best_sizes(one) for one in found.tried] == ["all", "none"]
    assert found.recommended == 0


def test_doubt_is_told_where_intervals_overlap() -> None:
    close = [setting(1, 1.0, 0.2, 0.1, 0.3), setting(2, 2.0, 0.15, 0.1, 0.2)]
    found = tuned_caps("n", close, 100.0, "groups")
    assert not found.sure
    assert "may be as good" in found.reason
    apart = [setting(1, 1.0, 0.2, 0.19, 0.21), setting(2, 2.0, 0.1, 0.09, 0.11)]
    assert tuned_caps("n", apart, 100.0, "groups").sure


def test_without_a_size_nothing_is_recommended() -> None:
    found = tuned_caps("n", [setting(1, 1.0, 0.2), setting(2, 2.0, 0.1)], None, "")
    assert found.recommended is None
    assert "size of the groups" in found.reason


def test_no_bounds_are_recommended_where_all_are_too_narrow() -> None:
    narrow = TriedSetting(1, 1, (0.0, 1.0), 5.0, None, 0.4, 0.3, 0.5)
    found = tuned_bounds("s", [narrow])
    assert found.recommended is None
    assert "wider" in found.reason


@pytest.mark.slow
def test_it_is_shown_as_a_table_and_as_json(connection: dpsql.Connection) -> None:
    tuning = connection.tune(KEYED, groups=[1, 9], share=1.0)
    text = repr(tuning)
    assert "→" in text
    assert "left out" in text
    assert "cost ε" in text
    assert "costs nothing" in repr(connection.tune(KEYED, groups=[1, 9], share=1.0))
    document = json.loads(tuning_json(tuning))
    assert document["aggregates"][0]["tried"][0]["max_groups_contributed"] == 1
    assert document["cost"]["settled"]["rho"] == tuning.cost.settled.rho
    assert "nothing was read" in repr(connection.tune(WHOLE, dry_run=True))


@pytest.mark.slow
def test_a_failed_estimate_suspends_the_account_and_keeps_what_was_reserved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("row 7 is 80.0")

    with opened(tmp_path) as connection:
        monkeypatch.setattr("dpsql.pipeline.purchase.read_left_out", broken)
        with pytest.raises(dpsql.DatabaseError) as found:
            connection.tune("SELECT SUM(x) AS s FROM visits", rows=[1, 5], bounds=[(0, 50)])
        assert "80" not in str(found.value)
        assert found.value.__context__ is None
        assert connection.budget().rho_spent > 0
        monkeypatch.undo()
        with pytest.raises(Error, match="suspended"):
            connection.sql(WHOLE)
    with Ledger.open(tmp_path / "budget.db", who="olga") as ledger:
        charges = ledger.history("world", 100)
        assert len(charges) > 1
        assert all(charge.failed and not charge.settled for charge in charges)
        failures = [event.entry for event in ledger.suspensions()]
        assert sorted(filter(None, failures)) == sorted(charge.entry for charge in charges)


@pytest.mark.slow
def test_the_small_world_can_be_tuned(tmp_path: Path) -> None:
    with (
        world_file(tmp_path / "world.duckdb", *SMALL_WORLD) as path,
        dpsql.connect(path, policy(), tmp_path / "b.db", ANALYST) as connection,
    ):
        asked = "SELECT c, COUNT(*) AS n, SUM(amount) AS s FROM visits GROUP BY c"
        tuning = connection.tune(asked, rows=[1, 20], bounds=[(0, 50), (0, 100)])
        named = [(found.aggregate, found.of_bounds) for found in tuning.aggregates]
        assert named == [("count_star()", False), ("sum(amount)", False), ("sum(amount)", True)]
