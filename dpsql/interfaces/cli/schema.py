"""``dpsql schema``."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from dpsql.interfaces.cli.options import examples
from dpsql.interfaces.new_files import new_file


@click.command(epilog=examples("dpsql schema", "dpsql schema --output policies.schema.json"))
@click.option(
    "--output",
    "-o",
    "target",
    type=click.Path(path_type=Path),
    help="Write it to a new file, which policies in the same directory refer to.",
)
@click.option("--force", is_flag=True, help="Replace the --output file if it exists.")
def schema_command(target: Path | None, force: bool) -> None:
    """Print the JSON schema of policies files.

    Editors complete and check a policies file that begins with this line, as drafts of dpsql init
    do: # yaml-language-server: $schema=policies.schema.json
    """
    text = (files("dpsql") / "policies.schema.json").read_bytes()
    if target is None:
        click.echo(text, nl=False)
        return
    with new_file(target, force) as write:
        write(text)
    click.echo(f"Wrote {target}.", err=True)
