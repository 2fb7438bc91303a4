"""Settings of Hypothesis: the same examples on every run, as many as the environment says."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

LENGTH: Final = float(os.environ.get("DPSQL_LENGTH", "1"))
"""How many times as many examples the long searches try: ``DPSQL_LENGTH=3 make slow``."""


def long(examples: int, least: int = 1) -> int:
    """How many examples a long search tries that usually tries so many."""
    return max(least, round(examples * LENGTH))


def examples_of(examples: int) -> settings:
    """The same examples on every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def many_examples_of(examples: int) -> settings:
    """Examples of a long search: the first of them are the same on every run."""
    return examples_of(long(examples))
