"""Questions of others through the tools for language models, as a client asks them.

Run with ``make agents`` or ``python benchmarks/agents.py [CORPUS …]``. The statements of
benchmarks/statements/ are put to ``ask`` one after the other, on tables of a few rows. Of a refusal
a client reads the proposed statement and asks that, once, without any thought of its own:

* first: accepted at the first try;
* second: accepted as the refusal proposed it;
* never: refused, with nothing proposed that is answered.

Those that ask for what is never released, such as rows, or groups of one unit, are counted apart.

Of every tenth question that is accepted at the first try, CPU of ``ask`` is compared with the same
question in a session of its own, in process. It was asked before of both, so that preparation and
reply are all there is. The tokens of an answer are its characters over four, of the short text and
of the reply as JSON.

How soon ``dpsql mcp`` answers is CPU of its process from the start to the reply of three calls one
after the other, on the demo's tables: the least of several starts. Beside it stands what it takes
to import the packages that it is built on, by which other machines can be compared.

Prints a table and writes benchmarks/results/agents.json and the table of docs/how-to/agents.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from statements import ANALYST, CORPORA, ROOT, Statement, built, parsed, policy_of

from dpsql.agents.tools import Toolbox, ToolOutcome
from dpsql.interfaces.demo.data import demo_database
from dpsql.policy.model import AgentPolicy
from dpsql.service.opening import open_dataset
from dpsql.service.session import Dataset

RESULTS = ROOT / "benchmarks" / "results" / "agents.json"
PAGE = ROOT / "docs" / "how-to" / "agents.md"
KINDS = ("analysts", "bi_tools", "bird", "cwida", "defog", "metrics_layers", "spider", "vendors")
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
ROWS = 20
REPEATS = 5
TIMED = 10  # every so many
STARTS = 5
FLIGHTS = "SELECT month, COUNT(*) AS flights FROM flights GROUP BY month"
PACKAGES = "import click, duckdb, numpy, pydantic, ruamel.yaml, sqlglot.dialects.duckdb"


@dataclass(frozen=True)
class Asked:
    """What became of one question; times in milliseconds of CPU, sizes in tokens."""

    corpus: str
    statement: str
    tries: int | None  # None: never
    code: str | None  # of the first refusal
    rule: str | None = None  # what forbids an answer; None of answerable statements
    tool: float | None = None
    direct: float | None = None


@dataclass(frozen=True)
class Sizes:
    """Tokens of an answer of twenty rows."""

    text: int
    reply: int


@dataclass(frozen=True)
class Start:
    """CPU of a process of ``dpsql mcp`` from its start to each reply, in seconds."""

    tables: float
    explain: float
    ask: float
    packages: float  # of importing what it is built on, and no dpsql


def least(work: Callable[[], object]) -> float:
    """The least CPU of several runs, in milliseconds: others only add to it."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        found.append(1000 * (time.process_time() - start))
    return round(min(found), 2)


def ask(box: Toolbox, sql: str, epsilon: float | None = None) -> ToolOutcome:
    found = box.call("ask", {"sql": sql, "epsilon": epsilon})
    assert isinstance(found, ToolOutcome)
    return found


def rows(dataset: Dataset, sql: str) -> None:
    """Ask in process, in a session of its own as each call has one."""
    with dataset.session(ANALYST, session="benchmark") as session:
        session.sql(sql).fetchall()


def followed(box: Toolbox, sql: str) -> tuple[int | None, str | None]:
    """At which try a question is accepted, and the code of its first refusal."""
    first = ask(box, sql)
    if not first.refused:
        return 1, None
    told: Any = first.structured["refused"]
    proposed = told["accepted"]
    if proposed is None:
        return None, told["code"]
    second = ask(box, proposed["sql"], proposed["epsilon"])
    return None if second.refused else 2, told["code"]


