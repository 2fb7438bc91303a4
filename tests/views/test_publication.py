"""What a step of a view publishes: released rows as bytes in pieces, and back."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from helpers.failures import fails_with

from dpsql.views import publication
from dpsql.views.plan import ViewPlan
from dpsql.views.publication import GroupTexts, StepRelease, packed, unpacked

MEASURES = ["n", "total"]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> ViewPlan:
    """A view by two keys, with a count and a sum."""
    monkeypatch.setattr(publication, "drawn_columns", lambda _: MEASURES)
    return cast(ViewPlan, SimpleNamespace(block=SimpleNamespace(keys=[None, None])))


def release_of(groups: list[GroupTexts]) -> StepRelease:
    numbers = np.arange(len(groups))
    return StepRelease(3, tuple(groups), {"n": numbers, "total": numbers / 3})


def same(one: StepRelease, other: StepRelease) -> bool:
    values = (np.array_equal(one.values[name], other.values[name]) for name in MEASURES)
    return (one.step, one.groups) == (other.step, other.groups) and all(values)


def cut(pieces: Iterator[bytes], size: int) -> list[bytes]:
    whole = b"".join(pieces)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


GROUPS: dict[str, list[GroupTexts]] = {
    "none": [],
    "one": [("a", None)],
    "many": [(str(i), "b") for i in range(20_000)],
    "odd texts": [("\n", '{"view":1,'), ("\u2028\ud800", "\x00"), ('"\\', '}\n{"view":1,')] * 50,
    "a long text": [("a", None), ("x" * 3_000_000, "y"), ("b", "c")],
}


@pytest.mark.parametrize("which", GROUPS)
@pytest.mark.parametrize("size", [7, 1000, 2**23])
def test_a_step_comes_back_however_its_bytes_are_divided(
    which: str, size: int, plan: ViewPlan
) -> None:
    release = release_of(GROUPS[which])
    if size == 7 and which in ("many", "a long text"):
        release = release_of(GROUPS[which][:1])
    assert same(unpacked(plan, 3, cut(packed(release), size)), release)


@pytest.mark.slow
def test_pieces_are_of_a_moderate_size_whatever_texts_are(plan: ViewPlan) -> None:
    """So that no step takes its size in memory a second time."""
    release = release_of([(f"{i} " + "x" * 50_000, None) for i in range(400)])
    sizes = [len(piece) for piece in packed(release)]
    assert sum(sizes) > 20_000_000
    assert max(sizes) < 1_300_000
    many = release_of([("a", "b")] * 50_000)
    assert len(list(packed(many))) > 5
    assert same(unpacked(plan, 3, packed(many)), many)


def test_what_is_no_number_fails_before_the_first_piece() -> None:
    """Not while they are written, when the step is on its way out."""
    release = release_of([("a", "b")] * 3)
    release.values["total"][1] = np.nan
    with pytest.raises(ValueError, match="no number"):
        packed(release)


@pytest.mark.parametrize(
    "damage", [b"", b"\n", b"{", b'{"view":1}\n', b'{"view":3}\n', b"\xff\n", b"[]\n"]
)
def test_what_is_no_step_is_refused(damage: bytes, plan: ViewPlan) -> None:
    for parts in ([damage], [], [damage, *packed(release_of([("a", "b")]))]):
        if damage == b"" and len(parts) == 2:
            continue
        with fails_with("ledger_corrupt"):
            unpacked(plan, 3, parts)
