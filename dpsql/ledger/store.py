"""The ledger for its callers: reserve, settle, and read spending and stored answers."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Never, TypeVar

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger import releases, streams
from dpsql.ledger.accounts import (
    charge_line,
    has_read,
    last_changes,
    note_read,
    require_node,
    settle,
    standings,
    suspend,
    windows_of,
)
from dpsql.ledger.backend import Backend, Home, LedgerRow
from dpsql.ledger.carried import read_by, readable_of, stream_terms
from dpsql.ledger.chain import FIELDS, Event, Kind, iso, microseconds
from dpsql.ledger.journal import Journal, head, recorded
from dpsql.ledger.names import full_names, key_by_any_name, key_by_name, renames
from dpsql.ledger.owner import Owner
from dpsql.ledger.records import (
    Account,
    Charge,
    Entry,
    Head,
    ReadableStream,
    RenamedAccount,
    Spent,
    Standing,
    StepTicket,
    Stored,
    StreamProgress,
    StreamRecord,
    Window,
    check_cause,
    check_charge,
    check_json,
    check_limits,
    check_name,
    check_new_path,
    check_path,
    check_step,
    check_ticket,
    line_of,
    planned_steps,
    refused_change,
)
from dpsql.ledger.releases import Packed, PartsDigest
from dpsql.ledger.schema import SUSPENDING
from dpsql.ledger.sqlite_file import SQLiteHome
from dpsql.ledger.streams import StepRecord
from dpsql.ledger.transactions import DatabaseLink, opening
from dpsql.ledger.verify import Verification, verify
from dpsql.privacy.accounting.zcdp import NO_CHARGE, Amount, check_units

_T = TypeVar("_T")


class Ledger:
    """One ledger, shared by any number of threads and processes.

    Promises: a reservation that :meth:`reserve` returned survives a crash of the process and of the
    machine; no account ever exceeds the limits it is reserved under, nor does any account above
    it; nothing but :meth:`settle` lowers what was spent. Not promised: noticing from the inside
    that an older copy of the ledger was put back (:meth:`head`).

    Open one with :meth:`open`, as a context manager or with :meth:`close`. Every method raises
    :class:`LedgerError`, in fixed words, when the ledger cannot be used.
    """

    def __init__(self, link: DatabaseLink, who: str, created: bool) -> None:
        self._link = link
        self._who = who
        self.created = created
        """True if opening has created the ledger."""

    @classmethod
    def open(
        cls, place: str | os.PathLike[str], *, busy_timeout: float = 10.0, who: str | None = None
    ) -> Ledger:
        """Open the ledger at ``place``, a file or a ``postgresql://`` URL; create what is missing.

        A new file has mode 0600. ``busy_timeout`` is how many seconds to wait for other users of
        the ledger; ``who`` goes into the chain with every event, and is the name of the process's
        user if it is not given.

        Raises :class:`LedgerError`, changing nothing, for what is not a ledger of this version, is
        damaged or cannot be written; :class:`ParameterError` for bad arguments.
        """
        if type(busy_timeout) not in (int, float) or not 0 <= busy_timeout <= 86_400:
            raise ParameterError(
                "busy_timeout must be between 0 and 86400 seconds", code="bad_parameter"
            )
        name = _login() if who is None else who
        check_name("name of the user", name)
        home = _home(place, busy_timeout, name)
        with opening:
            backend = home.connect()
            return cls(DatabaseLink(home, backend, busy_timeout), name, home.created)

    def close(self) -> None:
        """Close the ledger. Closing twice does nothing; any other later call is refused."""
        self._link.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> Never:
        raise LedgerError(
            "a ledger cannot be copied or sent to another process",
            code="ledger_not_picklable",
            hint="send its place and open it there",
        )

    # -- queries ------------------------------------------------------------------------------

    def reserve(
        self,
        account: str,
        amount: Amount,
        *,
        query: str,
        plan: str,
        limits: Sequence[Account] = (),
        then: Amount = NO_CHARGE,
    ) -> Charge:
        """Charge a query's worst case to ``account`` and all above it, durably, or change nothing.

        It must fit ``limits``, which are the policy's for the account and those above it, and the
        limits that the owner has set in the ledger, with room for ``then`` beside it. ``amount`` is
        in rho, epsilon or mu, in one of them, and not nothing; ``query`` is the query's
        fingerprint, of all that its answer depends on beside the data (the policy's version too),
        and ``plan`` the JSON text of its mechanism and parameters.

        Raises :class:`BudgetExceeded` when it does not fit the limits of all accounts,
        :class:`UnknownName` for an account that nobody has given a budget, :class:`LedgerError`
        when an account is suspended (``account_suspended``), has another name now
        (``account_renamed``) or was charged under the other composition before, or the clock went
        back, and :class:`ParameterError` for malformed arguments.
        """
        check_new_path(account)
        given = check_limits(account, limits)
        check_charge(amount)
        check_name("query's fingerprint", query)
        check_json("plan", plan)

        return self._record(
            lambda journal: charge_line(
                journal, account, given, amount, query=query, plan=plan, then=then
            )
        )

    def settle(
        self, charge: Charge, amount: Amount, release: bytes | Iterable[bytes] | None = None
    ) -> None:
        """Replace a reservation by the actual cost, durably. Call it before showing any row.

        Its rho and epsilon are at most what was reserved and functions of the released output only;
        its delta equals what was reserved, because delta is never refunded. ``release`` is the
        answer, to be kept with the entry: :meth:`stored` finds it. It may have any size, and come
        in pieces: these are written as they come, in transactions of their own, so that no more of
        it is held than ``MAX_RELEASE`` bytes and a piece. They are an answer once it is settled.

        Raises :class:`LedgerError`, changing nothing, for more than was reserved, another delta, an
        entry that is unknown, already settled or failed, and an account that was suspended
        meanwhile: it gets no further answer, not even to what it had begun to ask.
        :class:`ParameterError` for a malformed charge or release.
        """
        self.settle_together([(charge, amount, release)])

    def settle_together(
        self, settled: Sequence[tuple[Charge, Amount, bytes | Iterable[bytes] | None]]
    ) -> None:
        """Replace several reservations as :meth:`settle` does, all of them durably or none."""
        staged: list[tuple[Charge, Amount, bytes | None, PartsDigest]] = []
        for charge, amount, release in settled:
            check_units("entry", charge.entry)
            digest = PartsDigest()
            first = None
            if release is not None:
                first = self._staged(release, digest, partial(_keep_part, charge, amount))
            staged.append((charge, amount, first, digest))

        def settled_all(journal: Journal) -> None:
            sql = journal.sql
            for charge, amount, first, digest in staged:
                query = _require_settleable(sql, charge, amount)
                settle(journal, charge, amount, None if first is None else digest.digest)
                if first is not None:
                    releases.require_parts(sql, charge.entry, digest.count - 1)
                    releases.store(sql, charge.entry, charge.account, query, first)
                else:
                    releases.drop_parts(sql, charge.entry)

        self._record(settled_all)

    def _staged(
        self,
        release: bytes | Iterable[bytes],
        digest: PartsDigest,
        keep: Callable[[int, Packed, Backend], None],
    ) -> bytes:
        """Write all parts of a release but the first, which is returned; nobody reads them yet."""
        first = b""
        for number, part in enumerate(releases.in_parts(release)):
            digest.add(part)
            if number:
                self._link.write(partial(keep, number, releases.pack(part)))
            else:
                first = part
        return first

    def fail(self, charge: Charge, account: str, cause: str) -> None:
        """Record durably that the engine failed on private rows, and suspend ``account``.

        That is the account of the charge or one above it: it and all below it are refused every
        new charge until the owner has reopened it (:meth:`Owner.reopen`). The reservation stays
        whole for ever. ``cause`` is a :class:`Cause`, and all that is kept of the failure: what an
        engine says may quote rows. A second call with the same charge changes nothing. A clock that
        went back does not prevent it.

        Raises :class:`LedgerError`, changing nothing, for an entry that is unknown or was settled;
        :class:`ParameterError` for an account that does not pay the charge, or another cause.
        """
        check_units("entry", charge.entry)
        check_cause(cause)

        def failed(journal: Journal) -> None:
            key = _payer(journal.sql, account, charge.account, "charge")
            ended = _asked(journal.sql, charge)[1]
            if ended == Kind.FAILURE:
                return
            if ended is not None:
                raise refused_change("ledger_settled_twice", "the charge is settled already")
            node = require_node(journal.sql, key)
            suspend(journal, node, Kind.FAILURE, charge.entry, cause=str(cause))

        self._record(failed, late=True)

    def now(self) -> datetime:
        """Read the clock that dates the ledger's entries, as a UTC time."""
        return datetime.fromisoformat(self._link.read(lambda sql: iso(sql.now())))

    def position(self, account: str) -> tuple[Hashable, ...]:
        """Return the position of an account in the ledger, which stays while its standing does.

        And the standings of those above it, but the dataset's: that changes with each charge.
        """
        check_path(account)
        return self._link.read(lambda sql: last_changes(sql, account))

    def stored(self, account: str, query: str) -> Stored | None:
        """Return the latest stored answer to ``query`` of ``account`` or an account below it; free.

        None if there is none, or if the owner has deleted it. Ask for the analyst's own account:
        one above it would find what others were told.
        """
        check_path(account)
        check_name("query's fingerprint", query)
        return self._link.read(lambda sql: releases.latest(sql, key_by_name(sql, account), query))

    def release_parts(self, stored: Stored) -> Iterator[bytes]:
        """Read all parts of a stored answer, one at a time; free.

        Raises :class:`LedgerError` (``ledger_corrupt``), after the last part at the latest, if it
        is not what was stored, or was deleted meanwhile.
        """
        if not stored.further:
            yield stored.payload  # compared when it was found
            return
        digest = PartsDigest()
        for number in range(1 + stored.further):
            part = stored.payload
            if number:
                read = partial(releases.further_part, entry=stored.entry, part=number)
                part = self._link.read(read)
            digest.add(part)
            yield part
        if digest.digest != stored.digest:
            raise releases.altered()

    def stored_alike(self, account: str, start: str, most: int) -> tuple[Stored, ...]:
        """List stored answers whose fingerprint has this beginning, the oldest first; free.

        Of ``account`` and those below it, as in :meth:`stored`; the latest ``most`` of them, and
        fewer if these are large.
        """
        check_path(account)
        check_name("start of a fingerprint", start)
        check_units("most", most)
        return self._link.read(
            lambda sql: releases.alike(sql, key_by_name(sql, account), start, most)
        )

    def stored_on_rows(self, account: str, rows: str, most: int) -> tuple[Stored, ...]:
        """List stored answers whose fingerprint has this end, the oldest first; free.

        The digits from the 65th on name rows whose groups add up. Accounts and numbers are those of
        :meth:`stored_alike`.
        """
        check_path(account)
        check_name("end of a fingerprint", rows)
        check_units("most", most)
        return self._link.read(
            lambda sql: releases.on_rows(sql, key_by_name(sql, account), rows, most)
        )

    def stored_on_each(
        self, account: str, rows: Sequence[str], most: int
    ) -> tuple[tuple[Stored, ...], ...]:
        """List stored answers for each of several ends of fingerprints, in their order; free.

        Those of each are what :meth:`stored_on_rows` lists. All are read from one state of the
        ledger.
        """
        check_path(account)
        for each in rows:
            check_name("end of a fingerprint", each)
        check_units("most", most)

        def read(sql: Backend) -> tuple[tuple[Stored, ...], ...]:
            key = key_by_name(sql, account)
            return tuple(releases.on_rows(sql, key, each, most) for each in rows)

        return self._link.read(read)

    # -- streams ------------------------------------------------------------------------------

    def create_stream(
        self,
        account: str,
        amount: Amount,
        *,
        name: str,
        stream: str,
        plan: str,
        limits: Sequence[Account] = (),
    ) -> Charge:
        """Charge ``account`` and all above it for a stream, in full and for good, or do nothing.

        One charge pays for all steps of the stream, whatever they release; nothing is refunded, as
        its noise is decided from now on. ``stream`` is its id, which no stream of the ledger ever
        had: noise is drawn from it. ``name`` is what the account calls it, in one spelling for
        each name: no live stream of the account has it. ``plan`` is the JSON text of its
        definition, which says how many steps it has, ``{"stream": {"steps": 365}}``. The rest is
        as in :meth:`reserve`.

        Raises what :meth:`reserve` does, and :class:`LedgerError` (``ledger_stream_exists``) for a
        name or an id that is taken.
        """
        check_new_path(account)
        given = check_limits(account, limits)
        check_charge(amount)
        check_name("name of the stream", name)
        check_name("id of the stream", stream)
        check_json("plan", plan)
        planned_steps(plan)

        return self._record(
            lambda journal: streams.open_stream(
                journal, account, given, amount, name=name, stream=stream, plan=plan
            )
        )

    def begin_step(
        self, account: str, stream: str, step: int, limits: Sequence[Account] = ()
    ) -> StepTicket:
        """Begin a step of a stream, durably. Call it before any private row is read for it.

        ``step`` counts from 1, may leave out numbers, and is used from now on for ever, whether
        anything comes of it or not: no step is begun twice, nor after a later one, by whatever
        process. So no two answers ever have the noise of one step. A window that is due opens
        before. ``limits`` are the policy's, as in :meth:`reserve`; left out, those of the last
        charge.

        Raises :class:`LedgerError`, changing nothing, for a stream that ``account`` does not have
        or that was dropped (``ledger_unknown_stream``), a step that is not later than all before
        (``ledger_step_used``) or that the stream does not have (``ledger_step_beyond``), where more
        counts in the present window than a limit allows that was lowered (``ledger_over_limit``),
        and an account that is suspended; :class:`ParameterError` for malformed arguments.
        """
        (ticket,) = self.begin_steps(account, stream, [step], limits)
        return ticket

    def begin_steps(
        self,
        account: str,
        stream: str,
        steps: Sequence[int],
        limits: Sequence[Account] = (),
    ) -> tuple[StepTicket, ...]:
        """Begin some steps of a stream at once, in ascending order: all of them or none.

        What :meth:`begin_step` says holds of each. They are published in order, as far as they are.
        """
        check_path(account)
        given = check_limits(account, limits)
        check_name("id of the stream", stream)
        for step in steps:
            check_step(step)

        def begun(journal: Journal) -> tuple[StepTicket, ...]:
            key = key_by_name(journal.sql, account)
            return tuple([streams.open_step(journal, key, given, stream, step) for step in steps])

        return self._record(begun)

    def publish_step(self, ticket: StepTicket, release: bytes | Iterable[bytes]) -> None:
        """Store the release of a step, durably. Call it before showing any row.

        ``release`` may have any size, and come in pieces, which are written as they come, as
        :meth:`settle` writes those of an answer. :meth:`step_releases` gives it back. Of a step
        that is interrupted here nothing is ever read; whoever goes on writes the same again.

        Raises :class:`LedgerError`, changing nothing, for a step that was published or failed, or
        after which another one was published, or of which something else was written
        (``ledger_step_ended``), a stream that was dropped (``ledger_unknown_stream``) and an
        account that was suspended meanwhile; :class:`ParameterError` for a malformed release.
        """
        check_ticket(ticket)
        digest = PartsDigest()
        first = self._staged(release, digest, partial(_keep_step_part, ticket))

        def published(journal: Journal) -> None:
            streams.close_step(journal, ticket, digest.of_parts)
            releases.store_step_part(
                journal.sql, ticket.entry, ticket.step, 0, releases.pack(first)
            )
            releases.require_step_parts(journal.sql, ticket.entry, ticket.step, digest.count)

        self._record(published)

    def fail_step(self, ticket: StepTicket, account: str, cause: str) -> None:
        """Record durably that the engine failed on a step's private rows; suspend ``account``.

        As :meth:`fail` does for a question: a second call with the same ticket changes nothing.
        Raises :class:`LedgerError`, changing nothing, for a step that was never begun
        (``ledger_unknown_stream``) or was published (``ledger_step_ended``);
        :class:`ParameterError` for an account that does not pay for the stream, or another cause.
        """
        check_ticket(ticket)
        check_cause(cause)

        def failed(journal: Journal) -> None:
            key = _payer(journal.sql, account, ticket.account, "stream")
            if streams.step_may_fail(journal.sql, ticket):
                entry, step = ticket.entry, ticket.step
                node = require_node(journal.sql, key)
                suspend(journal, node, Kind.FAILURE, stream=entry, step=step, cause=str(cause))

        self._record(failed, late=True)

    def drop_stream(self, account: str, stream: str) -> None:
        """End a stream and delete its published steps. Nothing is refunded; its name is free.

        The chain keeps its charge, its steps and the hashes of what they released. Raises
        :class:`LedgerError` (``ledger_unknown_stream``) for a stream that ``account`` does not have
        or that was dropped before.
        """
        check_path(account)
        check_name("id of the stream", stream)

        self._record(
            lambda journal: streams.close_stream(journal, key_by_name(journal.sql, account), stream)
        )
        self._link.use(lambda sql: sql.forget_deleted())

    def streams(self, account: str) -> tuple[StreamRecord, ...]:
        """List the live streams of an account, oldest first; not of those above or below it."""
        check_path(account)
        return self._link.read(lambda sql: streams.live_streams(sql, key_by_name(sql, account)))

    def ended_streams(self, ids: Sequence[str]) -> tuple[str, ...]:
        """List those of some ids whose streams have ended, of whichever account."""
        for stream in ids:
            check_name("id of the stream", stream)
        return self._link.read(lambda sql: streams.ended_streams(sql, ids))

    def all_streams(self) -> tuple[StreamRecord, ...]:
        """List the live streams of all accounts, oldest first: for the owner of the ledger."""
        return self._link.read(lambda sql: streams.live_streams(sql))

    def note_read(self, account: str, stream: str) -> None:
        """Record a reading of another account's stream, for nothing.

        Once in each window of the account, before it is shown anything of the stream: so
        :meth:`streams_read` tells what it may know, whoever it may read later. Neither a suspension
        nor a clock that went back prevents it. Raises :class:`LedgerError`, changing nothing, for a
        stream that was dropped or never there (``ledger_unknown_stream``), and for an account that
        has another name now (``account_renamed``).
        """
        check_new_path(account)
        check_name("id of the stream", stream)

        def known(sql: Backend) -> bool:
            streams.require_live(sql, stream)
            return has_read(sql, account, stream, sql.now())

        def noted(journal: Journal) -> None:
            streams.require_live(journal.sql, stream)
            note_read(journal, account, stream)

        if not self._link.read(known):
            self._record(noted, late=True)

    def streams_read(
        self, account: str, since: datetime | None = None
    ) -> tuple[ReadableStream, ...]:
        """List the streams of others that an account has read since a moment, or ever.

        Also those that were dropped meanwhile, or that it may read no more.
        """
        check_path(account)
        moment = 0 if since is None else microseconds(since)
        return self._link.read(lambda sql: read_by(sql, key_by_name(sql, account), moment))

    def readable_streams(
        self, account: str, since: datetime | None = None
    ) -> tuple[ReadableStream, ...]:
        """List the streams that others could read at some time since a moment, or ever.

        Those are the live streams of the account, not of those above or below it, and the ones that
        it has dropped since.
        """
        check_path(account)
        moment = 0 if since is None else microseconds(since)
        return self._link.read(lambda sql: readable_of(sql, key_by_name(sql, account), moment))

    def step_releases(
        self, account: str, stream: str, after: int = 0
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Read the published steps of a stream after number ``after``, with their parts.

        In the order of the steps, each part read as it is asked for; free, also while the account
        is suspended. Raises :class:`LedgerError` for a stream that ``account`` does not have or
        that was dropped (``ledger_unknown_stream``), and, after the last part of a step at the
        latest, for what is not what was published (``ledger_corrupt``).
        """
        check_path(account)
        check_name("id of the stream", stream)
        check_units("after", after)
        return self._step_releases(account, stream, after)

    def _step_releases(
        self, account: str, stream: str, after: int
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        while True:
            read = partial(_next_release, account=account, stream=stream, after=after)
            found = self._link.read(read)
            if found is None:
                return
            yield found.step, self._parts_of_step(account, stream, found)
            after = found.step

    def _parts_of_step(self, account: str, stream: str, found: StepRecord) -> Iterator[bytes]:
        digest = PartsDigest()
        for number in range(found.parts):
            part = found.first
            if number:
                read = partial(
                    _further_release, account=account, stream=stream, step=found.step, part=number
                )
                part = self._link.read(read)
            digest.add(part)
            if number == found.parts - 1 and digest.of_parts != found.digest:
                raise releases.altered()
            yield part

    # -- reports ------------------------------------------------------------------------------

    def spent(self, account: str) -> Spent:
        """Return the spending that counts against the account's limits: its current window's."""
        return self._standing(account).window.spent

    def total(self, account: str) -> Spent:
        """Return the account's spending over all windows."""
        return self._standing(account).total

    def standing(
        self, account: str, limits: Sequence[Account] | None = None
    ) -> tuple[Standing, ...]:
        """Tell where the account and those above it stand, from the dataset down.

        ``limits`` are the policy's, as in :meth:`reserve`; left out, those of the last charge. Of
        the dataset above others no estimates are counted.
        """
        check_path(account)
        given = None if limits is None else check_limits(account, limits)
        return self._link.read(lambda sql: standings(sql, account, given))

    def estimate(
        self, account: str, amount: Amount, limits: Sequence[Account] | None = None
    ) -> int | None:
        """Tell how many charges of ``amount`` the account can still pay; None without any limit."""
        check_charge(amount)
        counts = (each.affordable(amount) for each in self.standing(account, limits))
        return min((count for count in counts if count is not None), default=None)

    def windows(self, account: str, *, estimates: bool = True) -> tuple[Window, ...]:
        """Collect all windows of the account, oldest first.

        Without ``estimates`` these are not counted, which takes longer the more of them there are.
        """
        check_path(account)
        return self._link.read(
            lambda sql: windows_of(sql, key_by_name(sql, account), estimates=estimates)
        )

    def accounts(self) -> tuple[str, ...]:
        """Return the paths of all accounts, by their present names, sorted."""
        return self._link.read(_account_names)

    def renames(self) -> tuple[RenamedAccount, ...]:
        """List the renamings of accounts, with time and author, oldest first: for the owner."""
        return self._link.read(renames)

    def history(
        self, account: str, limit: int = 100, before: int | None = None
    ) -> tuple[Entry, ...]:
        """Return the latest ``limit`` entries of the account and those below it, newest first.

        ``before`` is the number of an entry: only older ones are told.
        """
        check_path(account)
        check_units("limit", limit)
        if before is not None:
            check_units("before", before)
        return self._link.read(lambda sql: _history(sql, account, limit, before))

    def suspensions(self, account: str | None = None) -> tuple[Event, ...]:
        """List when the account, those above and below were suspended and reopened; newest first.

        Of all accounts, if none is given; each by its present name.
        """
        if account is not None:
            check_path(account)
        return self._link.read(lambda sql: _suspensions(sql, account))

    # -- the chain ----------------------------------------------------------------------------

    def events(self, after: int = 0) -> Iterator[Event]:
        """Collect all events of the chain after number ``after``, oldest first."""
        check_units("after", after)
        while True:
            rows = self._link.read(partial(_events_after, after=after))
            if not rows:
                return
            yield from map(Event.of_row, rows)
            after = rows[-1][0]

    def head(self) -> Head:
        """Return the end of the chain. Kept elsewhere, it is an anchor for :meth:`verify`."""
        return self._link.read(lambda sql: head(sql))

    def verify(self, anchors: Sequence[Head] = ()) -> Verification:
        """Recompute the chain, all sums and all rules, and say what is the first broken place.

        ``anchors`` are heads that were kept elsewhere, which the chain must contain. Without one,
        an older copy that was put back, or a chain rewritten as a whole, is not noticed.
        """
        return self._link.read(lambda sql: verify(sql, tuple(anchors)))

    def _record(self, work: Callable[[Journal], _T], *, late: bool = False) -> _T:
        return self._link.write(partial(recorded, self._who, work, late=late))

    def owner(self, who: str) -> Owner:
        """Return the actions of the data owner, which go into the chain under the name ``who``."""
        check_name("name of the owner", who)
        return Owner(self._link, who)

    def _standing(self, account: str) -> Standing:
        return self.standing(account)[-1]


def _events_after(sql: Backend, after: int) -> list[LedgerRow]:
    return sql.execute(
        f"SELECT {FIELDS}, hash FROM events WHERE seq > ? ORDER BY seq LIMIT 1000", (after,)
    )


# The inner question is answered from an index alone, so that only what is told is read.
_HISTORY = """
SELECT asked.seq, asked.at, asked.who, asked.account, asked.query, asked.detail,
    ended.kind, asked.rho, asked.epsilon, asked.delta, asked.gaussian, ended.at, ended.rho,
    ended.epsilon, ended.delta, ended.gaussian, releases.entry, made.detail,
    (SELECT max(step) FROM events WHERE stream = made.stream AND kind = 'step'),
    (SELECT count(*) FROM events WHERE stream = made.stream AND kind = 'publish'),
    (SELECT count(*) FROM events WHERE stream = made.stream AND kind = 'drop')
FROM events AS asked
    LEFT JOIN events AS ended ON ended.entry = asked.seq
    LEFT JOIN releases ON releases.entry = asked.seq
    LEFT JOIN events AS made
        ON made.stream = asked.seq AND made.kind = 'stream' AND made.step = 0
WHERE asked.seq IN (
    SELECT seq FROM events WHERE kind = 'reserve' AND account IN (
        SELECT path FROM accounts WHERE path = ? OR substr(path, 1, ?) = ?) {}
    ORDER BY seq DESC LIMIT ?)
ORDER BY asked.seq DESC
"""


_SUSPENSIONS = f"""
SELECT {FIELDS}, hash FROM events WHERE {SUSPENDING} ORDER BY seq DESC
"""


def _account_names(sql: Backend) -> tuple[str, ...]:
    keys = [path for (path,) in sql.execute("SELECT path FROM accounts")]
    return tuple(sorted(full_names(sql, keys).values()))


def _history(sql: Backend, account: str, limit: int, before: int | None) -> tuple[Entry, ...]:
    key = key_by_name(sql, account)
    below = key + "/"
    values = (key, len(below), below, *(() if before is None else (before,)), limit)
    rows = sql.execute(_HISTORY.format("" if before is None else "AND seq < ?"), values)
    names = full_names(sql, {row[3] for row in rows})
    return tuple(_entry(*row[:3], names[row[3]], *row[4:]) for row in rows)


def _suspensions(sql: Backend, account: str | None) -> tuple[Event, ...]:
    key = None if account is None else key_by_name(sql, account)
    events = [Event.of_row(row) for row in sql.execute(_SUSPENSIONS)]
    found = [event for event in events if key is None or _on_one_line(event.account, key)]
    names = full_names(sql, {event.account for event in found})
    return tuple(replace(event, account=names[event.account]) for event in found)


def _next_release(sql: Backend, account: str, stream: str, after: int) -> StepRecord | None:
    return streams.next_release(sql, key_by_name(sql, account), stream, after)


def _further_release(sql: Backend, account: str, stream: str, step: int, part: int) -> bytes:
    return streams.further_release(sql, key_by_name(sql, account), stream, step, part)


def _keep_part(charge: Charge, amount: Amount, number: int, packed: Packed, sql: Backend) -> None:
    _require_settleable(sql, charge, amount)
    if number == 1:
        releases.drop_parts(sql, charge.entry)  # of an attempt that was interrupted
    releases.store_part(sql, charge.entry, number, packed)


def _keep_step_part(ticket: StepTicket, number: int, packed: Packed, sql: Backend) -> None:
    streams.require_unended(sql, ticket)
    releases.store_step_part(sql, ticket.entry, ticket.step, number, packed)


def _payer(sql: Backend, account: str, payer: str, what: str) -> str:
    """Return the key of an account of the line that pays, by its present name or a former one.

    The account may have been renamed while the question ran, whose failure must be recorded.
    """
    key = key_by_any_name(sql, account)
    if key not in line_of(payer):
        raise ParameterError(f"the account does not pay for this {what}", code="bad_parameter")
    return key


def _on_one_line(one: str, other: str) -> bool:
    """Tell whether one of two accounts is the other or above it."""
    return one in line_of(other) or other in line_of(one)


def _entry(
    entry: int,
    at: int,
    who: str,
    account: str,
    query: str,
    plan: str,
    ended: str | None,
    *rest: Any,
) -> Entry:
    numbers, terms, steps = rest[:10], rest[10], rest[11:]
    then, stored = numbers[4], numbers[9]
    time = None if then is None else iso(then)
    paid = ended == Kind.SETTLE
    return Entry(
        entry,
        iso(at),
        who,
        account,
        query,
        plan,
        reserved=_amount(numbers[:4]),
        settled=time if paid else None,
        charged=_amount(numbers[5:9]) if paid else None,
        stored=stored is not None,
        failed=None if paid else time,
        stream=None if terms is None else _progress(terms, *steps),
    )


def _progress(terms: str, begun: int | None, published: int, dropped: int) -> StreamProgress:
    name, steps = stream_terms(terms)
    return StreamProgress(name, steps, begun or 0, published, bool(dropped))


def _amount(numbers: Sequence[int | None]) -> Amount:
    return Amount(*(each for each in numbers if each is not None))


def _require_settleable(sql: Backend, charge: Charge, amount: Amount) -> str:
    """Return the query's fingerprint, if its charge is there and may be settled at ``amount``."""
    query, ended = _asked(sql, charge)
    if ended == Kind.FAILURE:
        raise refused_change("ledger_failed_entry", "the query failed: its charge stays whole")
    if ended is not None:
        raise refused_change("ledger_settled_twice", "the charge is settled already")
    if any(map(operator.gt, amount.units, charge.amount.units)):
        raise refused_change("ledger_over_reserved", "a query cannot cost more than it reserved")
    if amount.delta != charge.amount.delta:
        raise refused_change("ledger_delta_refund", "delta is never refunded")
    return query


def _asked(sql: Backend, charge: Charge) -> tuple[str, str | None]:
    """Read a charge's query fingerprint, and the kind of the event that ended it, if any."""
    rows = sql.execute(
        "SELECT asked.account, asked.rho, asked.epsilon, asked.delta, asked.gaussian, asked.query, "
        "ended.kind "
        "FROM events AS asked LEFT JOIN events AS ended ON ended.entry = asked.seq "
        "WHERE asked.seq = ? AND asked.kind = 'reserve'",
        (charge.entry,),
    )
    if not rows or rows[0][:5] != (charge.account, *charge.amount.units):
        raise refused_change("ledger_unknown_entry", "this ledger holds no such reservation")
    query, ended = rows[0][5:]
    return query, ended


def _home(place: str | os.PathLike[str], patience: float, who: str) -> Home:
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        from dpsql.ledger.postgres import PostgresHome  # its driver is an extra

        return PostgresHome(place, patience, who)
    return SQLiteHome(Path(place).absolute(), patience, who)


def _login() -> str:
    """Return the name of the user this process runs as."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        name = ""
    return name if name.isprintable() and name else "unknown"
