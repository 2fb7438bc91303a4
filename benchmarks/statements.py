"""How much of the SQL that other people write is answered.

Run with ``make statements`` or ``python benchmarks/statements.py [CORPUS …]``.
benchmarks/statements/ has a file for each kind of writer: benchmarks, dashboards, metrics layers,
language models, other systems with differential privacy, analysts. Above each statement stands what
it deserves:

* ``answerable``: its output is aggregates, or keys of groups that are not one unit's, and each step
  has a mechanism that is known from the literature, whether dpsql has it or not;
* ``refused: RULE``: a rule of docs/sql.md forbids it (``RULES``).

Each is explained: nothing is executed, and nothing is paid. Prints a table, and writes
benchmarks/results/statements.json and docs/statements.md. The statements of TPC-DS come from
DuckDB's extension, which lies in ``--tpcds DIRECTORY``; without it, its corpus is left as it was
measured last.
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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

import dpsql
from dpsql.errors import Error

HERE = Path(__file__).parent
ROOT = HERE.parent
CORPORA = HERE / "statements"
WORLDS = CORPORA / "worlds"
RESULTS = HERE / "results" / "statements.json"
PAGE = ROOT / "docs" / "statements.md"
TPCH = ROOT / "tests" / "tpch"
ANALYST = "ana"
SHOWN = 110
NUMBERED = ("tpcds", "tpch")  # corpora whose statements are known by their numbers

# Why a statement may not be answered, by the section of docs/sql.md that says so.
RULES = {
    "rows": ("sql", "rows of the data, or values of single rows, would leave"),
    "unit-keys": ("groups", "each group would be one unit's"),
    "joins": ("joins", "rows of several units would meet in one"),
    "conditions": ("conditions", "a text is compared with a number"),
    "other-statements": ("other-statements", "it is no question"),
    "names": ("names-of-tables", "there is no such table or column"),
    "invalid": ("sql", "it is no SQL of any system: it fails for every data"),
}

# What makes the tables of TPC-DS, and prints its statements: run where DuckDB's extension is.
TPCDS = """
import json, sys, duckdb, duckdb_extensions
duckdb_extensions.import_extension("tpcds")
con = duckdb.connect(sys.argv[1])
con.execute("LOAD tpcds")
con.execute("CALL dsdgen(sf = 0)")
print(json.dumps([text for (text,) in con.execute(
    "SELECT query FROM tpcds_queries() ORDER BY query_nr").fetchall()]))
"""


@dataclass(frozen=True)
class Statement:
    """One statement, and what it deserves: ``rule`` is None if an answer."""

    corpus: str
    name: str
    text: str
    rule: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of one statement: ``code`` is None if it is answered."""

    corpus: str
    statement: str
    rule: str | None
    code: str | None
    reason: str | None
    milliseconds: float


def shortened(text: str) -> str:
    """The statement on one line."""
    return re.sub(r"\s+", " ", re.sub(r"--[^\n]*", " ", text)).strip().rstrip(";")


