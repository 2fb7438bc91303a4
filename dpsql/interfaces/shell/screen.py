"""Where the shell writes: to a terminal, page by page if need be, to a pipe, or to a file.

Where UTF-8 cannot be written, other letters stand for ours: ``eps`` for ε.
"""

from __future__ import annotations

import codecs
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console, RenderableType
from rich.status import Status
from rich.text import Text

from dpsql import present as render
from dpsql.core.formatting import printable
from dpsql.errors import Error, InterfaceError

_LETTERS: Final = "dpsql_plain"
_SPECIAL: Final = "εδρ±"
"""Letters that stand in nearly all answers."""
_LONGER: Final = 12
"""How many characters a line may grow by when these are replaced."""
_PLAIN: Final = dict(zip("│─├┤┼┊█░·–−✓×’", "|-||+:#.---*x'", strict=True)) | {
    "ε": "eps",
    "δ": "delta",
    "ρ": "rho",
    "±": "+-",
    "…": "...",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "√": "sqrt ",
    "²": "^2",
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or _escaped(c) for c in lost), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(_LETTERS, _plain)


def writable(text: str, encoding: str) -> str:
    """Rewrite a text as a stream of this encoding will show it."""
    return text.encode(encoding, _LETTERS).decode(encoding)


def pager(environment: Mapping[str, str]) -> list[str] | None:
    """Find the pager: DPSQL_PAGER, PAGER or less; None if it is not there or is empty."""
    chosen = environment.get("DPSQL_PAGER", environment.get("PAGER", "less"))
    try:
        words = shlex.split(chosen)
    except ValueError:
        return None
    if not words or environment.get("TERM", "dumb") in ("", "dumb"):
        return None
    return words if shutil.which(words[0]) else None


def show_pages(text: str, command: list[str], encoding: str) -> None:
    """Show a text in a pager and wait until it is left. Ctrl-C is the pager's."""
    # Long lines are cut rather than wrapped, and can be scrolled to; colours stay.
    environment = {"LESS": "-SRX", **os.environ}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.communicate(text.encode(encoding, _LETTERS))
    finally:
        signal.signal(signal.SIGINT, before)


_PATIENCE = 0.5  # seconds before a terminal is told that something is running


class Screen:
    """All output of one shell. ``interactive`` is for a person at a terminal."""

    def __init__(self, out: TextIO, err: TextIO, interactive: bool) -> None:
        self.interactive = interactive
        for stream in (out, err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors=_LETTERS)
        self._out = out
        self._console = Console(file=out, highlight=False)
        if writable(_SPECIAL, self._console.encoding) != _SPECIAL:
            self._console.width -= _LONGER
        self._errors = render.error_console(err)
        self._file: TextIO | None = None
        self._busy: _Busy | None = None

    @property
    def width(self) -> int | None:
        """The characters on a line, None where lines have no end."""
        return self._console.width if self.interactive and self._file is None else None

    @property
    def encoding(self) -> str:
        """The encoding of the terminal."""
        return self._console.encoding

    def show(self, content: RenderableType, paged: bool = False) -> None:
        """Write an answer: something to render, or a text that is to stay as it is."""
        if self._file is not None or not self.interactive:
            target = self._file or self._out
            text = content if isinstance(content, str) else render.uncoloured(content) + "\n"
            target.write(text)
            target.flush()
            return
        with self._console.capture() as capture:
            if isinstance(content, str):
                self._console.print(_safe(content), soft_wrap=True, end="")
            else:
                self._console.print(content)
        self._write(capture.get() + "\n", paged)

    def say(self, remark: str) -> None:
        """Tell a person something; pipes and files are left alone."""
        if self.interactive:
            self._console.print(Text(remark, style="dim"))

    def warn(self, remark: str) -> None:
        """Tell whoever reads the errors something."""
        self._errors.print(Text(remark))

    def fail(self, error: Error) -> None:
        """Show an error."""
        render.print_error(self._errors, error)

    def redirect(self, path: str) -> None:
        """Send answers to a file from now on, or back where they came from if ``path`` is empty.

        Raises ``InterfaceError`` (``file_not_writable``).
        """
        opened: TextIO | None = None
        if path:
            try:
                opened = open(os.path.expanduser(path), "w", encoding="utf-8")  # noqa: SIM115
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not a path"
                raise InterfaceError(
                    f"{path} cannot be written: {reason}", code="file_not_writable"
                ) from None
        self.close()
        self._file = opened

    def close(self) -> None:
        """Close the file that answers go to."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def opening(self, name: str) -> Iterator[None]:
        """Show a status while a database is opened, if that takes long at a terminal.

        A Parquet or CSV file is read as a whole before the first prompt.
        """
        if not self.interactive or self._console.is_dumb_terminal:
            yield
            return
        text = writable(f"opening {printable(name)} …", self.encoding)
        status = self._console.status(Text(text, style="dim"), spinner="line")
        delay = threading.Timer(_PATIENCE, status.start)
        delay.daemon = True
        delay.start()
        try:
            yield
        finally:
            delay.cancel()
            delay.join()
            status.stop()

    @contextmanager
    def busy(self) -> Iterator[Callable[[bool], None]]:
        """Show a status while something runs, if that takes long at a terminal.

        Gives what is to be called now and then, with whether it is being cancelled.
        """
        self._busy = _Busy(self._console if self.interactive else None)
        try:
            yield self._busy.turn
        finally:
            self._busy.stop()

    def progress(self, percent: int) -> None:
        """Show how far a statement is, in percent."""
        if self._busy is not None:
            self._busy.percent = percent

    def _write(self, text: str, paged: bool) -> None:
        command = pager(os.environ)
        if paged and command is not None and text.count("\n") >= self._console.height:
            show_pages(text, command, self.encoding)
        else:
            self._out.write(text)
            self._out.flush()


class _Busy:
    """A status line with the running time, and with progress where it is known."""

    def __init__(self, console: Console | None) -> None:
        dumb = console is None or console.is_dumb_terminal or not console.is_terminal
        self._console = None if dumb else console
        self._status: Status | None = None
        self._started = time.monotonic()
        self.percent: int | None = None

    def turn(self, cancelled: bool) -> None:
        """Update the line on the terminal."""
        seconds = time.monotonic() - self._started
        if self._console is None or seconds < _PATIENCE:
            return
        done = "" if self.percent is None else f", {self.percent}%"
        hint = "cancelling" if cancelled else "Ctrl-C cancels"
        text = Text(f"running for {seconds:.0f} s{done}; {hint}", style="dim")
        if self._status is None:
            self._status = self._console.status(text, spinner="line")
            self._status.start()
        self._status.update(text)

    def stop(self) -> None:
        """Remove the line from the terminal."""
        if self._status is not None:
            self._status.stop()


def _safe(text: str) -> Text:
    """Remove from a text what a terminal would obey."""
    return Text("\n".join(map(printable, text.split("\n"))))
