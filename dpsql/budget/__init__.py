"""Who pays for a connection, where accounts stand, and what is left for more questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dpsql.budget.account import (
    CONVERSION,
    AccountReport,
    StreamReport,
    account_report,
    stream_report,
)
from dpsql.budget.comparison import MAX_COMPARED, Analysis, analyses, charged, counted
from dpsql.budget.forecasts import (
    RECENT,
    Forecast,
    ForecastQuestion,
    forecast,
    question_again,
    question_at,
)
from dpsql.budget.own import OwnAccount, OwnStanding, Seen, seen, share_taken
from dpsql.budget.owner import account_reports, all_entries, latest_entries
from dpsql.budget.payer import Payer, payer, policy_budgets
from dpsql.budget.question import MAX_LOGGED_STATEMENT, LoggedQuery, read_record
from dpsql.core import display
from dpsql.ledger import Entry, Ledger
from dpsql.policy.model import Policy
from dpsql.privacy.accounting.zcdp import Budget, Composition

__all__ = [
    "AccountReport",
    "BudgetReport",
    "EarlierQuestion",
    "Guarantee",
    "OwnAccount",
    "Payer",
    "Seen",
    "StreamReport",
    "account_reports",
    "all_entries",
    "budget_report",
    "earlier_questions",
    "latest_entries",
    "own_accounts",
    "payer",
    "share_taken",
]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The promise of an account: its answers are (``epsilon``, ``delta``)-differentially private.

    ``account`` says of whose view: that of all sessions of the analyst whose account it is, or that
    of all analysts together if it is the dataset's. ``per_window`` says that it is promised of each
    window of the account, of which there may be several. ``periods`` are the privacy units, in the
    policy's words, that are protected in one period at a time, ``rows`` the tables of which each
    row is protected by itself. ``views`` counts the views of others that the analyst may read, or
    has read in the window: the whole price of each is in it, beside the account's own limits.
    """

    account: str
    epsilon: float
    delta: float
    per_window: bool
    periods: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    views: int = 0


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Where an analyst stands: the account that pays, and the analyst's above it.

    ``accounts`` begins with ``account``, which pays, and ends with the analyst's. Accounts that
    others pay from are not reported: what those were charged depends on what they were answered.

    ``promise`` is what is guaranteed, of the analyst alone or, where a ``total`` limits all
    analysts together, of them all; None if a limit was lowered below what was charged before.
    ``total`` says that there is such a limit. Others may then have left less room than is said
    here, and a question is refused for it.

    ``suspended`` is since when the account, or one above it, answers no new question; empty if all
    do. ``forecasts`` say how many more questions there is room for. ``analyses`` compare what the
    ledger has charged the analyst, over all windows, with what other theorems would say; empty
    unless asked for. ``streams`` are those of the accounts that go on: each is one of the queries,
    paid for in full.

    The other figures are those of the analyst's account: ``epsilon`` and ``delta`` are its limits.
    Under basic composition the epsilon and delta of queries add up to ``epsilon_spent`` and
    ``delta_spent``, and rho is 0 throughout. Under zCDP their rho adds up, ``epsilon_spent`` is
    what all of it amounts to, and ``delta_limit`` is less than ``delta``, part of which is kept for
    that conversion. ``queries`` counts all queries of the window, ``looks`` the left-out estimates
    and the numbers of rows per unit that were found, ``unsettled`` those of all that run or failed
    after reserving and keep their whole reservation.
    """

    analyst: str
    accounts: tuple[AccountReport, ...]
    promise: Guarantee | None
    shown: Seen
    total: bool = False
    suspended: str = ""
    forecasts: tuple[Forecast, ...] = ()
    analyses: tuple[Analysis, ...] = ()
    streams: tuple[StreamReport, ...] = ()

    @property
    def account(self) -> str:
        """The path of the account that pays."""
        return self.accounts[0].path

    @property
    def dataset(self) -> str:
        """The path of the dataset's account, which all analysts share."""
        return self.analyst.rpartition("/")[0]

    @property
    def own(self) -> AccountReport:
        """The analyst's account, which pays unless a session of it does."""
        return self.accounts[-1]

    @property
    def suspended_above(self) -> bool:
        """True if the dataset's account is suspended, and none of the analyst's."""
        return bool(self.suspended) and not any(a.suspended for a in self.accounts)

    @property
    def composition(self) -> Composition:
        """The composition: how costs add up."""
        return self.own.composition

    @property
    def epsilon(self) -> float:
        """The epsilon that all queries together may amount to, at ``delta``."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the promise."""
        return self._budget.delta

    @property
    def rho_limit(self) -> float:
        """The zCDP that queries may spend."""
        return self._budget.limit.loss.rho

    @property
    def delta_limit(self) -> float:
        """The delta that queries may spend."""
        limit = self.own.delta_limit
        assert limit is not None
        return limit

    @property
    def rho_spent(self) -> float:
        """The zCDP that was spent."""
        return self.own.spent.loss.rho

    @property
    def delta_spent(self) -> float:
        """The delta that queries have spent."""
        return self.own.spent.loss.delta

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of what was spent, at ``delta``."""
        return self.own.spent.epsilon

    @property
    def queries(self) -> int:
        """The number of queries that were charged."""
        return self.own.spent.queries

    @property
    def looks(self) -> int:
        """The number of estimates of what bounding leaves out; each is charged for itself, once."""
        return self.own.spent.looks

    @property
    def unsettled(self) -> int:
        """The number of queries and estimates that hold their whole reservation."""
        return self.own.spent.unsettled

    @property
    def epsilon_remaining(self) -> float:
        """The epsilon left of the limit.

        Under zCDP, queries buy more with it than their own epsilons add up to.
        """
        return max(0.0, self.epsilon - self.epsilon_spent)

    @property
    def rho_remaining(self) -> float:
        """The zCDP that is still available."""
        return max(0.0, self.rho_limit - self.rho_spent)

    @property
    def delta_remaining(self) -> float:
        """The delta that is still available to queries."""
        return max(0.0, self.delta_limit - self.delta_spent)

    @property
    def _budget(self) -> Budget:
        limit = self.own.binding
        assert limit is not None, "the policy limits every analyst"
        return limit.budget

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


def budget_report(
    policy: Policy,
    analyst: str,
    ledger: Ledger | None,
    session: str = "",
    *,
    compare: bool = False,
    asking: Sequence[ForecastQuestion] = (),
    session_epsilon: float | None = None,
) -> BudgetReport:
    """Tell where an analyst's account stands; without a ledger, nothing has been spent.

    Forecasts are made for the policy's defaults, for the last question again, and for those of
    ``asking``. ``compare`` adds other analyses, which reads all of the account's entries.

    Raises ``UnknownName`` for an analyst without an account, ``ParameterError`` for a bad name of a
    session, and ``LedgerError``.
    """
    limits = analyst, session, session_epsilon
    account = OwnAccount(payer(policy, *limits), ledger)
    budgets, standing = policy_budgets(policy, *limits), account.standing()
    account.payer.limits[-1].require_same_composition(standing.analyst.window.spent.amount)
    accounts = _reports(account, standing, budgets)
    asked = [entry for entry in account.history(RECENT) if entry.stream is None]
    window, own = standing.analyst.window, accounts[-1]
    if not account.windows(own.path):
        window = replace(window, opened="")  # nothing tells when it began
    shown = seen(window, account.shared_views(policy, window))
    entries = [(entry, read_record(entry.plan)) for entry in asked]
    entries = [(entry, record) for entry, record in entries if not record.is_estimate]
    paying = policy.account(analyst)
    defaults = policy.of_account(analyst).defaults
    usual = question_at(defaults, paying.composition, paying.delta_for_conversion)
    questions = [usual]
    questions += [question_again(*asked) for asked in _last(entries, account.payer.path)]
    return BudgetReport(
        own.path,
        accounts,
        _promise(own, standing, budgets, shown, policy),
        shown,
        standing.total is not None,
        standing.suspended,
        tuple(
            forecast(each, standing.binding, entries, own.spent.queries)
            for each in (*questions, *asking)
        ),
        _compared(own, account) if compare else (),
        tuple(map(stream_report, account.streams())),
    )


def own_accounts(
    policy: Policy, analyst: str, ledger: Ledger | None, session: str, epsilon: float | None
) -> tuple[AccountReport, ...]:
    """Report the account that pays and the analyst's above it. Raises as :func:`budget_report`."""
    limits = analyst, session, epsilon
    account = OwnAccount(payer(policy, *limits), ledger)
    return _reports(account, account.standing(), policy_budgets(policy, *limits))


