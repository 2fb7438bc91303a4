"""No name and no type follows from a value: data without types are read as they are declared."""

from __future__ import annotations

import datetime
import gzip
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.support import cursor_of

import dpsql
from dpsql.core.schema import Column
from dpsql.core.sql_types import KNOWN_TYPES, SqlType
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.engines.duckdb.python_values import python_text
from dpsql.owner.conformance import check_policy
from dpsql.policy.load import parse_policy

TYPES = {"uid": "BIGINT", "ward": "VARCHAR", "cost": "DOUBLE", "day": "DATE"}
GOOD = 3000
HEAD = "version: 1\ndataset: d\naccounts: {ana: {epsilon: 100, delta: 1e-3}}\ntables:\n"


def columns(types: Mapping[str, str] = TYPES) -> tuple[Column, ...]:
    return tuple(column_of(name, type_) for name, type_ in types.items())


def policy(types: Mapping[str, str] = TYPES, table: str = "t") -> dpsql.Policy:
    lines = "".join(f"      {name}: {type_}\n" for name, type_ in types.items())
    return parse_policy(f"{HEAD}  {table}:\n    privacy_unit: uid\n    columns:\n{lines}")


def read(path: Path, types: Mapping[str, str] = TYPES) -> list[tuple[Any, ...]]:
    """Read the rows of a table of files once it is locked, as generated SQL would."""
    engine = open_database(path)
    (table,) = engine.catalog().tables
    engine.declare({table: columns(types)})
    assert [(c.name, str(c.type)) for c in engine.catalog().tables[table].columns] == [
        *types.items()
    ]
    try:
        return cursor_of(engine, table).execute(f'SELECT * FROM "{table}"').fetchall()
    finally:
        engine.close()


# -- types that can be declared -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("int", "INTEGER"),
        ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
        ("numeric(5)", "DECIMAL(5,0)"),
        ("Decimal", "DECIMAL(18,3)"),
        ("text[ ][3]", "VARCHAR[][3]"),
        ('struct(a int, "b" map(text, date))', 'STRUCT("a" INTEGER, "b" MAP(VARCHAR, DATE))'),
    ],
)
def test_a_type_has_one_spelling(text: str, means: str) -> None:
    assert str(SqlType.of(text).declared) == means
    assert SqlType.of(text).is_declared_as(SqlType.of(means))


