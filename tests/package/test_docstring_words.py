"""The first sentence of a docstring says what a function does, or what a property is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from dpsql.core.wordlists import words

PACKAGE = Path(__file__).parents[2] / "dpsql"

VERBS = frozenset(
    words(
        "Acquire Add Advance Aggregate Allow Answer Append Apply Ask Average Begin Bind Bound "
        "Build Calibrate Call Cast Change Charge Check Choose Clamp Classify Close Collect Combine "
        "Commit Compare Compose Compress Compute Connect Convert Copy Count Create Cut Decide "
        "Declare Delete Derive Describe Digest Divide Do Draft Draw Drop Empty Enclose Encode "
        "End Escape Estimate Examine Expand Explain Find Forget Format Give Go Group Guess Hash "
        "Have Hide Ignore Interrupt Invert Join Judge Keep Lay Leave Lend Let Limit List Load "
        "Lock Log Look Lower Make Map Measure Merge Minimise Move Multiply Name Normalise "
        "Number Offer Open Pack Pair Parse Pay Place Plan Pool Prepare Present Price Print Propose "
        "Publish Put Quote Raise Rank Read Recommend Recompute Record Refresh Refuse Register "
        "Release Remove Render Renew Replace Report Require Reserve Resolve Return Rewrite Roll "
        "Round Run Say Search Select Send Set Shift Shorten Show Sort Spell Split Spread Square "
        "Stand Start State Stop Store Stream Strip Sum Survey Suspend Take Tell Test Total Try "
        "Tune Turn Underline Undo Unpack Update Use Validate Visit Wait Walk Watch Weigh Widen "
        "Wrap Write Yield "
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
