"""Regular expressions that mean the same to all engines, and cost none of them much.

Engines differ in what a pattern means (``\\d`` and ``\\w`` of letters of other scripts, ``.`` and
``$`` beside line breaks, the case of letters), and some try one way after the other, without end.
So a pattern is read here, by the grammar that RE2 has in DuckDB, and written anew of what is the
same everywhere: characters, classes of listed characters, groups, alternatives, the two ends of
a text, and repetitions, of which none stands in another. All else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

MOST_REPEATED: Final = 100
MOST_ATOMS: Final = 1000
"""Characters and classes of a pattern, as often as they may be repeated."""
_Ranges = tuple[tuple[str, str], ...]

_DIGITS: Final[_Ranges] = (("0", "9"),)
_LETTERS: Final[_Ranges] = (("A", "Z"), ("a", "z"))
_SPACES: Final[_Ranges] = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_LETTER_CLASSES: Final[dict[str, _Ranges]] = {
    "d": _DIGITS,
    "w": (*_DIGITS, *_LETTERS, ("_", "_")),
    "s": _SPACES,
}
_NAMED_CLASSES: Final[dict[str, _Ranges]] = {
    "digit": _DIGITS,
    "alpha": _LETTERS,
    "alnum": (*_DIGITS, *_LETTERS),
    "upper": (("A", "Z"),),
    "lower": (("a", "z"),),
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NOT_A_LINE_BREAK: Final = "[^\n]"
_OTHER_CASES: Final = {"k": "\u212a", "s": "\u017f"}
"""Letters of other scripts that are the same but for their case."""
_REPETITION: Final = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")
_NAMED: Final = re.compile(r"\[:(\w+):\]")


class PatternRefused(Exception):
    """A pattern with a part that engines read otherwise or search long; the text names the part."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in the words of an engine, with the cost of a search.

    ``least`` is the length of the shortest text that it is found in. ``ways`` is in how many ways a
    text may be tried at a place, not counting parts that may be of any length, of which there are
    ``endless``. ``fixed`` is a pattern that can match in one way: whoever prefers the longest match
    finds what the others find. For one ``from_start`` there is a single place to look, and with an
    ``open_end`` nothing is looked for behind what may be of any length. What it matches
    ``begins`` with a letter, digit or underscore, or ``finishes`` with one, unless it is empty. One
    ``to_end`` matches nothing but up to the end of a text.
    """

    text: str
    groups: int = 0
    least: int = 0
    ways: int = 1
    endless: int = 0
    repeats: bool = False
    fixed: bool = True
    from_start: bool = False
    atoms: int = 1
    open_end: bool = True
    begins: bool = False
    finishes: bool = False
    to_end: bool = False


def read_pattern(
    text: str,
    *,
    ignore_case: bool = False,
    captures: bool = False,
    whole: bool = False,
    edges: bool = False,
    ends: tuple[str, str] = ("^", "$"),
) -> Pattern:
    """Read a pattern and write it anew. Raises ``PatternRefused``.

    ``ends`` is how an engine writes the two ends of a text; ``whole`` puts the pattern between
    them. Groups are numbered only where they are said to be ``captures``. That case is ignored may
    also stand in front, as ``(?i)``. Where nothing but whether it is found is asked, ``edges`` of
    words may stand at both ends, ``\\b``, or ``\\m`` and ``\\M``: as a character of no word, or the
    end of the text.

    >>> read_pattern(r"^\\d+|.x?", ignore_case=True).text
    '^[0-9]+|[^\\n][Xx]?'
    >>> read_pattern(r"\\bno", edges=True).text
    '(?:^|[^0-9A-Za-z_])no'
    """
    if "\0" in text:
        raise PatternRefused("a zero byte")
    text, case = text.removeprefix(_ANY_CASE), text.startswith(_ANY_CASE)
    reader = _Reader(text, ignore_case or case, captures, ends)
    found = reader.alternatives(edges=edges and not (captures or whole))
    if text.startswith(("\\b", "\\m", "\\M"), reader.at):
        raise PatternRefused(f"{text[reader.at : reader.at + 2]} between other parts")
    if reader.at < len(text):
        raise PatternRefused(") without (")
    if found.atoms > MOST_ATOMS:
        raise PatternRefused(f"more than {MOST_ATOMS} characters, with repetitions")
    if not whole:
        return found
    return replace(found, text=f"{ends[0]}(?:{found.text}){ends[1]}", from_start=True)


def part_pattern(mark: str, place: int, *, backtracks: bool) -> str:
    """Write a pattern whose group is the part of a text at a place, from 1, between marks.

    No text before it is kept, and none is read twice: to divide a text first takes a hundred times
    its size. An engine that ``backtracks`` gets groups that it never goes back into, as each of
    them is on its stack otherwise.

    >>> part_pattern(",", 3, backtracks=True)
    '(?s)\\\\A(?>[^\\\\,]*+\\\\,){2}([^\\\\,]*+)(?:\\\\,|\\\\z)'
    """
    written = "".join(map(_quoted, mark))
    opened, always = ("(?>", "+") if backtracks else ("(?:", "")
    others = f"[^{written}]*{always}" if len(mark) == 1 else ".*?"
    before = f"{opened}{others}{written}){{{place - 1}}}" if place > 1 else ""
    return rf"(?s)\A{before}({others})(?:{written}|\z)"


def like_pattern(pattern: str, *, backtracks: bool) -> str | None:
    """Write a pattern of LIKE, without an escape, as a regular expression.

    None for one with a single ``%``, or two around one piece: there is one place to look for. An
    engine that ``backtracks`` is kept from looking for a piece again behind where it first is.
    DuckDB's optimizer makes a LIKE again of what it can, but not of ``.{0,}``, which is the same.

    >>> like_pattern("%a_%b%", backtracks=False)
    '(?s)\\\\A.*?a..*?b.{0,}\\\\z'
    """
    count = pattern.count(_ANY)
    if count < 2 or (count == 2 and pattern[0] == pattern[-1] == _ANY):
        return None
    first, *inner, last = pattern.split(_ANY)
    opened, closed, rest = ("(?>", ")", ".*") if backtracks else ("", "", ".{0,}")
    # Several in a row are one.
    found = "".join(f"{opened}.*?{_piece(piece)}{closed}" for piece in inner if piece)
    # The end is one place: from there on nothing is searched, only tried.
    return rf"(?s)\A{_piece(first)}{found}{rest}{_piece(last)}\z"


def _piece(piece: str) -> str:
    """Write a piece of a pattern of LIKE, which has no ``%``."""
    return "".join("." if each == ONE_CHARACTER else _quoted(each) for each in piece)


_ANY: Final = "%"
ONE_CHARACTER: Final = "_"
"""A character of LIKE that stands for any one."""
_ANY_CASE: Final = "(?i)"
_BEFORE_WORDS, _BEHIND_WORDS = ("\\b", "\\m"), ("\\b", "\\M")


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str, ignore_case: bool, captures: bool, ends: tuple[str, str]) -> None:
        self.text = text
        self.at = 0
        self._ignore_case = ignore_case
        self._captures = captures
        self._ends = ends

    def _next(self, *expected: str) -> str:
        """Take one of some texts if it is next; empty if none is."""
        for each in expected:
            if self.text.startswith(each, self.at):
                self.at += len(each)
                return each
        return ""

    def _any(self) -> str:
        if self.at >= len(self.text):
            raise PatternRefused("an end where something is missing")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, *, edges: bool = False) -> Pattern:
        branches = [self._branch() if edges else self._sequence()]
        while self._next("|"):
            branches.append(self._branch() if edges else self._sequence())
        if len(branches) == 1:
            return branches[0]
        return Pattern(
            "|".join(each.text for each in branches),
            sum(each.groups for each in branches),
            min(each.least for each in branches),
            sum(each.ways for each in branches),
            max(each.endless for each in branches),
            any(each.repeats for each in branches),
            False,
            all(each.from_start for each in branches),
            sum(each.atoms for each in branches),
            all(each.open_end for each in branches),
            all(each.begins for each in branches),
            all(each.finishes for each in branches),
            all(each.to_end for each in branches),
        )

    def _branch(self) -> Pattern:
        """Read a sequence with edges of words at its ends, which may not be within it."""
        before = self._next(*_BEFORE_WORDS)
        found = self._sequence(until=_BEHIND_WORDS)
        behind = self._next(*_BEHIND_WORDS)
        words = (found.begins or not before) and (found.finishes or not behind)
        ends = bool(before) and found.from_start, bool(behind) and found.text[-1:] == self._ends[1]
        if (before or behind) and (any(ends) or not (words and found.least)):
            raise PatternRefused(f"{before or behind} where no word begins or ends")
        other = _listed(_LETTER_CLASSES["w"], negated=True)
        first = f"(?:{self._ends[0]}|{other})" if before else ""
        last = f"(?:{self._ends[1]}|{other})" if behind else ""
        edges = bool(before) + bool(behind)
        return replace(
            found,
            text=f"{first}{found.text}{last}",
            ways=found.ways << edges,
            atoms=found.atoms + edges,
            fixed=found.fixed and not edges,
        )

    def _sequence(self, until: tuple[str, ...] = ()) -> Pattern:
        found, ended = Pattern("", atoms=0), False
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if until and self.text.startswith(until, self.at):
                break
            part = self._repeated(self._part())
            if ended or (part.text == self._ends[0] and found.text):
                raise PatternRefused("^ behind other parts, or $ before them")
            ended = part.text == self._ends[1]
            found = Pattern(
                found.text + part.text,
                found.groups + part.groups,
                found.least + part.least,
                found.ways * part.ways,
                found.endless + part.endless,
                found.repeats or part.repeats,
                # What varies may only stand last: there the longest is taken by all.
                found.fixed and part.fixed and not (found.repeats and part.atoms),
                found.from_start or (not found.text and part.from_start),
                found.atoms + part.atoms,
                found.open_end and part.open_end and not found.endless,
                found.begins and (found.least > 0 or part.begins) if found.atoms else part.begins,
                part.finishes and (part.least > 0 or found.finishes),
                ended,
            )
        return found

    def _part(self) -> Pattern:
        here = self._any()
        if here == "(":
            return self._group()
        if here == "^":
            return Pattern(self._ends[0], from_start=True, atoms=0)
        if here == "$":
            return Pattern(self._ends[1], atoms=0)
        if here == ".":
            return Pattern(_NOT_A_LINE_BREAK, least=1)
        if here == "[":
            listed = self._class()
            return Pattern(listed, least=1, begins=_of_words(listed), finishes=_of_words(listed))
        if here in "*+?{})":
            raise PatternRefused(f"{here} where nothing is repeated")
        if here != "\\":
            return self._character(here)
        escaped = self._any()
        if escaped in "Az":
            end = "Az".index(escaped)
            return Pattern(self._ends[end], from_start=end == 0, atoms=0)
        known = _LETTER_CLASSES.get(escaped.lower())
        if known is not None:
            listed = _listed(self._both_cases(known), negated=escaped.isupper())
            word = _of_words(listed)
            return Pattern(listed, least=1, begins=word, finishes=word)
        return self._character(self._escaped(escaped))

    def _escaped(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum() or character > "\x7f":
            raise PatternRefused(f"\\{character}")
        return character

    def _character(self, character: str) -> Pattern:
        cases = self._cases(character)
        word = _is_letter(character) or character in "0123456789_"
        listed = _listed([(each, each) for each in cases], negated=False)
        text = _quoted(character) if len(cases) == 1 else listed
        return Pattern(text, least=1, begins=word, finishes=word)

    def _cases(self, character: str) -> list[str]:
        """List a character in both cases, where the case is of no account."""
        if not self._ignore_case or not character.isalpha():
            return [character]
        if character > "\x7f":
            raise PatternRefused("letters beyond ASCII whose case is ignored")
        other = _OTHER_CASES.get(character.lower(), "")
        return [character.upper(), character.lower(), *other]

    def _group(self) -> Pattern:
        plain = self._next("?:")
        if not plain and self._next("?"):
            raise PatternRefused("(?")
        inside = self.alternatives()
        if not self._next(")"):
            raise PatternRefused("( without )")
        captured = self._captures and not plain
        opened = "(" if captured else "(?:"
        return replace(inside, text=f"{opened}{inside.text})", groups=inside.groups + captured)

    def _class(self) -> str:
        negated = bool(self._next("^"))
        ranges: list[tuple[str, str]] = []
        while not (ranges and self._next("]")):
            ranges += self._class_item()
        return _listed(ranges, negated=negated)

    def _class_item(self) -> Iterable[tuple[str, str]]:
        named = _NAMED.match(self.text, self.at)
        if named is not None:
            self.at = named.end()
            if named[1] not in _NAMED_CLASSES:
                raise PatternRefused(f"[:{named[1]}:]")
            return self._both_cases(_NAMED_CLASSES[named[1]])
        first = self._any()
        if first == "[":
            raise PatternRefused("[ in a list of characters")
        if first == "\\":
            first = self._any()
            if first in _LETTER_CLASSES:
                return self._both_cases(_LETTER_CLASSES[first])
            first = self._escaped(first)
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return [(each, each) for each in self._cases(first)]
        self._any()
        last = self._any()
        if last == "\\":
            last = self._escaped(self._any())
        if last < first or last == "[":
            raise PatternRefused("a range of characters that has none")
        return self._both_cases([(first, last)])

    def _both_cases(self, ranges: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for first, last in ranges:
            if not self._ignore_case or not _has_letters(first, last):
                found.append((first, last))
                continue
            if not (_is_letter(first) and _is_letter(last) and first.islower() == last.islower()):
                raise PatternRefused("a range beyond a to z whose case is ignored")
            low, high = first.lower(), last.lower()
            others = (other for letter, other in _OTHER_CASES.items() if low <= letter <= high)
            found += [(low.upper(), high.upper()), (low, high), *((o, o) for o in others)]
        return found

    def _repeated(self, part: Pattern) -> Pattern:
        sign = self._next("*", "+", "?")
        if sign:
            low, high = int(sign == "+"), 1 if sign == "?" else None
        else:
            found = _REPETITION.match(self.text, self.at)
            if found is None:
                return part
            self.at, sign = found.end(), found[0]
            low = int(found[1])
            high = low if found[2] is None else int(found[3]) if found[3] else None
        lazy = self._next("?")
        if part.atoms == 0 or self._next("*", "+", "?", "{"):
            raise PatternRefused("a repetition of a repetition, or of nothing")
        if max(low, high or 0) > MOST_REPEATED or (high is not None and high < low):
            raise PatternRefused(f"a repetition of more than {MOST_REPEATED} times")
        once = (low, high) == (0, 1)
        grouped = part.text.endswith(")") and part.text.startswith("(")
        if grouped and not once and (part.repeats or part.ways > 1 or part.least == 0):
            raise PatternRefused("a repetition of a group that can match in several ways")
        times = 1 if high is None else high - low + 1
        return Pattern(
            f"{part.text}{sign}{lazy}",
            part.groups,
            part.least * low,
            part.ways * times,
            part.endless + (high is None),
            part.repeats or low != high,
            part.fixed and not lazy and (not grouped or low == high),
            part.from_start and low > 0,
            part.atoms * max(low, high or 0, 1),
            part.open_end,
            part.begins,
            part.finishes,
        )


_OF_WORDS: Final = re.compile(r"\[(?:[0-9](?:-[0-9])?|[A-Z](?:-[A-Z])?|[a-z](?:-[a-z])?|_)+\]")


def _of_words(listed: str) -> bool:
    """Tell whether a list has none but letters, digits and underscores, by its text."""
    return _OF_WORDS.fullmatch(listed) is not None


def _is_letter(character: str) -> bool:
    return character.isalpha() and character <= "\x7f"


def _has_letters(first: str, last: str) -> bool:
    return any(low <= last and first <= high for low, high in _LETTERS) or last > "\x7f"


def _quoted(character: str) -> str:
    """Write a character; of ASCII, all but letters, digits and blanks may mean something."""
    plain = character.isalnum() or character in "_ \t\n\r\f" or character > "\x7f"
    return character if plain else f"\\{character}"


def _listed(ranges: Iterable[tuple[str, str]], *, negated: bool) -> str:
    written = (
        _quoted(first) if first == last else f"{_quoted(first)}-{_quoted(last)}"
        for first, last in dict.fromkeys(ranges)
    )
    return f"[{'^' if negated else ''}{''.join(written)}]"
