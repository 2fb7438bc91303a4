"""``dpsql calibrate continual``: the figures are those of what is drawn."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dpsql.errors import ParameterError
from dpsql.interfaces.cli.calibrate import calibrate_command as command
from dpsql.privacy.calculator import Request, answer_json, calibrate
from dpsql.privacy.calculator.streams import ContinualCalibration
from dpsql.privacy.streams.factorisation import SquareRoot
from dpsql.privacy.streams.streams import continual_histogram_for_rho


def ask(**given: object) -> ContinualCalibration:
    answer = calibrate(Request("continual", **given))  # type: ignore[arg-type]
    assert isinstance(answer, ContinualCalibration)
    return answer


@pytest.mark.slow
def test_a_stream_is_calibrated_as_it_is_drawn() -> None:
    answer = ask(steps=52, rho=0.02, delta=1e-6, groups=10)
    histogram = continual_histogram_for_rho(0.02, 1e-6, SquareRoot(52), groups=10, floor=0)
    thresholds = histogram.thresholds()
    assert thresholds is not None
    assert (answer.rho, answer.rho_delta) == (histogram.loss.rho, 1e-6)
    assert answer.delta == 2e-6
    assert [figures.step for figures in answer.steps] == [1, 3, 7, 19, 52]
    for figures in answer.steps:
        assert figures.std == histogram.std(figures.step)
        assert figures.threshold == thresholds[figures.step - 1]
        assert figures.margin_95 == histogram.margin(figures.step, 0.95)


@pytest.mark.slow
def test_factorisations_are_compared_with_repetition() -> None:
    figures = {f.name: f.worst for f in ask(steps=30, epsilon=1.0, delta=1e-6).factorisations}
    assert figures["repetition"] == pytest.approx(5.477, rel=1e-3)
    assert figures["tree, base 4"] == pytest.approx(4.243, rel=1e-3)
    assert figures["toeplitz"] == pytest.approx(2.146, rel=1e-3)
    assert min(figures.values()) < 2.1475


@pytest.mark.slow
def test_one_publication_needs_less_noise_by_its_exact_analysis() -> None:
    exact = ask(steps=52, epsilon=1.0, delta=1e-6)
    zcdp = ask(steps=52, epsilon=1.0, delta=1e-6, analysis="zcdp")
    assert (exact.analysis, exact.epsilon, exact.delta) == ("exact", 1.0, 1e-6)
    assert zcdp.epsilon <= 1.0
    assert zcdp.delta == 1e-6
    assert all(a.std < b.std for a, b in zip(exact.steps, zcdp.steps, strict=True))


def test_a_window_has_less_noise_than_the_running_count() -> None:
    window = ask(steps=365, window=7, rho=0.01, delta=1e-6)
    running = ask(steps=365, rho=0.01, delta=1e-6)
    assert window.steps[-1].std < 0.7 * running.steps[-1].std
    assert [f.name for f in window.factorisations] == ["repetition", "window"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"epsilon": 1.0, "delta": 1e-6}, "needs --steps"),
        ({"steps": 5, "epsilon": 1.0}, "needs --delta"),
        ({"steps": 5, "delta": 1e-6}, "either --epsilon or --rho"),
        ({"steps": 5, "delta": 1e-6, "rho": 0.1, "queries": 3}, "does not take --queries"),
        ({"steps": 5, "delta": 1e-6, "rho": 0.1, "window": 6}, "must not exceed"),
        ({"steps": 5, "delta": 1e-6, "rho": 0.1, "analysis": "exact"}, "does not take --analysis"),
        ({"steps": 5, "delta": 1e-6, "epsilon": 0.1, "analysis": "pure"}, "does not take"),
        ({"steps": 0, "delta": 1e-6, "rho": 0.1}, "--steps must be"),
        ({"steps": 10_001, "delta": 1e-6, "rho": 0.1}, "--steps must be"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        ask(**given)


@pytest.mark.slow
def test_the_command_prints_tables_and_json() -> None:
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    words = ["continual", "--steps", "30", "--groups", "10", *budget]
    shown = CliRunner().invoke(command, words)
    assert shown.exit_code == 0
    assert "tree, base 4" in shown.output
    assert "threshold" in shown.output
    found = CliRunner().invoke(command, [*words, "--format", "json"])
    answer = ask(steps=30, epsilon=1.0, delta=1e-6, groups=10)
    assert json.loads(found.output) == json.loads(answer_json(answer))
