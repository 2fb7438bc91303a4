"""Plays a program on two worlds, and compares all that is heard, sent, said and written.

One world leads: what it releases is released by the other, too (:mod:`door`). Then everything else
must be equal to the byte. What is not is a finding, with the statement at which it was noticed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from click.testing import CliRunner
from helpers.open_doors import DOORS, OpenDoors, enrolled

import dpsql
from dpsql.engines.opening import is_server, open_engine
from dpsql.interfaces.cli import cli
from dpsql.ledger import Ledger, Renewal
from dpsql.pipeline import clock
from dpsql.service.opening import open_dataset
from dpsql.views import views
from dpsql.views.noise import ViewNoise

from . import door as doors
from . import eyes
from . import tape as tapes
from .programs import ACCOUNTS, Program, Step
from .readers import Reader
from .rows import NEVER_SEEN
from .tape import Sent, Tape

SIDES: Final = ("without", "with")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one of two worlds showed and the other did not, or what neither may show."""

    net: str
    detail: str
    step: str
    statements: int  # up to and with that step

    def __str__(self) -> str:
        return f"[{self.net}] after {self.statements} statements, at {self.step!r}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a step on one side."""

    kind: str  # answered, refused, failed, done
    text: str
    code: str = ""
    free: bool = False
    rows: str = ""


@dataclass
class Rules:
    """The policy as it is today, which steps change."""

    minimum: int = 1
    creators: tuple[str, ...] | None = None
    shared: tuple[str, ...] = ()
    maximum: float = 30.0

    def text(self, tables: str) -> str:
        """The policies file."""
        accounts = {name: {"epsilon": 1000, "delta": 0.4} for name in ACCOUNTS}
        shown: dict[str, object] = {"shared": list(self.shared), "directory": "states"}
        if self.creators is not None:
            shown["create"] = list(self.creators)
        return (
            '{"version": 1, "dataset": "two",\n'
            '"defaults": {"epsilon": 5, "delta": 1e-9, "max_groups_contributed": 3, '
            '"max_rows_contributed": 2, "left_out_share": 0},\n'
            f'"maxima": {{"epsilon": {self.maximum}}},\n'
            f'"accounts": {json.dumps(accounts)},\n'
            f'"views": {json.dumps(shown)},\n'
            + tables.replace("MINIMUM", str(self.minimum))
            + "}\n"
        )

    def changed(self, text: str) -> None:
        """Change it as a step says."""
        match text.split():
            case ["minimum", number]:
                self.minimum = int(number)
            case ["maximum", number]:
                self.maximum = float(number)
            case ["nobody", "creates"]:
                self.creators = ()
            case ["anybody", "creates"]:
                self.creators = None
            case ["share", name]:
                self.shared = (name,)


