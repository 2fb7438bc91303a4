"""``dpsql mcp``: tools for a language model's client, on standard input and output."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, located


@click.command(
    epilog=options.examples(
        "dpsql mcp -d demo-data/demo.duckdb -a ana",
        "dpsql mcp -d clinic.duckdb -a ana --run-epsilon 0.5 --question-epsilon 0.1",
    )
)
@options.database
@options.policies
@options.ledger
@options.analyst
@options.session
@click.option(
    "--run-epsilon", type=float, help="The most this run may spend, of the account's own ε."
)
@click.option("--question-epsilon", type=float, help="The most one question may cost.")
@click.option(
    "--confirm-above", type=float, help="Above this ε the client must ask its person first."
)
def mcp_command(
    database: str | Path,
    policies: Path,
    ledger: str | None,
    analyst: str,
    session: str,
    run_epsilon: float | None,
    question_epsilon: float | None,
    confirm_above: float | None,
) -> None:
    """Serve a language model's client: tools that answer with aggregates, and never with rows.

    Speaks the Model Context Protocol on standard input and output. Each start is a run with an
    account of its own below the analyst's; --session names one to go on with.
    """
    from dpsql.agents.tools import Toolbox
    from dpsql.interfaces.mcp_stdio import serve_stdio
    from dpsql.policy.model import AgentPolicy
    from dpsql.service.opening import open_dataset

    place = located(ledger, policies, database)
    with ExitStack() as stack:
        dataset = stack.enter_context(open_dataset(database, policies, place))
        announce(dataset.ledger_created, place)
        limits = AgentPolicy(run_epsilon, question_epsilon, confirm_above)
        serve_stdio(Toolbox.of(dataset, analyst, session or _new_run(), limits))


def _new_run() -> str:
    """Name a run by its time, and so that no other has its name."""
    return f"agent {datetime.now(UTC):%Y-%m-%d %H.%M.%S} {secrets.token_hex(3)}"
