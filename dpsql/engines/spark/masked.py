"""Statements of Spark's as they are read: without literals, and without names of anybody's.

What Spark tells of a plan is text, in which a literal stands as it is, and so do names. So what is
analysed for reading is the statement that is about to be sent with every literal in quotes replaced
by ``'0'``, and every name but dpsql's own by a digest. Both are found in the text that is sent, not
in what it was put together of: a literal that ends too early leaves its rest to be read as SQL.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX

_OWN: Final = re.compile(rf"`{INTERNAL_PREFIX}[a-z0-9_]+`")
_TOKEN: Final = re.compile(
    r"(?P<name>`(?:[^`]|``)*`)"
    r"|(?P<typed>(?:\bDATE|\bTIMESTAMP_NTZ)'[0-9][0-9 :.-]*'|\bINTERVAL '[0-9]+')"
    r"|(?P<text>(?<![A-Za-z0-9_])'(?:[^'\\]|\\.)*')"
    r"|(?P<rest>[A-Za-z0-9_]+|[ \n]+|(?!--|/\*|\*/)[-,.()\[\]*+/%<>=!|&?])",
    re.DOTALL,
)
_NO_TEXT: Final = "'0'"


class Unmasked(Exception):
    """A statement with a part where literals and names cannot be told apart."""


def mask_names(statement: str) -> str:
    """Replace the literals and names of a statement. Raises ``Unmasked``.

    Dates, timestamps and intervals of digits stay. Nothing but words, numbers and some signs may
    stand outside of quotes: no comment, no text of another form (``r'…'``, ``"…"``), no variable.

    >>> mask_names("SELECT `a``b` AS `__dpsql_k0`, 'it\\\\'s' FROM `__dpsql_visits_0`")
    "SELECT `c_ad22532e8ec7` AS `__dpsql_k0`, '0' FROM `__dpsql_visits_0`"
    """
    found, end = [], 0
    for token in _TOKEN.finditer(statement):
        if token.start() != end:
            raise Unmasked
        end = token.end()
        if token["text"] is not None:
            found.append(_NO_TEXT)
        elif token["name"] is not None:
            found.append(_masked_name(token["name"]))
        else:
            found.append(token[0])
    if end != len(statement):
        raise Unmasked
    return "".join(found)


def masked_name(name: str) -> str:
    """Return a mask for a name: one word, the same for every case of the name.

    >>> masked_name("Uid") == masked_name("uid")
    True
    """
    return f"c_{hashlib.sha256(name.lower().encode()).hexdigest()[:12]}"


@lru_cache(maxsize=4096)
def _masked_name(quoted: str) -> str:
    if _OWN.fullmatch(quoted):
        return quoted
    return f"`{masked_name(quoted[1:-1].replace('``', '`'))}`"
