"""The account tree: dataset, analyst, session. A charge must fit the account and all above it."""

from __future__ import annotations

import json
import operator
import shlex
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from dpsql.errors import BudgetExceeded, LedgerError, UnknownName
from dpsql.ledger.backend import Backend, LedgerRow, State
from dpsql.ledger.carried import READS, amount_of, carried_by
from dpsql.ledger.chain import Kind, iso, microseconds
from dpsql.ledger.journal import Journal, head, in_order
from dpsql.ledger.names import (
    NamedAccount,
    full_name,
    is_given_to_another,
    line_by_name,
    present_name,
)
from dpsql.ledger.records import (
    Account,
    Charge,
    Renewal,
    Spent,
    Standing,
    Window,
    beginning,
    is_over,
    line_of,
    period,
)
from dpsql.ledger.schema import ACCOUNT_CHANGES, IS_ESTIMATE
from dpsql.ledger.ties import require_hashed, require_tied, untied
from dpsql.privacy.accounting.zcdp import MAX_LEDGER_UNITS, NO_CHARGE, Amount

_PARTS = ("rho", "epsilon", "delta", "gaussian")
_CARRIED = tuple(f"carried_{part}" for part in _PARTS)

# The latest events of an account are read along with it: it must be what these have made of it.
_NODES = f"""
SELECT path, accounts.opened, period, rho, epsilon, delta, gaussian, queries, unsettled,
    windows.last, windows.tie, suspended, reopened, renews, terms, limit_rho, limit_epsilon,
    limit_delta, limit_gaussian, policy_rho, policy_epsilon, policy_delta, policy_gaussian,
    accounts.last, accounts.tie,
    (SELECT max(seq) FROM events WHERE account = path AND {ACCOUNT_CHANGES}),
    (SELECT max(seq) FROM events WHERE account = path AND kind = 'reserve')
FROM accounts JOIN windows USING (path)
WHERE windows.opened = accounts.opened AND path IN ({{}})
"""
_CHARGED = "SELECT last, tie FROM windows WHERE path = ? ORDER BY last DESC LIMIT 1"
_LOOKS = f"""
SELECT opened, count(*) - sum(returned), sum(returned) FROM (
    SELECT (SELECT max(opened) FROM windows WHERE path = ? AND opened < seq) AS opened,
        (SELECT count(*) FROM events AS ended WHERE ended.entry = asked.seq
            AND kind = 'settle' AND rho + epsilon + delta + gaussian = 0) AS returned
    FROM events AS asked WHERE {IS_ESTIMATE} AND account IN (
        SELECT path FROM accounts WHERE path = ? OR substr(path, 1, ?) = ?)
) AS looks GROUP BY opened
"""
_PANES = """
SELECT path, opened, period, rho, epsilon, delta, gaussian, queries, unsettled, last, tie,
    EXISTS (SELECT 1 FROM accounts WHERE path = windows.path AND suspended > reopened)
FROM windows
WHERE opened IN (SELECT max(opened) FROM windows WHERE path IN ({}) AND opened < ? GROUP BY path)
"""


class Pane(NamedTuple):
    """A window as it is stored.

    ``sums`` are those of the amounts, of queries and of unsettled ones; ``last`` is the event that
    changed it last, ``tie`` that event's hash.
    """

    path: str
    opened: int
    period: str
    sums: tuple[int, ...]
    last: int
    tie: bytes | None

    @property
    def spent(self) -> Spent:
        """The sums of what was charged in the window."""
        return _spent(self.sums)

    @property
    def state(self) -> State:
        """The window as events state it."""
        return ("windows", self.opened, self.path, self.period, *self.sums)


class AccountNode(NamedTuple):
    """An account as it is stored, with its present window.

    ``suspended`` and ``reopened`` are the events that did so last, or 0. ``last`` is the event that
    changed it last, ``tie`` that event's hash; ``changed`` and ``charged`` are the last events that
    the chain has of it. ``path`` is what the ledger calls it, ``name`` what people do.
    """

    path: str
    window: Pane
    suspended: int
    reopened: int
    renews: Renewal | None
    terms: str
    limit: Amount | None
    policy: Amount | None
    last: int
    tie: bytes | None
    changed: int | None = None
    charged: int | None = None
    name: str = ""

    @property
    def limits(self) -> tuple[Amount, ...]:
        """The limits that bind the account, of the policy and of its owner."""
        return tuple(limit for limit in (self.policy, self.limit) if limit is not None)

    @property
    def is_suspended(self) -> bool:
        """True while the account is not to be charged."""
        return self.suspended > self.reopened

    @property
    def state(self) -> State:
        """The account's state as events record it, without terms, on which no decision depends."""
        limits = (*units_of(self.limit), *units_of(self.policy))
        settings = (self.path, self.window.opened, self.renews or "", *limits)
        return ("accounts", *settings, self.suspended, self.reopened)