class Side:
    """One world: a directory with its rows, policies file and ledger, and what is open there."""

    def __init__(self, name: str, place: Path, reader: Reader, tape: Tape) -> None:
        self.name, self.place, self.reader, self.tape = name, place, reader, tape
        self.rules = Rules()
        self._open: dict[str, dpsql.Connection] = {}
        self._engine: Any = None
        self._doors: OpenDoors | None = None
        self._saves = 0

    @contextlib.contextmanager
    def played(self, step: int) -> Iterator[None]:
        """Play a step here: in this directory, on this tape."""
        self.tape.begin(step)
        os.chdir(self.place)
        with tapes.playing(self.tape):
            yield

    # -- steps ---------------------------------------------------------------------------------

    def do(self, step: Step) -> Heard:
        """Do one step; whatever comes of it is heard."""
        actions: dict[str, Callable[[Step], Heard]] = {
            "ask": self._ask, "again": self._ask, "clock": self._clock, "policy": self._policy,
            "edit": self._edit, "renews": self._renews, "save": self._save,
            "restore": self._restore, "close": self._close,
        }  # fmt: skip
        return actions[step.kind](step)

    def start(self) -> Heard:
        """Write the policies file and connect for the first time."""
        Path("policies.json").write_text(self.rules.text(self.reader.tables), "utf-8")
        self.reader.written(self.tape.now)
        try:
            self.connection("ana")
        except dpsql.Error as error:
            return _failed(error)
        return Heard("done", "connected")

    def connection(self, account: str) -> dpsql.Connection:
        """The connection of an account."""
        if account not in self._open:
            if self._engine is None:
                self._engine = self._database()
            self._open[account] = dpsql.connect(self._engine, "policies.json", "ledger.db", account)
        return self._open[account]

    def _database(self) -> Any:
        """The database, of which the owner has read all files whole: before anybody asks."""
        found = self.reader.database()
        if isinstance(found, dpsql.DuckDBEngine):
            found.prove()
        elif not is_server(found) and isinstance(found, str | Path) and _is_of_files(found):
            with contextlib.closing(open_engine(found)) as database:
                database.prove(database.catalog().tables)
        return found

    def leave(self) -> None:
        """Close all connections, and doors."""
        if self._doors is not None:
            self._doors.close()
            self._doors = None
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        if hasattr(self._engine, "close"):
            self._engine.close()
        self._engine = None

    def _ask(self, step: Step) -> Heard:
        ways: dict[str, Callable[[Step], Heard]] = {
            "api": self._api, "dbapi": self._dbapi, "sqlalchemy": self._sqlalchemy,
            "shell": self._shell, "query": self._query, **dict.fromkeys(DOORS, self._at_door),
        }  # fmt: skip
        try:
            return ways[step.way](step)
        except dpsql.Error as error:
            return _failed(error)
        except sa.exc.DBAPIError as error:
            return Heard("refused", str(error), getattr(error.orig, "code", ""))
        except Exception as error:  # noqa: BLE001 - raw: the same on both sides, and a finding
            return Heard("raw", f"{type(error).__name__}: {error}")

    def _api(self, step: Step) -> Heard:
        given = dict(step.parameters)
        fresh = bool(given.pop("fresh", False)) and step.kind == "ask"
        connection = self.connection(step.account)
        result = connection.sql(step.text, step.values, fresh=fresh, **given)
        rows = repr(result.fetchall())
        told = [repr(result.columns), repr(result.types), rows, repr(result.cost)]
        if len(step.text) % 4 == 0:  # what is drawn takes longer than all that is drawn of
            told.append(str(result))
        with contextlib.suppress(dpsql.Error):
            told.append(repr(result.intervals()))
        free = result.cost.settled.rho == 0 and result.cost.settled.epsilon == 0
        return Heard("answered", "\n".join(told), free=free, rows=rows)

    def _dbapi(self, step: Step) -> Heard:
        cursor = self.connection(step.account).cursor()
        cursor.execute(step.text, step.values)
        described = cursor.description
        return Heard("answered", repr((described, cursor.fetchall(), cursor.rowcount)))

    def _sqlalchemy(self, step: Step) -> Heard:
        url = (
            f"dpsql:///{self._database()}?policies=policies.json&ledger=ledger.db"
            f"&analyst={step.account}"
        )
        engine = sa.create_engine(url)
        try:
            with engine.connect() as connection:
                found = connection.exec_driver_sql(step.text, step.values)
                return Heard("answered", repr((list(found.keys()), found.fetchall())))
        finally:
            engine.dispose()

    def _shell(self, step: Step) -> Heard:
        return self._invoke(step, "shell", "--keep-going", text=f"{step.text};\nSHOW BUDGET;\n")

    def _query(self, step: Step) -> Heard:
        return self._invoke(step, "query", "-f", "csv", "--intervals", "--", step.text)

    def _at_door(self, step: Step) -> Heard:
        """Ask at a door of a server, which stays open until the world is left."""
        if self._doors is None:
            dataset = open_dataset(self._database(), "policies.json", "ledger.db")
            place = Path(tempfile.mkdtemp(dir=self.place.parent)) / "server"
            self._doors = OpenDoors(dataset, place, ACCOUNTS, lambda: self.tape.now)
        sent = self._doors.ask(step.way, step.account, step.text)
        kind = "raw" if sent.internal else "refused" if sent.code else "answered"
        return Heard(kind, sent.lasting, sent.code)

    def _invoke(self, step: Step, *arguments: str, text: str | None = None) -> Heard:
        command, *others = arguments
        where = ["-d", str(self._database()), "-p", "policies.json", "-l", "ledger.db"]
        given = [command, *where, "-a", step.account, *others]
        done = CliRunner().invoke(cli, given, input=text)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        kind = "answered" if done.exit_code == 0 else "refused"
        return Heard(kind, f"{done.exit_code}\n{done.output}\n{done.stderr}")

    def _clock(self, step: Step) -> Heard:
        self.tape.now += timedelta(hours=int(step.text))
        return Heard("done", str(self.tape.now))

    def _policy(self, step: Step) -> Heard:
        self.leave()
        self.rules.changed(step.text)
        Path("policies.json").write_text(self.rules.text(self.reader.tables), "utf-8")
        return Heard("done", "")

    def _edit(self, step: Step) -> Heard:
        self.leave()
        self.reader.edit(int(step.text))
        self.reader.written(self.tape.now)
        return Heard("done", "")

    def _renews(self, step: Step) -> Heard:
        """Have the windows of the first account renewed each day, as their owner."""
        with Ledger.open("ledger.db") as ledger:
            ledger.owner("olga").renew(f"two/{ACCOUNTS[0]}", Renewal.DAY)
        return Heard("done", "")

    def _save(self, step: Step) -> Heard:
        self.leave()
        saved = self.place.parent / f"{self.name}.saved"
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(self.place, saved)
        return Heard("done", "")

    def _restore(self, step: Step) -> Heard:
        """Put everything back as it was: rows, ledger and states of views; not the policy."""
        self.leave()
        saved = self.place.parent / f"{self.name}.saved"
        os.chdir(self.place.parent)
        shutil.rmtree(self.place)
        shutil.copytree(saved, self.place)
        os.chdir(self.place)
        Path("policies.json").write_text(self.rules.text(self.reader.tables), "utf-8")
        self.reader.written(self.tape.now)
        return Heard("done", "")

    def _close(self, step: Step) -> Heard:
        self.leave()
        return Heard("done", "")

    # -- what is written -----------------------------------------------------------------------

    def files(self) -> str:
        """The names of all files here that dpsql writes, and what is in those that it shows."""
        names = sorted(
            os.path.relpath(os.path.join(directory, name), self.place)
            for directory, _, found in os.walk(self.place)
            for name in found
        )
        own = [n for n in names if n.startswith(("ledger", "states", "policies"))]
        return "\n".join([*own, _dump(self.place / "ledger.db")])


