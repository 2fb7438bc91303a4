"""Options that several commands share, and the settings among them.

A *setting* is an option that may also come from the environment or from a settings file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dpsql.core.data_files import is_address
from dpsql.errors import Error, SQLSyntaxError
from dpsql.policy.parameters import PARAMETER_NAMES, PARAMETERS, ParameterSpec

CommandFunction = Callable[..., Any]
Decorator = Callable[[CommandFunction], CommandFunction]

FORMATS: Final = ("table", "csv", "json", "jsonl", "markdown", "arrow", "parquet")
"""All formats of output; each command lists its own."""


class SettingOption(click.Option):
    """An option that ``DPSQL_<KEY>`` and the ``key`` of a settings file can give as well."""

    def __init__(self, *args: Any, path: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert self.name is not None
        self.key = self.name.removesuffix("_")
        self.envvar = f"DPSQL_{self.key.upper()}"
        self.path = path
        """True if relative values in a settings file are relative to that file."""


class _Format(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """The formats of one command.

    A format that the environment or a file sets for all commands is passed over by a command that
    does not know it, as nobody asked for it there.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if param is not None and ctx is not None and value in FORMATS:
            source = ctx.get_parameter_source(str(param.name))
            if source is not ParameterSource.COMMANDLINE and value not in self.choices:
                return str(self.choices[0])
        return super().convert(value, param, ctx)


class DatabasePath(click.Path):
    """The path of a database or of files; an address stays text, as paths have single slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_address(value) else super().convert(value, param, ctx)


def settings_file() -> Path | None:
    """Return the settings file that this run of dpsql has read, if any."""
    ctx = click.get_current_context(silent=True)
    return getattr(ctx.obj, "path", None) if ctx is not None else None


def _number_or_word(
    words: Sequence[str], ctx: click.Context, param: click.Parameter, value: str | None
) -> int | str | None:
    """Read a whole number or one of some words; the policy checks the range."""
    if value is None or value.lower() in words:
        return value
    try:
        return int(value)
    except ValueError:
        hint = f"give a whole number, or: {', '.join(words)}"
        raise click.BadParameter(hint, ctx, param) from None


def _checked_confidence(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and 0 < value < 1):
        raise click.BadParameter("it must lie between 0 and 1, such as 0.95", ctx, param)
    return value


def _analysts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List the accounts of the policies file, for completion; none where it cannot be read."""
    from dpsql.policy.load import load_policy

    try:
        accounts = load_policy(ctx.params.get("policies") or "policies.yaml").accounts
    except Error:
        return []
    return [CompletionItem(name) for name in accounts if name.startswith(incomplete)]