@pytest.mark.parametrize(
    "text",
    [
        *("", "foo", "DECIMAL(39,1)", "DECIMAL(5,6)", "INTEGER[", "ENUM('a')", "BIT[]"),
        *("STRUCT()", "STRUCT(a INT, A INT)", "MAP(INT)", "INT) ; --", "VARCHAR(5)"),
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    assert SqlType.of(text).declared is None
    with pytest.raises(dpsql.PolicyError, match="no type that a column can have"):
        parse_policy(f"{HEAD}  t: {{privacy_unit: uid, columns: {{x: {{type: {text!r}}}}}}}\n")


def test_declared_types_are_the_engines_own() -> None:
    engine = DuckDBEngine()
    declared = [*KNOWN_TYPES, "DECIMAL(38,5)", "VARCHAR[]", 'STRUCT("a" DATE)']
    names = {f"c{i}": type_ for i, type_ in enumerate(declared)}
    engine.register("t", {name: ["x", None] for name in names}, types=names)
    assert all(
        column.type.is_declared_as(SqlType.of(names[column.name]))
        for column in engine.catalog().tables["t"].columns
    )
    engine.close()


# -- one unit's row changes no name, no type and no other row -------------------------------------

CSV_LINES = {
    "another type": b"x,y,z,w",
    "ragged": b"7",
    "too long": b"7" + b",8" * 1000,
    "of invalid UTF-8": b"\xff\xc3\x28,a,1,2024-01-01",
    "with NUL": b"\x00,\x00,\x00,\x00",
    "of characters beyond Latin-1": "7,\u20ac\u202e\u00c0,1,2024-01-01".encode(),
    "with a quote": b'7,a"b"c,"d"e,f',
    "with line ends": b'7,"a\n\n\nb",1,2024-01-01',
    "with a mark of byte order": b"\xef\xbb\xbf7,a,1,2024-01-01",
    "long": b"7," + b"y" * 40_000_000 + b",1,2024-01-01",
    "long in quotes": b'7,"' + b"y" * 40_000_000 + b'",1,2024-01-01',
    "empty": b"",
    "like the header": b"uid,ward,cost,day",
    "beyond its type": b"9999999999999999999999,a,1e999,9999999-01-01",
}
JSON_LINES = {
    "with a key of its own": b'{"uid":7,"ann_has_hiv":1}',
    "nested": b'{"uid":7,"ward":{"ann":[1]},"cost":{"x":{}},"day":[[]]}',
    "another type": b'{"uid":"x","ward":5,"cost":true,"day":7}',
    "broken": b'{"uid":7,"ward":',
    "no object": b'[1,2,"x"]',
    "of invalid UTF-8": b'{"uid":7,"ward":"\xff"}',
    "with a lone surrogate": b'{"uid":7,"ward":"\\ud800"}',
    "with NUL": b'{"uid":7,"ward":"\\u0000"}',
    "with a raw NUL": b'\x00{"uid":7}',
    "of characters beyond Latin-1": '{"uid":7,"ward":"\u20ac\u202e\u00c0"}'.encode(),
    "deep": b'{"uid":7,"ward":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and broken": b'{"uid":7,"ward":' + b"[" * 100_000,
    "long": b'{"uid":7,"ward":"' + b"y" * 40_000_000 + b'"}',
    "with a key twice": b'{"uid":7,"uid":"x","UID":8}',
    "two objects": b'{"uid":7}{"uid":8}',
    "empty": b"",
    "huge": b'{"uid":1e999,"cost":1e999}',
}


def good(number: int) -> tuple[int, str, float, datetime.date]:
    return number, f"ward {number % 5}", number / 2, datetime.date(2024, 1, 1 + number % 28)


@pytest.mark.parametrize("line", CSV_LINES)
@pytest.mark.parametrize("place", ["first", "middle"])
def test_a_line_of_csv_changes_no_other_row(tmp_path: Path, line: str, place: str) -> None:
    rows = [",".join(map(str, good(i))).encode() for i in range(GOOD)]
    rows.insert(0 if place == "first" else GOOD // 2, CSV_LINES[line])
    (tmp_path / "t.csv").write_bytes(b"\n".join([b"uid,ward,cost,day", *rows]) + b"\n")
    found = read(tmp_path / "t.csv")
    left = [*found]
    for number in range(GOOD):
        left.remove(good(number))
    assert len(left) <= 3  # of one line


@pytest.mark.parametrize("line", JSON_LINES)
@pytest.mark.parametrize("place", ["first", "middle"])
def test_a_line_of_json_changes_no_other_row(tmp_path: Path, line: str, place: str) -> None:
    rows = [
        json.dumps(dict(zip(TYPES, good(i), strict=True)), default=str).encode()
        for i in range(GOOD)
    ]
    rows.insert(0 if place == "first" else GOOD // 2, JSON_LINES[line])
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    left = read(tmp_path / "t.jsonl")
    for number in range(GOOD):
        left.remove(good(number))
    assert len(left) <= 1


@pytest.mark.parametrize("line", ["[1, 2]", "[", '[{"uid": 7}]', "[" * 1000, '["'])
@pytest.mark.parametrize("place", [0, -1])
def test_a_row_that_is_an_array_makes_no_other_reading_of_the_file(
    tmp_path: Path, line: str, place: int
) -> None:
    rows = [json.dumps({"uid": number}) for number in range(20)]
    rows.insert(place, line)
    (tmp_path / "t.json").write_text("\n".join([*rows, "[3]"] if place else rows))
    found = [uid for (uid,) in read(tmp_path / "t.json", {"uid": "BIGINT"}) if uid is not None]
    assert sorted(found) == [*range(20)]


@pytest.mark.slow
def test_an_array_of_objects_is_read_like_lines(tmp_path: Path) -> None:
    rows = [dict(zip(TYPES, good(i), strict=True)) for i in range(20)]
    rows += [{"uid": "x", "ward": {"ann": 1}}, {}, 7, {"uid": 7, "cost": "1.5"}]  # type: ignore[list-item]
    (tmp_path / "t.json").write_text(json.dumps(rows, default=str))
    expected = [good(i) for i in range(20)]
    none = (None, None, None, None)
    expected += [(None, '{"ann":1}', None, None), none, none, (7, None, 1.5, None)]  # type: ignore[list-item]
    assert read(tmp_path / "t.json") == expected
    (tmp_path / "t.json").write_text(json.dumps(rows, default=str)[:-5])  # broken as a whole
    assert read(tmp_path / "t.json") == [none]


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        *(("uid,ward,cost,day", ","), ("day;WARD;uid;cost", ";"), ("x|cost|uid|ward|day", "|")),
        *(('"uid"\t"ward"\tcost\tday', "\t"), ("\ufeffuid,cost,ward,day", ",")),
    ],
)
def test_columns_of_csv_are_found_by_the_names_in_its_header(
    tmp_path: Path, header: str, delimiter: str
) -> None:
    names = [name.strip('"\ufeff').lower() for name in header.split(delimiter)]
    given = {"uid": "1", "ward": "a", "cost": "2.5", "day": "2024-05-06", "x": "secret"}
    line = delimiter.join(given[name] for name in names)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"{header}\r\n{line}\r\n".encode()))
    assert read(tmp_path / "t.csv.gz") == [(1, "a", 2.5, datetime.date(2024, 5, 6))]


def test_files_of_other_headers_are_one_table(tmp_path: Path) -> None:
    place = tmp_path / "t"
    for number, header in enumerate(("uid,ward", "cost;uid", "none,of,them")):
        (place / f"day=2024-01-0{1 + number}").mkdir(parents=True)
        values = {"uid": "1", "ward": "a", "cost": "2.5"}
        split = ";" if ";" in header else ","
        line = split.join(values.get(name, "7") for name in header.split(split))
        (place / f"day=2024-01-0{1 + number}" / "f.csv").write_text(f"{header}\n{line}\n")
    assert sorted(read(place), key=str) == [
        (1, "a", None, datetime.date(2024, 1, 1)),
        (1, None, 2.5, datetime.date(2024, 1, 2)),
    ]


@pytest.mark.slow
def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    for name in ("t.csv", "t.json", "t.jsonl"):
        (tmp_path / name).write_bytes(b"")
        assert read(tmp_path / name) == []


# -- what is not declared -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_files_of_which_nothing_is_declared_are_refused_with_the_commands(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("uid,ward\n1,a\n" if name == "t.csv" else '{"uid":1}\n')
    bare = parse_policy(f"{HEAD}  t: {{privacy_unit: uid}}\n")
    with pytest.raises(dpsql.PolicyError, match="no names and types of its own") as refused:
        dpsql.connect(tmp_path / name, bare, tmp_path / "b.db", "ana")
    assert "dpsql init FILE --output policies.yaml" in str(refused.value.hint)
    assert "dpsql check --database FILE" in str(refused.value.hint)


def test_analysts_see_the_declared_columns_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"uid":1,"ann_has_hiv":1,"ward":{"ann":1}}\n')
    types = {"uid": "BIGINT", "ward": "VARCHAR"}
    with dpsql.connect(tmp_path / "t.jsonl", policy(types), tmp_path / "b.db", "ana") as con:
        assert [row[:2] for row in con.sql("DESCRIBE t")] == [*types.items()]
        with fails_with("unknown_column"):
            con.sql("SELECT count(ann_has_hiv) FROM t")