def nodes_of(sql: Backend, paths: Sequence[str]) -> dict[str, AccountNode]:
    """Return the accounts among ``paths`` that exist, by path; they decide nothing yet."""
    rows = sql.execute(_nodes_of(len(paths)), paths)
    return {row[0]: _node(row) for row in rows}


def tied_nodes(sql: Backend, paths: Sequence[str]) -> dict[str, AccountNode]:
    """Return the accounts among ``paths`` that exist, to decide by.

    Raises :class:`LedgerError` unless they are what the chain says. ``paths`` go down a line. Rows
    are what the last event says that changed them, and not those of an earlier time: nothing has
    changed the account since, and its window has the last charges of the accounts of the line. What
    others below it were charged cannot be found as fast.
    """
    found = nodes_of(sql, paths)
    require_tied(sql, [row for node in found.values() for row in (node, node.window)])
    charged = 0
    for path in reversed(paths):
        if path in found:
            node = found[path]
            charged = max(charged, node.charged or 0)
            if node.last != node.changed or node.window.opened < charged > node.window.last:
                raise untied(path)
    return found


def require_node(sql: Backend, path: str) -> AccountNode:
    """Find an account that the chain has, to decide by: :func:`tied_nodes` of it alone."""
    node = tied_nodes(sql, (path,)).get(path)
    if node is None:
        raise untied(path)
    return node


def ready(
    journal: Journal, places: Sequence[NamedAccount], limits: Mapping[str, Account]
) -> list[AccountNode]:
    """Prepare the accounts of a line to be charged under ``limits``, which are by their names.

    Accounts that are missing are created, windows that are over renewed, limits of the policy that
    are new recorded. Raises :class:`UnknownName` where nobody gave the account, or the analyst's
    account above it, any place in the tree.
    """
    known = tied_nodes(journal.sql, [place.key for place in places])
    named = places[1:] or places
    if not any(place.key in known or place.name in limits for place in named):
        raise _unknown(places[-1].name)
    found = []
    for key, name in places:
        node = (known.get(key) or create(journal, key))._replace(name=name)
        node = _renewed(journal, node)
        found.append(_told(journal, node, limits.get(name)))
    if not any(node.limits for node in found):
        raise _unknown(places[-1].name)
    return found


def require_room(nodes: Sequence[AccountNode], amount: Amount) -> None:
    """Raise :class:`BudgetExceeded` unless ``amount`` fits into every limit of every node.

    What it says is for the analyst who asked: of the first node, the dataset's, which others pay
    from too, it tells no figures. :class:`LedgerError` when an account was charged under the other
    composition, or when its sums would no longer fit into 64 bits.
    """
    short = [node for node in nodes if not _has_room(node, amount)]
    if short:
        raise _budget_exceeded(nodes[1:] or nodes, short, amount)
    for node in nodes:
        sums = zip(node.window.sums, amount.units, strict=False)
        if any(paid + more > MAX_LEDGER_UNITS for paid, more in sums):
            raise LedgerError(
                f"the account {node.name} has spent more than can be counted",
                code="ledger_overflow",
                hint="the data owner may open a new window for it",
            )


def require_open(sql: Backend, path: str) -> None:
    """Refuse a suspended account, or an account below a suspended one (``account_suspended``)."""
    line = line_of(path)
    suspended = sql.execute(
        "SELECT path, suspended FROM accounts WHERE suspended > reopened "
        f"AND path IN ({_marks(line)})",
        line,
    )
    if suspended:
        highest, event = min(suspended)
        ((kind,),) = sql.execute("SELECT kind FROM events WHERE seq = ?", (event,)) or [("",)]
        raise _account_suspended(full_name(sql, highest), kind)


