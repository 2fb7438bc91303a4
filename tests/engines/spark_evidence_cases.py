"""Statements of every call that analysts may write over rows in Spark, some at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from helpers.dialects import SPARK

from dpsql.engines.spark.expressions import SPARK_ROWS
from dpsql.survey.forms import forms
from dpsql.survey.sameness import case_of, unjudged

_TOGETHER = 15
_SPARK = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "INTEGER": "INT"}


def evident() -> Iterator[str]:
    """The calls that are not refused, over columns of no table."""
    dialect = unjudged(SPARK.verdicts.made_with)
    for types, some in groupby(forms(), lambda form: form.types):
        read = [SPARK_ROWS.column_type(type_) for type_ in types]  # of narrow ones, wider
        if None in read:
            continue
        cases = [
            case
            for form in some
            if (case := case_of(form, dialect)) is not None
            and (not case.call or SPARK.verdicts.objection(case.call) is None)
        ]
        columns = ", ".join(
            f"CAST(NULL AS {_SPARK.get(type_, type_)}) AS `{name}`"
            for name, type_ in zip("ab", map(str, read), strict=False)
        )
        for at in range(0, len(cases), _TOGETHER):
            listed = ", ".join(
                f"{case.server.render(SPARK.renderer)} AS `x{place}`"
                for place, case in enumerate(cases[at : at + _TOGETHER])
            )
            yield f"SELECT {listed} FROM (SELECT {columns})"