def test_bounds_of_a_column_without_a_type_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("uid,cost\n1,2\n")
    rules = parse_policy(
        f"{HEAD}  t: {{privacy_unit: uid, columns: {{uid: INT, cost: {{lower: 0, upper: 1}}}}}}\n"
    )
    engine = open_database(tmp_path / "t.csv")
    engine.declare(rules.declared)
    (finding,) = check_policy(rules, engine.catalog().tables, engine.definition)
    assert (finding.level, finding.subject) == ("error", "t.cost")
    assert "type: DOUBLE" in finding.hint
    engine.close()


def test_a_declared_type_must_be_the_stored_one() -> None:
    engine = DuckDBEngine()
    engine.register("t", {"uid": np.array([1]), "cost": np.array([1.0]), "more": np.array([1])})
    rules = policy({"uid": "int8", "cost": "FLOAT", "none": "DATE"})
    engine.declare(rules.declared)
    found = {f.subject: f for f in check_policy(rules, engine.catalog().tables, engine.definition)}
    assert {s: f.level for s, f in found.items()} == {
        "t.cost": "error",
        "t.none": "error",
        "t": "warning",
    }
    assert found["t.cost"].message == "is declared as FLOAT, but is DOUBLE"
    assert "does not declare: more" in found["t"].message
    engine.close()