def parsed(path: Path) -> tuple[str, list[Statement]]:
    """The world of a corpus, and its statements with their verdicts."""
    head, *parts = re.split(
        r"^-- (answerable|refused: [a-z-]+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    world = re.search(r"^-- world: (\w+)$", head, re.MULTILINE)
    assert world is not None, f"{path.name} names no world"
    found = []
    for verdict, text in zip(parts[::2], parts[1::2], strict=True):
        rule = verdict.partition(": ")[2] or None
        assert rule is None or rule in RULES, rule
        found.append(Statement(path.stem, shortened(text), text.strip().rstrip(";"), rule))
    return world[1], found


def tpch() -> list[Statement]:
    """The statements of TPC-H, without the view that one of them makes and drops."""
    found = []
    for path in sorted((TPCH / "original").glob("*.sql")):
        text = path.read_text(encoding="utf-8").strip()
        if "create view" in text:
            continue
        rule = {"q03": "unit-keys", "q10": "unit-keys", "q18": "unit-keys"}.get(path.stem)
        found.append(Statement("tpch", path.stem.upper(), text.rstrip(";"), rule))
    return found


def tpcds(packages: Path, database: Path) -> list[Statement]:
    """The statements of TPC-DS, and an empty database for them."""
    made = subprocess.run(
        [sys.executable, "-c", TPCDS, str(database)],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    forbidden = {}  # by number: what names single units
    rules = (CORPORA / "tpcds.rules").read_text(encoding="utf-8")
    for number, rule in re.findall(r"^(\d+) ([a-z-]+)$", rules, re.MULTILINE):
        forbidden[int(number)] = rule
    return [
        Statement("tpcds", f"Q{number}", text.strip().rstrip(";"), forbidden.get(number))
        for number, text in enumerate(json.loads(made.stdout), start=1)
    ]


def asked(statements: list[Statement], database: Path, policy: Path) -> Iterator[Outcome]:
    """What becomes of each statement on one connection."""
    with (
        tempfile.TemporaryDirectory() as directory,
        dpsql.connect(database, policy, Path(directory) / "budget.db", ANALYST) as con,
    ):
        for statement in statements:
            code = reason = None
            start = time.process_time()
            try:
                con.explain(statement.text)
            except Error as error:
                code, reason = error.code, error.reason
            except Exception as error:  # noqa: BLE001 - a crash is an outcome, and the worst
                code, reason = "crash", f"{type(error).__name__}: {error}"
            spent = round(1000 * (time.process_time() - start), 1)
            yield Outcome(statement.corpus, statement.name, statement.rule, code, reason, spent)


def measured(names: list[str], packages: Path | None) -> list[Outcome]:
    """Every corpus of these names, or every one, asked in its world."""
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as directory:
        for path in sorted(CORPORA.glob("*.sql")):
            if names and path.stem not in names:
                continue
            world, statements = parsed(path)
            found += asked(statements, built(world, Path(directory)), policy_of(world))
        if not names or "tpch" in names:
            found += asked(tpch(), built("tpch", Path(directory)), policy_of("tpch"))
        if packages is not None and (not names or "tpcds" in names):
            database = Path(directory, "tpcds.duckdb")
            found += asked(tpcds(packages, database), database, policy_of("tpcds"))
    return found


def policy_of(world: str) -> Path:
    return TPCH / "policies.yaml" if world == "tpch" else WORLDS / f"{world}.yaml"


def built(world: str, directory: Path) -> Path:
    """The database of a world: its tables, with few rows or none."""
    path = directory / f"{world}.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as owner:
            if world == "tpch":
                owner.execute((TPCH / "schema.sql").read_text(encoding="utf-8"))
            owner.execute((WORLDS / f"{world}.sql").read_text(encoding="utf-8"))
    return path


def row(name: str, outcomes: list[Outcome]) -> list[str]:
    """One line of the table."""
    answerable = [each for each in outcomes if each.rule is None]
    accepted = sum(each.code is None for each in answerable)
    rightly = sum(each.rule is not None and each.code is not None for each in outcomes)
    times = sorted(each.milliseconds for each in outcomes)
    share = f"{100 * accepted / len(answerable):.0f}" if answerable else "–"
    return [
        name,
        *map(str, (len(outcomes), len(answerable), accepted)),
        share,
        str(rightly),
        f"{statistics.median(times):.0f} / {times[int(0.95 * (len(times) - 1))]:.0f}",
    ]


def table(outcomes: list[Outcome]) -> str:
    """What is accepted, by corpus."""
    corpora = sorted({each.corpus for each in outcomes})
    lines = [
        "| Corpus | Statements | Answerable | Accepted | % | Rightly refused | CPU ms |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in corpora:
        lines.append(
            f"| {' | '.join(row(name, [each for each in outcomes if each.corpus == name]))} |"
        )
    return "\n".join([*lines, f"| {' | '.join(row('**all**', outcomes))} |"])


def blockers(outcomes: list[Outcome]) -> str:
    """What refuses answerable statements, the most frequent first."""
    refused = [each for each in outcomes if each.rule is None and each.code is not None]
    counts = Counter(each.code for each in refused)
    lines = ["| First blocker | Statements | Such as |", "|---|--:|---|"]
    for code, count in counts.most_common():
        of_code = [each for each in refused if each.code == code]
        example = min(of_code, key=lambda each: (each.corpus in NUMBERED, len(each.statement)))
        text = cut(example.statement, 100).replace("|", "\\|")
        lines.append(f"| [`{code}`](errors.md) | {count} | `{text}` |")
    return "\n".join(lines)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def verdict(outcome: Outcome) -> str:
    """What became of a statement, in one or two words."""
    if outcome.code is None:
        return "answered" if outcome.rule is None else f"ANSWERED, {outcome.rule}"
    return f"rightly, {outcome.rule}" if outcome.rule else outcome.code


def page(outcomes: list[Outcome]) -> str:
    """docs/statements.md."""
    rules = "\n".join(
        f"| {name} | {words} | [sql.md](sql.md#{section}) |"
        for name, (section, words) in RULES.items()
    )
    parts = [
        "# SQL that others write\n",
        "How much of it is answered. `make statements` makes this page from "
        "[benchmarks/statements](../benchmarks/statements): statements written as benchmarks, "
        "dashboards, metrics layers, language models, other systems with differential privacy and "
        "analysts write them, not to suit dpsql. *Answerable* is what is valid in its dialect, has "
        "aggregates alone as its output, or keys of groups that are not one unit's, and is made of "
        "steps that each have a known mechanism. What deserves a refusal has a rule:\n",
        f"| Rule | | Section |\n|---|---|---|\n{rules}\n",
        "Statements are explained, on tables of a few rows; a refused one counts under its first "
        "error. Those of TPC-H and TPC-DS are named by their numbers; CPU is median / p95.\n",
        table(outcomes),
        "\n## What is refused and need not be\n",
        blockers(outcomes),
    ]
    for corpus in sorted({each.corpus for each in outcomes}):
        lines = [
            f"{verdict(each):<26} {cut(each.statement, SHOWN)}"
            for each in outcomes
            if each.corpus == corpus
        ]
        parts.append(f"\n## {corpus}\n\n```text\n" + "\n".join(lines) + "\n```")
    return "\n".join(parts) + "\n"


def stored() -> list[Outcome]:
    """What was measured last."""
    if not RESULTS.exists():
        return []
    return [Outcome(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", help="corpora to ask; all of them by default")
    parser.add_argument("--tpcds", type=Path, help="where DuckDB lies with its extension tpcds")
    options = parser.parse_args()
    outcomes = measured(options.corpora, options.tpcds)
    fresh = {each.corpus for each in outcomes}
    outcomes += [each for each in stored() if each.corpus not in fresh]
    outcomes.sort(key=lambda each: each.corpus)
    print(table(outcomes))
    for each in outcomes:
        if each.corpus in fresh and (each.rule is None) != (each.code is None):
            print(
                f"{each.corpus}: {verdict(each)}: {cut(each.statement, SHOWN)}\n    {each.reason}"
            )
    listed = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in outcomes)
    RESULTS.write_text(f"[\n{listed}\n]\n", encoding="utf-8")
    PAGE.write_text(page(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
