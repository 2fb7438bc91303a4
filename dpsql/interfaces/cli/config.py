"""Settings from a file, ``dpsql.toml``, and ``dpsql config``, which shows where each comes from.

::

    [dpsql]
    database = "clinic.duckdb"  # relative to this file
    analyst = "ana"

    [profile.careful]
    epsilon = 0.1

What is read becomes click's ``default_map``, so options and environment variables go before it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dpsql.errors import InterfaceError, Place
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.options import SettingOption
from dpsql.policy.ledger_place import without_password
from dpsql.policy.parameters import PARAMETER_NAMES, PARAMETERS, suggestion

FILE_NAME: Final = "dpsql.toml"
_MAIN: Final = "dpsql"
_PROFILES: Final = "profile"


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The values of a settings file by key, and the table of the file that holds each."""

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    """A settings file with its text, for errors that quote places in it."""

    path: Path
    text: str

    def error(
        self, reason: str, code: str, hint: str, table: str, key: str = "", *, shown: bool = False
    ) -> InterfaceError:
        """Build an error with its place. Values are not ``shown`` where they may be secrets."""
        place = replace(self._place(table, key), source=str(self.path))
        place = place if shown else replace(place, excerpt=_masked(place.excerpt))
        return InterfaceError(reason, code=code, place=place, hint=hint)

    def _place(self, table: str, key: str) -> Place:
        """Find the line of a key, or of its table; the first of the file where neither is found."""
        name = re.escape(table)
        header = re.search(rf"^[ \t]*\[\s*({name})\s*\]", self.text, re.MULTILINE)
        start, end = header.span(1) if header else (0, 1)
        line = re.compile(rf"^[ \t]*({re.escape(key)})[ \t]*=", re.MULTILINE)
        if key and (found := line.search(self.text, end)):
            start, end = found.span(1)
        return Place.in_text(self.text, start, end)


def nearest_settings_file(start: Path, home: Path | None) -> Path | None:
    """Find the settings file in ``start`` or, below home, in the nearest parent up to it.

    Elsewhere parents are not looked at, as they may be anybody's.
    """
    above = start.parents if home is not None and start.is_relative_to(home) else ()
    for directory in (start, *above):
        if os.path.isfile(directory / FILE_NAME):
            return directory / FILE_NAME
        if directory == home:
            break
    return None


def _nearest() -> Path | None:
    """Find the settings file for the working directory; None if that was deleted."""
    try:
        start = Path.cwd()
    except OSError:
        return None
    try:
        return nearest_settings_file(start, Path.home())
    except RuntimeError:  # this user has no home directory
        return nearest_settings_file(start, None)


def read(ctx: click.Context) -> FileSettings:
    """Read the settings that the options of ``dpsql`` itself ask for.

    Raises ``InterfaceError`` with the place of what is wrong; while completing a command line, what
    cannot be read is as good as nothing.
    """
    given, profile = ctx.params.get("config"), ctx.params.get("profile")
    path = given or _nearest()
    if path is None:
        if profile is not None and not ctx.resilient_parsing:
            raise InterfaceError(
                f"there is no {FILE_NAME} to look for the profile {profile} in",
                code="config_unreadable",
                hint="Name the file: dpsql --config FILE --profile NAME …",
            )
        return FileSettings()
    try:
        return load_settings(path, profile)
    except InterfaceError:
        if ctx.resilient_parsing:
            return FileSettings()
        raise


def load_settings(path: Path, profile: str | None) -> FileSettings:
    """Load a file's settings, a profile's before the others. Raises ``InterfaceError``."""
    file = _File(path, _text(path))
    document = _parsed(file)
    _refuse_unknown_tables(file, document)
    profiles = document.get(_PROFILES, {})
    if profile is not None and profile not in profiles:
        known = f"Profiles: {', '.join(profiles)}." if profiles else "It has no [profile.NAME]."
        hint = suggestion(profile, tuple(profiles)) or known
        what = f"there is no profile {profile}"
        raise file.error(what, "config_unknown_profile", hint, _PROFILES)
    for name, table in profiles.items():
        dict(_checked(file, f"{_PROFILES}.{name}", table))
    values = dict(_checked(file, _MAIN, document.get(_MAIN, {})))
    tables = dict.fromkeys(values, f"[{_MAIN}]")
    if profile is not None:
        chosen = f"{_PROFILES}.{profile}"
        nearer = dict(_checked(file, chosen, profiles[profile]))
        values, tables = values | nearer, tables | dict.fromkeys(nearer, f"[{chosen}]")
    return FileSettings(path, values, tables)


def profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List the settings file's profiles, for completion; none where it cannot be read."""
    path = ctx.params.get("config") or _nearest()
    try:
        tables = _parsed(_File(path, _text(path))).get(_PROFILES, {}) if path else {}
    except InterfaceError:
        tables = {}
    return [CompletionItem(name) for name in tables if name.startswith(incomplete)]


