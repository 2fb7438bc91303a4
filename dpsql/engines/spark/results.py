"""Results of Spark's before they leave it: texts that Arrow takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.core.sql import name as quoted
from dpsql.core.sql import sql
from dpsql.engines.spark.text import SPARK_TEXT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sound(frame: DataFrame) -> DataFrame:
    """Make the texts of a result valid: a STRING of Spark's holds any bytes, and Arrow does not."""
    texts = [f.name for f in frame.schema.fields if type(f.dataType).__name__ == "StringType"]
    if not texts:
        return frame
    names = [field.name for field in frame.schema.fields]
    valid = [
        sql("make_valid_utf8({name}) AS {name}", name=quoted(name))
        if name in texts
        else quoted(name)
        for name in names
    ]
    return frame.selectExpr(*(each.render(SPARK_TEXT) for each in valid))
