"""Failed logins, counted by user and by address: the more of them, the later the next answer.

A delay tells how often a name was tried, and nothing of whether it exists: names that nobody has
are counted like others, and a login that succeeds forgets no failure, so that a count can fall by
time alone. Counts are in memory: a server that is started again has none.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dpsql.server.people.records import fold_name
from dpsql.server.people.scram import login_failed

_SITE: Final = 64
"""The bits of an IPv6 address that are one site's; it has all the addresses below."""


@dataclass(slots=True)
class _Count:
    failures: int
    last: float
    """When the last of them was."""
    free: float
    """When the next attempt may be answered."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login under way. Its answer, whatever it is, is given after ``wait`` seconds."""

    user: str
    address: str
    wait: float


class Lockout:
    """Decides how long each login waits for its answer.

    The first failures of a user and of an address cost no time (``user_free``, ``address_free``),
    each further one twice as much as the one before, from ``first`` to ``most`` seconds. Attempts
    from an address that has to wait are answered one after another, and refused unseen where they
    would wait longer than ``most``: more connections do not give more guesses. Attempts for one
    user are not, or whoever fails on purpose would keep that user out. A count is forgotten
    ``memory`` seconds after its last failure, and where there are more than ``kept`` of a kind,
    the oldest first.
    """

    def __init__(
        self,
        *,
        user_free: int = 5,
        address_free: int = 20,
        first: float = 0.5,
        most: float = 8.0,
        memory: float = 900.0,
        kept: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._user_free, self._address_free = user_free, address_free
        self._first, self._most = first, most
        self._memory, self._kept, self._clock = memory, kept, clock
        self._users: OrderedDict[bytes, _Count] = OrderedDict()
        self._addresses: OrderedDict[bytes, _Count] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, user: str, address: str) -> LoginAttempt:
        """Begin a login, by the name that the client gives. Raises ``login_failed`` unseen."""
        with self._lock:
            now = self._clock()
            wait = 0.0
            if by_address := self._known(self._addresses, site_of(address), now):
                queue = max(0.0, by_address.free - now)
                if queue > self._most:
                    raise login_failed()
                wait = queue + self._pause(by_address.failures - self._address_free)
                by_address.free = now + wait
            if by_user := self._known(self._users, fold_name(user), now):
                wait = max(wait, self._pause(by_user.failures - self._user_free))
            return LoginAttempt(user, address, wait)

    def failed(self, attempt: LoginAttempt) -> None:
        """Count a failure: as soon as it is known, so before the wait for its answer."""
        with self._lock:
            now = self._clock()
            self._add(self._users, fold_name(attempt.user), now)
            self._add(self._addresses, site_of(attempt.address), now)

    def _pause(self, beyond: int) -> float:
        # A float has no more than 1,023 doublings.
        return 0.0 if beyond < 0 else min(self._most, self._first * 2.0 ** min(beyond, 64))

    def _known(self, counts: OrderedDict[bytes, _Count], name: str, now: float) -> _Count | None:
        """Return the count of a name, if there is one that is not too old."""
        found = counts.get(_short(name))
        return None if found is None or found.last < now - self._memory else found

    def _add(self, counts: OrderedDict[bytes, _Count], name: str, now: float) -> None:
        found = self._known(counts, name, now) or _Count(0, now, now)
        found.failures, found.last = found.failures + 1, now
        counts[_short(name)] = found
        counts.move_to_end(_short(name))
        while len(counts) > self._kept or next(iter(counts.values())).last < now - self._memory:
            counts.popitem(last=False)


def site_of(address: str) -> str:
    """Return the name of an address to count by: of IPv6, the network of a site."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # a socket of this machine, or none
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _SITE), strict=False))


def _short(name: str) -> bytes:
    """Digest a name: clients choose it, and it may be long."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
