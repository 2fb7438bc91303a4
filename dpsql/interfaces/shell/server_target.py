"""A server as the source of a shell: its address, a token, and the account that pays there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dpsql.client.answers import RemoteAnswer
from dpsql.core.formatting import json_text, printable, significant
from dpsql.core.progress import Percent
from dpsql.core.table_name import TableName
from dpsql.dbapi.connection import connect
from dpsql.dbapi.remote import RemoteBudget, RemoteConnection, RemoteQuestion
from dpsql.interfaces.shell.cancel import Work
from dpsql.interfaces.shell.candidates import Nameable, spelled, table_spelled
from dpsql.interfaces.shell.costs import Price
from dpsql.interfaces.shell.past import local_time
from dpsql.interfaces.shell.source import ShellSource
from dpsql.policy.parameters import PARAMETERS
from dpsql.present.tables import pairs, titled
from dpsql.results.reading import ReadableAnswer

_COLUMNS = (
    "SELECT table_schema, table_name, column_name FROM information_schema.columns "
    "ORDER BY table_schema, table_name, ordinal_position"
)


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server to connect to; ``files`` are those with its token, certificates and settings.

    ``account`` is the one that pays, the token's usual one if empty.
    """

    address: str
    token: str = field(repr=False)
    account: str = ""
    certificate: str | None = None
    files: tuple[str | Path | None, ...] = ()

    @property
    def name(self) -> str:
        """The address."""
        return self.address

    def opened(self, progress: Percent) -> AbstractContextManager[OpenServer]:
        """Connect, until the end. Raises as :func:`dpsql.connect` does; the token is tried."""
        return _opened(self)


@dataclass(frozen=True, slots=True)
class ServerBalance:
    """Where an account stands by what a server tells."""

    limit: float
    left: float
    charges: int
    epsilon_spent: float

    @property
    def share(self) -> float:
        """The share of the limit that is left."""
        return self.left / self.limit if self.limit else 0.0


class OpenServer(ShellSource):
    """A server that a shell asks."""

    def __init__(self, target: ServerTarget, connection: RemoteConnection) -> None:
        self._target = target
        self.connection: RemoteConnection = connection
        self.work = Work(connection.interrupt)
        # A token that is none is refused here, before a person types anything.
        self._path = connection.budget().account

    @property
    def name(self) -> str:
        """The address."""
        return self._target.address

    @property
    def payer(self) -> str:
        """The name of the account, without that of its dataset."""
        return self._path.partition("/")[2]

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._path.partition("/")[0]

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """Token, certificates and settings."""
        return self._target.files

    @property
    def news(self) -> str:
        """Nothing: a server has its ledger."""
        return ""

    def facts(self) -> list[tuple[str, str]]:
        """List server, dataset and account."""
        return [("server", self.name), ("dataset", self.dataset), ("account", self.payer)]

    def names(self) -> Nameable:
        """Collect the names of tables and columns, which are public."""
        tables: dict[str, tuple[str, ...]] = {}
        for schema, table, column in self.connection.sql(_COLUMNS):
            name = table_spelled(TableName(str(table), str(schema)))
            tables[name] = (*tables.get(name, ()), spelled(str(column)))
        return Nameable(tables, {name: spec.words or () for name, spec in PARAMETERS.items()})

    def balance(self) -> ServerBalance | None:
        """Ask where the account stands."""
        return _balance(self.connection.budget())

    def price(self, text: str) -> Price | None:
        """Ask for the price of a query; None for one that costs nothing, or without a limit."""
        found = self.connection.explain(text)
        now = None if found.free else self.balance()
        if now is None:
            return None
        share = found.share_of_left
        return Price(
            epsilon=found.price_epsilon,
            delta=None,
            share=float("inf") if share is None else share,
            left=max(0.0, now.left - found.price_epsilon),
            affordable=int(1 / share) if share else 0 if share is None else None,
        )

    def explained(self, text: str, as_json: bool) -> RenderableType:
        """Explain a query, at no cost."""
        found = self.connection.explain(text)
        if as_json:
            return json_text(asdict(found), indent=2) + "\n"
        return Text("\n".join(printable(line) for line in found.text.split("\n")))

    def budget(self, as_json: bool) -> RenderableType:
        """Show spending and rest of the account."""
        return budget_shown(self.connection.budget(), as_json)

    def history(self, limit: int) -> RenderableType:
        """List the latest questions that were paid for, the latest last."""
        found = self.connection.history(limit)
        if not found:
            return Text("Nothing was charged yet.")
        return questions_table(found)

    def paid(self, answer: ReadableAnswer) -> str:
        """Word what an answer cost."""
        if not isinstance(answer, RemoteAnswer) or not answer.released:
            return ""
        if answer.cost.stored:
            return "given before, free, "
        return f"ε {significant(answer.cost.epsilon_paid, 3)} paid, "


def budget_shown(report: RemoteBudget, as_json: bool) -> RenderableType:
    """Show where an account of a server stands."""
    if as_json:
        return json_text(asdict(report), indent=2) + "\n"
    rows = [
        ("account", printable(report.account)),
        ("composition", printable(report.composition)),
        ("budget", report.headline),
        ("spent", f"ε {significant(report.epsilon_spent, 3)}"),
        ("questions", f"{report.questions:,}"),
    ]
    if report.unsettled:
        rows.append(("unsettled", f"{report.unsettled:,}, which hold all that they reserved"))
    return pairs(rows)


def questions_table(found: Sequence[RemoteQuestion]) -> Table:
    """Show questions that were paid for at a server, the latest last."""
    table = titled("when", "asked", "again")
    for one in reversed(found):
        statement = printable(" ".join(one.sql.split()), 200)
        again = "free" if one.stored else "is paid for"
        table.add_row(*map(Text, (local_time(one.asked), statement, again)))
    return table


@contextmanager
def _opened(target: ServerTarget) -> Iterator[OpenServer]:
    with connect(
        target.address,
        token=target.token,
        analyst=target.account,
        certificate=target.certificate,
    ) as connection:
        yield OpenServer(target, connection)


def _balance(report: RemoteBudget) -> ServerBalance | None:
    if report.epsilon_limit is None or report.epsilon_left is None:
        return None
    return ServerBalance(
        *(report.epsilon_limit, report.epsilon_left, report.questions, report.epsilon_spent)
    )
