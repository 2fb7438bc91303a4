"""A YAML text as plain values that remember where they stand, read more strictly than YAML asks.

What YAML allows and a policy must not contain is refused here, with its place: anchors and aliases
(a small text that means a huge one), tags, directives, repeated names (also when they differ in
case only), names that are not text, NaN and infinities, and numbers whose meaning depends on the
reader (``010``, ``0x1F``). ruamel.yaml is used in this module only, and only to build its node
tree: its constructors, and their many tags, never run.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from dpsql.core.schema import fold

MAX_YAML_NESTING: Final = 12
MAX_BRACKETS: Final = 50  # more than are read, as text in quotes may hold some
MAX_INTEGER_DIGITS: Final = 39

_BRACKETS: Final = re.compile(r"[\[\]{}]")
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_FEWER_BRACKETS: Final = "Remove the extra brackets."

Path: TypeAlias = tuple[str | int, ...]
"""Names and list positions from the top of the document down to a value."""

Span: TypeAlias = tuple[int, int]
"""Start and end (exclusive) in the text, in characters."""


class _Invalid:
    """Marks a reported value, so that its readers stop."""

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Final = _Invalid()


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the text: the value and its place, a message and a hint."""

    path: Path
    span: Span
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """The document: nested dicts, lists and scalars (str, int, float, bool, date, None).

    ``names`` and ``values`` give the span of each path's name and of its value.
    """

    value: object
    names: Mapping[Path, Span]
    values: Mapping[Path, Span]
    problems: tuple[Problem, ...]

    def name_span(self, path: Path) -> Span:
        """Tell where the path's name stands, or that of its nearest named ancestor."""
        while path and path not in self.names:
            path = path[:-1]
        return self.names.get(path, (0, 1))

    def value_span(self, path: Path) -> Span:
        """Tell where the path's value stands, or the name of its nearest ancestor."""
        return self.values[path] if path in self.values else self.name_span(path)


