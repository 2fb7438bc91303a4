"""Writes the screens of docs/shell.md, as a terminal emulator shows them.

``python tools/docs/screens.py`` does it.
A real shell runs behind a pseudo-terminal, on a small made-up clinic, and is typed into. Its noise
is fresh at each run, so numbers change; what was typed and what stays the same does not.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import duckdb
import pyte

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"
ROOT = PAGE.parent.parent

POLICY = """\
version: 1
dataset: clinic
defaults: {epsilon: 0.5, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2}
maxima: {epsilon: 3}
accounts:
  ana: {epsilon: 3, delta: 1e-6}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 500}
      sex: {domain: [f, m]}
  wards: {public: true}
"""
DATA = (
    "CREATE TABLE visits AS SELECT range % 3000 AS patient_id, "
    "['ears', 'eyes', 'heart', 'skin'][1 + (range % 7) // 2] AS ward, "
    "['f', 'm'][1 + range % 2] AS sex, (range % 400)::DOUBLE AS cost FROM range(9000)",
    "CREATE TABLE wards AS SELECT 'eyes' AS ward, 3 AS floor",
)

# The shell as a process of a terminal of its own, so that Ctrl-C reaches it.
_LAUNCH = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from dpsql.interfaces.cli import main; main()"
)
_QUIET = 0.08  # seconds without output after which a screen stands still


class _Answering(pyte.Screen):
    """A screen that answers when it is asked where its cursor is."""

    answer: Callable[[str], None]

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """A program behind a pseudo-terminal: what is typed into it, and what is on its screen."""

    def __init__(
        self,
        arguments: list[str],
        directory: Path,
        *,
        columns: int = 80,
        lines: int = 24,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._screen = _Answering(columns, lines)
        self._screen.answer = self.send
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        given = {
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "PYTHONPATH": str(ROOT),
            "LESS": "-SRX",
        }
        self._process = subprocess.Popen(  # noqa: S603 (its arguments are ours)
            [sys.executable, "-c", _LAUNCH, *arguments],
            cwd=directory,
            env=kept | given | dict(environment or {}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.raw = b""

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def line(self) -> str:
        """The line that the cursor is on, up to the cursor."""
        return self._screen.display[self._screen.cursor.y][: self._screen.cursor.x]

    @property
    def waits(self) -> bool:
        """True if the shell is at an empty prompt."""
        return re.fullmatch(r"\w+ (ε|eps) [\d.]+ left> ?", self.line) is not None

    def send(self, keys: str) -> None:
        """Type keys."""
        os.write(self._master, keys.encode())

    def see(self, condition: Callable[[], bool] | str, seconds: float = 20.0) -> str:
        """The screen once a condition holds, or a text is on it, and nothing more comes.

        Raises ``AssertionError`` with the screen if that does not happen.
        """

        def holds() -> bool:
            return condition in self.text if isinstance(condition, str) else condition()

        deadline = time.monotonic() + seconds
        while True:
            more = self._read(_QUIET)
            if not more and holds():
                return self.text
            assert time.monotonic() < deadline, f"not seen: {condition}\n{self.text}"

    def type(self, text: str) -> str:
        """Type a text, and wait until it is on the screen."""
        self.send(text)
        return self.see(lambda: self.line.rstrip().endswith(text.rstrip()[-1]))

    def run(self, text: str, seconds: float = 20.0) -> str:
        """Type a line, press Enter, and wait for the next prompt."""
        self.type(text)
        self.send("\r")
        return self.see(lambda: self.waits, seconds)

    def clear(self) -> None:
        """Empty the screen."""
        self.send("\x0c")
        self.see(lambda: self.waits and self._screen.cursor.y == 0)

    def end(self, seconds: float = 20.0) -> int:
        """Wait until the program has ended; returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            self._read(_QUIET)
            assert time.monotonic() < deadline, f"it did not end\n{self.text}"
        self._read(_QUIET)
        return self._process.returncode

    def close(self) -> None:
        """End the program, whatever it does."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        """Take in what comes within some time; False if nothing does."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the program has ended
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def clinic(directory: Path) -> list[str]:
    """A small database with its policy in a directory; the arguments of a shell on it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "policies.yaml").write_text(POLICY, encoding="utf-8")
    with duckdb.connect(str(directory / "clinic.duckdb")) as connection:
        for statement in DATA:
            connection.execute(statement)
    return ["shell", "clinic.duckdb", "--analyst", "ana"]


# -- the screens of the page ------------------------------------------------------------------

WARDS = "SELECT ward, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward;"
COSTS = "SELECT sex, AVG(cost) AS mean FROM visits GROUP BY sex;"
ENDLESS = "SELECT COUNT(DISTINCT entry) AS entries FROM log;"


def _asked(terminal: Terminal) -> str:
    terminal.run(WARDS)
    return terminal.run("\\plot")


def _completed(terminal: Terminal) -> str:
    terminal.send("SELECT ward, COUNT(*) AS visits\r")
    terminal.see("...")
    terminal.type("FROM visits v GROUP BY v.")
    terminal.send("\t")
    return terminal.see("cost")


def _agreed(terminal: Terminal) -> str:
    terminal.run("SET epsilon = 2;")
    terminal.type(COSTS)
    terminal.send("\r")
    terminal.see("[y/N]")
    terminal.send("n\r")
    screen = terminal.see(lambda: terminal.waits)
    terminal.run("RESET epsilon;")
    return screen


def _cancelled(terminal: Terminal) -> str:
    terminal.type(ENDLESS)
    terminal.send("\r")
    terminal.see("Ctrl-C cancels")
    terminal.send("\x03")
    return terminal.see(lambda: terminal.waits)


def _told(terminal: Terminal) -> str:
    return terminal.run("\\history")


SCREENS: dict[str, tuple[Callable[[Terminal], str], tuple[str, ...]]] = {
    "ask": (_asked, (WARDS, "\\plot", "┊ threshold")),
    "complete": (_completed, ("SELECT ward, COUNT(*) AS visits", "patient_id", "cost")),
    "confirm": (_agreed, (COSTS, "Run it? [y/N] n", "Not run. Nothing was spent.")),
    "cancel": (_cancelled, (ENDLESS, "Cancelled. It took ε")),
    "history": (_told, ("\\history", "ε 0.5, held")),
}
"""Each screen of the page: how it comes about, and what is on it whatever the noise."""


def taken() -> dict[str, str]:
    """All screens, from one shell."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        arguments = clinic(directory)
        with duckdb.connect(str(directory / "clinic.duckdb")) as connection:
            connection.execute(
                "CREATE VIEW log AS SELECT TRY(i % 1000) AS patient_id, i AS entry "
                "FROM range(1_000_000_000_000) t(i)"
            )
        unit = "    privacy_unit: {name: patient, column: patient_id}\n"
        (directory / "policies.yaml").write_text(f"{POLICY}  log:\n{unit}", encoding="utf-8")
        terminal = Terminal(arguments, directory, columns=96, lines=42)
        try:
            terminal.see(lambda: terminal.waits)
            found = {}
            for screen, (typed, _) in SCREENS.items():
                found[screen] = re.sub(r"\n\n+(?=.*\Z)", "\n\n", typed(terminal))
                terminal.send("\x03")
                terminal.see(lambda: terminal.waits)
                terminal.clear()
        finally:
            terminal.close()
        return found


def block(name: str) -> re.Pattern[str]:
    """A screen of the page: what stands before it, the screen, and what stands after it."""
    return re.compile(rf"(<!-- screen: {name} -->\n```text\n)(.*?)(\n?```\n)", re.DOTALL)


def _filled(text: str, found: re.Match[str]) -> str:
    return f"{found[1]}{text}\n```\n"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, text in taken().items():
        page, places = block(name).subn(partial(_filled, text), page)
        assert places == 1, f"the page has no place for the screen {name}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
