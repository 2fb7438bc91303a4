"""Presentation of the calculator's answers."""

from __future__ import annotations

from functools import singledispatch

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import significant
from dpsql.present.tables import indented, pairs, titled
from dpsql.privacy.accounting.composition import Comparison
from dpsql.privacy.calculator import Calculated, Calibration
from dpsql.privacy.calculator.conversions import Conversion
from dpsql.privacy.calculator.streams import (
    ContinualCalibration,
    ListingCalibration,
    StreamCalibration,
)
from dpsql.privacy.calculator.values import Figures
from dpsql.privacy.mechanisms.selection import UtilityBound


@singledispatch
def answer_panel(answer: Calculated) -> RenderableType:
    """Draw the output of ``dpsql calibrate``."""
    raise TypeError(f"no panel for {type(answer).__name__}")


@answer_panel.register
def _(answer: Calibration) -> RenderableType:
    facts = [("Guarantee", _guarantee(answer)), ("In a session", _session(answer))]
    facts += [("Analysis", f"{answer.analysis}: {answer.how}"), ("Source", answer.source)]
    if answer.utility_bound is not None:
        facts += [("Utility", text) for text in _utility(answer.utility_bound, answer.parameters)]
    facts += [("Note", note) for note in answer.notes]
    return Group(
        _title(answer.mechanism, answer.parameters),
        _facts(facts),
        indented(_figures(answer), above=1),
        Text(f"  figures in: {answer.measured}", style="dim"),
    )


@answer_panel.register
def _(answer: ContinualCalibration) -> RenderableType:
    steps = titled("step", "std", "threshold", "95% within", right=range(4))
    for at in answer.steps:
        figures = significant(at.std), significant(at.threshold), f"± {significant(at.margin_95)}"
        steps.add_row(f"{at.step:,}", *figures)
    compared = titled("noise", "worst std", "rms std", right=(1, 2))
    for found in answer.factorisations:
        compared.add_row(found.name, significant(found.worst), significant(found.rms))
    return Group(
        _stream(answer, f"{answer.analysis}: {answer.how}"),
        indented(steps, above=1),
        Text(f"  figures in: {answer.measured}", style="dim"),
        indented(compared, above=1),
        Text("  in units of the std of a single answer at the same cost", style="dim"),
    )


@answer_panel.register
def _(answer: ListingCalibration) -> RenderableType:
    steps = titled("step", "std", "95% within", right=range(3))
    for at in answer.steps:
        steps.add_row(f"{at.step:,}", significant(at.std), f"± {significant(at.margin_95)}")
    ways = titled(
        "groups are chosen", "choices", "95% at", "worst std", "rms std", right=range(1, 5)
    )
    for way in answer.ways:
        figures = significant(way.exceeds), significant(way.worst), significant(way.rms)
        ways.add_row(way.name, f"{way.choices:,}", *figures)
    return Group(
        _stream(answer, answer.how),
        indented(steps, above=1),
        Text("  figures in: count of a listed group, chosen at the doubling steps", style="dim"),
        indented(ways, above=1),
        Text(
            "  95% at: what a choice finds so likely, in counts above the next after", style="dim"
        ),
        Text("  std: in units of that of a single answer at the same cost", style="dim"),
    )


def _stream(answer: StreamCalibration, analysis: str) -> RenderableType:
    """Draw the guarantee of a stream, and its cost in a session."""
    whole = f"ε {significant(answer.epsilon)} at δ {significant(answer.delta)}, all steps together"
    cost = f"ρ {significant(answer.rho)}, δ {significant(answer.rho_delta)}, once for the stream"
    facts = [("Guarantee", whole), ("In a session", cost)]
    facts += [("Analysis", analysis), ("Source", answer.source)]
    return Group(_title(answer.mechanism, answer.parameters), _facts(facts))


@answer_panel.register
def _(answer: Conversion) -> RenderableType:
    simple = significant(answer.epsilon_simple)
    gaussian = significant(answer.epsilon_gaussian)
    return _facts(
        [
            ("zCDP", f"ρ {significant(answer.rho)}"),
            ("Implies", f"ε {significant(answer.epsilon)} at δ {significant(answer.delta)}"),
            ("Gaussian", f"ε {gaussian} where ρ is μ²/2 of Gaussian DP, exactly"),
            ("Textbook", f"ε {simple}, by ρ + 2√(ρ ln 1/δ)"),
            ("Source", answer.source),
        ]
    )


@answer_panel.register
def _(answer: Comparison) -> RenderableType:
    table = titled("theorem", "holds for", "total ε", "at δ", "source", right=(2, 3))
    for found in answer.composed:
        numbers = significant(found.epsilon), significant(found.delta)
        table.add_row(found.theorem, found.holds_for, *numbers, found.source)
    each = significant(answer.epsilon)
    title = Text(f"{answer.queries:,} queries of ε {each} each", style="bold")
    return Group(title, indented(table, above=1))


def _title(mechanism: str, parameters: dict[str, float | int | str]) -> Text:
    asked = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return Text.assemble((mechanism, "bold"), (f"  {asked}", "dim"))


def _guarantee(answer: Calibration) -> str:
    if answer.epsilon is None or answer.delta is None:
        return "give --delta to convert ρ to ε"
    return f"ε {significant(answer.epsilon)} at δ {significant(answer.delta)}"


def _session(answer: Calibration) -> str:
    if answer.rho is None or answer.rho_delta is None:
        return "no cost in ρ is known"
    return f"ρ {significant(answer.rho)}, δ {significant(answer.rho_delta)} as one query under zCDP"


def _utility(bound: UtilityBound, parameters: dict[str, float | int | str]) -> list[str]:
    """Say how good the ranking is; h_(j) is the j-th largest true count."""
    k = int(parameters["k"])
    base = f"h_({int(parameters.get('k_bar', k)) + 1})"
    often = f"with probability {1 - bound.beta:.6g}"
    found = [f"{often} every returned group counts at least h_({k}) - {bound.shortfall:,.4g}"]
    if bound.gap is not None:
        found.append(f"{often} {k} come back if h_({k}) is at least {base} + {bound.gap:,.4g}")
    return found


def _figures(answer: Calibration) -> Table:
    titles = ("", "noise", "scale", "std", "threshold", "half appear at", "95% appear at")
    table = titled(*titles, right=range(2, len(titles)))
    for name, figures in (("drawn", answer.drawn), ("continuous", answer.continuous)):
        if figures is not None:
            table.add_row(name, *_row(figures))
    return table


def _row(figures: Figures) -> tuple[str, ...]:
    values = (figures.threshold, figures.appears_half, figures.appears_95)
    threshold, half, often = ("-" if value is None else significant(value) for value in values)
    if figures.tau is not None:
        threshold = f"1 + {significant(figures.tau)}"
    scale = f"{figures.parameter} {significant(figures.scale)}"
    return figures.distribution, scale, significant(figures.std), threshold, half, often


def _facts(facts: list[tuple[str, str]]) -> Padding:
    return indented(pairs(facts))
