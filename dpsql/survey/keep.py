"""Makes the tables of verdicts that an owner's database needs and nobody has made."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

import duckdb

from dpsql.engines.evidence.verdicts import EngineVersion, Verdicts, is_surveyed, owners_directory
from dpsql.errors import InterfaceError
from dpsql.survey.sameness import Server, survey_sameness
from dpsql.survey.totality import survey_totality


class Versioned(Protocol):
    """A database of which only the engine's version matters."""

    @property
    def version(self) -> EngineVersion:
        """The engine and its version."""


def keep_surveys(database: Versioned) -> Iterator[str]:
    """Survey the engine of a database, and the DuckDB that speaks for it, as far as nobody has.

    Yields where each table is kept, or that there was one. Raises ``InterfaceError``
    (``survey_not_kept``) if a table cannot be written.
    """
    yield _kept(EngineVersion.of("duckdb", duckdb.__version__), survey_totality)
    if database.version.engine != "duckdb":
        server = cast(Server, database)
        yield _kept(server.version, lambda: survey_sameness(server))


def _kept(version: EngineVersion, survey: Callable[[], Verdicts]) -> str:
    if is_surveyed(version):
        return f"{version} has been surveyed"
    return f"{version}: {_written(version, survey())}"


def _written(version: EngineVersion, verdicts: Verdicts) -> Path:
    directory = owners_directory()
    path = directory / version.file_name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=directory, encoding="utf-8", delete=False
        ) as whole:
            whole.write(verdicts.text())
        Path(whole.name).replace(path)
    except OSError:
        raise InterfaceError(
            f"the survey of the engine cannot be stored in {directory}",
            code="survey_not_kept",
            hint="Make the directory, or set XDG_DATA_HOME to one that this user may write to.",
        ) from None
    return path
