"""Constants of functions of a row: the formats, patterns and texts that may stand there.

Formats and regular expressions that an engine does not know, or that cost it too much, would fail
on rows; others make a text longer than anybody counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.syntax.json_paths import MOST_OF_PATH, read_path, write_path
from dpsql.syntax.moment_formats import DIRECTIVES, MOST_OF_FORMAT, read_format
from dpsql.syntax.patterns import ONE_CHARACTER, PatternRefused, like_pattern, read_pattern

Objection: TypeAlias = tuple[str, str]
"""The reason of a refusal, and the hint."""

MOST_OF_CONSTANT: Final = 1000
"""Characters of a text that stands in the place of others."""
MOST_OF_DISTANCE: Final = 100
"""Characters of a text that others are compared with letter by letter."""
MOST_OF_MARK: Final = 20
"""Characters between the parts of a text."""
MOST_OF_PARTS: Final = (1000, 50)
"""Parts of a text that are asked for, between single characters and between longer marks."""
MOST_OF_ONES: Final = 20
"""Signs for any one character, in a pattern whose pieces are searched for."""
MOST_OF_PLACES: Final = 2**31
"""Places in a list."""
_PATTERNS: Final = (
    "Patterns are made of characters, lists of them ([a-z], \\d, \\w, \\s), groups, alternatives, "
    "^ and $, and of repetitions (*, +, ?, {2,5}) that do not stand in one another; LIKE has "
    "simpler ones."
)


def text_literal_of(node: object) -> str | None:
    """Read a constant text; None for anything else."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def whole_of(node: object) -> int | None:
    """Read a whole number without a sign; None for anything else."""
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def constants_objection(node: exp.Expr) -> Objection | None:
    """Say what is wrong with the constants of a function, None if nothing is."""
    check = _CHECKS.get(type(node))
    return None if check is None else check(node)


