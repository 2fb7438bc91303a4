"""The ``dpsql`` command: a thin layer over connections that prints and sets exit codes.

One module per command, loaded when it is called; ``registry`` lists them, ``failures`` has the exit
codes.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

import dpsql
from dpsql.interfaces.cli import config
from dpsql.interfaces.cli.registry import Commands

_SETTINGS = """\
Every option that commands share may also be set by an environment variable, such as DPSQL_DATABASE
for --database, or in dpsql.toml, in the working directory or above: see dpsql config. An option
goes before the environment, and that before the file."""

_OBJECTS_BEFORE_COLLECTION = 500_000


def main() -> NoReturn:
    """Run the ``dpsql`` command."""
    # Modules are no garbage: looking for some among them takes a tenth of a command's time.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    # Policies are checked by the models as written: no installed plugin is looked for, or may help.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for stream in (sys.stdout, sys.stderr):
        # A key of the data must not break a terminal that cannot write it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="dpsql")
    sys.exit(0)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_SETTINGS,
)
@click.version_option(dpsql.__version__, prog_name="dpsql")
@click.option(
    "--config",
    envvar="DPSQL_CONFIG",
    type=click.Path(path_type=Path),
    help="The settings file.  [default: the nearest dpsql.toml]",
)
@click.option(
    "--profile",
    envvar="DPSQL_PROFILE",
    shell_complete=config.profiles,
    help="A [profile.NAME] of the settings file.",
)
def cli(**_: object) -> None:
    """Ask in differentially private SQL, see the price, and stay within a budget."""
