"""What a question quotes stays quoted in Spark, whatever else is put into the same template."""

from __future__ import annotations

import pytest
import sqlglot
from helpers.columns import column_of
from helpers.dialects import SPARK
from sqlglot.tokenizer_core import TokenType

from dpsql.core.schema import Table

_TABLE = Table("t", (column_of("s", "VARCHAR"), column_of("d", "DATE")))
_INJECTED = " || (SELECT password FROM parquet.`/secrets`) || "


def literals(expression: str) -> list[str]:
    """The texts in quotes of an expression, as Spark reads what is written of it."""
    tree = sqlglot.parse_one(expression, dialect="duckdb")
    written = SPARK.expression(tree, _TABLE).render(SPARK.renderer)
    tokens = sqlglot.tokenize(written, dialect="spark")
    assert not any(token.token_type is TokenType.SELECT for token in tokens)
    return [token.text for token in tokens if token.token_type is TokenType.STRING]


@pytest.mark.parametrize("call", ["contains({}, {})", "starts_with({}, {})", "{} || {}"])
@pytest.mark.parametrize("place", ["{0}", "{1}", "{x}", "{}", "{{1}}"])
def test_a_text_with_the_mark_of_a_place_lets_no_other_out(call: str, place: str) -> None:
    for texts in ([place, _INJECTED], [_INJECTED, place]):
        found = literals(call.format(*(f"'{text}'" for text in texts)))
        assert found in (texts, texts * 2)  # a guard on the length of a text names both once more


def test_a_name_with_the_mark_of_a_place_lets_no_text_out() -> None:
    table = Table("t", (column_of("{1}", "VARCHAR"),))
    tree = sqlglot.parse_one(f"""contains("{{1}}", '{_INJECTED}')""", dialect="duckdb")
    written = SPARK.expression(tree, table).render(SPARK.renderer)
    assert written.count(_INJECTED) == 1
    assert written.index("`{1}`") < written.index(_INJECTED)


def test_dates_with_the_mark_of_a_place_are_no_part_of_another() -> None:
    table = Table("t", (column_of("{1}", "DATE"), column_of("d", "DATE")))
    tree = sqlglot.parse_one("""date_diff('day', d, "{1}")""", dialect="duckdb")
    assert "datediff(`{1}`, `d`)" in SPARK.expression(tree, table).render(SPARK.renderer)
