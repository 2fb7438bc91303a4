"""Statements of every call that analysts may write over rows in Spark, some at once."""

from __future__ import annotations

from collections.abc import Iterator

from spark_survey import cases_of, worlds
from surveyed import SPARK

from dpsql.engines.verdicts import DIFFERS

_TOGETHER = 15
_SPARK = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "INTEGER": "INT"}


def evident() -> Iterator[str]:
    """The calls that are not refused, over columns of no table."""
    verdicts = SPARK.verdicts.calls
    for types, texts in worlds(pairs=True):
        cases = [
            case
            for case in cases_of(types, texts)
            if not verdicts.get(case.call, DIFFERS).startswith(DIFFERS)
        ]
        columns = ", ".join(
            f"CAST(NULL AS {_SPARK.get(type_, type_)}) AS `{name}`"
            for name, type_ in zip("ab", types, strict=False)
        )
        for at in range(0, len(cases), _TOGETHER):
            listed = ", ".join(
                f"{case.spark} AS `x{place}`"
                for place, case in enumerate(cases[at : at + _TOGETHER])
            )
            yield f"SELECT {listed} FROM (SELECT {columns})"
