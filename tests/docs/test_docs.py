"""The README runs as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    lines = "\n".join(blocks("console")).splitlines()
    shown = [line.removeprefix("$ ").split(" #")[0].strip() for line in lines]
    return [command for command in shown if command]


@pytest.mark.slow
def test_python_examples_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "patients" in printed
    assert "eyes" in printed
    assert len(names["rows"]) == 3  # type: ignore[arg-type]


def test_every_command_shown_is_checked() -> None:
    known = (
        "make demo",
        "make test",
        "source .venv/bin/activate",
        "dpsql ",
        "pip install .",
        "pip install '.",
    )
    assert commands()
    assert all(command.startswith(known) for command in commands())


@pytest.mark.slow
def test_commands_run_as_printed(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text((ROOT / "policies.yaml").read_text(encoding="utf-8"))
    run = [sys.executable, "-m", "dpsql"]
    subprocess.run([*run, "demo"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    shown = [command for command in commands() if command.startswith("dpsql ")]
    assert len(shown) >= 5
    for command in shown:
        words = shlex.split(command)[1:]
        done = subprocess.run(
            [*run, *words],
            cwd=tmp_path,
            input="\\dt",  # what a shell is told
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout or "--output" in words


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_files_that_pages_name_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    named = re.findall(r"`((?:tests|dpsql|sql|mechanisms|engines)/[\w./]+\.py)`", text)
    for name in linked:
        assert (ROOT / name).exists(), name
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "dpsql" / name).exists(), name
