"""What one analyst sees does not depend on what others were charged.

Two worlds are told apart by another analyst alone: what was refunded, and how much was asked. All
that Ana sees must be the same to the byte; and what she could see before must be told apart.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import dpsql
from dpsql import budget, dbapi
from dpsql.budget import Guarantee, account_reports, budget_report, own, payer
from dpsql.budget.account import any_account
from dpsql.interfaces.cli import cli
from dpsql.interfaces.shell.screen import Screen
from dpsql.interfaces.shell.script import run_script
from dpsql.interfaces.shell.settings import ShellSettings
from dpsql.interfaces.shell.start import prompt
from dpsql.interfaces.shell.state import Shell
from dpsql.interfaces.shell.target import DataTarget
from dpsql.ledger import Ledger, Renewal, accounts
from dpsql.policy.load import parse_policy
from dpsql.present.budget import headline
from dpsql.privacy.accounting.zcdp import Amount, Budget, Composition

POLICY = """\
version: 1
dataset: world
defaults: {epsilon: 0.5, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2}
accounts:
  ana: {epsilon: 2, delta: 1e-6}
  bo: {epsilon: 40, delta: 1e-4}
tables:
  visits:
    privacy_unit: {name: person, column: uid}
    columns:
      colour: {domain: [blue, red]}
"""
TOTALS = {"no total": "", "total": "total: {epsilon: 5, delta: 1e-5}\n"}
KNOWN = "SELECT colour, COUNT(*) AS n FROM visits GROUP BY colour"
OTHER = "SELECT COUNT(DISTINCT uid) AS n FROM visits"
NEW = "SELECT COUNT(*) AS n FROM visits"
DEAR = 3.0  # more than Ana's account has left
WITHIN = 1.0  # fits her account, and not what others may have left of the total

Bo: TypeAlias = tuple[tuple[int, int], ...]
"""What Bo reserved and then paid, in thousandths of the total's rho."""
NEVER: Bo = ()
FULL: Bo = ((300, 300), (300, 300))
REFUNDED: Bo = ((300, 30), (300, 0), (1, 1), (300, 170), (100, 0))
MOST: Bo = ((1, 1), (900, 900))
ALMOST_ALL: Bo = ((1, 1), (1, 1), (1, 1), (950, 950))
A_LITTLE_LESS: Bo = ((1, 0), (1, 1), (1, 0), (950, 948), (2, 1))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "world.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 3000 AS uid, "
            "['red', 'blue'][1 + i % 2] AS colour FROM range(9000) t(i)"
        )
    return path


