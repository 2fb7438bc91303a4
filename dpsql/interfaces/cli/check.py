"""``dpsql check``."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.failures import FAILED
from dpsql.interfaces.cli.printing import show
from dpsql.interfaces.cli.surveying import survey_if_wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from dpsql.core.schema import Schema
    from dpsql.engines.opening import DatabasePlace
    from dpsql.owner.conformance import Finding
    from dpsql.policy.model import Policy


@click.command(
    epilog=options.examples(
        "dpsql check -d demo-data/demo.duckdb",
        "dpsql check -d demo-data/demo.duckdb -p policies.yaml -f json",
    )
)
@options.database
@options.policies
@click.option(
    "--survey",
    is_flag=True,
    help="First find out what functions of the engine compute, and which of them can fail on "
    "data, if dpsql was not made with this version. Takes some minutes and reads no data.",
)
@options.formats("table", "json")
@click.pass_context
def check_command(
    ctx: click.Context, /, database: DatabasePlace, policies: Path, survey: bool, format_: str
) -> None:
    """Compare the policies with the database. Exits with 2 if something does not fit.

    Names and types are compared, and shown as every analyst sees them. Rows are read where the
    policies say how many of them a unit has, or that it has one value in a column, unless a key
    proves it, and in the columns that links lead to, which have to be unique. Warnings ask the
    owner to look; errors make some query impossible or wrong.
    """
    from dpsql.engines.opening import open_engine, place_name
    from dpsql.owner.conformance import (
        agent_words,
        check_links,
        check_policy,
        misfit,
        no_tables,
        tables_of_one_row,
        unique_by_keys,
        unreadable_files,
    )
    from dpsql.owner.promises import broken_promises, promise_words, repeats
    from dpsql.policy.ledger_place import is_url, usual_place, without_password
    from dpsql.policy.load import load_policy

    with closing(open_engine(database)) as found:
        survey_if_wanted(found, survey, ask=sys.stdin.isatty())
        policy = load_policy(policies)
        found.declare(policy.declared)
        tables, constraints = found.catalog().tables, found.constraints()
        findings = check_policy(policy, tables, found.definition, constraints)
        proved = tables_of_one_row(policy, tables, constraints)
        unique = unique_by_keys(policy, tables, constraints)
        if not any(finding.level == "error" for finding in findings):
            unreadable = found.prove(policy.tables)
            findings += [unreadable_files(tables[key].name) for key in unreadable]
            listed = [tables[key].name for key in policy.tables]
            findings += [misfit(name, each) for name in listed for each in found.misfits(name)]
        if not any(finding.level == "error" for finding in findings):
            engine = found.open(policy.tables, policy.limits.memory)
            findings += broken_promises(policy, engine, proved, unique)
            findings += check_links(policy, engine.schema, partial(repeats, policy, engine))
        if not tables:
            findings.append(no_tables(place_name(database)))
    place = usual_place(policy, database)
    findings += _ledger_findings(policy, place)
    if format_ == "json":
        click.echo(json.dumps([asdict(f) for f in findings], indent=2, ensure_ascii=False))
    elif findings:
        show(_findings_table(findings))
    else:
        click.echo("The policies fit the database.")
    if format_ != "json":
        said = (*promise_words(policy, proved, unique), *agent_words(policy))
        for line in (*said, *_seen_by_analysts(policy, tables)):
            click.echo(line)
    shown = without_password(place) if is_url(place) else place
    click.echo(f"What is spent is kept in {shown}, unless --ledger says otherwise.", err=True)
    if any(finding.level == "error" for finding in findings):
        ctx.exit(FAILED)


def _seen_by_analysts(policy: Policy, tables: Schema) -> Iterator[str]:
    """Write the names and types that are shown to everybody who may ask something."""
    from dpsql.core.formatting import printable

    found = [table for key in policy.tables if (table := tables.get(key)) is not None]
    if found:
        yield "Every analyst sees these names and types:"
    for table in found:
        columns = ", ".join(f"{printable(c.name)} {printable(str(c.type))}" for c in table.columns)
        yield f"  {printable(str(table.name))}: {columns or 'cannot be read'}"


def _ledger_findings(policy: Policy, place: str) -> list[Finding]:
    """Compare the policy with its ledger, if there is one and it can be reached from here."""
    from dpsql.errors import LedgerError
    from dpsql.interfaces.cli.budget.ledgers import any_ledger
    from dpsql.owner.conformance import check_ledger, check_names

    try:
        with any_ledger(place) as ledger:
            return check_names(policy, ()) if ledger is None else check_ledger(policy, ledger)
    except LedgerError as error:
        click.echo(f"The ledger was not looked at: {error.reason}.", err=True)
        return check_names(policy, ())


def _findings_table(findings: list[Finding]) -> Table:
    from rich.text import Text

    from dpsql.core.formatting import printable
    from dpsql.present.tables import titled

    table = titled("", "where", "finding", "what to do")
    for finding in findings:
        colour = "bold red" if finding.level == "error" else "yellow"
        table.add_row(
            Text(finding.level, style=colour),
            *(Text(printable(t)) for t in (finding.subject, finding.message, finding.hint)),
        )
    return table
