"""Values that come from outside, as plain built-in ones.

What a program passes may be of any class: an IntEnum, a number of numpy's, a timestamp of pandas',
a subclass that says of itself what it likes. Such an object is asked nothing. Its class is looked
at, and its value is read by the built-in class it derives from, so that all that follows
(comparing, hashing, printing) meets values of exactly the built-in types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from dpsql.errors import ParameterError, ProgrammingError

Plain: TypeAlias = bool | int | float | str | Decimal | date | time | None
"""Of exactly one of these types; a datetime is a date."""

_EXACT: Final[frozenset[type]] = frozenset(
    {type(None), bool, int, float, str, Decimal, date, datetime, time}
)
_DAYS: Final = frozenset({"Y", "M", "W", "D"})  # numpy's units of which each is a number of days
_DATE_PARTS: Final = (date.year, date.month, date.day)
_TIME_PARTS: Final = (time.hour, time.minute, time.second, time.microsecond, time.tzinfo)
_MOMENT_PARTS: Final = (
    *(datetime.hour, datetime.minute, datetime.second, datetime.microsecond, datetime.tzinfo),
)


_T = TypeVar("_T")


class NotPlain(Exception):
    """The object holds no value of a built-in type, or none that is exactly its own."""


def plain(value: object) -> Plain:
    """Return the value of an object, as one of a built-in type. Raises ``NotPlain``.

    Nothing of the object's own runs.
    """
    kind = type(value)
    if kind in _EXACT:
        return value  # type: ignore[return-value]
    if issubclass(kind, _loaded("numpy", "generic", ())):
        return _of_numpy(value, sys.modules["numpy"])
    if issubclass(kind, _loaded("pandas", "Timestamp", ())):
        return _of_pandas(value, sys.modules["pandas"])
    if value is _loaded("pandas", "NaT", NotPlain):
        raise NotPlain
    return _of_subclass(value)


def _loaded(library: str, name: str, otherwise: Any) -> Any:
    """Find what a library defines, if it is loaded.

    Who has an object of a library has loaded it, and nobody else should wait for that. While
    another thread loads it, its names are not there yet.
    """
    return getattr(sys.modules.get(library), name, otherwise)


def plain_or(value: object, otherwise: _T) -> Plain | _T:
    """Return the value of an object, as one of a built-in type, or another where it has none."""
    try:
        return plain(value)
    except NotPlain:
        return otherwise


def type_name(value: object) -> str:
    """Return the name of an object's class, cut where it is long; for messages."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name if len(name) <= 40 else name[:37] + "..."


def plain_text(name: str, value: object) -> str:
    """Return a text given as an argument. Raises ``ParameterError`` (``bad_parameter``)."""
    text = plain_or(value, None)
    if not isinstance(text, str):
        raise ParameterError(f"{name} must be a text, not {type_name(value)}", code="bad_parameter")
    return text


def plain_number(value: object) -> float | None:
    """Return a numeric argument as a float; None for other values (TRUE included)."""
    number = plain_or(value, None)
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return None
    try:
        return float(number)
    except (OverflowError, ValueError):
        return None


def plain_whole(value: object) -> int | None:
    """Return a whole numeric argument; None for other values (TRUE included)."""
    number = plain_or(value, None)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def plain_truth(name: str, value: object) -> bool:
    """Return True or False given as an argument. Raises ``ParameterError`` (``bad_parameter``)."""
    found = plain_or(value, None)
    if not isinstance(found, bool):
        raise ParameterError(
            f"{name} must be True or False, not {type_name(value)}", code="bad_parameter"
        )
    return found


def plain_limit(value: object) -> int:
    """Return a number of rows, given as an argument. Raises ``ParameterError`` below 1."""
    limit = plain_whole(value)
    if limit is None or limit < 1:
        raise ParameterError("limit must be a whole number from 1", code="bad_parameter")
    return limit


