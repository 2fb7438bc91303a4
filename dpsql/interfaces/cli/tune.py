"""``dpsql tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, is_there, located
from dpsql.interfaces.cli.printing import progress_bar, show


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """Read whole numbers with commas between them; the policy checks their range."""
    if value is None:
        return None
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise click.BadParameter("give whole numbers, such as 1,3,10", ctx, param) from None


def _pairs(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[tuple[float, float]] | None:
    """Read pairs of bounds with commas between them."""
    if value is None:
        return None
    try:
        pairs = [part.split(":") for part in value.split(",")]
        return [(float(low), float(high)) for low, high in pairs]
    except ValueError:
        raise click.BadParameter("give bounds, such as 0:100,0:500", ctx, param) from None


@click.command(
    epilog=options.examples(
        "dpsql tune -d demo-data/demo.duckdb -a ana --dry-run \\\n"
        '  "SELECT dest, COUNT(DISTINCT tailnum) AS planes FROM flights GROUP BY dest"',
        "dpsql tune -d demo-data/demo.duckdb -a ana --try-groups 1,5,20 --size 500 \\\n"
        '  "SELECT dest, COUNT(*) AS flights FROM flights GROUP BY dest"',
        "dpsql tune -d demo-data/demo.duckdb -a ana --try-bounds 0:60,0:240 \\\n"
        '  --max-groups-contributed 3 "SELECT SUM(dep_delay) AS late FROM flights"',
    )
)
@click.argument("sql")
@options.of_a_question
@click.option(
    "--try-groups",
    metavar="N,N,…",
    callback=_numbers,
    help="Values of max_groups_contributed to try.  [default: usual ones]",
)
@click.option(
    "--try-rows",
    metavar="N,N,…",
    callback=_numbers,
    help="Values of max_rows_contributed to try, each with each of the others.",
)
@click.option(
    "--try-bounds",
    metavar="A:B,…",
    callback=_pairs,
    help="Bounds to try for the values of the question's sum.",
)
@click.option("--size", type=float, help="The size of the groups that matter to you.")
@click.option(
    "--share",
    type=float,
    default=0.1,
    show_default=True,
    help="Part of the question's price that trying costs, at most.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the noise of each and the price; costs nothing."
)
@options.formats("table", "json")
@options.quiet
def tune_command(
    sql: str,
    database: str | Path,
    policies: Path,
    ledger: str | None,
    analyst: str,
    session: str,
    try_groups: list[int] | None,
    try_rows: list[int] | None,
    try_bounds: list[tuple[float, float]] | None,
    size: float | None,
    share: float,
    dry_run: bool,
    format_: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Try caps and bounds for SQL: compare the left-out share and the noise of each.

    What they leave out is learned from private rows, for a part of the question's price. Tried
    again, it costs nothing.
    """
    from dpsql import present as render
    from dpsql.dbapi.connection import connect
    from dpsql.present import result_files as output

    text = options.query_text(sql)
    place = located(ledger, policies, database)
    kept = None if dry_run and not is_there(place) else place
    with (
        progress_bar(quiet) as tell,
        connect(database, policies, kept, analyst, session=session, progress=tell) as connection,
    ):
        announce(connection.ledger_created, place)
        tuning = connection.tune(
            text,
            groups=try_groups,
            rows=try_rows,
            bounds=try_bounds,
            size=size,
            share=share,
            dry_run=dry_run,
            **options.chosen(given),
        )
    if format_ == "json":
        click.echo(output.tuning_json(tuning))
    else:
        show(render.tuning_panel(tuning))
