# ruff: noqa: E501
"""Random programs: what an analyst, another one and the owner do, one after the other, by a seed.

Half of the statements are gentle, so that they are answered and releases depend on each other; the
others are those of the attacker's grammar, over these tables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from attack.grammar import Grammar, Ref

from .readers import Reader
from .rows import T

ACCOUNTS: Final = ("ana", "bob")
LEAST: Final = 20
"""How many statements a program has at least."""
TRICKS: Final = ("salaries", "wages", "everybody", "secrets", "t2", "l", "seen", '"salaries"')
"""Names that a view is given: some are tables of the owner's that the policy does not list."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done: a statement that is asked, or what the owner or the clock does."""

    kind: str
    text: str = ""
    account: str = "ana"
    way: str = "api"
    values: tuple[Any, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def is_statement(self) -> bool:
        """True if an analyst sends something."""
        return self.kind in ("ask", "again")

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.account, self.way, self.text) if part)


@dataclass(frozen=True)
class Program:
    """Steps, by a seed, with the lot of rows that one of two worlds has."""

    seed: str
    variant: int
    steps: tuple[Step, ...]

    @property
    def statements(self) -> int:
        """How many statements it has."""
        return sum(step.is_statement for step in self.steps)


class WorldsGrammar(Grammar):
    """The attacker's grammar over the tables of two worlds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ("two",))

    def _enter(self, world: str) -> None:
        self.world = world
        self.table = self.rng.choice(["t"] * 5 + ["seen"])
        self.scope = [Ref(name, type_) for name, type_ in T if name != "uid"]
        if self.table == "seen":
            self.scope = [Ref("i32", "INTEGER"), Ref("s", "VARCHAR")]


@cache
def _grammar() -> WorldsGrammar:
    grammar = WorldsGrammar(1)
    grammar._reweigh()
    return grammar


class Drawing:
    """Draws one program."""

    def __init__(self, seed: str, reader: Reader) -> None:
        self._rng = random.Random(seed)
        self._reader = reader
        self._seed = seed
        self._views: list[str] = []
        self._asked: list[Step] = []
        self._steps: list[Step] = []
        self._saved = False

    def program(self, statements: int = LEAST) -> Program:
        """A program of at least so many statements."""
        kinds = {
            "gentle": (46, self._gentle),
            "grammar": (16, self._random),
            "again": (8, self._again),
            "told": (8, self._told),
            "create": (5, self._create),
            "refresh": (9, self._refresh),
            "view": (7, self._read_view),
            "trick": (4, self._trick),
            "drop": (1, self._drop),
            "set": (3, self._set),
            "clock": (3, self._clock),
            "policy": (2, self._policy),
            "edit": (3, self._edit),
            "save": (1.5, self._save),
            "restore": (1.5, self._restore),
            "back-up": (0.8, self._back_up),
            "tightened": (0.8, self._tightened),
        }
        rare = () if self._reader.has_views else ("create", "refresh", "view", "tightened")
        names = list(kinds)
        weights = [w / 20 if name in rare else w for name, (w, _) in kinds.items()]
        while sum(step.is_statement for step in self._steps) < statements:
            (name,) = self._rng.choices(names, weights)
            kinds[name][1]()
        return Program(self._seed, self._rng.randrange(8), tuple(self._steps))

    def _add(self, kind: str, text: str = "", **others: Any) -> Step:
        step = Step(kind, text, **others)
        self._steps.append(step)
        return step

    def _ask(self, text: str, **others: Any) -> None:
        rng = self._rng
        way = "api"
        if not others and rng.random() < self._reader.share_of_ways:
            way = rng.choice(self._reader.ways)
        account = "ana" if rng.random() < 0.85 else "bob"
        self._asked.append(self._add("ask", text, account=account, way=way, **others))

    # -- questions -----------------------------------------------------------------------------

    def _condition(self) -> str:
        rng = self._rng
        number, text = rng.randrange(18), f"s{rng.randrange(6)}"
        return rng.choice(
            (
                f"i32 > {number}", f"i32 BETWEEN {number} AND {number + 5}", f"s = '{text}'",
                f"s LIKE '{text[0]}%'", f"s NOT LIKE '{text}'", f"s <> '{text}'", "f64 IS NOT NULL",
                f"f64 < {number / 2}", f"d >= DATE '2026-01-0{1 + number % 9}'", f"i32 % 3 = {number % 3}",
                f"s IN ('{text}', 's1')", f"NOT (i32 < {number} OR s = '{text}')",
                f"ts < TIMESTAMP '2026-01-0{1 + number % 9} 12:00'", f"i32 IN (SELECT k FROM pub WHERE k < {number})",
            )
        )  # fmt: skip

    def _where(self) -> str:
        return f" WHERE {self._condition()}" if self._rng.random() < 0.6 else ""

    def _gentle(self) -> None:
        rng = self._rng
        aggregate = rng.choice(
            ("count(*)", "count(*)", "count(DISTINCT uid)", "count(DISTINCT uid)", "sum(i32)", "avg(f64)", "sum(f64)",
             "count(s)", "median(i32)", "stddev(i32)", "corr(i32, i32 + 1)", "count(DISTINCT i32)", "sum(i32) FILTER (WHERE i32 > 3)",
             "sum(f64 / i32)")
        )  # fmt: skip
        key = rng.choice(("s", "s", "i32 % 4", "d", "upper(s)", "f64 > 2", "s, i32 % 2"))
        places = ", ".join(str(i + 1) for i in range(key.count(",") + 1))
        where = self._where()
        text = rng.choice(
            (
                f"SELECT {aggregate} AS n FROM t{where}",
                f"SELECT {aggregate} AS n FROM t{where}",
                f"SELECT {key}, {aggregate} AS n FROM t{where} GROUP BY {places}",
                f"SELECT {key}, {aggregate} AS n FROM t{where} GROUP BY {places}",
                f"SELECT {key}, {aggregate} AS n FROM t{where} GROUP BY {places} ORDER BY n DESC",
                f"SELECT s, count(DISTINCT uid) AS n FROM t{where} GROUP BY s ORDER BY n DESC LIMIT {rng.randint(1, 3)}",
                f"SELECT DISTINCT s FROM t{where}",
                f"SELECT avg(n) AS a, count(*) AS c FROM (SELECT s, count(*) AS n FROM t{where} GROUP BY s) r",
                f"SELECT s, n, DP_INTERVAL_LOW(n) AS low FROM (SELECT s, count(*) AS n FROM t{where} GROUP BY s) r",
                f"SELECT p.s, count(*) AS n FROM t JOIN pub p ON t.i32 = p.k{where.replace('i32', 't.i32').replace(' s', ' t.s')} GROUP BY p.s",
                "SELECT count(*) AS n, sum(price) AS p FROM o",
                f"SELECT count(*) AS n FROM t JOIN o ON t.uid = o.uid WHERE o.price > {rng.randrange(40)}",
                f"SELECT qty, count(*) AS n FROM l WHERE qty < {rng.randrange(3, 9)} GROUP BY qty",
                f"SELECT sum(a) AS n FROM (SELECT uid, max(i32) AS a FROM t{where} GROUP BY uid) r" .replace("sum(a)", "sum(a, contribution_bounds_per_row => (0, 20))"),
                f"SELECT s, {aggregate} AS n FROM t GROUP BY ROLLUP (s)",
            )
        )  # fmt: skip
        parameters: dict[str, Any] = {}
        if rng.random() < 0.3:
            parameters = rng.choice(
                (
                    {"max_groups_contributed": "auto"}, {"max_groups_contributed": 1}, {"max_rows_contributed": 3},
                    {"contribution_bounding": "weight"}, {"epsilon": 2.0}, {"min_units_per_group": 3},
                    {"fresh": True}, {"combine": "all"}, {"max_age": "1 day"},
                )
            )  # fmt: skip
        self._ask(text, **({"parameters": parameters} if parameters else {}))

    def _random(self) -> None:
        grammar = _grammar()
        grammar.seed = hash_of(self._seed)
        grammar._count = len(self._steps)
        drawn = grammar.draw()
        if any(mark in drawn.text for mark in ("secret", "uid = 27")) and self._rng.random() < 0.5:
            return
        self._ask(drawn.text, values=tuple(drawn.values), parameters=dict(drawn.parameters))

    def _again(self) -> None:
        if self._asked:
            step = self._rng.choice(self._asked[-8:])
            self._steps.append(
                Step("again", step.text, step.account, "api", step.values, step.parameters)
            )

    def _told(self) -> None:
        rng = self._rng
        asked = self._asked[-1].text if self._asked else "SELECT count(*) FROM t"
        self._ask(
            rng.choice(
                (
                    "SHOW BUDGET", "SHOW TABLES", "SHOW PARAMETERS", "SHOW MATERIALIZED VIEWS", "DESCRIBE t", "DESCRIBE seen",
                    "DESCRIBE pub", "DESCRIBE salaries", "SHOW ALL TABLES", f"EXPLAIN {asked}", f"EXPLAIN {asked}",
                    "SELECT * FROM t LIMIT 0", "SELECT * FROM salaries LIMIT 0", "PRAGMA table_info('t')",
                    "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL",
                    "SELECT table_name FROM information_schema.tables ORDER BY 1", "SELECT * FROM duckdb_tables()",
                )
            )
        )  # fmt: skip

    def _set(self) -> None:
        self._ask(
            self._rng.choice(
                ("SET epsilon = 3", "RESET epsilon", "SET max_groups_contributed = 2", "SET min_units_per_group = 4",
                 "RESET min_units_per_group", "SET contribution_bounding = weight", "RESET contribution_bounding", "SET max_age = '2 days'")
            )
        )  # fmt: skip

    # -- views ---------------------------------------------------------------------------------

    def _create(self) -> None:
        rng = self._rng
        name = f"v{len(self._views)}" if rng.random() < 0.7 else rng.choice(TRICKS)
        start = f"2026-01-0{rng.choice('1112')}"
        options = [
            f"step = '{rng.choice(('1 day', '1 day', '2 days'))}'",
            f"start = '{start}'",
            f"steps = {rng.choice((6, 12))}",
        ]
        if rng.random() < 0.25:
            options.append("window = '2 days'")
        if rng.random() < 0.7:
            options.append("epsilon = 20")
        if rng.random() < 0.2:
            options.append(
                rng.choice(
                    (
                        "continual = 'tree'",
                        "continual = 'blt'",
                        "continual = 'scheduled_top_k'",
                        "continual = 'meta_algo', unit_contributes = 'first step'",
                        "min_units_per_group = 3",
                    )
                )
            )
        if rng.random() < 0.3:
            options.append("max_rows_contributed = 'auto'")
        if rng.random() < 0.2:
            options.append("max_groups_contributed = 'auto'")
        inner = (
            " WITH DIFFERENTIAL_PRIVACY OPTIONS (min_units_per_group = 1)"
            if rng.random() < 0.1
            else ""
        )
        select = rng.choice(
            (
                f"SELECT{inner} s, count(DISTINCT uid) AS users FROM t GROUP BY s", f"SELECT{inner} s, count(*) AS n FROM t{self._where()} GROUP BY s",
                f"SELECT{inner} s, count(*) AS n, sum(i32) AS total, sum(f64 / i32) AS q FROM t GROUP BY s", f"SELECT{inner} count(DISTINCT uid) AS users FROM t",
                "SELECT s, count(DISTINCT uid) AS users FROM t GROUP BY s ORDER BY users DESC LIMIT 2",
            )
        )  # fmt: skip
        text = f"CREATE MATERIALIZED VIEW {name} WITH ({', '.join(options)}) AS {select}"
        if rng.random() < 0.1:
            text = f"EXPLAIN {text}"
        self._add("ask", text, account="ana", way="api")
        self._views.append(name)
        if name in TRICKS and rng.random() < 0.7:
            self._add("ask", f"SELECT * FROM {name}")

    def _view(self) -> str:
        return self._rng.choice([*self._views[-3:], "v0"])

    def _refresh(self) -> None:
        if self._views:
            if self._rng.random() < 0.7:
                self._clock()
            self._add("ask", f"REFRESH MATERIALIZED VIEW {self._view()}", account="ana")

    def _read_view(self) -> None:
        if self._views:
            name, rng = self._view(), self._rng
            self._ask(
                rng.choice(
                    (f"SELECT * FROM {name}", f"SELECT * FROM {name} ORDER BY ALL", f"DESCRIBE {name}", f"SELECT count(*) FROM {name}", f"SELECT * FROM {name} LIMIT 1")
                )
            )  # fmt: skip

    def _drop(self) -> None:
        if self._views:
            self._add("ask", f"DROP MATERIALIZED VIEW {self._view()}", account="ana")

    def _trick(self) -> None:
        name = self._rng.choice(TRICKS)
        self._ask(
            self._rng.choice(
                (f"SELECT * FROM {name}", f"SELECT count(*) FROM {name}", f"SELECT * FROM main.{name}", f"SELECT * FROM vault.{name}",
                 f"SELECT t.s, count(*) FROM t JOIN {name} x ON t.uid = x.uid GROUP BY t.s", f"WITH {name} AS (SELECT 1 AS a) SELECT * FROM {name}",
                 f"SELECT (SELECT max(who) FROM {name}) AS a, count(*) FROM t")
            )
        )  # fmt: skip

    # -- what happens around -------------------------------------------------------------------

    def _clock(self) -> None:
        self._add("clock", str(self._rng.choice((3, 24, 24, 48))))

    def _policy(self) -> None:
        self._add(
            "policy",
            self._rng.choice(
                (
                    "minimum 1",
                    "minimum 2",
                    "minimum 9",
                    "minimum 9",
                    "maximum 6",
                    "maximum 30",
                    "nobody creates",
                    "anybody creates",
                    "share ana",
                )
            ),
        )

    def _edit(self) -> None:
        if self._reader.edits:
            self._add("edit", str(self._rng.randrange(100)))

    def _save(self) -> None:
        self._add("save")
        self._saved = True

    def _restore(self) -> None:
        if self._saved:
            self._add("restore")

    # -- stories: some of these one after the other, as people do them ---------------------------

    def _back_up(self) -> None:
        """Everything is put back as it was before a step was published, and the rows change."""
        if not self._reader.edits:
            return
        self._create()
        name = self._views[-1]
        self._add("save")
        self._saved = True
        self._add("clock", "48")
        self._add("ask", f"REFRESH MATERIALIZED VIEW {name}")
        self._add("restore")
        self._add("edit", str(20 + self._rng.randrange(80)))
        self._add("ask", f"REFRESH MATERIALIZED VIEW {name}")
        self._add("ask", f"SELECT * FROM {name}")

    def _tightened(self) -> None:
        """A view goes on while the policy changes."""
        self._create()
        name = self._views[-1]
        self._add("clock", "48")
        self._add("ask", f"REFRESH MATERIALIZED VIEW {name}")
        self._policy()
        self._add("clock", "48")
        self._add("ask", f"REFRESH MATERIALIZED VIEW {name}")
        self._add("ask", f"SELECT * FROM {name}")


def hash_of(seed: str) -> int:
    """A number that follows from a text, in every process."""
    return random.Random(seed).getrandbits(32)


def draw(seed: str, reader: Reader, statements: int = LEAST) -> Program:
    """The program of a seed."""
    return Drawing(seed, reader).program(statements)
