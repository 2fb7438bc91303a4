# ruff: noqa: E501
"""Every function × argument types × constants of the catalogue, on every edge of its arguments.

Each stands in a CASE guard, as an attacker would put it, over one unit's rows: the edges of every
type alone, against each other, and at random. What is accepted may fail on none of them.
"""

from __future__ import annotations

import itertools
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.policy.model import TablePolicy

from . import seams
from .catalogue import Overload, date_parts, overloads, type_names
from .grammar import Statement
from .nets import examine
from .values import SCALARS, TARGET, Kind
from .world import PERSON, Pair, World

_ANY = frozenset({"ANY", "T", "K", "V", "A", "B", "U", "TYPE"})
_COMMON = ("INTEGER", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "INTERVAL", "UHUGEINT")
_ROWS = 260
_MOST = 12  # combinations of one overload
_SECOND = tuple(
    Kind(f"{k.name}_2", k.type, k.ordinary, k.nasty) for k in SCALARS if not k.name.endswith("2")
)
_BY_BASE: dict[str, list[str]] = {}
for _kind in (*SCALARS, *_SECOND):
    _BY_BASE.setdefault(_kind.type.split("(", 1)[0], []).append(_kind.name)
_DATED = tuple(base for base in _BY_BASE if base.startswith(("DATE", "TIME", "INTERVAL")))


