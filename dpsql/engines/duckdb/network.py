"""Network files: DuckDB's extension that reads them, secrets, and the files of a pattern.

All of it happens before a connection is locked. Nothing is downloaded but the data: an extension
that is not installed is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import duckdb

from dpsql.core.data_files import DataFiles, shown_address
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, bare_word, digits, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.duckdb.extensions import load_extension
from dpsql.engines.embedded.running import execute
from dpsql.errors import InterfaceError

Secret: TypeAlias = Mapping[str, str | int | bool | Mapping[str, str]]
"""The options of DuckDB's CREATE SECRET by name, of which ``type`` is one."""

_READS_FILES: Final = "httpfs"
_OF_PROVIDERS: Final = {"credential_chain": "aws"}
"""The extensions that get secrets from somewhere else, by what the secret's provider is."""
_TYPES: Final = frozenset({"http", "s3", "gcs", "r2"})
_OPTION: Final = re.compile(r"[a-z][a-z0-9_]*")
_KNOWN_STATUS: Final = {
    401: "wants to know who asks",
    403: "does not let this user read it",
    404: "has no such file",
}


def reach(connection: duckdb.DuckDBPyConnection, secrets: Sequence[Secret]) -> None:
    """Let a connection that is not locked yet read files of the network.

    Raises ``InterfaceError``: ``extension_missing`` where DuckDB's extension is not installed,
    ``secret_unknown`` for a secret that DuckDB does not take.
    """
    for secret in secrets:
        _refuse_malformed(secret)
    providers = {str(secret.get("provider", "")).lower() for secret in secrets}
    needed = [_READS_FILES, *(_OF_PROVIDERS[each] for each in providers & _OF_PROVIDERS.keys())]
    for extension in needed:
        load_extension(
            connection, extension, "files of the network", "copy the files to this computer"
        )
    for number, secret in enumerate(secrets):
        _create(connection, f"{INTERNAL_PREFIX}secret_{number}", secret)


def listed(connection: duckdb.DuckDBPyConnection, files: DataFiles) -> DataFiles:
    """List the files that a pattern matches now; those of no pattern are listed.

    Raises ``InterfaceError`` if there are none, too many, or if they cannot be listed.
    """
    if files.pattern is None:
        return files
    try:
        rows = execute(
            connection, sql("SELECT file FROM glob({})", literal(files.pattern))
        ).fetchall()
    except duckdb.Error as error:
        refusal = unreachable(files, error)  # this computer's own are listed without one
    else:
        return files.listed(name for (name,) in rows)
    raise refusal


def unreachable(files: DataFiles, error: duckdb.Error) -> InterfaceError:
    """Build the error for files of the network that could not be read while they were opened."""
    shown = shown_address(files.paths[0])
    status = getattr(error, "status_code", None)
    if status is None:
        reason = f"{shown} cannot be read as {files.kind.name}, or the server cannot be reached"
    else:
        reason = f"{shown}: the server {_KNOWN_STATUS.get(status, f'answers with {status}')}"
    return InterfaceError(
        reason,
        code="table_unreadable",
        hint="Check the address, and who may read it. Credentials for s3:// are those of the "
        "environment, AWS_ACCESS_KEY_ID and the like, or secrets of "
        "DuckDBEngine(files=…, secrets=[…]).",
    )


def _refuse_malformed(secret: Secret) -> None:
    """Refuse a secret that is no mapping of options, without showing its contents."""
    kind = secret.get("type") if isinstance(secret, Mapping) else None
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise _unknown(f"a secret must be a dict with a type: {', '.join(sorted(_TYPES))}")
    for name, value in secret.items():
        if not isinstance(name, str) or _OPTION.fullmatch(name) is None:
            raise _unknown(f"a secret of type {kind} has an option without a name of letters")
        texts = isinstance(value, Mapping) and all(
            isinstance(each, str) for pair in value.items() for each in pair
        )
        if not texts and not isinstance(value, str | int | bool):
            raise _unknown(f"{name} of a secret of type {kind} is no text, number or dict of texts")


def _create(connection: duckdb.DuckDBPyConnection, name: str, secret: Secret) -> None:
    options = join(", ", (sql("{} {}", bare_word(n), _written(v)) for n, v in secret.items()))
    try:
        execute(connection, sql("CREATE TEMPORARY SECRET {} ({})", quoted(name), options))
    except duckdb.Error:
        failed = True
    else:
        failed = False
    if failed:
        # The engine's own text may quote what is secret.
        raise _unknown(
            f"DuckDB does not take a secret of type {secret['type']} with {', '.join(secret)}"
        )


def _unknown(reason: str) -> InterfaceError:
    return InterfaceError(
        reason,
        code="secret_unknown",
        hint="Give the options of DuckDB's CREATE SECRET: secrets=[{'type': 's3', 'key_id': '…', "
        "'secret': '…', 'region': '…'}]. Secrets that DuckDB has stored are not looked at.",
    )


def _written(value: str | int | bool | Mapping[str, str]) -> Sql:
    if isinstance(value, Mapping):
        pairs = (sql("{}: {}", literal(name), literal(text)) for name, text in value.items())
        return sql("MAP {{{}}}", join(", ", pairs))
    if isinstance(value, bool):
        return sql("true") if value else sql("false")
    return literal(value) if isinstance(value, str) else digits(value)
