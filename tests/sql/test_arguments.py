"""No rule passes over an argument of a node: what it does not read is refused, in every layer.

Every class of nodes that the parser has is tried with every argument that it may have, and with
one that nobody has heard of. And what a rule says that it reads, it does read: with another value
there, something else is written.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pytest
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.schema import Table, schema_of
from dpsql.core.sql import Sql, literal, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base import row_expressions
from dpsql.engines.base.row_engine import RowEngine
from dpsql.engines.base.row_expressions import RULES, RowExpressions
from dpsql.engines.base.twin import Twin
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.postgresql.expressions import POSTGRESQL_ROWS
from dpsql.engines.spark.expressions import SPARK_ROWS
from dpsql.errors import Error, QueryRefused, SQLSyntaxError
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.policy.resolve import resolve
from dpsql.sql.blocks.validate import validate
from dpsql.sql.expressions import totality
from dpsql.sql.expressions.alike import write_alike
from dpsql.sql.expressions.call import _READ, read_call
from dpsql.sql.expressions.legality import check_row_expression
from dpsql.sql.expressions.ranges import is_exact, is_integral, is_number, is_truth, range_of
from dpsql.sql.expressions.totality import total
from dpsql.survey.forms import calls_of
from dpsql.syntax import dialect
from dpsql.syntax.arguments import NodeArguments, Rules, grouped_rules, is_given
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.parse import MISREAD, parse
from dpsql.syntax.row_functions import ROW_FUNCTIONS
from dpsql.syntax.row_nodes import ROW_ARGUMENTS

TYPES: Final = {
    "i": "INTEGER",
    "d": "DOUBLE",
    "s": "VARCHAR",
    "b": "BOOLEAN",
    "t": "TIMESTAMP",
    "l": "VARCHAR[]",
}
TABLE: Final = Table(
    "r", tuple(column_of(f"{n}{k}", t) for n, t in TYPES.items() for k in (1, 2, 3))
)
POLICY: Final = TablePolicy(
    "r",
    PrivacyUnit("one", "i1"),
    columns=MappingProxyType({f"{n}{k}": ColumnPolicy(0, 9) for n in "id" for k in (1, 2, 3)}),
)
KINDS: Final = [
    kind
    for kind in vars(exp).values()
    if inspect.isclass(kind) and issubclass(kind, exp.Expr) and not inspect.isabstract(kind)
]
_TAKEN: Final = {"NUMBERS": "d", "DOUBLE": "d", "VARCHAR": "s", "TIMESTAMP": "t", "BIGINT": "i"}
SAMPLES: Final = (
    *("b1 AND b2", "b1 OR b2", "NOT b1", "(i1)", "-i1", "i1 + i2", "i1 - i2", "i1 * i2"),
    *("i1 / i2", "i1 // i2", "i1 % i2", "i1 = i2", "i1 <> i2", "i1 > i2", "i1 >= i2", "i1 < i2"),
    *("i1 <= i2", "b1 IS TRUE", "i1 IS NOT DISTINCT FROM i2", "i1 IS DISTINCT FROM i2"),
    *("i1 BETWEEN i2 AND i3", "i1 IN (1, 2)", "s1 LIKE 'x'", "s1 ILIKE 'x'", "s1 || s2"),
    *("CASE WHEN b1 THEN i1 ELSE i2 END", "if(b1, i1, i2)", "CAST(d1 AS INTEGER)"),
    *("TRY_CAST(d1 AS INTEGER)", "abs(i1)", "sign(i1)", "ceil(d1)"),
    *("floor(d1)", "round(d1)", "round(d1, 1)", "trunc(d1)"),
    *("extract(year FROM t1)", "left(s1, 1)", "right(s1, 1)", "log(d1)", "log2(d1)"),
    *("nullif(i1, i2)", "coalesce(i1, i2)"),
    *("greatest(i1, i2)", "least(i1, i2)", "concat(s1, s2)", "substr(s1, 2, 3)", "trim(s1)"),
    *("ltrim(s1)", "date_trunc('day', t1)", "date_diff('day', t1, t2)", "TRUE", "NULL", "i1", "7"),
    "t1 + INTERVAL 1 DAY",
    *("replace(s1, 'a', 'b')", "split_part(s1, 'a', 1)", "strftime(t1, '%Y')"),
    *("regexp_matches(s1, 'a')", "regexp_extract(s1, 'a', 0)", "regexp_replace(s1, 'a', 'b', 'g')"),
    *("time_bucket(INTERVAL 1 DAY, t1)", "s1->>'a'", "list_contains(s1, 'a')"),
    "list_position(l1, 'a')",
    *("struct_extract(s1, 'a')", "l1[1]", "levenshtein(s1, 'Lyon')"),
    *(
        re.sub(r"\bb\b", f"{kind}2", re.sub(r"\ba\b", f"{kind}1", call))
        for each in ROW_FUNCTIONS.values()
        for kind in [_TAKEN[each.takes[-1]]]
        for call in calls_of(each)
        if "'" not in call
    ),
)
"""An expression for each class of nodes that may stand in one."""
ODD: Final = "unheard_of"


def parsed(text: str) -> exp.Expr:
    """The expression as an analyst's."""
    found = parse(f"SELECT {text} AS x FROM r").expressions[0].this
    assert isinstance(found, exp.Expr)
    return write_alike(found, lambda column: SqlType.of(TYPES[column.name[0]]))