def _dump(path: Path) -> str:
    """All that a ledger holds, as text."""
    if not path.exists():
        return ""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
        return "\n".join(ledger.iterdump())


def _failed(error: dpsql.Error) -> Heard:
    kind = "failed" if isinstance(error, dpsql.EngineError) else "refused"
    told = {name: value for name, value in vars(error).items() if not name.startswith("__")}
    text = f"{type(error).__name__} {error} {sorted(map(repr, told.items()))} {error.__cause__!r}"
    return Heard(kind, text, error.code)


# -- comparing -------------------------------------------------------------------------------------

_TIME = re.compile(r"in \d+\.\d{3} seconds")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
_NUMBER = re.compile(r"\b\d+\b")
_TIDIES: Final = "DROP TABLE"
"""How a statement begins that gives back scratch space: exact rows say which there was."""
_PRIVATE_STATE: Final = ("dpsql.views.state", "dpsql.views.choices")
_READS_EXACT: Final = (
    "dpsql.engines.duckdb.engine",
    "dpsql.engines.postgresql.engine",
    "dpsql.engines.spark.engine",
)
_FILES = re.compile(r"\[(?:'(?:[^']|'')*'(?:, )?)+\]")
_COUNTED = re.compile(r"\b(__dpsql_listed_)\d+\b")
"""Names of a process, which counts all connections that it opens, whoever's they are."""
_LOOK_INTO_FILES: Final = (
    "dpsql.engines.duckdb.views",
    "dpsql.engines.embedded.lockdown",
    "dpsql.engines.duckdb.untyped",
)
"""Modules that look into each file when a world is opened, of which one may have more."""
_ROOMS: Final = ("dpsql.pipeline.tail.rooms",)
"""Modules whose statements tidy up when something is collected as garbage, whenever that is."""


def _plain_log(line: str) -> str:
    return _TIME.sub("in … seconds", line)