# -- data of Python's -----------------------------------------------------------------------------


def frames(values: list[object]) -> Iterator[object]:
    """Hold values in each way that Python has for them without a type."""
    uid = np.arange(len(values))
    yield {"uid": [*range(len(values))], "v": values}
    array = np.empty(len(values), dtype=object)
    array[:] = values
    yield {"uid": uid, "v": array}
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame({"uid": uid, "v": pandas.Series(values, dtype=object)})
    polars = pytest.importorskip("polars")
    yield polars.DataFrame({"uid": uid, "v": polars.Series(values, dtype=polars.Object)})


VALUES = [
    [1, 2, None],
    [1, 2, "x"],
    [Decimal("1.5"), None],
    [Decimal("123456.25"), None],
    [datetime.date(2024, 1, 1), 5],
    [10**30, 1.5, float("nan"), float("inf")],
    [True, "true", b"\x00"],
    ["\ud800", "ok", object()],
    [[1, 2], {"a": 1}, ([[]],)],
    [Decimal("NaN"), Decimal("1e5000"), 10**10_000],
    [uuid.UUID(int=1), datetime.timedelta(1), datetime.time(1), np.int64(3)],
    [],
]


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["BIGINT", "VARCHAR", "DATE", "DECIMAL(9,2)", "BIGINT[]"])
@pytest.mark.parametrize("values", VALUES, ids=range(len(VALUES)))
def test_objects_have_the_type_that_is_declared_whatever_they_are(
    values: list[object], type_: str
) -> None:
    for frame in frames(values):
        engine = DuckDBEngine()
        engine.register("t", frame, types={"uid": "BIGINT", "v": type_})
        assert [str(c.type) for c in engine.catalog().tables["t"].columns] == ["BIGINT", type_]
        ((rows,),) = cursor_of(engine, "t").execute("SELECT count(*) FROM t").fetchall()
        assert rows == len(values)
        engine.close()


def test_objects_without_a_type_do_not_exist() -> None:
    engine = DuckDBEngine()
    pandas = pytest.importorskip("pandas")
    engine.register("t", pandas.DataFrame({"uid": [1, 2], "v": [Decimal(1), None]}))
    assert [c.name for c in engine.catalog().tables["t"].columns] == ["uid"]
    engine.register("u", {"uid": [1, 2]})
    unreadable = engine.catalog().tables["u"].unreadable
    assert unreadable is not None
    assert "types={'cost': 'DOUBLE'}" in unreadable.hint
    engine.close()


def test_the_policy_declares_types_of_objects_too(tmp_path: Path) -> None:
    engine = DuckDBEngine()
    engine.register("t", {"uid": [1, 2, "x"], "ward": ["a", None, 7], "cost": [Decimal(1), 2, ""]})
    types = {"uid": "BIGINT", "ward": "VARCHAR", "cost": "DOUBLE"}
    with dpsql.connect(engine, policy(types), tmp_path / "b.db", "ana") as con:
        assert [row[:2] for row in con.sql("DESCRIBE t")] == [*types.items()]
    with fails_with("engine_in_use", match="other types"):
        dpsql.connect(engine, policy(types | {"cost": "BIGINT"}), tmp_path / "b.db", "ana")
    engine.close()


