"""What is left of a finding: the smallest statement that still makes it, and the fewest rows.

Delta debugging on the syntax tree (a part gives way to what stands below it, or goes), on the
pieces of the text where the tree cannot be written back, and on the rows of the unit.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from dpsql.syntax.dialect import BoundedAggregate, PrivacyOption, PrivacyOptions, PrivateDuckDB

from .grammar import Statement
from .nets import Finding, examine
from .world import Pair

_PIECE = re.compile(r"'(?:[^']|'')*'|\w+|\s+|.", re.DOTALL)
_Bounded = Callable[[str], bool]


class _Writer(DuckDBGenerator):
    """DuckDB's, with dpsql's own clauses."""

    TRANSFORMS = {  # noqa: RUF012
        **DuckDBGenerator.TRANSFORMS,
        PrivacyOption: lambda self, e: f"{e.this} = {self.sql(e, 'expression')}",
        PrivacyOptions: lambda self, e: (
            f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({self.expressions(e, flat=True)})"
        ),
        BoundedAggregate: lambda self, e: (
            f"{self.sql(e, 'this')[:-1]}, {self.expressions(e, flat=True)})"
        ),
    }


def _written(tree: exp.Expr) -> str:
    return str(_Writer(dialect="duckdb").generate(tree))


def _parsed(text: str) -> exp.Expr | None:
    try:
        found = PrivateDuckDB().parse(text)
    except Exception:  # noqa: BLE001 (what the parser raises may be the finding)
        return None
    return found[0] if len(found) == 1 else None


def reduced(pair: Pair, statement: Statement, finding: Finding, seconds: float = 8.0) -> Statement:
    """A smaller statement with a finding of the same signature."""
    until = time.monotonic() + seconds

    def holds(candidate: Statement) -> bool:
        if time.monotonic() > until:
            return False
        try:
            found = examine(pair, candidate).findings
        except Exception:  # noqa: BLE001
            return False
        return any(f.signature == finding.signature for f in found)

    for parameters in ({}, *({k: v} for k, v in statement.parameters.items())):
        candidate = replace(statement, parameters=parameters)
        if holds(candidate):
            statement = candidate
            break
    text = _smaller(statement.text, lambda text: holds(replace(statement, text=text)), until)
    return replace(statement, text=text)


def _smaller(text: str, holds: _Bounded, until: float) -> str:
    tree = _parsed(text)
    if tree is not None and holds(_written(tree)):
        text = _written(tree)
        shrunk = True
        while shrunk and time.monotonic() < until:
            shrunk = False
            for candidate in _candidates(text):
                if len(candidate) < len(text) and holds(candidate):
                    text, shrunk = candidate, True
                    break
    return _fewer_pieces(text, holds, until)


def _candidates(text: str) -> Iterator[str]:
    """Smaller trees, those without most first."""
    tree = _parsed(text)
    if tree is None:
        return
    nodes = sum(1 for _ in tree.walk(bfs=True))
    for index in range(nodes):
        for change in range(8):
            copy = tree.copy()
            node = next(n for i, n in enumerate(copy.walk(bfs=True)) if i == index)
            if not _changed(node, change):
                break
            try:
                yield _written(copy)
            except Exception:  # noqa: BLE001
                continue


def _hoist(node: exp.Expr, below: exp.Expr) -> None:
    node.replace(below.copy())


def _changed(node: exp.Expr, change: int) -> bool:
    """Make one change; False if there are no more."""
    optional = [
        key
        for key, value in node.args.items()
        if value and not node.arg_types.get(key, True) and key not in ("this", "quoted")
    ]
    lists = [(k, i) for k, v in node.args.items() if isinstance(v, list) for i in range(len(v))]
    below = [c for c in node.iter_expressions() if not isinstance(c, exp.Identifier | exp.DataType)]
    options: list[Callable[[], Any]] = [partial(node.set, key, None) for key in optional]
    options += [
        partial(node.set, k, [v for j, v in enumerate(node.args[k]) if j != i]) for k, i in lists
    ]
    if node.parent is not None and not isinstance(node, exp.From | exp.Where | exp.Group):
        options += [partial(_hoist, node, c) for c in below]
    if change >= len(options):
        return False
    options[change]()
    return True


def _fewer_pieces(text: str, holds: _Bounded, until: float) -> str:
    pieces = _PIECE.findall(text)
    size = max(1, len(pieces) // 2)
    while size >= 1 and time.monotonic() < until:
        start = 0
        while start < len(pieces) and time.monotonic() < until:
            fewer = pieces[:start] + pieces[start + size :]
            if fewer and holds("".join(fewer)):
                pieces = fewer
            else:
                start += size
        size //= 2
    return "".join(pieces)


def fewest_rows(
    pair: Pair, statement: Statement, finding: Finding, seconds: float = 20.0
) -> Sequence[str]:
    """The rows of the unit that are needed for it."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as place:
        count = 0

        def holds(rows: Sequence[str]) -> bool:
            nonlocal count
            count += 1
            if time.monotonic() > until:
                return False
            try:
                smaller = Pair.open(pair.world, Path(place) / str(count), rows)
            except Exception:  # noqa: BLE001
                return False
            try:
                return smaller.usable and any(
                    f.net == finding.net for f in examine(smaller, statement).findings
                )
            finally:
                smaller.close()

        rows = list(pair.world.nasty)
        size = max(1, len(rows) // 2)
        while size >= 1 and time.monotonic() < until:
            start = 0
            while start < len(rows) and time.monotonic() < until:
                fewer = rows[:start] + rows[start + size :]
                if holds(fewer):
                    rows = fewer
                else:
                    start += size
            size //= 2
    return rows
