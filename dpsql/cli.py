"""The ``dpsql`` command: a thin layer over :mod:`dpsql.session` that prints and sets exit codes.

Exit codes: 0 for success, 2 for anything the user can mend (nothing was spent, unless the message
says otherwise), 70 for a fault in dpsql itself, 130 after Ctrl-C.
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import dpsql
from dpsql import calibrate as calculator
from dpsql import output, render, render_calibrate
from dpsql.budget import budget_report
from dpsql.calibrate.registry import MECHANISMS
from dpsql.calibrate.request import ANALYSES
from dpsql.engines.duckdb import open_database
from dpsql.errors import Error, InterfaceError, SQLSyntaxError
from dpsql.figures import printable
from dpsql.ledger import Ledger
from dpsql.policy import PARAMETER_NAMES
from dpsql.policy_file import load_policy
from dpsql.release import Percent
from dpsql.scaffold import Finding, check_policy, draft_policy
from dpsql.session import connect

FAILED, INTERNAL, INTERRUPTED = 2, 70, 130


def main() -> NoReturn:
    """The ``dpsql`` command's entry point."""
    for stream in (sys.stdout, sys.stderr):
        # A key of the data must not break a terminal that cannot write it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="dpsql")
    sys.exit(0)


class _Commands(click.Group):
    """A command group that turns every failure into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            show_error(error)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            click.echo(
                "\nInterrupted. If the query had begun to read, what it reserved stays spent: "
                "see `dpsql budget`.",
                err=True,
            )
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 (the last resort before the terminal)
            # The message of an unforeseen error may quote rows; places in the code cannot.
            frames = traceback.extract_tb(error.__traceback__)[-5:]
            places = [f"  {Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames]
            click.echo(
                f"internal error: {type(error).__name__}. Its text is withheld because it may\n"
                "quote data. If the query had begun to read, what it reserved stays spent.\n"
                "To report it, say what you did and where it happened:\n" + "\n".join(places),
                err=True,
            )
            ctx.exit(INTERNAL)


def show_error(error: Error) -> None:
    """Print an error to stderr."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(render.error_panel(error))