def world() -> World:
    """One table with two columns of every type."""
    kinds = (*SCALARS, *_SECOND)
    rng = random.Random(7)
    columns = ", ".join(f"{k.name} {k.type}" for k in kinds)
    rows = []
    for i in range(_ROWS):
        values = []
        for kind in kinds:
            n = len(kind.nasty)
            at = (i // n if kind in _SECOND else i) % n
            value = kind.nasty[at] if i < _ROWS // 2 else rng.choice((*kind.nasty, "NULL"))
            if "repeat" in value:
                value = "repeat('9', 5000)"
            values.append(f"CAST({value} AS {kind.type})")
        rows.append(f"INSERT INTO t VALUES ({TARGET}, {', '.join(values)})")
    ordinary = ", ".join(f"CAST({k.ordinary} AS {k.type})" for k in kinds)
    return World(
        "sweep",
        (f"CREATE TABLE t (uid BIGINT, {columns})",),
        tuple(rows),
        (f"INSERT INTO t SELECT i + 100, {ordinary} FROM range(20) r(i)",),
        {"t": TablePolicy("t", PERSON)},
    )


def combinations() -> Iterator[tuple[str, str]]:
    """Expressions with what they are about: overloads, parts of dates, casts, operators."""
    for part in date_parts():
        for base in _DATED:
            one, other = _BY_BASE[base][0], _BY_BASE[base][-1]
            for form in (
                f"extract({part} FROM {one})", f"date_part('{part}', {one})", f"date_trunc('{part}', {one})",
                f"date_diff('{part}', {one}, {other})", f"date_sub('{part}', {one}, {other})",
                f"datetrunc('{part}', {one})", f"{one} + INTERVAL 1 {part}", f"{part}({one})",
            ):  # fmt: skip
                yield "date parts", form
    for kind in SCALARS:
        for name in type_names():
            yield "casts", f"CAST({kind.name} AS {name})"
            yield "casts", f"TRY_CAST({kind.name} AS {name})"
    for overload in overloads():
        if overload.kind in ("scalar", "macro", "parser", "operator"):
            for text in _calls(overload):
                yield overload.kind, text
    for word in ("=", "<", "IS DISTINCT FROM", "+", "-", "*", "/", "//", "%", "||", "LIKE"):
        for left, right in itertools.product(SCALARS, SCALARS):
            yield "operators", f"({left.name} {word} {right.name})"
    for form in ("coalesce({}, {})", "least({}, {})", "greatest({}, {})", "nullif({}, {})"):
        for left, right in itertools.product(SCALARS, SCALARS):
            yield "forms", form.format(left.name, right.name)
    for form in (
        "CASE WHEN {0} = {1} THEN {0} ELSE {1} END", "{0} BETWEEN {1} AND {0}", "{0} IN ({1}, {0})",
        "CASE {0} WHEN {1} THEN 1 END", "if({0} < {1}, {0}, {1})",
    ):  # fmt: skip
        for left in SCALARS:
            for right in (left, *SCALARS[::5]):
                yield "forms", form.format(left.name, right.name)
    for kind in SCALARS:
        for constant in kind.constants:
            for word in ("=", "<", "+", "||"):
                yield "constants", f"({kind.name} {word} {constant})"
            yield "constants", f"{kind.name} IN ({constant}, {constant})"


def _calls(overload: Overload) -> Iterator[str]:
    choices = []
    for position, type_ in enumerate(overload.types):
        base = type_.split("(", 1)[0]
        if base in _ANY or base not in _BY_BASE:
            bases = list(_BY_BASE) if len(overload.types) == 1 else _COMMON
            found = [_BY_BASE[b][min(position, len(_BY_BASE[b]) - 1)] for b in bases]
        else:
            found = [_BY_BASE[base][min(position, len(_BY_BASE[base]) - 1)]]
            if base == "VARCHAR":
                found += ["''", "'%'", "'a'"]
            if base in ("BIGINT", "INTEGER"):
                found += ["0", "-1", "9223372036854775807"]
        choices.append(found)
    if not _named(overload.name):
        unary = (
            [f"({overload.name} {a})" for (a,) in itertools.product(*choices)]
            if len(choices) == 1
            else []
        )
        yield from unary[:_MOST]
        if len(choices) == 2:
            for one, other in itertools.islice(itertools.product(*choices), _MOST):
                yield f"({one} {overload.name} {other})"
        return
    everything = list(itertools.islice(itertools.product(*choices), 600))
    if len(everything) > _MOST:
        everything = random.Random(overload.label).sample(everything, _MOST)
    for arguments in everything:
        yield f"{overload.name}({', '.join(arguments)})"


def _named(name: str) -> bool:
    return re.fullmatch(r"[a-z_]\w*", name) is not None


@dataclass
class Swept:
    """What became of the combinations."""

    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failing: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        kinds = ", ".join(f"{k} {self.accepted[k]}/{n}" for k, n in self.tried.items())
        head = (
            f"{sum(self.tried.values()):,} combinations in {self.seconds:,.0f} s, accepted: {kinds}\n"
            f"refusals: {dict(self.refusals.most_common(8))}\n{len(self.failing)} fail"
        )
        return "\n".join([head, *(f"  {text}\n    {why}" for text, why in self.failing.items())])


def sweep(most: int | None = None, seed: int = 1) -> Swept:
    """Try ``most`` of the combinations, or all, on both databases."""
    everything = list(dict.fromkeys(combinations()))
    if most is not None and most < len(everything):
        everything = random.Random(seed).sample(everything, most)
    found, began = Swept(), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        pair = Pair.open(world(), Path(place))
        try:
            for kind, text in everything:
                _one(pair, kind, text, found)
        finally:
            pair.close()
    found.seconds = time.monotonic() - began
    return found


def _one(pair: Pair, kind: str, text: str, found: Swept) -> None:
    found.tried[kind] += 1
    guard = f"CASE WHEN uid = {TARGET} THEN ({text}) IS NULL ELSE TRUE END"
    statement = Statement(f"SELECT count(*) FROM t WHERE {guard}", "sweep", shape=kind)
    try:
        prepared = seams.prepare(pair.sides[1], statement.text, (), {})
    except Exception as error:  # noqa: BLE001
        found.refusals[getattr(error, "code", type(error).__name__)] += 1
        if not hasattr(error, "code"):
            found.failing[text] = f"raises {type(error).__name__}"
        return
    found.accepted[kind] += 1
    plan = prepared.plan.blocks[0]
    try:
        seams.exact(pair.sides[1], plan, seams.statement_of(plan), ())
    except Exception:  # noqa: BLE001
        problems = examine(pair, statement).findings
        found.failing[text] = problems[0].detail if problems else "fails at times"


def report_sweep(path: Path | None, most: int | None = None) -> int:
    """Sweep, print, and write the figures beside a report's."""
    import json

    found = sweep(most)
    print(found)
    if path is not None:
        figures = {
            "combinations": sum(found.tried.values()),
            "tried": dict(found.tried),
            "accepted": dict(found.accepted),
            "refusals": dict(found.refusals.most_common()),
            "failing": found.failing,
            "seconds": round(found.seconds),
        }
        path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return 1 if found.failing else 0