def asked(corpus: str, world: str, statements: list[Statement]) -> Iterator[Asked]:
    """What becomes of each statement of a corpus."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        ledger = place / "budget.db"
        with open_dataset(built(world, place), policy_of(world), ledger) as dataset:
            box = Toolbox.of(dataset, ANALYST, "benchmark", AgentPolicy())
            for number, statement in enumerate(statements):
                sql = statement.text
                tries, code = followed(box, sql)
                found = Asked(corpus, statement.name, tries, code, statement.rule)
                if tries == 1 and number % TIMED == 0:
                    direct, tool = least(partial(rows, dataset, sql)), least(partial(ask, box, sql))
                    found = replace(found, tool=tool, direct=direct)
                yield found


def sizes() -> Sizes:
    """The tokens of an answer of twenty rows: of a key, a count and a mean with their intervals."""
    policy = (
        "version: 1\ndataset: shop\naccounts: {ana: {epsilon: 10, delta: 1e-6}}\ntables:\n"
        "  orders:\n    privacy_unit: {name: user, column: user_id}\n"
        f"    columns: {{hour: {{domain: {list(range(ROWS))}}}, "
        "amount: {lower: 0, upper: 100}}\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with duckdb.connect(str(place / "shop.duckdb")) as owner:
            owner.execute(
                "CREATE TABLE orders AS SELECT i AS user_id, i % 20 AS hour, i % 100 AS amount "
                "FROM range(20000) AS r(i)"
            )
        (place / "policies.yaml").write_text(policy, encoding="utf-8")
        with open_dataset(
            place / "shop.duckdb", place / "policies.yaml", place / "budget.db"
        ) as dataset:
            box = Toolbox.of(dataset, ANALYST, "benchmark", AgentPolicy())
            found = ask(
                box,
                "SELECT hour, COUNT(*) AS orders, AVG(amount) AS mean FROM orders GROUP BY hour",
            )
    assert not found.refused, found.text
    return Sizes(len(found.text) // 4, len(json.dumps(found.structured)) // 4)


def cpu_of(process: int) -> float:
    """The CPU that a process has taken, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_bytecode(place: Path) -> dict[str, str]:
    """The environment of a process whose modules are compiled once, as those of a package are."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(place)}
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    return given


def replies_cpu(
    database: Path, policies: Path, analyst: str, sql: str, environment: dict[str, str]
) -> list[float]:
    """CPU of one process until it has answered ``tables``, ``explain`` and ``ask``."""
    client = {"name": "benchmark", "version": "1"}
    hello: dict[str, object] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": client,
    }
    calls: list[tuple[str, dict[str, object]]] = [
        ("initialize", hello),
        ("tools/call", {"name": "tables", "arguments": {}}),
        ("tools/call", {"name": "explain", "arguments": {"sql": sql}}),
        ("tools/call", {"name": "ask", "arguments": {"sql": sql}}),
    ]
    found = []
    with tempfile.TemporaryDirectory() as place:
        given = ["-d", database, "-p", policies, "-l", Path(place) / "budget.db", "-a", analyst]
        command = [sys.executable, "-m", "dpsql", "mcp", *map(str, given)]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=null, text=True, env=environment
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            for number, (method, params) in enumerate(calls):
                sent = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                server.stdin.write(f"{json.dumps(sent)}\n")
                server.stdin.flush()
                reply = next(r for r in map(json.loads, server.stdout) if r.get("id") == number)
                assert not reply["result"].get("isError"), reply
                found.append(cpu_of(server.pid))
            server.stdin.close()
    return found[1:]


def packages_cpu(environment: dict[str, str]) -> float:
    """CPU of a process that imports what the tools are built on."""
    timed = f"import time; {PACKAGES}; print(time.process_time())"
    command = [sys.executable, "-c", timed]
    found = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return float(found.stdout)


def start(database: Path, policies: Path, analyst: str, sql: str, starts: int = STARTS) -> Start:
    """How soon a process answers, the least of several; the first one only writes bytecode."""
    with tempfile.TemporaryDirectory() as place:
        environment = with_bytecode(Path(place))
        given = database, policies, analyst, sql, environment
        replies_cpu(*given)
        found = [replies_cpu(*given) for _ in range(starts)]
        packages = min(packages_cpu(environment) for _ in range(starts))
    tables, explain, asked_first = (min(each) for each in zip(*found, strict=True))
    return Start(tables, explain, asked_first, packages)


def demo_start() -> Start:
    """How soon a process answers on the demo's tables."""
    with tempfile.TemporaryDirectory() as place:
        return start(demo_database(Path(place)), ROOT / "policies.yaml", "ana", FLIGHTS)


def table(outcomes: list[Asked], size: Sizes, began: Start) -> str:
    """The figures, as docs/how-to/agents.md has them."""
    lines = [
        "| Written by | Questions | First try | Second | Never |",
        "|---|--:|--:|--:|--:|",
    ]
    answerable = [each for each in outcomes if each.rule is None]
    for name in (*dict.fromkeys(each.corpus for each in answerable), "**all**"):
        of = [each for each in answerable if name in (each.corpus, "**all**")]
        counts = Counter(each.tries for each in of)
        lines.append(f"| {name} | {len(of)} | {counts[1]} | {counts[2]} | {counts[None]} |")
    added = sorted(
        each.tool - each.direct
        for each in outcomes
        if each.tool is not None and each.direct is not None
    )
    p95 = added[int(0.95 * (len(added) - 1))]
    forbidden = [each for each in outcomes if each.rule is not None]
    taught = sum(each.tries == 2 for each in forbidden)
    lines += [
        "",
        f"{len(forbidden)} more ask for what is never released: rows, groups of one unit, changes. "
        f"Of {taught} of these the refusal proposes a statement that is answered.",
        "",
        f"`ask` adds {statistics.median(added):.1f} ms of CPU to a question in process "
        f"(95% of questions: at most {p95:.1f} ms). An answer of {ROWS} rows with a count and a "
        f"mean has {size.text:,} tokens of text, and {size.reply:,} as JSON.",
        "",
        f"`dpsql mcp` has answered `tables` after {began.tables:.2f} s of CPU from its start, "
        f"`explain` after {began.explain:.2f} s and the first `ask` after {began.ask:.2f} s. "
        f"{began.packages:.2f} s of that is the import of the packages that it is built on.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", help="corpora to ask; those of KINDS by default")
    options = parser.parse_args()
    outcomes: list[Asked] = []
    for name in options.corpora or KINDS:
        world, statements = parsed(CORPORA / f"{name}.sql")
        outcomes += asked(name, world, statements)
    figures = table(outcomes, sizes(), demo_start())
    print(figures)
    never = [each for each in outcomes if each.tries is None]
    for each in never:
        print(f"{each.corpus}: {each.code}: {each.statement[:100]}")
    if options.corpora:
        return
    listed = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in outcomes)
    RESULTS.write_text(f"[\n{listed}\n]\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{figures}\n{END}", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
