"""``dpsql demo``: a guided session on real data, printed as an analyst would see it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import dpsql
from dpsql import present as render
from dpsql.budget import BudgetReport
from dpsql.core.formatting import printable, significant
from dpsql.dbapi.connection import Connection, connect
from dpsql.errors import Error, InterfaceError, PolicyError
from dpsql.interfaces.demo.data import demo_database
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.present.tables import bare
from dpsql.results.result import Result

ANALYST: Final = "ana"
DATASET: Final = "dpsql-demo"
SHOWN_ROWS: Final = 16
WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class _Question:
    """A query of the demo, with its title, SQL, parameters and a remark."""

    title: str
    text: str
    sql: str
    remark: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


_HISTOGRAM = _Question(
    "A histogram over keys nobody declared",
    "How many different aircraft flew to each airport? Which airports there are is for the data to "
    "say, so rare ones must stay hidden: naming an airport that a single aircraft served would "
    "give that aircraft away.",
    """\
SELECT dest, COUNT(DISTINCT tailnum) AS aircraft
FROM flights
GROUP BY dest
ORDER BY aircraft DESC""",
    "Airports that few aircraft serve are left out; `dpsql explain` says how few. At how many "
    "airports one aircraft counts was found out privately, as a part of the price.",
    {"epsilon": 1.0},
)
_KNOWN = _Question(
    "A histogram over declared keys",
    "The policy lists the 16 airlines, so every one is answered, whether it serves LaGuardia or "
    "not. Which of them do is not given away, and no δ is spent on hiding it.",
    """\
SELECT carrier, COUNT(DISTINCT tailnum) AS aircraft
FROM flights
WHERE origin = 'LGA'
GROUP BY carrier
ORDER BY aircraft DESC""",
    "These data are public, so it may be said: AS, HA and VX never flew from LaGuardia. Their "
    "answers are zero plus noise.",
    {"epsilon": 1.0},
)
_TOP = _Question(
    "The ten most rated films",
    "A user may have rated any number of films: this top-k mechanism needs no limit on that.",
    """\
SELECT title, COUNT(DISTINCT userId) AS users
FROM movielens
GROUP BY title
ORDER BY users DESC
LIMIT 10""",
    "{released} of 10 came out: ε {paid} paid of {reserved} reserved.",
    {"epsilon": 2.0, "max_groups_contributed": "unlimited"},
)
_TOP_OLD = _Question(
    "Pay what you get",
    "The same question about films made before 1980. The price of ten is reserved, but few old "
    "films were rated by enough of the 671 users.",
    """\
SELECT title, COUNT(DISTINCT userId) AS users
FROM movielens
WHERE year < 1980
GROUP BY title
ORDER BY users DESC
LIMIT 10""",
    "{released} of 10 came out: ε {paid} paid of {reserved} reserved. What did not come out is "
    "not paid for.",
    {"epsilon": 2.0, "max_groups_contributed": "unlimited"},
)
_SUMS = _Question(
    "Sums and averages",
    "Each value is clamped to the policy's bounds (distance: 0 to 5,000 miles; departure delay: "
    "-60 to 300 minutes), and each aircraft's share to that of so many flights per airport as "
    "were found out privately, for a part of the price. The noise is sized by these limits.",
    """\
SELECT origin, SUM(distance) AS miles, AVG(dep_delay) AS delay
FROM flights
GROUP BY origin
ORDER BY miles DESC""",
    "The interval of an average joins the noise of a sum and of a count, so it is not centred.",
    {"epsilon": 2.0},
)
_LABORATORY = _Question(
    "An average over patients",
    "Laboratory values of a liver disease study: a patient has many, all protected together.",
    """\
SELECT COUNT(DISTINCT id) AS patients, AVG(value) AS hdl
FROM nafld2
WHERE test = 'hdl'""",
    "Many patients in one group: little noise, at the policy's default ε of {reserved}.",
)
_REFUSED = _Question(
    "A question that is refused",
    "How often did each aircraft fly? That singles out exactly what is protected.",
    """\