def _comparable(side: Side) -> list[tuple[str, str, str]]:
    sent, place = side.tape.sent, side.place
    skipped = (*_ROOMS, *(_LOOK_INTO_FILES if side.reader.own_files else ()))
    return [
        (s.module, _sql(s, place, side.reader.hides), _values(s, place))
        for s in sent
        if s.module not in skipped and not s.sql.startswith(_TIDIES)
    ]


def _sql(sent: Sent, place: Path, hides: re.Pattern[str]) -> str:
    """The text of a statement; of one over a view's private state, without its numbers.

    Nobody but the owner sees these: groups are counted there from the first one that was met.
    """
    text = _FILES.sub("[files]", sent.sql.replace(str(place), "…"))
    text = _COUNTED.sub(r"\1#", hides.sub("…", text))
    return _NUMBER.sub("#", text) if sent.module in _PRIVATE_STATE else text


def _values(sent: Sent, place: Path) -> str:
    """The parameters of a statement; of one that reads what is exact, how many there are.

    Row numbers and positions of exact rows go back to the engine that they came from.
    """
    if sent.module in (*_READS_EXACT, *_PRIVATE_STATE):
        return str(sent.values.count(","))
    return _ADDRESS.sub(">", sent.values.replace(str(place), "…"))


@dataclass
class Played:
    """What came of a program on two worlds."""

    program: Program
    statements: int = 0
    answered: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.program.seed}: {self.statements} statements, {self.answered} answered"


Watcher = Callable[["TwoWorlds", Side, Step, Heard], Iterator[tuple[str, str]]]
"""An invariant on each world, asked after each step of each side: nets and details that fail."""


class TwoWorlds:
    """Two worlds of one reader on which one program is played, ``leader`` first."""

    def __init__(
        self, reader: Reader, program: Program, home: Path, leader: int, same: bool = False
    ) -> None:
        self.program = program
        self.door = doors.Door(look=eyes.look, compare=eyes.compare)
        self.played = Played(program)
        place = Path(tempfile.mkdtemp(dir=home))
        self._place = place
        sides = []
        for name in SIDES:
            where = place / name / "world"
            where.parent.mkdir()
            unit = name == "with" and not same
            reader.make(home / "made", where, program.variant, unit)
            sides.append(Side(name, where, reader, Tape(program.seed, name)))
        self.sides = (sides[leader], sides[1 - leader])

    def play(
        self, watchers: Sequence[Callable[[TwoWorlds], Watcher]] = (), *, stop: bool = True
    ) -> Played:
        """Play the program to its end, or to the first finding."""
        watching = [make(self) for make in watchers]
        before = os.getcwd()
        try:
            with doors.at(self.door):
                self._both(-1, Step("start"), watching)
                for number, step in enumerate(self.program.steps):
                    if stop and self.played.findings:
                        break
                    self._both(number, step, watching)
                self._compare_files(Step("end"))
        finally:
            with doors.at(self.door):
                for number, side in enumerate(self.sides):
                    with side.played(10**6 + number):
                        side.leave()
            os.chdir(before)
            shutil.rmtree(self._place, ignore_errors=True)
        self.played.counted.update(self.door.counted)
        for side in self.sides:
            self.played.counted.update(side.tape.counted)
        return self.played

    def _find(self, net: str, detail: str, step: Step) -> None:
        found = Finding(net, detail[:400], str(step)[:200], self.played.statements)
        self.played.findings.append(found)

    def _both(self, number: int, step: Step, watching: Sequence[Watcher]) -> None:
        played, heard = self.played, []
        if step.is_statement:
            played.statements += 1
        for place, side in enumerate(self.sides):
            self.door.leading = place == 0
            with side.played(number):
                heard.append(side.start() if step.kind == "start" else side.do(step))
                for watch in watching:
                    for net, detail in watch(self, side, step, heard[-1]):
                        self._find(net, detail, step)
        if step.is_statement:
            played.outcomes[heard[0].kind] += 1
            played.answered += heard[0].kind == "answered"
            if heard[0].code:
                played.codes[heard[0].code] += 1
        for net, detail in self._differences(heard[0], heard[1], step):
            self._find(net, detail, step)
        if step.kind in ("restore", "policy") or "VIEW" in step.text:
            self._compare_files(step)

    def _differences(self, one: Heard, other: Heard, step: Step) -> Iterator[tuple[str, str]]:
        first, second = self.sides
        if one.kind == "raw":
            yield "exception", one.text
        if (one.kind, one.code) != (other.kind, other.code):
            yield (
                "refusals",
                f"{first.name}: {one.kind} {one.code}, {second.name}: {other.kind} {other.code} "
                f"{one.text[:180]} {other.text[:180]}",
            )
        else:
            hides = first.reader.hides
            shown = [hides.sub("…", heard.text) for heard in (one, other)]
            if shown[0] != shown[1]:
                yield "heard", _difference(*shown)
        sent = [_comparable(side) for side in self.sides]
        if sent[0] != sent[1]:
            yield "sent", _first_difference(sent[0], sent[1])
        logs = [[_plain_log(line) for line in side.tape.logged] for side in self.sides]
        if logs[0] != logs[1]:
            yield "log", _first_difference(logs[0], logs[1])
        if first.tape.primitives != second.tape.primitives:
            yield "eyes", _first_difference(first.tape.primitives, second.tape.primitives)
        if first.tape.warned != second.tape.warned:
            yield "warnings", _first_difference(first.tape.warned, second.tape.warned)
        self.door.counted["comparisons"] += 1
        for problem in self.door.problems:
            yield "door", problem
        self.door.problems.clear()
        if self.door.waiting:
            yield "door", f"{len(self.door.waiting)} releases of one world that the other has not"
            self.door.waiting.clear()
        for side, heard in zip(self.sides, (one, other), strict=True):
            texts = (heard.text, *side.tape.logged, *side.tape.warned)
            for mark in NEVER_SEEN:
                self.door.counted["texts searched"] += len(texts)
                if any(mark in text for text in texts):
                    yield "canary", f"{mark} is heard ({side.name})"
            if any(mark in sql for _, sql, _ in _comparable(side) for mark in NEVER_SEEN):
                yield "canary", f"a value of a row is in SQL that is sent ({side.name})"

    def _compare_files(self, step: Step) -> None:
        one, other = (side.files() for side in self.sides)
        self.door.counted["files compared"] += 1
        if one != other:
            self._find("files", _difference(one, other), step)
        for mark in NEVER_SEEN:
            if mark in one or mark in other:
                self._find("canary", f"{mark} is written to a file", step)


