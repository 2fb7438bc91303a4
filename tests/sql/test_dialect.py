# ruff: noqa: E501
"""Each promise of a dialect is kept by DuckDB's, and a twin that breaks one is noticed.

A promise is a test of one method by its meaning, on an engine, so it is ready for other dialects.
"""

from __future__ import annotations

import ast
import datetime
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL, SPARK
from helpers.sql_text import Spelled, of_text, text
from sqlglot import exp
from sqlglot.errors import UnsupportedError

import dpsql
from dpsql.core.quoting import quote, quote_text
from dpsql.core.schema import Table
from dpsql.core.sql import Sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.dialects import SERVERS, dialect_of
from dpsql.engines.duckdb.dialect import DUCKDB, DuckDBDialect
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.evidence.verdicts import EngineVersion, Verdicts
from dpsql.errors import QueryRefused

Check = Callable[[Spelled], None]
PROMISES: dict[str, list[Check]] = {}
SALTS = range(20)


def promise(*methods: str) -> Callable[[Check], Check]:
    """Declares what the promise is about."""

    def note(check: Check) -> Check:
        for method in methods:
            PROMISES.setdefault(method, []).append(check)
        return check

    return note


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    global ENGINE
    with duckdb.connect(":memory:", config={"threads": "2"}) as ENGINE:
        yield


ENGINE: duckdb.DuckDBPyConnection


