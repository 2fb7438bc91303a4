"""The offer to survey an engine of which nothing is known, by the commands of an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpsql.survey.keep import Versioned


def survey_if_wanted(database: Versioned, wanted: bool = False, *, ask: bool) -> None:
    """Survey the engine of a database, where that was asked for or is agreed to.

    ``ask``: somebody is there to agree. Nobody is asked of an engine that has been surveyed.
    """
    from dpsql.engines.opening import unsurveyed

    missing = unsurveyed(database.version)
    if not wanted and missing and ask:
        named = " and ".join(map(str, missing))
        wanted = click.confirm(
            f"Nothing is known of {named}: what its functions compute, and which of them can fail "
            "on data. Find out now? It takes some minutes and reads no data.",
            default=True,
            err=True,
        )
    if wanted:
        from dpsql.survey.keep import keep_surveys

        for kept in keep_surveys(database):
            click.echo(f"What is known of the engine: {kept}", err=True)
