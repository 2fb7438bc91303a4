"""Names of datasets, analysts and sessions, which budgets belong to.

The ledger joins them by slashes to the paths of accounts. So none holds a slash, or characters that
cannot be seen, with which it could pass for another: two that look the same would be two budgets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

MAX_ACCOUNT_NAME: Final = 200
RULE: Final = "has 1 to 200 visible characters, no `/`, and single spaces inside"
"""The rule for names, in words that complete a sentence about a name."""

# Printable to Python, and yet not seen: fillers, joiners, variation selectors.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


def is_account_name(name: object) -> bool:
    """Tell whether a name may be part of an account's path: a dataset, analyst or session.

    In Unicode's normal form C, of at most ``MAX_ACCOUNT_NAME`` characters that can be seen, with
    single spaces between them.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_ACCOUNT_NAME or "/" in name:
        return False
    seen = name.isprintable() and _UNSEEN.search(name) is None
    whole = not unicodedata.category(name[0]).startswith("M")  # or it would join the slash before
    spaced = "  " not in f" {name} "
    return seen and whole and spaced and unicodedata.is_normalized("NFC", name)


def look_alikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find, in order, pairs of names that differ by letter case or Unicode's forms alone."""
    known: dict[str, str] = {}
    for name in dict.fromkeys(names):
        first = known.setdefault(_skeleton(name), name)
        if first != name:
            yield first, name


def _skeleton(name: str) -> str:
    """Return a form that look-alike names share."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)