def rows(sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    return ENGINE.execute(sql, list(parameters)).fetchall()


def values(sql: str, source: str = "") -> list[Any]:
    """The values of an expression over the rows of a source, in their order."""
    return [value for (value,) in rows(f"SELECT {sql} {f'FROM {source}' if source else ''}")]


def of(*constants: str) -> str:
    """A source with one column ``x`` and a place by which its rows are in order."""
    listed = ", ".join(f"({constant}, {place})" for place, constant in enumerate(constants))
    return f"(VALUES {listed}) v(x, place) ORDER BY place"


def tree(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, read="duckdb")


# -- names and constants ---------------------------------------------------------------------------

PLACE = (column_of("place", "INTEGER"),)
ODD = ("a", "A b", 'a"b', "a'b", "a\\", "a\\'", "--", "x; DROP TABLE t", "é", "`", "]")


@promise("renderer")
def names_are_names(dialect: Spelled) -> None:
    for name in ODD:
        found = ENGINE.execute(f"SELECT 1 AS {dialect.quote(name)}")
        assert [column[0] for column in found.description or ()] == [name]


@promise("table")
def tables_of_every_schema_are_told_apart(dialect: Spelled) -> None:
    """Tables whose names, joined by a dot, are the same text, and others in order of suspicion."""
    odd = [
        ("a", "b"),
        ("main", "a.b"),
        ("main", "b"),
        ("a.b", "c"),
        ("a", "b.c"),
        ("main", "a.b.c"),
    ]
    odd += [('a"', "b"), ("a", '"b'), ("main", 'a"."b'), ("a b", "é"), ("main", "--")]
    ENGINE.execute("BEGIN")
    for place, (schema, name) in enumerate(odd):
        quoted = [part.replace('"', '""') for part in (schema, name)]
        ENGINE.execute(f'CREATE SCHEMA IF NOT EXISTS "{quoted[0]}"')
        ENGINE.execute(f'CREATE TABLE "{quoted[0]}"."{quoted[1]}" AS SELECT {place} AS place')
    try:
        for place, (schema, name) in enumerate(odd):
            assert values("place", dialect.table(Table(TableName(name, schema), PLACE))) == [place]
    finally:
        ENGINE.execute("ROLLBACK")


@promise("renderer")
def texts_are_texts(dialect: Spelled) -> None:
    assert [values(dialect.literal(text)) for text in (*ODD, "")] == [[t] for t in (*ODD, "")]


@promise("double")
def doubles_are_exact(dialect: Spelled) -> None:
    for value in (0.1, 1.0, -2.5, 1e300, 5e-324, 2.0**53, 123456789.123456789):
        text = dialect.double(value)
        assert rows(f"SELECT {text}, typeof({text})") == [(value, "DOUBLE")]


@promise("integer")
def integers_are_exact(dialect: Spelled) -> None:
    for value in (0, 7, 2**31, 2**53 + 1, 2**63 - 1, -5, -(2**63) + 1):
        assert values(dialect.integer(value)) == [value]
        assert values(f"x + ({dialect.integer(value)})", of("0::BIGINT")) == [value]
    assert values(f"x * {dialect.integer(2**20)}", of("2147483647::BIGINT")) == [
        (2**31 - 1) * 2**20
    ]


@promise("wide_literal", "integer_type", "widest")
def the_wide_type_holds_its_ends(dialect: Spelled) -> None:
    wide = dialect.integer_type(wide=True)
    for value in (*dialect.widest, 2**63, -(2**63) - 1):
        text = dialect.wide_literal(value)
        assert rows(f"SELECT {text}, typeof({text})") == [(value, wide)]
    low, high = dialect.widest
    assert values(f"CAST({-(2**63)} AS {wide}) * CAST({2**63} AS {wide})") == [-(2**126)]
    assert low <= -(2**120)
    assert high >= 2**120
    assert values(f"CAST('{2**63 - 1}' AS {dialect.integer_type(wide=False)})") == [2**63 - 1]


# -- errors on rows --------------------------------------------------------------------------------

TEXT = Table("v", (column_of("x", "VARCHAR"),))
NUMBER = Table("v", (column_of("x", "BIGINT"),))
ORDER = Table("v", (column_of("order", "VARCHAR"), column_of("x", "INTEGER")))
TEXTS = of("'7'", "'x'", "NULL", "'99999999999999999999'", "''", "'1e400'", "'true'")


@promise("try_", "expression")
def what_fails_is_null(dialect: Spelled) -> None:
    text = dialect.expression(dialect.try_(tree("CAST(x AS INT) + 1"), TEXT), TEXT)
    assert values(text, TEXTS) == [8, *[None] * 6]
    text = dialect.expression(dialect.try_(tree("x * x * x"), NUMBER), NUMBER)
    numbers = of("2", str(2**62), "NULL")
    assert values(text, numbers) == [8, None, None]


@promise("try_truth")
def what_is_no_truth_value_is_null(dialect: Spelled) -> None:
    text = dialect.expression(dialect.try_truth(tree("x")), TEXT)
    assert values(text, TEXTS) == [None, None, None, None, None, None, True]


@promise("try_cast")
def what_does_not_fit_is_null(dialect: Spelled) -> None:
    assert values(dialect.try_cast("x", "BIGINT", "VARCHAR"), TEXTS)[:5] == [
        7,
        None,
        None,
        None,
        None,
    ]
    extremes = of("'NaN'::DOUBLE", "'inf'::DOUBLE", "1e300", "2.6", "-2.6", "9223372036854775808")
    assert values(dialect.try_cast("x", "BIGINT", "DOUBLE"), extremes) == [
        None,
        None,
        None,
        3,
        -3,
        None,
    ]


@promise("type_of")
def types_are_named_or_left_open(dialect: Spelled) -> None:
    assert dialect.type_of(tree("x"), TEXT) in ("", "VARCHAR")
    assert dialect.type_of(tree("x"), NUMBER) in ("", "BIGINT")


@promise("declared")
def declared_values_are_of_the_columns_type(dialect: Spelled) -> None:
    given = [("it's", "VARCHAR"), (7, "INTEGER"), ("x", "INTEGER"), (300, "TINYINT")]
    given += [(True, "BOOLEAN"), ("2024-02-29", "DATE"), ("2024-02-30", "DATE")]
    found = [values(dialect.declared(value, type_))[0] for value, type_ in given]
    assert found == ["it's", 7, None, None, True, datetime.date(2024, 2, 29), None]


@promise("expression")
def names_in_expressions_are_quoted(dialect: Spelled) -> None:
    text = dialect.expression(tree("\"order\" = 'it''s' AND x > 2"), ORDER)
    source = "(VALUES ('it''s', 3)) v(\"order\", x)"
    assert values(text, source) == [True]


@promise("expression")
def what_has_no_equal_is_refused(dialect: Spelled) -> None:
    """In place of a generator that knows all of DuckDB, one that lacks a construct."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlglot.generator.Generator.trycast_sql", _lacking, raising=True)
        patch.setattr("sqlglot.generators.duckdb.DuckDBGenerator.trycast_sql", _lacking)
        with pytest.raises(QueryRefused) as refused:
            dialect.expression(tree("TRY_CAST(x AS INT)"), TEXT)
    assert refused.value.__context__ is None


def _lacking(self: Any, node: exp.Expr) -> str:
    self.unsupported("there is no such cast")
    return "0"


@promise("comparison_family")
def comparisons_within_a_family_never_fail(dialect: Spelled) -> None:
    ends = {
        "VARCHAR": ("'x'", "''", "'1'", "'é'"),
        "TINYINT": ("-128", "127"),
        "BIGINT": (str(-(2**63)), str(2**63 - 1)),
        "UBIGINT": ("0", str(2**64 - 1)),
        "DOUBLE": ("'NaN'", "'inf'", "1e308", "-1e308"),
        "FLOAT": ("'NaN'", "'-inf'", "1e38"),
        "DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38),
        "DECIMAL(38,38)": ("0.1",),
        "HUGEINT": (f"'{2**127 - 1}'", f"'{-(2**127)}'"),
        "UHUGEINT": (f"'{2**128 - 1}'",),
        "BOOLEAN": ("true",),
        "DATE": ("'0001-01-01 (BC)'", "'infinity'", "'5881580-07-10'"),
        "TIMESTAMP": ("'294247-01-10 04:00:54'", "'-infinity'"),
        "TIME": ("'23:59:59'",),
        "UUID": ("'00000000-0000-0000-0000-000000000000'",),
        "INTERVAL": ("'3 days'",),
    }
    families: dict[str, list[str]] = {}
    for type_, constants in ends.items():
        family = dialect.comparison_family(type_)
        if family is not None:
            families.setdefault(family, []).extend(f"CAST({c} AS {type_})" for c in constants)
    assert len(families["number"]) > 4
    for members in families.values():
        for one in members:
            for other in members:
                values("x < y AND x = y", f"(SELECT {one} x, {other} y)")


# -- integers --------------------------------------------------------------------------------------


@promise("cast")
def what_fits_is_cast(dialect: Spelled) -> None:
    wide = dialect.cast(str(2**62), dialect.integer_type(wide=True))
    assert rows(f"SELECT {wide}, typeof({wide})") == [(2**62, dialect.integer_type(wide=True))]
    narrow = dialect.cast(wide, dialect.integer_type(wide=False))
    assert values(f"typeof({narrow})") == [dialect.integer_type(wide=False)]


@promise("divided")
def quotients_are_rounded_towards_zero(dialect: Spelled) -> None:
    for a, b in ((7, 2), (-7, 2), (0, 3), (2**63 - 1, 3), (-(2**62) - 1, 2), (2**100 + 1, 5)):
        size = f"CAST('{a}' AS {dialect.integer_type(wide=True)})"
        expected = abs(a) // b if a >= 0 else -(abs(a) // b)
        assert values(dialect.divided(size, str(b), wide=True)) == [expected]


@promise("remainder")
def remainders_have_the_sign_of_the_dividend(dialect: Spelled) -> None:
    for a, b in ((7, 3), (-7, 3), (0, 3), (2**62 + 1, 10), (-(2**62) - 1, 10)):
        expected = a % b if a >= 0 else -(-a % b)
        assert values(dialect.remainder(f"({a})", str(b))) == [expected]


@promise("sum")
def sums_are_exact_and_wide(dialect: Spelled) -> None:
    found = rows(
        f"SELECT {dialect.sum('x', wide=False)} FROM (SELECT {2**63 - 1} AS x FROM range(1000))"
    )
    assert found == [(1000 * (2**63 - 1),)]
    assert rows(f"SELECT {dialect.sum('x', wide=False)} FROM (VALUES (NULL::BIGINT)) v(x)") == [
        (None,)
    ]
    assert rows(f"SELECT {dialect.sum('x', wide=False)} FROM (VALUES (3), (NULL), (4)) v(x)") == [
        (7,)
    ]


@promise("least", "greatest")
def clamping_ignores_null(dialect: Spelled) -> None:
    source = of("-9", "9", "3", "NULL")
    assert values(dialect.least("5", "x"), source) == [-9, 5, 3, 5]
    assert values(dialect.greatest("5", "x"), source) == [5, 9, 5, 5]


# -- floating point --------------------------------------------------------------------------------


@promise("is_nan")
def null_is_no_number_and_not_nan(dialect: Spelled) -> None:
    source = of("'NaN'::DOUBLE", "-'NaN'::DOUBLE", "1.5", "'inf'::DOUBLE", "NULL")
    assert values(dialect.is_nan("x"), source) == [True, True, False, False, None]


@promise("quotient")
def quotients_of_small_values_do_not_fail(dialect: Spelled) -> None:
    given = (3.0, -3.0, 5e-324, -5e-324, 0.0, 1e15)
    source = of(*(f"CAST('{value!r}' AS DOUBLE)" for value in given))
    for quantum in (2.0**-40, 0.5, 1.0, 4.0, 2.0**30):
        found = values(dialect.rounded(dialect.quotient("x", quantum)), source)
        whole = [math.floor(abs(value / quantum) + 0.5) for value in given]
        assert [abs(value) for value in found] == whole


@promise("rounded")
def integers_stay_and_others_go_to_a_neighbour(dialect: Spelled) -> None:
    given = (2.0**52 + 1, 2.0**53 + 2, -7.0, 0.49999999999999994, 2.6, -2.6, 1e300)
    found = values(dialect.rounded("x"), of(*(f"CAST('{value!r}' AS DOUBLE)" for value in given)))
    assert found == [2.0**52 + 1, 2.0**53 + 2, -7.0, 0.0, 3.0, -3.0, 1e300]


@promise("root")
def roots_are_rounded_down(dialect: Spelled) -> None:
    given = [0, 1, 2, 3, 4, 8, 9, 10**14 - 1, 10**14, (2**26 - 1) ** 2 - 1, (2**26 - 1) ** 2]
    text = dialect.root("x")
    assert values(text, of(*map(str, given))) == [math.isqrt(value) for value in given]
    assert values(f"typeof({text})", of("4")) == ["BIGINT"]


@promise("divided_by_root")
def shares_are_those_of_python(dialect: Spelled) -> None:
    sizes, whole = [*range(1, 300), 2**40], 2**30
    found = values(dialect.divided_by_root(whole, "x"), of(*map(str, sizes)))
    assert found == [math.floor(whole / math.sqrt(size)) for size in sizes]


# -- chance and order ------------------------------------------------------------------------------

PEOPLE = "(SELECT p, k FROM range(1000) u(p), range(12) v(k))"


@promise("salted_hash")
def the_order_of_keys_depends_on_salt_unit_and_keys(dialect: Spelled) -> None:
    orders = {salt: _orders(dialect, salt) for salt in SALTS}
    # By salt, for one and the same unit; and by unit, for one and the same salt.
    assert len({orders[salt][0] for salt in SALTS}) > len(SALTS) // 2
    for salt in SALTS:
        assert len(set(orders[salt])) > 900


def _orders(dialect: Spelled, salt: int) -> list[str]:
    hashed = dialect.salted_hash(salt, ["p", "k"])
    return values(
        "o",
        f"(SELECT p, string_agg(k, ',' ORDER BY {hashed}) o FROM {PEOPLE} GROUP BY p) ORDER BY p",
    )


@promise("salted_hash")
def no_key_is_favoured_for_all_units(dialect: Spelled) -> None:
    """Of 12 keys that all of 1000 units have, each keeps 3: so each key is kept by 250 of them."""
    for salt in SALTS:
        hashed = dialect.salted_hash(salt, ["p", "k"])
        ranked = f"SELECT k, row_number() OVER (PARTITION BY p ORDER BY {hashed}) r FROM {PEOPLE}"
        kept = Counter(dict(rows(f"SELECT k, count(*) FROM ({ranked}) WHERE r <= 3 GROUP BY k")))
        # Kept keys of one unit exclude each other: the statistic is smaller than a chi square's.
        square = sum((kept[key] - 250) ** 2 / 250 for key in range(12))
        assert square < 50, square  # 11 degrees of freedom: p < 1e-6


@promise("salted_hash")
def values_that_are_grouped_as_equal_hash_alike(dialect: Spelled) -> None:
    text = dialect.salted_hash(7, ["x"])
    alike = (
        ("0.0::DOUBLE", "-0.0::DOUBLE"),
        ("'NaN'::DOUBLE", "-'NaN'::DOUBLE"),
        ("INTERVAL 1 month", "INTERVAL 30 days"),
    )
    for pair in alike:
        assert len(set(values(text, of(*pair)))) == 1
    nulls = [dialect.salted_hash(7, columns) for columns in (["NULL", "1"], ["1", "NULL"], ["1"])]
    assert len(set(rows(f"SELECT {', '.join(nulls)}")[0])) == 3


@promise("salted_bits")
def bits_are_uniform_over_32(dialect: Spelled) -> None:
    text = dialect.salted_bits(5, ["p", "0"])
    found = values(text, "range(4000) u(p)")
    assert min(found) >= 0
    assert 2**32 - 2**23 < max(found) < 2**32
    assert values(f"typeof({text})", "range(1) u(p)") == ["BIGINT"]
    assert found != values(dialect.salted_bits(6, ["p", "0"]), "range(4000) u(p)")
    assert abs(sum(value % 2 for value in found) - 2000) < 200
    assert abs(sum(value >> 31 for value in found) - 2000) < 200


@promise("one_spelling")
def equal_values_have_one_spelling(dialect: Spelled) -> None:
    for type_, one, other in (
        ("DOUBLE", "0.0", "-0.0"),
        ("FLOAT", "'NaN'", "-'NaN'::FLOAT"),
        ("INTERVAL", "'1 month'", "'30 days'"),
        ("INTERVAL", "'1 day'", "'24 hours'"),
        ("VARCHAR", "'a'", "'a'"),
    ):
        cast = [f"CAST({value} AS {type_})" for value in (one, other)]
        spelled = [f"CAST({dialect.one_spelling(text, type_)} AS VARCHAR)" for text in cast]
        assert len(set(rows(f"SELECT {', '.join(spelled)}")[0])) == 1
        assert values(f"{dialect.one_spelling(cast[1], type_)} = {cast[1]}") == [True]


PAIRS = (("1", "1"), ("1", "2"), ("NULL", "1"), ("1", "NULL"), ("NULL", "NULL"))


@promise("same")
def null_is_the_same_as_null(dialect: Spelled) -> None:
    for (one, other), expected in zip(PAIRS, (True, False, False, False, True), strict=True):
        source = f"(SELECT CAST({one} AS INT) AS a, CAST({other} AS INT) AS b)"
        assert values(dialect.same("a", "b"), source) == [expected]


@promise("ascending")
def only_what_is_grouped_is_equal_in_order(dialect: Spelled) -> None:
    texts = of("'a'", "'A'", "'ä'", "'a '", "NULL", "''", "'b'", "'10'", "'9'", "'a'", "NULL")
    rank = f"dense_rank() OVER (ORDER BY {dialect.ascending('x')})"
    ranks = rows(f"SELECT x, {rank} FROM (SELECT x FROM {texts})")
    assert len(set(ranks)) == len({x for x, _ in ranks}) == len({r for _, r in ranks})
    few = rows(f"SELECT x, {rank} FROM (SELECT x FROM {of(chr(39) + 'b' + chr(39), 'NULL')})")
    assert (few[0][1] < few[1][1]) == (dict(ranks)["b"] < dict(ranks)[None])


@promise("descending")
def the_largest_comes_first(dialect: Spelled) -> None:
    source = f"(VALUES (1), (5), (-3)) v(x) ORDER BY {dialect.descending('x')}"
    assert values("x", source) == [5, 1, -3]


@promise("position")
def what_is_not_in_the_list_has_no_place(dialect: Spelled) -> None:
    found = values(dialect.position(["'a'", "'b'", "NULL"], "x"), of("'b'", "'a'", "'c'", "'A'"))
    assert found == [2, 1, None, None]


# -- rows ------------------------------------------------------------------------------------------


@promise("derived")
def statements_are_rows(dialect: Spelled) -> None:
    one, other = dialect.derived("SELECT 1 AS x"), dialect.derived("SELECT 2 AS y", alias="q")
    assert rows(f"SELECT x, q.y FROM {one} JOIN {other} ON TRUE") == [(1, 2)]


@promise("materialized")
def what_is_materialized_is_computed_once(dialect: Spelled) -> None:
    step = dialect.materialized("t", "SELECT random() AS r FROM range(50)")
    assert rows(f"WITH {step} SELECT count(*) FROM t a JOIN t b ON a.r = b.r") == [(50,)]


def test_sorted_rows_have_numbers_of_64_bits_and_their_peers_are_those_of_equal_terms() -> None:
    """What the rewriting rests on where a dialect says that it ``sorts_rows``."""
    assert DUCKDB.sorts_rows
    window = "PARTITION BY u ORDER BY h, k NULLS LAST"
    peers = f"{window} RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
    found = rows(
        f"SELECT k, x, row_number() OVER ({window}) - rank() OVER ({window}) AS place, "
        f"sum(x) OVER ({peers}), count(x) OVER ({peers}), typeof(row_number() OVER ({window})), "
        f"typeof(rank() OVER ({window})), typeof(sum(x) OVER ({peers})) FROM (VALUES (1, 7, 'a', 1), "
        "(1, 7, 'a', 2), (1, 7, 'b', 4), (1, 7, NULL, 8), (1, 7, NULL, NULL), (2, 7, 'a', 16)) "
        "v(u, h, k, x)"
    )
    assert {row[5:] for row in found} == {("BIGINT", "BIGINT", "HUGEINT")}
    sums = {(k, x): (total, number) for k, x, _, total, number, *_ in found}
    assert sums == {
        ("a", 1): (3, 2),
        ("a", 2): (3, 2),
        ("b", 4): (4, 1),
        (None, 8): (8, 1),
        (None, None): (8, 1),
        ("a", 16): (16, 1),
    }
    assert sorted(place for _, _, place, *_ in found) == [0, 0, 0, 0, 1, 1]


@promise("row_number")
def row_numbers_are_distinct_and_ascend(dialect: Spelled) -> None:
    found = rows(f"SELECT {dialect.row_number()}, x FROM (SELECT * FROM range(5000) v(x))")
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))


IN_PARTS = "(VALUES ('a', 3), ('a', 1), ('a', 1), ('b', 2)) v(p, x)"


def within(text: str) -> list[tuple[object, ...]]:
    return rows(f"SELECT p, x, {text} FROM {IN_PARTS} ORDER BY ALL")


@promise("numbered_within")
def rows_of_a_part_are_numbered_from_one(dialect: Spelled) -> None:
    numbered = within(dialect.numbered_within("PARTITION BY p ORDER BY x"))
    assert numbered == [("a", 1, 1), ("a", 1, 2), ("a", 3, 3), ("b", 2, 1)]


@promise("ranked_within")
def equal_rows_of_a_part_have_the_place_of_the_first(dialect: Spelled) -> None:
    ranked = within(dialect.ranked_within("PARTITION BY p ORDER BY x"))
    assert ranked == [("a", 1, 1), ("a", 1, 1), ("a", 3, 3), ("b", 2, 1)]


@promise("first_within")
def the_first_value_of_a_part_is_beside_all_of_it(dialect: Spelled) -> None:
    first = within(dialect.first_within("x", "PARTITION BY p ORDER BY x DESC"))
    assert first == [("a", 1, 3), ("a", 1, 3), ("a", 3, 3), ("b", 2, 2)]


@promise("beside_within")
def rows_before_and_after_are_of_the_same_part(dialect: Spelled) -> None:
    window = "PARTITION BY p ORDER BY x"
    before, after = (within(dialect.beside_within("x", n, window)) for n in (-2, 1))
    assert before == [("a", 1, None), ("a", 1, None), ("a", 3, 1), ("b", 2, None)]
    assert after == [("a", 1, 1), ("a", 1, 3), ("a", 3, None), ("b", 2, None)]


@promise("sorted_by")
def values_are_sorted_with_nulls_where_they_are_asked_for(dialect: Spelled) -> None:
    for descending, first, sorted_ in (
        (False, False, [1, 2, None]),
        (True, False, [2, 1, None]),
        (False, True, [None, 1, 2]),
        (True, True, [None, 2, 1]),
    ):
        term = dialect.sorted_by("x", descending=descending, nulls_first=first)
        assert values("x", f"(VALUES (2), (NULL), (1)) v(x) ORDER BY {term}") == sorted_


@promise("numbers")
def numbers_go_from_one_to_the_last(dialect: Spelled) -> None:
    one = dialect.numbers(4, "k0", '"n"')
    assert values('"n"', f"{one} ORDER BY 1") == [1, 2, 3, 4]
    both = f"{dialect.numbers(2, 'k0', 'a')}, {dialect.numbers(3, 'k1', 'b')}"
    assert rows(f"SELECT count(*), max(a), max(b) FROM {both}") == [(6, 2, 3)]


@promise("limited")
def equal_rows_do_not_exceed_the_limit(dialect: Spelled) -> None:
    sql = "SELECT x FROM (VALUES (1), (2), (2), (2)) v(x) ORDER BY x"
    assert rows(dialect.limited(sql, 3)) == [(1,), (2,), (2,)]


@promise("semi_join")
def a_row_with_two_matches_comes_once(dialect: Spelled) -> None:
    left, right = "(VALUES (1), (2), (2), (NULL)) l(x)", "(VALUES (2), (2), (3), (NULL)) r(y)"
    for negated, expected in ((False, [2, 2]), (True, [None, 1])):
        source = dialect.semi_join(left, right, "x = y", negated=negated)
        assert values("x", f"{source} ORDER BY x NULLS FIRST") == expected


@promise("pairs")
def all_pairs_are_listed(dialect: Spelled) -> None:
    ((found,),) = rows(f"SELECT {dialect.pairs('x', 'y')} FROM (VALUES (1, 2), (3, 4)) v(x, y)")
    assert sorted(map(list, found)) == [[1, 2], [3, 4]]


@promise("parameter", "among_given")
def what_is_given_is_used(dialect: Spelled) -> None:
    places = f"{dialect.parameter(1)}, {dialect.parameter(2)}"
    assert rows(f"SELECT {places}", 4, 9) == [(4, 9)]
    for few in (True, False):
        among = dialect.among_given("x", few=few)
        assert rows(f"SELECT x FROM range(9) v(x) WHERE {among}", [7, 3, 99]) == [(3,), (7,)]


# -- the promises and those who break them ---------------------------------------------------------

# Of the others nothing is wrong, they say what is fast; or methods of the list speak of them.
FREE = (
    *("name", "verdicts", "sorts_rows", "streams_rows", "keeps_stages", "to_group", "wide_type"),
    *("copies", "short"),  # what becomes of long texts
)
METHODS = sorted(
    m
    for m in vars(Dialect).keys() | Dialect.__annotations__.keys()
    if m[0] != "_" and m not in FREE
)


@pytest.mark.slow
@pytest.mark.few(100)
@pytest.mark.parametrize("method", METHODS)
def test_duckdb_keeps_what_is_promised(method: str) -> None:
    all_kept(method, DUCKDB)


def all_kept(method: str, dialect: Dialect) -> None:
    for check in PROMISES[method]:
        check(Spelled(dialect))


def _leave_out_try(self: Dialect, node: exp.Expr, table: Table) -> str:
    guarded = list(node.find_all(exp.Anonymous))
    return text(DUCKDB.expression(guarded[0].expressions[0].copy() if guarded else node, table))


def _leniently(self: Dialect, node: exp.Expr, table: Table) -> str:
    return node.sql("duckdb", identify=True, unsupported_level=sqlglot.ErrorLevel.IGNORE)


def _quoting_the_cause(self: Dialect, node: exp.Expr, table: Table) -> str:
    try:
        return node.sql("duckdb", identify=True, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise QueryRefused(str(error), code="expression_not_allowed") from error


@dataclass(frozen=True)
class Twin:
    """A dialect that breaks one promise, by one method of it."""

    why: str
    method: str
    broken: Any


@dataclass(frozen=True)
class Renders:
    """A renderer that writes names or literals in another way."""

    name: Callable[[str], str] = quote
    text: Callable[[str], str] = quote_text


TWINS = (
    Twin("quotes in names end them", "renderer", Renders(name=lambda text: f'"{text}"')),
    Twin("schemas and tables are joined by a dot", "table", lambda _, table: quote(str(table.name))),
    Twin("schemas are left out", "table", lambda _, table: quote(table.name.table)),
    Twin("quotes in texts end them", "renderer", Renders(text=lambda text: f"'{text}'")),
    Twin("backslashes are doubled", "renderer", Renders(text=lambda text: quote_text(text.replace("\\", "\\\\")))),
    Twin("doubles are decimals", "double", lambda _, value: repr(value)),
    Twin("doubles have 15 digits", "double", lambda _, value: f"{value:.14e}"),
    Twin("integers are doubles", "integer", lambda _, value: f"{value}e0"),
    Twin("integers have 32 bits", "integer", lambda _, value: f"CAST({value} AS INTEGER)"),
    Twin("wide literals are doubles", "wide_literal", lambda _, v: f"CAST({float(v)!r} AS HUGEINT)"),
    Twin("wide literals are unsigned", "wide_literal", lambda _, v: f"CAST('{abs(v)}' AS UHUGEINT)"),
    Twin("the wide type is narrow", "integer_type", lambda _, *, wide: "BIGINT"),
    Twin("the narrow type has 32 bits", "integer_type", lambda _, *, wide: "HUGEINT" if wide else "INTEGER"),
    Twin("the wide type is said to be wider", "widest", property(lambda _: (-(2**130), 2**130))),
    Twin("TRY is forgotten", "try_", lambda _, node, table: node),
    Twin("TRY is COALESCE", "try_", lambda _, node, table: exp.Coalesce(this=node, expressions=[exp.Null()])),
    Twin("TRY is dropped by the generator", "expression", _leave_out_try),
    Twin("names lose their quotes", "expression", lambda _, node, table: node.sql("duckdb").replace('"', "")),
    Twin("what has no equal is left out", "expression", _leniently),
    Twin("the refusal quotes its cause", "expression", _quoting_the_cause),
    Twin("truth values are cast", "try_truth", lambda _, node: exp.cast(node, "BOOLEAN")),
    Twin("casts raise", "try_cast", lambda _, sql, type_, source: f"CAST({sql} AS {type_})"),
    Twin("casts truncate", "try_cast", lambda _, sql, type_, source: f"TRY_CAST(trunc(TRY_CAST({sql} AS DOUBLE)) AS {type_})"),
    Twin("all can be compared with all", "comparison_family", lambda _, type_: "number"),
    Twin("decimals are numbers like others", "comparison_family", lambda _, type_: "number" if "(" in type_ or "INT" in type_ else None),
    Twin("casts go to doubles", "cast", lambda _, sql, type_: f"CAST({sql} AS DOUBLE)"),
    Twin("quotients are rounded down", "divided", lambda _, a, b, *, wide: f"(({a} // {b}) - (CASE WHEN {a} < 0 AND {a} % {b} <> 0 THEN 1 ELSE 0 END))"),
    Twin("quotients are doubles", "divided", lambda _, a, b, *, wide: f"CAST(trunc({a} / {b}) AS HUGEINT)"),
    Twin("remainders are not negative", "remainder", lambda _, a, b: f"((({a} % {b}) + {b}) % {b})"),
    Twin("sums are doubles", "sum", lambda _, sql, *, wide: f"sum(CAST({sql} AS DOUBLE))"),
    Twin("sums have 64 bits", "sum", lambda _, sql, *, wide: f"CAST(sum({sql}) AS BIGINT)"),
    Twin("sums of nothing are 0", "sum", lambda _, sql, *, wide: f"coalesce(sum({sql}), 0)"),
    Twin("NULL is passed on", "least", lambda _, a, b: f"CASE WHEN {a} < {b} THEN {a} WHEN {b} <= {a} THEN {b} END"),
    Twin("NULL is passed on", "greatest", lambda _, a, b: f"CASE WHEN {a} > {b} THEN {a} WHEN {b} >= {a} THEN {b} END"),
    Twin("NULL is a number", "is_nan", lambda _, sql: f"coalesce(isnan({sql}), false)"),
    Twin("NaN is a number", "is_nan", lambda _, sql: f"({sql} <> {sql})"),
    Twin("types are all texts", "type_of", lambda _, tree, table: "VARCHAR" if table is NUMBER else ""),
    Twin("declared values raise", "declared", lambda _, value, type_: f"CAST('{value}' AS {type_})"),
    Twin("declared values are texts", "declared", lambda self, value, type_: self.literal(value)),
    Twin("quotients are multiplied", "quotient", lambda self, sql, q: f"{sql} * {self.double(q)}"),
    Twin("quotients are rounded", "quotient", lambda self, sql, q: f"CAST({sql} / {self.double(q)} AS DECIMAL(18, 0))"),
    Twin("halves are added", "rounded", lambda _, sql: f"floor({sql} + 0.5e0)"),
    Twin("rounded through a decimal", "rounded", lambda _, sql: f"CAST(CAST({sql} AS DECIMAL(15, 0)) AS DOUBLE)"),
    Twin("roots are rounded", "root", lambda _, sql: f"CAST(round(sqrt({sql})) AS BIGINT)"),
    Twin("roots are floats", "root", lambda _, sql: f"CAST(floor(sqrt(CAST({sql} AS FLOAT))) AS BIGINT)"),
    Twin("roots are rounded first", "divided_by_root", lambda _, n, sql: f"CAST({n} // floor(sqrt({sql})) AS BIGINT)"),
    Twin("the salt is ignored", "salted_hash", lambda _, salt, columns: f"hash(hash(1, {', '.join(columns)}))"),
    Twin("the unit is ignored", "salted_hash", lambda _, salt, columns: f"hash(hash({salt}, {columns[-1]}))"),
    Twin("the keys are ignored", "salted_hash", lambda _, salt, columns: f"hash(hash({salt}, {columns[0]}))"),
    Twin("keys are favoured a little", "salted_hash", lambda _, salt, columns: f"hash(hash({salt}, {', '.join(columns)})) % 1000 + {columns[-1]} * 20"),
    Twin("spellings are hashed", "salted_hash", lambda _, salt, columns: f"hash(concat_ws('|', {salt}, {', '.join(columns)}))"),
    Twin("bits have a sign", "salted_bits", lambda _, salt, columns: f"(CAST(hash(hash({salt}, {', '.join(columns)})) >> 32 AS BIGINT) - 2147483648)"),
    Twin("bits are 31", "salted_bits", lambda _, salt, columns: f"CAST(hash(hash({salt}, {', '.join(columns)})) >> 33 AS BIGINT)"),
    Twin("bits have no salt", "salted_bits", lambda _, salt, columns: f"CAST(hash(hash({', '.join(columns)})) >> 32 AS BIGINT)"),
    Twin("values keep their spelling", "one_spelling", lambda _, sql, type_: sql),
    Twin("NULL is not the same as NULL", "same", lambda _, a, b: f"{a} = {b}"),
    Twin("NULL is the same as all", "same", lambda _, a, b: f"coalesce({a} = {b}, true)"),
    Twin("a collation makes texts equal", "ascending", lambda _, sql: f"{sql} COLLATE NOCASE"),
    Twin("texts are cut", "ascending", lambda _, sql: f"left({sql}, 1)"),
    Twin("the smallest comes first", "descending", lambda _, sql: sql),
    Twin("absent values have place 0", "position", lambda _, found, sql: f"coalesce(list_position([{', '.join(found)}], {sql}), 0)"),
    Twin("places count from 0", "position", lambda _, found, sql: f"list_position([{', '.join(found)}], {sql}) - 1"),
    Twin("aliases are left out", "derived", lambda _, sql, alias="": f"({sql})"),
    Twin("steps are computed each time", "materialized", lambda _, name, sql: f"{name} AS NOT MATERIALIZED ({sql})"),
    Twin("all rows have one number", "row_number", lambda _: "1"),
    Twin("rows are numbered from their end", "row_number", lambda _: "-(row_number() OVER ())"),
    Twin("numbers of a part start at 0", "numbered_within", lambda _, window: f"row_number() OVER ({window}) - 1"),
    Twin("ranks leave no gaps", "ranked_within", lambda _, window: f"dense_rank() OVER ({window})"),
    Twin("the last value is the first", "first_within", lambda _, value, window: f"last_value({value}) OVER ({window})"),
    Twin("rows before are those after", "beside_within", lambda _, value, n, window: f"lead({value}, {abs(n)}) OVER ({window})"),
    Twin("NULLs are last", "sorted_by", lambda _, value, *, descending, nulls_first: f"{value}{' DESC' * descending} NULLS LAST"),
    Twin("nothing descends", "sorted_by", lambda _, value, *, descending, nulls_first: f"{value} NULLS {'FIRST' if nulls_first else 'LAST'}"),
    Twin("the last number is left out", "numbers", lambda _, n, alias, column: f"range(1, {n}) AS {alias}({column})"),
    Twin("numbers start at 0", "numbers", lambda _, n, alias, column: f"range({n}) AS {alias}({column})"),
    Twin("there is no limit", "limited", lambda _, sql, n: sql),
    Twin("there is one row more", "limited", lambda _, sql, n: f"{sql} LIMIT {n + 1}"),
    Twin("matches are multiplied", "semi_join", lambda _, left, right, on, *, negated: f"{left} {'ANTI ' if negated else ''}JOIN {right} ON ({on})"),
    Twin("an anti-join is a semi-join", "semi_join", lambda _, left, right, on, *, negated: f"{left} SEMI JOIN {right} ON ({on})"),
    Twin("only one pair is listed", "pairs", lambda _, a, b: f"[any_value([{a}, {b}])]"),
    Twin("the second parameter is the first", "parameter", lambda _, position: "$1"),
    Twin("none is among the given", "among_given", lambda _, sql, *, few: f"NOT list_contains(?::BIGINT[], {sql})"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.few(100)
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.method}: {twin.why}")
def test_a_twin_that_breaks_a_promise_is_noticed(twin: Twin) -> None:
    method = of_text(twin.method, twin.broken) if callable(twin.broken) else twin.broken
    broken = type("Broken", (DuckDBDialect,), {twin.method: method, "__slots__": ()})()
    noticed = (AssertionError, duckdb.Error, pytest.fail.Exception)
    with pytest.raises(noticed):
        all_kept(twin.method, broken)


def test_every_method_has_a_promise_and_somebody_who_breaks_it() -> None:
    assert sorted(PROMISES) == METHODS
    assert sorted({twin.method for twin in TWINS}) == METHODS


def spellings() -> dict[str, Callable[..., Sql]]:
    """The methods of all dialects that are a line of spelling."""
    made = {
        f"{type(dialect).__name__}.{name}": method
        for dialect in (DUCKDB, POSTGRESQL, SPARK)
        for name, method in vars(type(dialect)).items()
        if getattr(method, "__qualname__", "") == "written_as.<locals>.spelling"
    }
    assert len(made) > 20
    return made


@pytest.mark.parametrize("name", spellings())
def test_a_spelling_has_the_arguments_of_its_method(name: str) -> None:
    """In their order: where the holes of a template stand otherwise, one is put for another."""
    holes = inspect.getclosurevars(spellings()[name]).nonlocals["names"]
    described = inspect.signature(getattr(Dialect, name.partition(".")[2])).parameters
    assert ("self", *holes) == tuple(described)


def test_a_dialect_that_leaves_something_open_cannot_be_made() -> None:
    class Half(DuckDBDialect):
        salted_hash = Dialect.salted_hash

    with pytest.raises(TypeError):
        Half()


SPELLINGS = [
    "TRY",
    "CAST(",
    "HUGEINT",
    "AS BIGINT",
    "AS DOUBLE",
    "isnan",
    "hash(",
    "list(",
    "list_",
    "unnest(",
    "range(",
    " // ",
    " % ",
    ">>",
    "least(",
    "greatest(",
    "round(",
    "floor(",
    "sqrt(",
    "sum(",
    "LIMIT",
    " DESC",
    "MATERIALIZED",
    "SEMI ",
    "ANTI ",
    "DISTINCT FROM",
    "OVER ()",
    " ?",
    "?::",
    "'NaN'",
    '"',
]
"""What only a dialect may write."""


def spelled(source: str) -> list[str]:
    """Spellings of an engine in the texts of a module that are no documentation."""
    module = ast.parse(source)
    documented = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documented
    ]
    return [f"{word} in {text!r}" for text in texts for word in SPELLINGS if word in text]


GENERATING = [
    path
    for folder in ("sql/rewrite", "sql/relations", "sql/expressions", "kinds")
    for path in sorted((Path(dpsql.__file__).parent / folder).glob("*.py"))
    if "from dpsql.core.sql import" in path.read_text("utf-8")
]


@pytest.mark.few(100)
@pytest.mark.parametrize("path", GENERATING, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_engine_is_spelled_outside_of_its_dialect(path: Path) -> None:
    assert spelled(path.read_text("utf-8")) == []


def test_a_spelling_outside_is_noticed() -> None:
    assert spelled('def f(x):\n    """HUGEINT"""\n    return f"CAST({x} AS HUGEINT)"') != []
    assert spelled('def f(x):\n    """HUGEINT"""\n    return x') == []
    assert len(GENERATING) > 12


def test_an_engine_names_its_dialect(tmp_path: Any) -> None:
    database = DuckDBEngine()
    engine = database.open(())
    assert dialect_of(engine.verdicts) is DUCKDB
    database.close()
    for name, dialect in SERVERS.items():
        found = dialect_of(Verdicts(EngineVersion(name, "1"), {}))
        assert type(found) is dialect
    with pytest.raises(ValueError, match="not oracle"):
        dialect_of(Verdicts(EngineVersion("oracle", "1"), {}))
