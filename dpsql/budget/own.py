"""The part of a ledger that an analyst may read: accounts without other payers.

Those are the analyst's own and the sessions' below it. Of the dataset's account, above them, an
analyst learns no figure: what it has spent depends on what others were charged in the end, and so
on what others were answered. Only its limits are read, which are public, and whether they bind.
The owner's view of a whole ledger is in :mod:`dpsql.budget.owner`.

What an account is shown in a window is added up here: all that is printed of a promise comes from
that. It is what was bought in the window, what its streams publish in it, and the views of others
that the account may read. An answer that is given again belongs to the window that bought it, and a
step of a stream to the one in which it was published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from dpsql.budget.account import CONVERSION
from dpsql.budget.payer import Payer, policy_budget
from dpsql.errors import LedgerError
from dpsql.ledger import (
    Entry,
    Ledger,
    ReadableStream,
    Spent,
    Standing,
    StreamRecord,
    Window,
)
from dpsql.ledger.carried import amount_of
from dpsql.ledger.records import line_of
from dpsql.policy.model import Policy
from dpsql.privacy.accounting.zcdp import Amount, Budget, PrivacyLoss


@dataclass(frozen=True, slots=True)
class SharedView:
    """A view of another account, which paid for it; this account may read its steps.

    ``conversion`` is the part of delta that this account keeps for turning rho into epsilon.
    """

    price: Amount
    conversion: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The privacy loss that a window shows to an account, by origin.

    ``bought`` was charged in the window. ``carried`` are whole prices of streams of earlier windows
    that go on, and ``shared`` those of ``views`` views of others. ``conversion`` is the part of
    delta at which their rho is converted for an account that converts none of its own.
    """

    bought: Amount
    carried: Amount
    shared: Amount
    views: int
    conversion: float

    def most(self, budget: Budget) -> tuple[float, float]:
        """Return the (epsilon, delta) of all that such a window can show, whatever is asked.

        The budget bounds what is bought and carried; the views of others are beside it.
        """
        if not self.views:
            return budget.epsilon, budget.delta
        return self._worth(amount_of([budget.limit, self.shared]).loss, budget)

    def so_far(self, budget: Budget) -> tuple[float, float]:
        """Return the (epsilon, delta) of what the window has shown, rounded up."""
        return self._worth(amount_of([self.bought, self.carried, self.shared]).loss, budget)

    def _worth(self, loss: PrivacyLoss, budget: Budget) -> tuple[float, float]:
        aside = budget.delta_conversion or (self.conversion if loss.rho else 0.0)
        return loss.epsilon_at(aside), math.nextafter(loss.delta + aside, math.inf)


def seen(window: Window, shared: Iterable[SharedView] = ()) -> Seen:
    """Sum the purchases of a window, its continuing streams, and the views of other accounts."""
    views = tuple(shared)
    return Seen(
        window.bought,
        window.carried,
        amount_of(view.price for view in views),
        len(views),
        max((view.conversion for view in views), default=0.0),
    )


@dataclass(frozen=True, slots=True)
class Total:
    """The limits of the dataset's account, where it has any: others pay from it as well.

    ``alone`` is where it would stand if nobody else had asked anything: others can only have left
    less. ``passed`` says that more was charged than its limits now allow, so that nothing more can
    be asked, and ``renewed`` that its limits hold for each window.
    """

    alone: Standing
    passed: bool
    renewed: bool


@dataclass(frozen=True, slots=True)
class OwnStanding:
    """Where an analyst stands. ``own`` accounts go from the analyst's to the one that pays.

    ``suspended`` is since when one of them or the dataset's, which only the owner suspends, answers
    no new question; empty if all do.
    """

    own: tuple[Standing, ...]
    total: Total | None
    suspended: str

    @property
    def analyst(self) -> Standing:
        """The analyst's account, above those of its sessions."""
        return self.own[0]

    @property
    def binding(self) -> tuple[Standing, ...]:
        """The limits on a question, as far as the analyst may know them."""
        return self.own if self.total is None else (self.total.alone, *self.own)


