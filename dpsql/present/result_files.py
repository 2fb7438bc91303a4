"""Results for other programs: JSON, CSV, Markdown, Arrow and Parquet."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.formatting import (
    MISSING,
    all_numbers,
    json_text,
    no_marker,
    plain_cell,
    printable,
    upper_figures,
)
from dpsql.results.explanation import Explanation
from dpsql.results.reading import ReadableAnswer
from dpsql.results.tuning import Tuning

if TYPE_CHECKING:
    import pyarrow

METADATA_KEY: Final = b"dpsql"
"""Where Arrow and Parquet files keep mechanisms, cost and confidence, as JSON."""


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column of an answer as it goes out. ``type`` is DuckDB's."""

    name: str
    type: str
    values: list[object]


def encoded(result: ReadableAnswer, format_: str, confidence: float, intervals: bool) -> bytes:
    """Return the answer in a format: a whole file. ``intervals`` asks for them as columns."""
    shown = confidence if intervals else None
    match format_:
        case "csv":
            return result_csv(result, shown).encode()
        case "json":
            return f"{result_json(result, confidence, intervals)}\n".encode()
        case "jsonl":
            return result_json_lines(result, shown).encode()
        case "markdown":
            return result_markdown(result, shown).encode()
        case "arrow":
            return result_arrow(result, confidence, intervals)
        case "parquet":
            return result_parquet(result, confidence, intervals)
        case _:
            raise ValueError(f"no such format: {format_}")


def told_beside(result: ReadableAnswer, format_: str) -> list[str]:
    """Return the warnings of an answer where its format shows none, to be told beside it."""
    shown = format_ in ("table", "vertical", "json", "markdown")
    return [] if shown else [caveat.text for caveat in result.warnings]


def exported_columns(result: ReadableAnswer, intervals: float | None) -> list[ExportColumn]:
    """Return the columns of an answer.

    With ``intervals``, a confidence, each noisy one is followed by its ``_low`` and ``_high``.
    """
    ends = {} if intervals is None else result.ends(intervals)
    rows = result.fetchall()
    columns: list[ExportColumn] = []
    for position, (name, type_) in enumerate(zip(result.columns, result.types, strict=True)):
        columns.append(ExportColumn(name, type_, [row[position] for row in rows]))
        columns += [ExportColumn(e.name, str(e.type), e.values) for e in ends.get(name, ())]
    return columns


def result_json(result: ReadableAnswer, confidence: float, intervals: bool = False) -> str:
    """Write columns, rows, intervals (null where a value is NULL) and cost as a JSON object."""
    columns = exported_columns(result, confidence if intervals else None)
    parts = {
        "columns": [column.name for column in columns],
        "rows": list(zip(*(column.values for column in columns), strict=True)),
        "intervals": {
            name: {"low": _ends(result, name, found.low), "high": _ends(result, name, found.high)}
            for name, found in result.intervals(confidence).items()
        },
        **result.circumstances(confidence),
    }
    return "{\n" + ",\n".join(f"  {json_text(k)}: {_outline(v)}" for k, v in parts.items()) + "\n}"


def result_json_lines(result: ReadableAnswer, intervals: float | None) -> str:
    """Return an object for each row, on a line of its own."""
    columns = exported_columns(result, intervals)
    names = [column.name for column in columns]
    rows = zip(*(column.values for column in columns), strict=True)
    return "".join(f"{json_text(dict(zip(names, row, strict=True)))}\n" for row in rows)


def result_csv(result: ReadableAnswer, intervals: float | None) -> str:
    """Write a header and the rows, NULL as nothing.

    For ``intervals`` see :func:`exported_columns`.
    """
    columns = exported_columns(result, intervals)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows(zip(*(map(plain_cell, column.values) for column in columns), strict=True))
    return buffer.getvalue()


def result_markdown(result: ReadableAnswer, intervals: float | None) -> str:
    """Return a table of GitHub's Markdown, numbers to the right, and its warnings below."""
    columns = exported_columns(result, intervals)
    rules = ["---:" if all_numbers(column.values) else "---" for column in columns]
    cells = [[_markdown_cell(value) for value in column.values] for column in columns]
    rows = [[_markdown_cell(column.name) for column in columns], rules]
    rows += [list(row) for row in zip(*cells, strict=True)]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return table + "".join(f"\n> {_markdown_cell(caveat.text)}\n" for caveat in result.warnings)


def _markdown_cell(value: object) -> str:
    """Write a value as one line of Markdown, with markup escaped."""
    text = MISSING if value is None else printable(no_marker(str(plain_cell(value))))
    return re.sub(r"([\\`*\[\]<>|~#&]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def result_arrow(result: ReadableAnswer, confidence: float, intervals: bool = False) -> bytes:
    """Write an Arrow IPC file, also called Feather. Cost and mechanisms are its metadata."""
    import pyarrow

    table = _arrow_table(result, confidence, intervals)
    buffer = io.BytesIO()
    with pyarrow.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def result_parquet(result: ReadableAnswer, confidence: float, intervals: bool = False) -> bytes:
    """Return a Parquet file. Cost and mechanisms are its metadata."""
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(_arrow_table(result, confidence, intervals), buffer)
    return buffer.getvalue()


def _arrow_table(result: ReadableAnswer, confidence: float, intervals: bool) -> pyarrow.Table:
    """Return the answer, cost and mechanisms in the schema's metadata."""
    table = result.arrow(intervals=intervals, confidence=confidence)
    metadata = {METADATA_KEY: json_text(result.circumstances(confidence)).encode()}
    return table.replace_schema_metadata(metadata)


def explanation_json(explanation: Explanation) -> str:
    """Return a plan as JSON."""
    return json_text(upper_figures(asdict(explanation)), indent=2)


def tuning_json(tuning: Tuning) -> str:
    """Return the result of tuning as JSON."""
    document = {
        "query": tuning.query,
        "dry_run": tuning.dry_run,
        "share": tuning.share,
        "aggregates": [asdict(found) for found in tuning.aggregates],
        "cost": tuning.cost.figures(),
    }
    return json_text(document, indent=2)


def _ends(result: ReadableAnswer, name: str, ends: NDArray[np.float64]) -> list[object]:
    """Return one end of a column's intervals: whole where the column is, None for NULL."""
    whole = result.types[result.columns.index(name)] == "BIGINT"
    return [None if math.isnan(end) else int(end) if whole else end for end in ends.tolist()]


def _outline(value: object) -> str:
    """Write a value with its entries on lines of their own, so that rows can be read."""
    if isinstance(value, dict) and value:
        lines = [f"    {json_text(key)}: {json_text(inner)}" for key, inner in value.items()]
        return "{\n" + ",\n".join(lines) + "\n  }"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "[\n" + ",\n".join(f"    {json_text(row)}" for row in value) + "\n  ]"
    return json_text(value)
