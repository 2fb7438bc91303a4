"""Questions in notebooks: ``%load_ext dpsql``, then ``%dpsql`` and ``%%dpsql``.

    %dpsql connect demo-data/demo.duckdb --analyst ana

    %%dpsql --into airports --plot
    SELECT dest, COUNT(DISTINCT tailnum) AS aircraft FROM flights
    WHERE carrier = :airline GROUP BY dest

The magics are thin: a connection answers as it does in Python, and an answer shows itself.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import Image, display

from dpsql import present as render
from dpsql.client.transport import TOKEN_VARIABLE, is_server_address
from dpsql.core.formatting import printable
from dpsql.core.schema import fold
from dpsql.dbapi.connection import Connection, connect
from dpsql.dbapi.remote import RemoteBudget, RemoteConnection
from dpsql.errors import Error, InterfaceError
from dpsql.policy.ledger_place import announcement, usual_place
from dpsql.policy.load import load_policy
from dpsql.policy.parameters import PARAMETER_NAMES, PARAMETERS
from dpsql.present.budget import headline
from dpsql.results.frames import require_package
from dpsql.results.reading import ReadableAnswer
from dpsql.syntax.placeholders import parameter_names
from dpsql.syntax.statements import Explain, Select, read_statement

_Method = TypeVar("_Method", bound=Callable[..., Any])
_STATEMENTS = frozenset(
    {"select", "with", "from", "explain", "show", "describe", "desc", "set", "reset"}
)
"""How a statement begins that stands on the line of ``%dpsql``."""
_SIZE, _DPI = (7.0, 4.2), 144


class Refused(Exception):
    """A ``dpsql.Error`` that shows as the command line's panel, without a traceback."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.reason)
        self.error = error

    def _render_traceback_(self) -> list[str]:
        return render.coloured(render.error_panel(self.error)).split("\n")


def _number_or_word(words: Sequence[str], text: str) -> int | str:
    """Read a whole number or one of some words; the policy checks the range."""
    if text.lower() in words:
        return text
    try:
        return int(text)
    except ValueError:
        hint = f"give a whole number, or: {', '.join(words)}"
        raise argparse.ArgumentTypeError(hint) from None


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a variable")
    return text


def _parameters(method: _Method) -> _Method:
    """Add the privacy parameters of a connection or of one query."""
    for spec in reversed(tuple(PARAMETERS.values())):
        attributes: dict[str, Any] = {"type": spec.type}
        if spec.period:
            attributes = {"metavar": "PERIOD"}
        elif spec.words:
            attributes = {"metavar": "|".join(spec.words)}
        elif spec.instead_of_number:
            words = spec.instead_of_number
            metavar = "|".join(("N", *words))
            attributes = {"metavar": metavar, "type": partial(_number_or_word, words)}
        flag = f"--{spec.name.replace('_', '-')}"
        method = argument(flag, help=spec.option.replace("%", "%%"), **attributes)(method)
    return method


