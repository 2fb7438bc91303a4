"""Verdicts on an engine's calls: the results of a survey of one version.

A table has the engine's name, its version, and a verdict on each call that was tried. The package
has tables of the versions that dpsql was made with, and owners make those of others, with ``dpsql
check --survey``. What is not in its table is refused, whichever engine it is, and so is an engine
without a table.

Engines have two parts to play, so verdicts are of two kinds, and no engine has both:

* *Whether a call can fail*, of DuckDB. It says what every question means: all statements are bound
  and examined on an empty one, whatever holds the rows. It has TRY, so ``total`` is what never
  fails, ``null`` what fails only in ways that TRY turns into NULL, and ``fails: …`` all else.
* *Whether a call is the same*, of servers. They have no TRY, and no meaning of their own: what
  dpsql writes for a call must not fail on any row, and must be what DuckDB computes. It is ``same``
  where it is written alike, ``rewritten`` where it is written otherwise, ``same but …`` where the
  page of the engine tells the difference, and else ``differs: …``.

Decimals are no single type on servers: what holds 4 digits may fail with 38. A verdict is on one of
four kinds of them, by the digits that DuckDB stores in 16, 32, 64 and 128 bits, and is found at the
ends of their widths and scales.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from dpsql.core.sql_types import SqlType
from dpsql.errors import InterfaceError

TOTAL: Final = "total"
"""The verdict on what never fails."""
NULL: Final = "null"
"""The verdict for failures that TRY turns into NULL."""
FAILS: Final = "fails"
"""How the verdict begins on what fails otherwise."""

SAME: Final = "same"
"""The beginning of verdicts for equal results on all tried rows."""
REWRITTEN: Final = "rewritten"
"""The verdict on what is written otherwise, and then means the same on all rows."""
DIFFERS: Final = "differs"
"""How the verdict begins on what fails there, or computes something else."""


# -- versions -------------------------------------------------------------------------------------

_NUMBERS: Final[Mapping[str, int | None]] = {"duckdb": None, "postgresql": 1, "spark": 2}
"""How many numbers of a version make another engine of it, as far as evidence goes.

DuckDB's functions change in any release: all of it counts. Minor releases of PostgreSQL mend errors
and change no results, and so do Spark's third numbers. What was surveyed is trusted as far as that.
"""
_TITLES: Final = {"duckdb": "DuckDB", "postgresql": "PostgreSQL", "spark": "Spark"}
_PLAIN: Final = re.compile(r"[0-9][\w.+-]*")


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """An engine and its version, as far as evidence depends on it: PostgreSQL 15, Spark 4.3."""

    engine: str
    version: str

    @classmethod
    def of(cls, engine: str, told: str) -> EngineVersion:
        """Read the version that an engine tells. Raises ``InterfaceError`` where that is none.

        >>> [str(EngineVersion.of(*each)) for each in (("postgresql", "15.4"), ("spark", "4.3.0"))]
        ['PostgreSQL 15', 'Spark 4.3']
        """
        if _PLAIN.fullmatch(told) is None:  # it becomes the name of a file
            raise InterfaceError(
                f"the {_TITLES[engine]} does not say which version it is",
                code="server_unsupported",
                hint="dpsql knows what its functions do of versions that were surveyed.",
            )
        return cls(engine, ".".join(told.split(".")[: _NUMBERS[engine]]))

    def __str__(self) -> str:
        """Name it for people."""
        return f"{_TITLES[self.engine]} {self.version}"

    @property
    def file_name(self) -> str:
        """The name of the file of its table."""
        return f"{self.engine}-{self.version}.json"


# -- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdicts on the calls of one version of an engine, such as ``+(INTEGER, INTEGER)``."""

    made_with: EngineVersion
    calls: Mapping[str, str]

    def objection(self, call: str, *, caught: bool = False) -> str | None:
        """Say why a call is refused; None if it is not.

        ``caught``: what it fails with becomes NULL where it stands.
        """
        verdict = self.calls.get(call)
        if verdict is None:
            return "it was never compared with what DuckDB computes"
        if verdict in (TOTAL, REWRITTEN) or verdict.startswith(SAME):
            return None
        if verdict == NULL and caught:
            return None
        if verdict.startswith(DIFFERS):
            return "it computes something else there"
        return "it may fail on a row"

    def text(self) -> str:
        """Write the table as it is kept."""
        made = {"engine": self.made_with.engine, "version": self.made_with.version}
        table = made | {"calls": dict(sorted(self.calls.items()))}
        return json.dumps(table, indent=0, ensure_ascii=True) + "\n"


def verdicts_on(version: EngineVersion, directory: Path | None = None) -> Verdicts:
    """Load the verdicts on a version of an engine: the package's own, or what its owner has made.

    ``directory`` is where the owner's tables are, by default ``owners_directory()``. Raises
    ``InterfaceError`` (``engine_not_surveyed``) for versions without a table.
    """
    text = _packaged(version.file_name)
    if text is None:
        made = (directory or owners_directory()) / version.file_name
        text = made.read_text(encoding="utf-8") if made.is_file() else None
    if text is None:
        raise InterfaceError(
            f"nothing is known of {version}: what its functions compute, and which of them can "
            "fail on data",
            code="engine_not_surveyed",
            hint="Have `dpsql check --survey` find out: it takes some minutes and reads no data. "
            "Or use a version that dpsql was made with.",
        )
    try:
        found = _read(text)
    except (ValueError, KeyError, TypeError):  # no JSON, or another one
        found = None
    if found is None or found.made_with != version:
        raise InterfaceError(
            f"the file of what is known of {version} holds something else",
            code="engine_not_surveyed",
            hint=f"Remove {version.file_name} and run `dpsql check --survey`.",
        )
    return found


def is_surveyed(version: EngineVersion) -> bool:
    """Tell whether there is a table of a version."""
    try:
        verdicts_on(version)
    except InterfaceError:
        return False
    return True


def owners_directory() -> Path:
    """Return where the owner's tables are: ``dpsql/surveys`` among this user's data."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "dpsql" / "surveys"


@cache
def _read(text: str) -> Verdicts:
    table = json.loads(text)
    return Verdicts(EngineVersion(table["engine"], table["version"]), table["calls"])


@cache
def _packaged(file_name: str) -> str | None:
    found = files("dpsql.engines.evidence").joinpath("surveys", file_name)
    return found.read_text(encoding="utf-8") if found.is_file() else None


# -- the names of types in calls ------------------------------------------------------------------

_STORED: Final = (4, 9, 18, 38)  # decimal digits of 16, 32, 64 and 128 bits
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*\d+\)")


def verdict_type(type_: SqlType) -> str:
    """Name a type as verdicts on servers do: decimals by the most digits stored as theirs are.

    >>> verdict_type(SqlType.of("DECIMAL(12,2)")), verdict_type(SqlType.of("BIGINT"))
    ('DECIMAL(18)', 'BIGINT')
    """
    found = _DECIMAL.fullmatch(type_.text)
    if found is None:
        return type_.text
    return f"DECIMAL({next(most for most in _STORED if int(found[1]) <= most)})"