SELECT tailnum, COUNT(*) AS flights
FROM flights
GROUP BY tailnum
ORDER BY flights DESC""",
    "Refused before anything was read: nothing was spent.",
)
_TAIL = _Question(
    "Any SQL on top",
    "HAVING, window functions and arithmetic on aggregates see released rows only: they cost "
    "nothing more.",
    """\
SELECT
  rating AS stars,
  COUNT(*) AS ratings,
  RANK() OVER (ORDER BY COUNT(*) DESC) AS rank,
  ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS percent
FROM movielens
GROUP BY rating
HAVING COUNT(*) > 2000
ORDER BY rank""",
    "Ranks and shares are computed from noisy counts and carry no interval of their own.",
    {"epsilon": 2.0},
)


def run(directory: Path, policies: Path | None) -> None:
    """Build the data if needed, then ask, explain and account for everything, on stdout.

    Starts with an empty budget: a ledger that an earlier demo left is removed. Raises
    ``InterfaceError`` or ``PolicyError`` if the data or the policy cannot be had.
    """
    policies = policies or _policies()
    policy = load_policy(policies)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    with console.status("Preparing three data sets …"):
        path = demo_database(directory)
        ledger = _fresh_ledger(directory)
    with connect(path, policy, ledger, ANALYST) as connection:
        _Demo(console, connection, policy).play()
    _farewell(path, policies, ledger)


class _Demo:
    """One run of the demo."""

    def __init__(self, console: Console, connection: Connection, policy: Policy) -> None:
        self._console = console
        self._connection = connection
        self._policy = policy
        self._section = 0
        self._answers: list[tuple[_Question, Result]] = []

    def play(self) -> None:
        """Show all sections, in order."""
        self._heading("What is protected")
        self._print(_protected(self._policy))
        self._heading("The budget before")
        self._print(render.budget_panel(self._connection.budget()))
        self._answer(_HISTOGRAM)
        self._answer(_KNOWN)
        self._explain(_TOP)
        self._answer(_TOP)
        self._answer(_TOP_OLD)
        self._answer(_SUMS)
        self._answer(_LABORATORY)
        self._refuse(_REFUSED)
        self._answer(_TAIL)
        self._heading("The budget after")
        report = self._connection.budget()
        self._print(_receipt(self._answers, report))
        self._print(render.budget_panel(report))

    def _answer(self, question: _Question) -> None:
        self._ask(question)
        result = self._connection.sql(question.sql, **question.parameters)
        self._answers.append((question, result))
        self._print(render.result_panel(result, max_rows=SHOWN_ROWS))
        self._remark(_filled(question.remark, result))

    def _explain(self, question: _Question) -> None:
        self._heading("EXPLAIN: the price before the question")
        self._say("EXPLAIN reads no row and costs nothing. This is the next question:")
        self._sql(question)
        explanation = self._connection.explain(question.sql, **question.parameters)
        self._print(render.explanation_panel(explanation))

    def _refuse(self, question: _Question) -> None:
        self._ask(question)
        before = self._connection.budget()
        try:
            self._connection.sql(question.sql, **question.parameters)
        except Error as error:
            self._print(render.error_panel(error))
        assert self._connection.budget() == before
        self._remark(question.remark)

    def _ask(self, question: _Question) -> None:
        self._heading(question.title)
        self._say(question.text)
        self._sql(question)

    def _sql(self, question: _Question) -> None:
        settings = ", ".join(f"{name} = {value}" for name, value in question.parameters.items())
        comment = f"-- {settings}\n" if settings else ""
        self._show(render.sql_panel(comment + question.sql), Text())

    def _heading(self, title: str) -> None:
        self._section += 1
        rule = Rule(Text(f"{self._section}. {title}", style="bold"), align="left", style="cyan")
        self._show(Text(), rule, Text())

    def _say(self, text: str) -> None:
        self._show(Text(text), Text())

    def _remark(self, text: str) -> None:
        self._show(Text(), Text.assemble(("→ ", "bold green"), text))

    def _print(self, renderable: RenderableType) -> None:
        self._show(Padding(renderable, (0, 0, 0, 2)))

    def _show(self, *renderables: RenderableType) -> None:
        with self._console.capture() as capture:
            self._console.print(Group(*renderables))
        lines = capture.get().removesuffix("\n").split("\n")
        click.echo("\n".join(line.rstrip() for line in lines))


def _filled(remark: str, result: Result) -> str:
    cost = result.cost
    return remark.format(
        released=len(result),
        paid=significant(cost.settled_epsilon),
        reserved=significant(cost.reserved_epsilon),
    )


def _policies() -> Path:
    """Return ``policies.yaml`` here if it belongs to the demo, else the packaged one."""
    here = Path("policies.yaml")
    if here.is_file() and load_policy(here).dataset == DATASET:
        return here
    package = Path(dpsql.__file__).parent
    # Installed, the file lies in the package; in a source tree it lies beside it.
    for candidate in (package / "demo_policies.yaml", package.parent / "policies.yaml"):
        if candidate.is_file():
            return candidate
    raise PolicyError(
        "the demo's policies file is missing from this installation",
        code="policy_unreadable",
        hint="Name one with --policies.",
    )


def _fresh_ledger(directory: Path) -> Path:
    ledger = directory / "demo.budget.db"
    try:
        for suffix in ("", "-wal", "-shm"):
            ledger.with_name(ledger.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise InterfaceError(
            f"the ledger of an earlier demo, {ledger}, cannot be removed: {error.strerror}",
            code="directory_not_writable",
            hint="Choose another --directory.",
        ) from None
    return ledger


_DESCRIPTIONS: Final = {
    "flights": "336,776 flights from New York in 2013",
    "movielens": "100,004 ratings of films (MovieLens)",
    "nafld2": "400,123 laboratory values of a liver study",
}


def _protected(policy: Policy) -> Table:
    table = bare()
    for title in ("table", "holds", "protects all rows of one", "column"):
        table.add_column(title)
    for name, entry in policy.tables.items():
        unit = entry.privacy_unit
        protected = (unit.name, unit.column) if unit is not None else ("nobody: public", "")
        cells = (str(entry.name), _DESCRIPTIONS.get(name, ""), *protected)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _receipt(answers: list[tuple[_Question, Result]], report: BudgetReport) -> Table:
    """Show the cost of each answer, with the ledger's total."""
    table = bare(footer=True)
    table.add_column("question", footer="spent, says the ledger")
    for title, footer in (
        ("reserved ρ", ""),
        ("paid ρ", significant(report.rho_spent)),
        ("paid δ", significant(report.delta_spent)),
        ("ε alone", significant(report.epsilon_spent)),
    ):
        table.add_column(title, justify="right", footer=footer)
    for question, result in answers:
        cost = result.cost
        table.add_row(
            question.title,
            significant(cost.reserved.rho),
            significant(cost.settled.rho),
            significant(cost.settled.delta),
            significant(cost.settled_epsilon),
        )
    return table


def _this_command() -> str:
    """Return a command line that runs this dpsql again: its name if on the path, else its place."""
    started = Path(sys.argv[0]).absolute()
    beside = started if started.name == "dpsql" else Path(sys.executable).with_name("dpsql")
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m dpsql"
    found = shutil.which("dpsql")
    if found is not None and os.path.samefile(found, beside):
        return "dpsql"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if here in beside.parents else beside))


def _farewell(path: Path, policies: Path, ledger: Path) -> None:
    click.echo(
        "\nAsk your own, from the same budget:\n\n"
        f"  {_this_command()} query \\\n"
        '    "SELECT month, COUNT(*) AS flights FROM flights GROUP BY month" \\\n'
        f"    --database {path} --policies {policies} \\\n"
        f"    --ledger {ledger} --analyst {ANALYST}"
    )
