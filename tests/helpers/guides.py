"""Guides in Markdown, run from top to bottom: what a reader who types everything would see.

* ``yaml`` that starts with ``version:`` is ``policies.yaml``; other YAML is merged into it, so that
  a guide can show the lines it is about. What comes out must be a valid policy.
* ``python`` that starts with ``# name.py`` is saved as that file. Other Python runs; blocks share
  their names. What it prints is stated behind ``print(...)`` or in comments at the end, literally,
  but after a comment ``# for example`` only in shape.
* ``console`` holds commands behind ``$`` and, below one, what it prints, in shape. ``…`` on a line
  of its own stands for lines left out. ``dpsql`` runs in this process and must succeed unless
  ``# exit 2`` follows; what installs or clones is left to :data:`INSTALLING`.
* ``sql`` is explained on the guide's connection ``con``, statement by statement. One below a
  comment ``-- refused: code`` must be refused with that code.
* ``json`` is settings of other programs: it must be JSON.

Two texts have the same shape if they differ in numbers, spaces, bars and rules alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.policy.load import load_policy

DOCS = Path(__file__).parents[2] / "docs"
OF_A_SHELL = DOCS / "how-to" / "ten-minutes.md"
"""The guide whose commands ``tests/server/test_guide.py`` runs, in a shell."""
_HOW_TO = (page for page in (DOCS / "how-to").glob("*.md") if page != OF_A_SHELL)
GUIDES = [DOCS / "tutorial.md", *sorted(_HOW_TO), DOCS / "promise.md"]
SHELL = {"|", "<", ">", ">>", "&&"}
INSTALLING = ("pip install ", "git clone ", "cd ")
LEFT_OUT = "…"
POLICIES = Path("policies.yaml")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, how it must end, and what the guide shows of its output."""

    words: str
    exit_code: int
    shown: tuple[str, ...]


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page, in order: language and content."""
    return _FENCE.findall(text)


def commands(block: str) -> list[Command]:
    """The commands of a console block."""
    found: list[tuple[str, list[str]]] = []
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while _goes_on(command):
                joint = "" if command.endswith("\\") else "\n"
                command = command.removesuffix("\\") + joint + next(lines)
            found.append((command, []))
        else:
            found[-1][1].append(line)
    return [_command(words, shown) for words, shown in found]


def _goes_on(command: str) -> bool:
    """True if the next line belongs to the command: to text, a quotation, a backslash."""
    here = re.search(r"<<'(\w+)'\n?", command)
    if here is not None:
        return not command.endswith(f"\n{here[1]}")
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def _command(line: str, shown: list[str]) -> Command:
    words, _, comment = line.partition("  # ")
    code = re.fullmatch(r"exit (\d+)", comment.strip())
    return Command(words.strip(), int(code[1]) if code else 0, tuple(shown))


def shape(text: str) -> str:
    """What remains of a text without its numbers, hashes, line breaks and how long its bars are."""
    plain = re.sub(r"[█░─━╸╺^]+", "═", text)
    plain = re.sub(r"\b[0-9a-f]{8,}\b", "0", plain)
    plain = re.sub(r"-?\d[\d,.:]*(?:e[-+]?\d+)?", "#", plain)
    return re.sub(r"═(?: ═)*", "═", " ".join(plain.split()))


def fits(shown: list[str], printed: list[str]) -> bool:
    """True if lines that were printed have the shape of those that are shown."""
    parts = re.split(rf"^{LEFT_OUT}$", "\n".join(shown), flags=re.MULTILINE)
    pattern = ".*".join(re.escape(shape(part)) for part in parts)
    return re.fullmatch(pattern, shape("\n".join(printed))) is not None


class Guide:
    """One run of a guide, in the current directory."""

    def __init__(self, page: Path) -> None:
        self._text = page.read_text(encoding="utf-8")
        self._names: dict[str, Any] = {}
        self.ran = 0

    def run(self) -> None:
        """Run every block. Raises ``AssertionError`` where the guide and what happens differ."""
        kinds: Mapping[str, Callable[[str], object]] = {
            "yaml": self._policy,
            "python": self._python,
            "console": self._console,
            "sql": self._sql,
            "json": json.loads,
        }
        try:
            for language, content in blocks(self._text):
                assert language in kinds, f"blocks of {language} cannot be run"
                kinds[language](content)
                self.ran += 1
        finally:
            if isinstance(con := self._names.get("con"), dpsql.Connection):
                con.close()

    def _policy(self, content: str) -> None:
        yaml = YAML()
        given = yaml.load(content)
        if "version" not in given:
            given = _merged(yaml.load(POLICIES.read_text(encoding="utf-8")), given)
        with POLICIES.open("w", encoding="utf-8") as file:
            yaml.dump(given, file)
        load_policy(POLICIES)

    def _python(self, content: str) -> None:
        if (name := re.match(r"# (\w+\.py)\n", content)) is not None:
            Path(name[1]).write_text(content, encoding="utf-8")
            return
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(content, "guide", "exec"), self._names)
        printed = output.getvalue().splitlines()
        exact, example = stated(content)
        assert exact == printed[: len(exact)], f"{content}\nprinted:\n{output.getvalue()}"
        assert fits(example, printed[len(exact) :]), f"{content}\nprinted:\n{output.getvalue()}"

    def _console(self, content: str) -> None:
        for command in commands(content):
            if command.words.startswith(INSTALLING):
                continue
            code, printed = _run(command.words)
            assert code == command.exit_code, f"{command.words}\n{printed}"
            if command.shown:
                assert fits(list(command.shown), printed.splitlines()), (
                    f"{command.words}\nprinted:\n{printed}"
                )

    def _sql(self, content: str) -> None:
        con = self._names["con"]
        for code, statement in statements(content):
            if code is None:
                assert con.explain(statement).query == statement
                continue
            with pytest.raises(dpsql.Error) as raised:
                con.explain(statement)
            assert raised.value.code == code, statement


def stated(code: str) -> tuple[list[str], list[str]]:
    """What a block of Python says it prints: literally, and by example."""
    lines = code.splitlines()
    beside = [line.split(")  # ", 1)[1] for line in lines if re.search(r"print\(.*\)  # ", line)]
    below = [line[2:] for line in lines if line.startswith("# ")]
    cut = below.index("for example") if "for example" in below else len(below)
    return beside + below[:cut], below[cut + 1 :]


def statements(block: str) -> Iterator[tuple[str | None, str]]:
    """The statements of a block of SQL, each with the code of the refusal it must meet."""
    for part in re.split(r";\s*$", block, flags=re.MULTILINE):
        lines = part.strip().splitlines()
        codes = [m[1] for line in lines if (m := re.fullmatch(r"-- refused: (\w+)", line.strip()))]
        text = "\n".join(line for line in lines if not line.startswith("--"))
        if text:
            yield (codes[0] if codes else None), text


def _merged(into: Any, given: Any) -> Any:
    """YAML mappings merged key by key; anything else is replaced."""
    if not isinstance(into, dict) or not isinstance(given, dict):
        return given
    for key, value in given.items():
        into[key] = _merged(into[key], value) if key in into else value
    return into


def _run(command: str) -> tuple[int, str]:
    """The exit code of a command and all that it prints."""
    words = shlex.split(command)
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        os.environ[name] = value
        return 0, ""
    if words[0] == "dpsql" and not SHELL & set(words):
        done = CliRunner().invoke(cli, words[1:])
        return done.exit_code, done.output
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-c", command],
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout
