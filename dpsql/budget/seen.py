"""Sums of an account's view in a window, from which every printed promise is computed.

In a window an account is shown what was bought in it, what its streams publish in it, and the views
of others that it may read. An answer that is given again belongs to the window that bought it, and
a step of a stream to the one in which it was published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpsql.ledger import Window
from dpsql.ledger.carried import amount_of
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
