"""The wheel as its users meet it: built, installed beside nothing else, run from somewhere else."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dpsql

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MINUTES = 10


def run(*command: str | Path, place: Path, minutes: int = 1) -> str:
    """What a command prints in a directory that has nothing to do with this one."""
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DPSQL_"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=place,
        env=alone | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60 * minutes,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree, built by ``build``, or by pip where that is not installed."""
    place = tmp_path_factory.mktemp("wheel")
    # A builder that is here already need not be fetched.
    fetch = importlib.util.find_spec("hatchling") is None
    if importlib.util.find_spec("build") is not None:
        words: list[str | Path] = ["build", "--wheel", "--outdir", place]
        words += [] if fetch else ["--no-isolation"]
    else:
        words = ["pip", "wheel", "--no-deps", "--wheel-dir", place]
        words += [] if fetch else ["--no-build-isolation"]
    run(sys.executable, "-m", *words, ROOT, place=place, minutes=MINUTES)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are of an environment with the wheel and what it depends on."""
    place = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", place / "empty", place=place)
    found = place / "empty" / ("Scripts" if os.name == "nt" else "bin")
    run(found / "python", "-m", "pip", "install", wheel, place=place, minutes=MINUTES)
    return found


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dpsql").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    described = {name for name in inside if name.split("/")[0].endswith(".dist-info")}
    assert package - inside == set()
    (policies,) = inside - package - described  # those of the demo, from the top of the tree
    assert policies.endswith("demo_policies.yaml")
    assert any(name.endswith("policies.schema.json") for name in inside)
    assert any("/surveys/" in name for name in inside)
    assert "dpsql/py.typed" in inside
    assert {name.split("/", 1)[1] for name in described} >= {
        "METADATA",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_wheel_says_its_version(wheel: Path, commands: Path, tmp_path: Path) -> None:
    assert wheel.name.startswith(f"dpsql-{dpsql.__version__}-py3-none-any")
    assert run(commands / "dpsql", "--version", place=tmp_path).split()[-1] == dpsql.__version__


def test_what_is_imported_is_what_was_installed(commands: Path, tmp_path: Path) -> None:
    code = "import dpsql; print(dpsql.__file__)"
    found = Path(run(commands / "python", "-c", code, place=tmp_path).strip())
    assert found.is_relative_to(commands.parent)
    assert run(commands / "dpsql", "calibrate", "--help", place=tmp_path)


def test_the_quickstart_runs_with_the_wheel(commands: Path, tmp_path: Path) -> None:
    program = tmp_path / "quickstart.py"
    program.write_bytes((ROOT / "examples" / program.name).read_bytes())
    output = run(commands / "python", "-W", "error", program.name, place=tmp_path)
    assert len(re.findall(r"^\w+: between [\d,]+ and [\d,]+ patients$", output, re.M)) == 5
    assert "Refused: " in output
    assert "very rare disease" not in output


def test_the_readme_runs_with_the_wheel(commands: Path, tmp_path: Path) -> None:
    def blocks(language: str) -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)

    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks("python")), encoding="utf-8")
    output = run(commands / "python", "-W", "error", program.name, place=tmp_path)
    assert "eyes" in output
    assert output.strip().endswith("True")  # the second time, the answer is a stored one
