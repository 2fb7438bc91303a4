"""Names in Spark's SQL: quoted, of the views of tables, and of what statements are given."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
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


def view_of(name: TableName) -> str:
    """Name the view of a table: by letters of its name, and a digest of its key."""
    digest = hashlib.sha256(name.key.encode()).hexdigest()[:16]
    return f"{INTERNAL_PREFIX}{_PLAIN.sub('_', name.table)[:40].lower()}_{digest}"
