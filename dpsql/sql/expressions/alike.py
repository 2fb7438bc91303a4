"""Expressions over rows in other words, written as the expressions that there are rules for.

``date_part('hour', t)`` becomes ``EXTRACT(hour FROM t)``, ``s[1:2]`` a ``substring``, ``x = ANY
(ARRAY[1, 2])`` an ``IN``, ``width_bucket(x, 0, 9, 3)`` a ``CASE``. Whatever decides on expressions
sees the other form alone, so it is as safe as that, and computed by all engines that compute it.
What is in no table here is left as it is, and refused later if there is no rule for it. That the
values are DuckDB's is tested by ``tests/sql/test_alike.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from itertools import islice
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.sql_types import BOOLEAN, DATE, SqlType
from dpsql.engines.embedded.letters import in_case
from dpsql.sql.expressions import bits
from dpsql.sql.expressions.ages import (
    compared_with_interval,
    months_beside_years,
    months_between,
    units_between,
    years,
)
from dpsql.sql.expressions.edited_texts import (
    bits_called,
    bytes_called,
    marks_in,
    octets,
    overlaid,
    part_at,
    part_before,
    replaced_at,
)
from dpsql.sql.expressions.moments_in_steps import months_added, of_seconds, periods_apart
from dpsql.sql.expressions.silent_casts import (
    NUMBERS_OF_TEXTS,
    TEXTS_OF_MOMENTS,
    TypeHere,
    number_of_text,
    text_of_moment,
)
from dpsql.sql.expressions.text_growth import MAX_WRITTEN_OUT, too_much_written_out
from dpsql.syntax.arguments import extracted_part
from dpsql.syntax.dialect import WRITTEN_NAME, PrivateDuckDB
from dpsql.syntax.inner_types import inner_type
from dpsql.syntax.json_paths import JsonPath, read_path, write_path
from dpsql.syntax.moment_formats import BLANK_PADDED, of_date_format, of_pattern, of_to_char
from dpsql.syntax.moment_words import divides_day
from dpsql.syntax.patterns import Pattern, PatternRefused, read_pattern
from dpsql.syntax.row_functions import Character
from dpsql.syntax.text import NAMED, display, put

_Make: TypeAlias = Callable[[exp.Expr, TypeHere], exp.Expr | None]

_WIDTH: Final = re.compile(r"([0-9]{1,6}) (second|minute|hour|day|week)s?", re.IGNORECASE)
_MIDNIGHT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( 00:00(:00)?)?")
_MOMENT_TYPES: Final = (
    *(exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ),
)
_WALL_TYPES: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)
_UTC: Final = frozenset({"utc", "etc/utc"})
_BYTEWISE: Final = frozenset({"c", "posix", "binary", "ucs_basic"})
"""Collations that compare texts as all texts are compared."""
_TEXTS: Final = (exp.DType.TEXT, exp.DType.VARCHAR)
_MOST_PADDED: Final = 1000
_WORD: Final = re.compile(r"[A-Za-z_]+")
_DIGITS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_END: Final = Context(prec=15)
_MOST_OF_PLACE: Final = 9  # digits
_MOST_BUCKETS: Final = 1_000
_MOST_NODES: Final = 8
_MOST_TRANSLATED: Final = 32
_BACKSLASH: Final = "\\"
_MOST_OVERLAPPING: Final = 32
_MOST_GROUPS: Final = 4
_GROUP: Final = re.compile(r"\\([0-9])")
_GROUP_IN_TEXT: Final = re.compile(r"(\\[0-9])")
_PUT: Final = re.compile(r"([^\\]|\\[0-9])+")
_PRINTF: Final = re.compile(r"%s|%d|%i|%02d")
_FMT: Final = re.compile(r"\{\}|\{:d\}|\{:02d\}")
_TEXTS_BY_FORM: Final = (
    exp.Upper,
    exp.Lower,
    exp.TimeToStr,
    exp.Substring,
    exp.Left,
    exp.Right,
    exp.Trim,
)
_WHOLE_BY_FORM: Final = (
    exp.Year,
    exp.Month,
    exp.Day,
    exp.Quarter,
    exp.Hour,
    exp.Minute,
    exp.Extract,
    exp.Week,
)
"""Nodes whose values are texts, and whole numbers, whatever they are of."""
_TWO: Final = 2
_ZONED: Final = SqlType.of("TIMESTAMP WITH TIME ZONE")
_WALL: Final = SqlType.of("TIMESTAMP")
_MOMENTS: Final = (SqlType.of("DATE"), _WALL, _ZONED)


def write_alike(root: exp.Expr, type_of: TypeHere) -> exp.Expr:
    """Write the parts of an expression as those that there are rules for, in place.

    Returns the expression, which is another node if it is itself such a part. Subqueries are left
    as they are.
    """
    for node in reversed(list(root.walk(prune=_is_query))):  # what is inside comes first
        make = _BY_CLASS.get(type(node))
        if isinstance(node, exp.Anonymous):
            make = _BY_NAME.get(fold(node.name))
        found = None if make is None else make(node, type_of)
        if found is None:
            continue
        if next(islice(found.walk(), MAX_WRITTEN_OUT, None), None) is not None:
            raise too_much_written_out()
        for note, value in node.meta.items():
            found.meta.setdefault(note, value)
        found.meta.setdefault(NAMED, display(node))
        put(node, found)
        root = found if node is root else root
    return root


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


# -- constants among the arguments ----------------------------------------------------------------


def _text(node: object) -> str | None:
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def _whole(node: object) -> int | None:
    if isinstance(node, exp.Paren):
        return _whole(node.this)
    if isinstance(node, exp.Neg):
        value = _whole(node.this)
        return None if value is None else -value
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _word(node: object) -> str | None:
    """Read the name of a part of a date: a text, a word, or what was read as a column's name."""
    if isinstance(node, exp.Column) and not node.table:
        word: str | None = node.name
    else:
        word = str(node.this) if isinstance(node, exp.Var) else _text(node)
    return word if word is not None and _WORD.fullmatch(word) else None


def _given(node: exp.Expr, *names: str) -> bool:
    """Tell whether a node has no arguments but these."""
    return all(name in names or not value for name, value in node.args.items())


