"""The guide from a file to psql, a notebook and an agent: its commands, in order, in one shell."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.guides import OF_A_SHELL
from helpers.serving import psql_program


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.mark.slow
def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    psql_program()
    blocks = re.findall(r"^```sh\n(.*?)^```", OF_A_SHELL.read_text(), re.MULTILINE | re.DOTALL)
    script = "set -e\n" + "\n".join(blocks)
    for port in ("5439", "8439"):
        script = script.replace(port, free_port())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-m", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
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