def share_taken(amount: Amount, standings: Sequence[Standing]) -> float | None:
    """Compute the share that a charge takes of the scarcest rest; None without limits."""
    shares = [
        math.inf if left == 0 else taken / left
        for standing in standings
        if standing.left is not None
        for taken, left in zip(amount.units, standing.left.units, strict=True)
        if taken
    ]
    return max(shares, default=None)


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The part of a ledger that is an analyst's. Without a ledger, nothing has been spent.

    All that analysts are shown of budgets is computed from this. Its methods raise ``LedgerError``.
    """

    payer: Payer
    ledger: Ledger | None

    def standing(self) -> OwnStanding:
        """Tell where the account that pays stands, and the analyst's above it."""
        dataset, *own = self._line()
        suspended = max(each.suspended or "" for each in (dataset, *own))
        return OwnStanding(tuple(own), self._total(dataset, own[0]), suspended)

    def windows(self, path: str) -> tuple[Window, ...]:
        """Collect all windows of one of the own accounts, oldest first."""
        assert f"{path}/".startswith(f"{self.payer.analyst}/"), "others pay from that account too"
        return () if self.ledger is None else self.ledger.windows(path)

    def history(self, limit: int) -> tuple[Entry, ...]:
        """Return the analyst's latest entries, in any session, newest first.

        Their numbers are those of the ledger, not to be shown: they tell how much others asked.
        """
        return () if self.ledger is None else self.ledger.history(self.payer.analyst, limit)

    def streams(self) -> tuple[StreamRecord, ...]:
        """List the live streams of the analyst and of the session that pays, oldest first."""
        if self.ledger is None:
            return ()
        found = [self.ledger.streams(path) for path in {self.payer.analyst, self.payer.path}]
        return tuple(sorted(chain(*found), key=lambda stream: stream.entry))

    def shared_views(self, policy: Policy, window: Window) -> tuple[SharedView, ...]:
        """List the views of others that the analyst could read in a window, or has read in it.

        Those of accounts that share theirs now, read or not, and those that were read while their
        accounts did. What they cost does not depend on answers, and is told to all who may read
        them.
        """
        if self.ledger is None:
            return ()
        since, paths = window.began, [f"{policy.dataset}/{name}" for name in policy.views.shared]
        readable = [each for path in paths for each in _of_another(self.ledger, path, since)]
        read = self.ledger.streams_read(self.payer.analyst, since)
        own = self.payer.analyst, self.payer.path
        found = {each.stream: each for each in (*readable, *read) if each.account not in own}
        return tuple(
            SharedView(each.price, _conversion(policy, each.account)) for each in found.values()
        )

    def _line(self) -> tuple[Standing, ...]:
        """Return the accounts from the dataset down."""
        if self.ledger is not None:
            return self.ledger.standing(self.payer.path, self.payer.limits)
        limits = {account.path: (account.limit,) for account in self.payer.limits}
        nothing = Window("", "", Spent())
        return tuple(
            Standing(path, limits.get(path, ()), None, "{}", nothing, Spent())
            for path in line_of(self.payer.path)
        )

    def _total(self, dataset: Standing, own: Standing) -> Total | None:
        if not dataset.limits:
            return None
        windows = () if self.ledger is None else self.ledger.windows(dataset.path, estimates=False)
        renewed = dataset.renews is not None or len(windows) > 1
        return Total(_alone(dataset, own), dataset.passed, renewed)


def _conversion(policy: Policy, path: str) -> float:
    """Return the part of delta at which the rho of an account's views is converted."""
    account = policy.accounts.get(path.rpartition("/")[2])
    aside = None if account is None else policy_budget(account).delta_conversion
    return aside or CONVERSION


def _of_another(ledger: Ledger, path: str, since: datetime | None) -> tuple[ReadableStream, ...]:
    """List the views shared with an account; none for an account under its old name."""
    try:
        return ledger.readable_streams(path, since)
    except LedgerError as error:
        if error.code != "account_renamed":
            raise
        return ()


def _alone(dataset: Standing, own: Standing) -> Standing:
    """Return the dataset's account as if only the owner of the account ``own`` had asked.

    What that spent counts if it was all spent in the dataset's present window.
    """
    within = dataset.window.opened <= own.window.opened
    spent = own.window.spent if within else Spent()
    return replace(dataset, window=replace(dataset.window, spent=spent), total=spent)
