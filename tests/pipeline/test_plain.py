"""Objects of any class are read as values of built-in types, or refused; nothing of theirs runs."""

from __future__ import annotations

import datetime
import enum
import fractions
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql
from dpsql.core.plain import NotPlain, plain
from dpsql.policy.model import Policy
from dpsql.policy.parameters import PARAMETER_NAMES, Overrides, check_value
from dpsql.syntax.parse import parse
from dpsql.syntax.placeholders import bind_values, plain_values


class Ran(BaseException):
    """Code of the object's own has run: not even ``except Exception`` may hide it."""


def _run(*_: object, **__: object) -> Any:
    raise Ran


_METHODS = """
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __contains__ __str__ __repr__ __format__
    __iter__ __len__ __bool__ __int__ __float__ __index__ __abs__ __neg__ __add__ __radd__ __mul__
    __rmul__ __reduce__ __reduce_ex__ __getattr__ __array__ __copy__ __deepcopy__ __complex__
    bit_length is_integer isoformat is_finite as_tuple adjusted item lower encode isascii
    tzinfo year month day hour astype dtype
""".split()  # noqa: SIM905
EVIL: dict[str, Any] = dict.fromkeys(_METHODS, _run)
EVIL["__class__"] = property(_run)


def evil(base: type, *arguments: object) -> Any:
    """An object of a class that derives from a built-in one and answers nothing."""
    methods = {name: method for name, method in EVIL.items() if name in dir(base) or name[0] == "_"}
    return base.__new__(type("Evil", (base,), methods), *arguments)


class Colour(enum.IntEnum):
    RED = 3


class Word(enum.StrEnum):
    S = "s1"


DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 3, 4, 5, 6)
HELD: list[tuple[object, object]] = [
    (Colour.RED, 3),
    (Word.S, "s1"),
    (evil(int, 7), 7),
    (evil(float, 2.5), 2.5),
    (evil(str, "a'b"), "a'b"),
    (evil(Decimal, "1.50"), Decimal("1.50")),
    (evil(datetime.date, 2024, 2, 29), DAY),
    (evil(datetime.datetime, 2024, 2, 29, 3, 4, 5, 6), MOMENT),
    (evil(datetime.time, 3, 4, 5), datetime.time(3, 4, 5)),
    (np.int8(-5), -5),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.float64(0.1), 0.1),
    (np.float32(0.1), float(np.float32(0.1))),
    (np.str_("x"), "x"),
    (np.datetime64("2024-02-29"), DAY),
    (np.datetime64("2024-02"), datetime.date(2024, 2, 1)),
    (np.datetime64("2024-02-29T03:04:05.000006"), MOMENT),
    (np.datetime64("2024-02-29T03:04:05.000006000"), MOMENT),
    (np.datetime64("2024-02-29T03", "h"), datetime.datetime(2024, 2, 29, 3)),
    (pd.Timestamp("2024-02-29 03:04:05.000006"), MOMENT),
]
ODD: list[object] = [
    *(object(), b"bytes", bytearray(b"x"), [1], (1,), {1}, {"a": 1}, 1j, range(3), int, ...),
    *(fractions.Fraction(1, 3), uuid.UUID(int=1), datetime.timedelta(1), datetime.UTC),
    *(
        np.timedelta64(5, "ns"),
        np.datetime64("NaT", "s"),
        np.array(3),
        np.ma.masked,
        np.bytes_(b"x"),
    ),
    *(np.complex128(1), np.longdouble(1), np.datetime64("20000-01-01"), np.void(b"x")),
    np.datetime64("2024-02-29T03:04:05.000000001"),
    np.datetime64("9999999", "Y"),  # which wraps around, in microseconds
    *(pd.NaT, pd.NA, pd.Timedelta(1), pd.Period("2024"), pd.Series([1])),
    *(pd.Timestamp("2024-02-29 03:04:05.000000001"), evil(bytes, b"x"), evil(object)),
]


# By their numbers, as pytest would ask such objects what they are.


@pytest.mark.parametrize("number", range(len(HELD)))
def test_a_value_is_read_by_the_built_in_class_of_its_class(number: int) -> None:
    value, held = HELD[number]
    found = plain(value)
    assert type(found) is type(held)
    assert found == held


@pytest.mark.parametrize("number", range(len(ODD)))
def test_what_holds_no_value_of_a_built_in_type_is_refused(number: int) -> None:
    with pytest.raises(NotPlain):
        plain(ODD[number])


