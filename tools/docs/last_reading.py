"""Writes the lists of docs/engines/last-reading.md, by which plans are read: ``make pictures``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from dpsql.engines.duckdb.forms import (
    CALLED_ON_ROWS,
    ELEMENTS,
    EXPRESSIONS,
    OF_ELEMENTS,
    OPERATORS,
    OWN_FUNCTIONS,
    SUMMED,
    TYPES,
)
from dpsql.engines.duckdb.view_forms import VIEW_OPERATORS
from dpsql.engines.embedded.plan_spellings import COMPARISONS
from dpsql.engines.postgresql.forms import CALLED, NODES, ON_ROWS, SIGNS
from dpsql.engines.postgresql.view_forms import (
    COUNTING,
    EXTRACTED,
    TOTAL_AGGREGATES,
    TOTAL_FUNCTIONS,
    TOTAL_WINDOWS,
    VIEW_NODES,
)
from dpsql.engines.spark.forms import (
    SPARK_AGGREGATES,
    SPARK_FUNCTIONS,
    SPARK_ON_ROWS,
    SPARK_OPERATORS,
    SPARK_SIGNS,
    SPARK_TYPES,
    SPARK_WORDS,
)

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "last-reading.md"


def lists() -> dict[str, str]:
    """The lists of the page, by name."""
    return {
        "operators": _words(_short(OPERATORS)),
        "expressions": _words(_short(EXPRESSIONS)),
        "elements": _words([*_short(ELEMENTS), *OF_ELEMENTS]),
        "comparisons": _words(COMPARISONS.values()),
        "functions": _words(OWN_FUNCTIONS),
        "functions_on_rows": _words(CALLED_ON_ROWS),
        "aggregates": _words(SUMMED),
        "types": _words(TYPES),
        "view_operators": _words(_short(VIEW_OPERATORS)),
        "nodes": _words(NODES),
        "server_functions": _words(CALLED),
        "server_functions_on_rows": _words(ON_ROWS),
        "server_operators": _words(SIGNS),
        "server_view_nodes": _words(VIEW_NODES),
        "server_view_functions": _words(TOTAL_FUNCTIONS | COUNTING | EXTRACTED.keys()),
        "server_view_aggregates": _words(TOTAL_AGGREGATES | TOTAL_WINDOWS),
        "spark_operators": _words(map(_shown, chain(*SPARK_OPERATORS.values()))),
        "spark_functions": _words(SPARK_FUNCTIONS),
        "spark_aggregates": _words(SPARK_AGGREGATES),
        "spark_functions_on_rows": _words(SPARK_ON_ROWS),
        "spark_signs": _words([*SPARK_SIGNS, *SPARK_WORDS]),
        "spark_types": _words(SPARK_TYPES),
    }


def _short(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("LOGICAL_").lower() for name in names]


def _shown(form: str) -> str:
    """The text of an operator with ``n`` for a number, and ``name`` for a name."""
    return form.replace(r"\d+", "n").replace("[a-z_][a-z0-9_]*", "name").replace("\\", "")


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)).replace("|", "\\|")


def page(text: str) -> str:
    """The page with its lists as they are now."""
    for name, words in lists().items():
        between = re.compile(rf"(<!-- list: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = between.subn(lambda m, w=words: f"{m[1]}{w}\n{m[2]}", text)  # type: ignore[misc]
        assert found == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
