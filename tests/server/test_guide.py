"""The guide from a file to psql, a notebook and an agent: its commands, in order, in one shell."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from helpers.guides import OF_A_SHELL
from helpers.serving import psql_program

ROOT = Path(__file__).parents[2]


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
"""


def not_installed(guide: str) -> set[str]:
    """The modules of extras that the guide does not name, and that none of those needs."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.search(r"pip install '\.\[([a-z,]+)\]'", guide)
    assert named is not None
    asked = [
        *extras["dependencies"],
        *(each for one in named[1].split(",") for each in extras["optional-dependencies"][one]),
    ]
    there = set[str]()
    while asked:
        found = re.match(r"[\w.-]+", asked.pop())
        assert found is not None
        name = found[0].lower().replace("_", "-")
        if name not in there:
            there.add(name)
            with suppress(metadata.PackageNotFoundError):
                needs = metadata.requires(name) or []
                asked += [each for each in needs if "extra ==" not in each]
    others = {"pandas", "polars", "matplotlib", "sqlalchemy", "mcp", "jwt", "argon2"}
    of = metadata.packages_distributions()
    return {
        module
        for module in others
        if not {each.lower().replace("_", "-") for each in of.get(module, [])} & there
    }


@pytest.mark.slow
def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    psql_program()
    blocks = re.findall(r"^```sh\n(.*?)^```", OF_A_SHELL.read_text(), re.MULTILINE | re.DOTALL)
    script = "set -e\n" + "\n".join(blocks)
    for port in ("5439", "8439"):
        script = script.replace(port, free_port())
    (tmp_path / "sitecustomize.py").write_text(
        BLOCKED.format(names=not_installed(OF_A_SHELL.read_text()))
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-m", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "The policies fit the database." in said
    assert "cost: epsilon 0.5" in done.stderr  # psql's notice
    assert re.search(r"cardiology \|\s+[\d,]+ \|", said)
    assert "paid for before" in said
    assert "'ask', " in said or "'ask']" in said
    assert "SUM(cost)" in said  # in the history
    assert "each fits the one before" in said
