"""``dpsql init``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.core.data_files import is_address, table_name_for
from dpsql.core.kept_files import refuse_kept
from dpsql.interfaces.cli import options
from dpsql.interfaces.new_files import new_file
from dpsql.policy.ledger_place import beside, without_password

if TYPE_CHECKING:
    from dpsql.engines.opening import DatabasePlace


def _many(name: str, metavar: str, explanation: str) -> options.Decorator:
    return click.option(name, multiple=True, metavar=metavar, help=explanation)


@click.command(
    epilog=options.examples(
        "dpsql init demo-data/demo.duckdb --output draft.yaml",
        "dpsql init demo-data/demo.duckdb -o flights.yaml --only flights \\\n"
        "  --unit flights.tailnum=aircraft --bounds flights.dep_delay=-60:300 \\\n"
        "  --domain flights.origin=EWR,JFK,LGA --account ana=3,1e-6",
        "dpsql init demo-data/demo.duckdb -o seen.yaml --look --no-ask",
    )
)
@click.argument("place", metavar="[DATABASE]", required=False, type=options.DatabasePath())
@options.optional_database
@click.option(
    "--output",
    "-o",
    "target",
    default="policies.yaml",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--dataset", help="The name the budget belongs to.  [default: the file's name]")
@_many("--unit", "TABLE.COLUMN=NAME", "The column says whose row it is, and NAME what one is.")
@_many("--row", "TABLE", "Each row is one person, and nobody has two.")
@_many("--link", "TABLE.COLUMN=TABLE.COLUMN", "Rows belong to whom the other table's row does.")
@_many("--public", "TABLE", "A table about nobody.")
@_many("--only", "TABLE", "Draft these tables and leave out the others.")
@_many("--bounds", "TABLE.COLUMN=LOW:HIGH", "What a number can be, from public knowledge.")
@_many("--domain", "TABLE.COLUMN=A,B,C", "Every value there can be, from public knowledge.")
@_many("--account", "NAME=EPSILON,DELTA", "An analyst, and what they may learn in all.")
@click.option("--epsilon", type=float, help="What a query costs unless it says otherwise, as ε.")
@click.option("--delta", type=float, help="The same, as δ.")
@click.option(
    "--look", "profile", is_flag=True, help="Read the data and show what it holds. Not private."
)
@click.option(
    "--ask/--no-ask", default=None, help="Ask what is not given.  [default: on a terminal]"
)
def init_command(
    place: DatabasePlace | None,
    database: DatabasePlace | None,
    target: Path,
    force: bool,
    dataset: str | None,
    epsilon: float | None,
    delta: float | None,
    profile: bool,
    ask: bool | None,
    **given: tuple[str, ...],
) -> None:
    """Draft a policies file from a database, by options and by answers to questions.

    DATABASE is a DuckDB, Parquet or CSV file, or a postgresql:// or sc:// URL. The names, types
    and constraints of its tables and columns are read, and no row unless --look is given.
    """
    from dpsql.engines.opening import is_server, place_name
    from dpsql.interfaces.cli import init_questions as drafting
    from dpsql.owner.draft import Draft
    from dpsql.owner.draft_text import checked
    from dpsql.policy.load import parse_policy

    database = place or database
    if database is None:
        raise click.UsageError("name a database: dpsql init DATABASE")
    ledger = None if is_address(database) else beside(database)
    refuse_kept(target, (database, ledger, options.settings_file()))
    asking = sys.stdin.isatty() if ask is None else ask
    with new_file(target, force) as write:
        named = place_name(database) if is_server(database) else table_name_for(database)
        bare = Draft(named, guesses=not asking)
        draft, schema, surveyed = drafting.with_schema(bare, database, asking)
        draft = draft if dataset is None else draft.with_dataset(dataset)
        draft = drafting.Given(**given).decided(draft, schema)
        schema = drafting.with_numbers(schema, draft)
        draft = draft.with_parameters(epsilon=epsilon, delta=delta)
        if profile:
            draft = drafting.profiled(draft, schema, database, asking)
        text = checked(schema, draft)
        if asking:
            questions = drafting.Questions(schema)
            text = checked(schema, questions.answered(draft, dataset is None, target))
        write(text.encode())
    if not schema:
        click.echo("The database has no tables, in no schema: is it the right file?", err=True)
    elif not parse_policy(text, str(target)).tables:
        click.echo(
            "No table is in it yet, so nobody can ask anything: say with --unit TABLE.COLUMN=NAME "
            "whose rows they are, or with --row TABLE that each is one person, or fill in what is "
            "marked DECIDE.",
            err=True,
        )
    to_do = "" if asking else " Read it through: it marks what to confirm and what to fill in."
    shown = without_password(str(database))
    survey = [] if surveyed else ["--survey"]
    command = shlex.join(["dpsql", "check", *survey, "--database", shown, "-p", str(target)])
    click.echo(f"Wrote {target}.{to_do}\nNext: {command}")
