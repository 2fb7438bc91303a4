"""``dpsql check`` and ``dpsql init``: what a data owner does before anybody asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli import options
from dpsql.cli.failures import FAILED
from dpsql.cli.files import new_file
from dpsql.cli.printing import show

if TYPE_CHECKING:
    from rich.table import Table

    from dpsql.scaffold import Finding


@click.command(
    epilog=options.examples(
        "dpsql check -d demo-data/demo.duckdb",
        "dpsql check -d demo-data/demo.duckdb -p policies.yaml",
    )
)
@options.database
@options.policies
@click.pass_context
def check(ctx: click.Context, database: Path, policies: Path) -> None:
    """Compare the policies with the database. Exits with 2 if something does not fit."""
    from dpsql.engines.duckdb import open_database
    from dpsql.policy_file import load_policy
    from dpsql.scaffold import check_policy

    policy = load_policy(policies)
    engine = open_database(database)
    try:
        findings = check_policy(policy, engine.schema())
    finally:
        engine.close()
    if findings:
        show(_findings_table(findings))
    else:
        click.echo("The policies fit the database.")
    if any(finding.level == "error" for finding in findings):
        ctx.exit(FAILED)


def _findings_table(findings: list[Finding]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from dpsql.figures import printable

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title in ("", "where", "finding", "what to do"):
        table.add_column(title, overflow="fold")
    for finding in findings:
        colour = "bold red" if finding.level == "error" else "yellow"
        table.add_row(
            Text(finding.level, style=colour),
            *(Text(printable(t)) for t in (finding.subject, finding.message, finding.hint)),
        )
    return table


@click.command(epilog=options.examples("dpsql init demo-data/demo.duckdb --output draft.yaml"))
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    "target",
    default="policies.yaml",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The file to write.",
)
@click.option("--dataset", help="The name the budget belongs to.  [default: the file's name]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(database: Path, target: Path, dataset: str | None, force: bool) -> None:
    """Draft a policies file from a database's tables and columns. Reads no row."""
    from dpsql.engines.duckdb import open_database
    from dpsql.scaffold import draft_policy

    with new_file(target, force) as write:
        engine = open_database(database)
        try:
            text = draft_policy(engine.schema(), dataset or database.stem)
        finally:
            engine.close()
        write(text.encode())
    click.echo(
        f"Wrote {target}. Read it through: it marks what to confirm and what to fill in.\n"
        f"Then: dpsql check --database {database} --policies {target}"
    )