@pytest.mark.parametrize("library", ["numpy", "pandas"])
def test_a_library_that_another_thread_is_loading_has_no_objects_yet(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    assert plain(enum.IntEnum("E", "a").a) == 1  # type: ignore[attr-defined]


# -- every way in ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("plain")) as opened:
        yield opened


QUESTION = "SELECT count(*) FROM visits WHERE s = ?"


VALUES = [*(value for value, _ in HELD), *ODD]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(VALUES)))
def test_no_way_in_lets_an_object_answer_for_itself(
    connection: dpsql.Connection, number: int
) -> None:
    """Each takes the value or refuses it, at once, with an error of ours that is short."""
    value: Any = VALUES[number]
    answer = connection.sql("SELECT k FROM shops")
    cursor = connection.cursor().execute("SELECT k FROM shops")
    counted = "SELECT count(*) FROM visits"
    ways: list[Callable[[], object]] = [
        lambda: connection.explain(QUESTION, [value]),
        lambda: connection.explain(QUESTION, (value,)),
        lambda: connection.explain(QUESTION.replace("?", "$a"), {"a": value}),
        lambda: connection.explain(QUESTION, value),
        lambda: connection.explain(value),
        lambda: connection.sql(value),
        lambda: connection.sql(counted, [value]),
        lambda: connection.sql("SHOW TABLES", value),
        lambda: connection.sql("SELECT 1", fresh=value),
        lambda: connection.explain(counted, mechanism=value),
        lambda: answer.intervals(value),
        lambda: answer.summary(value),
        lambda: answer.arrow(intervals=value),
        lambda: connection.history(value),
        lambda: connection.budget(compare=value),
        lambda: cursor.fetchmany(value),
        lambda: cursor.executemany(QUESTION, value),
        lambda: cursor.execute("SELECT ?", value),
        lambda: check_value("epsilon", value),
        lambda: dpsql.connect("nothing.duckdb", Policy("d"), None, value),
        lambda: dpsql.connect("nothing.duckdb", Policy("d"), None, "a", session=value),
        lambda: dpsql.connect("nothing.duckdb", Policy("d"), None, "a", epsilon=value),
        *(partial(connection.explain, counted, **{name: value}) for name in PARAMETER_NAMES),
    ]
    began, before = time.process_time(), connection.budget()
    refused = []
    for ask in ways:
        try:
            ask()
        except dpsql.Error as error:
            refused.append(error)
    assert all(len(str(error)) < 1000 for error in refused)
    assert connection.budget() == before
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_an_object_that_is_taken_means_its_value(tmp_path: Path, no_noise: None) -> None:
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as connection:
        sql = "SELECT count(*) FROM visits WHERE {} = ?"
        for column, odd, value in (
            ("k", Colour.RED, 3),
            ("k", np.int16(3), 3),
            ("s", Word.S, "s1"),
            ("d", np.datetime64("2024-01-05"), datetime.date(2024, 1, 5)),
            ("ts", np.datetime64("2024-01-05T03", "ns"), datetime.datetime(2024, 1, 5, 3)),
            ("ts", pd.Timestamp("2024-01-05 03:00"), datetime.datetime(2024, 1, 5, 3)),
        ):
            plainly = connection.sql(sql.format(column), [value]).fetchall()
            assert plainly != [(0,)]
            assert connection.sql(sql.format(column), [odd]).fetchall() == plainly
            assert connection.sql(sql.format(column), [odd]).cost.stored  # it is the same question
        assert check_value("k_bar", np.int64(5)) == 5
        assert type(check_value("k_bar", Colour.RED)) is int
        assert Overrides.of({"epsilon": np.float32(0.5)}).epsilon == 0.5


def test_a_decimal_means_all_of_its_digits() -> None:
    digits = "12345678901234567890123456789012345678"
    for text in (digits, f"-{digits}", f"0.{digits[1:]}"):
        tree = bind_values(parse("SELECT ?"), [Decimal(text)], "SELECT ?")
        assert tree.sql("duckdb").replace("(", "").replace(")", "") == f"SELECT {text}"


@pytest.mark.parametrize("text", ["1E+999999999", "-1E-999999999", "0E+999999999", "NaN", "sNaN"])
def test_a_decimal_of_many_digits_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with fails_with("bad_value"):
        plain_values([Decimal(text)])
    assert time.process_time() - began < 0.1


# -- what holds the values ------------------------------------------------------------------------


class Endless(Sequence[object]):
    """Never says that it ends."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        return 1


class Failing(Mapping[str, object]):
    """Fails whenever it is asked."""

    def __len__(self) -> int:
        raise MemoryError

    def __getitem__(self, name: str) -> object:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield "a"


class Named(dict[str, object]):
    __getitem__ = __iter__ = __len__ = __contains__ = keys = items = values = get = _run


class Listed(list[object]):
    __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _run


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (Named(a=1), {"a": 1}),
        (Listed([1, 2]), (1, 2)),
        ({Word.S: 1}, {"s1": 1}),
        (Endless(), "too_many_values"),
        (range(2**62), "too_many_values"),
        (Failing(), "bad_values"),
        ({1: 1}, "bad_values"),
        ({("a",): 1}, "bad_values"),
        ({1, 2}, "bad_values"),
        (iter([1]), "bad_values"),
        (memoryview(b"a"), "bad_values"),
        (bytearray(b"a"), "bad_values"),
        (np.array([1, 2]), "bad_values"),
        (pd.Series([1, 2]), "bad_values"),
        ("a", "bad_values"),
        (None, "bad_values"),
    ],
    ids=range(16),
)  # fmt: skip
def test_values_come_in_sequences_and_mappings_that_are_read_once(
    values: Any, found: dict[str, int] | tuple[int, int] | str
) -> None:
    if not isinstance(found, str):
        read = plain_values(values)
        assert type(read) is type(found)
        assert read == found
        return
    with fails_with(found):
        plain_values(values)