def samples() -> dict[type[exp.Expr], list[exp.Expr]]:
    """Expressions whose outermost node is of a class, and others with one inside."""
    found: dict[type[exp.Expr], list[exp.Expr]] = {}
    for text in SAMPLES:
        tree = parsed(text)
        for kind in {type(part) for part in tree.walk()}:
            found.setdefault(kind, []).append(tree)
    return found


@dataclass(frozen=True)
class Layer:
    """What reads an expression: it says something of it, or refuses it."""

    name: str
    say: Callable[[exp.Expr], object]
    rules: Rules[Any] | Mapping[type[exp.Expr], NodeArguments]
    writes: bool = True

    def outcome(self, tree: exp.Expr) -> object:
        """What is said of it; None for one that is refused, or of which nothing is known."""
        try:
            return self.say(tree.copy())
        except Error:
            return None

    def arguments(self, kind: type[exp.Expr]) -> NodeArguments | None:
        """The arguments that are read of a class of nodes; None if it is refused."""
        if isinstance(self.rules, Rules):
            return self.rules.arguments(kind) if kind in self.rules else None
        return self.rules.get(kind)


def _checked(tree: exp.Expr) -> object:
    check_row_expression(tree, "")
    return tree.sql("duckdb")


def _known(tree: exp.Expr) -> object:
    """What is known of numbers, whatever else a node is."""
    facts = [each(tree, TABLE) for each in (is_integral, is_exact, is_number, is_truth)]
    bounds = range_of(tree, POLICY, TABLE)
    return (bounds, *facts) if bounds or any(facts) else None


def _written(tree: exp.Expr, engine: RowEngine) -> Sql:
    return RowExpressions(TABLE, engine, None).settled(tree).sql


LAYERS: Final = (
    Layer("the door", _checked, ROW_ARGUMENTS, writes=False),
    Layer("totality", lambda t: total(t, TABLE, DUCKDB).sql("duckdb"), ROW_ARGUMENTS, writes=False),
    Layer("numbers", _known, ROW_ARGUMENTS, writes=False),
    Layer("duckdb", lambda t: DUCKDB.expression(t, TABLE), ROW_ARGUMENTS),
    Layer("postgresql", lambda t: _written(t, POSTGRESQL_ROWS), RULES),
    Layer("spark", lambda t: _written(t, SPARK_ROWS), RULES),
)
IDS: Final = [layer.name for layer in LAYERS]


def given(tree: exp.Expr, kind: type[exp.Expr], name: str, value: object) -> exp.Expr:
    """The expression with an argument of its first node of a class changed."""
    copy = tree.copy()
    node = next(part for part in copy.walk() if type(part) is kind)
    node.args[name] = value  # past any check of the parser's
    if isinstance(value, exp.Expr):
        value.parent, value.arg_key = node, name
    return copy


_OWN: Final[Mapping[tuple[type[exp.Expr], str], list[object]]] = {
    (exp.Boolean, "this"): [True, False],
    (exp.Literal, "this"): ["2", "3"],
    (exp.Var, "this"): ["MONTH", "YEAR"],
    (exp.DataType, "expressions"): [[exp.DataTypeParam(this=exp.Literal.number(5))]],
    (exp.Like, "negate"): [True, False],
    (exp.ILike, "negate"): [True, False],
    (exp.Trim, "position"): ["LEADING", "TRAILING"],
}


def values(kind: type[exp.Expr], name: str) -> list[object]:
    """Values that an argument may have, of those that a parser may put there."""
    return _OWN.get((kind, name)) or [
        True,
        exp.var("MONTH"),
        exp.column("i3"),
        exp.Literal.number(2),
        exp.Literal.string("y"),
        exp.DataType.build("VARCHAR", dialect="duckdb"),
        [exp.column("s3")],
        "TRAILING",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=IDS)
