"""``dpsql query`` and ``dpsql explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpsql import output, render
from dpsql.cli import options
from dpsql.cli.printing import progress_bar, show
from dpsql.session import connect


@click.command()
@click.argument("sql")
@options.database
@options.policies
@options.ledger
@options.analyst
@options.formats("table", "csv", "json")
@options.parameters
@options.confidence
@click.option("--intervals", is_flag=True, help="Add <column>_low and <column>_high to CSV.")
def query(
    sql: str,
    database: Path,
    policies: Path,
    ledger: Path,
    analyst: str,
    format_: str,
    confidence: float,
    intervals: bool,
    **given: Any,
) -> None:
    """Answer SQL under differential privacy. Use - to read it from standard input."""
    text = options.query_text(sql)
    with (
        progress_bar() as progress,
        connect(database, policies, ledger, analyst, progress=progress) as connection,
    ):
        result = connection.sql(text, **options.chosen(given))
        if format_ == "json":
            click.echo(output.result_json(result, confidence))
        elif format_ == "csv":
            click.echo(output.result_csv(result, confidence if intervals else None), nl=False)
        else:
            show(render.result_panel(result, confidence, max_rows=None))


@click.command()
@click.argument("sql")
@options.database
@options.policies
@options.analyst
@options.formats("table", "json")
@options.parameters
def explain(
    sql: str, database: Path, policies: Path, analyst: str, format_: str, **given: Any
) -> None:
    """Show how SQL would be answered and what it would cost. Costs nothing, reads no row."""
    text = options.query_text(sql)
    with connect(database, policies, None, analyst) as connection:
        explanation = connection.explain(text, **options.chosen(given))
    if format_ == "json":
        click.echo(output.explanation_json(explanation))
    else:
        show(render.explanation_panel(explanation))
