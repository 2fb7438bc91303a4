"""``dpsql demo``."""

from __future__ import annotations

from pathlib import Path

import click

from dpsql.interfaces.cli.options import examples


@click.command(epilog=examples("dpsql demo", "dpsql demo --policies policies.yaml"))
@click.option(
    "--directory",
    default="demo-data",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the demo keeps its database and ledger.",
)
@click.option(
    "--policies",
    "-p",
    type=click.Path(path_type=Path),
    help="Another policies file for the demo's tables.",
)
def demo_command(directory: Path, policies: Path | None) -> None:
    """Show dpsql at work on three real data sets: flights, film ratings and laboratory values."""
    from dpsql.interfaces.demo.tour import run

    run(directory, policies)
