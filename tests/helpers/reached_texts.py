"""All texts that can be reached from an object of Python's: through attributes and containers."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, int, float, bool, bytes)


def reached_texts(start: object, skip: tuple[str, ...] = ()) -> frozenset[str]:
    """Every text below ``start``, of functions those they close over; ``skip`` names attributes."""
    texts: set[str] = set()
    seen: set[int] = set()
    waiting, kept = [start], []
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            texts.add(found)
            continue
        if id(found) in seen or isinstance(found, _OPAQUE):
            continue
        seen.add(id(found))
        kept.append(found)  # so that no two objects have one id
        waiting += _below(found, skip)
    return frozenset(texts)


def _below(found: Any, skip: tuple[str, ...]) -> Iterator[object]:
    if isinstance(found, Mapping):
        yield from list(found.keys())
        yield from list(found.values())
    elif isinstance(found, list | tuple | set | frozenset):
        yield from list(found)
    if isinstance(found, types.FunctionType):
        for cell in found.__closure__ or ():
            yield cell.cell_contents
        yield from found.__defaults__ or ()
        return
    if isinstance(found, types.MethodType):
        yield found.__self__
        yield found.__func__
        return
    if hasattr(found, "func") and hasattr(found, "args"):  # a partial function
        yield found.func
        yield found.args
        yield found.keywords
    names = list(getattr(found, "__dict__", ()))
    for kind in type(found).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    for name in names:
        if name not in skip and not (name.startswith("__") and name.endswith("__")):
            value = getattr(found, name, None)
            if value is not None:
                yield value