def test_a_node_with_an_argument_that_is_not_read_is_refused(layer: Layer) -> None:
    tried = 0
    for kind, trees in samples().items():
        known = layer.arguments(kind)
        if kind in (exp.DataTypeParam, exp.DataType, exp.Identifier, exp.Var, exp.Interval):
            known = ROW_ARGUMENTS[kind]  # read with the node above
            if layer.name == "numbers":
                continue
        for name in (*kind.arg_types, ODD):
            if known is not None and name in known._known:
                continue
            for tree, value in ((t, v) for t in trees for v in values(kind, name)):
                if layer.name == "numbers" and type(tree) is not kind:
                    continue
                changed = given(tree, kind, name, value)
                assert layer.outcome(changed) is None, (layer.name, kind.__name__, name, value)
                tried += 1
    assert tried > 200


@pytest.mark.parametrize("layer", LAYERS, ids=IDS)
def test_a_class_of_nodes_without_a_rule_is_refused(layer: Layer) -> None:
    found = samples()
    for kind in KINDS:
        if kind in found or kind is exp.Anonymous:
            continue
        try:
            node = kind().copy()
        except NotImplementedError:
            continue  # what others are made of
        for name in kind.arg_types:
            many = name in ("expressions", "ifs")
            node.args[name] = [exp.column("i1")] if many else exp.column("i1")
        assert layer.outcome(node) is None, kind.__name__


@pytest.mark.parametrize("layer", LAYERS, ids=IDS)
def test_a_flag_that_must_be_set_is_looked_at(layer: Layer) -> None:
    for kind, trees in samples().items():
        known = layer.arguments(kind)
        for flag, tree in ((f, t) for f in (known.required if known else ()) for t in trees):
            if type(tree) is kind:
                assert layer.outcome(tree) is not None or layer.name == "numbers"
                assert layer.outcome(given(tree, kind, flag, False)) is None, (kind, flag)


def _fits(kind: type[exp.Expr], name: str, value: object) -> bool:
    """Whether a parser may put the value there: True is a flag's alone."""
    return (kind, name) in _OWN or isinstance(value, exp.Expr | list)


def passed_over(layer: Layer) -> Iterator[tuple[str, str]]:
    """The arguments that a rule says it reads, and that change nothing in what it writes."""
    for kind, trees in samples().items():
        known = layer.arguments(kind)
        for name in known.read if known is not None else ():
            for tree in trees:
                before = layer.outcome(tree)
                if before is None or (kind, name) in _NAMES:
                    continue
                node = next(part for part in tree.walk() if type(part) is kind)
                for value in [*(v for v in values(kind, name) if _fits(kind, name, v)), None]:
                    if value == node.args.get(name) or not (
                        is_given(value) or is_given(node.args.get(name))
                    ):
                        continue
                    try:
                        after = layer.outcome(given(tree, kind, name, value))
                    except (AttributeError, LookupError, TypeError, ValueError, SqlglotError):
                        continue  # no parser puts such a value there
                    if after == before:
                        yield kind.__name__, name


_NAMES: Final = {(exp.Column, name) for name in ("table", "db", "catalog")} | {
    (exp.Identifier, "quoted"),
    (exp.TimestampTrunc, "unit"),
    (exp.DateDiff, "unit"),  # days are meant where none is written
    (exp.RegexpExtract, "group"),  # the whole match is meant where none is written
    (exp.Literal, "is_string"),  # a constant in quotes is read as what it stands beside
}


@pytest.mark.slow
@pytest.mark.parametrize("layer", [each for each in LAYERS if each.writes], ids=lambda e: e.name)
def test_a_rule_reads_what_it_says_that_it_reads(layer: Layer) -> None:
    assert sorted(set(passed_over(layer))) == []