@pytest.mark.slow
def test_columns_that_have_types_keep_them() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    day = np.array(["2024-01-01"], "M8[D]")
    typed = {"a": np.array([1], "int16"), "b": np.array(["x"]), "c": day}
    empty = {name: values[:0] for name, values in typed.items()}
    for data in (typed, empty, arrow.table(typed), pandas.DataFrame({"a": typed["a"]})):
        engine = DuckDBEngine()
        engine.register("t", data)
        found = [str(c.type) for c in engine.catalog().tables["t"].columns]
        assert found == ["SMALLINT", "VARCHAR", "DATE"][: len(found)]
        engine.close()


@pytest.mark.parametrize("types", [{"uid": "foo"}, {"none": "BIGINT"}])
def test_types_of_no_column_and_no_types_are_refused(types: dict[str, str]) -> None:
    engine = DuckDBEngine()
    with pytest.raises(dpsql.ParameterError):
        engine.register("t", {"uid": [1]}, types=types)
    engine.close()


def test_no_value_of_pythons_raises() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError

    deep: list[object] = []
    deep.append(deep)
    for value in (Odd(), deep, {Odd(): Odd()}, [Odd()], "\udc00", 1 << 100_000, complex(1), {1, 2}):
        assert python_text(value) is None or isinstance(python_text(value), str)


@pytest.mark.parametrize("values", [[1, 2], [1, None], [1, 2**70], [1, 3.5]])
def test_a_missing_value_changes_no_type_of_a_frame(values: list[object], tmp_path: Path) -> None:
    """Pandas makes floats of integers beside a missing one, which may be one person's."""
    pandas, engine = pytest.importorskip("pandas"), dpsql.DuckDBEngine()
    engine.register("t", pandas.DataFrame({"uid": [1, 2], "n": values}))
    policy = dpsql.parse_policy(
        "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1, delta: 1e-3}}\n"
        "tables: {t: {privacy_unit: {name: person, column: uid}, columns: {n: BIGINT}}}\n"
    )
    with dpsql.connect(engine, policy, tmp_path / "b.db", "ana") as connection:
        assert connection.sql("SELECT uid, n FROM t LIMIT 0").types == ["BIGINT", "BIGINT"]
    engine.close()


def zoned(pandas: Any, values: Sequence[str]) -> Any:
    return pandas.to_datetime(pandas.Series(values, dtype="str")).dt.tz_localize("UTC")


@pytest.mark.parametrize("values", [[1, 2], [1, None], [True, None], []])
def test_no_type_of_categories_follows_from_what_is_missing(values: list[object]) -> None:
    """DuckDB takes them for integers, or for floats where one of them is missing."""
    pandas, engine = pytest.importorskip("pandas"), dpsql.DuckDBEngine()
    frame = pandas.DataFrame({"n": pandas.Categorical(values), "uid": range(len(values))})
    engine.register("t", frame)
    assert [column.name for column in engine.catalog().tables["t"].columns] == ["uid"]
    engine.declare({"t": columns({"uid": "BIGINT", "n": "BIGINT"})})
    assert [str(column.type) for column in engine.catalog().tables["t"].columns] == [
        "BIGINT",
        "BIGINT",
    ]
    engine.close()


SERIES: dict[str, Callable[[Any, Any, Any, list[Any]], Any]] = {
    "polars integers": lambda pd, pl, pa, v: pl.Series(v, dtype=pl.Int64),
    "polars texts": lambda pd, pl, pa, v: pl.Series([None if x is None else "a" for x in v]),
    "pandas integers": lambda pd, pl, pa, v: pd.Series(v, dtype="Int64"),
    "pandas over Arrow": lambda pd, pl, pa, v: pd.Series(v, dtype="int64[pyarrow]"),
    "categories": lambda pd, pl, pa, v: pd.Series(pd.Categorical(v)),
    "booleans": lambda pd, pl, pa, v: pd.Series([x and x > 1 for x in v], dtype="boolean"),
    "Arrow": lambda pd, pl, pa, v: pa.array(v, pa.int64()),
    "Arrow in chunks": lambda pd, pl, pa, v: pa.chunked_array([pa.array(v, pa.int64())]),
    "long doubles": lambda pd, pl, pa, v: [None if x is None else np.longdouble(x) for x in v],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERIES)
