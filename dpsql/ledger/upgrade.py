"""Ledgers of former versions: what becomes of the windows that they have open."""

from __future__ import annotations

from dpsql.ledger.accounts import AccountNode, carry, grown, nodes_of
from dpsql.ledger.backend import Backend
from dpsql.ledger.carried import amount_of, streams_of
from dpsql.ledger.chain import Kind
from dpsql.ledger.journal import Journal
from dpsql.ledger.schema import SCHEMA_VERSION
from dpsql.privacy.accounting.zcdp import Amount


def upgrade_chain(sql: Backend, who: str) -> None:
    """Write into the chain that the ledger has this version from now on.

    Present windows count from now on what they would have opened with: the streams that were bought
    before and go on.
    """
    journal = Journal(sql, who, late=True)
    paths = [path for (path,) in sql.execute("SELECT path FROM accounts ORDER BY path")]
    found = [(node, _missing(sql, node)) for node in nodes_of(sql, paths).values()]
    found.sort(key=lambda each: each[0].path)
    panes = [(node.window, added) for node, added in found if any(added.units)]
    states = [grown(pane, added).state for pane, added in panes]
    journal.note(Kind.UPGRADE, states=states, version=SCHEMA_VERSION)
    for pane, added in panes:
        carry(journal, pane, added)
    journal.finish()


def _missing(sql: Backend, node: AccountNode) -> Amount:
    return amount_of(
        stream.amount
        for stream in streams_of(sql, node.path)
        if stream.goes_on and stream.entry < node.window.opened
    )