@pytest.mark.slow
def test_a_rule_that_forgets_an_argument_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``NOT LIKE`` was once answered as ``LIKE``."""

    def forgetful(at: RowExpressions, node: exp.Expr) -> Any:
        plain = node.copy()
        plain.set("negate", None)
        return RowExpressions.like(at, plain)

    rules = grouped_rules({"this expression negate": {exp.Like: forgetful}})
    monkeypatch.setattr(row_expressions, "RULES", _Both(rules, RULES))
    layer = Layer("forgetful", LAYERS[-2].say, row_expressions.RULES)
    assert set(passed_over(layer)) == {("Like", "negate")}


class _Both(Rules[Any]):
    """Rules that come before others."""

    def __init__(self, first: Rules[Any], then: Rules[Any]) -> None:
        super().__init__({**then._rules, **first._rules})


def test_every_node_of_an_expression_has_a_sample() -> None:
    missing = set(ROW_ARGUMENTS) - set(samples())
    assert missing == {exp.DateTrunc, exp.DataTypeParam}
    assert len(KINDS) > 800
    assert set(totality._LAZY) <= set(ROW_ARGUMENTS)


@pytest.mark.parametrize(
    "text",
    [
        *("i1 + 1 BETWEEN SYMMETRIC 5 AND 1", "i1 BETWEEN SYMMETRIC i2 AND i3", "length(s1, 'x')"),
        *("week(t1, 'x')", "CAST(i1 AS INTEGER FORMAT 'x')"),
    ],
)
def test_words_that_no_rule_reads_are_refused(text: str) -> None:
    with pytest.raises(QueryRefused, match="this form is not available"):
        check_row_expression(parsed(text), text)


@pytest.mark.parametrize(
    "text",
    [
        *("approx_quantile(d1, 0.5, 0.1)", "count(* ILIKE 'i%')", "count(* EXCLUDE (i1))"),
    ],
)
def test_words_of_an_aggregate_that_nothing_reads_are_refused(text: str) -> None:
    with pytest.raises(QueryRefused, match="in this form"):
        read_call(parsed(text), text)


def test_of_an_aggregate_every_argument_is_read() -> None:
    for kind, known in _READ.items():
        for name in (*kind.arg_types, ODD):
            if name not in known._known and issubclass(kind, exp.AggFunc):
                node = kind(this=exp.column("i1"))
                node.args[name] = exp.Literal.number(1)
                with pytest.raises(QueryRefused, match="in this form"):
                    read_call(node, "")


def test_a_text_is_unlike_on_postgresql_where_it_is_not_like() -> None:
    values = [_written(parsed(f"s1 {w} 'x'"), POSTGRESQL_ROWS) for w in _LIKES]
    written = [value.render(POSTGRESQL.renderer) for value in values]
    assert written[0].replace("NOT LIKE", "LIKE") == written[1] != written[0]


_LIKES: Final = ("NOT LIKE", "LIKE")


@pytest.mark.parametrize("call", ["greatest", "least", "concat"])
@pytest.mark.parametrize("part", ["i1 + i2", "CAST(s1 AS INTEGER)", "-i1", "abs(i1)", "i1 * i2"])
def test_what_passes_over_null_takes_no_part_that_may_fail(call: str, part: str) -> None:
    """TRY makes NULL of the whole, and a server would take NULL for that part alone."""
    text = f"{call}({part}, i3)"
    for layer in LAYERS[-2:]:
        assert layer.outcome(parsed(text)) is None, layer.name
        assert layer.outcome(total(parsed(text), TABLE, DUCKDB)) is None or layer.name == "spark"
    safe = f"{call}(coalesce({part}, 0), i3)"
    assert LAYERS[-2].outcome(parsed(safe)) is not None


def test_a_declared_value_of_32_bits_is_that_value_on_postgresql() -> None:
    assert POSTGRESQL.declared(0.1, SqlType.of("FLOAT")) == sql("CAST({} AS REAL)", literal("0.1"))
    assert POSTGRESQL.declared("1e39", SqlType.of("FLOAT")) == sql(
        "CAST({} AS REAL)", literal("inf")
    )
    with pytest.raises(QueryRefused):
        POSTGRESQL.declared("x", SqlType.of("BLOB"))


PUBLIC: Final = Table("p", (column_of("s", "VARCHAR"), column_of("z", "INTEGER")))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM r WHERE s1 IN ((SELECT s FROM p) LIMIT 1)",
        "SELECT COUNT(*) FROM r WHERE s1 NOT IN ((SELECT s FROM p) ORDER BY 1 LIMIT 0)",
        "SELECT COUNT(*) FROM r WHERE s1 IN ((SELECT s FROM p) OFFSET 1)",
        "SELECT COUNT(*) FROM r WHERE EXISTS ((SELECT 1 FROM p WHERE s = s1) LIMIT 0)",
        "SELECT s1, i2, COUNT(*) FROM r GROUP BY ROLLUP (s1, i2) WITH TOTALS",
        "SELECT s1, COUNT(*) FROM r GROUP BY s1 WITH TOTALS",
        "SELECT s1, COUNT(*) FROM r GROUP BY ALL WITH TOTALS",
        "WITH RECURSIVE c(i1, s1) USING KEY (i1) AS (SELECT i1, s1 FROM r) SELECT COUNT(*) FROM c",
        "SELECT SUM(m) FROM (SELECT i1, max(i2, 3) AS m FROM r GROUP BY i1) AS q",
        "SELECT COUNT(*) FROM (SELECT i1, s1 FROM r EXCEPT BY NAME SELECT i1, s1 FROM r) AS q",
        "SELECT COUNT(*) FROM r TABLESAMPLE RESERVOIR (10 ROWS)",
    ],
)
def test_words_of_a_statement_that_nothing_reads_are_refused(sql: str) -> None:
    policy = Policy(
        "arguments",
        accounts={"a": AccountPolicy("a", 1.0, 1e-6)},
        tables={"r": POLICY, "p": TablePolicy("p", None)},
    )
    schema = schema_of(TABLE, PUBLIC)
    with contextlib.closing(Twin(schema, evidence_for(duckdb.__version__))) as twin:
        parameters = resolve(policy, base=Parameters(max_groups_contributed=1))
        with pytest.raises(QueryRefused):
            validate(
                *(parse(sql), sql, policy, schema, parameters, twin.bind, DUCKDB),
                with_groups_decided,
            )


# -- what the parser itself leaves out -----------------------------------------------------------


def left_out() -> list[str]:
    """List the calls that are parsed without one of their arguments."""
    found = []
    makers = PrivateDuckDB.Parser.FUNCTIONS
    ends = {"RANGE", "GENERATE_SERIES"}  # whose fourth argument is the parser's own
    names = sorted(makers.keys() - PrivateDuckDB.Parser.FUNCTION_PARSERS.keys() - ends)
    for name in names:
        if getattr(makers[name], "__qualname__", "") == "Func.from_arg_list":  # which counts them
            continue
        for count in range(1, 6):
            given = [f"argument{i}" for i in range(count)]
            call = f"{name}({', '.join(given)})"
            with contextlib.suppress(Error, *MISREAD):
                read = {
                    node.name for node in parse(f"SELECT {call} FROM r").find_all(exp.Identifier)
                }
                found += [] if read.issuperset(given) else [call]
    return found


@pytest.mark.slow
def test_no_argument_is_left_out_while_parsing() -> None:
    """But how exact an approximate quantile is to be, which quantiles here do not take."""
    names = ("APPROX_PERCENTILE", "PERCENTILE_APPROX", "RESERVOIR_QUANTILE")
    assert left_out() == [f"{name}(argument0, argument1, argument2)" for name in names]


@pytest.mark.parametrize(
    "call",
    ["dateadd('month', -1, ts)", "dateadd(day, 40, ts)", "DATE_ADD(ts, INTERVAL 2 DAY)"],
)
def test_a_word_of_other_systems_is_read_whole(call: str) -> None:
    assert parse(f"SELECT {call} FROM r").find(exp.Interval) is not None


@pytest.mark.slow
def test_arguments_that_builders_leave_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "_is_left_out", lambda place, given, call: False)
    assert {"MOD(argument0, argument1, argument2)", "HEX(argument0, argument1)"} <= {*left_out()}


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT date_trunc('day', t1, 'Europe/Berlin') AS d, COUNT(*) FROM r GROUP BY d",
        "SELECT COUNT(*) FROM r WHERE MOD(i1, 3, day) = 1",
        "SELECT strftime(t1, '%Y', year) AS y, COUNT(*) FROM r GROUP BY y",
        "SELECT date_trunc('day', t, 'x') FROM (SELECT MAX(i1) AS t FROM r)",
        "SELECT s1, COUNT(*) AS n FROM r GROUP BY s1 ORDER BY n FETCH FIRST 1 ROW WITH TIES",
        "SELECT s1, COUNT(*) AS n FROM r GROUP BY s1 ORDER BY n FETCH FIRST 50 PERCENT ROWS ONLY",
        "SELECT s1, COUNT(*) AS n FROM r GROUP BY s1 LIMIT 1 BY n",
        "SELECT s1, COUNT(*) AS n FROM r GROUP BY DISTINCT GROUPING SETS ((s1), (s1))",
    ],
)
def test_parts_that_nothing_reads_are_refused(asked: str) -> None:
    with pytest.raises(SQLSyntaxError):
        parse(asked)


def test_what_is_read_is_not_refused() -> None:
    for asked in (
        "SELECT strftime(t1, '%Y'), date_trunc('day', t1), json_keys(s1, '$.a') FROM r",
        "SELECT s1 FROM r GROUP BY ALL ORDER BY s1 LIMIT 50%",
        "SELECT s1 FROM r GROUP BY s1 ORDER BY s1 FETCH FIRST 2 ROWS ONLY",
    ):
        parse(asked)
