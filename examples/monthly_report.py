"""A scheduled report that stays within a budget that is renewed every month.

Run it with ``python examples/monthly_report.py MONTH [directory]``, MONTH from 1 to 12; it needs
``pip install '.[demo]'``. It keeps the database, the ledger and the reports in the directory
(``report-data`` unless named).

Each question is asked as precisely as the budget allows: with less than a whole report's worth
left, later questions get a smaller ε, or are left out and say so. Running the report again costs
nothing and writes the same numbers, because answers are kept in the ledger.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import dpsql
from dpsql import parse_policy
from dpsql.budget import payer
from dpsql.interfaces.demo.data import demo_database
from dpsql.ledger import Ledger, Renewal
from dpsql.privacy.accounting import Amount, PrivacyLoss

POLICY = parse_policy("""
version: 1
dataset: flight-report
defaults: {epsilon: 1.0, delta: 1e-8, max_groups_contributed: 10, max_rows_contributed: 30}
maxima: {epsilon: 1.0, delta: 1e-8}
accounts:
  reporter: {epsilon: 2.1, delta: 1e-6}  # in each month, as the window is renewed
tables:
  flights:
    privacy_unit: {name: aircraft, column: tailnum}
    columns:
      dep_delay: {lower: -60, upper: 300}
      origin: {domain: [EWR, JFK, LGA]}
""")
ANALYST = "reporter"
ACCOUNT = f"{POLICY.dataset}/{ANALYST}"
PRECISION = (1.0, 0.5, 0.25)
"""The ε to try for each question, best first."""


@dataclass(frozen=True, slots=True)
class Question:
    """One section of the report; what matters most comes first."""

    title: str
    sql: str


QUESTIONS = (
    Question(
        "Departures",
        "SELECT origin, COUNT(*) AS flights FROM flights WHERE month = ? "
        "GROUP BY origin ORDER BY origin",
    ),
    Question(
        "Departures more than an hour late",
        "SELECT origin, COUNT_IF(dep_delay > 60) AS late FROM flights WHERE month = ? "
        "GROUP BY origin ORDER BY origin",
    ),
    Question(
        "Airports that most aircraft served",
        "SELECT dest, COUNT(DISTINCT tailnum) AS aircraft FROM flights WHERE month = ? "
        "GROUP BY dest ORDER BY aircraft DESC LIMIT 5",
    ),
)


def main(month: int, directory: Path) -> None:
    data = demo_database(directory)
    with Ledger.open(directory / "budget.db") as ledger:
        renew_monthly(ledger)
        with dpsql.connect(data, POLICY, ledger, ANALYST) as connection:
            print(outlook(connection, ledger, month))
            sections = [section(connection, ledger, question, month) for question in QUESTIONS]
    path = directory / f"report-{month:02}.md"
    path.write_text(f"# Flights in month {month}\n\n" + "\n".join(sections), encoding="utf-8")
    print(f"Wrote {path}.")


def renew_monthly(ledger: Ledger) -> None:
    """Done once by the owner: the account's limits are those of a calendar month (UTC)."""
    if ACCOUNT not in ledger.accounts():
        owner = ledger.owner("owner")
        owner.create(ACCOUNT)
        owner.renew(ACCOUNT, Renewal.MONTH)


def outlook(connection: dpsql.Connection, ledger: Ledger, month: int) -> str:
    """How many whole reports the rest of the month affords. Asks nothing, costs nothing."""
    plans = [connection.explain(q.sql, [month], epsilon=PRECISION[0]) for q in QUESTIONS]
    report = sum((plan.reserved for plan in plans[1:]), plans[0].reserved)
    return f"Reports that the rest of this month pays for in full: {affordable(ledger, report)}"


def affordable(ledger: Ledger, price: PrivacyLoss) -> int:
    """How often the account can still pay this price."""
    count = ledger.estimate(ACCOUNT, Amount.charge(price), payer(POLICY, ANALYST).limits)
    assert count is not None, "the policy limits the account"
    return count


def section(connection: dpsql.Connection, ledger: Ledger, question: Question, month: int) -> str:
    """The answer at the best precision that the account can pay for, or was given before."""
    for epsilon in PRECISION:
        plan = connection.explain(question.sql, [month], epsilon=epsilon)
        if plan.answered is not None or affordable(ledger, plan.reserved) > 0:
            answer = connection.sql(question.sql, [month], epsilon=epsilon)
            told = "from the ledger" if answer.cost.stored else f"ρ {answer.cost.settled.rho:.4f}"
            print(f"{question.title}: ε {epsilon}, {told}")
            return f"## {question.title}\n\n{table(answer)}\n{note(epsilon)}"
    print(f"{question.title}: left out, the budget of this month is spent")
    return f"## {question.title}\n\nLeft out: this month's privacy budget is spent.\n"


def table(answer: dpsql.Result) -> str:
    """Rows in Markdown, the last column with its 95% interval."""
    *keys, value = answer.columns
    interval = answer.intervals()[value]
    lines = [f"| {' | '.join(keys)} | {value} | 95% |", "|" + "---|" * (len(keys) + 2)]
    for row, low, high in zip(answer, interval.low, interval.high, strict=True):
        cells = [*map(str, row), f"{max(0, low):,.0f} to {high:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def note(epsilon: float) -> str:
    """What a reader must know about a section that was answered with less than usual."""
    return "" if epsilon == PRECISION[0] else "Noisier than usual: the budget ran short.\n"


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path("report-data"))
