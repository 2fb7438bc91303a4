"""``dpsql calibrate``."""

from __future__ import annotations

from typing import Any

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.printing import show
from dpsql.present.calibrate import answer_panel
from dpsql.privacy import calculator
from dpsql.privacy.calculator.registry import MECHANISMS
from dpsql.privacy.calculator.request import ANALYSES


def _calculable() -> str:
    """List the mechanisms of ``calibrate``, for its help."""
    width = max(len(mechanism.name) for mechanism in MECHANISMS)
    lines = [f"  {m.name:{width}}  {m.summary}" for m in MECHANISMS]
    lines += [
        f"  {'continual':{width}}  running counts over --steps refreshes, or the --k largest",
        f"  {'rho':{width}}  between rho and epsilon, at delta, either way",
        f"  {'composition':{width}}  the total epsilon of equal queries, by each theorem",
    ]
    return "\b\nMechanisms:\n" + "\n".join(lines)


_EXAMPLES = options.examples(
    "dpsql calibrate gshm --epsilon 0.35 --delta 1e-5 --k 51914 \\\n  --analysis exact",
    "dpsql calibrate gaussian_top_k --rho 0.01 --delta 1e-8 \\\n  --k 10 --k-bar 1000 --groups 3",
    "dpsql calibrate continual --epsilon 1 --delta 1e-6 --steps 365 --groups 10",
    "dpsql calibrate continual --epsilon 1 --delta 1e-6 --steps 365 --k 10",
    "dpsql calibrate rho --epsilon 1 --delta 1e-6",
    "dpsql calibrate composition --epsilon 0.1 --delta 1e-6 --queries 50 -f json",
)


@click.command(epilog=f"{_EXAMPLES}\n\n{_calculable()}")
@click.argument("mechanism")
@click.option("--epsilon", type=float, help="Calibrate one publication: its ε.")
@click.option("--delta", type=float, help="Its δ; with --rho that of the mechanism.")
@click.option("--rho", type=float, help="Calibrate one query of a session: its ρ (zCDP).")
@click.option(
    "--k",
    type=int,
    help="LIMIT of a top-k; groups in all for csh and elliptic-gaussian; as --groups for gshm.",
)
@click.option(
    "--max-groups-contributed",
    "--groups",
    "groups",
    type=int,
    help="Groups one unit may influence.",
)
@click.option("--k-bar", type=int, help="How many of the largest groups a top-k looks at.")
@click.option("--domain", type=int, help="How many groups are declared, of which --k are named.")
@click.option("--sensitivity", type=int, help="How far a unit may change one value.  [default: 1]")
@click.option("--queries", type=int, help="For composition: how many queries of --epsilon each.")
@click.option("--steps", type=int, help="For continual: how many refreshes the stream has.")
@click.option("--window", type=int, help="For continual: count the last so many steps only.")
@click.option("--analysis", type=click.Choice(ANALYSES), help="How δ is computed.")
@click.option("--noise", help="The noise, where MECHANISM names a family such as top-k.")
@options.formats("table", "json")
def calibrate_command(mechanism: str, format_: str, **given: Any) -> None:
    """Compute the noise and threshold of MECHANISM for a guarantee. Needs no data."""
    answer = calculator.calibrate(calculator.Request(mechanism, **given))
    if format_ == "json":
        click.echo(calculator.answer_json(answer))
    else:
        show(answer_panel(answer))
