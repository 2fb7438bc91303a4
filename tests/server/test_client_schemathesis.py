"""schemathesis, which makes requests of the description of the routes, good ones and bad ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.http_serving import HttpServing, filled_with_tokens, http_started

from dpsql.server.audit import verify_audit

pytest.importorskip("schemathesis")
pytestmark = pytest.mark.slow

EXAMPLES = 15
# Whether a statement is answered does not follow from the description; it calls 413 no refusal.
SETTINGS = """
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = [
  "400", "401", "402", "403", "404", "405", "406", "409", "413", "415", "422", "429", "503"
]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServing]:
    found = http_started(tmp_path, filled_with_tokens(tmp_path))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()
    verify_audit(tmp_path / "audit.jsonl")


@pytest.mark.parametrize("user", ["ana", "olga"])
def test_requests_of_the_description_are_answered_as_it_says(
    user: str, server: HttpServing
) -> None:
    (server.directory / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    command += ["run", f"{server.url}/v1/openapi.json", "--no-color", "--continue-on-failure"]
    command += ["--header", f"Authorization: Bearer {server.tokens[user]}"]
    found = subprocess.run(
        [*command, "--max-examples", str(EXAMPLES)],
        cwd=server.directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
