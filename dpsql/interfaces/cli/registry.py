"""All commands by name: in groups on the help page, loaded when they are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import click

from dpsql.interfaces.cli import config, failures
from dpsql.policy.parameters import suggestion


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its name, its module, and a summary of a few words.

    One below another command is shown on the help page and found through that. ``pays`` tells that
    Ctrl-C can find one of its queries at work; the shell says itself what a query took.
    """

    name: str
    module: str
    summary: str
    below: bool = False
    pays: bool = False

    def load(self) -> click.Command:
        module = import_module(f"dpsql.interfaces.cli.{self.module}")
        command: click.Command = getattr(module, f"{self.name}_command")
        return command


SECTIONS: Final = {
    "Analysts": (
        CommandEntry("query", "query", "Answer SQL under differential privacy.", pays=True),
        CommandEntry("shell", "shell", "Ask at a prompt, or run a file of statements."),
        CommandEntry("explain", "query", "Show how SQL would be answered, and its price."),
        CommandEntry("tune", "tune", "Find the caps and bounds that suit a question.", pays=True),
        CommandEntry(
            "refresh", "refresh", "Publish the steps of views that have closed.", pays=True
        ),
        CommandEntry("mcp", "mcp", "Serve a language model's client with aggregates.", pays=True),
        CommandEntry("budget", "budget.group", "Show what an account has spent and has left."),
    ),
    "Data owners": (
        CommandEntry("init", "init", "Draft a policies file for a database."),
        CommandEntry("check", "check", "Compare the policies with the database."),
        CommandEntry(
            "budget owner", "budget.group", "Create accounts, limit and renew them.", below=True
        ),
        CommandEntry("serve", "serve", "Serve psql, drivers and dashboards.", pays=True),
        CommandEntry("user", "user", "Enrol people for a server, and give them tokens."),
        CommandEntry("audit", "audit", "Check that a server's audit log is whole."),
        CommandEntry("schema", "schema", "Print the policies' JSON schema, for editors."),
    ),
    "Other": (
        CommandEntry("calibrate", "calibrate", "Compute noise and thresholds. Needs no data."),
        CommandEntry("demo", "demo", "Show dpsql at work on three real data sets.", pays=True),
        CommandEntry("config", "config", "Show each setting and where it comes from."),
        CommandEntry("completion", "completion", "Print a script for completion in a shell."),
    ),
}


def entries() -> Iterator[CommandEntry]:
    """Yield all commands that are not below another one, in the order of the help page."""
    for section in SECTIONS.values():
        yield from (entry for entry in section if not entry.below)


def _pays(name: str | None) -> bool:
    return any(entry.pays for entry in entries() if entry.name == name)


class Commands(click.Group):
    """The group of all commands: loads them late, gives them settings, reports their failures."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in entries()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return next((entry.load() for entry in entries() if entry.name == cmd_name), None)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(entry.name) for section in SECTIONS.values() for entry in section)
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in section])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            codes = failures.EXIT_CODES.items()
            formatter.write_dl([(str(code), meaning) for code, meaning in codes])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = tuple(self.list_commands(ctx))
        if args[0] not in names and not ctx.resilient_parsing:
            ctx.fail(f"No such command: {args[0]}. {suggestion(args[0], names) or ''}".strip())
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            ctx.obj = config.read(ctx)
            ctx.default_map = {name: config.defaults(command, ctx.obj.values)}
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return failures.guarded(ctx, lambda: super(Commands, self).invoke(ctx), _pays)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in ("--config", "--profile"):
                raise
            told = f"{name} goes before the command: dpsql {name} …"
            raise click.UsageError(told, error.ctx) from None
