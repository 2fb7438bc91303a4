"""The ``dpsql`` command: a thin layer over :mod:`dpsql.session` that prints and sets exit codes.

One module per command; ``failures`` has the exit codes.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

import dpsql
from dpsql.cli import budget, calibrate, demo, owner, query
from dpsql.cli.failures import Commands


def main() -> NoReturn:
    """The ``dpsql`` command's entry point."""
    for stream in (sys.stdout, sys.stderr):
        # A key of the data must not break a terminal that cannot write it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="dpsql")
    sys.exit(0)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dpsql.__version__, prog_name="dpsql")
def cli() -> None:
    """Differentially private SQL: ask, see the price, and stay within a budget."""


for command in (
    query.query,
    query.explain,
    budget.budget,
    owner.check,
    owner.init,
    calibrate.calibrate,
    demo.demo,
):
    cli.add_command(command)