def suspend(
    journal: Journal,
    node: AccountNode,
    kind: Kind,
    entry: int | None = None,
    stream: int | None = None,
    step: int = 0,
    **detail: str,
) -> None:
    """Suspend an account by an event of this kind. If it is suspended, it goes on being so.

    ``entry`` is the charge whose question failed, or ``stream`` that of the ``step`` that did.
    """
    since = node.suspended if node.is_suspended else journal.next
    states = [node._replace(suspended=since).state]
    about = in_order(detail)
    journal.append(
        kind, node.path, entry=entry, stream=stream, step=step, detail=about, states=states
    )
    _change(journal, node.path, suspended=since)


def reopen(journal: Journal, node: AccountNode) -> None:
    """End the suspension of an account."""
    seq = journal.next
    journal.note(Kind.REOPEN, node.path, states=[node._replace(reopened=seq).state])
    _change(journal, node.path, reopened=seq)


def note_read(journal: Journal, path: str, stream: str) -> None:
    """Record that an account reads a stream of another one, once in each of its windows.

    Accounts of its line that are missing are created. No account is charged, and a suspended one
    may read.
    """
    sql, line = journal.sql, [place.key for place in line_by_name(journal.sql, path)]
    known = tied_nodes(sql, line)
    nodes = [known.get(key) or create(journal, key) for key in line]
    if not has_read(sql, path, stream, journal.at):
        journal.append(Kind.READ, line[-1], query=stream, states=[nodes[-1].state])
        _change(journal, line[-1])


def has_read(sql: Backend, path: str, stream: str, at: int) -> bool:
    """Tell whether the window of a moment knows that the account has read a stream."""
    key = line_by_name(sql, path)[-1].key
    node = nodes_of(sql, [key]).get(key)
    if node is None:
        return False
    ((opened,),) = sql.execute("SELECT at FROM events WHERE seq = ?", (node.window.opened,))
    over = is_over(node.renews, node.window.period, at)
    label = period(node.renews, at) if over else node.window.period
    began = beginning(datetime.fromisoformat(iso(at if over else opened)), label)
    return any(read == stream for _, read in sql.execute(READS, (key, microseconds(began))))


def rename(journal: Journal, key: str, given: str) -> None:
    """Give an account another name: ``given``, below the key of the account above it.

    Raises :class:`LedgerError` (``ledger_name_taken``) for one that another account has or had, or
    that it has already.
    """
    sql, node = journal.sql, require_node(journal.sql, key)
    if given == present_name(sql, node.path) or _is_anothers(sql, given, node.path):
        raise _name_taken()
    journal.append(Kind.RENAME, node.path, query=given, states=[node.state])
    # Written with its terms, which stay: who may not change limits may not do this either.
    _change(journal, node.path, terms=node.terms)


def _is_anothers(sql: Backend, name: str, key: str) -> bool:
    """Tell whether another account than that of ``key`` has this name or had it."""
    return name != key and (is_given_to_another(sql, name, key) or bool(nodes_of(sql, [name])))


def _name_taken() -> LedgerError:
    return LedgerError(
        "the account has this name, or another account has it or had it",
        code="ledger_name_taken",
        hint="choose a name that nobody had: what was spent under it would not be told apart. The "
        "ledger was not changed",
    )


def _change(journal: Journal, path: str, **columns: int | str | None) -> None:
    """Write the last event's changes of an account."""
    names = "".join(f"{name} = ?, " for name in columns)
    journal.sql.execute(
        f"UPDATE accounts SET {names}last = ?, tie = ? WHERE path = ?",
        (*columns.values(), *journal.last, path),
    )


def _account_suspended(path: str, kind: str) -> LedgerError:
    why = "the engine failed while it read private rows for an earlier question"
    if kind != Kind.FAILURE:
        why = "the owner of the data has suspended it"
    return LedgerError(
        f"the account {path} is suspended: {why}; it answers no new question until the owner of "
        "the data has reopened it",
        code="account_suspended",
        hint=f"ask the owner of the data: dpsql budget owner reopen {shlex.quote(path)}. "
        "Questions that were answered before are still answered, from the ledger",
    )