def _one_text(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write constant texts that are put together, or in brackets: ``s LIKE (? || '%')``."""
    texts = [_text(part) for part in node.iter_expressions()]
    if not texts or None in texts:
        return None
    return exp.Literal.string("".join(text for text in texts if text is not None))


def _in_case(word: Literal["lower", "upper"]) -> _Make:
    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        text = _text(node.this)
        return None if text is None else exp.Literal.string(in_case(text, word))

    return make


# -- dates ----------------------------------------------------------------------------------------


def _part(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write date_part('hour', t), whose part is a text there."""
    match node.expressions:
        case [exp.Literal() as part, moment] if (word := _word(part)) is not None:
            found = exp.Extract(this=exp.var(word), expression=moment)
            return _extracted_part(found, type_of) or found
    return None


def _part_named(part: str) -> _Make:
    """Write isoyear(t) and others as EXTRACT."""

    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        one = node.expressions[0] if len(node.expressions) == 1 else None
        return None if one is None else exp.Extract(this=exp.var(part), expression=one)

    return make


def _day_of_week(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    return exp.DayOfWeek(this=node.expressions[0]) if len(node.expressions) == 1 else None


def _interval(count: int, unit: str) -> exp.Expr:
    return exp.Interval(this=exp.Literal.string(str(count)), unit=exp.var(unit.upper()))


def _plain_interval(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write INTERVAL (7) DAY without its brackets."""
    whole, unit = _whole(node.this), _word(node.args.get("unit"))
    if not isinstance(node.this, exp.Paren) or whole is None or whole < 0 or unit is None:
        return None
    return _interval(whole, unit)


def _at_zone(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write AT TIME ZONE 'UTC' as a cast, as all sessions have that time zone."""
    arguments = node.expressions or [node.args.get("zone"), node.this]
    if len(arguments) != 2 or fold(_text(arguments[0]) or "") not in _UTC:
        return None
    moment = arguments[1].unnest()
    if isinstance(moment, exp.Column):
        target = {_WALL: _ZONED, _ZONED: _WALL}.get(type_of(moment) or SqlType.of("ANY"))
        return None if target is None else exp.cast(moment, target.text, dialect="duckdb")
    cast = type(moment) is exp.Cast and moment.to.this == exp.DType.TIMESTAMPTZ
    written = type(moment) is exp.Cast and moment.to.this in _WALL_TYPES
    if written and _text(moment.this) is not None:  # a constant on a clock of UTC
        return exp.cast(moment, exp.DType.TIMESTAMPTZ, dialect="duckdb")
    column = moment.this.unnest() if cast else None
    if isinstance(column, exp.Column) and type_of(column) in _MOMENTS:
        return exp.cast(column, exp.DType.TIMESTAMP, dialect="duckdb")
    return None


# -- lists of constants ---------------------------------------------------------------------------


def _items(node: exp.Expr) -> Sequence[exp.Expr]:
    """List the items of ARRAY[…], […] or (…); a cast around it may say that texts are texts."""
    node = node.unnest()
    if type(node) is exp.Cast and node.to.this == exp.DType.ARRAY:
        items = _items(node.this)
        texts = [kind.this in _TEXTS for kind in node.to.expressions] == [True]
        return items if texts and all(_text(item) is not None for item in items) else ()
    return list(node.expressions) if isinstance(node, exp.Array | exp.Tuple) else ()


def _compared(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write x = ANY (…) as x IN (…), and x <> ALL (…) as NOT x IN (…)."""
    word, listed = _quantified(node.expression)
    items = () if listed is None else _items(listed)
    if not items or not _given(node, "this", "expression"):
        return None
    equal = isinstance(node, exp.EQ)
    if word != ("any" if equal else "all"):
        return None
    among = exp.In(this=node.this, expressions=items)
    return among if equal else exp.Not(this=among)


def _quantified(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """Read ANY, SOME or ALL: the word, and what stands in it."""
    if isinstance(node, exp.Any | exp.All):
        return "any" if isinstance(node, exp.Any) else "all", node.this
    word = fold(node.name) if isinstance(node, exp.Anonymous) else ""
    if word in ("some", "all") and len(node.expressions) == 1:
        return "any" if word == "some" else word, node.expressions[0]
    return "", None


def _contained(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_contains([…], x), which says nothing of NULL in the list."""
    items = _items(node.this)
    plain = all(isinstance(item.unnest(), exp.Literal | exp.Neg) for item in items)
    if not items or not plain or not _given(node, "this", "expression"):
        return None
    return exp.In(this=node.expression, expressions=items)


# -- texts ----------------------------------------------------------------------------------------


def _escaped(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s LIKE 'a!%b%' ESCAPE '!' as what its pattern asks: a part, an end, or the whole.

    None where an unescaped _ stands in it, or % in other places than at its ends and once between.
    """
    like, mark = node.this, _text(node.expression)
    pattern = _text(like.expression) if type(like) is exp.Like else None
    if pattern is None or mark is None or len(mark) > 1:
        return None
    pieces, at = [""], 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == mark:
            at += 1
            if at == len(pattern):
                return None  # an error
            pieces[-1] += pattern[at]
        elif sign == "%":
            pieces.append("")
        elif sign == "_":
            return None
        else:
            pieces[-1] += sign
        at += 1
    found = _of_pieces(like.this, pieces)
    return exp.Not(this=found) if found is not None and like.args.get("negate") else found


def _of_pieces(text: exp.Expr, pieces: Sequence[str]) -> exp.Expr | None:
    """Write that a text begins with the first of some texts and ends with the last, or has one.

    Anything may stand between them. None for more of them.
    """
    if len(pieces) == 1:
        return exp.EQ(this=text, expression=exp.Literal.string(pieces[0]))
    first, *between, last = [exp.Literal.string(piece) for piece in pieces]
    inner = [piece for piece in between if piece.name]
    if not inner:
        least = exp.Literal.number(len(first.name) + len(last.name))
        tests: list[exp.Expr] = [
            exp.StartsWith(this=text.copy(), expression=first),
            exp.EndsWith(this=text.copy(), expression=last),
            exp.GTE(this=exp.Length(this=text.copy()), expression=least),
        ]
        return exp.paren(exp.and_(*tests))
    if len(inner) == 1 and not first.name and not last.name:
        return exp.Contains(this=text, expression=inner[0])
    return None


def _last_part(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write split_part(s, ',', -1) as the characters behind the last comma."""
    mark = _text(node.args["delimiter"])
    if _whole(node.args["part_index"]) != -1 or mark is None or len(mark) != 1:
        return None
    pattern = _pattern(f"[^{mark if mark.isalnum() else _BACKSLASH + mark}]*$")
    if pattern is None:
        return None
    return exp.RegexpExtract(this=node.this, expression=pattern, group=exp.Literal.number(0))


def _number_of_parts(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write len(string_split(s, ' ')) as one more than there are marks in the text."""
    split = node.this.unnest()
    mark = _text(split.expression) if isinstance(split, exp.Split) else None
    if not mark or not _given(split, "this", "expression") or not _given(node, "this"):
        return None
    return exp.paren(exp.Add(this=marks_in(split.this, mark), expression=exp.Literal.number(1)))


def _split_off(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write string_split(s, ',')[2] as split_part(s, ',', 2), NULL where there is no such part."""
    split = node.this.unnest()
    mark = _text(split.expression) if isinstance(split, exp.Split) else None
    place = _whole(node.expressions[0]) if len(node.expressions) == 1 else None
    if not mark or place is None or place < 1 or not _given(split, "this", "expression"):
        return None
    part = part_at(split.this, mark, place)
    there = exp.GTE(this=marks_in(split.this, mark), expression=exp.Literal.number(place - 1))
    return exp.Case(ifs=[exp.If(this=there, true=part)])


def _among_parts(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_contains(string_split(s, ','), 'x') as a search for ',x,' in ',s,'."""
    split, value = node.this.unnest(), _text(node.expression)
    mark = _text(split.expression) if isinstance(split, exp.Split) else None
    known = value is not None and mark is not None and len(mark) == 1 and mark not in value
    if not known or not _given(split, "this", "expression"):
        return None
    ends = exp.Literal.string(mark)
    before = exp.DPipe(this=ends, expression=split.this.copy())
    text = exp.paren(exp.DPipe(this=before, expression=ends.copy()))
    return exp.Contains(this=text, expression=exp.Literal.string(f"{mark}{value}{mark}"))


def _any_of_parts(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write 'x' = ANY (string_split(s, ',')), which is false where there is no text."""
    word, listed = _quantified(node.expression)
    if word != "any" or listed is None or not _given(node, "this", "expression"):
        return None
    found = _among_parts(exp.ArrayContains(this=listed, expression=node.this), type_of)
    return None if found is None else exp.Coalesce(this=found, expressions=[exp.false()])


def _translated(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write translate(s, 'ab', 'xy') as replacements one after another.

    None where a character would be replaced that another was replaced by.
    """
    before, after = _text(node.args["from_"]), _text(node.args["to"])
    if not before or after is None or len(before) > _MOST_TRANSLATED:
        return None
    pairs: dict[str, str] = {}
    for place, sign in enumerate(before):
        pairs.setdefault(sign, after[place : place + 1])
    orders = list(pairs), list(reversed(pairs))
    signs = next((each for each in orders if not _replaces_again(each, pairs)), ())
    made: exp.Expr | None = node.this if signs else None
    for sign in signs:
        put_there = pairs[sign]
        if sign != put_there:
            made = exp.Replace(
                this=made,
                expression=exp.Literal.string(sign),
                replacement=exp.Literal.string(put_there),
            )
    return made


def _replaces_again(signs: Sequence[str], pairs: Mapping[str, str]) -> bool:
    """Tell whether one after another would replace what another is replaced by."""
    return any(pairs[sign] in signs[place + 1 :] for place, sign in enumerate(signs) if pairs[sign])


def _by_letters(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write T-SQL's format(t, 'yyyy-MM') as strftime: no text is a format here."""
    if not isinstance(node, exp.Format):
        return None
    call = exp.Anonymous(this="format", expressions=[node.this, *node.expressions])
    return _formatted(of_pattern)(call, type_of)


def _days(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write to_days(n) as INTERVAL (n) DAY."""
    return exp.Interval(this=exp.Paren(this=node.this), unit=exp.var("DAY"))


def _printed(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write printf('%s-%02d', s, n) and format('{}-{}', s, n) with ||, of texts and numbers."""
    arguments = [node.this, *node.expressions] if isinstance(node, exp.Format) else node.expressions
    form = _text(arguments[0]) if arguments else None
    if form is None:
        return _by_letters(node, type_of)
    holes = _FMT if isinstance(node, exp.Format) else _PRINTF
    texts, found = holes.split(form)[:: holes.groups + 1], list(holes.finditer(form))
    values = arguments[1:]
    if len(values) != len(found) or not values or any(set("%{}") & set(text) for text in texts):
        return None
    pieces: list[exp.Expr] = []
    for text, hole, value in zip(texts, [*found, None], [*values, None], strict=True):
        if text:
            pieces.append(exp.Literal.string(text))
        if hole is not None and value is not None:
            written = _written(hole[0], value, type_of)
            if written is None:
                return None
            pieces.append(written)
    return exp.paren(reduce(lambda one, other: exp.DPipe(this=one, expression=other), pieces))


def _written(hole: str, value: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write a text or a whole number as a format has it; None for other types."""
    bare = value.unnest()
    type_ = type_of(bare) if isinstance(bare, exp.Column) else None
    is_text = type_ == SqlType.of("VARCHAR") or isinstance(bare, _TEXTS_BY_FORM)
    whole = _is_whole(bare, type_of)
    if hole in ("%s", "{}") and is_text:
        return exp.paren(value.copy())
    if not whole or hole == "%s":
        return None
    text = exp.cast(value.copy(), exp.DType.VARCHAR)
    if hole not in ("%02d", "{:02d}"):
        return text
    one_digit = exp.Between(
        this=exp.paren(value.copy()), low=exp.Literal.number(0), high=exp.Literal.number(9)
    )
    padded = exp.DPipe(this=exp.Literal.string("0"), expression=text)
    return exp.paren(exp.Case(ifs=[exp.If(this=one_digit, true=padded)], default=text.copy()))


def _is_whole(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether a node is surely a whole number, by its form."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        type_ = type_of(node)
        return type_ is not None and type_.is_integer
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod | exp.IntDiv):
        return _is_whole(node.this, type_of) and _is_whole(node.expression, type_of)
    literal = isinstance(node, exp.Literal) and node.is_int
    return literal or isinstance(node, _WHOLE_BY_FORM)


# -- rows, and lists that overlap ------------------------------------------------------------------


def _fields(node: exp.Expr) -> Sequence[exp.Expr]:
    """List the values of (a, b) and ROW(a, b)."""
    node = node.unnest()
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and fold(node.name) == "row":
        return list(node.expressions)
    return ()


def _row_compared(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write (a, b) = (1, 2) value by value: NULL is a value of a row, as any other."""
    if not _given(node, "this", "expression"):
        return None
    same = _same_rows(node.this, node.expression)
    if same is None:
        return None
    return same if isinstance(node, exp.EQ) else exp.Not(this=same)


def _row_among(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write (a, b) IN ((1, 2), (3, 4)) row by row.

    Each of the places is compared as one type, which pairs of values must not change: where there
    are several rows, all values at a place are texts, or numbers with as many digits as they say.
    """
    if not node.expressions or not _given(node, "this", "expressions"):
        return None
    places = list(zip(*map(_fields, node.expressions), strict=False))
    if len(node.expressions) > 1 and not all(map(_are_of_one_kind, places)):
        return None
    same = [_same_rows(node.this, item) for item in node.expressions]
    found = [each for each in same if each is not None]
    return exp.paren(exp.or_(*found)) if len(found) == len(same) else None


def _are_of_one_kind(values: Sequence[exp.Expr]) -> bool:
    """Tell whether all are constants, texts or exact numbers, or NULL."""
    bare = [value.this if isinstance(value, exp.Neg) else value.unnest() for value in values]
    given = [value for value in bare if not isinstance(value, exp.Null)]
    plain = all(
        isinstance(v, exp.Literal) and (v.is_string or "e" not in v.name.lower()) for v in given
    )
    return plain and len({value.is_string for value in given}) <= 1


def _same_rows(one: exp.Expr, other: exp.Expr) -> exp.Expr | None:
    ones, others = _fields(one), _fields(other)
    if not ones or len(ones) != len(others):
        return None
    pairs = zip(ones, others, strict=True)
    return exp.paren(
        exp.and_(*(exp.NullSafeEQ(this=exp.paren(a), expression=exp.paren(b)) for a, b in pairs))
    )


def _overlapping(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_has_any(tags, ['a', 'b']) as whether the list has one or the other."""
    lists = [node.this, node.expression]
    if _items(lists[0]):
        lists.reverse()
    values, listed = lists
    items = _items(listed)
    if not _is_list(values, type_of) or not 0 < len(items) <= _MOST_OVERLAPPING:
        return None
    if not all(isinstance(item.unnest(), exp.Literal | exp.Neg) for item in items):
        return None
    return exp.paren(
        exp.or_(*(exp.ArrayContains(this=values.copy(), expression=item) for item in items))
    )


def _holding_all(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_has_all(tags, ['a', 'b']) as whether the list has one and the other."""
    items = _items(node.expression)
    if not _is_list(node.this, type_of) or not 0 < len(items) <= _MOST_OVERLAPPING:
        return None
    if not all(isinstance(item.unnest(), exp.Literal | exp.Neg) for item in items):
        return None
    return exp.paren(
        exp.and_(*(exp.ArrayContains(this=node.this.copy(), expression=item) for item in items))
    )


def _slice(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s[2], s[2:3], s[:3], s[2:] and s[-3:] of a text as substring, left or right.

    A part of what is released may be one of a list, and is that of the tail's engine.
    """
    text = node.this.unnest()
    type_ = inner_type(text, type_of)
    unknown = type_ is None and not isinstance(text, exp.Column)
    is_text = unknown or type_ == SqlType.of("VARCHAR")
    if unknown and text.find(exp.AggFunc):
        return None
    if not is_text or len(node.expressions) != 1 or not _given(node, "this", "expressions"):
        return None
    (place,) = node.expressions
    if not isinstance(place, exp.Slice):
        written = _whole(place)
        if written == -1:
            return exp.Right(this=node.this, expression=exp.Literal.number(1))
        if written is None or written < 0:
            return None
        return _substring(node.this, max(1, written), min(1, written))
    if not _given(place, "this", "expression"):
        return None
    first = 1 if place.this is None else _whole(place.this)
    end = place.expression
    last = None if end is None else _whole(end)
    if first is not None and first < 0 and end is None:
        return exp.Right(this=node.this, expression=exp.Literal.number(-first))
    if first is None or first < 1 or (end is not None and (last is None or last < 0)):
        return None
    return _substring(node.this, first, None if last is None else max(0, last - first + 1))


def _substring(text: exp.Expr, first: int, size: int | None) -> exp.Expr:
    length = None if size is None else exp.Literal.number(size)
    return exp.Substring(this=text, start=exp.Literal.number(first), length=length)


def _method(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s.upper() as upper(s)."""
    call, first = node.expression, _column(node.this)
    if not isinstance(call, exp.Anonymous) or first is None:
        return None
    build = PrivateDuckDB.Parser.FUNCTIONS.get(call.name.upper())
    arguments = [first, *call.expressions]
    if build is None:
        return exp.Anonymous(this=call.name, expressions=arguments)
    made: exp.Expr = build(arguments)
    made.meta[WRITTEN_NAME] = call.name
    return made


def _column(node: exp.Expr) -> exp.Expr | None:
    """Read what stands before the dot of a method; the parser has names there and no columns."""
    match node:
        case exp.Identifier():
            return exp.Column(this=node)
        case exp.Dot(this=exp.Identifier() as table, expression=exp.Identifier() as name):
            return exp.Column(this=name, table=table)
        case exp.Func() | exp.Paren() | exp.Column() | exp.Literal():
            for name in list(node.find_all(exp.Identifier)):
                if isinstance(name.parent, exp.Func | exp.Paren):
                    name.replace(exp.Column(this=name.copy()))
            return node
    return None


def _collated(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Leave out a collation by which texts are compared anyway."""
    return node.this if fold(node.expression.name) in _BYTEWISE else None


def _in_any_case(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s = 'a' COLLATE NOCASE, and LIKE, as of texts in lower case."""
    sides = [node.this, node.expression]
    bare = [_without_case(side) for side in sides]
    if not any(bare) or not _given(node, "this", "expression", "negate"):
        return None
    made = node.copy()
    made.set("this", exp.Lower(this=(bare[0] or sides[0]).copy()))
    made.set("expression", exp.Lower(this=(bare[1] or sides[1]).copy()))
    if isinstance(node, exp.Like):
        made = exp.ILike(
            this=(bare[0] or sides[0]).copy(),
            expression=(bare[1] or sides[1]).copy(),
            negate=node.args.get("negate"),
        )
    return made


def _without_case(node: exp.Expr) -> exp.Expr | None:
    """Return the text of a collation that does not tell cases apart; None for others."""
    node = node.unnest()
    found = isinstance(node, exp.Collate) and fold(node.expression.name) == "nocase"
    return node.this if found else None


def _globbed(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write GLOB 'a*' as LIKE 'a%', of a constant pattern of texts; ``?`` stands for a byte."""
    pattern = _text(node.expression)
    if pattern is None or set(pattern) & set("%_?[]\\"):
        return None
    return exp.Like(this=node.this, expression=exp.Literal.string(pattern.replace("*", "%")))


def _joined_by(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write concat_ws('-', a, b): what is there with the separator before each, but the first."""
    separator, *values = node.expressions
    text = _text(separator)
    if text is None or not values:
        return None
    parts = [exp.DPipe(this=separator.copy(), expression=value) for value in values]
    whole = exp.Concat(expressions=parts, safe=True, coalesce=True)
    return _substring(whole, len(text) + 1, None)


def _code_point(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ord(s) as unicode(s)."""
    return exp.Unicode(this=node.expressions[0]) if len(node.expressions) == 1 else None


def _prefixed(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    match node.expressions:
        case [text, start]:
            return exp.StartsWith(this=text, expression=start)
    return None


def _suffixed(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    match node.expressions:
        case [text, end]:
            return exp.EndsWith(this=text, expression=end)
    return None


# -- values inside values -------------------------------------------------------------------------


def _is_list(node: exp.Expr | None, type_of: TypeHere) -> bool:
    """Tell whether an expression is a column, or a value inside one, that is a list or an array."""
    type_ = None if node is None else inner_type(node, type_of)
    return type_ is not None and type_.element is not None


def _is_struct(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether an expression is a column, or a value inside one, with fields."""
    type_ = inner_type(node, type_of)
    return type_ is not None and type_.kind == "STRUCT"


def _any_of_list(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write x = ANY (list) as list_contains(list, x), and x <> ALL (list) as its opposite.

    Unlike there, NULL is compared as well, with any element and as one; where there is no list, or
    none of its elements, there is nothing to compare with.
    """
    equal = isinstance(node, exp.EQ)
    word, listed = _quantified(node.expression)
    if word != ("any" if equal else "all") or not _given(node, "this", "expression"):
        return None
    if listed is None or not _is_list(listed, type_of):
        return None
    values = listed.unnest()
    without: exp.Expr = exp.Is(this=values.copy(), expression=exp.null())
    type_ = inner_type(values, type_of)
    if type_ is not None and type_.text.endswith("[]"):  # arrays are as long as their type says
        length = exp.Length(this=values.copy())
        empty = exp.EQ(this=length, expression=exp.Literal.number(0))
        without = exp.Or(this=without, expression=empty)
    place_of_null = exp.ArrayPosition(this=values.copy(), expression=exp.null())
    unknown = exp.not_(exp.Is(this=place_of_null, expression=exp.null()))
    found = exp.ArrayContains(this=values, expression=node.this)
    among = exp.Case(
        ifs=[
            exp.If(this=without, true=exp.false()),
            exp.If(this=found.copy(), true=exp.true()),
            exp.If(this=unknown, true=exp.null()),
        ],
        default=found,
    )
    return among if equal else exp.Not(this=among)


def _in_list(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write x IN list as list_contains(list, x)."""
    values = node.args.get("field")
    if not _given(node, "this", "field") or not _is_list(values, type_of):
        return None
    return exp.ArrayContains(this=values, expression=node.this)


def _place_in_list(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_position(list, x) as the node that array_position(list, x) is."""
    match node.expressions:
        case [values, element]:
            return exp.ArrayPosition(this=values, expression=element)
    return None


def _inside(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s['city'] of a struct as struct_extract(s, 'city')."""
    if len(node.expressions) != 1 or not _given(node, "this", "expressions"):
        return None
    (name,) = node.expressions
    if _text(name) is None or not _is_struct(node.this, type_of):
        return None
    return exp.StructExtract(this=node.this, expression=exp.Literal.string(_text(name)))


def _dotted(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s['geo'].code as struct_extract(s['geo'], 'code')."""
    name = node.expression
    if not isinstance(name, exp.Identifier) or not _is_struct(node.this, type_of):
        return None
    return exp.StructExtract(this=node.this, expression=exp.Literal.string(name.name))


def _element(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write list_extract(list, 1) as list[1]."""
    match node.expressions:
        case [values, place] if (_whole(place) or 0) > 0 and _is_list(values, type_of):
            return exp.Bracket(this=values, expressions=[place])
    return None


def _field(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s.city, where s is a struct and no table, as struct_extract(s, 'city')."""
    parts = node.parts if isinstance(node, exp.Column) else []
    if len(parts) < _TWO or isinstance(node.this, exp.Star):
        return None
    for count in (_TWO, 1):  # a column of a table comes before one with fields
        column = exp.Column(this=parts[count - 1].copy())
        if count == _TWO:
            column.set("table", parts[0].copy())
        type_ = type_of(column)
        if type_ is None:
            continue
        if len(parts) == count or type_.kind != "STRUCT":
            return None
        found: exp.Expr = column
        for part in parts[count:]:
            name = exp.Literal.string(part.name)
            found = exp.StructExtract(this=found, expression=name)
        found.meta[NAMED] = parts[-1].name
        return found
    return None


# -- JSON -----------------------------------------------------------------------------------------


def _json_part(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write x->'a'->>'b' as x->>'$."a"."b"': a path in its one spelling.

    A part that is not there is NULL, and so is each part of it.
    """
    steps: JsonPath = ()
    document: exp.Expr | None = node
    while isinstance(document, exp.JSONExtract | exp.JSONExtractScalar):
        path = _json_path(document)
        if path is None:
            return None
        steps = (*path, *steps)
        document = document.this
        inner = document.unnest()
        document = inner if isinstance(inner, exp.JSONExtract) else document
        if isinstance(document, exp.JSONExtractScalar):
            break  # whose value is a text, and read anew
    written = write_path(steps)
    if document is node.this and _text(node.expression) == written:
        return None
    return exp.JSONExtractScalar(this=document, expression=exp.Literal.string(written))


def _json_path(node: exp.Expr) -> JsonPath | None:
    if not _given(node, "this", "expression", "only_json_types", "scalar_only"):
        return None
    place = node.expression
    if isinstance(place, exp.Literal) and place.is_int and len(place.name) <= _MOST_OF_PLACE:
        return (int(place.name),)
    text = _text(place)
    return None if text is None else read_path(text)


# -- patterns and formats -------------------------------------------------------------------------


def _searched(*, whole: bool) -> _Make:
    """Write a search for a pattern with a pattern that means the same on all engines."""

    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        flags = _flags(node.args.get("flag") or node.args.get("options"))
        pattern = _text(node.expression)
        if flags is None or pattern is None or (whole and re.search(r"(?<!\\)[%_]", pattern)):
            return None
        ignore_case = flags or isinstance(node, exp.RegexpILike)
        made = _pattern(pattern, ignore_case=ignore_case, whole=whole, edges=True)
        return None if made is None else exp.RegexpLike(this=node.this, expression=made)

    return make


def _flags(node: object) -> bool | None:
    """Read flags of a search: whether case is ignored; None for flags that are not known."""
    if node is None:
        return False
    return {"": False, "c": False, "i": True}.get(_text(node) or "other")


def _pattern(
    text: str,
    *,
    ignore_case: bool = False,
    captures: bool = False,
    whole: bool = False,
    edges: bool = False,
) -> exp.Expr | None:
    try:
        found = read_pattern(
            text, ignore_case=ignore_case, captures=captures, whole=whole, edges=edges
        )
    except PatternRefused:
        return None
    return exp.Literal.string(found.text)


def _extracted(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write regexp_extract with its group, and a pattern that means the same on all engines."""
    text, group = _text(node.expression), node.args.get("group")
    group = exp.Literal.number(0) if group is None else group
    known = ("this", "expression", "group", "null_if_pos_overflow")
    made = None if text is None else _pattern(text, captures=_whole(group) != 0)
    if made is None or not _given(node, *known):
        return None
    return exp.RegexpExtract(
        this=node.this, expression=made, group=group, null_if_pos_overflow=True
    )


def _substituted(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write regexp_replace with its flags, and a pattern that means the same on all engines."""
    text, flags = _text(node.expression), _text(node.args.get("modifiers")) or ""
    known = ("this", "expression", "replacement", "modifiers", "single_replace")
    if text is None or not _given(node, *known) or set(flags) - set("gi"):
        return None
    made = _pattern(text, ignore_case="i" in flags)
    everywhere = exp.Literal.string("g" if "g" in flags else "")
    put = node.args["replacement"]
    if (referred := _text(put)) is not None and _BACKSLASH in referred:
        return _of_groups(node.this, text, referred, ignore_case="i" in flags)
    return made and exp.RegexpReplace(
        this=node.this, expression=made, replacement=put, modifiers=everywhere, single_replace=True
    )


def _of_groups(text: exp.Expr, pattern: str, put: str, *, ignore_case: bool) -> exp.Expr | None:
    """Write regexp_replace of a whole text by groups of the pattern, as what is extracted.

    ``regexp_replace(s, '^(a+)-(b+)$', '\\2/\\1')`` is the second group, a slash and the first one,
    and ``s`` where it does not match. A part of a text has no such form.
    """
    found = _PUT.fullmatch(put)
    whole = _whole_pattern(pattern, ignore_case=ignore_case)
    if found is None or whole is None or sum(1 for _ in text.walk()) > _MOST_NODES:
        return None
    numbers = [int(each) for each in _GROUP.findall(put)]
    if len(numbers) > _MOST_GROUPS or not all(number <= whole.groups for number in numbers):
        return None
    pieces: list[exp.Expr] = []
    for piece in _GROUP_IN_TEXT.split(put):
        if (group := _GROUP.fullmatch(piece)) is not None:
            pieces.append(
                exp.RegexpExtract(
                    this=text.copy(),
                    expression=exp.Literal.string(whole.text),
                    group=exp.Literal.number(group[1]),
                    null_if_pos_overflow=True,
                )
            )
        elif piece:
            pieces.append(exp.Literal.string(piece))
    made = reduce(lambda one, other: exp.DPipe(this=one, expression=other), pieces)
    matches = exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(whole.text))
    return exp.Case(ifs=[exp.If(this=matches, true=made)], default=text.copy())


def _whole_pattern(pattern: str, *, ignore_case: bool) -> Pattern | None:
    """Read a pattern that matches a text from its start to its end, or not at all."""
    try:
        found = read_pattern(pattern, ignore_case=ignore_case, captures=True)
    except PatternRefused:
        return None
    return found if found.from_start and found.to_end else None


def _converted(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write T-SQL's CONVERT(VARCHAR, t, 120), of a date or timestamp as ISO writes it."""
    match node.expressions:
        case [exp.Var(), exp.Column() as moment, style] if _text(style) == "120":
            form = {_WALL: "%Y-%m-%d %H:%M:%S", DATE: "%Y-%m-%d"}.get(type_of(moment) or _ZONED)
            if form is not None:
                return exp.TimeToStr(this=moment, format=exp.Literal.string(form))
    return None


def _formatted(read: Callable[[str], str | None]) -> _Make:
    """Write to_char or date_format as strftime."""

    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        match node.expressions:
            case [moment, exp.Literal() as form] if form.is_string:
                found = read(form.name)
                if found is None:
                    return None
                made = exp.TimeToStr(this=moment, format=exp.Literal.string(found))
                if read is of_to_char and BLANK_PADDED.search(found):
                    return _pieced(made, BLANK_PADDED.split(found), _PADDED)
                return _in_pieces(made, type_of) or made
        return None

    return make


def _digest(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write sha256(s) without its length."""
    return exp.SHA2(this=node.this) if _whole(node.args.get("length")) == 256 else None


def _extracted_part(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write EXTRACT(epoch FROM t) as epoch(t), and the whole years of an age as a difference."""
    part, of = extracted_part(node.this), node.expression
    if part == "epoch":
        return exp.TimeToUnix(this=of)
    if part == "date":
        return exp.cast(of, exp.DType.DATE)
    if part == "isoweek":
        return exp.Extract(this=exp.var("WEEK"), expression=of)
    if part in _OF_AGES and isinstance(of, exp.Anonymous) and fold(of.name) == "age":
        return _OF_AGES[part](of.expressions, type_of)
    return None


_OF_AGES: Final = {"year": years, "month": months_beside_years}


def _whole_units(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write DuckDB's date_sub('month', a, b)."""
    match node.expressions:
        case [exp.Literal() as unit, start, end] if unit.is_string:
            return units_between(unit.name, start, end, type_of)
    return None


def _months(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write MONTHS_BETWEEN of two dates."""
    if not _given(node, "this", "expression"):
        return None
    return months_between(node.this, node.expression, type_of)


def _bucket_of_time(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write time_bucket('15 minutes', t), and date_bin from midnight of a day, as time_bucket."""
    width, origin = node.this, node.args.get("unit")
    if not _given(node, "this", "expression", "unit"):
        return None
    parts = _WIDTH.fullmatch(_text(width) or "")
    if parts is not None:
        width = _interval(int(parts[1]), parts[2].removesuffix("s"))
    elif origin is None:
        return None
    if origin is not None and not (divides_day(width) and _is_midnight(origin)):
        return None
    return exp.DateBin(this=width, expression=node.expression)


def _is_midnight(node: exp.Expr) -> bool:
    node = node.unnest()
    moment = isinstance(node, exp.Cast) and node.to.this in _MOMENT_TYPES
    return _MIDNIGHT.fullmatch(_text(node.this if moment else node) or "") is not None


def _format_last(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write strftime('%Y', t) with its format behind, as DuckDB takes both."""
    text, moment = node.this, node.args["format"]
    if _text(text) is None or not isinstance(moment, exp.Expr) or _text(moment) is not None:
        return None
    return exp.TimeToStr(this=moment, format=text) if _given(node, "this", "format") else None


def _of_format(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write strftime with its format behind, and in pieces where engines have no words for it."""
    last = _format_last(node, type_of)
    return _in_pieces(last or node, type_of) or last


def _in_pieces(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write a format with %w, %U, %W or %q piece by piece: engines have no words for these.

    Infinite moments have no such numbers, and are a word of their own in any format.
    """
    form = _text(node.args["format"])
    if form is None or not _given(node, "this", "format") or not _NUMBERED.search(form):
        return None
    return _pieced(node, _NUMBERED.split(form), _NUMBERS)


def _pieced(
    node: exp.Expr,
    split: Sequence[str],
    written: Mapping[str, Callable[[exp.Expr], exp.Expr]],
) -> exp.Expr:
    """Put the pieces of a format together, of which some are written otherwise."""
    pieces: list[exp.Expr] = []
    for piece in split:
        if piece in written:
            pieces.append(written[piece](node.this))
        elif piece:
            pieces.append(exp.TimeToStr(this=node.this.copy(), format=exp.Literal.string(piece)))
    whole = reduce(lambda one, other: exp.DPipe(this=one, expression=other), pieces)
    infinite = exp.TimeToStr(this=node.this.copy(), format=exp.Literal.string("%Y"))
    return exp.Coalesce(this=exp.paren(whole), expressions=[infinite])


def _number_text(number: exp.Expr) -> exp.Expr:
    return exp.cast(exp.paren(number), exp.DType.VARCHAR)


def _week_from(first: int) -> Callable[[exp.Expr], exp.Expr]:
    """Write the number of weeks of the year that have begun, in two digits.

    Weeks begin on the ``first`` day, counted from Sunday.
    """

    def make(moment: exp.Expr) -> exp.Expr:
        weekday = exp.Mod(
            this=exp.paren(
                exp.Add(
                    this=exp.DayOfWeek(this=moment.copy()), expression=exp.Literal.number(7 - first)
                )
            ),
            expression=exp.Literal.number(7),
        )
        days = exp.Add(this=exp.DayOfYear(this=moment.copy()), expression=exp.Literal.number(6))
        since = exp.paren(exp.Sub(this=days, expression=exp.paren(weekday)))
        week = _number_text(exp.IntDiv(this=since, expression=exp.Literal.number(7)))
        padded = exp.DPipe(this=exp.Literal.string("0"), expression=week)
        return exp.Right(this=padded, expression=exp.Literal.number(2))

    return make


def _name_padded(directive: str, case: type[exp.Expr] | None) -> Callable[[exp.Expr], exp.Expr]:
    """Write the name of a day or month with blanks behind it, up to those of the longest."""

    def make(moment: exp.Expr) -> exp.Expr:
        name: exp.Expr = exp.TimeToStr(this=moment.copy(), format=exp.Literal.string(directive))
        if case is not None:
            name = case(this=name)
        blanks = exp.Literal.string(" " * _LONGEST_NAME)
        padded = exp.DPipe(this=name, expression=blanks)
        return exp.Left(this=padded, expression=exp.Literal.number(_LONGEST_NAME))

    return make


_LONGEST_NAME: Final = len("Wednesday")  # and September
_PADDED: Final[Mapping[str, Callable[[exp.Expr], exp.Expr]]] = {
    f"%{{{word}}}": _name_padded(directive, case)
    for words, directive in ((("Day", "DAY", "day"), "%A"), (("Month", "MONTH", "month"), "%B"))
    for word, case in zip(words, (None, exp.Upper, exp.Lower), strict=True)
}
_NUMBERED: Final = re.compile(r"(?<!%)((?:%%)*%[wUWq])")
_NUMBERS: Final[Mapping[str, Callable[[exp.Expr], exp.Expr]]] = {
    "%w": lambda moment: _number_text(exp.DayOfWeek(this=moment.copy())),
    "%q": lambda moment: _number_text(exp.Quarter(this=moment.copy())),
    "%U": _week_from(0),
    "%W": _week_from(1),
}


def _padded(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write lpad and rpad of constants with left and right."""
    text, size, fill = node.this, _whole(node.expression), _text(node.args.get("fill_pattern"))
    at_left = bool(node.args.get("is_left"))
    if not fill or size is None or not 0 < size <= _MOST_PADDED or (at_left and len(fill) > 1):
        return None
    length, added = exp.Literal.number(size), exp.Literal.string((fill * size)[:size])
    if not at_left:
        return exp.Left(this=exp.DPipe(this=text, expression=added), expression=length)
    return exp.Case(
        ifs=[
            exp.If(
                this=exp.LT(this=exp.Length(this=text.copy()), expression=length.copy()),
                true=exp.Right(this=exp.DPipe(this=added, expression=text), expression=length),
            )
        ],
        default=exp.Left(this=text.copy(), expression=length.copy()),
    )


def _like_any(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write s LIKE ANY (…) and s NOT LIKE ALL (…), pattern by pattern."""
    word, listed = _quantified(node.expression)
    patterns = () if listed is None else _items(listed)
    negated = bool(node.args.get("negate"))
    if not patterns or not _given(node, "this", "expression", "negate"):
        return None
    kind = type(node)
    tests: list[exp.Expr] = [
        kind(this=node.this.copy(), expression=pattern, negate=negated) for pattern in patterns
    ]
    either = exp.Or if word == "any" else exp.And
    return exp.Paren(this=reduce(lambda a, b: either(this=a, expression=b), tests))


# -- numbers --------------------------------------------------------------------------------------


def _times(factor: str) -> _Make:
    """Write a call as its argument times a constant DOUBLE."""

    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        number = exp.Literal.number(factor)
        return exp.paren(exp.Mul(this=exp.paren(node.this), expression=number))

    return make


def _pi(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    return exp.Literal.number(f"{math.pi!r}e0")


def _byte(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ClickHouse's toUInt8 of a truth value or a whole number."""
    match node.expressions:
        case [exp.Column() as truth] if type_of(truth) == BOOLEAN:
            return exp.cast(truth, exp.DType.INT)
        case [value]:  # larger numbers lose all bits but the last eight
            byte = exp.BitwiseAnd(this=value, expression=exp.Literal.number(255))
            return bits.bits_of_both(byte, type_of)
    return None


def _bucketed(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write width_bucket(x, lo, hi, n) as a CASE: 0 below lo, n + 1 from hi on.

    The ends of buckets are constants of 15 digits, so that every engine puts a value into the same.
    An operand that stands there once for each of them is of few nodes.
    """
    if node.args.get("max_value") is None:
        return _bucketed_by(node)
    limits = [_number(node.args.get(name)) for name in ("min_value", "max_value", "num_buckets")]
    low, high, count = limits
    if low is None or high is None or count is None or not low < high:
        return None
    whole = count == count.to_integral_value() and 1 <= count <= _MOST_BUCKETS
    if not whole or sum(1 for _ in node.this.walk()) > _MOST_NODES:
        return None
    ends = [_END.plus(low + (high - low) * i / count) for i in range(int(count) + 1)]
    tests = [(exp.LT, end) for end in ends] + [(exp.GTE, ends[-1])]
    branches = [
        exp.If(
            this=test(this=node.this.copy(), expression=_literal(end)),
            true=exp.Literal.number(bucket),
        )
        for bucket, (test, end) in enumerate(tests)
    ]
    return exp.Case(ifs=branches)


def _bucketed_by(node: exp.Expr) -> exp.Expr | None:
    """Write width_bucket(x, [10, 20]), how many of these ends x has reached."""
    ends = [_number(each) for each in _items(node.args["min_value"])]
    known = [end for end in ends if end is not None]
    small = sum(1 for _ in node.this.walk()) <= _MOST_NODES
    if not small or not known or len(known) < len(ends) or known != sorted(set(known)):
        return None
    branches = [
        exp.If(
            this=exp.LT(this=node.this.copy(), expression=_literal(end)),
            true=exp.Literal.number(bucket),
        )
        for bucket, end in enumerate(known)
    ]
    beyond = exp.GTE(this=node.this.copy(), expression=_literal(known[-1]))
    return exp.Case(ifs=[*branches, exp.If(this=beyond, true=exp.Literal.number(len(known)))])


def _number(node: object) -> Decimal | None:
    """Read a constant number of few digits."""
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        value = _number(node.this)
        return None if value is None else -value
    if not isinstance(node, exp.Literal) or node.is_string or len(node.name) > _END.prec:
        return None
    return Decimal(node.name) if _DIGITS.fullmatch(node.name) else None


def _literal(value: Decimal) -> exp.Expr:
    digits = exp.Literal.number(format(abs(value).normalize(), "f"))
    return exp.Neg(this=digits) if value < 0 else digits


_BY_NAME: Final[Mapping[str, _Make]] = {
    "date_part": _part,
    "datepart": _part,
    "weekday": _day_of_week,
    **dict.fromkeys(("date_sub", "datesub"), _whole_units),
    "timezone": _at_zone,
    "prefix": _prefixed,
    "strlen": bytes_called,
    "octet_length": octets,
    **dict.fromkeys(("from_unixtime", "to_timestamp"), of_seconds),
    "period_diff": periods_apart,
    "touint8": _byte,
    "convert": _converted,
    "substring_index": part_before,
    "ord": _code_point,
    **dict.fromkeys(("list_position", "list_indexof", "array_indexof"), _place_in_list),
    "printf": _printed,
    **dict.fromkeys(("list_extract", "array_extract", "list_element"), _element),
    "suffix": _suffixed,
    "date_format": _formatted(of_date_format),
    "to_char": _formatted(of_to_char),
    **{name: _part_named(name) for name in ("isoyear", "decade", "century", "yearweek", "julian")},
}


def _first(*makers: _Make) -> _Make:
    """Write a node by the first of several ways that does."""

    def make(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
        found = (make(node, type_of) for make in makers)
        return next((each for each in found if each is not None), None)

    return make


def _like(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write LIKE of a moment as of its text, and of several patterns one by one."""
    without_case = _in_any_case(node, type_of) if isinstance(node, exp.Like) else None
    if without_case is not None:
        return without_case
    of_text = text_of_moment(node, type_of)
    return _like_any(of_text or node, type_of) or of_text


_BY_CLASS: Final[Mapping[type[exp.Expr], _Make]] = {
    **dict.fromkeys(NUMBERS_OF_TEXTS, number_of_text),
    **dict.fromkeys(
        (exp.GT, exp.GTE, exp.LT, exp.LTE), _first(compared_with_interval, number_of_text)
    ),
    **dict.fromkeys(TEXTS_OF_MOMENTS, text_of_moment),
    exp.Interval: _plain_interval,
    exp.AtTimeZone: _at_zone,
    exp.EQ: _first(
        _in_any_case, _compared, _any_of_parts, _any_of_list, _row_compared, number_of_text
    ),
    exp.In: _first(_in_list, _row_among),
    exp.Column: _field,
    exp.NEQ: _first(_in_any_case, _compared, _any_of_list, _row_compared, number_of_text),
    exp.Escape: _escaped,
    exp.SplitPart: _last_part,
    exp.Length: _number_of_parts,
    exp.Translate: _translated,
    exp.Glob: _globbed,
    exp.ToDays: _days,
    exp.Format: _printed,
    exp.ArrayContainsAll: _holding_all,
    exp.ArrayOverlaps: _overlapping,
    exp.Like: _like,
    exp.ILike: _like,
    exp.ArrayContains: _first(_contained, _among_parts),
    exp.Bracket: _first(_split_off, _inside, _slice),
    exp.Dot: _first(_dotted, _method),
    exp.JSONExtractScalar: _json_part,
    exp.Collate: _collated,
    **dict.fromkeys((exp.Paren, exp.Concat, exp.DPipe), _one_text),
    exp.Lower: _in_case("lower"),
    exp.Upper: _in_case("upper"),
    exp.ConcatWs: _joined_by,
    exp.WidthBucket: _bucketed,
    exp.Pad: _padded,
    exp.BitLength: bits_called,
    exp.Overlay: overlaid,
    exp.Stuff: replaced_at,
    exp.RegexpLike: _searched(whole=False),
    exp.RegexpILike: _searched(whole=False),
    exp.RegexpFullMatch: _searched(whole=True),
    exp.SimilarTo: _searched(whole=True),
    exp.RegexpExtract: _extracted,
    exp.RegexpReplace: _substituted,
    exp.SHA2: _digest,
    Character: bits.of_fewer_bits,
    exp.BitwiseAnd: bits.bits_of_both,
    exp.BitwiseOr: bits.bits_of_either,
    exp.BitwiseXor: bits.bits_of_one,
    exp.BitwiseRightShift: bits.shifted_right,
    exp.BitwiseLeftShift: bits.shifted_left,
    exp.MonthsBetween: _months,
    exp.AddMonths: months_added,
    exp.Radians: _times(f"{math.pi / 180!r}e0"),
    exp.Degrees: _times(f"{180 / math.pi!r}e0"),
    exp.Pi: _pi,
    exp.DateBin: _bucket_of_time,
    exp.Extract: _extracted_part,
    exp.TimeToStr: _of_format,
}