@dataclass(frozen=True, slots=True)
class EarlierQuestion:
    """A question of the account: its statement, its values as text, the day, and who paid.

    ``stored`` says that its release is kept, ``session`` is empty for the analyst's own account.
    """

    statement: str
    values: tuple[str, ...]
    asked: str
    session: str
    stored: bool


def earlier_questions(account: OwnAccount, limit: int) -> tuple[EarlierQuestion, ...]:
    """List the analyst's latest questions whose text is kept whole, the latest first.

    One that was asked several times is listed once.
    """
    found: dict[str, EarlierQuestion] = {}
    for entry in account.history(RECENT):
        record = read_record(entry.plan)
        whole = 0 < len(record.statement) < MAX_LOGGED_STATEMENT
        if not whole or record.is_estimate or entry.stream is not None or entry.query in found:
            continue
        session = entry.account.removeprefix(account.payer.analyst).removeprefix("/")
        day = entry.created[: len("2026-01-31")]
        found[entry.query] = EarlierQuestion(
            record.statement, record.values, day, session, entry.stored
        )
        if len(found) == limit:
            break
    return tuple(found.values())


def _reports(
    account: OwnAccount, standing: OwnStanding, budgets: Mapping[str, Budget]
) -> tuple[AccountReport, ...]:
    """Return the analyst's own accounts, the one that pays first."""
    budget = budgets[account.payer.analyst]
    return tuple(
        account_report(
            each,
            account.windows(each.path),
            budgets.get(each.path),
            conversion=budget.delta_conversion or CONVERSION,
            composition=budget.composition,
        )
        for each in reversed(standing.own)
    )


