"""Worlds that are objects of Python, registered with an engine: one reader for each kind."""

from __future__ import annotations

import decimal
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import dpsql

from .readers import Reader
from .rows import MARKS, TARGET, Rows, Table, arrow_of, ordinary, other_rows, unit_rows


class Objects(Reader):
    """Tables of one kind of object, made of the same rows."""

    def __init__(
        self,
        name: str,
        make: Callable[[Table, Rows], Any],
        *,
        typed: bool = False,
        odd: bool = False,
    ) -> None:
        super().__init__()
        self.name, self._make, self.typed = f"register {name}", make, typed
        self._odd = odd  # whether it holds values of any type

    def write(self, place: Path, variant: int, unit: bool) -> None:
        (place / "rows.json").write_text(json.dumps([variant, unit]), "utf-8")

    def database(self) -> Any:
        variant, unit = json.loads(Path("rows.json").read_text("utf-8"))
        engine = dpsql.DuckDBEngine()
        mine = {**other_rows(variant), "t": unit_rows(variant)} if unit else {}
        for table in ordinary().values():
            given = mine.get(table.name, [])
            if self._odd and unit and table.name == "t":
                given = [*given, *_odd_rows(variant)]
            engine.register(table.name, self._make(table, given))
        return engine


def _odd_rows(variant: int) -> Rows:
    """Rows of the unit whose values are of other types than those of everybody else."""
    rng = random.Random(f"odd objects {variant}")
    usual = list(ordinary()["t"].rows[0])
    usual[0] = TARGET
    odd: tuple[tuple[Any, ...], ...] = (
        (str(TARGET), float(TARGET)),
        (2**40, 2**70, "x", 3.5, decimal.Decimal("1234567.89"), True, [1]),
        ("high", 10**400, decimal.Decimal("NaN"), decimal.Decimal("1E+30"), 1j),
        (5, b"bytes", {MARKS[0]: 1}, [MARKS[0]], float("nan"), "\x00", np.str_("s1")),
        ("never", 20260103, np.datetime64("2026-01-03"), float("nan")),
        (MARKS[0], 1.5, np.datetime64("NaT"), "2026-01-03 10:00"),
    )
    rows = []
    for place, values in enumerate(odd):
        for value in values:
            if rng.random() < 0.25:
                rows.append((*usual[:place], value, *usual[place + 1 :]))
    return rows


def _columns(table: Table, mine: Rows) -> dict[str, list[Any]]:
    lists = zip(*(*table.rows, *mine), strict=True)
    return {name: list(values) for (name, _), values in zip(table.columns, lists, strict=True)}


def _object_frame(table: Table, mine: Rows) -> Any:
    columns = _columns(table, mine)
    return pd.DataFrame({n: pd.Series(values, dtype=object) for n, values in columns.items()})


def _arrow(table: Table, mine: Rows) -> Any:
    return pa.concat_tables([arrow_of(table.columns, mine), table.arrow])


OBJECTS: Final = (
    Objects("dict", _columns, typed=True, odd=True),
    Objects("pandas objects", _object_frame, typed=True, odd=True),
    Objects("pandas", lambda table, mine: _arrow(table, mine).to_pandas(), typed=True),
    Objects("polars", lambda table, mine: pl.from_arrow(_arrow(table, mine))),
    Objects("arrow", _arrow),
)
