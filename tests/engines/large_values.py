"""One large value for each function that takes a text or a list, in an analyst's words.

Functions of which all arguments have a fixed size are listed by engine; a name that is in a closed
list of :mod:`dpsql.engines`, and neither here nor in an expression, fails a test.
"""

from __future__ import annotations

import re
from typing import Final

from helpers.columns import column_of
from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql_types import SqlType
from dpsql.core.wordlists import words
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.alike import write_alike
from dpsql.syntax.parse import parse

TYPES: Final = {"s": "VARCHAR", "l": "VARCHAR[]", "m": "VARCHAR[]", "r": "STRUCT(f VARCHAR)"}
"""Of lists, ``l`` has many elements and ``m`` four large ones."""
TABLE: Final = Table("t", tuple(column_of(*each) for each in TYPES.items()))
FILLS: Final = ("a", ",", "abc,dE 12.5|xY", "éÉЖ,", " ", "[")
"""Texts that a large one is made of, again and again."""
MOST_MEMORY: Final = 20
"""Times the bytes of a value that a function may take."""
MOST_SECONDS: Final = 2.0
"""CPU time for a megabyte, on a machine that others use as well."""
EXPRESSIONS: Final = (
    *("length(s)", "lower(s)", "upper(s)", "reverse(s)", "ascii(s)", "unicode(s)"),
    *("contains(s, 'ab')", "starts_with(s, 'ab')", "ends_with(s, 'ab')", "strpos(s, 'aaaaab')"),
    *("replace(s, 'a', 'xyz')", "replace(s, ',', '')", f"replace(s, 'a', '{'x' * 60}')"),
    "replace(replace(replace(s, 'a', 'bbbb'), 'b', 'cccc'), 'c', 'dddd')",
    *("md5(s)", "sha256(s)", "s || s || s || s", "concat(s, s, s, s)", "',' || s"),
    *("s LIKE '%a%a%a%b'", "s LIKE '%a_%a_%a_%b_'", "s LIKE '%a_b%'", "s ILIKE '%a%a%a%b'"),
    *("s NOT LIKE '%_a%_a%b'", "s NOT ILIKE '%a_%É_%b'", "s LIKE 'a%'", "s NOT LIKE '%a%a%b'"),
    *("s ILIKE 'a_c'", "s NOT ILIKE 'a_c'", "s NOT LIKE 'a_c'", "s LIKE '%c'"),
    *("left(s, 5)", "left(s, -5)", "right(s, -5)", "substring(s, 5, 100000)", "substr(s, -5, 3)"),
    *("trim(s)", "ltrim(s)", "rtrim(s)", "trim(s, 'abc')"),
    *("split_part(s, ',', 2)", "split_part(s, ',', 1000)", "split_part(s, '||', 50)"),
    "split_part(s, 'aaaaaaaaaaaaaaaaaaab', 50)",
    *("regexp_matches(s, '^a+$')", "regexp_matches(s, '[ab]{1,100}c')"),
    "regexp_matches(s, 'a?a?a?a?a?a?a?a?b')",
    *("regexp_extract(s, 'a[ab]{20}c', 0)", "regexp_extract(s, '^a*', 0)"),
    *("regexp_replace(s, '[^0-9]', '', 'g')", "regexp_replace(s, 'a', 'xyz', 'g')"),
    *("TRY_CAST(s AS INTEGER)", "TRY_CAST(s AS DOUBLE)", "TRY_CAST(s AS DATE)"),
    *("TRY_CAST(s AS TIMESTAMP)", "TRY_CAST(s AS BOOLEAN)", "TRY_CAST(s AS DECIMAL(18, 3))"),
    *("levenshtein(s, 'Lyon')", "s->>'$.a'", "s->>'$[0].a'"),
    *("list_contains(l, 'a')", "list_position(l, 'a')", "l[3]", "CAST(l AS VARCHAR)"),
    *("m[1]", "m[3]", "m[9]", "m[3] || m[3]", "CAST(m AS VARCHAR) || CAST(m AS VARCHAR)"),
    "CAST(l AS VARCHAR) || CAST(l AS VARCHAR)",
    *("struct_extract(r, 'f')", f"replace(struct_extract(r, 'f'), 'a', '{'x' * 60}')"),
    " || ".join(["struct_extract(r, 'f')"] * 12),
)
OF_FIXED_SIZE: Final = {
    "duckdb": frozenset(
        words(
            """
            ** ^ power abs ceil trunc sign exp ln log sin cos tan asin acos atan atan2 cbrt
            date_diff date_trunc century day dayname dayofmonth dayofweek bit_count chr hex
            make_date strftime time_bucket dayofyear decade epoch epoch_ms era hour isodow isoyear
            julian last_day microsecond millennium millisecond minute month monthname nanosecond
            quarter second week weekday weekofyear year yearweek timezone timezone_hour
            timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia
            to_milliseconds to_minutes to_months to_quarters to_seconds to_weeks to_years
            """
        )
    ),
    "postgresql": frozenset(
        words(
            """
            abs ceil sign exp ln log div extract date_trunc make_date to_char power time chr
            """
        )
    ),
    "spark": frozenset(
        words(
            """
            abs CEIL EXP ln LOG10 LOG2 pow between add_months date_trunc date_add datediff last_day
            unix_micros timestamp_micros make_date date_format year quarter month day dayofweek
            dayofyear weekday weekofyear hour minute second
            """
        )
    ),
}
"""Functions of numbers and moments."""


def read(text: str) -> exp.Expr:
    """An analyst's expression in the words that there are rules for."""
    found = parse(f"SELECT {text} AS x FROM t").expressions[0].this
    assert isinstance(found, exp.Expr)
    return write_alike(found, lambda column: SqlType.of(TYPES[column.name]))


def written(dialect: Dialect) -> dict[str, str]:
    """The SQL of the expressions that an engine computes, by the analyst's words."""
    found = {}
    for each in EXPRESSIONS:
        try:
            made = dialect.expression(read(each), TABLE)
        except QueryRefused:
            continue
        found[each] = made.render(dialect.renderer)
    return found


def named_in(texts: object) -> set[str]:
    """The words that are called, or written before an operand, in upper and lower case."""
    return {word.lower() for word in re.findall(r"\w+", str(texts))}