def without_charge(
    journal: Journal, key: str, limits: Mapping[str, Account]
) -> tuple[AccountNode, ...]:
    """Prepare the accounts of a line for what was charged before, as :func:`ready` does.

    Windows that are over are renewed, and limits of the policy that are new recorded. Refuses an
    account that is not what the chain says, or is suspended, or one above it is.
    """
    sql, line = journal.sql, line_of(key)
    known = tied_nodes(sql, line)
    if len(known) < len(line):
        raise untied(key)
    if any(node.is_suspended for node in known.values()):
        require_open(sql, key)
        raise untied(key)
    found = []
    for path in line:
        node = known[path]._replace(name=full_name(sql, path))
        given = limits.get(node.name)
        node = _renewed(journal, node)
        found.append(node if given is None else _told(journal, node, given))
    return tuple(found)


def require_within(nodes: Sequence[AccountNode]) -> None:
    """Refuse to publish where more counts in a window than a limit of it allows.

    That is so where a limit was lowered: what is published in the window would not be within it.
    """
    over = [node for node in nodes if not all(_within(node, limit) for limit in node.limits)]
    if over:
        raise LedgerError(
            f"the streams of {over[-1].name} publish nothing: a limit was lowered below what "
            "counts in the present window",
            code="ledger_over_limit",
            hint="the owner of the data may raise the limit. A stream that is dropped counts in "
            "this window, and in no later one. The ledger was not changed",
        )


def _within(node: AccountNode, limit: Amount) -> bool:
    return all(map(operator.le, node.window.spent.amount.units, limit.units))


def charge_line(
    journal: Journal,
    path: str,
    limits: Mapping[str, Account],
    amount: Amount,
    *,
    query: str,
    plan: str,
    then: Amount = NO_CHARGE,
) -> Charge:
    """Reserve ``amount`` of an account and all above it, if none is suspended and all have room.

    They have room if ``then`` fits as well, which is not reserved.
    """
    nodes = ready(journal, line_by_name(journal.sql, path), limits)
    key = nodes[-1].path
    if any(node.is_suspended for node in nodes):
        require_open(journal.sql, key)
    require_room(nodes, amount + then)
    return Charge(reserve(journal, nodes, amount, query=query, plan=plan), key, amount)


def reserve(
    journal: Journal, nodes: Sequence[AccountNode], amount: Amount, *, query: str, plan: str
) -> int:
    """Reserve ``amount`` in the windows of a line, and return the entry; the last account pays."""
    added = (*amount.units, 1, 1)
    panes = [_moved(node.window, added) for node in nodes]
    seq = journal.append(
        Kind.RESERVE,
        nodes[-1].path,
        amount,
        query=query,
        detail=plan,
        states=[pane.state for pane in panes],
    )
    _move(journal, panes, added)
    return seq


def settle(journal: Journal, charge: Charge, actual: Amount, digest: bytes | None = None) -> None:
    """Lower a reservation to ``actual``, in its own windows."""
    sql, line, reserved = journal.sql, line_of(charge.account), charge.amount
    rows = sql.execute(_panes_of(len(line)), (*line, charge.entry))
    if any(row[-1] for row in rows):
        require_open(sql, charge.account)
    panes = sorted((_pane(row[:-1]) for row in rows), key=lambda pane: len(pane.path))
    if len(panes) < len(line):
        raise untied(charge.account)
    require_tied(sql, panes)
    freed = (
        *(actual.rho - reserved.rho, actual.epsilon - reserved.epsilon, 0),
        *(actual.gaussian - reserved.gaussian, 0, -1),
    )
    panes = [_moved(pane, freed) for pane in panes]
    states = [pane.state for pane in panes]
    journal.append(
        Kind.SETTLE, charge.account, actual, entry=charge.entry, digest=digest, states=states
    )
    _move(journal, panes, freed)


def _moved(pane: Pane, by: Sequence[int]) -> Pane:
    """Return the window with its sums moved by so much."""
    sums = tuple(map(operator.add, pane.sums, by))
    return Pane(pane.path, pane.opened, pane.period, sums, pane.last, pane.tie)


def _move(journal: Journal, panes: Sequence[Pane], by: Sequence[int]) -> None:
    """Move the sums of windows, by the last event."""
    journal.sql.execute(
        "UPDATE windows SET rho = rho + ?, epsilon = epsilon + ?, delta = delta + ?, "
        "gaussian = gaussian + ?, queries = queries + ?, unsettled = unsettled + ?, "
        f"last = ?, tie = ? WHERE opened IN ({_marks(panes)})",
        (*by, *journal.last, *(pane.opened for pane in panes)),
    )