def test_no_type_of_a_series_in_a_dict_follows_from_what_is_missing(kind: str) -> None:
    pandas, polars, arrow = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    worlds: list[list[Any]] = [[1, 2, 7], [1, 2, None], []]
    for values in worlds:
        engine, made = dpsql.DuckDBEngine(), SERIES[kind]
        engine.register(
            "t", {"uid": np.arange(len(values)), "v": made(pandas, polars, arrow, values)}
        )
        assert [column.name for column in engine.catalog().tables["t"].columns] == ["uid"]
        type_ = {"polars texts": "VARCHAR", "booleans": "BOOLEAN"}.get(kind, "BIGINT")
        engine.declare({"t": columns({"uid": "BIGINT", "v": type_})})
        (_, column) = engine.catalog().tables["t"].columns
        assert str(column.type) == type_
        rows = cursor_of(engine, "t").execute("SELECT * FROM t").fetchall()
        assert [row[1] is None for row in rows] == [value is None for value in values]
        engine.close()


def test_no_value_of_an_array_makes_its_table_unreadable() -> None:
    engine = dpsql.DuckDBEngine()
    far = np.array([0, 3 * 10**8, -(3 * 10**8)], "M8[D]")
    engine.register("t", {"uid": np.arange(3), "c": np.array(["a", "\ud800", "b"]), "d": far})
    types = [str(column.type) for column in engine.catalog().tables["t"].columns]
    assert types == ["BIGINT", "VARCHAR", "DATE"]
    rows = cursor_of(engine, "t").execute("SELECT * FROM t").fetchall()
    assert [(row[1], row[2] is None) for row in rows] == [("a", False), (None, True), ("b", True)]
    engine.close()


@pytest.mark.parametrize("values", [["2024-01-01"], [None], []])
def test_moments_of_a_zone_have_their_type_without_a_row(values: list[str]) -> None:
    pandas, engine = pytest.importorskip("pandas"), dpsql.DuckDBEngine()
    engine.register("t", pandas.DataFrame({"at": zoned(pandas, values)}))
    (column,) = engine.catalog().tables["t"].columns
    assert (column.name, str(column.type)) == ("at", "TIMESTAMP WITH TIME ZONE")
    engine.close()


@pytest.mark.parametrize("dtype", ["int64", "object"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["uid", "n", "n"], "two columns of the data are called n"),
        (["uid", "n", "N"], "two columns of the data are called N"),
        (["uid", 5, "5"], "two columns of the data are called 5"),
        (["uid", "n", ""], "a column of the data has no name"),
    ],
)
def test_columns_of_frames_are_what_they_are_called(
    names: list[object], reason: str, dtype: str
) -> None:
    """Of two columns of one name the engine would show one twice, as n and n_1."""
    pandas, engine = pytest.importorskip("pandas"), dpsql.DuckDBEngine()
    with pytest.raises(dpsql.ParameterError, match=reason):
        engine.register("t", pandas.DataFrame([[1, 2, 3]], columns=names, dtype=dtype))
    with pytest.raises(dpsql.ParameterError, match="are called 5"):
        engine.register("t", {5: [1], "5": [2]})
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(dpsql.ParameterError, match="are called n"):
        engine.register("t", arrow.table([[1], [2]], names=["n", "n"]))
    engine.close()


