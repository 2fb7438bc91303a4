# ruff: noqa: E501
"""Random statements of the grammar, made of what the engine's catalogue and the parser know.

What a statement consists of is noted as *productions* (a function with the types of its arguments,
a form of FROM clause, an option), and what became of it is fed back: what was never tried comes
first, what was accepted comes often, what is always refused comes seldom. All by one seed.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from helpers.random_statements import (  # the cutting and pasting of other tests' statements
    CORPUS,
    _changed,
)
from sqlglot import exp
from test_lineage_sensitivity import CONDITIONS, HIDDEN
from test_lineage_sensitivity import ROWS as LINEAGE_ROWS

from dpsql.syntax import row_nodes
from dpsql.syntax.other_words import OTHER_WORDS
from dpsql.syntax.text import DIALECT

from .catalogue import Overload, date_parts, overloads, type_names
from .values import EXTREMES, ODD, SCALARS, TARGET, Kind


class _Small(int):
    """An int that is none to a comparison of types."""


class _Enum(enum.IntEnum):
    ONE = 1


class _Word(str):
    """A str of one's own."""

    __slots__ = ()


class _Number(float):
    """A float of one's own."""


Values = Sequence[object] | dict[str, object]


@dataclass(frozen=True)
class Statement:
    """What is asked, of which world, and what it consists of."""

    text: str
    world: str = "plain"
    values: Values = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    shape: str = ""
    productions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ref:
    """A column that an expression may name."""

    name: str
    type: str


KINDS: Final = {kind.name: kind for kind in (*SCALARS, *ODD)}
_BY_TYPE: Final[dict[str, list[Kind]]] = {}
for _kind in KINDS.values():
    _BY_TYPE.setdefault(_kind.type.split("(", 1)[0], []).append(_kind)

_FAMILY: Final = {
    "integer": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
    "number": ("INTEGER", "DOUBLE", "FLOAT", "DECIMAL", "BIGINT", "UHUGEINT", "HUGEINT"),
}  # fmt: skip
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_PREDICATES: Final = (
    "LIKE",
    "NOT LIKE",
    "ILIKE",
    "SIMILAR TO",
    "GLOB",
    "~",
    "^@",
    "LIKE '%' ||",
    "->>'a' =",
    "->'$[0].a'->>0 =",
)
_ARITHMETIC: Final = ("+", "-", "*", "/", "//", "%", "**", "^", "||", "&", "|", "<<", ">>")
_SETTINGS: Final = (
    "0", "1", "2", "3", "-1", "7", "1000", "''", "','", "'s'", "'-'", "'%Y-%m'", "'YYYY-MM-DD'", "'$.a'",
    "'a'", "'[a-z]+'", "'i'", "NULL", "'1'", "0.5",
)  # fmt: skip
"""Constants that functions of other systems take: counts, marks, formats, paths."""
_COLLATIONS: Final = ("NOCASE", "NOACCENT", "de", "C", "POSIX")
_VISITS: Final = ("k", "s", "n", "big", "x", "wide", "amount", "d", "ts", "flag", "c")
_ANY: Final = frozenset({"ANY", "T", "K", "V", "A", "B", "U", "NULL", "TYPE", ""})


def _family_of_allowed() -> frozenset[str]:
    """Names of functions that become nodes of the allow-list: tried more often from the start."""
    nodes: frozenset[object] = getattr(row_nodes, "ROW_NODES", frozenset())
    names = set()
    for name in {o.name for o in overloads() if o.kind != "operator"}:
        builder = exp.FUNCTION_BY_NAME.get(name.upper())
        if builder is not None and builder in nodes:
            names.add(name)
    return frozenset(names) | {name.lower() for name in OTHER_WORDS}