def create(journal: Journal, path: str) -> AccountNode:
    """Put an account without limits into the ledger, with its first window.

    Raises :class:`LedgerError` (``ledger_corrupt``) if the chain has one of that name.
    """
    sql, seq = journal.sql, journal.next
    if sql.execute(
        f"SELECT 1 FROM events WHERE account = ? AND {ACCOUNT_CHANGES} LIMIT 1", (path,)
    ):
        raise untied(path)
    window = _opening(path, seq, "", Amount())
    node = AccountNode(path, window, 0, 0, None, "{}", None, None, seq, None)
    journal.note(Kind.ACCOUNT, path, states=[node.state, node.window.state])
    _insert(journal, node.window)
    sql.execute(
        "INSERT INTO accounts (path, opened, last, tie) VALUES (?, ?, ?, ?)",
        (path, seq, *journal.last),
    )
    return node


def open_window(journal: Journal, node: AccountNode, by: str) -> AccountNode:
    """Open a new window of an account, in which only its continuing streams count."""
    label, carried = period(node.renews, journal.at), carried_by(journal.sql, node.path)
    node = node._replace(window=_opening(node.path, journal.next, label, carried))
    states = [node.state, node.window.state]
    journal.note(Kind.WINDOW, node.path, carried, states=states, by=by, period=label)
    _insert(journal, node.window)
    _change(journal, node.path, opened=node.window.opened)
    return node


def renew(journal: Journal, node: AccountNode, every: Renewal | None) -> None:
    """Renew an account's window every day or month from now on, or never."""
    label = period(every, journal.at)
    node = node._replace(renews=every, window=node.window._replace(period=label))
    states = [node.state, node.window.state]
    journal.note(Kind.RENEWAL, node.path, states=states, every=every or "", period=label)
    _change(journal, node.path, renews=every or "")
    journal.sql.execute(
        "UPDATE windows SET period = ?, last = ?, tie = ? WHERE opened = ?",
        (label, *journal.last, node.window.opened),
    )


def set_limit(journal: Journal, node: AccountNode, most: Amount | None, terms: Any) -> None:
    """Set or lift the owner's limit of an account, with the terms beside it."""
    amount, limited = most or Amount(), most is not None
    states = [node._replace(limit=most).state]
    journal.note(Kind.LIMITS, node.path, amount, states=states, limited=limited, terms=terms)
    _change(journal, node.path, **_columns("limit", most), terms=in_order(terms))


def _opening(path: str, opened: int, label: str, carried: Amount) -> Pane:
    return Pane(path, opened, label, (*carried.units, 0, 0), opened, None)


def _insert(journal: Journal, pane: Pane) -> None:
    """Insert a window that has just opened: its sums are the carried ones."""
    carried = pane.sums[: len(_PARTS)]
    names = ", ".join((*_PARTS, *_CARRIED))
    journal.sql.execute(
        f"INSERT INTO windows (opened, path, period, {names}, last, tie) "
        f"VALUES ({_marks(range(5 + 2 * len(carried)))})",
        (pane.opened, pane.path, pane.period, *carried, *carried, *journal.last),
    )


def standings(
    sql: Backend, path: str, limits: Mapping[str, Account] | None
) -> tuple[Standing, ...]:
    """Tell where the account and those above it stand, from the dataset down.

    ``limits`` are the policy's; None stands for those of the last charge. Of the dataset above
    others no estimates are counted: that would take as long as there are many of everybody's.
    """
    *above, own = line_by_name(sql, path)
    known, now = nodes_of(sql, [place.key for place in (*above, own)]), sql.now()
    return tuple(
        _standing(sql, each.name, known.get(each.key), limits, now, estimates=each not in above[:1])
        for each in (*above, own)
    )


def last_changes(sql: Backend, path: str) -> tuple[Hashable, ...]:
    """Return the last events of an account and of the accounts above it but the dataset's.

    With their hashes, and the day. While they are the same, so are the :func:`standings` of these
    accounts: a window ends by an event, or with its day or month. After that and until the next
    one opens it changes with streams, too, for which the last event of all stands.
    """
    keys, now = [place.key for place in line_by_name(sql, path)[1:]], sql.now()
    found: list[Hashable] = [iso(now)[: len("2026-01-31")]]
    for key, node in sorted(nodes_of(sql, keys).items() if keys else ()):
        ((charged, tie),) = sql.execute(_CHARGED, (key,))
        found.append((key, node.last, node.tie, charged, tie))
        if is_over(node.renews, node.window.period, now):
            found.append(head(sql))
    return tuple(found)