@contextmanager
def _progress_bar() -> Iterator[Percent]:
    """A bar on a terminal's stderr while a set union reads: percent and time, no number of rows.

    Such numbers are private. How fast the bar fills is not protected, as timing never is.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("Reading private rows"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=100)

    def tell(percent: int) -> None:
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=percent)

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()


# -- options ----------------------------------------------------------------------------------


def _groups(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """A whole number or the word ``unlimited``; the policy checks the range."""
    if value is None or value.lower() == "unlimited":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter("give a whole number, or: unlimited", ctx, param) from None


def _confidence(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and 0 < value < 1):
        raise click.BadParameter("it must lie between 0 and 1, such as 0.95", ctx, param)
    return value


Command = Callable[..., Any]

_database = click.option(
    "--database",
    "-d",
    required=True,
    envvar="DPSQL_DATABASE",
    type=click.Path(path_type=Path),
    help="A DuckDB, Parquet or CSV file. Never written to.",
)
_policies = click.option(
    "--policies",
    "-p",
    default="policies.yaml",
    show_default=True,
    envvar="DPSQL_POLICIES",
    type=click.Path(path_type=Path),
    help="The data owner's policies file.",
)
_ledger = click.option(
    "--ledger",
    "-l",
    default="budget.db",
    show_default=True,
    envvar="DPSQL_LEDGER",
    type=click.Path(path_type=Path),
    help="The file that keeps what has been spent.",
)
_analyst = click.option(
    "--analyst",
    "-a",
    required=True,
    envvar="DPSQL_ANALYST",
    help="Whose account pays: a name under `accounts` in the policies file.",
)


def _parameters(command: Command) -> Command:
    """The privacy parameters of one query."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--epsilon", type=float, help="What the query may cost, as ε."),
        click.option("--delta", type=float, help="What the query may cost, as δ."),
        click.option(
            "--max-groups-contributed",
            callback=_groups,
            metavar="N|unlimited",
            help="Groups one unit may influence.",
        ),
        click.option(
            "--max-rows-contributed", type=int, help="Rows one unit may add to one group."
        ),
        click.option("--k-bar", type=int, help="How many of the largest groups a top-k looks at."),
        click.option(
            "--min-units-per-group", type=int, help="Never release a group of fewer units."
        ),
        click.option(
            "--contribution-bounding",
            metavar="sample|weight",
            help="Of a unit with too many groups, keep some in full or more at less weight.",
        ),
        click.option("--mechanism", help="Force a mechanism by name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _formats(*names: str) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        "format_",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="How to print the answer.",
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The privacy parameters that were given; the policy decides the others."""
    names = (*PARAMETER_NAMES, "mechanism")
    return {name: options[name] for name in names if options.get(name) is not None}


def _query_text(sql: str) -> str:
    """The query itself, or standard input where it is ``-``."""
    try:
        if sql == "-":
            sql = sys.stdin.buffer.read().decode("utf-8-sig")
        sql.encode("utf-8")
    except UnicodeError:
        raise SQLSyntaxError(
            "the query is not UTF-8 text", code="syntax_error", hint="Save it as UTF-8."
        ) from None
    return sql


def _show(renderable: Any) -> None:
    """Print for people: coloured on a terminal, plain and never cut when piped."""
    if sys.stdout.isatty():
        Console(highlight=False).print(renderable)
    else:
        click.echo(render.plain(renderable))


# -- commands ---------------------------------------------------------------------------------


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dpsql.__version__, prog_name="dpsql")
def cli() -> None:
    """Differentially private SQL: ask, see the price, and stay within a budget."""


@cli.command()
@click.argument("sql")
@_database
@_policies
@_ledger
@_analyst
@_formats("table", "csv", "json")
@_parameters
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    callback=_confidence,
    help="Confidence of the intervals.",
)
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
    **options: Any,
) -> None:
    """Answer SQL under differential privacy. Use - to read it from standard input."""
    text = _query_text(sql)
    with (
        _progress_bar() as progress,
        connect(database, policies, ledger, analyst, progress=progress) as connection,
    ):
        result = connection.sql(text, **_given(options))
        if format_ == "json":
            click.echo(output.result_json(result, confidence))
        elif format_ == "csv":
            click.echo(output.result_csv(result, confidence if intervals else None), nl=False)
        else:
            _show(render.result_panel(result, confidence, max_rows=None))


@cli.command()
@click.argument("sql")
@_database
@_policies
@_analyst
@_formats("table", "json")
@_parameters
def explain(
    sql: str, database: Path, policies: Path, analyst: str, format_: str, **options: Any
) -> None:
    """Show how SQL would be answered and what it would cost. Costs nothing, reads no row."""
    text = _query_text(sql)
    with connect(database, policies, None, analyst) as connection:
        explanation = connection.explain(text, **_given(options))
    if format_ == "json":
        click.echo(output.explanation_json(explanation))
    else:
        _show(render.explanation_panel(explanation))


@cli.command()
@_policies
@_ledger
@_analyst
@_formats("table", "json")
def budget(policies: Path, ledger: Path, analyst: str, format_: str) -> None:
    """Show what an analyst's account has spent and has left."""
    policy = load_policy(policies)
    policy.account(analyst)
    if os.path.lexists(ledger):
        with Ledger.open(ledger) as opened:
            report = budget_report(policy, analyst, opened)
    else:
        report = budget_report(policy, analyst, None)
        click.echo(f"There is no ledger {ledger} yet: the first query creates it.", err=True)
    if format_ == "json":
        click.echo(output.budget_json(report))
    else:
        _show(render.budget_panel(report))


@cli.command()
@_database
@_policies
@click.pass_context
def check(ctx: click.Context, database: Path, policies: Path) -> None:
    """Compare the policies with the database. Exits with 2 if something does not fit."""
    policy = load_policy(policies)
    engine = open_database(database)
    try:
        findings = check_policy(policy, engine.schema())
    finally:
        engine.close()
    _show(_findings_table(findings) if findings else Text("The policies fit the database."))
    if any(finding.level == "error" for finding in findings):
        ctx.exit(FAILED)


def _findings_table(findings: list[Finding]) -> Table:
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


@cli.command()
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
    engine = open_database(database)
    try:
        text = draft_policy(engine.schema(), dataset or database.stem)
    finally:
        engine.close()
    _write(target, text, force)
    click.echo(
        f"Wrote {target}. Read it through: it marks what to confirm and what to fill in.\n"
        f"Then: dpsql check --database {database} --policies {target}"
    )


def _write(target: Path, text: str, force: bool) -> None:
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InterfaceError(
            f"{target} exists already",
            code="file_exists",
            hint="Choose another --output, or replace it with --force.",
        ) from None
    except OSError as error:
        raise InterfaceError(
            f"{target} cannot be written: {error.strerror}", code="file_not_writable"
        ) from None


def _calculable() -> str:
    """What ``calibrate`` knows, for its help."""
    width = max(len(mechanism.name) for mechanism in MECHANISMS)
    lines = [f"  {m.name:{width}}  {m.summary}" for m in MECHANISMS]
    lines += [
        f"  {'rho':{width}}  between rho and epsilon, at delta, either way",
        f"  {'composition':{width}}  the total epsilon of equal queries, by each theorem",
    ]
    return "\b\nMechanisms:\n" + "\n".join(lines)


@cli.command(epilog=_calculable())
@click.argument("mechanism")
@click.option("--epsilon", type=float, help="Calibrate one publication: its ε.")
@click.option("--delta", type=float, help="Its δ; with --rho that of the mechanism.")
@click.option("--rho", type=float, help="Calibrate one query of a session: its ρ (zCDP).")
@click.option(
    "--k", type=int, help="LIMIT of a top-k; groups in all for csh; as --groups for gshm."
)
@click.option(
    "--max-groups-contributed",
    "--groups",
    "groups",
    type=int,
    help="Groups one unit may influence.",
)
@click.option("--k-bar", type=int, help="How many of the largest groups a top-k looks at.")
@click.option("--sensitivity", type=int, help="How far a unit may change one value.  [default: 1]")
@click.option("--queries", type=int, help="For composition: how many queries of --epsilon each.")
@click.option("--analysis", type=click.Choice(ANALYSES), help="How δ is computed.")
@click.option("--noise", help="The noise, where MECHANISM names a family such as top-k.")
@_formats("table", "json")
def calibrate(mechanism: str, format_: str, **options: Any) -> None:
    """Compute the noise and threshold of MECHANISM for a guarantee. Needs no data."""
    answer = calculator.calibrate(calculator.Request(mechanism, **options))
    if format_ == "json":
        click.echo(calculator.answer_json(answer))
    else:
        _show(render_calibrate.answer_panel(answer))


@cli.command()
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
def demo(directory: Path, policies: Path | None) -> None:
    """Show dpsql at work on three real data sets: flights, film ratings and laboratory values."""
    from dpsql.demo import run

    run(directory, policies)