class Experience:
    """What became of productions so far."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()

    def note(self, statement: Statement, *, accepted: bool) -> None:
        """Remember an outcome."""
        for production in set(statement.productions):
            self.tried[production] += 1
            self.accepted[production] += accepted

    def weight(self, production: str) -> float:
        """How often a production is worth trying."""
        tried = self.tried[production]
        if tried < 2:
            return 1.0
        return max(0.004, (self.accepted[production] + 0.2) / (tried + 1) * 2)


class Grammar:
    """Draws statements."""

    def __init__(self, seed: int, worlds: Sequence[str] = ("plain",)) -> None:
        self.seed = seed
        self.worlds = tuple(worlds)
        self.experience = Experience()
        self.rng = random.Random(seed)
        self._made: list[str] = []
        self._count = 0
        self._functions = [o for o in overloads() if o.kind in ("scalar", "macro", "parser")]
        self._operators = [o for o in overloads() if o.kind == "operator" and len(o.types) <= 2]
        self._aggregates = sorted({o.name for o in overloads() if o.kind == "aggregate"})
        self._likely = _family_of_allowed()
        self._weights: list[float] = []
        self._shapes: dict[str, tuple[float, Callable[[], str]]] = {
            "block": (30, self._block),
            "guard": (16, self._guarded),
            "bounds": (12, self._bounds),
            "quantiles": (4, self._quantiles),
            "union": (4, self._union),
            "per unit": (6, self._per_unit),
            "joins": (7, self._joined),
            "windows": (5, self._windows),
            "semi-joins": (4, self._semi_joined),
            "elements": (4, self._elements),
            "comparisons with all": (3, self._quantified),
            "set operations": (4, self._set_operation),
            "grouping sets": (3, self._grouping_sets),
            "pivots": (3, self._pivoted),
            "tails": (0.6, self._tail),
            "corpus": (6, self._corpus),
            "statements": (0.8, self._beside),
        }

    # -- one statement ------------------------------------------------------------------------

    def draw(self) -> Statement:
        """The next statement."""
        if self._count % 400 == 0:
            self._reweigh()
        self.rng = random.Random(f"{self.seed}:{self._count}")
        self._count += 1
        self._made = []
        self._values: list[object] = []
        world = self.worlds[0]
        if len(self.worlds) > 1 and self.rng.random() < 0.12:
            world = self.rng.choice(self.worlds[1:])
        self._enter(world)
        names = list(self._shapes)
        shape = self.rng.choices(names, [self._shapes[n][0] for n in names])[0]
        if shape == "corpus" and "plain" in self.worlds:
            world = "plain"
        text = self._shapes[shape][1]()
        text = self._optioned(text)
        return Statement(
            text,
            world,
            tuple(self._values),
            self._parameters(),
            shape,
            tuple(self._made),
        )

    def _enter(self, world: str) -> None:
        """The tables of a world."""
        rng = self.rng
        self.world = world
        if world == "plain":
            self.table = rng.choice(["t"] * 12 + ["w"] * 2 + ["v"])
            kinds = {"t": SCALARS, "w": (*ODD, SCALARS[2], SCALARS[18])}.get(self.table)
            self.scope = [Ref(k.name, k.type) for k in kinds or ()]
            if self.table == "v":
                self.scope = [
                    Ref("i32", "INTEGER"), Ref("f64", "DOUBLE"), Ref("u128", "UHUGEINT"),
                    Ref("s", "VARCHAR"), Ref("d", "DATE"), Ref("up", "VARCHAR"),
                ]  # fmt: skip
            return
        special = {
            "types": "typed",
            "collations": "folded",
            "views": rng.choice(["sums", "weeks", "joined", "tops"]),
            "oracles": "sums",
        }
        self.table = rng.choice(["t", special.get(world, "t")])
        self.scope = [Ref("i32", "INTEGER"), Ref("f64", "DOUBLE"), Ref("s", "VARCHAR")]
        if self.table == "t":
            self.scope += [Ref("d", "DATE"), Ref("u128", "UHUGEINT")]
        if self.table == "typed":
            self.scope = [Ref("i32", "INTEGER"), Ref("s", "VARCHAR"), Ref("st", "STRUCT")]

    def _reweigh(self) -> None:
        total, found = 0.0, []
        for overload in self._functions:
            likely = 12.0 if overload.name in self._likely else 1.0
            total += self.experience.weight(overload.label) * likely
            found.append(total)
        self._weights = found

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def _note(self, production: str) -> None:
        self._made.append(production)

    # -- expressions --------------------------------------------------------------------------

    def _column(self, type_: str = "ANY") -> str:
        base = type_.split("(", 1)[0]
        fitting = [r for r in self.scope if r.type.split("(", 1)[0] == base]
        if not fitting or base in _ANY:
            fitting = self.scope
        return self.rng.choice(fitting).name

    def _constant(self, type_: str) -> str:
        base = type_.split("(", 1)[0]
        kinds = _BY_TYPE.get(base)
        if kinds is None:
            kinds = [self.rng.choice(list(KINDS.values()))]
        text = self.rng.choice(self.rng.choice(kinds).constants)
        if (
            text.startswith("CAST('")
            and base in ("DATE", "TIMESTAMP", "TIME", "UUID")
            and self._chance(0.4)
        ):
            text = text[5:].split("' AS ")[0] + "'"
        if text.startswith("CAST('") and base in _FAMILY["integer"] and self._chance(0.6):
            text = text[6:].split("' AS ")[0]
        if self._chance(0.02):
            self._note("parameter")
            self._values.append(self._odd_value())
            return "?"
        return text

    def _odd_value(self) -> object:
        """A value that a program may pass for a query parameter."""
        return self.rng.choice(
            [
                0, -1, 2**63, -(2**127), 2**127 - 1, 2**128, 1.5, float("nan"), float("inf"), -0.0,
                5e-324, 1e308, True, None, "", "x", "\x00", "\ud800", "é" * 50, b"x", bytearray(b""),
                decimal.Decimal("1E+30"), decimal.Decimal("1E+999999999"), decimal.Decimal("NaN"),
                datetime.date.min, datetime.date.max, datetime.datetime.min, datetime.time(23, 59),
                datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(9),
                np.int8(3), np.uint64(2**64 - 1), np.float32(0.1), np.datetime64("2024-01-01"),
                np.datetime64("NaT", "s"), np.str_("s"), np.bool_(True), [1], (1, 2), {"a": 1}, {1}, object(), 1j, range(3), type,
                _Small(7), _Enum.ONE, _Word("x"), _Number(1.5), np.longdouble(1), np.array(3), np.array([1]),
                datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), fractions.Fraction(1, 3),
            ]
        )  # fmt: skip

    def _value(self, type_: str = "ANY", depth: int = 2) -> str:
        """An expression of about that type."""
        draw = self.rng.random()
        if depth <= 0 or draw < 0.5:
            return self._column(type_) if self._chance(0.85) else self._constant(type_)
        if draw < 0.68:
            return self._call(depth - 1)
        if draw < 0.78:
            return self._cast(type_, depth - 1)
        if draw < 0.88:
            left, right = self._value(type_, depth - 1), self._value(type_, depth - 1)
            operator = self.rng.choice(_ARITHMETIC[:6] if self._chance(0.8) else _ARITHMETIC)
            self._note(f"operator {operator}")
            return f"({left} {operator} {right})"
        return self._form(type_, depth - 1)

    def _form(self, type_: str, depth: int) -> str:
        """CASE, COALESCE and the like: what may skip operands."""

        def value() -> str:
            return self._value(type_, depth)

        forms = {
            "case": lambda: f"CASE WHEN {self._condition(depth)} THEN {value()} ELSE {value()} END",
            "case of": lambda: f"CASE {value()} WHEN {value()} THEN {value()} END",
            "if": lambda: f"if({self._condition(depth)}, {value()}, {value()})",
            "coalesce": lambda: f"coalesce({value()}, {value()})",
            "ifnull": lambda: f"ifnull({value()}, {value()})",
            "nullif": lambda: f"nullif({value()}, {value()})",
            "least": lambda: f"least({value()}, {value()}, {value()})",
            "greatest": lambda: f"greatest({value()}, {value()})",
            "negative": lambda: f"-({value()})",
            "truth": lambda: f"({self._condition(depth)})",
            "collate": lambda: f"({value()} COLLATE {self.rng.choice(_COLLATIONS)})",
            "subscript": lambda: (
                f"({value()})[{self.rng.choice(['1', '-1', '1:2', '0', value()])}]"
            ),
            "field": lambda: f"({value()}).a",
            "at time zone": lambda: f"({value()} AT TIME ZONE 'America/New_York')",
            "try": lambda: f"try({value()})",
            "list": lambda: f"[{value()}, {value()}]",
            "struct": lambda: f"{{'a': {value()}}}",
            "lambda": lambda: f"list_transform([{value()}], lambda q: q + {value()})",
            "interval": lambda: (
                f"({value()} + INTERVAL ({self._value('INTEGER', 0)}) {self.rng.choice(date_parts())})"
            ),
            "unit": lambda: f"CASE WHEN {self._condition(depth)} THEN uid END",
        }
        names = list(forms)
        weights = [self.experience.weight(f"form {name}") for name in names]
        name = self.rng.choices(names, weights)[0]
        self._note(f"form {name}")
        return forms[name]()

    def _cast(self, type_: str, depth: int) -> str:
        base = type_.split("(", 1)[0]
        names = type_names()
        weights = [self.experience.weight(f"cast to {name}") for name in names]
        target = self.rng.choices(names, weights)[0]
        if base not in _ANY and self._chance(0.3):
            target = base
        value = self._value(self.rng.choice(self.scope).type, depth)
        self._note(f"cast to {target}")
        return self.rng.choice(
            (f"CAST({value} AS {target})", f"({value})::{target}", f"TRY_CAST({value} AS {target})")
        )

    def _call(self, depth: int, overload: Overload | None = None) -> str:
        """A call of a function of the catalogue."""
        if overload is None:
            if self._chance(0.04):
                return self._operator(depth)
            if self._chance(0.12):
                return self._date_part(depth)
            overload = self.rng.choices(self._functions, cum_weights=self._weights)[0]
        self._note(overload.label)
        dated = any(t.startswith(("DATE", "TIME", "INTERVAL")) for t in overload.types)
        arguments = []
        for position, type_ in enumerate(overload.types):
            if type_ in _ANY or self._chance(0.15):
                type_ = self.rng.choice(self.scope).type
            if position == 0 and dated and type_ == "VARCHAR" and self._chance(0.9):
                part = self.rng.choice(date_parts())
                self._note(f"{overload.name} of {part}")
                arguments.append(f"'{part}'")
            elif type_ == "LAMBDA":
                arguments.append("lambda q: q")
            elif overload.kind == "parser" and self._chance(0.5):
                arguments.append(self._setting())
            else:
                deep = depth if self._chance(0.3) else 0
                arguments.append(self._value(type_, deep))
        return f"{overload.name}({', '.join(arguments)})"

    def _setting(self) -> str:
        """What a word of another system may ask for in a constant."""
        part = self.rng.choice(date_parts())
        return self.rng.choice((*_SETTINGS, *_SETTINGS, part, f"'{part}'", "day", "month"))

    def _operator(self, depth: int) -> str:
        overload = self.rng.choice(self._operators)
        self._note(overload.label)
        values = [self._value(t, depth) for t in overload.types]
        if len(values) == 1:
            return f"({overload.name} {values[0]})"
        return f"({values[0]} {overload.name} {values[1]})" if values else "1"

    def _date_part(self, depth: int) -> str:
        part = self.rng.choice(date_parts())
        type_ = self.rng.choice(
            [r.type for r in self.scope if r.type.startswith(("DATE", "TIM", "INT"))] or ["DATE"]
        )
        value, other = self._value(type_, depth // 2), self._value(type_, 0)
        form = self.rng.choice(
            (
                f"extract({part} FROM {value})",
                f"date_part('{part}', {value})",
                f"date_trunc('{part}', {value})",
                f"date_diff('{part}', {value}, {other})",
                f"date_sub('{part}', {value}, {other})",
                f"{part}({value})",
                f"({value} + INTERVAL 3 {part})",
                f"time_bucket(INTERVAL 1 {part}, {value})",
            )
        )
        self._note(f"{form.split('(')[0]} {part} of {type_}")
        return form

    def _condition(self, depth: int = 2) -> str:
        rng = self.rng
        type_ = rng.choice(self.scope).type
        draw = rng.random()
        if depth <= 0 or draw < 0.3:
            left = self._value(type_, depth)
            other = type_ if self._chance(0.85) else rng.choice(self.scope).type
            return f"{left} {rng.choice(_COMPARISONS)} {self._value(other, depth - 1)}"
        if draw < 0.45:
            return f"{self._call(depth)} IS {rng.choice(('', 'NOT '))}NULL"
        if draw < 0.52:
            return f"{self._value(type_, depth)} IS {rng.choice(('NULL', 'NOT NULL', 'TRUE', 'NOT FALSE', 'UNKNOWN'))}"
        if draw < 0.60:
            return (
                f"{self._value(type_, depth)} {rng.choice(('', 'NOT '))}BETWEEN "
                f"{self._value(type_, depth - 1)} AND {self._value(type_, depth - 1)}"
            )
        if draw < 0.68:
            items = [
                self._value(type_, rng.choice((0, 0, depth - 1))) for _ in range(rng.randint(1, 4))
            ]
            return f"{self._value(type_, depth)} {rng.choice(('', 'NOT '))}IN ({', '.join(items)})"
        if draw < 0.74:
            word = rng.choice(_PREDICATES)
            self._note(f"predicate {word}")
            return f"{self._value('VARCHAR', depth)} {word} {self._value('VARCHAR', depth - 1)}"
        if draw < 0.80:
            return f"NOT ({self._condition(depth - 1)})"
        if draw < 0.92:
            word = rng.choice(("AND", "OR"))
            return f"({self._condition(depth - 1)} {word} {self._condition(depth - 1)})"
        if draw < 0.96:
            return self._value("BOOLEAN", depth)
        return f"({self._guard(depth)})"

    def _guard(self, depth: int = 1) -> str:
        """The question an attacker asks: does one unit have such a row?"""
        column = self.rng.choice(self.scope)
        reached = f"uid = {TARGET}"
        if self._chance(0.5):
            reached += (
                f" AND {column.name} {self.rng.choice(_COMPARISONS)} {self._constant(column.type)}"
            )
        tested = self._call(depth) if self._chance(0.7) else self._value(column.type, depth)
        return f"CASE WHEN {reached} THEN {tested} IS NULL ELSE TRUE END"

    # -- aggregates ---------------------------------------------------------------------------

    def _numeric(self, depth: int = 1) -> str:
        """What may be summed."""
        numeric = [
            r
            for r in self.scope
            if r.type.split("(", 1)[0] in (*_FAMILY["integer"], "FLOAT", "DOUBLE", "DECIMAL")
        ]
        if not numeric or self._chance(0.1):
            return self._value("ANY", depth)
        type_ = self.rng.choice(numeric).type
        return self._value(type_, depth)

    def _pair(self) -> str:
        """Two bounds, the extremes of everything among them."""
        rng = self.rng
        sizes = EXTREMES if self._chance(0.15) else EXTREMES[:-6]
        ends = [rng.choice(("", "", "-")) + rng.choice(sizes) for _ in range(2)]
        if self._chance(0.9):
            ends.sort(key=float)
        if self._chance(0.03):
            ends[0] = rng.choice(
                ("NULL", "'1'", "uid", "1e", "0x1F", "- -1", "(1)", "TRUE", "1_000")
            )
        return f"({ends[0]}, {ends[1]})"

    def _aggregate(self) -> str:
        rng = self.rng
        simple = ("count(*)", "count(DISTINCT uid)", "count(DISTINCT uid)")
        draw = rng.random()
        if draw < 0.25:
            text = rng.choice(simple)
        elif draw < 0.37:
            distinct = rng.choice(("", "DISTINCT "))
            report = ", report_format => JSON" if self._chance(0.1) else ""
            text = f"count({distinct}{self._value()}{self._bound('per_group', 0.1)}{report})"
        elif draw < 0.47:
            text = f"count_if({self._condition(1)})"
        elif draw < 0.95:
            name = rng.choice(
                (
                    "sum",
                    "sum",
                    "sum",
                    "avg",
                    "avg",
                    "var_pop",
                    "variance",
                    "stddev",
                    "median",
                    "quantile_cont",
                    "quantile_disc",
                    "stddev_pop",
                    "var_samp",
                )
            )
            bounds = self._bound("per_row", 0.6)
            if name in ("sum", "avg"):
                bounds += self._bound("per_group", 0.35)
            fraction = (
                f", {rng.choice(('0.5', '0', '1', '0.99', '1e-9'))}" if "quantile" in name else ""
            )
            text = f"{name}({self._numeric()}{fraction}{bounds})"
            self._note(f"aggregate {name}")
        elif draw < 0.97:
            name = rng.choice(("corr", "covar_pop", "regr_slope", "regr_syy", "quantile_cont"))
            self._note(f"aggregate {name} of several")
            second = "[0, 0.5]" if name == "quantile_cont" else self._numeric()
            text = f"{name}({self._numeric()}, {second})"
        else:
            name = rng.choice(self._aggregates)
            self._note(f"aggregate {name}")
            extra = f", {self._value()}" if self._chance(0.4) else ""
            text = f"{name}({self._value()}{extra})"
        if self._chance(0.2):
            text += f" FILTER (WHERE {self._condition(1)})"
        return text

    def _bound(self, word: str, probability: float) -> str:
        if not self._chance(probability):
            return ""
        self._note(f"bounds {word}")
        return f", contribution_bounds_{word} => {self._pair()}"

    # -- shapes -------------------------------------------------------------------------------

    def _keys(self, most: int = 2) -> list[str]:
        return [
            self._value("ANY", self.rng.choice((0, 0, 1, 2)))
            for _ in range(self.rng.randint(0, most))
        ]

    def _where(self, probability: float = 0.5) -> str:
        return f" WHERE {self._condition()}" if self._chance(probability) else ""

    def _ending(self, keys: Sequence[str]) -> str:
        """HAVING, ORDER BY and LIMIT."""
        rng, text = self.rng, ""
        if keys and self._chance(0.15):
            text += f" HAVING {rng.choice(('count(*) > 3', 'count(DISTINCT uid) >= 2', 'sum(i32) / count(*) > 0.5', 'avg(f64) IS NOT NULL'))}"
        if self._chance(0.25):
            position = rng.randint(1, len(keys) + 1)
            text += f" ORDER BY {position}{rng.choice((' DESC', ' DESC', ''))}"
            if self._chance(0.7):
                text += f" LIMIT {rng.choice(('1', '2', '5', '0', '100'))}"
        return text

    def _select(self, source: str, keys: list[str], aggregates: list[str]) -> str:
        group = f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}" if keys else ""
        items = ", ".join([*keys, *aggregates])
        return f"SELECT {items} FROM {source}{self._where()}{group}{self._ending(keys)}"

    def _block(self) -> str:
        aggregates = [self._aggregate() for _ in range(self.rng.choice((1, 1, 1, 2, 3)))]
        return self._select(self.table, self._keys(), aggregates)

    def _guarded(self) -> str:
        """The shortest way from a private row to a failure: one function, one place for it."""
        guard = self._guard()
        return self.rng.choice(
            (
                f"SELECT count(*) FROM {self.table} WHERE {guard}",
                f"SELECT count(*) FROM {self.table} WHERE {guard}",
                f"SELECT count_if({guard}) FROM {self.table}",
                f"SELECT count(*) FILTER (WHERE {guard}) FROM {self.table}",
                f"SELECT {guard} AS g, count(DISTINCT uid) FROM {self.table} GROUP BY g",
                f"SELECT {self._call(1)} AS g, count(*) FROM {self.table} GROUP BY g",
                f"SELECT count(DISTINCT {self._call(1)}) FROM {self.table}",
                f"SELECT sum({self._call(1)}{self._bound('per_row', 1.0)}) FROM {self.table}",
            )
        )

    def _bounds(self) -> str:
        """Sums and averages with the extremes of bounds, over plain columns above all."""
        column = self._numeric(0)
        name = self.rng.choice(
            ("sum", "sum", "avg", "variance", "stddev", "median", "quantile_cont")
        )
        fraction = ", 0.5" if name == "quantile_cont" else ""
        bounds = self._bound("per_row", 0.85 if name == "sum" else 1.0)
        if name in ("sum", "avg"):
            bounds += self._bound("per_group", 0.5)
        text = f"{name}({column}{fraction}{bounds})"
        more = f", {self._aggregate()}" if self._chance(0.2) else ""
        key = self.rng.choice(("", "", "s", "e", "b"))
        key = key if any(r.name == key for r in self.scope) else ""
        self._note(f"bounds of {name}")
        if key:
            return f"SELECT {key}, {text}{more} FROM {self.table} GROUP BY 1"
        return f"SELECT {text}{more} FROM {self.table}"

    def _quantiles(self) -> str:
        bounds = self._bound("per_row", 0.9)
        word = self.rng.choice(("median({})", "quantile_cont({}, 0.5)", "quantile_disc({}, 0.9)"))
        asked = word.format(self._numeric(1)).removesuffix(")") + f"{bounds})"
        return self._select(
            self.table, self._keys(1), [asked, *([self._aggregate()] if self._chance(0.4) else [])]
        )

    def _union(self) -> str:
        keys = self._keys() or [self._column()]
        if self._chance(0.5):
            return f"SELECT DISTINCT {', '.join(keys)} FROM {self.table}{self._where()}"
        listed = ", ".join(map(str, range(1, len(keys) + 1)))
        return f"SELECT {', '.join(keys)} FROM {self.table}{self._where()} GROUP BY {listed}"

    def _per_unit(self) -> str:
        """Exact aggregates of each unit, asked about by a block."""
        rng = self.rng
        inner = [
            rng.choice(
                (
                    "count(*)", f"sum({self._numeric()})", f"avg({self._numeric()})",
                    f"min({self._value()})", f"max({self._value()})", f"count(DISTINCT {self._value()})",
                    f"sum({self._numeric()}) FILTER (WHERE {self._condition(1)})",
                    f"count_if({self._condition(1)})", f"any_value({self._value()})",
                    f"{rng.choice(self._aggregates)}({self._value()})", f"stddev({self._numeric()})",
                    f"{rng.choice(('arg_max', 'arg_min'))}({self._value()}, {self._value()})",
                    f"{rng.choice(('quantile_cont', 'quantile_disc'))}({self._numeric()}, 0.3)",
                    f"mode({self._value()})", f"median({self._numeric()})",
                    f"string_agg({self._value('ANY', 1)}, '-' ORDER BY {self._sorted()})",
                    f"string_agg(DISTINCT {self._value('ANY', 1)}, ',')",
                    f"len(list({self._value('ANY', 1)}))", f"len(list(DISTINCT {self._value()}))",
                    f"list({self._value('ANY', 1)} ORDER BY {self._sorted()})[1]",
                    f"array_to_string(list({self._value()} ORDER BY {self._sorted()}), '-')",
                    f"list_contains(list({self._value('VARCHAR', 1)}), 'a')",
                    f"{rng.choice(('first', 'last'))}({self._value('ANY', 1)} ORDER BY {self._sorted()})",
                )
            )
            for _ in range(2)
        ]  # fmt: skip
        self._note(f"per unit {inner[0].split('(')[0]}")
        key = f", {self._value('ANY', 1)} AS k" if self._chance(0.4) else ""
        group = "uid, k" if key else "uid"
        having = f" HAVING {rng.choice((inner[0], 'count(*)'))} > 1" if self._chance(0.2) else ""
        rows = (
            f"(SELECT uid, {inner[0]} AS a, {inner[1]} AS c{key} FROM {self.table}{self._where(0.3)}"
            f" GROUP BY {group}{having})"
        )
        outer = rng.choice(
            (
                "a, count(*)", "count(*)", f"sum(a, contribution_bounds_per_row => {self._pair()})",
                f"avg(c, contribution_bounds_per_row => {self._pair()})", "c, count(DISTINCT uid)",
                f"median(a, contribution_bounds_per_row => {self._pair()})", "count(DISTINCT a)",
            )
        )  # fmt: skip
        test = f" WHERE {rng.choice(('a > 3', 'a IS NULL', 'a * a > c', 'c = a', 'a + 1 > 0'))}"
        grouped = " GROUP BY 1" if outer.startswith(("a,", "c,")) else ""
        return f"SELECT {outer} FROM {rows}{test if self._chance(0.4) else ''}{grouped}"

    def _sorted(self) -> str:
        """A term of an order."""
        rng = self.rng
        direction, nulls = rng.choice(("", " DESC")), rng.choice(("", "", " NULLS FIRST"))
        return f"{self._value('ANY', 1)}{direction}{nulls}"

    def _frame(self) -> str:
        """A frame of a window, or none."""
        rng = self.rng
        kind = rng.choice(("ROWS", "ROWS", "RANGE", "RANGE", "GROUPS"))
        away = ("1", "2", "1.5", "0", "9223372036854775807", "1e308", "INTERVAL 7 DAY",
                "INTERVAL 1 MONTH", "INTERVAL '36 hours'", self._column("INTEGER"))  # fmt: skip
        ends = ["UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"]
        ends += [f"{rng.choice(away)} {side}" for side in ("PRECEDING", "FOLLOWING") * 2]
        self._note(f"frame {kind}")
        if self._chance(0.2):
            return f" {kind} {rng.choice(ends)}"
        one, other = rng.choice(ends), rng.choice(ends)
        without = " EXCLUDE CURRENT ROW" if self._chance(0.05) else ""
        return f" {kind} BETWEEN {one} AND {other}{without}"

    def _windows(self) -> str:
        """A window within a unit, or of too many of them, asked about by a block."""
        rng = self.rng
        value = self._value("ANY", 1)
        function = rng.choice(
            (
                "count(*)", f"count({value})", f"sum({self._numeric()})", f"avg({self._numeric()})",
                f"min({value})", f"max({value})", f"sum({self._numeric()})", "row_number()",
                "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)",
                f"lag({value}, 2)", f"lead({value}, 1, {self._value('ANY', 1)})",
                f"first_value({value})", f"last_value({value})", f"nth_value({value}, 2)",
                f"lag({value} IGNORE NULLS)", f"lead({value} IGNORE NULLS)",
                f"first_value({value} IGNORE NULLS)", f"last_value({value} IGNORE NULLS)",
            )
        )  # fmt: skip
        self._note(f"window {function.split('(')[0]}")
        among = rng.choice(("uid", "uid", "uid", "uid, i32", f"{self._column()}, uid", "i32"))
        order = ", ".join(self._sorted() for _ in range(rng.choice((1, 1, 2))))
        framed = function.startswith(("count", "sum", "avg", "min", "max", "last_value"))
        frame = self._frame() if framed and self._chance(0.8) else ""
        over = f"OVER (PARTITION BY {among} ORDER BY {order}{frame})"
        rows = f"(SELECT uid, {function} {over} AS a FROM {self.table}{self._where(0.3)})"
        asked = rng.choice(
            (
                "a, count(*)", "count(*)", "count(DISTINCT a)",
                f"sum(a, contribution_bounds_per_row => {self._pair()})", "a, count(DISTINCT uid)",
            )
        )  # fmt: skip
        grouped = " GROUP BY 1" if asked.startswith("a,") else ""
        return f"SELECT {asked} FROM {rows}{grouped}"

    def _quantified(self) -> str:
        """Comparisons with all or any values of a unit's rows, or of public ones."""
        rng = self.rng
        sign = rng.choice(("=", "<>", "<", "<=", ">", ">="))
        word = rng.choice(("ALL", "ANY", "SOME"))
        type_ = rng.choice(self.scope).type
        inner = rng.choice(
            (
                f"SELECT {self._value(type_, 1)} FROM {self.table} o WHERE o.uid = {self.table}.uid",
                f"SELECT {self._value(type_, 1)} FROM {self.table} o WHERE o.uid = {self.table}.uid "
                f"AND {self._condition(1)}",
                "SELECT k FROM pub", f"SELECT {self._value(type_, 1)} FROM {self.table}",
            )
        )  # fmt: skip
        test = f"{self._value(type_, 1)} {sign} {word} ({inner})"
        if self._chance(0.3):
            return f"SELECT {test} AS g, count(*) FROM {self.table} GROUP BY g"
        negated = "NOT " if self._chance(0.3) else ""
        return f"SELECT {self._aggregate()} FROM {self.table} WHERE {negated}{test}"

    def _joined(self) -> str:
        rng = self.rng
        if self._chance(0.3):
            return self._lineage()
        kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "RIGHT JOIN"))
        self._note(f"join {kind}")
        one = [f"a.{ref.name}" for ref in self.scope]
        if self.world != "crowd" and self._chance(0.5):
            # Of a unit with many rows each meets each: the other table has few of them.
            table, names = (self.table, [ref.name for ref in self.scope])
            if self.world == "plain":
                table, names = "visits", list(_VISITS)
            other = [f"b.{name}" for name in names]
            on = f"a.uid = b.uid AND ({rng.choice(one)} {rng.choice(_COMPARISONS)} {rng.choice(other)})"
            source = f"{self.table} a {kind} {table} b ON {on}"
        else:
            left, right = self._column("INTEGER"), rng.choice(("i32", "k", "s", "s"))
            on = f"a.{left} {rng.choice(('=', '<', '<>', 'IS NOT DISTINCT FROM'))} p.{right}"
            source = f"{self.table} a {kind} pub p ON {on}"
            if self._chance(0.4):
                source += (
                    f" AND {self._call(1)} IS NULL" if kind == "SEMI JOIN" else f" AND a.{left} > 0"
                )
        key = rng.choice(("", "", f"a.{self._column()}"))
        head = f"{key}, " if key else ""
        return f"SELECT {head}count(*) FROM {source}{' GROUP BY 1' if key else ''}"

    def _lineage(self) -> str:
        """Sources and conditions of the tests of several tables, which are joined with links."""
        rng = self.rng
        source = rng.choice(LINEAGE_ROWS if self._chance(0.7) else HIDDEN)
        test = f" WHERE {rng.choice(CONDITIONS)}" if self._chance(0.5) else ""
        self._note(f"rows {source[:60]}")
        asked = rng.choice(
            (
                "a.k, count(*)", "a.v, count(*)", "count(*)", "a.k, count(DISTINCT a.v)",
                f"sum(a.k, contribution_bounds_per_row => {self._pair()})",
                f"a.v, sum(CAST(a.v AS INT) * a.k, contribution_bounds_per_group => {self._pair()})",
            )
        )  # fmt: skip
        grouped = " GROUP BY 1" if asked.startswith(("a.k,", "a.v,")) else ""
        return f"SELECT {asked} FROM {source} a{test}{grouped}"

    def _semi_joined(self) -> str:
        rng = self.rng
        inner = rng.choice(("k", "i32", "s", "k + 1", "CAST(s AS INTEGER)", "week(INTERVAL 1 DAY)"))
        where = rng.choice(("", " WHERE k > 2", f" WHERE pub.i32 > {self._column('INTEGER')}"))
        subject = self._value("INTEGER" if inner != "s" else "VARCHAR", 1)
        test = rng.choice(
            (
                f"{subject} IN (SELECT {inner} FROM pub{where})",
                f"{subject} NOT IN (SELECT {inner} FROM pub{where})",
                f"EXISTS (SELECT 1 FROM pub WHERE pub.i32 = {subject})",
                f"NOT EXISTS (SELECT 1 FROM pub WHERE {subject} < pub.f64)",
                f"NOT EXISTS (FROM pub WHERE {self._call(1)} IS NULL)",
                f"(SELECT {inner} FROM pub{where} LIMIT 1) = {subject}",
                f"(SELECT {inner} FROM pub WHERE pub.k = {subject}) IS NOT NULL",
                f"(SELECT {inner} FROM (VALUES (1, {subject}), (2, {subject})) p(k, i32) WHERE p.k = {self._column('INTEGER')}) > 0",
            )
        )
        more = f" AND {self._condition(1)}" if self._chance(0.4) else ""
        return f"SELECT {self._aggregate()} FROM {self.table} WHERE {test}{more}"

    def _elements(self) -> str:
        """A row for each element of a list in a row, and what is asked of them."""
        rng = self.rng
        mark = rng.choice(
            ("','", "'s'", "''", "'1'", "' '", "'.'", f"'{'s' * 21}'", "NULL", self._column())
        )
        listed = rng.choice(
            (
                f"string_split({self._value('VARCHAR', 1)}, {mark})",
                f"split({self._value('VARCHAR', 0)}, {mark})",
                f"string_to_array({self._column('VARCHAR')}, {mark})",
                f"string_split(string_split({self._column('VARCHAR')}, {mark})[1], 'a')",
                f"regexp_split_to_array({self._column('VARCHAR')}, {mark})",
                f"[{self._value('ANY', 1)}, {self._value('ANY', 1)}]",
                f"list_distinct({self._column('INTEGER[]')})", self._column("INTEGER[]"),
                self._column("VARCHAR[]"), self._column("DOUBLE[]"), self._column("MAP"),
                f"range({self._column('INTEGER')})", f"generate_series(1, {self._column('INTEGER')})",
                self._call(1), self._value("ANY", 1),
            )
        )  # fmt: skip
        form = rng.choice(
            (
                "FROM {0} r, UNNEST({1}) e(w)", "FROM {0} r CROSS JOIN UNNEST({1}) AS e(w)",
                "FROM {0} r CROSS JOIN LATERAL UNNEST({1}) e(w)", "FROM {0} r, UNNEST({1}) AS w",
                "FROM {0} LATERAL VIEW EXPLODE({1}) e AS w", "FROM {0} r CROSS APPLY UNNEST({1}) e(w)",
                "FROM {0} r LEFT JOIN UNNEST({1}) e(w) ON TRUE", "FROM {0} r, UNNEST({1}) WITH ORDINALITY e(w, o)",
                "FROM (SELECT *, UNNEST({1}) AS w FROM {0})", "FROM (SELECT uid, EXPLODE({1}) AS w FROM {0})",
                "FROM (SELECT uid, UNNEST({1}) AS w FROM {0} WHERE {2}) r",
                "FROM (SELECT DISTINCT uid, UNNEST({1}) AS w FROM {0}) r", "FROM {0}, UNNEST({1}) e(w) JOIN pub ON pub.s = w",
            )
        )  # fmt: skip
        rows = form.format(self.table, listed, self._condition(1))
        self._note(f"elements {form[:45]}")
        self._note(f"elements of {listed.split('(')[0]}")
        asked = rng.choice(
            (
                "w, count(*)", "w, count(DISTINCT uid)", "count(*)", "count(DISTINCT w)", "w, sum(1)",
                f"sum(w, contribution_bounds_per_row => {self._pair()})", "upper(w) AS u, count(*)",
                f"w, {self._aggregate()}", f"count_if(w {rng.choice(_COMPARISONS)} {self._constant('VARCHAR')})",
            )
        )  # fmt: skip
        test = f" WHERE {rng.choice(('w <> ' + self._constant('VARCHAR'), 'w IS NULL', self._condition(1)))}"
        grouped = " GROUP BY 1" if asked.startswith(("w,", "upper")) else ""
        return (
            f"SELECT {asked} {rows}{test if self._chance(0.3) else ''}{grouped}{self._ending([])}"
        )

    def _set_operation(self) -> str:
        rng = self.rng
        word = rng.choice(
            ("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "UNION BY NAME")
        )
        type_ = rng.choice(self.scope).type
        unit = "" if word in ("EXCEPT", "INTERSECT") and self._chance(0.5) else "uid, "
        sides = [
            f"SELECT {unit}{self._value(type_, 1)} AS x FROM {self.table}{self._where(0.4)}"
            for _ in range(2)
        ]
        self._note(f"set operation {word}{'' if unit else ' of keys'}")
        rows = f"{sides[0]} {word} {sides[1]}"
        of_units = ("x, count(DISTINCT uid)",) if unit else ()
        asked = rng.choice(("count(*)", "x, count(*)", "count(DISTINCT x)", *of_units))
        grouped = " GROUP BY x" if asked.startswith("x") else ""
        if self._chance(0.5):
            return f"WITH r AS ({rows}) SELECT {asked} FROM r{grouped}"
        return f"SELECT {asked} FROM ({rows}) r{grouped}"

    def _grouping_sets(self) -> str:
        one, other = self._column(), self._value("ANY", 1)
        form = self.rng.choice(
            (
                "ROLLUP (1, 2)",
                "CUBE (1, 2)",
                "GROUPING SETS ((1), (2), ())",
                "GROUPING SETS ((1, 2))",
            )
        )
        form = form.replace("1", one).replace("2", other)
        self._note(f"grouping {form.split(' ')[0]}")
        extra = ", grouping_id()" if self._chance(0.1) else ""
        return (
            f"SELECT {one}, {other}, {self._aggregate()}{extra} FROM {self.table}{self._where(0.3)} "
            f"GROUP BY {form}"
        )

    def _pivoted(self) -> str:
        """PIVOT by values that are listed, or known by their form, and UNPIVOT."""
        column, other = self._column(), self._column()
        if self._chance(0.4):
            self._note("unpivot")
            asked = self.rng.choice(("count(*)", "count(v), sum(v)", "count(DISTINCT uid), min(v)"))
            nulls = self.rng.choice(("", "INCLUDE NULLS "))
            rows = f"{self.table} UNPIVOT {nulls}(v FOR m IN ({column}, {other} AS 'x'))"
            return f"SELECT m, {asked} FROM {rows}{self._where(0.3)} GROUP BY m"
        self._note("pivot")
        value = self._value("ANY", 1) if self._chance(0.3) else column
        constants = ", ".join(self._constant("ANY") for _ in range(2))
        on = self.rng.choice((f"{value} IN ({constants})", value, f"month({value})"))
        group = self.rng.choice(("", f" GROUP BY {other}", " GROUP BY uid"))
        rows = self.rng.choice((self.table, f"(SELECT {column}, {other} FROM {self.table})"))
        written = f"PIVOT {rows} ON {on} USING {self._aggregate()}{group}"
        return written if self._chance(0.7) else f"SELECT count(*) FROM ({written})"

    def _tail(self) -> str:
        """Anything at all over released rows."""
        inner = f"SELECT {self._column()} AS s, count(*) AS i32, sum(i32) AS f64 FROM {self.table} GROUP BY 1"
        scope, self.scope = (
            self.scope,
            [Ref("s", "VARCHAR"), Ref("i32", "BIGINT"), Ref("f64", "HUGEINT")],
        )
        made, self._made = self._made, []
        what = self.rng.choice(
            (
                self._value("ANY", 3), f"{self._value('ANY', 2)} AS q, DP_INTERVAL_LOW(i32)",
                f"{self.rng.choice(self._aggregates)}({self._value()})",
                f"i32, rank() OVER (ORDER BY {self._value()})",
            )
        )  # fmt: skip
        where = self._where(0.5)
        self.scope, self._made = scope, made
        self._note("tail")
        if self._chance(0.5):
            return f"SELECT {what} FROM ({inner}) r{where}"
        return f"WITH r AS ({inner}) SELECT {what} FROM r{where}"

    def _corpus(self) -> str:
        """A statement of other tests, cut up or left as it is."""
        rng = self.rng
        text = rng.choice(CORPUS)
        self._note("corpus")
        from helpers.random_statements import _GENTLE, _PIECE, FRAGMENTS

        pieces = _PIECE.findall(text)
        for _ in range(rng.choice((0, 1, 1, 2))):
            kind = rng.choice(("value", "value", "splice", "delete", "insert", "swap", "replace"))
            what: int | str = rng.randint(1, 3)
            if kind in ("value",):
                what = rng.choice((*_GENTLE, *EXTREMES, self._constant("ANY")))
            elif kind in ("insert", "replace"):
                what = rng.choice(FRAGMENTS)
            elif kind == "splice":
                what = rng.choice(CORPUS)
            elif kind == "swap":
                what = rng.randint(0, 10_000)
            pieces = _changed(pieces or [" "], kind, rng.randint(0, 10_000), what)
        return "".join(pieces)

    def _beside(self) -> str:
        """EXPLAIN, DESCRIBE, SHOW, SET and RESET."""
        rng = self.rng
        name = rng.choice(
            (
                "epsilon",
                "delta",
                "max_groups_contributed",
                "k_bar",
                "contribution_bounding",
                "nonsense",
            )
        )
        return rng.choice(
            (
                f"EXPLAIN {self._block()}", f"EXPLAIN {self._guarded()}", f"EXPLAIN {self._bounds()}",
                f"DESCRIBE {self.table}", "DESCRIBE typed", "DESCRIBE secret", "DESCRIBE nothing",
                "SHOW TABLES", "SHOW PARAMETERS", "SHOW BUDGET", f"DESC {rng.choice(('pub', 'v', 'w'))}",
                f"SET {name} = {rng.choice(EXTREMES)}", f"RESET {name}", f"EXPLAIN {self._tail()}",
            )
        )  # fmt: skip

    # -- options ------------------------------------------------------------------------------

    def _optioned(self, text: str) -> str:
        if not text.startswith("SELECT ") or not self._chance(0.12):
            return text
        rng = self.rng
        options = {
            "epsilon": ("0.5", "1e-6", "1000", "0", "-1", "'x'", "5e-324", "1e309", "NULL"),
            "delta": ("1e-9", "1e-18", "0.5", "0", "1", "1e-306"),
            "max_groups_contributed": (
                "1",
                "2",
                "10",
                "NULL",
                "2147483647",
                "0",
                "unlimited",
                "auto",
            ),
            "max_rows_contributed": ("1", "2", "10", "2147483647", "0", "2147483648"),
            "k_bar": ("1", "2", "1000", "2147483647"),
            "min_units_per_group": ("1", "2", "5", "2147483647"),
            "contribution_bounding": ("'sample'", "'weight'", "weight", "1"),
            "mechanism": ("'gumbel_top_k'", "'known_domain'", "'gaussian_top_k'", "'x'", "1"),
            "fresh": ("TRUE", "FALSE", "1", "NULL"),
        }
        names = rng.sample(list(options), rng.choice((1, 1, 2, 3)))
        for name in names:
            self._note(f"option {name}")
        clause = ", ".join(f"{name} = {rng.choice(options[name])}" for name in names)
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({clause}) {text.removeprefix('SELECT ')}"

    def _parameters(self) -> dict[str, object]:
        rng = self.rng
        chosen: dict[str, Any] = {}
        if self._chance(0.7):
            groups = (1, 1, 2, 3, 10, None, 2**31 - 1, "auto")
            chosen["max_groups_contributed"] = rng.choice(groups)
        if self._chance(0.5):
            chosen["max_rows_contributed"] = rng.choice((1, 1, 2, 3, 1000, 2**31 - 1))
        if self._chance(0.15):
            chosen["min_units_per_group"] = rng.choice((2, 3))
        if self._chance(0.25):
            chosen["contribution_bounding"] = "weight"
        return chosen


__all__ = ["DIALECT", "Experience", "Grammar", "Statement"]