def _difference(one: str, other: str) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(0, at - 60)
    return f"…{one[start : at + 120]!r} and …{other[start : at + 120]!r}"


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> str:
    for a, b in itertools.zip_longest(one, other):
        if a != b:
            if isinstance(a, tuple) and isinstance(b, tuple):
                return " | ".join(
                    x if x == y else _difference(x, y) for x, y in zip(a, b, strict=True)
                )
            return f"{str(a)[:300]} and {str(b)[:300]}"
    return "their numbers"


def _noting_noise(original: Callable[..., Any]) -> Callable[..., Any]:
    """Have the noise of a view's steps kept on the tape."""

    def at(self: Any, *arguments: Any, **named: Any) -> Any:
        found = original(self, *arguments, **named)
        tape = tapes.current()
        if tape is not None:
            tape.noises.append([each.copy() for each in found])
        return found

    return at


@contextlib.contextmanager
def ready() -> Iterator[None]:
    """Take over what worlds share: tapes, doors, the clock of views."""
    enrolled(ACCOUNTS)
    with tapes.taken_over(), doors.replaced(), eyes.recorded():
        real, drawing = views._now, ViewNoise.at
        moment = clock.present_moment
        clock.present_moment = lambda: moment() if (t := tapes.current()) is None else t.now
        views._now = lambda: real() if (t := tapes.current()) is None else t.now
        ViewNoise.at = _noting_noise(drawing)  # type: ignore[method-assign]
        try:
            yield
        finally:
            views._now = real
            clock.present_moment = moment
            ViewNoise.at = drawing  # type: ignore[method-assign]


def _is_of_files(place: str | Path) -> bool:
    """Tell whether a place is one of files that are tables, and no database."""
    return Path(place).suffix not in (".duckdb", ".db")
