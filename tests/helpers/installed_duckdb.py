"""What tests must know of the DuckDB that they run on."""

from __future__ import annotations

from typing import Final

import duckdb
import pytest

from dpsql.engines.embedded.lockdown import LOCKDOWN_SETTINGS
from dpsql.engines.embedded.versions import Config

IS_DUCKDB_1: Final = duckdb.__version__.startswith("1.")
since_2_0: Final = pytest.mark.skipif(IS_DUCKDB_1, reason="DuckDB 1 has, or reads, nothing of it")
"""Of what DuckDB 1 cannot do, and dpsql refuses there."""
until_2_0_0: Final = pytest.mark.skipif(
    duckdb.__version__ not in ("1.5.6", "2.0.0"), reason="DuckDB 2.0.1 does otherwise"
)
"""Of twins that show why a net is there, whose mistake DuckDB 2.0.1 does not make."""
OF_ALL_TYPES: Final[Config] = {"storage_compatibility_version": "latest"}
"""How a file is opened that may have columns of all types."""
_ZERO: Final = "error_on_division_by_zero"
NULL_FOR_ZERO: Final = f"SET {_ZERO} = false" if _ZERO in LOCKDOWN_SETTINGS else "SELECT 1"
"""A statement after which a division by zero is NULL, as it always is in DuckDB 1."""
