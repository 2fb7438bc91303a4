"""Writes docs/errors.md from the catalogue of codes, ``dpsql/core/codes.py``: ``make pictures``.

What a refusal says is what comes back when its example, a statement of the attack suite, is asked.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dpsql
from dpsql.core.codes import CODES

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
WIDTH = 300  # of an example; beyond, only its beginning is shown

QUERY_CLASSES = (dpsql.QueryRefused, dpsql.SQLSyntaxError, dpsql.UnknownName)
ELSEWHERE = frozenset(
    {"unknown_account", "question_too_dear", "needs_confirmation", "not_a_question"}
    | {"unknown_tool", "unknown_release"}
)
"""Codes of those classes that no statement raises by itself: of calls, and of limited sessions."""

INTRODUCTION = """\
# Errors

Every error is a `dpsql.Error` and carries a `code` that programs can rely on, a `reason` in one
sentence, the `place` in the query or the file where there is one, and mostly a `hint`. None quotes
data. Whatever can be refused is refused before anything is read or spent; only `EngineError` and
`DataError` come later, and then what was reserved or charged stays spent.

The classes are those of PEP 249 and their subclasses. What can be asked is in the
[README](../README.md#what-you-can-ask). This page is written by `tools/docs/errors.py` from the
catalogue of codes, [`dpsql/core/codes.py`](../dpsql/core/codes.py). The examples are statements of
[`tests/helpers/attacks.sql`](../tests/helpers/attacks.sql); below each is what dpsql says when it
is asked, where the same code may have other reasons for other statements. `…` ends an example that
goes on.
"""


@contextmanager
def _worlds() -> Iterator[list[tuple[str, str, dpsql.Connection]]]:
    """The statements of the attack suite, shortest first: code, statement, and whom to ask."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from helpers.attacks import ATTACKS, GRID_ATTACKS, VIEW_ATTACKS
        from helpers.support import connect, connect_to_grid, connect_to_views
    finally:
        sys.path.pop(0)
    with (
        tempfile.TemporaryDirectory() as directory,
        connect(Path(directory)) as world,
        connect_to_grid(Path(directory)) as grid,
        connect_to_views(Path(directory)) as views,
    ):
        asked = [(attack.outcome, attack.sql, world) for attack in ATTACKS]
        asked += [(attack.outcome, attack.sql, grid) for attack in GRID_ATTACKS]
        asked += [(attack.outcome, attack.sql, views) for attack in VIEW_ATTACKS]
        yield sorted(asked, key=lambda each: (len(each[1]), each[1]))


def refusals() -> dict[str, tuple[str, dpsql.Error]]:
    """The shortest statement for each code of a refusal, and the error that it raises."""
    found: dict[str, tuple[str, dpsql.Error]] = {}
    with _worlds() as statements:
        for code, sql, connection in statements:
            if code in found or code not in CODES or CODES[code].kind not in QUERY_CLASSES:
                continue
            try:
                connection.sql(sql)
            except dpsql.Error as error:
                if error.code == code:
                    found[code] = sql, error
    return found


def page() -> str:
    """The catalogue as Markdown."""
    shown = refusals()
    kinds = {code.kind for code in CODES.values()} - set(QUERY_CLASSES)
    parts = [INTRODUCTION]
    others = sorted(kinds, key=lambda kind: kind.__name__)
    order: tuple[type[dpsql.Error], ...] = (*QUERY_CLASSES, *others)
    for kind in order:
        parts.append(f"## {kind.__name__}\n\n{inspect.getdoc(kind)}\n")
        codes = sorted(code for code, known in CODES.items() if known.kind is kind)
        if kind in QUERY_CLASSES:
            parts += [_section(code, shown.get(code)) for code in codes]
        else:
            rows = [f"| `{code}` | {CODES[code].meaning} |" for code in codes]
            parts.append("\n".join(["| Code | Meaning |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _section(code: str, shown: tuple[str, dpsql.Error] | None) -> str:
    lines = [f"### {code}", "", CODES[code].meaning, ""]
    if shown is not None:
        sql, error = shown
        cut = sql if len(sql) <= WIDTH else f"{sql[: WIDTH // 3]} …"
        lines += ["```sql", _printable(cut), "```", "", f"- Says: {_line(error.reason)}"]
        lines += [f"- Hint: {_line(error.hint)}"] if error.hint else []
        lines.append("")
    return "\n".join(lines)


def _line(text: str) -> str:
    """A text on one line, with what Markdown would take for its own escaped."""
    return re.sub(r"([*_<>|\[\]])", r"\\\1", " ".join(text.split()))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
