"""What all sessions of an account need again: its policy, plans, answers, parameters and standing.

Each is a function of the policy, of what was asked and of the ledger, so that it is computed once:
tools for agents and servers open a session for each question.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from dpsql.budget import AccountReport, own_accounts, payer
from dpsql.core.remembered import Remembered
from dpsql.ledger import Ledger
from dpsql.pipeline.prepare import PlanMemory
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Overrides, Parameters
from dpsql.policy.resolve import resolve
from dpsql.service.given_answers import AnswerMemory

_MOST_PAYERS: Final = 64
_NOTHING: Final = Overrides()

_Payer = tuple[str, float | None]
_Position = tuple[Hashable, ...]


class AccountMemory:
    """Remembers for the sessions of one account of a dataset. Safe for threads.

    Raises ``UnknownName`` for an analyst without an account.
    """

    def __init__(self, policy: Policy, analyst: str) -> None:
        self.analyst = analyst
        self.policy = policy.of_account(analyst)
        self.plans = PlanMemory()
        self.answers = AnswerMemory()
        self._usual: Parameters | None = None
        self._reports: Remembered[_Payer, tuple[_Position, tuple[AccountReport, ...]]]
        self._reports = Remembered(_MOST_PAYERS, _MOST_PAYERS)

    def parameters(self, layers: Sequence[Overrides]) -> Parameters:
        """Resolve privacy parameters, from far to near. Raises as ``resolve`` does."""
        if any(each != _NOTHING for each in layers):
            return resolve(self.policy, *layers)
        if self._usual is None:
            self._usual = resolve(self.policy)
        return self._usual

    def accounts(
        self, ledger: Ledger, session: str, epsilon: float | None
    ) -> tuple[AccountReport, ...]:
        """Report the account that pays and the analyst's above it.

        ``epsilon`` is the limit of a session's own. Raises as :func:`own_accounts` does.
        """
        path = payer(self.policy, self.analyst, session, epsilon).path
        position, paying = ledger.position(path), (session, epsilon)
        known = self._reports.get(paying)
        if known is not None and known[0] == position:
            return known[1]
        # Nothing that others ask decides whether it is read again: how long that takes would tell.
        # Read later than the position: what is kept may be newer than that says, never older.
        found = own_accounts(self.policy, self.analyst, ledger, session, epsilon)
        self._reports.keep(paying, (position, found), 1)
        return found
