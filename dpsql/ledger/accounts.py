"""The account tree: dataset, analyst, session. A charge must fit the account and all above it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dpsql.accounting import MAX_UNITS, Amount
from dpsql.errors import BudgetExceeded, LedgerError, UnknownName
from dpsql.ledger.backend import Backend, Row
from dpsql.ledger.chain import Kind, iso
from dpsql.ledger.journal import Journal, in_order
from dpsql.ledger.values import Account, Spent, Standing, Window, line_of
from dpsql.ledger.windows import Renewal, is_over, period

_NODES = """
SELECT path, accounts.opened, suspended > reopened, renews, terms,
    limit_rho, limit_epsilon, limit_delta, policy_rho, policy_epsilon, policy_delta,
    period, rho, epsilon, delta, queries, unsettled
FROM accounts JOIN windows USING (path) WHERE windows.opened = accounts.opened AND path IN ({})
"""


@dataclass(frozen=True, slots=True)
class Node:
    """An account as it is stored: its limits, its window, and what was spent in that."""

    path: str
    opened: int
    suspended: bool
    renews: Renewal | None
    terms: str
    limit: Amount | None
    policy: Amount | None
    period: str
    spent: Spent

    @property
    def limits(self) -> tuple[Amount, ...]:
        """Those that bind it."""
        return tuple(limit for limit in (self.policy, self.limit) if limit is not None)


def nodes_of(sql: Backend, paths: Sequence[str]) -> dict[str, Node]:
    """The accounts among ``paths`` that exist, by path."""
    rows = sql.execute(_NODES.format(_marks(paths)), paths)
    return {row[0]: _node(row) for row in rows}


def ready(journal: Journal, path: str, limits: Mapping[str, Account]) -> list[Node]:
    """The line of accounts from the dataset to ``path``, ready to be charged under ``limits``.

    Accounts that are missing are created, windows that are over renewed, limits of the policy that
    are new recorded. Raises :class:`UnknownName` where nobody gave the account, or the analyst's
    account above it, any place in the tree.
    """
    line = line_of(path)
    known = nodes_of(journal.sql, line)
    named = line[1:] or line
    if not any(each in known or each in limits for each in named):
        raise _unknown(path)
    found = []
    for each in line:
        node = known.get(each) or create(journal, each)
        node = _renewed(journal, node)
        given = limits.get(each)
        found.append(_told(journal, node, None if given is None else given.limit))
    if not any(node.limits for node in found):
        raise _unknown(path)
    return found


def require_room(nodes: Sequence[Node], amount: Amount) -> None:
    """Raise :class:`BudgetExceeded` unless ``amount`` fits into every limit of every node.

    What it says is for the analyst who asked: of the first node, the dataset's, which others pay
    from too, it tells no figures. :class:`LedgerError` when an account was charged under the other
    composition, or when its sums would no longer fit into 64 bits.
    """
    short = [node for node in nodes if not _has_room(node, amount)]
    if short:
        raise _budget_exceeded(nodes[1:] or nodes, short, amount)
    for node in nodes:
        sums = zip(node.spent.amount.units, amount.units, strict=True)
        if any(paid + more > MAX_UNITS for paid, more in sums):
            raise LedgerError(
                f"the account {node.path} has spent more than can be counted",
                code="ledger_overflow",
                hint="the data owner may open a new window for it",
            )


def require_open(sql: Backend, nodes: Sequence[Node]) -> None:
    """Raise :class:`LedgerError` (``account_suspended``) if any of the nodes is suspended."""
    for node in nodes:
        if node.suspended:
            raise _account_suspended(node.path, _suspended(sql, node.path)[0])


def suspend(
    journal: Journal, path: str, kind: Kind, entry: int | None = None, **detail: str
) -> None:
    """Suspend an account by an event of this kind. If it is suspended, it goes on being so."""
    seq = journal.append(kind, path, entry=entry, detail=in_order(detail))
    journal.sql.execute(
        "UPDATE accounts SET suspended = ? WHERE path = ? AND suspended <= reopened", (seq, path)
    )


def reopen(journal: Journal, path: str) -> None:
    """End the suspension of an account."""
    seq = journal.note(Kind.REOPEN, path)
    journal.sql.execute("UPDATE accounts SET reopened = ? WHERE path = ?", (seq, path))


def _suspended(sql: Backend, path: str) -> tuple[str, str]:
    """By what kind of event a suspended account is so, and since when."""
    rows = sql.execute(
        "SELECT kind, at FROM events JOIN accounts ON seq = suspended WHERE path = ?", (path,)
    )
    if not rows:
        raise LedgerError(
            f"the account {path} is suspended by no event of the ledger",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        )
    kind, at = rows[0]
    return kind, iso(at)


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


def add(sql: Backend, nodes: Sequence[Node], amount: Amount) -> None:
    """Add a reservation of ``amount`` to the current window of every node."""
    sql.execute(
        "UPDATE windows SET rho = rho + ?, epsilon = epsilon + ?, delta = delta + ?, "
        f"queries = queries + 1, unsettled = unsettled + 1 WHERE opened IN ({_marks(nodes)})",
        (*amount.units, *(node.opened for node in nodes)),
    )


def lower(sql: Backend, path: str, entry: int, reserved: Amount, actual: Amount) -> None:
    """Lower what ``entry`` reserved to ``actual``, in the windows in which it was reserved."""
    line = line_of(path)
    windows = sql.execute(
        f"SELECT max(opened) FROM windows WHERE path IN ({_marks(line)}) AND opened < ? "
        "GROUP BY path",
        (*line, entry),
    )
    sql.execute(
        "UPDATE windows SET rho = rho - ?, epsilon = epsilon - ?, unsettled = unsettled - 1 "
        f"WHERE opened IN ({_marks(windows)})",
        (
            reserved.rho - actual.rho,
            reserved.epsilon - actual.epsilon,
            *(opened for (opened,) in windows),
        ),
    )


def create(journal: Journal, path: str) -> Node:
    """Put an account without limits into the ledger, with its first window."""
    opened = journal.note(Kind.ACCOUNT, path)
    sql = journal.sql
    sql.execute("INSERT INTO windows (opened, path, period) VALUES (?, ?, '')", (opened, path))
    sql.execute("INSERT INTO accounts (path, opened) VALUES (?, ?)", (path, opened))
    return Node(path, opened, False, None, "{}", None, None, "", Spent())


def open_window(journal: Journal, node: Node, by: str) -> Node:
    """Give an account a new window, in which nothing was spent."""
    label = period(node.renews, journal.at)
    opened = journal.note(Kind.WINDOW, node.path, by=by, period=label)
    sql = journal.sql
    sql.execute(
        "INSERT INTO windows (opened, path, period) VALUES (?, ?, ?)", (opened, node.path, label)
    )
    sql.execute("UPDATE accounts SET opened = ? WHERE path = ?", (opened, node.path))
    return replace(node, opened=opened, period=label, spent=Spent())


def standings(
    sql: Backend, path: str, limits: Mapping[str, Account] | None
) -> tuple[Standing, ...]:
    """Where the account and those above it stand, from the dataset down.

    ``limits`` are the policy's; None stands for those of the last charge.
    """
    line, now = line_of(path), sql.now()
    known = nodes_of(sql, line)
    return tuple(_standing(sql, each, known.get(each), limits, now) for each in line)


def windows_of(sql: Backend, path: str) -> tuple[Window, ...]:
    """All windows of an account, oldest first."""
    rows = sql.execute(
        "SELECT at, period, windows.rho, windows.epsilon, windows.delta, queries, unsettled "
        "FROM windows JOIN events ON seq = opened WHERE path = ? ORDER BY opened",
        (path,),
    )
    return tuple(Window(iso(at), label, _spent(spent)) for at, label, *spent in rows)


def total_of(windows: Sequence[Window]) -> Spent:
    """What was spent over all windows; sums beyond what can be counted stay at the largest."""
    sums = [
        min(MAX_UNITS, sum(units))
        for units in zip(*(each.spent.amount.units for each in windows), strict=True)
    ]
    return Spent(
        Amount(*sums),
        sum(each.spent.queries for each in windows),
        sum(each.spent.unsettled for each in windows),
    )


def _standing(
    sql: Backend, path: str, node: Node | None, limits: Mapping[str, Account] | None, now: int
) -> Standing:
    policy = None if limits is None or path not in limits else limits[path].limit
    if node is None:
        bound = () if policy is None else (policy,)
        return Standing(path, bound, None, "{}", Window(iso(now), "", Spent()), Spent())
    windows = windows_of(sql, path)
    current = windows[-1]
    if is_over(node.renews, node.period, now):
        current = Window(iso(now), period(node.renews, now), Spent())
    if limits is not None:
        node = replace(node, policy=policy)
    total, since = total_of(windows), _suspended(sql, path)[1] if node.suspended else None
    return Standing(path, node.limits, node.renews, node.terms, current, total, since)


def _renewed(journal: Journal, node: Node) -> Node:
    if not is_over(node.renews, node.period, journal.at):
        return node
    return open_window(journal, node, "calendar")


def _told(journal: Journal, node: Node, policy: Amount | None) -> Node:
    """The node under the policy's limit, which is recorded if it is not what it was."""
    if policy == node.policy:
        return node
    journal.note(Kind.POLICY, node.path, policy or Amount(), limited=policy is not None)
    journal.sql.execute(
        "UPDATE accounts SET policy_rho = ?, policy_epsilon = ?, policy_delta = ? WHERE path = ?",
        (*units_of(policy), node.path),
    )
    return replace(node, policy=policy)