def defaults(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a command has, in the form of click's ``default_map``."""
    nested = command.commands if isinstance(command, click.Group) else {}
    own = {
        option.name: values[option.key]
        for option in command.params
        if isinstance(option, SettingOption) and option.key in values
    }
    return own | {name: defaults(inner, values) for name, inner in nested.items()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except OSError as error:
        reason = f"cannot be read: {(error.strerror or 'not a path').lower()}"
    raise InterfaceError(
        f"the settings file {path} {reason}",
        code="config_unreadable",
        hint="Check --config, DPSQL_CONFIG and the file.",
    ) from None


def _parsed(file: _File) -> dict[str, Any]:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        message, _, where = str(error).partition(" (at ")
        found = re.match(r"line (\d+), column (\d+)", where)
        line, column = map(int, found.groups()) if found else (len(file.text.splitlines()), 1)
        excerpt = _masked([*file.text.splitlines(), ""][max(0, line - 1)])
        raise InterfaceError(
            f"not valid TOML: {message[:1].lower()}{message[1:]}",
            code="config_syntax",
            place=Place(line, column, 1, excerpt, str(file.path)),
            hint='Text goes in quotes, as in: analyst = "ana"',
        ) from None


def _masked(line: str) -> str:
    """Hide the value in a settings file's line: a misspelt key may have a password for one."""
    name, equals, _ = line.partition("=")
    if equals:
        return f"{name}= …"
    return line if re.fullmatch(r"\s*(\[[^\]\"']*\]?\s*(#.*)?|#.*|)", line) else "…"


def _refuse_unknown_tables(file: _File, document: dict[str, Any]) -> None:
    for name, value in document.items():
        if name in (_MAIN, _PROFILES) and isinstance(value, dict):
            continue
        if isinstance(value, dict):
            hint = f"Known tables: [{_MAIN}] and [{_PROFILES}.NAME]."
            raise file.error(f"unknown table [{name}]", "config_unknown_key", hint, name)
        hint = f"Settings belong below [{_MAIN}] or [{_PROFILES}.NAME]."
        raise file.error(f"{name} is in no table", "config_unknown_key", hint, "", name)


def _checked(file: _File, table: str, given: object) -> Iterator[tuple[str, Any]]:
    """Check keys and values of one table for their types; yield them, with paths absolute."""
    if not isinstance(given, dict):
        hint = f"Write [{table}] on a line of its own, and settings below it."
        raise file.error(f"{table} must be a table", "config_wrong_type", hint, _PROFILES)
    known = {option.key: option for option in _settings()}
    for key, value in given.items():
        option = known.get(key)
        if option is None:
            hint = suggestion(key, tuple(known)) or f"Known: {', '.join(known)}."
            raise file.error(f"unknown key {key}", "config_unknown_key", hint, table, key)
        wanted = _misfit(option, value)
        if wanted is not None:
            what = f"{key} must be {wanted}, but is {_kind(value)}"
            hint = "Correct it, or remove the line."
            shown = key not in ("ledger", "database")  # they may be URLs with passwords
            raise file.error(what, "config_wrong_type", hint, table, key, shown=shown)
        yield key, _absolute(file.path, value) if option.path else value


def _settings() -> list[SettingOption]:
    return [option for option in config_command.params if isinstance(option, SettingOption)]


def _misfit(option: SettingOption, value: object) -> str | None:
    """Name the kind of value that an option takes; None if this value fits."""
    if option.type is click.FLOAT:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number else "a number"
    if option.type is click.INT:
        return None if type(value) is int else "a whole number"
    spec = PARAMETERS.get(option.key)
    if spec is not None and spec.instead_of_number:
        words = spec.instead_of_number
        written = " or ".join(f'"{word}"' for word in words)
        before = ", " if len(words) > 1 else " or "
        fits = type(value) is int or value in words
        return None if fits else f"a whole number{before}{written}"
    if isinstance(option.type, click.Choice):
        return None if value in option.type.choices else f"one of {', '.join(option.type.choices)}"
    return None if isinstance(value, str) else "text"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:40]}"'
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date or time"


def _absolute(file: Path, value: str) -> str:
    """Resolve a path relative to the file's directory; URLs stay as they are."""
    return value if "://" in value else str(file.absolute().parent / Path(value).expanduser())


@click.command(
    epilog=options.examples("dpsql config", "dpsql --config work.toml --profile careful config")
)
@options.every_setting
@click.pass_context
def config_command(ctx: click.Context, /, **values: Any) -> None:
    """Show each setting, its value and where it comes from.

    A setting is an option that several commands share. It comes from the option itself, from its
    environment variable, from the settings file, or is the default, in this order. The file is
    named by --config or DPSQL_CONFIG, else it is the dpsql.toml in the working directory or the
    nearest directory above it, up to the home directory.
    """
    from rich.text import Text

    from dpsql.interfaces.cli.printing import show
    from dpsql.present.tables import titled

    table = titled("setting", "value", "from")
    for option in _settings():
        value = values[str(option.name)]
        given = value not in (None, "")
        unset = "policies file" if option.key in PARAMETER_NAMES else "not set"
        if option.key == "ledger":
            unset = "policies file, or beside the database"
        source = _source(ctx, option) if given else unset
        shown = without_password(str(value)) if given else ""
        table.add_row(*map(Text, (option.key, shown, source)))
    show(table)


def _source(ctx: click.Context, option: SettingOption) -> str:
    match ctx.get_parameter_source(str(option.name)):
        case ParameterSource.COMMANDLINE:
            return option.opts[0]
        case ParameterSource.ENVIRONMENT:
            return str(option.envvar)
        case ParameterSource.DEFAULT_MAP:
            settings: FileSettings = ctx.obj
            return f"{settings.path} {settings.tables[option.key]}"
        case _:
            return "default"
