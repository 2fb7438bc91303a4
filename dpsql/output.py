"""Results for other programs: JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting import PrivacyLoss
from dpsql.budget import BudgetReport
from dpsql.explain import Explanation
from dpsql.result import Result


def result_json(result: Result, confidence: float) -> str:
    """Columns, rows, intervals (null where a value is NULL) and cost, as one JSON object."""
    cost = result.cost
    parts = {
        "columns": result.columns,
        "rows": result.fetchall(),
        "intervals": {
            name: {"low": _ends(result, name, found.low), "high": _ends(result, name, found.high)}
            for name, found in result.intervals(confidence).items()
        },
        "confidence": confidence,
        "mechanisms": [block.mechanism for block in result.plan.blocks],
        "cost": {
            "reserved": _loss(cost.reserved, cost.reserved_epsilon),
            "settled": _loss(cost.settled, cost.settled_epsilon),
            "conversion_delta": cost.conversion_delta,
        },
    }
    return "{\n" + ",\n".join(f"  {_json(k)}: {_outline(v)}" for k, v in parts.items()) + "\n}"


def result_csv(result: Result, intervals: float | None) -> str:
    """A header and the rows, NULL as nothing.

    With ``intervals``, a confidence, each noisy column is followed by its ``_low`` and ``_high``.
    """
    found = {} if intervals is None else result.intervals(intervals)
    header: list[str] = []
    columns: list[list[object]] = []
    for position, name in enumerate(result.columns):
        header.append(name)
        columns.append([_text(row[position]) for row in result.fetchall()])
        if name in found:
            header += [f"{name}_low", f"{name}_high"]
            columns += [_ends(result, name, end) for end in (found[name].low, found[name].high)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return buffer.getvalue()


def explanation_json(explanation: Explanation) -> str:
    """A plan as JSON."""
    return _json(asdict(explanation), indent=2)


def budget_json(report: BudgetReport) -> str:
    """An account's budget as JSON, what remains included."""
    remaining = {
        "epsilon_remaining": report.epsilon_remaining,
        "rho_remaining": report.rho_remaining,
        "delta_remaining": report.delta_remaining,
    }
    return _json(asdict(report) | remaining, indent=2)


def _loss(loss: PrivacyLoss, epsilon: float) -> dict[str, float]:
    return {"epsilon": epsilon, "rho": loss.rho, "delta": loss.delta}


def _ends(result: Result, name: str, ends: NDArray[np.float64]) -> list[object]:
    """One end of a column's intervals: whole where the column is, None where the value is NULL."""
    whole = result.types[result.columns.index(name)] == "BIGINT"
    return [None if math.isnan(end) else int(end) if whole else end for end in ends.tolist()]


def _outline(value: object) -> str:
    """A value with its entries on lines of their own, so that rows can be read."""
    if isinstance(value, dict) and value:
        lines = [f"    {_json(key)}: {_json(inner)}" for key, inner in value.items()]
        return "{\n" + ",\n".join(lines) + "\n  }"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "[\n" + ",\n".join(f"    {_json(row)}" for row in value) + "\n  ]"
    return _json(value)


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """A value JSON can hold: NaN and infinities as null, dates in ISO 8601, exact decimals."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Decimal):
        # A number where a double holds it exactly as written, else its digits.
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    return _text(value)


def _text(value: object) -> object:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, int | float | str) else str(value)