def windows_of(sql: Backend, key: str, *, estimates: bool = True) -> tuple[Window, ...]:
    """Collect all windows of an account, oldest first, with or without a count of ``estimates``."""
    rows = sql.execute(
        f"SELECT opened, at, period, {', '.join(_CARRIED)}, windows.rho, windows.epsilon, "
        "windows.delta, windows.gaussian, queries, unsettled "
        "FROM windows JOIN events ON seq = opened WHERE path = ? ORDER BY opened",
        (key,),
    )
    below = key + "/"
    counts = sql.execute(_LOOKS, (key, key, len(below), below)) if estimates else ()
    looks = {opened: (int(made), int(returned)) for opened, made, returned in counts}
    parts = len(_PARTS)
    return tuple(
        Window(
            iso(at),
            label,
            _spent((*sums[parts:], *looks.get(opened, (0, 0)))),
            Amount(*sums[:parts]),
        )
        for opened, at, label, *sums in rows
    )


def total_of(windows: Sequence[Window]) -> Spent:
    """Sum the spending over all windows, each charge once.

    Sums beyond what can be counted stay at the largest.
    """
    return Spent(
        amount_of(each.bought for each in windows),
        sum(each.spent.queries for each in windows),
        sum(each.spent.unsettled for each in windows),
        sum(each.spent.looks for each in windows),
        sum(each.spent.returned for each in windows),
    )


def _standing(
    sql: Backend,
    path: str,
    node: AccountNode | None,
    limits: Mapping[str, Account] | None,
    now: int,
    *,
    estimates: bool,
) -> Standing:
    policy = None if limits is None or path not in limits else limits[path].limit
    if node is None:
        bound = () if policy is None else (policy,)
        return Standing(path, bound, None, "{}", Window(iso(now), "", Spent()), Spent())
    windows = windows_of(sql, node.path, estimates=estimates)
    current = windows[-1]
    if is_over(node.renews, node.window.period, now):
        carried = carried_by(sql, node.path)
        current = Window(iso(now), period(node.renews, now), Spent(carried), carried)
    if limits is not None:
        node = node._replace(policy=policy)
    total, since = total_of(windows), _since(sql, node) if node.is_suspended else None
    return Standing(path, node.limits, node.renews, node.terms, current, total, since)


def _since(sql: Backend, node: AccountNode) -> str:
    rows = sql.execute("SELECT at FROM events WHERE seq = ?", (node.suspended,))
    if not rows:
        raise untied(node.path)
    return iso(rows[0][0])


def _renewed(journal: Journal, node: AccountNode) -> AccountNode:
    if not is_over(node.renews, node.window.period, journal.at):
        return node
    return open_window(journal, node, "calendar")


def _told(journal: Journal, node: AccountNode, given: Account | None) -> AccountNode:
    """Record the policy's limit of an account if it has changed, and return the account with it."""
    policy = None if given is None else given.limit
    if policy == node.policy:
        return node
    detail: dict[str, bool | float] = {"limited": policy is not None}
    if given is not None and given.conversion_share is not None:
        _require_same_share(journal.sql, node, given.conversion_share)
        detail["conversion_share"] = given.conversion_share
    node = node._replace(policy=policy)
    journal.note(Kind.POLICY, node.path, policy or Amount(), states=[node.state], **detail)
    _change(journal, node.path, **_columns("policy", policy))
    return node


def _require_same_share(sql: Backend, node: AccountNode, share: float) -> None:
    """Refuse another part of delta for conversion than what was spent in the window fits into.

    Limits before and after would each be kept, and what they promise together would not. Events
    decide by themselves here, so they must have their hashes.
    """
    if not node.window.spent.queries:
        return
    told = sql.execute(
        "SELECT seq, detail FROM events WHERE account = ? AND kind = 'policy' ORDER BY seq DESC",
        (node.path,),
    )
    for seq, detail in told:
        require_hashed(sql, node.path, [seq])
        former = json.loads(detail).get("conversion_share")
        if former is not None:
            if former != share:
                raise _other_share(node.name, former)
            return


