"""``dpsql budget verify``, ``head`` and ``export``: the ledger's chain, checked and copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.core.kept_files import refuse_kept
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import existing, located
from dpsql.interfaces.cli.failures import FAILED
from dpsql.interfaces.cli.printing import progress_bar, remark, show
from dpsql.interfaces.new_files import new_file

if TYPE_CHECKING:
    from dpsql.ledger import Ledger


@click.command(
    short_help="Check the ledger's chain, sums and rules.",
    epilog=options.examples(
        "dpsql budget verify -d demo-data/demo.duckdb",
        "dpsql budget verify -d demo-data/demo.duckdb --heads heads.txt",
    ),
)
@options.place_of_ledger
@options.formats("table", "json")
@click.option("--head", "heads", multiple=True, help="A head that was written down; repeatable.")
@click.option(
    "--heads",
    "file",
    type=click.Path(path_type=Path),
    help="A file of heads, one per line; what follows a # is left out.",
)
@options.quiet
@click.pass_context
def verify_command(
    ctx: click.Context,
    database: str | Path | None,
    policies: Path,
    ledger: str | None,
    format_: str,
    heads: tuple[str, ...],
    file: Path | None,
    quiet: bool,
) -> None:
    """Recompute the ledger's chain, sums and rules. Exits with 2 at the first broken place.

    Heads that were written down elsewhere also tell whether the ledger still goes on from there: an
    older copy that was put back does not.
    """
    from dpsql.ledger import Head

    anchors = [Head.parse(text) for text in [*heads, *([] if file is None else _lines(file))]]
    place = located(ledger, policies, database)
    with existing(place) as opened, progress_bar(quiet, "Verifying"):
        found = opened.verify(anchors)
    if format_ == "json":
        from dpsql.present.budget_files import to_json, verification_dict

        click.echo(to_json(verification_dict(found, anchors)))
    else:
        from dpsql.present.ledger import verification_panel

        show(verification_panel(found, len(anchors)))
    if not found.sound:
        ctx.exit(FAILED)


@click.command(
    short_help="Print the end of the chain, to be kept elsewhere.",
    epilog=options.examples("dpsql budget head -d demo-data/demo.duckdb >> heads.txt"),
)
@options.place_of_ledger
@options.formats("table", "json")
def head_command(
    database: str | Path | None, policies: Path, ledger: str | None, format_: str
) -> None:
    """Print the end of the chain, to be written down where the ledger's users cannot write."""
    with existing(located(ledger, policies, database)) as opened:
        found = opened.head()
    if format_ == "json":
        from dpsql.present.budget_files import to_json

        click.echo(to_json({"head": str(found)}))
    else:
        click.echo(str(found))


@click.command(
    short_help="Write all accounts and questions as JSON or CSV.",
    epilog=options.examples(
        "dpsql budget export -d demo-data/demo.duckdb -o ledger.json",
        "dpsql budget export -d demo-data/demo.duckdb -f csv --table accounts",
    ),
)
@options.place_of_ledger
@options.formats("json", "csv")
@click.option(
    "--table",
    type=click.Choice(["entries", "accounts"]),
    default="entries",
    show_default=True,
    help="What CSV holds; JSON holds both.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write to a new file.  [default: standard output]",
)
@click.option("--force", is_flag=True, help="Replace the --output file if it exists.")
@options.quiet
def export_command(
    database: str | Path | None,
    policies: Path,
    ledger: str | None,
    format_: str,
    table: str,
    output: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Write all accounts and all questions with their costs; not the answers that are stored."""
    with ExitStack() as stack:
        place = located(ledger, policies, database)
        if output is not None:
            refuse_kept(output, (place, database, policies, options.settings_file()))
        opened = stack.enter_context(existing(place))
        write = None if output is None else stack.enter_context(new_file(output, force))
        for text in _exported(opened, policies, format_, table):
            write(text.encode()) if write else click.echo(text, nl=False)
    if output is not None:
        remark(f"Wrote {output}.", quiet)


def _exported(ledger: Ledger, policies: Path, format_: str, table: str) -> Iterator[str]:
    from dpsql.budget import account_reports, all_entries
    from dpsql.policy.load import load_policy_if_any
    from dpsql.present import budget_files as output

    head = ledger.head()
    if format_ == "csv" and table == "entries":
        rows = map(output.entry_row, all_entries(ledger, head))
        yield from output.csv_pieces(output.ENTRY_COLUMNS, rows)
        return
    policy = load_policy_if_any(policies)
    accounts = account_reports(ledger, policy)
    if format_ == "csv":
        yield output.to_csv(output.ACCOUNT_COLUMNS, map(output.account_row, accounts))
    else:
        yield from output.ledger_json(
            head, accounts, ledger.suspensions(), ledger.renames(), all_entries(ledger, head)
        )


def _lines(file: Path) -> list[str]:
    from dpsql.errors import InterfaceError

    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InterfaceError(
            f"{file} cannot be read as text",
            code="file_not_readable",
            hint="Give a file with one head per line, as `dpsql budget head` prints it.",
        ) from None
    return [text for line in lines if (text := line.partition("#")[0].strip())]
