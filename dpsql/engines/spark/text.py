"""Names in Spark's SQL: quoted, of the views of tables, and of what statements are given."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import SqlRenderer
from dpsql.core.table_name import TableName

SPARK_GIVEN: Final = f"{INTERNAL_PREFIX}given"
"""The view of the integers that are given when a statement runs, in its only column ``id``."""
_PLAIN: Final = re.compile(r"[^A-Za-z0-9]+")


def spark_quote(name: str) -> str:
    """Write a quoted identifier.

    >>> spark_quote("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


class _Renderer:
    """Writes names and literals of Spark's SQL."""

    def name(self, text: str) -> str:
        """Write an identifier in quotes."""
        return spark_quote(text)

    def text(self, value: str) -> str:
        """Write a string literal: backslashes begin escapes there."""
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"


SPARK_TEXT: Final[SqlRenderer] = _Renderer()
"""How SQL is written that Spark reads: the only place where names and literals become its text."""


def view_of(name: TableName) -> str:
    """Name the view of a table: by letters of its name, and a digest of its key."""
    digest = hashlib.sha256(name.key.encode()).hexdigest()[:16]
    return f"{INTERNAL_PREFIX}{_PLAIN.sub('_', name.table)[:40].lower()}_{digest}"
