"""``dpsql budget show``, ``estimate`` and ``history``: where accounts stand and what they asked.

``show`` and ``estimate`` tell an analyst what that analyst may see; ``show --all`` and ``history``
are for whoever owns the ledger.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget import at_server
from dpsql.interfaces.cli.budget.ledgers import any_ledger, existing, located
from dpsql.interfaces.cli.printing import remark
from dpsql.interfaces.cli.printing import show as print_for_people
from dpsql.interfaces.cli.servers import asked_server

if TYPE_CHECKING:
    from dpsql.budget import BudgetReport
    from dpsql.policy.model import Policy


@click.command(
    short_help="Show where an account stands; so does the budget without a command.",
    epilog=options.examples(
        "dpsql budget show -d demo-data/demo.duckdb -a ana --compare",
        "dpsql budget -d demo-data/demo.duckdb --all",
        "dpsql budget -d https://dpsql.example.org:8439 --token-file token",
    ),
)
@options.place_of_ledger
@options.optional_analyst
@options.session
@options.token
@options.formats("table", "json")
@click.option("--all", "everybody", is_flag=True, help="All accounts of the ledger.")
@click.option("--compare", is_flag=True, help="Add what other theorems would say of all queries.")
def show_command(
    database: str | Path | None,
    policies: Path,
    ledger: str | None,
    analyst: str | None,
    session: str,
    token_file: Path | None,
    ca_file: Path | None,
    format_: str,
    everybody: bool,
    compare: bool,
) -> None:
    """Show what an analyst has spent and has left; with --all, every account of the ledger.

    An analyst is shown the accounts that nobody else pays from: what others were charged in the end
    depends on what they were answered. With --all, the data owner sees everything. A server tells
    where the token's account stands.
    """
    server = asked_server(database, analyst, token_file, ca_file)
    if server is not None:
        at_server.show_budget(server, format_)
        return
    if everybody:
        _show_all(policies, located(ledger, policies, database), format_)
        return
    from dpsql.budget import budget_report

    policy, name = _policy(policies), _required(analyst)
    place = located(ledger, policies, database)
    with any_ledger(place) as opened:
        if opened is None:
            policy.account(name)
            remark(f"There is no ledger {place} yet: the first query creates it.")
        report = budget_report(policy, name, opened, session, compare=compare)
    if compare and not report.analyses:
        remark("There is nothing to compare, or more than can be: over 10,000 queries.")
    _print(report, format_)


def _show_all(policies: Path, ledger: str, format_: str) -> None:
    from dpsql.budget import account_reports
    from dpsql.present import budget as pages
    from dpsql.present.budget_files import account_dict, to_json

    policy = _policy(policies) if policies.exists() else None
    with existing(ledger) as opened:
        accounts = account_reports(opened, policy)
    if format_ == "json":
        click.echo(to_json({"accounts": [account_dict(each) for each in accounts]}))
    else:
        print_for_people(pages.accounts_table(accounts))


@click.command(
    epilog=options.examples(
        "dpsql budget estimate -d demo-data/demo.duckdb -a ana \\\n"
        '  "SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier"'
    )
)
@click.argument("sql")
@options.of_a_source
@options.privacy_parameters
@options.formats("table", "json")
def estimate_command(
    sql: str,
    database: str | Path,
    policies: Path,
    ledger: str | None,
    analyst: str | None,
    session: str,
    token_file: Path | None,
    ca_file: Path | None,
    format_: str,
    **given: Any,
) -> None:
    """Say how often a question could still be asked. Reads no row and costs nothing."""
    from dpsql.budget import budget_report
    from dpsql.budget.forecasts import question_of
    from dpsql.dbapi.connection import connect

    text, server = options.query_text(sql), asked_server(database, analyst, token_file, ca_file)
    if server is not None:
        at_server.show_estimate(server, text, options.chosen(given), format_)
        return
    analyst, policy = _required(analyst), _policy(policies)
    with any_ledger(located(ledger, policies, database)) as opened:
        with connect(database, policy, opened, analyst, session=session) as connection:
            plan = connection.explain(text, **options.chosen(given))
        asking = [question_of(plan)] if plan.blocks else []
        report = budget_report(policy, analyst, opened, session, asking=asking)
    if format_ == "json":
        from dpsql.present.budget_files import budget_json

        click.echo(budget_json(report))
    elif asking:
        from dpsql.present.budget import estimate_panel

        if plan.answered is not None:
            day = plan.answered[:10]
            click.echo(f"It was answered on {day}: asked again it costs nothing. Asked afresh:")
        elif plan.anew:
            click.echo(f"It is asked anew, as {plan.anew}:")
        elif plan.follows is not None:
            what = "A roll-up answers it: with answer_from = released it costs nothing"
            click.echo(f"{what}. From the rows:")
        print_for_people(estimate_panel(report))
    else:
        click.echo("This question reads no private rows: it costs nothing, however often.")


@click.command(
    epilog=options.examples(
        "dpsql budget history -d demo-data/demo.duckdb -a ana",
        "dpsql budget history -d demo-data/demo.duckdb --all --limit 100 --before 4711",
        "dpsql budget history -d demo-data/demo.duckdb --account dpsql-demo/ana/notebook -f csv",
    )
)
@options.place_of_ledger
@options.optional_analyst
@options.token
@options.formats("table", "json", "csv")
@click.option("--account", help="An account by its path; those below it are told as well.")
@click.option("--all", "everybody", is_flag=True, help="The questions of all accounts.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many."
)
@click.option("--before", type=click.IntRange(1), help="Only those before this entry.")
def history_command(
    database: str | Path | None,
    policies: Path,
    ledger: str | None,
    analyst: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    format_: str,
    account: str | None,
    everybody: bool,
    limit: int,
    before: int | None,
) -> None:
    """List questions with author, time and cost, newest first.

    Of the analyst's account, of the one that --account names, or of all. The table also tells when
    accounts were suspended, reopened and renamed. Numbers are those of the ledger's events, of
    which all accounts have some: this is for its owner. A server tells the token's account what it
    has paid for.
    """
    server = asked_server(database, account or analyst, token_file, ca_file)
    if server is not None:
        at_server.show_history(server, limit, format_)
        return
    from dpsql.budget import latest_entries, payer
    from dpsql.present import budget_files as output_budget
    from dpsql.present.ledger import history_panel
    from dpsql.privacy.accounting.zcdp import MAX_LEDGER_UNITS

    path = account
    if path is None and analyst and not everybody:
        path = payer(_policy(policies), analyst).path
    with existing(located(ledger, policies, database)) as opened:
        whose = None if everybody else path
        entries = latest_entries(opened, whose, limit, before)
        since = entries[-1].entry if len(entries) == limit else 0
        told = range(since + 1, before or MAX_LEDGER_UNITS)
        events = [e for e in opened.suspensions(whose) if e.seq in told]
        renames = [r for r in opened.renames() if r.event in told and whose in (None, r.name)]
    if format_ == "json":
        click.echo(output_budget.to_json([output_budget.entry_dict(each) for each in entries]))
    elif format_ == "csv":
        rows = map(output_budget.entry_row, entries)
        click.echo(output_budget.to_csv(output_budget.ENTRY_COLUMNS, rows), nl=False)
    elif entries or events or renames:
        print_for_people(history_panel(entries, events, renames))
    else:
        click.echo("No questions.")


def _print(report: BudgetReport, format_: str) -> None:
    if format_ == "json":
        from dpsql.present.budget_files import budget_json

        click.echo(budget_json(report))
    else:
        from dpsql.present.budget import budget_panel

        print_for_people(budget_panel(report))


def _policy(policies: Path) -> Policy:
    from dpsql.policy.load import load_policy

    return load_policy(policies)


def _required(analyst: str | None) -> str:
    if not analyst:
        raise click.UsageError("Missing option '--analyst' / '-a'; or ask for --all accounts.")
    return analyst
