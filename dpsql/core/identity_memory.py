"""A memory of results by the identity of a value, as long as the value lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Owner = TypeVar("_Owner")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class IdentityMemory(Generic[_Owner, _Key, _Value]):
    """Keeps values beside owners, which are told apart by identity, and forgets them with these."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[_Owner], dict[_Key, _Value]]] = {}

    def get(self, owner: _Owner, key: _Key) -> _Value | None:
        """Look up a value; None for one that is not kept."""
        found = self._found.get(id(owner))
        return None if found is None or found[0]() is not owner else found[1].get(key)

    def keep(self, owner: _Owner, key: _Key, value: _Value) -> None:
        """Keep a value beside its owner."""
        place = id(owner)
        found = self._found.get(place)
        if found is not None and found[0]() is owner:
            found[1][key] = value
        else:
            self._found[place] = weakref.ref(owner, self._forgetting(place)), {key: value}

    def _forgetting(self, place: int) -> Callable[[weakref.ref[_Owner]], None]:
        """Return the callback for a deleted owner, whose id may be reused."""

        def forget(gone: weakref.ref[_Owner]) -> None:
            found = self._found.get(place)
            if found is not None and found[0] is gone:
                del self._found[place]

        return forget
