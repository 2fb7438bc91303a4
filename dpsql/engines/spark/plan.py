"""Reads the text of a plan of Spark's by the closed lists of :mod:`dpsql.engines.spark.forms`.

A plan is a line for each operator, below and to the right of those that it is read by. Below the
view of a table stands what the view is made of, which is not looked at: the view is one relation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.engines.spark.forms import (
    ANY_EXPRESSIONS,
    SPARK_AGGREGATES,
    SPARK_FUNCTIONS,
    SPARK_ON_ROWS,
    SPARK_OPERATORS,
    SPARK_SHAPES,
    SPARK_SIGNS,
    SPARK_TYPES,
    SPARK_WORDS,
)

_OWN: Final = rf"{INTERNAL_PREFIX}[a-z0-9_]+"
_LINE: Final = re.compile(r"((?:[: ]  )*(?:[:+]- )?)(([A-Za-z]+).*)")
_VIEW: Final = re.compile(rf"View \(`({_OWN})`, \[[a-z0-9_#L, ]*\]\)")


@dataclass(frozen=True, slots=True)
class SparkForms:
    """The lists that a plan is read by."""

    operators: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: SPARK_OPERATORS)
    called: frozenset[str] = SPARK_FUNCTIONS | SPARK_AGGREGATES | SPARK_ON_ROWS
    signs: frozenset[str] = SPARK_SIGNS
    words: frozenset[str] = SPARK_WORDS
    types: frozenset[str] = SPARK_TYPES
    shapes: Mapping[str, str] = field(default_factory=lambda: SPARK_SHAPES)
    lines: Mapping[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)
    token: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the patterns of operators and of the parts of expressions."""
        lines = {
            head: re.compile("|".join(form.replace(ANY_EXPRESSIONS, "(.+)") for form in forms))
            for head, forms in self.operators.items()
        }
        shapes = "|".join(self.shapes.values()) or "(?!)"
        token = re.compile(
            # Shapes first: they begin as other parts do.
            rf"(?P<whole>{shapes})"
            # A column, which is no query in an expression: that has a list of what it depends on.
            r"|(?P<shape>(?:[a-z_][a-z0-9_]*|NULL)#\d++L?+(?! \[)"
            r"|\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?)?"
            r"|\d+(?:\.\d+)?(?:E-?\d+)?(?![A-Za-z_])|[ ,()\[\]]"
            # What has been given no name has its expression for one.
            rf"|(?<=[)\d])#\d+L?|{_OWN})"
            r"|(?P<wide>[a-z]+)\(\d+,\d+\)"
            r"|(?P<called>[A-Za-z_][A-Za-z0-9_]*)\("
            r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
            r"|(?P<sign>[-+*/%<>=!|&^~]+)"
        )
        object.__setattr__(self, "lines", lines)
        object.__setattr__(self, "token", token)


class UnknownWord(Exception):
    """A plan has something that is not in the lists."""


SPARK_FORMS: Final = SparkForms()


def views_read(plan: str, forms: SparkForms = SPARK_FORMS) -> Counter[str]:
    """Read a plan completely; returns the views it scans, with the number of scans.

    Raises ``UnknownWord`` for whatever is not in the lists.
    """
    found: Counter[str] = Counter()
    below: int | None = None
    for text in plan.rstrip("\n").split("\n"):
        line = _LINE.fullmatch(text)
        if line is None:
            raise UnknownWord(text)
        depth = len(line[1])
        if below is not None and depth > below:
            continue
        view = _VIEW.fullmatch(line[2])
        below = depth if view is not None else None
        if view is not None:
            found[view[1]] += 1
        else:
            _read_operator(line[3], line[2], forms)
    return found


def _read_operator(head: str, line: str, forms: SparkForms) -> None:
    form = forms.lines.get(head)
    operator = form.fullmatch(line) if form is not None else None
    if operator is None:
        raise UnknownWord(line)
    for expressions in operator.groups():
        if expressions is not None:
            _read_expressions(expressions, forms)


def _read_expressions(text: str, forms: SparkForms) -> None:
    end = 0
    for token in forms.token.finditer(text):
        if token.start() != end or not _is_known(token, forms):
            raise UnknownWord(text[end : end + 40])
        end = token.end()
    if end != len(text):
        raise UnknownWord(text[end : end + 40])


def _is_known(token: re.Match[str], forms: SparkForms) -> bool:
    if token["whole"] is not None or token["shape"] is not None:
        return True
    if token["called"] is not None:
        return token["called"] in forms.called
    if token["sign"] is not None:
        return token["sign"] in forms.signs
    if token["wide"] is not None:
        return token["wide"] in forms.types
    return token["word"] in forms.words or token["word"] in forms.types