def _other_share(path: str, former: float) -> LedgerError:
    return LedgerError(
        f"the account {path} was charged with `delta_for_conversion: {former:g}`, and the policy "
        "now gives it another",
        code="ledger_other_composition",
        hint=f"restore `delta_for_conversion: {former:g}` in the policies file, or give the "
        "analyst an account of another name",
    )


def units_of(limit: Amount | None) -> tuple[int | None, ...]:
    """Return the columns of a limit, which are NULL without one."""
    return (None,) * len(_PARTS) if limit is None else limit.units


def _columns(whose: str, limit: Amount | None) -> dict[str, int | None]:
    """Return the columns of a limit: the ``policy``'s, or the owner's ``limit``."""
    names = (f"{whose}_{part}" for part in _PARTS)
    return dict(zip(names, units_of(limit), strict=True))


def _node(row: LedgerRow) -> AccountNode:
    suspended, reopened, renews, terms, *limits, last, digest, changed, charged = row[11:]
    return AccountNode(
        row[0],
        _pane(row[:11]),
        suspended,
        reopened,
        Renewal(renews) if renews else None,
        terms,
        _limit(*limits[:4]),
        _limit(*limits[4:]),
        last,
        digest,
        changed,
        charged,
    )


def _pane(row: LedgerRow) -> Pane:
    path, opened, label, *sums, last, digest = row
    return Pane(path, opened, label, tuple(sums), last, digest)


@lru_cache
def _limit(*units: int | None) -> Amount | None:
    known = [part for part in units if part is not None]
    return Amount(*known) if len(known) == len(_PARTS) else None


def _spent(numbers: Sequence[int]) -> Spent:
    return Spent(Amount(*numbers[:4]), *numbers[4:])


@lru_cache
def _nodes_of(paths: int) -> str:
    return _NODES.format(", ".join("?" * paths))


@lru_cache
def _panes_of(paths: int) -> str:
    return _PANES.format(", ".join("?" * paths))


@lru_cache
def _account(path: str, limit: Amount) -> Account:
    return Account(path, limit)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _unknown(path: str) -> UnknownName:
    return UnknownName(
        f"the ledger has no account {path} with a budget",
        code="unknown_account",
        hint="ask the data owner for an account",
    )


def _has_room(node: AccountNode, amount: Amount) -> bool:
    if not node.limits:
        return True
    accounts = [_account(node.name, limit) for limit in node.limits]
    spent = node.window.spent.amount
    for account in accounts:
        account.require_same_composition(spent)
    return all(account.has_room(spent, amount) for account in accounts)


def _budget_exceeded(
    own: Sequence[AccountNode], short: Sequence[AccountNode], amount: Amount
) -> BudgetExceeded:
    """Build the refusal of ``amount``, in figures of the analyst's ``own`` accounts alone."""
    currency = "epsilon" if amount.epsilon else "rho"
    left = _left(own)
    requested = _pair(currency, amount)
    remaining = None if left is None else _pair(currency, left)
    price = f"it may cost {_in_words(currency, requested)}"
    names = [node.name for node in short if node in own]
    if names and remaining is not None:
        reason = (
            f"the budget of {', '.join(names)} cannot pay for this query: {price}, and "
            f"{_in_words(currency, remaining)} are left"
        )
    else:
        reason = f"the total of all analysts leaves no room for this query: {price}"
    return BudgetExceeded(
        reason,
        remaining=remaining,
        requested=requested,
        hint="ask for less epsilon or delta, or ask the data owner for a larger budget",
    )


def _left(nodes: Sequence[AccountNode]) -> Amount | None:
    """Return the amount left under all limits of all nodes; None without limits."""
    left = [
        Account(node.path, limit).left(node.window.spent.amount).units
        for node in nodes
        for limit in node.limits
    ]
    return Amount(*map(min, zip(*left, strict=True))) if left else None


def _pair(currency: str, amount: Amount) -> tuple[float, float]:
    loss = amount.loss
    return getattr(loss, currency), loss.delta


def _in_words(currency: str, pair: tuple[float, float]) -> str:
    return f"{currency} {pair[0]:.4g} and delta {pair[1]:.4g}"
