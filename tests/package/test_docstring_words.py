"""The first sentence of a docstring says what a function does, or what a property is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.core.wordlists import words

PACKAGE = Path(__file__).parents[2] / "dpsql"

VERBS = frozenset(
    words(
        "Accept Acquire Add Advance Aggregate Allow Answer Append Apply Approve Ask Assign Attach "
        "Average Begin Bind Bound Build Calibrate Call Cast Change Charge Check Choose Clamp "
        "Classify Close Collect Combine Commit Compare Compose Compress Compute Connect Convert "
        "Copy Count Create Cut Decide Declare Delete Derive Describe Detect Digest Divide Do "
        "Draft Draw Drop Empty Enclose Encode End Enrol Escape Estimate Examine Expand Explain "
        "Extract Fill Filter Find Fold Forget Format Gather Give Go Group Guess Handle Hash Have "
        "Hide Identify Ignore Insert Interrupt Invalidate Invert Join Judge Keep Label Lay Leave "
        "Lend Let Limit List Load Lock Log Look Lower Make Map Mark Match Measure Merge "
        "Minimise Move Multiply Name Normalise Number Offer Open Pack Pair Parse Pay Place Plan "
        "Pool Prepare Present Price Print Propose Prove Publish Put Quote Raise Rank Read "
        "Recommend Recompute Record Refresh Refuse Register Release Remove Rename Render Renew "
        "Replace Report Require Reserve Resolve Return Revoke Rewrite Roll Round Run Say Scan "
        "Search Select Send Serve Set Settle Shift Shorten Show Skip Sort Spell Split Spread "
        "Square Stand Start State Stop Store Stream Strip Subtract Suggest Sum Survey Suspend "
        "Take Tell Test Total Translate Truncate Try Tune Turn Underline Undo Unpack Unwrap "
        "Update Use Validate Verify Visit Wait Walk Warn Watch Weigh Widen Word Wrap Write Yield "
    )
)
"""What a function can do. A new verb is welcome; a noun, an article or a pronoun is none."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """Find the functions and methods of a module or class, with their full names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield inside + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{inside}{node.name}.")
        else:
            yield from functions(node, inside)


def is_property(function: Function) -> bool:
    """Tell whether a method is read like an attribute."""
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def wrong_words(folder: Path) -> list[str]:
    """List the functions whose docstrings begin with no verb, and the properties' that do."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for name, function in functions(ast.parse(path.read_text("utf-8"))):
            opening = (ast.get_docstring(function) or ".").split(maxsplit=1)[0].strip(",:;.")
            if opening and (opening in VERBS) == is_property(function):
                found.append(f"{path.relative_to(folder)}: {name}: {opening}")
    return found


@pytest.mark.slow
def test_a_docstring_says_what_a_function_does_or_what_a_property_is() -> None:
    assert wrong_words(PACKAGE) == []


def test_other_openings_are_found(tmp_path: Path) -> None:
    text = '''
def noise():
    """The noise of a release."""
def draw():
    """Draw the noise of a release."""
class _Stream:
    async def read(self):
        """Next step, or None."""
    def _steps(self):
        """The steps."""
    def __exit__(self):
        """This is the way out."""
    @property
    def width(self):
        """Return the width."""
    @cached_property
    def height(self):
        """The height."""
if True:
    def late():
        """It is late."""
'''
    (tmp_path / "module.py").write_text(text)
    found = [line.split(": ")[1] for line in wrong_words(tmp_path)]
    methods = [f"_Stream.{name}" for name in ("read", "_steps", "__exit__", "width")]
    assert found == ["noise", *methods, "late"]


RELATIVES = frozenset({"what", "that", "which", "whose", "whom"})
PRONOUNS = RELATIVES | {"it", "those", "them", "one", "such"}


def summaries(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the first sentence of each docstring, without names of the code."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                text = (ast.get_docstring(node) or "").split("\n\n")[0]
                sentence = re.split(r"\.(?=\s+[A-Z`])", text, maxsplit=1)[0]
                place = f"{path.relative_to(folder)}: {getattr(node, 'name', 'module')}"
                yield place, re.sub(r"``[^`]*``|:\w+:`[^`]*`", "", sentence)


def riddles(folder: Path) -> list[str]:
    """List docstrings whose first sentence has two relative pronouns, or three of any kind."""
    found = []
    for place, sentence in summaries(folder):
        told = re.findall(r"[a-z']+", sentence.lower())
        relative = sum(word in RELATIVES for word in told)
        if relative > 1 or sum(word in PRONOUNS for word in told) > 2:
            found.append(f"{place}: {' '.join(sentence.split())}")
    return found


RIDDLES = 3
"""How many such sentences are left: the bound may fall, and never rise."""


@pytest.mark.slow
def test_a_first_sentence_is_no_riddle() -> None:
    found = riddles(PACKAGE)
    assert len(found) <= RIDDLES, "name nouns instead of pronouns:\n" + "\n".join(found)


def test_a_riddle_is_found(tmp_path: Path) -> None:
    text = '''
"""What is asked of those that it names, and whose it is."""
def noise():
    """Compute what is left of that which was asked. More of it follows."""
def rows():
    """Return the rows that match. Those that do not are what is left of them."""
'''
    (tmp_path / "module.py").write_text(text)
    assert [line.split(": ")[1] for line in riddles(tmp_path)] == ["module", "noise"]