@magics_class
class DpsqlMagics(Magics):
    """The magics of one notebook, and the connection they ask."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._connection: Connection | RemoteConnection | None = None
        self._opened = False  # here, and so to be closed here

    @magic_arguments("dpsql")
    @argument(
        "action",
        choices=("connect", "use", "budget", "close"),
        help="connect to a database"
        ", use a connection of this notebook, show the budget, or close the connection",
    )
    @argument(
        "target",
        nargs="?",
        help="a DuckDB, Parquet or CSV file; a server, https://host:8439, with its token in the "
        f"environment variable {TOKEN_VARIABLE}; or the variable that holds a connection",
    )
    @argument("--policies", default="policies.yaml", help="the data owner's policies file")
    @argument(
        "--ledger",
        help="what keeps what has been spent; without it, what the policies file names, or the "
        "file beside the database",
    )
    @argument("--ca-file", help="certificates that a server's is checked by, PEM")
    @argument("--analyst", help="whose account pays: a name under `accounts` in the policies file")
    @argument("--session", default="", help="an account of its own below the analyst's")
    @_parameters
    @line_magic("dpsql")
    def manage(self, line: str) -> None:
        """Connect to a database, look after the connection, or answer a short statement."""
        if line.split(None, 1)[:1] and fold(line.split(None, 1)[0]) in _STATEMENTS:
            self.ask("", line)
            return
        given = parse_argstring(self.manage, line)
        with _panels():
            match given.action:
                case "connect":
                    self._connect(given)
                case "use":
                    self._use(given)
                case "budget":
                    display(self._asked().budget())
                case "close":
                    self.close()

    @magic_arguments("dpsql")
    @argument("--into", type=_name, metavar="NAME", help="the variable that keeps the answer")
    @argument(
        "--explain",
        action="store_true",
        help="show how it would be answered and its price; reads nothing and costs nothing",
    )
    @argument("--plot", action="store_true", help="draw the answer as well")
    @argument(
        "--fresh",
        action="store_true",
        help="draw new noise, and pay for it, even where the same was answered before",
    )
    @argument("--mechanism", help="force a mechanism by name")
    @_parameters
    @cell_magic("dpsql")
    def ask(self, line: str, cell: str) -> None:
        """Answer the SQL of the cell under differential privacy.

        :name and $name stand for the values of the notebook's variables of these names.
        """
        given = parse_argstring(self.ask, line)
        with _panels():
            connection = self._asked()
            values, asked = self._values(cell), _given(given, "mechanism", *PARAMETER_NAMES)
            if given.explain:
                explanation = connection.explain(cell, values, **asked)
                self._keep(given.into, explanation)
                display(explanation)
                return
            result = connection.sql(cell, values, fresh=given.fresh, **asked)
            self._keep(given.into, result)
            display(result)
            if result.released:
                _show_budget(connection)
            if given.plot:
                display(_picture(result))

    def close(self) -> None:
        """Drop the connection, and close it if it was opened here."""
        if self._connection is not None and self._opened:
            self._connection.close()
        self._connection, self._opened = None, False

    def _connect(self, given: argparse.Namespace) -> None:
        chosen = _given(given, *PARAMETER_NAMES)
        if is_server_address(given.target):
            self._connect_to_server(given, chosen)
            return
        if given.target is None or given.analyst is None:
            raise UsageError("%dpsql connect DATABASE --analyst NAME")
        policy = load_policy(given.policies)
        place = given.ledger or usual_place(policy, given.target)
        files = given.target, policy, place
        connection = connect(*files, given.analyst, session=given.session, **chosen)
        self.close()
        self._connection, self._opened = connection, True
        if connection.ledger_created:
            display({"text/plain": announcement(place)}, raw=True)
        _show_budget(connection)

    def _connect_to_server(self, given: argparse.Namespace, chosen: dict[str, Any]) -> None:
        connection = connect(
            given.target,
            token=os.environ.get(TOKEN_VARIABLE, ""),
            analyst=given.analyst or "",
            certificate=given.ca_file,
            **chosen,
        )
        _show_budget(connection)  # the server is reached, and takes the token
        self.close()
        self._connection, self._opened = connection, True

    def _use(self, given: argparse.Namespace) -> None:
        found = self.shell.user_ns.get(given.target)
        if not isinstance(found, Connection | RemoteConnection):
            raise UsageError("%dpsql use NAME, the variable that holds a connection")
        if found is not self._connection:
            self.close()
        self._connection = found
        _show_budget(found)

    def _asked(self) -> Connection | RemoteConnection:
        if self._connection is None:
            raise InterfaceError(
                "there is no connection yet",
                code="not_connected",
                hint="%dpsql connect DATABASE --analyst NAME, or %dpsql use CONNECTION",
            )
        return self._connection

    def _values(self, text: str) -> dict[str, object]:
        """Collect the notebook's values of the parameters that the query names, and no others."""
        statement = read_statement(text)
        if not isinstance(statement, Select | Explain):
            return {}
        names, variables = parameter_names(statement.text), self.shell.user_ns
        return {name: variables[name] for name in names if name in variables}

    def _keep(self, name: str | None, value: object) -> None:
        if name is not None:
            self.shell.user_ns[name] = value


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, for ``%load_ext dpsql``."""
    shell.register_magics(DpsqlMagics(shell))


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Close the connection and forget the magics, for ``%unload_ext dpsql``."""
    magics = shell.magics_manager.registry.pop(DpsqlMagics.__name__, None)
    if isinstance(magics, DpsqlMagics):
        magics.close()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("dpsql", None)


@contextmanager
def _panels() -> Iterator[None]:
    """Show errors of dpsql as panels."""
    try:
        yield
    except Error as error:
        raise Refused(error) from None


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the arguments that were given; the connection and the policy decide the others."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _show_budget(connection: Connection | RemoteConnection) -> None:
    """Show one line on where the account stands."""
    report = connection.budget()
    if isinstance(report, RemoteBudget):
        line = printable(f"{report.account}: {report.headline}")
    else:
        line = printable(f"{report.analyst}: {headline(report)}")
    small = f'<div style="opacity:.7;font-size:90%">{escape(line)}</div>'
    display({"text/plain": line, "text/html": small}, raw=True)


def _picture(result: ReadableAnswer) -> Image:
    """Draw a plot that belongs to no window and to no backend."""
    require_package("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure, png = Figure(figsize=_SIZE, layout="constrained"), io.BytesIO()
    result.plot(ax=figure.subplots())
    figure.savefig(png, format="png", dpi=_DPI)
    return Image(data=png.getvalue(), format="png", retina=True)