def _mechanisms(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from dpsql.planner import MECHANISM_NAMES

    return [CompletionItem(name) for name in MECHANISM_NAMES if name.startswith(incomplete)]


def _setting(*names: str, **attributes: Any) -> Decorator:
    return click.option(*names, cls=SettingOption, **attributes)


def _database(required: bool) -> Decorator:
    return _setting(
        "--database",
        "-d",
        required=required,
        path=True,
        type=DatabasePath(),
        help="A DuckDB database, or Parquet, CSV or JSON files: one, a directory, a pattern, an "
        "address such as s3://bucket/visits.parquet; a postgresql:// or sc:// URL; or a server of "
        "dpsql, https://host:8439. Never written to.",
    )


def _analyst(required: bool) -> Decorator:
    return _setting(
        "--analyst",
        "-a",
        required=required,
        shell_complete=_analysts,
        help="Whose account pays: a name under `accounts` in the policies file.",
    )


database = _database(required=True)
optional_database = _database(required=False)
analyst = _analyst(required=True)
optional_analyst = _analyst(required=False)
policies = _setting(
    "--policies",
    "-p",
    default="policies.yaml",
    show_default=True,
    path=True,
    type=click.Path(path_type=Path),
    help="The data owner's policies file.",
)
ledger = _setting(
    "--ledger",
    "-l",
    show_default="the policies file's, or the one beside the database",
    path=True,
    help="What keeps what has been spent: a file, or a postgresql:// URL.",
)
session = _setting(
    "--session", "-s", default="", help="A session of the analyst, with an account of its own."
)
token_file = _setting(
    "--token-file",
    path=True,
    type=click.Path(path_type=Path),
    help="The file with the token for a server; left out, DPSQL_TOKEN holds it.",
)
ca_file = _setting(
    "--ca-file",
    path=True,
    type=click.Path(path_type=Path),
    help="Certificates that a server's is checked by, PEM, instead of the system's.",
)
users = _setting(
    "--users",
    default="users.db",
    show_default=True,
    path=True,
    type=click.Path(path_type=Path),
    help="The file of a server's users.",
)
listen = _setting(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:5439",
    show_default=True,
    help="Where PostgreSQL's clients connect to a server. Beyond its machine only with a "
    "certificate.",
)
http = _setting(
    "--http",
    metavar="HOST:PORT",
    help="Where a server answers HTTP, too, such as 127.0.0.1:8439; nowhere if left out.",
)
certificate = _setting(
    "--certificate",
    path=True,
    type=click.Path(path_type=Path),
    help="A server's certificate with its chain, PEM. Then all connections are encrypted.",
)
certificate_key = _setting(
    "--certificate-key",
    path=True,
    type=click.Path(path_type=Path),
    help="The key of the certificate, PEM.",
)
audit = _setting(
    "--audit",
    default="audit.jsonl",
    show_default=True,
    path=True,
    type=click.Path(path_type=Path),
    help="The file that a server writes logins and statements to. `dpsql audit` checks it.",
)
grace = _setting(
    "--grace",
    type=float,
    default=30.0,
    show_default=True,
    help="Seconds that statements have to end once a server stops.",
)
response_grid = _setting(
    "--response-grid",
    metavar="SECONDS",
    type=float,
    help="Have statements end at multiples of so many seconds, so that how long one takes says "
    "less about rows; at once if left out.",
)
oidc_issuer = _setting(
    "--oidc-issuer",
    metavar="URL",
    help="Whose tokens a server takes over HTTP beside its own: an issuer of OpenID Connect, as "
    "its metadata names it.",
)
oidc_audience = _setting("--oidc-audience", help="What an issuer's tokens have to be for.")
oidc_client_id = _setting(
    "--oidc-client-id", help="The client that an issuer's tokens have to be issued to."
)
oidc_user_claim = _setting(
    "--oidc-user-claim",
    default="sub",
    show_default=True,
    help="The claim of an issuer's tokens whose value is the name of a user.",
)
confidence = _setting(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    callback=_checked_confidence,
    help="Confidence of the intervals.",
)


completing = _setting(
    "--complete",
    type=click.Choice(("tab", "typing")),
    default="tab",
    show_default=True,
    help="When the shell shows suggestions: at Tab, or while one types.",
)


def place_of_ledger(command: CommandFunction) -> CommandFunction:
    """Add the options that locate the ledger: itself, the policies file, or a database."""
    return _stacked((optional_database, policies, ledger))(command)


def formats(*names: str) -> Decorator:
    return _setting(
        "--format",
        "-f",
        "format_",
        type=_Format(names),
        default=names[0],
        show_default=True,
        help="How to print the answer.",
    )


def privacy_parameters(command: CommandFunction) -> CommandFunction:
    """Add the privacy parameters of one query."""
    forced = _setting("--mechanism", shell_complete=_mechanisms, help="Force a mechanism by name.")
    return _stacked((*map(_parameter, PARAMETERS.values()), forced))(command)


def token(command: CommandFunction) -> CommandFunction:
    """Add the options of who asks a server, and how it is known."""
    return _stacked((token_file, ca_file))(command)


def of_a_source(command: CommandFunction) -> CommandFunction:
    """Add the options of where a question is asked, and by whom: one's own data, or a server."""
    known = (policies, ledger, optional_analyst, session, token_file, ca_file)
    return _stacked((database, *known))(command)


def of_a_question(command: CommandFunction) -> CommandFunction:
    """Add the options of a question: SQL, analyst, ledger and privacy parameters."""
    return _stacked((database, policies, ledger, analyst, session, privacy_parameters))(command)


def at_a_server(command: CommandFunction) -> CommandFunction:
    """Add the options of what is done at a server alone: its address, a token, an account."""
    return _stacked((database, optional_analyst, token_file, ca_file))(command)


def of_a_server(command: CommandFunction) -> CommandFunction:
    """Add the options of a server: users, addresses, certificate, audit log, answers, sign-on."""
    kept = (users, audit, certificate, certificate_key)
    oidc = (oidc_issuer, oidc_audience, oidc_client_id, oidc_user_claim)
    return _stacked((*kept, listen, http, grace, response_grid, *oidc))(command)


def _parameter(spec: ParameterSpec) -> Decorator:
    attributes: dict[str, Any] = {"type": spec.type}
    if spec.period:
        attributes = {"metavar": "PERIOD"}
    elif spec.words:
        attributes = {
            "metavar": "|".join(spec.words),
            "shell_complete": lambda *_: [CompletionItem(word) for word in spec.words],
        }
    elif spec.instead_of_number:
        words = spec.instead_of_number
        metavar = "|".join(("N", *words))
        attributes = {"metavar": metavar, "callback": partial(_number_or_word, words)}
    return _setting(f"--{spec.name.replace('_', '-')}", help=spec.option, **attributes)


def every_setting(command: CommandFunction) -> CommandFunction:
    """Add all settings, none of them required."""
    first = (optional_database, policies, ledger, optional_analyst, session, token_file, ca_file)
    shown = (formats(*FORMATS), confidence, completing)
    return _stacked((*first, *shown, privacy_parameters, of_a_server))(command)


def _stacked(options: tuple[Decorator, ...]) -> Decorator:
    def decorate(command: CommandFunction) -> CommandFunction:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_EITHER: Final = ("epsilon", "max_error")
_NEARNESS: Final = (
    ParameterSource.COMMANDLINE,
    ParameterSource.PROMPT,
    ParameterSource.ENVIRONMENT,
    ParameterSource.DEFAULT_MAP,
    ParameterSource.DEFAULT,
    None,
)

quiet = click.option("--quiet", "-q", is_flag=True, help="Show no progress and no remarks.")


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return the privacy parameters that were given; the policy decides the others.

    Of epsilon and max_error the one that was given nearer, where both were.
    """
    names = (*PARAMETER_NAMES, "mechanism")
    given = {name: options[name] for name in names if options.get(name) is not None}
    if {"epsilon", "max_error"} <= given.keys():
        ctx = click.get_current_context()
        epsilon, error = (_NEARNESS.index(ctx.get_parameter_source(n)) for n in _EITHER)
        if epsilon != error:
            del given[_EITHER[epsilon < error]]
    return given


def query_text(sql: str) -> str:
    """Return the query itself, or read standard input where it is ``-``."""
    try:
        if sql == "-":
            sql = sys.stdin.buffer.read().decode("utf-8-sig")
        sql.encode("utf-8")
    except UnicodeError:
        raise SQLSyntaxError(
            "the query is not UTF-8 text", code="syntax_error", hint="Save it as UTF-8."
        ) from None
    return sql


def examples(*commands: str) -> str:
    """Write an epilog that shows how a command is used; click leaves its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for c in commands for line in c.split("\n"))
