"""Commands that keep things: the last answer or statement in a file, a query under a name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rich.text import Text

from dpsql.core.formatting import printable
from dpsql.core.kept_files import refuse_kept
from dpsql.errors import InterfaceError
from dpsql.interfaces.new_files import new_file
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.command import Invocation, ShellCommand
from dpsql.interfaces.shell.state import Shell
from dpsql.present.result_files import encoded
from dpsql.present.tables import titled
from dpsql.results.frames import require_package

ENDINGS: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".arrow": "arrow",
    ".parquet": "parquet",
}
"""How an answer is written, by the end of the file's name."""


def _copy(call: Invocation) -> None:
    shell, path = call.shell, _path(call)
    if shell.result is None:
        raise InterfaceError(
            "there is no answer to write",
            code="nothing_to_write",
            hint="Ask a query first; \\copy FILE writes its last answer, at no cost.",
        )
    format_ = ENDINGS.get(path.suffix.lower())
    if format_ is None:
        raise InterfaceError(
            f"the name of the file does not say how to write it: {path.name}",
            code="unknown_ending",
            hint=f"Let it end with one of: {', '.join(ENDINGS)}.",
        )
    if format_ in ("arrow", "parquet"):
        require_package("pyarrow", "arrow")
    settings = shell.settings
    _write_new(shell, path, encoded(shell.result, format_, settings.confidence, settings.intervals))
    shell.screen.say(f"The last answer is in {path}.")


def _write(call: Invocation) -> None:
    shell, path = call.shell, _path(call)
    if not shell.query:
        raise _no_query()
    _write_new(shell, path, f"{_whole(shell.query)}\n".encode())
    shell.screen.say(f"The last query is in {path}.")


def _path(call: Invocation) -> Path:
    name = call.argument.strip("'\"")
    if not name:
        raise InterfaceError(
            "a file needs a name",
            code="file_not_writable",
            hint="Write \\copy FILE or \\w FILE.",
        )
    return Path(os.path.expanduser(name))


def _write_new(shell: Shell, path: Path, content: bytes) -> None:
    """Write a file that is not there yet. Raises ``InterfaceError``."""
    refuse_kept(path, shell.source.files)
    try:
        with new_file(path) as write:
            write(content)
    except ValueError:  # a name with a null character
        raise InterfaceError("that is no name of a file", code="file_not_writable") from None
    except InterfaceError as error:
        error.hint = "Choose another name."
        raise


def _whole(query: str) -> str:
    return f"{query.strip().removesuffix(';').rstrip()};"


def _no_query() -> InterfaceError:
    return InterfaceError(
        "there is no query to keep",
        code="nothing_to_write",
        hint="Ask one first, or write it after the name: \\save NAME SELECT …",
    )


def _save(call: Invocation) -> None:
    shell = call.shell
    name, _, given = call.argument.partition(" ")
    text = given.strip() or call.typed or shell.query
    if name and not text:
        raise _no_query()
    replaced = shell.saved.save(name, text)
    shell.screen.say(f"{'Replaced' if replaced else 'Saved'}: \\run {name} runs it again.")


def _forget(call: Invocation) -> None:
    call.shell.saved.forget(call.argument)
    call.shell.screen.say(f"{call.argument} is forgotten.")


def list_saved(shell: Shell) -> None:
    """Show all saved queries."""
    names = shell.saved.names()
    if not names:
        shell.screen.show(Text("No query is saved yet: \\save NAME keeps the last one."))
        return
    table = titled("name", "query")
    for name in names:
        table.add_row(Text(name), Text(printable(shell.saved.text(name), 200)))
    shell.screen.show(table, paged=shell.settings.pager)


KEEPING: Final = (
    ShellCommand(
        ("copy",),
        Argument.FILE,
        "FILE",
        "write the last answer to a new file, as its name ends: .csv, .json, .parquet, …",
        _copy,
        f"Endings: {', '.join(ENDINGS)}. It costs nothing. \\set intervals on adds the ends of the "
        "intervals as columns.",
    ),
    ShellCommand(("w",), Argument.FILE, "FILE", "write the last query to a new file", _write),
    ShellCommand(
        ("save",),
        Argument.NAMED_SQL,
        "NAME [SELECT …]",
        "keep a query under a name: the one given, or the one being typed, or the last one",
        _save,
        "Queries are kept as plain SQL in ~/.config/dpsql/queries (or below XDG_CONFIG_HOME), for "
        "all databases. A name that is taken gets the new query.",
    ),
    ShellCommand(("forget",), Argument.QUERY, "NAME", "remove a saved query", _forget),
)