def grows_by(node: exp.Expr) -> int:
    """Return how many times as long as its text a replacement may be, rounding up."""
    written = text_literal_of(node.args.get("replacement")) or ""
    put = len(written)
    taken = len(text_literal_of(node.expression) or "")
    if isinstance(node, exp.RegexpReplace):
        try:
            taken = read_pattern(text_literal_of(node.expression) or "").least
        except PatternRefused:  # over released rows it may be another
            taken = 1
        # Each group that is referred to may be the whole text again.
        return max(1, -(-put // max(1, taken)) + written.count("\\"))
    return max(1, -(-put // max(1, taken)))


def _pattern(node: exp.Expr) -> Objection | None:
    text = text_literal_of(node.expression)
    if text is None:
        return "a regular expression is a constant over private rows", _PATTERNS
    try:
        found = read_pattern(text, captures=True)
    except PatternRefused as refused:
        reason = f"a regular expression with {refused} is not available over private rows"
        return reason, _PATTERNS
    group = node.args.get("group")
    if group is not None and not 0 <= (whole_of(group) or 0) <= found.groups:
        return "the regular expression has no group of that number", _PATTERNS
    return None


def _replaced_pattern(node: exp.Expr) -> Objection | None:
    put, flags = (
        text_literal_of(node.args["replacement"]),
        text_literal_of(node.args.get("modifiers")),
    )
    if put is None or "\\" in put or len(put) > MOST_OF_CONSTANT or flags not in ("", "g"):
        return (
            "what regexp_replace puts in the place of a match is a constant text; groups as \\1 "
            "stand there if the pattern is that of a whole text",
            "For example regexp_replace(s, '[^0-9]', '', 'g') and regexp_replace(s, "
            "'^([a-z]+):.*$', '\\1'). Of a part of a text, write regexp_extract(s, '([a-z]+)', 1).",
        )
    found = _pattern(node)
    if found is None and read_pattern(text_literal_of(node.expression) or "").least == 0:
        return "a pattern that matches the empty text cannot be replaced", _PATTERNS
    return found


def _replaced(node: exp.Expr) -> Objection | None:
    texts = [text_literal_of(node.args[name]) for name in ("expression", "replacement")]
    if any(text is None or "\0" in text or len(text) > MOST_OF_CONSTANT for text in texts):
        return "replace takes two constant texts over private rows", "replace(s, '-', '')."
    return None


def _distance(node: exp.Expr) -> Objection | None:
    text = text_literal_of(node.expression)
    if text is not None and len(text) <= MOST_OF_DISTANCE:
        return None
    return (
        "levenshtein compares with a constant text over private rows, of at most "
        f"{MOST_OF_DISTANCE} characters",
        "For example levenshtein(city, 'Lyon') <= 1.",
    )


def _like(node: exp.Expr) -> Objection | None:
    text = text_literal_of(node.expression)
    if text is None and node.expression.find(exp.Column) is not None:
        return None  # engines limit what they try
    if text is None:
        return "the pattern of LIKE is a constant text, or has columns in it", "s LIKE '%a%'."
    searched = like_pattern(text, backtracks=False) is not None
    if searched and (len(text) > MOST_OF_CONSTANT or text.count(ONE_CHARACTER) > MOST_OF_ONES):
        return (
            f"a pattern of LIKE with several % has at most {MOST_OF_CONSTANT} characters and "
            f"{MOST_OF_ONES} _ over private rows",
            "For example s LIKE '%a_b%c%'.",
        )
    return None


def _split(node: exp.Expr) -> Objection | None:
    place, mark = whole_of(node.args["part_index"]), text_literal_of(node.args["delimiter"])
    most = MOST_OF_PARTS[len(mark or "") > 1]
    if not mark or len(mark) > MOST_OF_MARK or place is None or not 0 < place <= most:
        return (
            f"split_part takes a constant text of 1 to {MOST_OF_MARK} characters, and a place from "
            f"1 to {most} over private rows",
            "For example split_part(s, '-', 2).",
        )
    return None


def _format(node: exp.Expr) -> Objection | None:
    text = text_literal_of(node.args["format"])
    if text is None or read_format(text) is None:
        return (
            "the format of a date is a constant of known directives over private rows, at most "
            f"{MOST_OF_FORMAT} characters long",
            f"Directives: {', '.join(DIRECTIVES)}, %T and %%.",
        )
    return None


def _path(node: exp.Expr) -> Objection | None:
    text = text_literal_of(node.expression)
    steps = None if text is None else read_path(text)
    if steps is None or text != write_path(steps):
        return (
            "a path into JSON is a constant with the names of fields and places in lists over "
            "private rows",
            f"For example x->>'$.a.b[0]' or x->>'a', of at most {MOST_OF_PATH} characters, without "
            "wildcards.",
        )
    return None


def _place(node: exp.Expr) -> Objection | None:
    place = whole_of(node.expressions[0]) if len(node.expressions) == 1 else None
    if place is None or not 1 <= place <= MOST_OF_PLACES:
        return (
            "x[…] over private rows is an element of a list, at a constant place from 1 on, or a "
            "field of a struct",
            "For example tags[1] or address['city']. Of JSON, write x->>'city'.",
        )
    return None


def _field(node: exp.Expr) -> Objection | None:
    if text_literal_of(node.expression):
        return None
    return "the field of a struct is a constant name", "struct_extract(address, 'city')."


def _width(node: exp.Expr) -> Objection | None:
    if isinstance(node.this, exp.Interval) and text_literal_of(node.this.this) is not None:
        return None
    return "the width of time_bucket is a constant", "time_bucket(INTERVAL '15 minutes', t)."


_CHECKS: Final[Mapping[type[exp.Expr], Callable[[exp.Expr], Objection | None]]] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.RegexpLike: _pattern,
    exp.RegexpExtract: _pattern,
    exp.RegexpReplace: _replaced_pattern,
    exp.Replace: _replaced,
    exp.SplitPart: _split,
    exp.Levenshtein: _distance,
    exp.TimeToStr: _format,
    exp.DateBin: _width,
    exp.JSONExtractScalar: _path,
    exp.Bracket: _place,
    exp.StructExtract: _field,
}