@pytest.fixture(autouse=True)
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All happens at one time, with one salt: neither is what is looked at here."""
    monkeypatch.setattr(
        "dpsql.ledger.sqlite_file.SQLiteBackend.now", lambda _: 1_800_000_000_000_000
    )
    monkeypatch.setattr("dpsql.pipeline.prepare.secrets.randbits", lambda _: 7)


class World:
    """A directory with a policy and a ledger, to which Ana and Bo were charged in turns."""

    def __init__(self, directory: Path, database: Path, bo: Bo, rules: str) -> None:
        directory.mkdir(parents=True)
        self.directory, self.database = directory, database
        self.policy = parse_policy(POLICY + rules)
        (directory / "policies.yaml").write_text(POLICY + rules)
        charges = iter(bo)
        for sql, session in ((KNOWN, ""), (OTHER, "notebook"), (KNOWN, "notebook")):
            self.charge_bo(itertools.islice(charges, 1))
            with self.connect(session) as connection:
                connection.sql(sql, fresh=True)
        self.charge_bo(charges)

    @property
    def ledger(self) -> Path:
        return self.directory / "budget.db"

    def connect(self, session: str = "") -> dpsql.Connection:
        return dpsql.connect(self.database, self.policy, self.ledger, "ana", session=session)

    def charge_bo(self, charges: Iterator[tuple[int, int]]) -> None:
        paying, whole = payer(self.policy, "bo"), Budget.of(5.0, 1e-5, Composition.ZCDP).limit.rho
        with Ledger.open(self.ledger) as ledger:
            for reserved, paid in charges:
                charge = ledger.reserve(
                    paying.path,
                    Amount(rho=whole * reserved // 1000, delta=1),
                    query="q",
                    plan="{}",
                    limits=paying.limits,
                )
                ledger.settle(charge, Amount(rho=whole * paid // 1000, delta=1))


# -- what Ana sees ----------------------------------------------------------------------------


Look: TypeAlias = Callable[["World"], dict[str, object]]
"""One way to look at an account: all that is told there, by where."""


def python(world: World) -> dict[str, object]:
    found: dict[str, object] = {}
    for session in ("", "notebook"):
        with world.connect(session) as connection:
            found |= {f"{key} {session}": told for key, told in reports(connection).items()}
    return found


def reports(connection: dpsql.Connection) -> dict[str, object]:
    report = connection.budget(compare=True)
    return {
        "budget": repr(report),
        "figures": repr(asdict(report)),
        "line": headline(report),
        "show": connection.sql("SHOW BUDGET").fetchall(),
        "explain": repr(connection.explain(KNOWN)),
        "json": connection.explain("EXPLAIN " + OTHER).to_json(),
        "refusal": refusal(lambda: connection.sql(KNOWN, epsilon=DEAR)),
    }


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(dpsql.BudgetExceeded) as refused:
        work()
    error = refused.value
    return f"{error}\n{error.remaining} of {error.requested}"


def db_api(world: World) -> dict[str, object]:
    with dbapi.connect(world.database, world.policy, world.ledger, "ana") as connection:
        cursor = connection.cursor()
        found: dict[str, object] = {}
        for statement in ("SHOW BUDGET", f"EXPLAIN {KNOWN}"):
            cursor.execute(statement)
            found[f"db-api {statement}"] = (cursor.description, cursor.fetchall())
        return found


def alchemy(world: World) -> dict[str, object]:
    url = f"dpsql:///{world.database}?policies=policies.yaml&ledger=budget.db&analyst=ana"
    engine = sa.create_engine(f"{url}&epsilon={DEAR}")
    with engine.connect() as connection:
        shown = connection.exec_driver_sql("SHOW BUDGET").fetchall()
        with pytest.raises(sa.exc.DBAPIError) as refused:
            connection.exec_driver_sql(KNOWN)
    engine.dispose()
    return {"alchemy": list(map(tuple, shown)), "alchemy refused": str(refused.value)}


def shell(world: World) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    target = DataTarget(world.database, Path("policies.yaml"), "budget.db", "ana")
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    with target.opened(lambda _: None) as source:
        typed = Shell(
            source,
            Screen(out, err, interactive=False),
            ShellSettings(confirm=0.0),
            ask=refuse,
        )
        lines = ["\\budget\n", "\\history\n", "SHOW BUDGET;\n", f"\\explain {OTHER}\n"]
        lines += [f"{NEW};\n", f"SET epsilon = {DEAR};\n", f"{KNOWN};\n"]
        run_script(typed, lines, "typed", keep_going=True)
        assert len(asked) == 1
        return {
            "shell": out.getvalue(),
            "shell's errors": err.getvalue(),
            "prompt": list(prompt(typed)),
            "questions": asked,
        }


def command_line(world: World) -> dict[str, object]:
    common = ("--ledger", "budget.db", "--analyst", "ana")
    estimate = ("estimate", KNOWN, "--database", str(world.database))
    commands: tuple[tuple[str, ...], ...] = (
        *((), ("show", "--format", "json"), ("show", "--compare"), ("show", "-s", "notebook")),
        *(estimate, (*estimate, "--format", "json", "-s", "notebook")),
    )
    runs = {
        " ".join(each): CliRunner().invoke(cli, ["budget", *each, *common]) for each in commands
    }
    assert all(run.exit_code == 0 for run in runs.values())
    return {f"dpsql budget {name}": run.output for name, run in runs.items()}


LOOKS: tuple[Look, ...] = (python, db_api, alchemy, shell, command_line)


def seen(world: World, look: Look, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.chdir(world.directory)
    return look(world)


def told_apart(worlds: Sequence[World], look: Look, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Where Ana is told one thing in the one world and another in the other."""
    one, other = (seen(world, look, monkeypatch) for world in worlds)
    assert one.keys() == other.keys()
    assert all(one.values())
    return {key for key in one if one[key] != other[key]}


@pytest.fixture
def worlds(database: Path, tmp_path: Path) -> Callable[..., tuple[World, ...]]:
    """Worlds under the same rules, one for each way in which Bo was charged."""
    numbers = itertools.count()

    def made(rules: str, *ways: Bo) -> tuple[World, ...]:
        return tuple(
            World(tmp_path / str(next(numbers)) / "here", database, bo, rules) for bo in ways
        )

    return made


