"""Serves the demo's data: ``make serve-demo``, or ``python tools/serve_demo.py [DIRECTORY]``.

Enrols a user with a new password and new tokens, prints what to type into psql, Python, curl and
the client of a language model, and serves on this machine alone until Ctrl-C.
"""

from __future__ import annotations

import secrets
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import cli
from dpsql.interfaces.demo.data import demo_database
from dpsql.server.people.records import Role, TokenScope
from dpsql.server.people.users import open_or_create_users

POLICIES: Final = Path(__file__).parents[1] / "policies.yaml"
WIRE: Final = "127.0.0.1:5439"
WEB: Final = "127.0.0.1:8439"
QUESTION: Final = (
    "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 5"
)


def enrolled(users: Path) -> tuple[str, str, str]:
    """Give the user ana a new password, a new token and one for an agent; returns them."""
    password = "-".join(secrets.token_hex(3) for _ in range(4))
    with open_or_create_users(users, None) as opened:
        if any(user.name == "ana" for user in opened.users()):
            opened.set_password("ana", password)
        else:
            opened.add("ana", password, [Role.ANALYST], ["ana"])
        expires = datetime.now(UTC) + timedelta(days=1)
        tokens = []
        for name, scopes in (("demo", None), ("assistant", [TokenScope.AGENT])):
            with suppress(InterfaceError):  # there was none
                opened.revoke_token("ana", name)
            issued = opened.issue_token("ana", name, scopes=scopes, expires=expires)
            tokens.append(issued.secret)
        return password, tokens[0], tokens[1]


def words(password: str, token: str, agent: str, wire: str = WIRE, web: str = WEB) -> str:
    """Write what to type."""
    host, _, port = wire.partition(":")
    return f"""
psql, or any client of PostgreSQL:

  PGPASSWORD={password} psql "host={host} port={port} dbname=dpsql-demo user=ana" \\
    -c "{QUESTION}"

Python:

  import dpsql
  con = dpsql.connect("http://{web}", token="{token}")
  print(con.sql("{QUESTION}"))

curl:

  curl -s -H "Authorization: Bearer {token}" -H "Content-Type: application/json" \\
    -d '{{"sql": "{QUESTION}"}}' http://{web}/v1/query

A language model's client (Model Context Protocol), as one of its mcpServers:

  "demo": {{"type": "http", "url": "http://{web}/mcp",
           "headers": {{"Authorization": "Bearer {agent}"}}}}

Ctrl-C ends the server.
"""


def main(directory: Path, wire: str = WIRE, web: str = WEB) -> None:
    """Build what is missing, and serve."""
    database = demo_database(directory)
    users = directory / "users.db"
    sys.stdout.write(words(*enrolled(users), wire, web))
    sys.stdout.flush()
    served = ["serve", "-d", str(database), "-p", str(POLICIES), "--users", str(users)]
    cli([*served, "--audit", str(directory / "audit.jsonl"), "--listen", wire, "--http", web])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data"), *sys.argv[2:4])
