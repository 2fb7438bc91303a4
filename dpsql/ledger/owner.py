"""The data owner's actions on the ledger. Every action is an event of the chain.

Kept apart from what queries need: who has a :class:`dpsql.ledger.Ledger` to charge is not thereby
told to hand out budget. In a shared PostgreSQL ledger the two can be two roles (docs/ledger.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from dpsql.errors import LedgerError, ParameterError, UnknownName
from dpsql.ledger import accounts
from dpsql.ledger.accounts import AccountNode, nodes_of, tied_nodes
from dpsql.ledger.backend import Backend
from dpsql.ledger.chain import Kind, microseconds
from dpsql.ledger.journal import Journal, recorded
from dpsql.ledger.names import key_by_name, line_by_name
from dpsql.ledger.records import Renewal, check_json, check_limit, check_new_path, check_path
from dpsql.ledger.releases import drop_parts
from dpsql.ledger.streams import end_published
from dpsql.ledger.transactions import DatabaseLink
from dpsql.privacy.accounting.zcdp import Amount

_LATEST: Final = 2**63 - 1
"""The last microsecond of any clock."""
_T = TypeVar("_T")


class Owner:
    """The owner's actions on one ledger, under the name ``who``. From ``Ledger.owner``.

    All of them raise :class:`UnknownName` for an account that does not exist,
    :class:`ParameterError` for malformed arguments and :class:`LedgerError` as any other call, for
    a name that an account had before too (``account_renamed``).
    """

    def __init__(self, link: DatabaseLink, who: str) -> None:
        self._link = link
        self._who = who

    def create(self, path: str) -> None:
        """Create an account, and missing accounts above it, without limits of its own.

        Raises :class:`LedgerError` (``ledger_account_exists``) if it exists.
        """
        check_new_path(path)
        self._act(lambda journal: _create(journal, path))

    def rename(self, path: str, name: str) -> None:
        """Rename an account, with all of its spending; the name must be new.

        So do its limits here, windows, suspension, stored answers and streams, and the accounts
        below it. Both are paths, which differ in the last part. From then on ``path`` is closed for
        ever: whoever asks under it is refused, and no account gets that name but this one again.

        Raises :class:`LedgerError` (``ledger_name_taken``) for a name that another account has or
        had.
        """
        check_path(path)
        check_new_path(name)
        if path.rpartition("/")[0] != name.rpartition("/")[0]:
            raise ParameterError(
                "an account keeps its place: only the last part of its path can be another",
                code="bad_parameter",
                hint="write both paths whole, like 'sales/ana' and 'sales/zoe'",
            )
        self._act(lambda journal: _rename(journal, path, name))

    def set_limits(self, path: str, limit: Amount | None, *, terms: str = "{}") -> None:
        """Limit an account's spending in a window, in addition to the policy's limit.

        None lifts the limit. ``terms`` is JSON text kept with it, such as the epsilon, delta and
        composition that it was computed from.
        """
        if limit is not None:
            check_limit(limit)
        check_json("terms", terms)
        written = json.loads(terms)
        self._act(lambda journal: accounts.set_limit(journal, _node(journal, path), limit, written))

    def renew(self, path: str, every: Renewal | None) -> None:
        """Have the account's window renewed every day or month from now on, or never.

        The present window goes on until the present day or month is over.
        """
        if not isinstance(every, Renewal | None):
            raise ParameterError("a window is renewed every day or month", code="bad_parameter")
        self._act(lambda journal: accounts.renew(journal, _node(journal, path), every))

    def open_window(self, path: str) -> None:
        """Start a new window now: nothing spent before counts against the limits any more.

        It is not forgotten: ``Ledger.total`` goes on reporting it.
        """
        self._act(lambda journal: accounts.open_window(journal, _node(journal, path), "owner"))

    def suspend(self, path: str) -> None:
        """Have the account, and all below it, answer no new question until it is reopened."""
        self._act(lambda journal: accounts.suspend(journal, _node(journal, path), Kind.SUSPEND))

    def reopen(self, path: str) -> None:
        """Let an account that was suspended, by the owner or by a failure, ask again.

        Look into the failure first: somebody may have found a question that fails or not depending
        on what a row holds. Raises :class:`LedgerError` (``ledger_not_suspended``) if the account
        itself is not suspended.
        """
        self._act(lambda journal: _reopen(journal, path))

    def forget(self, path: str, before: datetime | None = None) -> int:
        """Delete the stored releases of the account and those below it; return how many.

        What streams have published is deleted, too, and ends them: steps build on those before.
        ``before`` keeps what was settled later, and streams that have published later; it needs a
        time zone. The chain keeps the entries and the hashes of what was released.
        """
        check_path(path)
        if before is not None and (not isinstance(before, datetime) or before.tzinfo is None):
            raise ParameterError("a time needs a time zone", code="bad_parameter")
        until = None if before is None else microseconds(before)
        count = self._act(lambda journal: _forget(journal, path, until))
        self._link.use(lambda sql: sql.forget_deleted())
        return count

    def accept_clock(self) -> None:
        """Go on with the present time after a clock that was ahead was set right.

        No window is renewed by it: one that was opened too early lasts until its day or month is
        over, or until :meth:`open_window`.
        """
        self._act(lambda journal: journal.note(Kind.CLOCK), any_clock=True)

    def _act(self, action: Callable[[Journal], _T], *, any_clock: bool = False) -> _T:
        return self._link.write(partial(recorded, self._who, action, any_clock=any_clock))


def _create(journal: Journal, path: str) -> None:
    line = [place.key for place in line_by_name(journal.sql, path, for_owner=True)]
    known = nodes_of(journal.sql, line)
    if line[-1] in known:
        raise LedgerError(
            f"the account {path} exists already",
            code="ledger_account_exists",
            hint="the ledger was not changed",
        )
    for each in line:
        if each not in known:
            accounts.create(journal, each)


def _rename(journal: Journal, path: str, name: str) -> None:
    key = _node(journal, path).path
    above = key.rpartition("/")[0]
    accounts.rename(journal, key, "/".join(filter(None, (above, name.rpartition("/")[2]))))


def _reopen(journal: Journal, path: str) -> None:
    node = _node(journal, path)
    if not node.is_suspended:
        raise LedgerError(
            f"the account {path} is not suspended",
            code="ledger_not_suspended",
            hint="`dpsql budget show --all` tells which are; the ledger was not changed",
        )
    accounts.reopen(journal, node)


def _forget(journal: Journal, path: str, until: int | None) -> int:
    """Delete the releases that were settled until a time, or all; return how many.

    Of a stream all or nothing.
    """
    sql = journal.sql
    path = key_by_name(sql, path, for_owner=True)
    # Without a time also what was settled under a clock that was ahead.
    below, latest = path + "/", _LATEST if until is None else until
    found = sql.execute(
        "SELECT releases.entry FROM releases JOIN events ON events.entry = releases.entry "
        "WHERE (releases.account = ? OR substr(releases.account, 1, ?) = ?) AND at <= ? "
        "ORDER BY releases.entry",
        (path, len(below), below, latest),
    )
    for (entry,) in found:
        journal.note(Kind.FORGET, path, entry=entry)
        sql.execute("DELETE FROM releases WHERE entry = ?", (entry,))
        drop_parts(sql, entry)
    published = sum(end_published(journal, account, latest) for account in _at_or_below(sql, path))
    return len(found) + published


def _at_or_below(sql: Backend, path: str) -> list[str]:
    """List the account of this key and those below it."""
    below = path + "/"
    rows = sql.execute(
        "SELECT path FROM accounts WHERE path = ? OR substr(path, 1, ?) = ? ORDER BY path",
        (path, len(below), below),
    )
    return [found for (found,) in rows]


def _node(journal: Journal, path: str) -> AccountNode:
    check_path(path)
    key = key_by_name(journal.sql, path, for_owner=True)
    found = tied_nodes(journal.sql, (key,))
    if not found:
        raise UnknownName(
            f"the ledger has no account {path}",
            code="unknown_account",
            hint="create it first",
        )
    return found[key]