def units_of(limit: Amount | None) -> tuple[int | None, ...]:
    """The columns of a limit, which are NULL without one."""
    return (None, None, None) if limit is None else limit.units


def _node(row: Row) -> Node:
    path, opened, suspended, renews, terms, *numbers = row
    return Node(
        path,
        opened,
        bool(suspended),
        Renewal(renews) if renews else None,
        terms,
        limit=_limit(numbers[:3]),
        policy=_limit(numbers[3:6]),
        period=numbers[6],
        spent=_spent(numbers[7:]),
    )


def _limit(units: Sequence[int | None]) -> Amount | None:
    known = [each for each in units if each is not None]
    return Amount(*known) if known else None


def _spent(numbers: Sequence[int]) -> Spent:
    return Spent(Amount(*numbers[:3]), *numbers[3:])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _unknown(path: str) -> UnknownName:
    return UnknownName(
        f"the ledger has no account {path} with a budget",
        code="unknown_account",
        hint="ask the data owner for an account",
    )


def _has_room(node: Node, amount: Amount) -> bool:
    accounts = [Account(node.path, limit) for limit in node.limits]
    for account in accounts:
        account.require_same_composition(node.spent.amount)
    return all(account.has_room(node.spent.amount, amount) for account in accounts)


def _budget_exceeded(own: Sequence[Node], short: Sequence[Node], amount: Amount) -> BudgetExceeded:
    """The refusal of ``amount``, in figures of the analyst's ``own`` accounts alone."""
    currency = "epsilon" if amount.epsilon else "rho"
    left = _left(own)
    requested = _pair(currency, amount)
    remaining = None if left is None else _pair(currency, left)
    price = f"it may cost {_in_words(currency, requested)}"
    names = [node.path for node in short if node in own]
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


def _left(nodes: Sequence[Node]) -> Amount | None:
    """What all limits of all nodes leave; None without limits."""
    left = [
        Account(node.path, limit).left(node.spent.amount).units
        for node in nodes
        for limit in node.limits
    ]
    return Amount(*map(min, zip(*left, strict=True))) if left else None


def _pair(currency: str, amount: Amount) -> tuple[float, float]:
    loss = amount.loss
    return getattr(loss, currency), loss.delta


def _in_words(currency: str, pair: tuple[float, float]) -> str:
    return f"{currency} {pair[0]:.4g} and delta {pair[1]:.4g}"
