"""Results of Spark's before they leave it: texts that Arrow takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.spark_text import spark_quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sound(frame: DataFrame) -> DataFrame:
    """Make the texts of a result valid: a STRING of Spark's holds any bytes, and Arrow does not."""
    texts = [f.name for f in frame.schema.fields if type(f.dataType).__name__ == "StringType"]
    if not texts:
        return frame
    names = [field.name for field in frame.schema.fields]
    return frame.selectExpr(
        *(
            f"make_valid_utf8({spark_quote(name)}) AS {spark_quote(name)}"
            if name in texts
            else spark_quote(name)
            for name in names
        )
    )
