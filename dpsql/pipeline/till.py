"""The till of an account: reserves the price of purchases, then settles or fails the charges.

Steps of a materialized view are paid for already; they are begun here, and may fail as well.

What is reserved is spent until it is settled. Failures that cannot be told the ledger at once are
told before anything else is reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dpsql.budget.payer import Payer
from dpsql.errors import BudgetExceeded, EngineError
from dpsql.ledger import Cause, Charge, Ledger, StepTicket
from dpsql.pipeline.events import AccountSuspended, ChargeReserved, ChargeSettled, Observer
from dpsql.pipeline.purchase import Bought, Purchase
from dpsql.privacy.accounting.zcdp import ZERO, Amount, PrivacyLoss


class Till:
    """Charges one account, and tells an observer of it. Not safe for threads."""

    def __init__(self, ledger: Callable[[], Ledger], payer: Payer, observer: Observer) -> None:
        self._ledger = ledger
        self._payer = payer
        self._tell = observer
        self._failures: list[tuple[Charge | StepTicket, Cause]] = []  # the ledger knows none of

    def reserve(
        self, purchases: Sequence[Purchase[Bought]], then: PrivacyLoss = ZERO
    ) -> tuple[Charge, ...]:
        """Charge the worst case of all purchases, or of none if the budget is too small.

        There must be room for ``then`` as well, which is to be charged after them. Raises
        ``BudgetExceeded`` and ``LedgerError``.
        """
        self._record_failures()
        charges: list[Charge] = []
        amounts = [Amount.charge(each.reserved) for each in purchases]
        rest = Amount.charge(then)
        try:
            for place, purchase in enumerate(purchases):
                later = amounts[place + 1 :] if any(rest.units) else ()
                charges.append(self._reserved(purchase, sum(later, rest)))
        except BudgetExceeded:
            for charge in charges:
                self._ledger().settle(charge, Amount())
            raise
        for purchase, charge in zip(purchases, charges, strict=True):
            told = charge.entry, purchase.fingerprint, charge.amount
            self._tell(ChargeReserved(self._payer.path, *told))
        return tuple(charges)

    def pay_stream(
        self, loss: PrivacyLoss, fingerprint: str, *, name: str, stream: str, plan: str
    ) -> None:
        """Charge all steps of a stream, in full and for good. Nothing is read for it yet.

        Raises ``BudgetExceeded`` and ``LedgerError`` (``ledger_stream_exists``).
        """
        self._record_failures()
        path, limits = self._payer.path, self._payer.limits
        charge = self._ledger().create_stream(
            *(path, Amount.charge(loss)), name=name, stream=stream, plan=plan, limits=limits
        )
        self._tell(ChargeReserved(path, charge.entry, fingerprint, charge.amount))

    def begin(self, account: str, stream: str, steps: Sequence[int]) -> tuple[StepTicket, ...]:
        """Begin some steps of a stream: whatever stops them, none is ever begun again.

        Raises ``LedgerError``.
        """
        self._record_failures()
        return self._ledger().begin_steps(account, stream, steps, self._payer.limits)

    def _reserved(self, purchase: Purchase[Bought], then: Amount) -> Charge:
        asked, record = purchase.fingerprint, purchase.record
        path, limits = self._payer.path, self._payer.limits
        amount = Amount.charge(purchase.reserved)
        ledger = self._ledger()
        return ledger.reserve(path, amount, query=asked, plan=record, limits=limits, then=then)

    def settle(self, charges: Sequence[Charge], bought: Sequence[Bought]) -> bool:
        """Commit the cost of charges and store the releases, in one write.

        Tells whether all could be kept: keys of a large release may turn out to have no exact text,
        when they are spelled. What is spelled already is kept all the same.
        """
        pairs = tuple(zip(charges, bought, strict=True))
        costs = [charge.lowered_to(Amount.charge(each.loss)) for charge, each in pairs]
        kept = [each.pieces for each in bought]
        try:
            self._ledger().settle_together(tuple(zip(charges, costs, kept, strict=True)))
        except EngineError as error:
            if error.code == "interrupted":
                raise
            kept = [pieces if isinstance(pieces, tuple) else None for pieces in kept]
            self._ledger().settle_together(tuple(zip(charges, costs, kept, strict=True)))
        for charge, cost, pieces in zip(charges, costs, kept, strict=True):
            self._tell(ChargeSettled(self._payer.path, charge.entry, cost, pieces is not None))
        return None not in kept

    def fail(self, charges: Iterable[Charge | StepTicket], cause: Cause) -> None:
        """Have charges stay spent, or steps used, and the account suspended."""
        self._failures += [(charge, cause) for charge in charges]
        self._record_failures()

    def _record_failures(self) -> None:
        """Tell the ledger of failures it does not know yet; until it does, nothing is bought."""
        while self._failures:
            charge, cause = self._failures[0]
            if isinstance(charge, StepTicket):
                self._ledger().fail_step(charge, self._payer.analyst, cause)
            else:
                self._ledger().fail(charge, self._payer.analyst, cause)
            self._failures.pop(0)
            self._tell(AccountSuspended(self._payer.analyst, cause))
