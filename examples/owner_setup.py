"""The owner's side: from a database to accounts that analysts can use, and a ledger to verify.

Run it with ``python examples/owner_setup.py [directory]``; it needs ``pip install '.[demo]'``.
It writes a database of real data, ``policies.yaml`` and ``budget.db`` to the directory
(``owner-data`` unless named) and starts with an empty budget each time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import dpsql
from dpsql import check_policy, load_policy
from dpsql.interfaces.demo.data import demo_database
from dpsql.ledger import Head, Ledger, Renewal
from dpsql.privacy.accounting import Amount, Budget, Composition

# What the owner makes of the draft by `dpsql init`. Bounds are what the Bureau of Transportation
# Statistics allows for, not what the table holds.
POLICY = """\
version: 1
dataset: nyc-flights
defaults: {epsilon: 0.5, delta: 1e-8, max_groups_contributed: 10, max_rows_contributed: 50}
maxima: {epsilon: 1.0, delta: 1e-7}
accounts:
  ana: {epsilon: 3.0, delta: 1e-6}
  bo: {epsilon: 1.0, delta: 1e-6}
total: {epsilon: 4.0, delta: 4e-6}  # what all analysts together may learn
tables:
  flights:
    privacy_unit: {name: aircraft, column: tailnum}
    columns:
      month: {lower: 1, upper: 12, domain: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
      dep_delay: {lower: -60, upper: 300}
      origin: {domain: [EWR, JFK, LGA]}
"""
QUESTION = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin ORDER BY origin"


def main(directory: Path) -> None:
    data = demo_database(directory)
    policies, ledger = directory / "policies.yaml", directory / "budget.db"
    for old in directory.glob("budget.db*"):
        old.unlink()
    check(data, policies)
    anchor = open_accounts(policies, ledger)
    analysts_ask(data, policies, ledger)
    review(ledger, anchor)
    notice_an_old_copy(directory, ledger)


def check(data: Path, policies: Path) -> None:
    """Write the policy and compare it with the database, as `dpsql check` does."""
    policies.write_text(POLICY, encoding="utf-8")
    engine = dpsql.DuckDBEngine(data)
    findings = check_policy(load_policy(policies), engine.catalog().tables)
    engine.close()
    print("Checked the policy:")
    for finding in findings:
        print(f"  {finding.level}: {finding.subject} {finding.message}")
    if any(finding.level == "error" for finding in findings):
        sys.exit("The policy does not fit the database.")


def open_accounts(policies: Path, ledger: Path) -> str:
    """Create the accounts, limit Bo to a little each month, and note the ledger's head."""
    policy = load_policy(policies)
    with Ledger.open(ledger) as opened:
        owner = opened.owner("olga")
        for analyst in policy.accounts:
            owner.create(f"{policy.dataset}/{analyst}")
        little = Budget.of(0.7, 1e-6, Composition.ZCDP).limit
        owner.set_limits(f"{policy.dataset}/bo", little, terms='{"epsilon": 0.7, "delta": 1e-6}')
        owner.renew(f"{policy.dataset}/bo", Renewal.MONTH)
        print(f"\nAccounts: {', '.join(opened.accounts())}")
        # Kept where the ledger's users cannot write, the head shows later that nothing is missing.
        return str(opened.head())


def analysts_ask(data: Path, policies: Path, ledger: Path) -> None:
    """Ana asks once. Bo asks until the month's limit, which is below the policy's, is spent."""
    with dpsql.connect(data, policies, ledger, analyst="ana") as connection:
        print(f"\nAna asks:\n{connection.sql(QUESTION)}")
    with dpsql.connect(data, policies, ledger, analyst="bo") as connection:
        for month in range(1, 13):
            try:
                connection.sql(f"SELECT COUNT(*) FROM flights WHERE month = {month}")
            except dpsql.BudgetExceeded as error:
                print(f"\nBo asked {month - 1} times, then: {error.reason}")
                break


def review(ledger: Path, anchor: str) -> None:
    """Read what happened, and verify it from the anchor on."""
    with Ledger.open(ledger) as opened:
        print("\nThe latest questions:")
        for entry in opened.history("nyc-flights", limit=3):
            charged = Amount() if entry.charged is None else entry.charged
            print(f"  {entry.entry:>3}  {entry.account}  ρ {charged.loss.rho:.4f}")
        for standing in opened.standing("nyc-flights/ana"):
            print(f"{standing.path} has spent ρ {standing.window.spent.amount.loss.rho:.4f}")
        found = opened.verify([Head.parse(anchor)])
        print(f"Verified {found.events} events: {found.broken or 'sound'}")


def notice_an_old_copy(directory: Path, ledger: Path) -> None:
    """A copy of the ledger from before forgets what was spent; a head kept elsewhere tells."""
    copy = directory / "budget.db.old"
    shutil.copy(ledger, copy)
    with Ledger.open(ledger) as opened:
        opened.owner("olga").open_window("nyc-flights/bo")
        later = opened.head()
    with Ledger.open(copy) as opened:
        print(f"An old copy by itself: {opened.verify().broken or 'sound'}")
        print(f"With the later head: {opened.verify([later]).broken}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("owner-data"))
