"""``dpsql calibrate continual --k``: the figures are those of what is drawn."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dpsql.errors import ParameterError
from dpsql.interfaces.cli.calibrate import calibrate_command as command
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.calculator import Request, answer_json, calibrate
from dpsql.privacy.calculator.streams import ListingCalibration
from dpsql.privacy.streams.mechanism import StreamGroups
from dpsql.privacy.streams.topk import scheduled_top_k


def ask(**given: object) -> ListingCalibration:
    answer = calibrate(Request("continual", **given))  # type: ignore[arg-type]
    assert isinstance(answer, ListingCalibration)
    return answer


def test_a_listing_is_calibrated_as_it_is_drawn() -> None:
    answer = ask(steps=52, rho=0.02, delta=1e-6, k=5)
    mechanism = scheduled_top_k(
        PrivacyLoss(0.02, 1e-6), 52, StreamGroups(k_bar=1000), k=5, one_step=False
    )
    assert mechanism is not None
    assert (answer.rho, answer.rho_delta) == (mechanism.loss.rho, mechanism.loss.delta)
    assert answer.delta == answer.rho_delta + 1e-6
    assert [figures.step for figures in answer.steps] == [1, 3, 7, 19, 52]
    for figures in answer.steps:
        assert figures.std == mechanism.counts.std(figures.step)
        assert figures.margin_95 == mechanism.counts.half_widths(0.95)[figures.step - 1]
    doubling = answer.ways[0]
    assert doubling.choices == 6
    assert doubling.exceeds == mechanism.selection.score_for_inclusion(0.95)


def test_more_choices_cost_more_and_units_of_one_step_less() -> None:
    ways = {way.name: way for way in ask(steps=365, epsilon=1.0, delta=1e-6, k=10).ways}
    schedules = [ways[name] for name in ("doubling", "every 30 steps", "every 7 steps")]
    assert [way.choices for way in schedules] == [9, 13, 53]
    for one, other in zip(schedules, [*schedules[1:], ways["every step"]], strict=True):
        assert one.worst < other.worst
        assert one.exceeds < other.exceeds
    shared = ways["doubling, units of one step"]
    assert 0.5 < shared.worst / ways["doubling"].worst < 0.6
    assert shared.exceeds == ways["doubling"].exceeds
    assert all(way.rms <= way.worst for way in ways.values())


def test_a_budget_that_pays_for_no_choice_is_refused() -> None:
    with pytest.raises(ParameterError, match="too small"):
        ask(steps=9000, rho=1e-18, delta=0.1, k=10)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"k": 3, "epsilon": 1.0, "delta": 1e-6}, "needs --steps"),
        ({"k": 3, "steps": 5, "epsilon": 1.0}, "needs --delta"),
        ({"k": 3, "steps": 5, "delta": 1e-6}, "either --epsilon or --rho"),
        ({"k": 3, "steps": 5, "delta": 1e-6, "rho": 0.1, "groups": 3}, "does not take"),
        ({"k": 30, "k_bar": 20, "steps": 5, "delta": 1e-6, "rho": 0.1}, "must not exceed"),
    ],
)
def test_options_of_listings_that_do_not_fit_are_refused(
    given: dict[str, object], reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        ask(**given)


def test_the_command_prints_the_ways_and_json() -> None:
    words = ["continual", "--steps", "30", "--k", "4", "--epsilon", "1", "--delta", "1e-6"]
    shown = CliRunner().invoke(command, words)
    assert shown.exit_code == 0
    assert "doubling" in shown.output
    assert "meta_algo" in shown.output
    found = CliRunner().invoke(command, [*words, "--format", "json"])
    answer = ask(steps=30, epsilon=1.0, delta=1e-6, k=4)
    assert json.loads(found.output) == json.loads(answer_json(answer))
