"""``dpsql audit``: whether a server's audit log is as it was written."""

from __future__ import annotations

from pathlib import Path

import click

from dpsql.interfaces.cli import options


@click.command(
    epilog=options.examples(
        "dpsql audit",
        "dpsql audit --audit /var/log/dpsql/audit.jsonl --head 5d3c…",
    )
)
@options.audit
@click.option("--head", help="A head that was noted: the log has to have it still.")
def audit_command(audit: Path, head: str | None) -> None:
    """Check the chain of a server's audit log, and print its head.

    Each line has the hash of the line before, so that a change shows. Whoever can change the
    file can make all lines fit again, but not keep the head: note it elsewhere from time to time.
    """
    from dpsql.server.audit import verify_audit

    found = verify_audit(audit, head)
    if not found.lines:
        click.echo("The audit log has no lines yet.")
        return
    click.echo(f"{found.lines:,} lines, {found.first} to {found.last}: each fits the one before.")
    click.echo(f"head {found.head}")