def test_what_is_no_table_is_refused_with_what_would_be_one() -> None:
    pandas, engine = pytest.importorskip("pandas"), dpsql.DuckDBEngine()
    ragged = {"uid": [1, 2], "n": [1]}
    objects = np.array([[1, "x"]], dtype=object)  # of which DuckDB would name columns and types
    for data in (pandas.Series([1]), objects, [{"uid": 1}], 5, None, {}, ragged):
        with pytest.raises(dpsql.Error) as refusal:
            engine.register("t", data, types=dict.fromkeys(ragged, "INT") if data is ragged else {})
        assert "a dict of columns" in str(refusal.value.hint)
    with pytest.raises(dpsql.ParameterError) as refusal:
        dpsql.connect(pandas.DataFrame({"uid": [1]}), "p.yaml", "b.db", "ana")
    assert "engine.register(" in str(refusal.value.hint)
    with pytest.raises(dpsql.InterfaceError) as unreadable:
        engine.register("t", pandas.DataFrame({"uid": [1j]}))
    assert "astype(str)" in str(unreadable.value.hint)
    engine.close()


# -- what the owner is told -----------------------------------------------------------------------


def misfits_of(path: Path, types: Mapping[str, str] = TYPES) -> dict[str | None, list[str]]:
    engine = open_database(path)
    (table,) = engine.catalog().tables.values()
    engine.declare({table.name.key: columns(types)})
    found: dict[str | None, list[str]] = {}
    for each in engine.misfits(table.name):
        found.setdefault(each.column, []).append(each.reason)
    engine.close()
    return found


@pytest.mark.slow
def test_check_tells_what_of_csv_is_not_as_declared(tmp_path: Path) -> None:
    lines = [
        b"uid,ward,cost",
        b"1,a,2.5",
        b"x,b,y",
        b"\xff,c,1",
        b"3",
        b"5,\x00,1",
        b"6,d",
        b"8,e,1,f",
    ]
    (tmp_path / "t.csv").write_bytes(b"\n".join([*lines, b"7," + b"z" * 20_000_000 + b",1"]))
    assert misfits_of(tmp_path / "t.csv") == {
        "uid": ["values of 1 row do not fit BIGINT, and are NULL"],
        "cost": ["values of 1 row do not fit DOUBLE, and are NULL"],
        "ward": ["values of 1 row have a NUL character in them"],
        "day": ["no header has it: it is NULL there"],
        None: [
            "no rows are made of 1 line of invalid UTF-8",
            "no rows are made of 1 line of more than 16 MB",
            "no rows are made of 2 lines with too few fields",
            "what 1 line have beyond the names of the header is left out",
        ],
    }


def test_check_tells_what_of_json_is_not_as_declared(tmp_path: Path) -> None:
    rows = [
        '{"uid":1,"ward":["a"]}',
        '{"uid":"x","day":"2024-13-01"}',
        "{bro",
        "[1]",
        '{"cost":{"a":1}}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    assert misfits_of(tmp_path / "t.jsonl") == {
        "uid": ["values of 1 row do not fit BIGINT, and are NULL"],
        "cost": ["values of 1 row do not fit DOUBLE, and are NULL"],
        "day": ["values of 1 row do not fit DATE, and are NULL"],
        "ward": ["values of 1 row are nested, and are texts here"],
        None: [
            "rows that are NULL throughout are made of 2 lines that have no object of JSON",
        ],
    }


def test_nothing_is_told_of_what_is_as_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("uid,ward,cost,day\n1,a,2.5,2024-01-01\n,,,\n")
    assert misfits_of(tmp_path / "t.csv") == {}


def test_a_draft_proposes_what_the_first_rows_have(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "id;name;price;at;day;ok;Id\n1;a;2.5;2024-01-01 10:00;2024-01-01;true;1\n2;;3;;;false;2\n"
    )
    (tmp_path / "u.jsonl").write_text('{"z":1,"a":{"b":2}}\n{"z":2.5,"c":"2024-01-01"}\n')
    engine = DuckDBEngine(files={name[0]: tmp_path / name for name in ("t.csv", "u.jsonl")})
    found = {
        key: [(column.name, str(column.type)) for column in proposed]
        for key, proposed in engine.proposed().items()
    }
    engine.close()
    assert found["t"] == [
        *(("id", "BIGINT"), ("name", "VARCHAR"), ("price", "DOUBLE"), ("at", "TIMESTAMP")),
        *(("day", "DATE"), ("ok", "BOOLEAN")),
    ]
    assert found["u"] == [("z", "DOUBLE"), ("a", "VARCHAR"), ("c", "DATE")]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.json", "t.jsonl.gz"])
