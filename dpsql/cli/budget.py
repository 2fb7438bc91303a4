"""``dpsql budget``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dpsql import output_budget, render
from dpsql.budget import budget_report
from dpsql.cli import options
from dpsql.cli.printing import show
from dpsql.ledger import Ledger
from dpsql.policy_file import load_policy


@click.command()
@options.policies
@options.ledger
@options.analyst
@options.formats("table", "json")
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
        click.echo(output_budget.budget_json(report))
    else:
        show(render.budget_panel(report))
