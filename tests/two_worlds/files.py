"""Worlds that are files: CSV, JSON, Parquet, and directories whose names are values.

Files say what they like; the unit's rows are in them as somebody against the owner would have
written them: values that are unlike what is declared, further keys, directories of their own.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import dpsql

from .readers import Reader
from .rows import MARKS, TARGET, Rows, T, Table, arrow_of, ordinary, other_rows, unit_rows


class Files(Reader):
    """A table is a file, or a directory of files."""

    edits = True
    suffix = ""

    def database(self) -> Any:
        names = [
            name for name in (*self.listed, "salaries") if (Path(".") / self.place(name)).exists()
        ]
        return dpsql.DuckDBEngine(files={name: self.place(name) for name in names})

    def place(self, name: str) -> str:
        """Where the rows of a table are."""
        return f"{name}{self.suffix}"

    def edit(self, number: int) -> None:
        raise NotImplementedError


def edited(number: int) -> Rows:
    """Rows that an owner adds: ordinary units, in the first days."""
    return [
        (100 + i, 1 + i % 3, 2.0, f"s{number % 5}", datetime.date(2026, 1, 2),
         datetime.datetime(2026, 1, 1, 1) + datetime.timedelta(hours=i % 70))
        for i in range(10 + number % 30)
    ]  # fmt: skip


class CSVFiles(Files):
    """CSV, whose columns are declared: fields of the unit are anything."""

    name = "csv"
    suffix = ".csv"
    typed = True
    separator = ","

    def write(self, place: Path, variant: int, unit: bool) -> None:
        others = other_rows(variant)
        for table in ordinary().values():
            mine = others.get(table.name, [])
            if table.name == "t":
                mine = unit_rows(variant)
            text = self._text([[name for name, _ in table.columns], *table.rows])
            if unit and mine:
                text += self._text(mine)
            if unit and table.name == "t":
                text += self._text(_odd_fields(variant))
            (place / self.place(table.name)).write_text(text, "utf-8", newline="")

    def _text(self, rows: Any) -> str:
        found = io.StringIO()
        writer = csv.writer(found, delimiter=self.separator, lineterminator="\n")
        writer.writerows([[_field(value) for value in row] for row in rows])
        return found.getvalue()

    def edit(self, number: int) -> None:
        with open(self.place("t"), "a", encoding="utf-8", newline="") as file:
            file.write(self._text(edited(number)))


class TSVFiles(CSVFiles):
    """The same between tabs."""

    name = "tsv"
    suffix = ".tsv"
    separator = "\t"


def _field(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return value


def _odd_fields(variant: int) -> list[list[object]]:
    """Rows of the unit whose fields are no values of their columns' types."""
    rng = random.Random(f"fields {variant}")
    usual: list[object] = [TARGET, 3, 1.5, "s1", "2026-01-03", "2026-01-02 07:00:00"]
    odd: tuple[tuple[object, ...], ...] = (
        (f"{MARKS[0]}", f"{TARGET}.0", "", "99999999999999999999", f" {TARGET} "),
        (f"{MARKS[0]}x", "99999999999", "1e400", "0x1F", "1,5", "٣", "TRUE", "3.7"),
        (f"{MARKS[0]}", "1e999", "-nan", "1d", "1_000", "infinity"),
        ("NULL", "\\N", '"', "a\nb", "x" * 3000, "'", f"{MARKS[0]}é"),
        ("2026-13-45", "yesterday", "0000-00-00", "01/02/2026", "99999-01-01", f"{MARKS[0]}"),
        ("2026-01-02T07:00:00Z", "noon", "2026-01-02 25:00:00", "2026-01-02 07:00:00+14:00"),
    )
    rows = []
    for place, values in enumerate(odd):
        for value in values:
            if rng.random() < 0.6:
                rows.append([*usual[:place], value, *usual[place + 1 :]])
    return rows


class JSONFiles(Files):
    """JSON, a value on each line: the unit's have further keys, and values of other types."""

    name = "json"
    suffix = ".jsonl"
    typed = True

    def write(self, place: Path, variant: int, unit: bool) -> None:
        others = {**other_rows(variant), "t": unit_rows(variant)}
        for table in ordinary().values():
            names = [name for name, _ in table.columns]
            mine = others.get(table.name, []) if unit else []
            values = [
                dict(zip(names, map(_json, row), strict=True)) for row in (*table.rows, *mine)
            ]
            if unit and table.name == "t":
                values += _odd_values(variant)
            text = "".join(json.dumps(value) + "\n" for value in values)
            if unit and table.name == "t" and variant % 2:
                text += f'{{"uid": {TARGET}, "i32": 1e400, "f64": 1e999, "s": "s1"}}\n'
            (place / self.place(table.name)).write_text(text, "utf-8")

    def edit(self, number: int) -> None:
        names = [name for name, _ in T]
        with open(self.place("t"), "a", encoding="utf-8") as file:
            for row in edited(number):
                value = dict(zip(names, map(_json, row), strict=True))
                file.write(json.dumps(value) + "\n")


