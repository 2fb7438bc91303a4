"""``dpsql user``: the people whom a server lets in, and their tokens."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.printing import remark, show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpsql.server.people.records import Role

_ROLES: Final = ("analyst", "owner", "auditor")
_SCOPES: Final = ("explain", "ask", "views", "agent")
_DAYS: Final = 90
_MOST_DAYS: Final = 3650
_TIMES: Final = frozenset({"created", "changed", "expires", "last_used"})
"""Shown by their days."""

_NAME = click.argument("name")
_PASSWORD_FILE = click.option(
    "--password-file",
    metavar="PATH|-",
    help="Read the password from a file, or from standard input, instead of asking for it.",
)


@click.group(
    epilog=options.examples(
        "dpsql user add ana --account ana",
        "dpsql user add olga --role owner --password-file olga.txt",
        "dpsql user token ana notebook --days 30",
    )
)
def user_command() -> None:
    """Enrol the people whom a server lets in, and give them tokens.

    They are kept in a file of their own, users.db, which holds no password: only what checks one.
    It is as secret as they are. A server that runs sees each change at the next login.
    """


@user_command.command(
    short_help="Enrol a user.",
    epilog=options.examples(
        "dpsql user add ana --account ana --account ana-tools",
        "pass show dpsql/olga | dpsql user add olga --role owner --role auditor --password-file -",
    ),
)
@_NAME
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="What the user is to the server; may be repeated.  [default: analyst]",
)
@click.option(
    "--account",
    "accounts",
    multiple=True,
    help="An account of the policies file that an analyst may use; may be repeated, the usual one "
    "first.",
)
@_PASSWORD_FILE
@click.option(
    "--iterations",
    type=int,
    help="In a new file, how often a client hashes a password at each login, for all users.  "
    "[default: 100000]",
)
@options.users
@options.quiet
def add_command(
    name: str,
    roles: tuple[str, ...],
    accounts: tuple[str, ...],
    password_file: str | None,
    iterations: int | None,
    users: Path,
    quiet: bool,
) -> None:
    """Enrol the user NAME, and create the file of users if there is none.

    Names are as PostgreSQL folds them: capital letters become small ones.
    """
    from dpsql.server.people.passwords import require_argon2, require_good_password
    from dpsql.server.people.records import require_name, require_scope
    from dpsql.server.people.users import open_or_create_users

    require_argon2()
    named = require_name(name, "user")
    scope = require_scope(_roles(roles or _ROLES[:1]), accounts)
    password = _password(password_file)
    require_good_password(named, password)  # before there is a file
    with open_or_create_users(users, iterations) as opened:
        opened.add(named, password, *scope)
    remark(f"The user {named} may log in.", quiet)


@user_command.command(
    short_help="Give a user another password.",
    epilog=options.examples("dpsql user passwd ana", "dpsql user passwd ana --password-file -"),
)
@_NAME
@_PASSWORD_FILE
@options.users
@options.quiet
def passwd_command(name: str, password_file: str | None, users: Path, quiet: bool) -> None:
    """Give the user NAME another password. Tokens stay as they are: revoke them one by one."""
    from dpsql.server.people.passwords import require_argon2
    from dpsql.server.people.users import Users

    require_argon2()
    with Users(users) as opened:
        found = opened.user(name)
        opened.set_password(found.name, _password(password_file))
    remark(f"The password of {found.name} is another one.", quiet)


@user_command.command(
    short_help="Refuse a user's logins.", epilog=options.examples("dpsql user disable ana")
)
@_NAME
@options.users
@options.quiet
def disable_command(name: str, users: Path, quiet: bool) -> None:
    """Refuse all logins of the user NAME, with the password and with every token."""
    from dpsql.server.people.users import Users

    with Users(users) as opened:
        found = opened.disable(name)
    remark(f"The user {found.name} cannot log in any more.", quiet)


@user_command.command(
    short_help="Let a disabled user log in again.",
    epilog=options.examples("dpsql user enable ana"),
)
@_NAME
@options.users
@options.quiet
def enable_command(name: str, users: Path, quiet: bool) -> None:
    """Let the user NAME log in again, with the password and with valid tokens."""
    from dpsql.server.people.users import Users

    with Users(users) as opened:
        found = opened.enable(name)
    remark(f"The user {found.name} may log in.", quiet)


@user_command.command(
    short_help="List users, or the tokens of one.",
    epilog=options.examples("dpsql user list", "dpsql user list ana --format json"),
)
@click.argument("name", required=False)
@options.users
@options.formats("table", "json")
def list_command(name: str | None, users: Path, format_: str) -> None:
    """List all users; with NAME, the tokens of that user."""
    from dpsql.server.people.users import Users

    with Users(users) as opened:
        rows = [each.facts() for each in opened.users()] if name is None else []
        if name is not None:
            rows = [each.facts(datetime.now(UTC)) for each in opened.tokens(name)]
    if format_ == "json":
        what = "users" if name is None else "tokens"
        click.echo(json.dumps({what: rows}, indent=2))
    elif not rows:
        click.echo("No users." if name is None else "No tokens.")
    else:
        _show_rows(rows)


@user_command.command(
    short_help="Give a user a token.",
    epilog=options.examples(
        "dpsql user token ana notebook --account ana-tools",
        "dpsql user token ana nightly --forever > nightly.token",
        "dpsql user token ana assistant --scope agent",
    ),
)
@_NAME
@click.argument("token_name", metavar="TOKEN")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="A role of the user that the token gives; may be repeated.  [default: all of them]",
)
@click.option(
    "--account",
    "accounts",
    multiple=True,
    help="An account of the user that the token gives; may be repeated.  [default: all of them]",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What the token is good for; may be repeated. explain: what costs nothing; ask: that and "
    "questions; views: that and materialized views; agent: that and questions that an account of "
    "the token's own pays for, within the policy's limits of agents.  [default: ask and views]",
)
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, _MOST_DAYS),
    default=_DAYS,
    show_default=True,
    help="How long it is valid.",
)
@click.option("--forever", is_flag=True, help="It is valid until it is revoked.")
@options.users
@options.quiet
def token_command(
    name: str,
    token_name: str,
    roles: tuple[str, ...],
    accounts: tuple[str, ...],
    scopes: tuple[str, ...],
    days: int,
    forever: bool,
    users: Path,
    quiet: bool,
) -> None:
    """Give the user NAME a token called TOKEN, and print its secret: it is shown this once.

    It is a password for programs. PostgreSQL's clients give NAME+TOKEN as the user and the secret
    as the password.
    """
    from dpsql.server.people.records import TokenScope
    from dpsql.server.people.users import Users

    with Users(users) as opened:
        issued = opened.issue_token(
            name,
            token_name,
            roles=_roles(roles) if roles else None,
            accounts=accounts or None,
            scopes=[TokenScope(each) for each in scopes] if scopes else None,
            expires=None if forever else datetime.now(UTC) + timedelta(days=days),
        )
    click.echo(issued.secret)
    remark(f"For PostgreSQL's clients, the user is {issued.token.wire_name}.", quiet)


@user_command.command(
    short_help="Revoke a token.", epilog=options.examples("dpsql user revoke ana notebook")
)
@_NAME
@click.argument("token_name", metavar="TOKEN")
@options.users
@options.quiet
def revoke_command(name: str, token_name: str, users: Path, quiet: bool) -> None:
    """Refuse the token TOKEN of the user NAME from now on, for good."""
    from dpsql.server.people.users import Users

    with Users(users) as opened:
        found = opened.revoke_token(name, token_name)
    remark(f"The token {found.name} of {found.user} is revoked.", quiet)


def _password(source: str | None) -> str | bytes:
    """Ask for a password twice, unseen; or read it from a file, or from standard input (``-``)."""
    from dpsql.errors import InterfaceError

    if source is None:
        told: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return told
    try:
        text = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except (OSError, ValueError):
        reason = "the file of the password cannot be read"
    else:
        lines = text.splitlines()
        if len(lines) == 1:
            return lines[0]
        reason = "the password is more than one line" if lines else "there is no password"
    raise InterfaceError(
        reason,
        code="password_unreadable",
        hint="--password-file names a file of one line, the password, or - for standard input.",
    )


def _roles(names: Iterable[str]) -> frozenset[Role]:
    from dpsql.server.people.records import Role

    return frozenset(map(Role, names))


def _show_rows(rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from dpsql.core.formatting import printable
    from dpsql.present.tables import titled

    table = titled(*(title.replace("_", " ") for title in rows[0]))
    for row in rows:
        table.add_row(*(Text(printable(_cell(title, row[title]))) for title in row))
    show(table)


def _cell(title: str, value: object) -> str:
    match value:
        case None:
            return "never"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(value)
        case _ if title in _TIMES:
            return str(value)[:10]
        case _:
            return str(value)
