"""Calls that are tried with samples: the trial never fails, and no sound call is refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.core.sql import Sql, Written
from dpsql.engines.embedded.constants import failing_constant

TYPES = {
    "n": "BIGINT",
    "c": "VARCHAR",
    "d": "DATE",
    "x": "DOUBLE",
    "t": "TIMESTAMP",
    "b": "BOOLEAN",
    "l": "BIGINT[]",
}
SOUND = [
    "n BETWEEN 1 AND 5",
    "n NOT BETWEEN 1 AND x",
    "n IN (1,2,3)",
    "c IN ('a','b')",
    "CASE WHEN n > 1 THEN 'a' ELSE c END",
    "coalesce(n, 0)",
    "n IS DISTINCT FROM 3",
    "c LIKE 'a%'",
    "c ILIKE '%x_'",
    "c NOT LIKE 'a!%' ESCAPE '!'",
    "c SIMILAR TO 'a.*'",
    "c[1:2]",
    "l[1]",
    "l[1:2]",
    "l[-1:]",
    "{'a': n}.a",
    "{'a': n}['a']",
    "extract(year FROM d)",
    "date_part('month', d)",
    "date_trunc('week', t)",
    "d + INTERVAL '1 month'",
    "t - INTERVAL 3 HOUR",
    "d - 5",
    "to_json(n)->>'$'",
    "to_json({'a': n})->'a'",
    "t AT TIME ZONE 'Europe/Berlin'",
    "c COLLATE NOCASE = 'A'",
    "n = ANY(SELECT 1)",
    "n = ANY([1,2])",
    "n % 7",
    "n // 3",
    "n ^ 2",
    "n ** 0.5",
    "n & 3",
    "n << 2",
    "n >> 1",
    "~n",
    "xor(n, 1)",
    "round(x, 2)",
    "round(x, -2)",
    "trunc(x)",
    "log(10, x)",
    "log(x)",
    "pow(x, 3)",
    "greatest(n, 0)",
    "least(n, 10, x)",
    "nullif(n, 0)",
    "if(b, 1, 0)",
    "ifnull(n, 0)",
    "strftime(d, '%Y-%m')",
    "strptime(c, '%Y')",
    "try_strptime(c, ['%Y','%m'])",
    "c::DATE",
    "TRY_CAST(c AS INT)",
    "left(c, 2)",
    "right(c, 3)",
    "lpad(c, 10, '0')",
    "substr(c, 2)",
    "substring(c, 2, 3)",
    "split_part(c, '-', 1)",
    "string_split(c, ',')",
    "regexp_replace(c, '[0-9]+', 'x', 'g')",
    "regexp_extract(c, '(a)(b)', 2)",
    "regexp_extract(c, '(a)(b)', ['x','y'])",
    "regexp_matches(c, '^a', 'i')",
    "replace(c, 'a', 'b')",
    "translate(c, 'ab', 'xy')",
    "concat(c, '-', n)",
    "concat_ws('-', c, n)",
    "repeat(c, 3)",
    "printf('%d: %s', n, c)",
    "format('{} of {}', n, c)",
    "format('{:.2f}', x)",
    "bar(x, 0, 100, 20)",
    "list_contains(l, 3)",
    "list_position(l, 3)",
    "array_to_string([c, c], ',')",
    "list_aggregate(l, 'sum')",
    "list_sort(l, 'DESC')",
    "list_reverse_sort(l)",
    "list_slice(l, 1, 2)",
    "list_filter(l, lambda z: z > 2)",
    "list_transform(l, lambda z: z * 2)",
    "list_reduce(l, lambda p, q: p + q)",
    "[z + 1 for z in l]",
    "range(0, n, 2)",
    "generate_series(1, 3, 1)",
    "unnest([1, n])",
    "map(['a','b'], [n, 1])",
    "map {'a': n}['a']",
    "struct_pack(a := n, b := 1).b",
    "date_diff('day', d, DATE '2020-01-01')",
    "datediff('hour', t, now()::TIMESTAMP)",
    "date_add(d, INTERVAL 1 DAY)",
    "age(t, TIMESTAMP '2000-01-01')",
    "time_bucket(INTERVAL '7 days', d)",
    "make_date(2020, 2, n::INT)",
    "make_date(n, 2, 29)",
    "to_timestamp(n)",
    "epoch_ms(n)",
    "last_day(d)",
    "hash(n, 1)",
    "md5(c)",
    "jaro_winkler_similarity(c, 'abc')",
    "levenshtein(c, 'abc')",
    "bit_count(n)",
    "get_bit('0110'::BIT, 2)",
    "random() < 0.5",
    "sum(n) OVER (ORDER BY d ROWS 3 PRECEDING)",
    "sum(n) OVER (ORDER BY d RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW)",
    "sum(n) OVER (ORDER BY n RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING)",
    "sum(n) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "ntile(4) OVER (ORDER BY n)",
    "lag(n, 2, 0) OVER (ORDER BY d)",
    "nth_value(n, 2) OVER (ORDER BY d)",
    "first_value(n) OVER (ORDER BY d)",
    "n / (SELECT 3)",
    "equi_width_bins(0, 10, n, true)",
    "equi_width_bins(x, 0.5, n, false)",
    "chr(n::INT)",
    "ascii(c)",
    "unicode(c)",
    "to_base(n, 2)",
    "to_base(n, 36, 8)",
    "to_hex(n)",
    "sum(n)",
    "avg(x)",
    "max(n, 2)",
    "arg_max(c, n, 3)",
    "quantile_cont(x, 0.5)",
    "quantile_cont(x, [0.25, 0.75])",
    "string_agg(c, ', ' ORDER BY n)",
    "list(n ORDER BY d)",
    "histogram(n, [0, 10, 20])",
    "approx_top_k(c, 3)",
    "approx_quantile(x, 0.9)",
    "reservoir_quantile(x, 0.5, 100)",
    "corr(n, x)",
    "regr_slope(n, x)",
    "mode(c)",
    "count(*) FILTER (WHERE n > 3)",
    "bitstring_agg(n, 1, 100)",
    "array_value(n, 1, 2)",
    "array_distance([1.0::FLOAT, 2.0]::FLOAT[2], [x, 1]::FLOAT[2])",
    "list_cosine_similarity([1, 2], [n, 3])",
    "json_extract(to_json(l), '$[0]')",
    "json_object('a', n)",
    "json_array(n, 1)",
    "json_merge_patch(to_json(n), '{}')",
    "from_hex('ff')",
    "c::BLOB",
    "encode(c)",
    "epoch(t)",
    "dayname(d)",
    "isodow(d)",
    "julian(d)",
    "century(d)",
    "t::TIME",
    "make_time(1, 2, x)",
    "make_timestamp(2020, 1, 1, 1, n, x)",
    "date '2020-01-01' + n::INT",
    "n::DECIMAL(10,2) * 1.10",
    "sqrt(n)",
    "ln(x)",
    "exp(700 + x)",
    "atan2(x, 1)",
    "cot(x)",
    "x::INT",
    "-n",
    "@n",
    "c ~ 'a'",
    "c !~ 'b'",
    "c ^@ 'a'",
    "starts_with(c, 'a')",
    "instr(c, 'x')",
    "ends_with(c, 'x')",
    "strpos(c, 'x')",
    "url_encode(c)",
    "parse_path(c, '/')",
    "uuid()",
    "gen_random_uuid()",
    "current_date - d",
    "now() - t",
    "d IN (DATE '2020-01-01')",
    "t BETWEEN '2020-01-01' AND '2020-02-01'",
]
CONSTANTS = {
    "VARCHAR": "'a'",
    "BIGINT": "1",
    "INTEGER": "1",
    "DOUBLE": "0.5",
    "DATE": "DATE '2020-01-01'",
    "TIMESTAMP": "TIMESTAMP '2020-01-01'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2020-01-01'",
    "TIME": "TIME '01:00:00'",
    "INTERVAL": "INTERVAL 1 DAY",
    "BOOLEAN": "true",
    "BLOB": "'a'::BLOB",
    "BIT": "'01'::BIT",
    "UUID": "'00000000-0000-0000-0000-000000000000'::UUID",
    "JSON": "'1'::JSON",
    "HUGEINT": "1::HUGEINT",
    "UBIGINT": "1::UBIGINT",
    "VARCHAR[]": "['a']",
    "BIGINT[]": "[1::BIGINT]",
    "DOUBLE[]": "[0.5::DOUBLE]",
    "DECIMAL": "1.5",
}


def found(expressions: str, columns: str, connection: duckdb.DuckDBPyConnection) -> str | None:
    statement = f"WITH r AS (SELECT {columns}) SELECT {expressions} FROM r"
    failing = failing_constant(connection, Sql(Written(statement)))
    return None if failing is None else failing.reason


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


@pytest.mark.slow
def test_sound_expressions_are_not_refused(connection: duckdb.DuckDBPyConnection) -> None:
    columns = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in TYPES.items())
    bound = f"SELECT typeof(({{}})) FROM (SELECT {columns}) LIMIT 0"
    assert len(SOUND) > 150
    for expression in SOUND:
        if "OVER" not in expression:
            connection.execute(bound.format(expression))
        assert found(expression, columns, connection) is None, expression


def test_constants_that_fail_are_found_in_the_same_way(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    columns = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in TYPES.items())
    for expression in ("date_diff('foo', d, t)", "to_base(n, 1)", "format('{:d}', c)", "max(n, 0)"):
        assert found(expression, columns, connection) is not None, expression


@pytest.mark.slow
def test_no_function_of_the_engine_makes_the_trial_itself_fail(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Every function, with a constant for each of its arguments in turn."""
    functions = connection.execute(
        "SELECT DISTINCT function_name, parameter_types FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate') AND len(parameter_types) BETWEEN 2 AND 4"
    ).fetchall()
    known = [(name, types) for name, types in functions if set(types) <= CONSTANTS.keys()]
    assert len(known) > 500
    for name, types in known:
        columns = ", ".join(f"CAST(NULL AS {type_}) AS x{i}" for i, type_ in enumerate(types))
        for constant in range(len(types)):
            arguments = [CONSTANTS[t] if i == constant else f"x{i}" for i, t in enumerate(types)]
            found(f'"{name}"({", ".join(arguments)})', columns, connection)
