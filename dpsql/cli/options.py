"""Options that several commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpsql.errors import SQLSyntaxError
from dpsql.policy import PARAMETER_NAMES


def _groups(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """A whole number or the word ``unlimited``; the policy checks the range."""
    if value is None or value.lower() == "unlimited":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter("give a whole number, or: unlimited", ctx, param) from None


def _checked_confidence(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and 0 < value < 1):
        raise click.BadParameter("it must lie between 0 and 1, such as 0.95", ctx, param)
    return value


Command = Callable[..., Any]

confidence = click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    callback=_checked_confidence,
    help="Confidence of the intervals.",
)
database = click.option(
    "--database",
    "-d",
    required=True,
    envvar="DPSQL_DATABASE",
    type=click.Path(path_type=Path),
    help="A DuckDB, Parquet or CSV file. Never written to.",
)
policies = click.option(
    "--policies",
    "-p",
    default="policies.yaml",
    show_default=True,
    envvar="DPSQL_POLICIES",
    type=click.Path(path_type=Path),
    help="The data owner's policies file.",
)
ledger = click.option(
    "--ledger",
    "-l",
    default="budget.db",
    show_default=True,
    envvar="DPSQL_LEDGER",
    type=click.Path(path_type=Path),
    help="The file that keeps what has been spent.",
)
analyst = click.option(
    "--analyst",
    "-a",
    required=True,
    envvar="DPSQL_ANALYST",
    help="Whose account pays: a name under `accounts` in the policies file.",
)


def parameters(command: Command) -> Command:
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


def formats(*names: str) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        "format_",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="How to print the answer.",
    )


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """The privacy parameters that were given; the policy decides the others."""
    names = (*PARAMETER_NAMES, "mechanism")
    return {name: options[name] for name in names if options.get(name) is not None}


def query_text(sql: str) -> str:
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
