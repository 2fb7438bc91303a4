"""What contributors are told is true: pages, commands, checks, decision records."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from helpers.present import present
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
TOLD = [*PAGES, ROOT / "docs" / "release.md", *DECISIONS]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name: str | Path) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def yaml(name: str) -> Any:
    return YAML(typ="safe").load(text_of(name))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_the_pages_beside_the_readme_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        target = ROOT / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.stem)
def test_files_and_targets_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(r"`((?:tests|docs|\.ci)/[\w./]*)`", text_of(page)):
        assert (ROOT / name).exists(), name
    assert set(re.findall(r"\bmake ([\w-]+)`", text_of(page))) <= targets()


def test_the_recipes_name_modules_that_are_there() -> None:
    named = re.findall(r"`(?:[^`]* of )?(dpsql/[\w./]*)`", text_of("CONTRIBUTING.md"))
    assert "dpsql/privacy/mechanisms/registry.py" in named
    for name in named:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_is_short_complete_and_listed(page: Path) -> None:
    text = text_of(page)
    assert len(text.splitlines()) <= 40
    titles = ["Context", "Decision", "Consequences", "What would change it"]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == titles
    (number,) = re.findall(r"^# (\d+)\. ", text)
    assert int(page.name[:4]) == int(number)
    assert f"| [{number}]({page.name}) |" in text_of("docs/decisions/README.md")


def test_every_push_runs_the_checks_on_every_python_that_is_supported() -> None:
    jobs = yaml(".github/workflows/ci.yml")["jobs"]
    steps = {name: [s["run"] for s in job["steps"] if "run" in s] for name, job in jobs.items()}
    assert steps["quick"] == ["make lint", "make types", "make test"]
    assert steps["everything"] == [".ci/run"]
    assert {line.split()[1] for run in steps.values() for line in run if "make" in line} <= (
        targets()
    )
    versions = jobs["quick"]["strategy"]["matrix"]["python"]
    assert versions == [f"3.{minor}" for minor in range(11, 15)]
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_the_lowest_versions_are_those_of_the_project() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "lowest"], capture_output=True, text=True, check=True
    )
    lowest = dict(line.split("==") for line in done.stdout.splitlines())
    for requirement in PROJECT["dependencies"]:
        name, version = present(re.match(r"([\w.-]+)[>=]=([\w.]+)", requirement)).groups()
        if name == "duckdb":  # `dev` names one: make duckdb-versions has the others
            assert name not in lowest
            continue
        assert lowest.pop(name) == version
    extras = {"pyarrow", "pandas", "polars", "psycopg", "sqlalchemy", "prompt-toolkit"}
    assert lowest.keys() > extras
    assert not lowest.keys() & {"pytest", "ruff", "mypy"}


def test_hooks_run_tools_that_the_environment_has() -> None:
    tools = {present(re.match(r"[\w-]+", requirement))[0] for requirement in extra("dev")}
    hooks = [hook for repo in yaml(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    entries = [shlex.split(hook["entry"])[0] for hook in hooks]
    assert {Path(entry).name for entry in entries} == {"ruff", "mypy"}
    assert {Path(entry).name for entry in entries} <= tools
    assert {str(Path(entry).parent) for entry in entries} == {".venv/bin"}
    assert {"build", "twine"} <= tools  # make dist


def extra(name: str) -> list[str]:
    found: list[str] = PROJECT["optional-dependencies"][name]
    return found
