"""``dpsql query`` and ``dpsql explain``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dpsql.core.formatting import json_text
from dpsql.core.kept_files import refuse_kept
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.asking import AskedSource, asks
from dpsql.interfaces.cli.printing import progress_bar, remark, show
from dpsql.interfaces.new_files import new_file

if TYPE_CHECKING:
    from dpsql.results.reading import ReadableAnswer

_BINARY: Final = ("arrow", "parquet")


@click.command(
    epilog=options.examples(
        "dpsql query -d demo-data/demo.duckdb -a ana \\\n"
        '  "SELECT month, COUNT(*) AS flights FROM flights GROUP BY month"',
        "dpsql query -d demo-data/demo.duckdb -a ana --epsilon 0.1 --dry-run \\\n"
        '  "SELECT carrier, AVG(dep_delay) AS delay FROM flights GROUP BY carrier"',
        "dpsql query -d demo-data/demo.duckdb -a ana -o films.csv -f csv --intervals \\\n"
        '  "SELECT title, COUNT(DISTINCT userId) AS users FROM movielens\n'
        '   GROUP BY title ORDER BY users DESC LIMIT 5"',
        'echo "SELECT COUNT(*) AS n FROM nafld2" | \\\n'
        "  dpsql query -d demo-data/demo.duckdb -a ana -f jsonl --verbose -",
    )
)
@click.argument("sql")
@asks
@options.privacy_parameters
@click.option("--fresh", is_flag=True, help="Draw and pay for new noise, even if asked before.")
@options.formats(*options.FORMATS)
@options.confidence
@click.option(
    "--intervals", is_flag=True, help="Add <column>_low and <column>_high of noisy columns."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write the answer to a new file. That this can be done is checked before paying.",
)
@click.option("--force", is_flag=True, help="Replace the --output file if it exists.")
@click.option("--dry-run", is_flag=True, help="Only show plan and price, as dpsql explain does.")
@click.option("--verbose", "-v", is_flag=True, help="Say on stderr how it was answered and paid.")
@options.quiet
def query_command(
    source: AskedSource,
    sql: str,
    fresh: bool,
    format_: str,
    confidence: float,
    intervals: bool,
    output: Path | None,
    force: bool,
    dry_run: bool,
    verbose: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Answer SQL under differential privacy. Use - to read it from standard input.

    Bad input is refused before anything is read or spent.
    """
    from dpsql.present.result_files import told_beside

    chosen = options.chosen(given)
    if dry_run:
        _explain(options.query_text(sql), source, format_, chosen)
        return
    with ExitStack() as stack:
        if output is not None:
            refuse_kept(output, source.files)
        write = _destination(stack, format_, output, force)
        text = options.query_text(sql)
        bar = stack.enter_context(ExitStack())
        tell = bar.enter_context(progress_bar(quiet))
        connection = stack.enter_context(source.connected(tell))
        result = connection.sql(text, fresh=fresh, **chosen)
        bar.close()
        _write_result(result, format_, confidence, intervals, write)
    for warning in told_beside(result, format_):
        remark(warning, quiet)
    if verbose and result.released and format_ != "table":
        remark(result.footer)
    if output is not None:
        remark(f"Wrote {output}.", quiet)


def _destination(
    stack: ExitStack, format_: str, target: Path | None, force: bool
) -> Callable[[bytes], None] | None:
    """Return the writer of the answer's file, or None; refuse a file that cannot be written."""
    if format_ in _BINARY:
        from dpsql.results.frames import require_package

        require_package("pyarrow", "arrow")
        if target is None and _is_terminal():
            raise click.UsageError(f"{format_} is not for a terminal: use --output FILE or a pipe")
    return None if target is None else stack.enter_context(new_file(target, force))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _write_result(
    result: ReadableAnswer,
    format_: str,
    confidence: float,
    intervals: bool,
    write: Callable[[bytes], None] | None,
) -> None:
    from dpsql import present as render
    from dpsql.present import result_files as output

    if format_ != "table":
        content = output.encoded(result, format_, confidence, intervals)
        _deliver(content, write) if write else click.echo(content, nl=False)
        return
    if intervals and result.released:
        columns = output.exported_columns(result, confidence)
        panel = render.wide_panel(result, [(column.name, column.values) for column in columns])
    else:
        panel = render.result_panel(result, confidence, max_rows=None)
    _deliver(f"{render.uncoloured(panel)}\n".encode(), write) if write else show(panel)


def _deliver(content: bytes, write: Callable[[bytes], None]) -> None:
    """Write a paid answer; if the disk has filled up since, add a hint to the error."""
    try:
        write(content)
    except InterfaceError as error:
        error.hint = (
            "The answer was paid for and is kept in the ledger unless its keys have no exact text: "
            "ask again with another --output, which costs nothing then."
        )
        raise


def _explain(
    text: str,
    source: AskedSource,
    format_: str,
    chosen: dict[str, Any],
    sql: bool = False,
) -> None:
    """Print the plan, as JSON where that was asked for; other formats have no place for it."""
    from dpsql import present as render
    from dpsql.dbapi.remote import RemotePrice
    from dpsql.present import result_files as output

    with source.connected(explains=True) as connection:
        explanation = connection.explain(text, **chosen)
    as_json = format_ in ("json", "jsonl")
    if isinstance(explanation, RemotePrice):
        told = asdict(explanation)
        click.echo(json_text(told, indent=2) if as_json else explanation.text)
    elif as_json:
        click.echo(output.explanation_json(explanation))
    else:
        shown = replace(explanation, shows_sql=sql)
        if _is_terminal():
            show(render.explanation_panel(shown))
        else:
            click.echo(render.explanation_text(shown))


@click.command(
    epilog=options.examples(
        "dpsql explain -d demo-data/demo.duckdb -a ana \\\n"
        '  "SELECT carrier, AVG(dep_delay) FROM flights GROUP BY carrier"',
        "dpsql explain -d demo-data/demo.duckdb -a ana --format json \\\n"
        "  --max-groups-contributed unlimited \\\n"
        '  "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10"',
    )
)
@click.argument("sql")
@asks
@options.formats("table", "json")
@click.option("--sql", "with_sql", is_flag=True, help="Show the statements that would run as well.")
@options.privacy_parameters
def explain_command(
    source: AskedSource,
    sql: str,
    format_: str,
    with_sql: bool,
    **given: Any,
) -> None:
    """Show how SQL would be answered and what it would cost. Costs nothing, reads no row."""
    text, chosen = options.query_text(sql), options.chosen(given)
    _explain(text, source, format_, chosen, with_sql)