@pytest.mark.parametrize("place", ["header", "row"])
def test_any_character_may_stand_anywhere(name: str, place: str, tmp_path: Path) -> None:
    """DuckDB's reader of Latin-1 fails on bytes that most letters of UTF-8 have."""
    letters = "\u00c0\u20ac\u202e\ud7ff\U0001f600\x85x"
    key = f"ward {letters}" if place == "header" else "ward"
    value = letters if place == "row" else "a"
    if "csv" in name:
        text = f"\ufeffuid,{key}\n1,{value}\n"
    elif "jsonl" in name:
        text = json.dumps({"uid": 1, key: value}, ensure_ascii=False) + "\n"
    else:
        text = json.dumps([{"uid": 1, key: value}], ensure_ascii=False)
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    types = {"uid": "BIGINT", key: "VARCHAR"}
    assert read(tmp_path / name, types) == [(1, value)]
    assert misfits_of(tmp_path / name, types) == {}


def zstandard(path: Path, content: bytes) -> None:
    """Write a compressed file that dpsql itself cannot read: DuckDB alone can."""
    pyarrow = pytest.importorskip("pyarrow")
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.CompressedOutputStream(file, "zstd") as z:
        z.write(content)


@pytest.mark.parametrize("header", [b"uid,w\xffrd", b"x\ny", b"", b"h" * 17_000_000])
def test_no_row_stands_in_for_a_header_that_duckdb_cannot_read(
    header: bytes, tmp_path: Path
) -> None:
    """A row of one unit whose values are the names of columns would decide about all others."""
    for row in (b"uid,ward", b"7,a"):
        zstandard(tmp_path / "t.csv.zst", header + b"\n" + row + b"\n1,a\n")
        assert read(tmp_path / "t.csv.zst", {"uid": "BIGINT", "ward": "VARCHAR"}) == []
        engine = open_database(tmp_path / "t.csv.zst")
        assert not {"7", "a", "uid", "ward"} & {c.name for c in engine.proposed().get("t", ())}
        engine.close()


def test_a_header_is_read_whatever_lines_are_below_it(tmp_path: Path) -> None:
    for row in (b"7,\xff", b"7," + b"z" * 17_000_000):
        zstandard(tmp_path / "t.csv.zst", b"uid,ward\n" + row + b"\n1,a\n")
        types = {"uid": "BIGINT", "ward": "VARCHAR"}
        assert read(tmp_path / "t.csv.zst", types) == [(1, "a")]


def test_no_text_at_the_start_of_an_array_elsewhere_takes_its_rows_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: False)  # as of a file that only DuckDB reads
    rows = b",\n".join(b'{"uid": %d, "ward": "a"}' % unit for unit in range(300))
    (tmp_path / "t.json").write_bytes(b'[{"uid": 300, "ward": "\xff"},\n%s]' % rows)
    assert len(read(tmp_path / "t.json", {"uid": "BIGINT", "ward": "VARCHAR"})) == 301


BROKEN_TEXTS = [
    b"half an emoji \\ud83d",
    b"a byte \xff",
    b"\\ude00\\ud83d",
    b"\\\\ud83d \\u0000 \\n",
]


@pytest.mark.parametrize("broken", BROKEN_TEXTS)
def test_no_text_in_an_array_takes_its_other_rows_away(broken: bytes, tmp_path: Path) -> None:
    """Python itself writes halves of characters, and reads them."""
    rows = b", ".join(b'{"uid": %d, "ward": "a"}' % unit for unit in range(300))
    path = tmp_path / "t.json"
    path.write_bytes(b'[%s, {"uid": 300, "ward": "%s"}]' % (rows, broken))
    found = read(path, {"uid": "BIGINT", "ward": "VARCHAR"})
    assert [row[0] for row in found] == [*range(301)]
    assert [row[1] for row in found[:300]] == ["a"] * 300