def _promise(
    own: AccountReport,
    standing: OwnStanding,
    budgets: Mapping[str, Budget],
    shown: Seen,
    policy: Policy,
) -> Guarantee | None:
    """Return the guarantee of the limits: of all analysts together, if there is a total.

    Others decide then whether there is room left, and so what the analyst sees. Their limits are
    those of all accounts that share views, too; else views come beside the analyst's own.
    """
    total = standing.total
    if total is None:
        passed, per_window, report = standing.analyst.passed, own.renews or own.windows > 1, own
    else:
        passed, per_window = total.passed, total.renewed
        report = account_report(
            total.alone,
            (),
            budgets.get(total.alone.path),
            conversion=budgets[own.path].delta_conversion or CONVERSION,
            composition=own.composition,
        )
    if passed or report.binding is None:
        return None
    budget, views = report.binding.budget, shown.views if total is None else 0
    epsilon, delta = shown.most(budget) if views else (budget.epsilon, budget.delta)
    periods, rows = policy.units_per_period, tuple(map(str, policy.tables_of_rows))
    return Guarantee(report.path, epsilon, delta, bool(per_window), periods, rows, views)


def _last(
    entries: Iterable[tuple[Entry, LoggedQuery]], path: str
) -> list[tuple[Entry, LoggedQuery]]:
    """Return the latest entry of an account or of an account below it, if there is one."""
    mine = ((e, asked) for e, asked in entries if f"{e.account}/".startswith(f"{path}/"))
    return list(islice(mine, 1))


def _compared(own: AccountReport, account: OwnAccount) -> tuple[Analysis, ...]:
    """Compare what the ledger has charged the account in all with other theorems."""
    total = own.total
    if not 0 < total.charges <= MAX_COMPARED or own.binding is None:
        return ()
    budget = own.binding.budget
    slack = budget.delta_conversion or budget.delta / 2.0 or CONVERSION
    asked = charged(account.history(MAX_COMPARED), slack)
    others = analyses(asked, slack, total.delta)
    delta = others[0].delta if others else total.delta
    return (counted(total.loss, delta), *others)
