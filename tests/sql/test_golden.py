"""The SQL that reads private rows is the one of the golden files, to the byte."""

from __future__ import annotations

import pytest
from golden_files import Case, cases, files, written

CASES = [case for file in files() for case in cases(file)]


@pytest.mark.slow
@pytest.mark.few(1000)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.title}")
def test_generated_sql_is_the_golden_one(case: Case) -> None:
    """After a change that is meant: ``python tests/sql/write_golden.py``, and read the diff."""
    assert case.text == written(case)


def test_no_two_cases_have_one_title_and_there_are_many() -> None:
    titles = [case.title for case in CASES]
    assert len(set(titles)) == len(titles) >= 40
