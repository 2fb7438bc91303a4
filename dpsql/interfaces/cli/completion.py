"""``dpsql completion``."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from dpsql.interfaces.cli.options import examples

_INSTALLED_BY: Final = {
    "bash": "Put this line at the end of ~/.bashrc, then open a new terminal:\n"
    'eval "$(dpsql completion bash)"',
    "zsh": "Put this line at the end of ~/.zshrc, after compinit, then open a new terminal:\n"
    'eval "$(dpsql completion zsh)"',
    "fish": "Run this once, then open a new terminal:\n"
    "dpsql completion fish > ~/.config/fish/completions/dpsql.fish",
}


@click.command(
    epilog=examples("dpsql completion bash", "dpsql completion zsh", "dpsql completion fish")
)
@click.argument("shell", type=click.Choice(tuple(_INSTALLED_BY)))
@click.pass_context
def completion_command(ctx: click.Context, /, shell: str) -> None:
    """Print a script that makes SHELL complete dpsql's commands, options and their values.

    Values are formats, mechanisms, files, profiles of the settings file and, from the policies
    file, analysts. How to install the script is said at its end.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows the shells above"
    script = found(ctx.find_root().command, {}, "dpsql", "_DPSQL_COMPLETE").source()
    told = "".join(f"# {line}\n" for line in _INSTALLED_BY[shell].split("\n"))
    click.echo(f"{script.rstrip()}\n\n{told}", nl=False)