class YamlSyntaxError(Exception):
    """The text is not YAML: ``problem`` says where and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def read_tree(text: str) -> Tree:
    """Read a text with ``\\n`` line ends. Raises YamlSyntaxError if it is not one YAML document."""
    _refuse_nested(text)
    directive = re.search(r"^%.*", text, re.MULTILINE)
    if directive:
        raise _syntax("YAML directives are not used here", directive.start(), "Remove the line.")
    node = _compose(text)
    if node is None:
        return Tree(None, {}, {}, ())
    walker = _Walker()
    value = walker.read((), node)
    return Tree(value, walker.names, walker.values, tuple(walker.problems))


def _refuse_nested(text: str) -> None:
    """Refuse brackets in brackets in brackets, which the parser takes very long to read."""
    depth = 0
    for bracket in _BRACKETS.finditer(_COMMENT.sub(_blanks, text)):
        depth = max(depth + (1 if bracket.group() in "[{" else -1), 0)
        if depth > MAX_BRACKETS:
            raise _syntax("brackets are nested too deeply", bracket.start(), _FEWER_BRACKETS)


def _blanks(found: re.Match[str]) -> str:
    return " " * len(found.group())


def _compose(text: str) -> Node | None:
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except ReaderError as error:
        character = error.character
        code = character if isinstance(character, int) else ord(character)
        message = f"the character U+{code:04X} is not allowed in YAML"
        raise _syntax(message, error.position, "Remove it; it may be invisible.") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context}"
        raise _syntax(message, mark.index if mark else 0, _syntax_hint(message)) from None
    except RecursionError:
        raise _syntax("nested too deeply", 0, "Remove the extra levels.") from None
    except (YAMLError, ValueError, OverflowError):  # the last two: escapes such as \U99999999
        raise _syntax("not valid YAML", 0, _syntax_hint("")) from None
    return node


def _syntax(message: str, position: int, hint: str) -> YamlSyntaxError:
    return YamlSyntaxError(Problem((), (position, position + 1), message, hint))


def _syntax_hint(message: str) -> str:
    if "'\\t'" in message or "\t" in message:
        return "Indent with spaces, not tabs."
    if "mapping values" in message:
        return "Check the indentation, and put text that contains a colon in quotes."
    if "another document" in message:
        return "Keep one document: remove everything from the second `---` on."
    return "Check the indentation and that every bracket and quote is closed."


class _Walker:
    """Turns nodes into values, collecting spans and problems on the way."""

    def __init__(self) -> None:
        self.names: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.problems: list[Problem] = []

    def read(self, path: Path, node: Node) -> object:
        self.values[path] = _span(node)
        if node.anchor is not None:
            return self.refuse(
                path, node, "anchors (&) and aliases (*) are not used here", "Write it out."
            )
        if len(path) > MAX_YAML_NESTING:
            return self.refuse(path, node, "nested too deeply", "Remove the extra levels.")
        read = _READERS.get(str(node.tag))
        if read is None or not isinstance(node, _NODE_OF[str(node.tag)]):
            return self.refuse(
                path, node, "YAML tags (!) and merge keys are not used here", "Write a plain value."
            )
        return read(self, path, node)

    def refuse(self, path: Path, node: Node, message: str, hint: str) -> object:
        self.problems.append(Problem(path, _span(node), message, hint))
        return INVALID

    def mapping(self, path: Path, node: Node) -> object:
        result: dict[str, object] = {}
        first: dict[str, str] = {}
        for key, value in node.value:
            name = self.name(path, key)
            if name is None:
                continue
            earlier = first.setdefault(fold(name), name)
            if earlier is not name:
                self.repeated((*path, name), key, earlier)
                continue
            self.names[(*path, name)] = _span(key)
            result[name] = self.read((*path, name), value)
        return result

    def name(self, path: Path, key: Node) -> str | None:
        text = key.value if isinstance(key, ScalarNode) else None
        if key.anchor is not None or str(key.tag) != _STR or not text:
            message = "a name must be text, and not empty"
            hint = f'Put it in quotes: "{text}".' if text else "Write a name before the colon."
            self.refuse((*path, str(text or "")), key, message, hint)
            return None
        return None if self.text((*path, text), key) is INVALID else str(text)

    def repeated(self, path: Path, key: Node, earlier: str) -> None:
        same = "appears twice" if earlier == path[-1] else f"differs from `{earlier}` in case only"
        self.refuse(path, key, f"the name `{path[-1]}` {same}", "Keep one of the two.")

    def sequence(self, path: Path, node: Node) -> object:
        return [self.read((*path, i), item) for i, item in enumerate(node.value)]

    def text(self, path: Path, node: Node) -> object:
        if re.search("[\x00\ud800-\udfff]", node.value):  # only escapes can bring these in
            return self.refuse(path, node, "the text holds a NUL or half a character", "Remove it.")
        return str(node.value)

    def null(self, path: Path, node: Node) -> object:
        return None

    def boolean(self, path: Path, node: Node) -> object:
        lowered = str(node.value).lower()
        if lowered not in ("true", "false"):
            return self.refuse(path, node, "not a truth value", "Write true or false.")
        return lowered == "true"

    def integer(self, path: Path, node: Node) -> object:
        if not re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", node.value):
            return self.refuse(
                path,
                node,
                f"`{node.value[:40]}` is not written as a plain decimal number",
                "Write decimal digits without leading zeros; put it in quotes if it is text.",
            )
        if len(node.value) > MAX_INTEGER_DIGITS:
            return self.refuse(path, node, "the number has too many digits", "Write a smaller one.")
        return int(node.value)

    def real(self, path: Path, node: Node) -> object:
        text = str(node.value)
        if re.fullmatch(r"[-+]?\.(inf|nan)", text, re.IGNORECASE):
            return self.refuse(path, node, f"`{text}` is not a finite number", "Write a number.")
        if not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
            return self.refuse(path, node, f"`{text[:40]}` is not a number", "Write a number.")
        value = float(text)
        if not math.isfinite(value):
            return self.refuse(path, node, f"`{text[:40]}` is too large", "Write a smaller one.")
        return value

    def moment(self, path: Path, node: Node) -> object:
        text = str(node.value)
        parse: Callable[[str], object] = (
            datetime.date.fromisoformat if len(text) <= 10 else datetime.datetime.fromisoformat
        )
        try:
            return parse(text)
        except ValueError:
            hint = "Write YYYY-MM-DD, or put it in quotes if it is text."
            return self.refuse(path, node, f"`{text[:40]}` is not a date or time", hint)


_STR: Final = "tag:yaml.org,2002:str"
_READERS: Final[Mapping[str, Callable[[_Walker, Path, Node], object]]] = {
    _STR: _Walker.text,
    "tag:yaml.org,2002:map": _Walker.mapping,
    "tag:yaml.org,2002:seq": _Walker.sequence,
    "tag:yaml.org,2002:null": _Walker.null,
    "tag:yaml.org,2002:bool": _Walker.boolean,
    "tag:yaml.org,2002:int": _Walker.integer,
    "tag:yaml.org,2002:float": _Walker.real,
    "tag:yaml.org,2002:timestamp": _Walker.moment,
}
_NODE_OF: Final[Mapping[str, type[Node]]] = {
    tag: {"map": MappingNode, "seq": SequenceNode}.get(tag.rpartition(":")[2], ScalarNode)
    for tag in _READERS
}


def _span(node: Node) -> Span:
    start, end = node.start_mark.index, node.end_mark.index
    return (start, max(start + 1, end))
