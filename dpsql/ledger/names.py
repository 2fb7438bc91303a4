"""Names of accounts: an owner may rename an account, which keeps its spending.

The chain, sums and stored answers go on calling an account what it was called first: that is its
*key*. So renaming moves nothing, and nothing can be lost by it. A name, once given, means one
account for ever: the names that an account had are closed, and no other account gets one of them.

Names are looked up in the events that gave them, which are compared with their hashes. An event
holds the new name below the key of the account above.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend
from dpsql.ledger.chain import iso
from dpsql.ledger.records import RenamedAccount, line_of
from dpsql.ledger.ties import require_hashed

_ANY = "SELECT 1 FROM events WHERE kind = 'rename' LIMIT 1"
_GIVEN = """
SELECT seq, account FROM events WHERE kind = 'rename' AND query = ? ORDER BY seq DESC LIMIT 1
"""
_LATEST = """
SELECT seq, query FROM events WHERE kind = 'rename' AND account = ? ORDER BY seq DESC LIMIT 1
"""
_ALL = "SELECT seq, at, who, account, query FROM events WHERE kind = 'rename' ORDER BY seq"


class NamedAccount(NamedTuple):
    """An account of a line, as a path of first names (the ledger's) and of present names."""

    key: str
    name: str


def line_by_name(sql: Backend, path: str, *, for_owner: bool = False) -> tuple[NamedAccount, ...]:
    """Find the accounts from the dataset down to ``path``, by the names they have now.

    Those that the ledger has not yet are called by their keys. Raises :class:`LedgerError`
    (``account_renamed``) for a name that an account had before; what it is called now is told
    ``for_owner`` alone.
    """
    line = line_of(path)
    if not sql.execute(_ANY):
        return tuple(NamedAccount(each, each) for each in line)
    key, found = "", []
    for name in line:
        given = _below(key, name)
        key = _key_of(sql, given)
        if present_name(sql, key) != given:
            raise _renamed(name, full_name(sql, key) if for_owner else None)
        found.append(NamedAccount(key, name))
    return tuple(found)


def key_by_name(sql: Backend, path: str, *, for_owner: bool = False) -> str:
    """Return the key of the account of this name. Raises as :func:`line_by_name` does."""
    return line_by_name(sql, path, for_owner=for_owner)[-1].key


def key_by_any_name(sql: Backend, path: str) -> str:
    """Return the key of the account with this present or former name, for recording."""
    key = ""
    if not sql.execute(_ANY):
        return path
    for name in line_of(path):
        key = _key_of(sql, _below(key, name))
    return key


def full_name(sql: Backend, key: str) -> str:
    """Return the present path of an account, by its key."""
    return "/".join(present_name(sql, each).rpartition("/")[2] for each in line_of(key))


def full_names(sql: Backend, keys: Iterable[str]) -> dict[str, str]:
    """Return the present paths of accounts, by their keys."""
    if not sql.execute(_ANY):
        return {key: key for key in keys}
    return {key: full_name(sql, key) for key in keys}


def present_name(sql: Backend, key: str) -> str:
    """Return the present name of a key, below the key of the account above."""
    return _decided(sql, _LATEST, key) or key


def is_given_to_another(sql: Backend, given: str, key: str) -> bool:
    """Tell whether another account than that of ``key`` was ever renamed to ``given``."""
    return any(whose != key for _, whose in sql.execute(_GIVEN, (given,)))


def renames(sql: Backend) -> tuple[RenamedAccount, ...]:
    """List all renamings, oldest first, by the names that the accounts above have now."""
    found: list[RenamedAccount] = []
    last: dict[str, str] = {}
    for seq, at, who, key, given in sql.execute(_ALL):
        above = full_name(sql, key.rpartition("/")[0]) if "/" in key else ""
        former = last.get(key) or str(key)
        last[key] = given
        names = (_below(above, former), _below(above, given))
        found.append(RenamedAccount(seq, iso(at), who, *names, full_name(sql, key)))
    return tuple(found)


def _below(key: str, path: str) -> str:
    """Return the last part of a path below another account."""
    part = path.rpartition("/")[2]
    return f"{key}/{part}" if key else part


def _key_of(sql: Backend, given: str) -> str:
    return _decided(sql, _GIVEN, given) or given


def _decided(sql: Backend, question: str, path: str) -> str | None:
    """Read the answer of a renaming event, if there is one; the event must have its hash."""
    for seq, found in sql.execute(question, (path,)):
        require_hashed(sql, path, [seq])
        return str(found)
    return None


def _renamed(path: str, now: str | None) -> LedgerError:
    hint = "ask the owner of the data for the present name; `dpsql budget show --all` tells it"
    return LedgerError(
        f"the account {path} has another name now, and nothing is asked or told under this one",
        code="account_renamed",
        hint=hint if now is None else f"it is {now}",
    )
