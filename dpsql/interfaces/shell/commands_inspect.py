"""Commands that look at tables, plans, budgets and the last answer: none costs anything."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from dpsql import present as render
from dpsql.budget.question import read_record
from dpsql.core.formatting import percent, printable, significant
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.command import Invocation, ShellCommand
from dpsql.interfaces.shell.settings import Format
from dpsql.interfaces.shell.sketch import sketch_column
from dpsql.ledger import Entry
from dpsql.policy.ledger_place import is_url, without_password
from dpsql.present.budget_files import budget_json
from dpsql.present.result_files import explanation_json
from dpsql.present.tables import facts, pairs, titled
from dpsql.privacy.accounting.zcdp import Amount


def _describe(call: Invocation) -> None:
    shell = call.shell
    if not call.argument:
        _tables(call)
        return
    found = shell.source.connection.sql(f"DESCRIBE {call.argument}")
    shell.screen.show(facts(found), paged=shell.settings.pager)


def _tables(call: Invocation) -> None:
    call.shell.screen.show(facts(call.shell.source.connection.sql("SHOW TABLES")))


def _connected(call: Invocation) -> None:
    """Show the shell's database and the account that pays."""
    source = call.shell.source
    target = source.target
    payer = f"{target.analyst}/{target.session}" if target.session else target.analyst
    ledger = without_password(target.ledger) if is_url(target.ledger) else target.ledger
    rows = (
        ("database", target.shown_database),
        ("dataset", source.policy.dataset),
        ("account", payer),
        ("policies", str(target.policies)),
        ("ledger", ledger),
    )
    call.shell.screen.show(pairs([(name, printable(told)) for name, told in rows]))


def _views(call: Invocation) -> None:
    shell = call.shell
    found = shell.source.connection.sql("SHOW MATERIALIZED VIEWS")
    shell.screen.show(facts(found), paged=shell.settings.pager)


def _explain(call: Invocation) -> None:
    shell = call.shell
    text = call.argument or call.typed or shell.query
    if not text:
        raise InterfaceError(
            "there is no query to explain",
            code="nothing_to_explain",
            hint="Write \\explain SELECT …, or \\explain after a query.",
        )
    explanation = shell.run(lambda: shell.source.connection.explain(text))
    as_json = shell.settings.format is Format.JSON
    content = explanation_json(explanation) + "\n" if as_json else None
    shell.screen.show(content or render.explanation_panel(explanation), paged=shell.settings.pager)


def _budget(call: Invocation) -> None:
    report = call.shell.source.connection.budget()
    as_json = call.shell.settings.format is Format.JSON
    content = budget_json(report) + "\n" if as_json else None
    call.shell.screen.show(content or render.budget_panel(report))


def _history(call: Invocation) -> None:
    shell = call.shell
    limit = int(call.argument) if call.argument.isdecimal() and len(call.argument) < 10 else 20
    entries = shell.source.account.history(limit)
    if not entries:
        shell.screen.show(Text("Nothing was charged yet."))
        return
    most = shell.source.account.payer.limits[-1].limit
    table = titled("when", "paid", "budget", "asked", right=(2,))
    for entry in reversed(entries):
        table.add_row(*map(Text, _told(entry, most)))
    shell.screen.show(table, paged=shell.settings.pager)


def _told(entry: Entry, most: Amount) -> tuple[str, ...]:
    """Say a charge in words: when, how much, its share of the account's limit, what for."""
    asked = read_record(entry.plan)
    conversion = sum(block.conversion_delta for block in asked.blocks)
    statement = " ".join(asked.statement.split()) or asked.kind
    if entry.stream is not None:
        far = f"{entry.stream.published:,} of {entry.stream.steps:,} steps"
        statement = f"stream {entry.stream.name}, {far}: {statement}"
    counted, reserved = entry.charged or entry.reserved, _epsilon(entry.reserved, conversion)
    paid = _epsilon(counted, conversion)
    if entry.charged is None:
        paid += ", held"
    elif paid != reserved:
        paid += f" of {reserved[2:]}"
    share = percent(counted.loss.rho or counted.epsilon, most.loss.rho or most.epsilon)
    return _local(entry.created), paid, share, printable(statement, 200)


def _local(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def _epsilon(amount: Amount, conversion: float) -> str:
    """Write the epsilon of a single charge, or its rho where no delta is recorded."""
    loss = amount.loss
    if loss.rho and not conversion:
        return f"ρ {significant(loss.rho, 3)}"
    return f"ε {significant(loss.epsilon_at(conversion), 3)}"


def _plot(call: Invocation) -> None:
    shell = call.shell
    if shell.result is None:
        raise InterfaceError(
            "there is no answer to plot",
            code="nothing_to_plot",
            hint="Ask a query first; \\plot shows its last answer again, at no cost.",
        )
    width = shell.screen.width or 100
    drawn = sketch_column(shell.result, call.argument, shell.settings.confidence, width)
    shell.screen.show(drawn, paged=shell.settings.pager)


INQUIRIES: Final = (
    ShellCommand(
        ("d", "d+"),
        Argument.TABLE,
        "[TABLE]",
        "columns of a table or view, with the policy's declarations; without one, the tables",
        _describe,
        "Bounds and domains are what the policy declares, never what the data hold.",
    ),
    ShellCommand(("dt",), Argument.NOTHING, "", "the tables, and whom each protects", _tables),
    ShellCommand(
        ("l", "conninfo"),
        Argument.NOTHING,
        "",
        "the connection: database, dataset, account, ledger",
        _connected,
    ),
    ShellCommand(
        ("dm",),
        Argument.NOTHING,
        "",
        "the materialized views, and how far they are published",
        _views,
        "REFRESH MATERIALIZED VIEW name publishes the steps that have closed since.",
    ),
    ShellCommand(
        ("explain",),
        Argument.SQL,
        "[SELECT …]",
        "how a query would be answered and what it would cost, at no cost",
        _explain,
        "Without a query it explains the one that is being typed, when it stands on the line "
        "below, or else the last one. Nothing is read and nothing is spent.",
    ),
    ShellCommand(("budget",), Argument.NOTHING, "", "what is spent and what is left", _budget),
    ShellCommand(
        ("history",),
        Argument.NUMBER,
        "[N]",
        "the last charges (20): time, statement and cost",
        _history,
        "They come from the ledger, so those of other programs on the same account are among "
        "them. What a query reserved and did not pay comes after `of`; the reservation of one that "
        "runs, failed or was cancelled is held.",
    ),
    ShellCommand(
        ("plot",),
        Argument.COLUMN,
        "[COLUMN]",
        "the last answer as bars, with intervals and threshold; free",
        _plot,
        "Plots the first column with noise, or the one named. Bars are labelled with the columns "
        "that have none.",
    ),
)
