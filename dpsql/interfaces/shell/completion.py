"""What may come next at a place in what is typed: a pure function of the text and of the names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.core.schema import fold
from dpsql.interfaces.shell.candidates import Argument, Known, Suggestion, matching
from dpsql.interfaces.shell.completion_sql import in_sql
from dpsql.interfaces.shell.settings import SHELL_SETTINGS, Format
from dpsql.policy.parameters import PARAMETER_NAMES


def candidates(before: str, after: str, known: Known) -> list[Suggestion]:
    """What may come next between two parts of what is typed, likely things first."""
    start = before.lstrip()
    if start.startswith("\\"):
        return list(_in_command(start, after, known))
    return list(in_sql(before, after, known))


def _in_command(text: str, after: str, known: Known) -> Iterator[Suggestion]:
    name, blank, argument = text.partition(" ")
    if not blank:
        yield from matching(name, known.commands, "command")
        return
    takes = known.commands.get(name, Argument.NOTHING)
    if takes is Argument.SQL:
        yield from in_sql(argument, after, known)
        return
    words = argument.split(" ")
    if takes is Argument.FILE:
        yield from _files(argument)
    elif len(words) == 1:
        yield from _first_words(words[0], takes, known)
    elif len(words) == 2 and takes is Argument.SETTING:
        yield from matching(words[1], _setting_values(words[0], known), words[0])


def _first_words(word: str, takes: Argument, known: Known) -> Iterator[Suggestion]:
    match takes:
        case Argument.TABLE:
            yield from matching(word, known.catalog.tables, "table")
        case Argument.NAME | Argument.SETTING:
            yield from matching(word, PARAMETER_NAMES, "privacy parameter")
            yield from matching(word, SHELL_SETTINGS, "setting")
        case Argument.FORMAT:
            yield from matching(word, tuple(Format), "format")
        case Argument.SHARE:
            yield from matching(word, SHELL_SETTINGS["confirm"].values, "share of what is left")
        case Argument.SWITCH:
            yield from matching(word, SHELL_SETTINGS["expanded"].values, "")
        case Argument.TOPIC:
            yield from matching(word, (c.removeprefix("\\") for c in known.commands), "command")
        case Argument.COLUMN:
            yield from matching(word, known.answer, "column of the last answer")


def _setting_values(name: str, known: Known) -> Sequence[str]:
    setting = SHELL_SETTINGS.get(fold(name))
    return known.catalog.parameters.get(fold(name), ()) if setting is None else setting.values


def _files(typed: str) -> Iterator[Suggestion]:
    directory, _, prefix = typed.rpartition("/")
    folder = Path(f"{directory}/" if "/" in typed else ".").expanduser()
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(prefix) and (prefix or not entry.name.startswith(".")):
            yield Suggestion(entry.name + "/" * entry.is_dir(), len(prefix), "file")