def plain_items(values: object, most: int) -> tuple[object, ...] | dict[str, object]:
    """Return the members of a sequence, or of a mapping from texts, as they were passed.

    Raises ``ProgrammingError``: ``bad_values`` if it is neither, cannot be read, or has keys that
    are no texts; ``too_many_values`` for more than ``most``.
    """
    kind = type(values)
    if issubclass(kind, Mapping):
        pairs = _at_most(most, _pairs, values)
        return {_key(name): value for name, value in pairs}
    if issubclass(kind, Sequence) and not issubclass(kind, str | bytes | bytearray | memoryview):
        return tuple(_at_most(most, _members, values))
    raise _bad_values()


def _at_most(most: int, read: Callable[[Any], Iterator[Any]], values: object) -> list[Any]:
    try:
        found = list(islice(read(values), most + 1))
    except Exception:  # noqa: BLE001 (whatever an object of somebody's own does)
        raise _bad_values() from None
    if len(found) > most:
        raise ProgrammingError(
            f"more than {most:,} values are given",
            code="too_many_values",
            hint="Long lists of values belong in a public table that the query joins.",
        )
    return found


def _members(values: Any) -> Iterator[Any]:
    for kind in (list, tuple):
        if issubclass(type(values), kind):
            return iter(kind.__iter__(values))
    return iter(values)


def _pairs(values: Any) -> Iterator[Any]:
    if issubclass(type(values), dict):
        return iter(dict.items(values))
    return ((name, values[name]) for name in values)


def _key(name: object) -> str:
    found = plain_or(name, None)
    if not isinstance(found, str):
        raise _bad_values()
    return found


def _bad_values() -> ProgrammingError:
    return ProgrammingError(
        "the values of query parameters must be a list, a tuple or a mapping from names",
        code="bad_values",
    )


def _of_subclass(value: object) -> Plain:
    """Return the value of an object of a class that derives from a built-in one."""
    kind = type(value)
    if issubclass(kind, int):
        return int.__index__(value)  # type: ignore[arg-type]
    if issubclass(kind, float):
        return float.__float__(value)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, Decimal):
        return Decimal(value)  # type: ignore[arg-type]
    if issubclass(kind, datetime):
        return datetime(*_parts(value, (*_DATE_PARTS, *_MOMENT_PARTS)))
    if issubclass(kind, date):
        return date(*_parts(value, _DATE_PARTS))
    if issubclass(kind, time):
        return time(*_parts(value, _TIME_PARTS))
    raise NotPlain


def _parts(value: object, parts: Sequence[Any]) -> list[Any]:
    """Read what descriptors of a built-in class say of an object, whatever its class defines."""
    return [part.__get__(value) for part in parts]


def _of_numpy(value: Any, numpy: Any) -> Plain:
    """Return the value of a numpy scalar, where a built-in type holds exactly the same."""
    kind = type(value)
    if issubclass(kind, numpy.datetime64):
        return _of_datetime64(value, numpy)
    if issubclass(kind, numpy.str_ | numpy.float64):
        return _of_subclass(value)
    exact = (numpy.bool_, numpy.integer, numpy.float32, numpy.float16)
    if issubclass(kind, numpy.timedelta64) or not issubclass(kind, exact):
        raise NotPlain
    found: Plain = numpy.generic.item(value)
    return found


def _of_datetime64(value: Any, numpy: Any) -> Plain:
    """Return a date or a timestamp. Python's end at microseconds and in the year 9999."""
    given = numpy.asarray(value)
    unit, _ = numpy.datetime_data(given.dtype)
    moment = given.astype("datetime64[D]" if unit in _DAYS else "datetime64[us]")
    found = moment.item()
    if not isinstance(found, date) or moment.astype(given.dtype) != given:
        raise NotPlain
    return found


def _of_pandas(value: object, pandas: Any) -> Plain:
    """Return a timestamp of pandas', to the nanosecond."""
    if datetime.tzinfo.__get__(value) is not None:
        return datetime(*_parts(value, (*_DATE_PARTS, *_MOMENT_PARTS)))
    return _of_datetime64(pandas.Timestamp.to_datetime64(value), sys.modules["numpy"])