# -- two worlds -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rules", TOTALS.values(), ids=TOTALS)
def test_what_an_analyst_sees_does_not_depend_on_what_others_were_charged(
    worlds: Callable[..., tuple[World, ...]], monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    one, other = worlds(rules, FULL, REFUNDED)
    for look in LOOKS:
        assert not told_apart((one, other), look, monkeypatch)
    with Ledger.open(one.ledger) as first, Ledger.open(other.ledger) as second:
        assert account_reports(first)[0] != account_reports(second)[0], "the owner sees everything"


@pytest.mark.slow
def test_nor_does_it_depend_on_whether_others_have_asked_anything(
    worlds: Callable[..., tuple[World, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = worlds("", NEVER, REFUNDED)
    for look in (python, command_line):
        assert not told_apart(pair, look, monkeypatch)


def asked_within(world: World) -> str:
    with world.connect() as connection:
        return refusal(lambda: connection.sql(NEW, epsilon=WITHIN))


@pytest.mark.slow
def test_what_others_left_of_a_total_decides_on_refusals_and_is_not_told(
    worlds: Callable[..., tuple[World, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, free = worlds(TOTALS["total"], ALMOST_ALL, A_LITTLE_LESS, FULL)
    assert not told_apart((one, other), python, monkeypatch)
    assert asked_within(one) == asked_within(other)
    assert "the total of all analysts leaves no room for this query: it may" in asked_within(one)
    with free.connect() as connection:
        connection.sql(NEW, epsilon=WITHIN)


@pytest.mark.slow
def test_under_a_total_the_promise_is_one_about_all_analysts_together(
    worlds: Callable[..., tuple[World, ...]],
) -> None:
    (alone,), (under,) = (worlds(rules, FULL) for rules in TOTALS.values())
    for world, account, epsilon, delta in (
        (alone, "world/ana", 2.0, 1e-6),
        (under, "world", 5.0, 1e-5),
    ):
        with world.connect() as connection:
            report = connection.budget()
            told = [row for row in connection.sql("SHOW BUDGET") if "promised" in row[1]]
        assert report.promise == Guarantee(account, epsilon, delta, per_window=False)
        assert report.total == (world is under)
        assert told == [
            (account, "promised epsilon", None, None, epsilon),
            (account, "promised delta", None, None, delta),
        ]
        text = " ".join(repr(report).split())
        assert ("all that all analysts together see is (ε 5, δ 1e-05)" in text) == report.total
        assert ("others pay from the total too" in text) == report.total
        assert ("all answers to world/ana together are (ε 2, δ 1e-06)" in text) != report.total


@pytest.mark.slow
def test_a_limit_of_the_owner_above_the_analysts_is_a_total(
    worlds: Callable[..., tuple[World, ...]],
) -> None:
    (world,) = worlds("", FULL)
    limit = Budget.of(6.0, 1e-5, Composition.ZCDP)
    terms = '{"epsilon": 6.0, "delta": 1e-5, "composition": "zcdp"}'
    with Ledger.open(world.ledger, who="olga") as ledger:
        ledger.owner("olga").set_limits("world", limit.limit, terms=terms)
        report = budget_report(world.policy, "ana", ledger)
        assert report.promise == Guarantee("world", 6.0, 1e-5, per_window=False)
        assert [each.path for each in report.accounts] == ["world/ana"]
        ledger.owner("olga").renew("world", Renewal.MONTH)
        assert "see of one window is (ε 6" in " ".join(
            repr(budget_report(world.policy, "ana", ledger)).split()
        )
        ledger.owner("olga").set_limits("world", Amount(rho=1, delta=2**62))
        lowered = budget_report(world.policy, "ana", ledger)
    assert (lowered.promise, lowered.total) == (None, True)
    text = " ".join(repr(lowered).split())
    assert "More was charged to all analysts together than their total now allows" in text


# -- the same with broken twins ---------------------------------------------------------------


def the_datasets_account_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = budget._reports

    def with_dataset(account: Any, standing: Any, budgets: Any) -> tuple[Any, ...]:
        dataset = any_account("world", None, account.ledger)
        return (dataset, *reports(account, standing, budgets))

    monkeypatch.setattr(budget, "_reports", with_dataset)


def forecasts_use_what_others_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_alone", lambda dataset, _: dataset)


def refusals_tell_what_others_left(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = accounts._budget_exceeded
    monkeypatch.setattr(
        accounts, "_budget_exceeded", lambda _, short, amount: refuse(short, short, amount)
    )


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("twin", "rules", "look", "place"),
    [
        (the_datasets_account_is_reported, "no total", python, "show "),
        (the_datasets_account_is_reported, "total", db_api, "db-api SHOW BUDGET"),
        (forecasts_use_what_others_left, "total", python, "line notebook"),
        (forecasts_use_what_others_left, "total", shell, "questions"),
    ],
)
def test_the_comparison_notices(
    worlds: Callable[..., tuple[World, ...]],
    monkeypatch: pytest.MonkeyPatch,
    twin: Callable[[pytest.MonkeyPatch], None],
    rules: str,
    look: Look,
    place: str,
) -> None:
    pair = worlds(TOTALS[rules], MOST, REFUNDED)
    twin(monkeypatch)
    assert place in told_apart(pair, look, monkeypatch)


@pytest.mark.slow
def test_the_comparison_notices_refusals_that_tell_what_others_left(
    worlds: Callable[..., tuple[World, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = worlds(TOTALS["total"], ALMOST_ALL, A_LITTLE_LESS)
    refusals_tell_what_others_left(monkeypatch)
    assert asked_within(one) != asked_within(other)