def _json(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, datetime.date) else value


def _odd_values(variant: int) -> list[dict[str, object]]:
    """Objects of the unit that are unlike the others."""
    rng = random.Random(f"objects {variant}")
    usual: dict[str, object] = {
        "uid": TARGET, "i32": 3, "f64": 1.5, "s": "s1", "d": "2026-01-03",
        "ts": "2026-01-02 07:00:00",
    }  # fmt: skip
    changes: tuple[dict[str, object], ...] = (
        {f"{MARKS[0]}_diagnosis": "HIV"}, {"extra": {MARKS[0]: 1}}, {"i32": "x"}, {"i32": 2**70},
        {"i32": 3.5}, {"i32": [1]}, {"i32": {"a": 1}}, {"f64": "high"}, {"f64": 10**400}, {"s": 5},
        {"s": {MARKS[0]: [1, 2]}}, {"s": ["a"]}, {"d": "never"}, {"d": 20260103}, {"ts": MARKS[0]},
        {"uid": str(TARGET)}, {"uid": 27.0}, {"I32": 7}, {"": 1}, {"i32": True}, {"s": "\ud800"},
    )  # fmt: skip
    return [usual | change for change in changes if rng.random() < 0.4]


class ParquetFiles(Files):
    """Directories of Parquet files: the unit has row groups, or a file, of its own."""

    name = "parquet"
    own_files = True

    def write(self, place: Path, variant: int, unit: bool) -> None:
        others = {**other_rows(variant), "t": unit_rows(variant)}
        for table in ordinary().values():
            directory = place / self.place(table.name)
            directory.mkdir()
            mine = others.get(table.name, []) if unit else []
            self._write(directory, table, mine, variant)

    def _write(self, directory: Path, table: Table, mine: Rows, variant: int) -> None:
        rows = table.arrow
        if not mine:
            pq.write_table(rows, directory / "a.parquet", row_group_size=100)
            return
        unit = arrow_of(table.columns, mine)
        if variant % 2:
            pq.write_table(rows, directory / "a.parquet", row_group_size=100)
            pq.write_table(unit, directory / "b.parquet")
        else:
            together = pa.concat_tables([unit, rows])
            pq.write_table(together, directory / "a.parquet", row_group_size=len(mine))

    def edit(self, number: int) -> None:
        made = f"{self.place('t')}/edit{number}.parquet"
        pq.write_table(arrow_of(T, edited(number)), made)


class BrokenText(ParquetFiles):
    """Parquet files of which the unit's holds text that is none: their reader raises there."""

    name = "parquet with broken text"

    def _write(self, directory: Path, table: Table, mine: Rows, variant: int) -> None:
        super()._write(directory, table, [], variant)
        if mine and table.name == "t":
            unit, count = arrow_of(T, mine), len(mine)
            ends = pa.array(range(count + 1), pa.int32()).buffers()[1]
            broken = pa.StringArray.from_buffers(count, ends, pa.py_buffer(b"\xff" * count))
            place = unit.column_names.index("s")
            pq.write_table(unit.set_column(place, "s", broken), directory / "b.parquet")


class HiveDirectories(Files):
    """Parquet files below directories that are named by a value of a column."""

    name = "hive"
    own_files = True
    typed = True

    def write(self, place: Path, variant: int, unit: bool) -> None:
        others = other_rows(variant)
        for table in ordinary().values():
            directory = place / self.place(table.name)
            directory.mkdir()
            if table.name != "t":
                rows = arrow_of(
                    table.columns, [*table.rows, *(others.get(table.name, []) if unit else [])]
                )
                pq.write_table(rows, directory / "a.parquet")
                continue
            for day in range(9):
                date = datetime.date(2026, 1, 1) + datetime.timedelta(days=day)
                self._below(directory, f"d={date}", [r for r in table.rows if r[4] == date])
            if unit:
                rng = random.Random(f"directories {variant}")
                names = (
                    "d=2026-01-03", f"d={MARKS[0]}", "d=9999-99-99", "d=", "D=2026-01-03", "d=1=2",
                    f"d=2026-01-02/{MARKS[0]}=1", "d=__HIVE_DEFAULT_PARTITION__", "d=%00",
                    "d=5877642-06-25 (BC)",
                )  # fmt: skip
                for number, name in enumerate(rng.sample(names, 4)):
                    self._below(directory, name, unit_rows(variant)[number * 5 : number * 5 + 5])

    @staticmethod
    def _below(directory: Path, name: str, rows: Rows) -> None:
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        without = arrow_of(T, rows).drop_columns(["d"])
        pq.write_table(without, place / f"rows{len(list(place.iterdir()))}.parquet")

    def edit(self, number: int) -> None:
        self._below(Path(self.place("t")), "d=2026-01-02", edited(number))


FILES: Final = (CSVFiles(), TSVFiles(), JSONFiles(), ParquetFiles(), HiveDirectories())
