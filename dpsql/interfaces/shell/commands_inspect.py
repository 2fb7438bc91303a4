"""Commands that look at tables, plans, budgets and the last answer: none costs anything."""

from __future__ import annotations

from typing import Final

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.command import Invocation, ShellCommand
from dpsql.interfaces.shell.settings import Format
from dpsql.interfaces.shell.sketch import sketch_column
from dpsql.present.tables import facts, pairs


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
    """Show the source of the shell, and the account that pays."""
    rows = call.shell.source.facts()
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
    as_json = shell.settings.format is Format.JSON
    shell.screen.show(
        shell.run(lambda: shell.source.explained(text, as_json)), paged=shell.settings.pager
    )


def _budget(call: Invocation) -> None:
    shell = call.shell
    shell.screen.show(shell.source.budget(shell.settings.format is Format.JSON))


def _history(call: Invocation) -> None:
    shell = call.shell
    limit = int(call.argument) if call.argument.isdecimal() and len(call.argument) < 10 else 20
    shell.screen.show(shell.source.history(limit), paged=shell.settings.pager)


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
