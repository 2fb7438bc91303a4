"""A statement through a whole stack, as its users send it: paid for, answered and printed.

Noise differs from side to side, so what must be the same is what does not depend on it: columns,
types, the reservation, the refusal. An answer may fail over released rows (a tail that divides by
them), which tells nothing; reading must not fail at all.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from click.testing import CliRunner
from helpers.open_doors import DOORS, OpenDoors

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.policy.model import Policy
from dpsql.present.result_files import encoded
from dpsql.service.opening import open_dataset

from .grammar import Statement
from .nets import WATCH, Finding, call_all
from .values import MARKS
from .world import ANALYST, Pair, place_of

STACKS = ("api", "api", "api", "dbapi", "sqlalchemy", "shell", "query", "explain", *DOORS)
LARGEST = 1000  # epsilon of an account, in a file
FORMATS = ("csv", "json", "jsonl", "table", "markdown")


class _Told(Exception):
    """Carries what a door said of an error, and of which kind that is."""

    def __init__(self, label: str, text: str) -> None:
        super().__init__(text)
        self.label = label


_LABELS = {"engine_failed": "engine", "budget_exceeded": "budget", "tail_failed": "tail"}


def through(stack: str, pair: Pair, statement: Statement) -> tuple[str, list[Finding]]:
    """Send a statement on both sides; the label of what became of it, and findings."""
    if stack in DOORS and statement.values:
        stack = "api"  # values are written otherwise at each door
    ways: dict[str, Callable[[Pair, int, Statement], str]] = {
        "api": _api,
        "dbapi": _dbapi,
        "sqlalchemy": _sqlalchemy,
        "shell": _shell,
        "query": _query,
        "explain": _explain,
    }
    ways |= {door: partial(_at_door, door) for door in DOORS}
    run = ways[stack]
    said: list[tuple[str, str]] = []
    found: list[Finding] = []
    WATCH.start(lambda: call_all(_stops(pair)))
    try:
        for side in (0, 1):
            try:
                said.append(("answered", run(pair, side, statement)))
            except _Told as told:
                said.append((told.label, str(told)))
            except dpsql.Error as error:
                said.append((_label(error), f"{type(error).__name__} {error}"))
            except sa.exc.DBAPIError as error:
                inner = error.orig
                label = _label(inner) if isinstance(inner, dpsql.Error) else "raw"
                said.append((label, str(inner)))
            except Exception as error:  # noqa: BLE001
                said.append(("raw", f"{type(error).__name__}: {str(error)[:120]}"))
    finally:
        WATCH.end()
    labels = [label for label, _ in said]
    if WATCH.stopped:
        pair.reopen()
        return f"{stack}: stopped", []
    for label, text in said:
        if label == "raw":
            found.append(Finding("exception", f"{stack}: {text}"))
            break
    if "engine" in labels:
        where = "on both sides" if labels == ["engine"] * 2 else "on one side"
        found.append(Finding("totality", f"{stack}: the engine failed {where} after payment"))
    if labels == ["refused"] * 2 or labels == ["answered"] * 2:
        if said[0][1] != said[1][1]:
            found.append(
                Finding("cost", f"{stack}: sides differ", f"{said[0][1][:90]} {said[1][1][:90]}")
            )
    elif set(labels) == {"refused", "answered"}:
        found.append(Finding("cost", f"{stack}: refused on one side"))
    for label, text in said:
        if label != "answered" and any(mark in text for mark in MARKS):
            found.append(Finding("leak", f"{stack}: a value of a row in an error", text[:120]))
            break
    if "engine" in labels or "budget" in labels:
        pair.reopen()
    return f"{stack}: {labels[1]}", found


def _stops(pair: Pair) -> list[Callable[[], None]]:
    """What ends whatever is being asked."""
    return [*(c.interrupt for c in pair.sides), *(d.vanish for d in pair.doors.values())]


def _label(error: dpsql.Error) -> str:
    if isinstance(error, dpsql.EngineError):
        return "engine"
    if isinstance(error, dpsql.BudgetExceeded):
        return "budget"
    return "tail" if isinstance(error, dpsql.DataError) else "refused"


def _values(statement: Statement) -> Any:
    return statement.values


_BOUNDS: dict[str, Any] = {"max_groups_contributed": 10, "max_rows_contributed": 10}


def _given(statement: Statement) -> dict[str, Any]:
    """Parameters with bounds: else each side draws its own, and goes on from what came out."""
    asked = {name: each for name, each in statement.parameters.items() if each != "auto"}
    return _BOUNDS | asked


def _api(pair: Pair, side: int, statement: Statement) -> str:
    result = pair.sides[side].sql(
        statement.text,
        _values(statement),
        fresh=True,
        **_given(statement),
    )
    result.fetchall()
    str(result)
    with contextlib.suppress(dpsql.Error):
        result.intervals()
    for name in ("csv", "jsonl"):
        encoded(result, name, 0.95, False)
    reserved = result.cost.reserved  # up to the last digits, which may follow from drawn bounds
    price = [f"{each:.9g}" for each in (reserved.rho, reserved.delta, reserved.epsilon)]
    return repr((result.columns, result.types, price))


def _explain(pair: Pair, side: int, statement: Statement) -> str:
    explained = pair.sides[side].explain(
        statement.text,
        _values(statement),
        **_given(statement),
    )
    figures = [(b.mechanism, b.loss if hasattr(b, "loss") else "") for b in explained.blocks]
    return repr((figures, explained.tail, explained.reserved))


def _dbapi(pair: Pair, side: int, statement: Statement) -> str:
    cursor = pair.sides[side].cursor()
    cursor.execute(statement.text, _values(statement))
    cursor.fetchmany(2)
    cursor.fetchall()
    return repr(cursor.description)


def _at_door(door: str, pair: Pair, side: int, statement: Statement) -> str:
    """Ask at a door of a server; a refusal is compared with all that came with it."""
    if side not in pair.doors:
        database, policies, _ = _files(pair, side)
        place = Path(tempfile.mkdtemp(dir=pair.directory))
        dataset = open_dataset(database, policies, place / "budget.db")
        pair.doors[side] = OpenDoors(dataset, place / "server", [ANALYST])
    sent = pair.doors[side].ask(door, ANALYST, statement.text)
    if sent.code:
        label = "raw" if sent.internal else _LABELS.get(sent.code, "refused")
        raise _Told(label, sent.lasting)
    return sent.shape(door)


def _files(pair: Pair, side: int) -> tuple[Path, Path, Path]:
    policies = pair.directory / "policies.json"
    if not policies.exists():
        policies.write_text(json.dumps(as_file(pair.world.policy), default=str), "utf-8")
    name = ("without", "with_unit")[side]
    return (
        place_of(pair.directory, name),
        policies,
        pair.directory / f"{name}.{pair.opened}.files.ledger",
    )


def _sqlalchemy(pair: Pair, side: int, statement: Statement) -> str:
    database, policies, ledger = _files(pair, side)
    url = f"dpsql:///{database}?policies={policies}&ledger={ledger}&analyst={ANALYST}"
    engine = sa.create_engine(url)
    try:
        with warnings.catch_warnings(), engine.connect() as connection:
            warnings.simplefilter("ignore")
            found = connection.exec_driver_sql(statement.text, tuple(statement.values))
            found.fetchall()
            return repr(list(found.keys()))
    finally:
        engine.dispose()


def _invoke(*arguments: str, text: str | None = None) -> str:
    done = CliRunner().invoke(cli, list(arguments), input=text)
    raised = done.exception
    if raised is not None and not isinstance(raised, SystemExit):
        raise raised
    if "Traceback" in done.output:
        raise RuntimeError("a traceback is shown")
    if done.exit_code:
        if "[engine_failed]" in done.output:
            raise dpsql.EngineError()
        if any(mark in done.stderr for mark in MARKS):
            raise RuntimeError("a value of a row is shown")
    return str(done.exit_code)


def _shell(pair: Pair, side: int, statement: Statement) -> str:
    database, policies, ledger = map(str, _files(pair, side))
    where = ["-d", database, "-p", policies, "-l", ledger, "-a", ANALYST]
    return _invoke("shell", *where, "--keep-going", text=f"{statement.text};\nSHOW TABLES;")


def _query(pair: Pair, side: int, statement: Statement) -> str:
    database, policies, ledger = map(str, _files(pair, side))
    format_ = FORMATS[len(statement.text) % len(FORMATS)]
    where = ["-d", database, "-p", policies, "-l", ledger, "-a", ANALYST]
    return _invoke("query", *where, "-f", format_, "--intervals", "--", statement.text)


def as_file(policy: Policy) -> dict[str, Any]:
    """A policy as its file says it."""
    tables: dict[str, Any] = {}
    for table in policy.tables.values():
        entry: dict[str, Any] = {}
        if table.privacy_unit is not None:
            unit = table.privacy_unit
            entry["privacy_unit"] = {"name": unit.name, "column": unit.column}
        elif table.public:
            entry["public"] = True
        columns = dict(_columns(table.columns.items()))
        if columns:
            entry["columns"] = columns
        tables[str(table.name)] = entry
    return {
        "version": 1,
        "dataset": policy.dataset,
        "defaults": {
            "epsilon": policy.defaults.epsilon,
            "delta": policy.defaults.delta,
            **_BOUNDS,
        },
        "accounts": {
            n: {"epsilon": min(a.epsilon, LARGEST), "delta": a.delta}
            for n, a in policy.accounts.items()
        },
        "tables": tables,
        "links": [
            f"{table.name}.{_ends(link.columns)} -> {link.parent}.{_ends(link.parent_columns)}"
            for table in policy.tables.values()
            for link in table.links
        ],
    }


def _ends(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"


def _columns(columns: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, column in columns:
        if column.domain is not None:
            yield name, {"domain": list(column.domain)}
        elif column.lower is not None:
            yield name, {"lower": column.lower, "upper": column.upper}
