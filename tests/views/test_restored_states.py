"""No noise meets two states of the data, whatever is restored, copied or killed.

Everything that a view needs is put back together, as from a backup: the database, the ledger and
the private state. Then rows change, and both futures go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.plays import REFRESH, change, rows
from helpers.plays import clock as clock
from numpy.typing import NDArray
from test_listings import KINDS, Kind, connect, create
from test_listings import place as place

from dpsql.ledger import Ledger
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.streams.keyed import KeyedWords, StepKey
from dpsql.privacy.streams.meta import MetaHistogram
from dpsql.privacy.streams.sparse import SparseVector
from dpsql.views import state, views
from dpsql.views.choices import KeptChoices
from dpsql.views.drawing import draw_step
from dpsql.views.noise import ViewNoise
from dpsql.views.state import Totals, ViewState

COUNTS = "SELECT artist, COUNT(DISTINCT user_id) AS users, COUNT(*) AS n FROM plays GROUP BY artist"
PLAIN = {
    "counts": Kind("", cap=3, select=COUNTS),
    "declared": Kind("", cap=3, declared=True, select=COUNTS),
    "tree": Kind(", continual = 'tree'", cap=3, declared=True, select=COUNTS),
    "honaker": Kind(", continual = 'honaker'", cap=3, declared=True, select=COUNTS),
}
EVERY = PLAIN | KINDS
MOMENTS = ("begun", "counted", "chosen", "drawn", "published")


@dataclass
class Meetings:
    """Which exact values each of the random words has been used for."""

    of: dict[bytes, set[bytes]] = field(default_factory=dict)

    def note(self, words: bytes, exact: bytes) -> None:
        self.of.setdefault(words, set()).add(exact)

    @property
    def broken(self) -> list[bytes]:
        """The words that have met several."""
        return [words for words, met in self.of.items() if len(met) > 1]


@pytest.fixture
def meetings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meetings]:
    """Notes what every draw of a view is used for: additive noise, and what chooses groups.

    The noise of a step adds up draws of all keys so far, of which the last is its own.
    """
    found = Meetings()
    step = draw_step

    def note(key: StepKey, number: int, totals: Totals) -> None:
        values = (values.tolist() for values in totals.values)
        named = sorted(zip(*totals.keys, *values, strict=True), key=str)
        found.note(key.secret, repr((number, named)).encode())

    def drawn(
        plan: Any,
        number: int,
        totals: Totals,
        state: ViewState,
        noise: ViewNoise | None,
        *given: Any,
    ) -> Any:
        keys = state.keys if noise is None else noise._noises[0].keys
        note(keys[number - 1], number, totals)
        return step(plan, number, totals, state, noise, *given)

    monkeypatch.setattr(views, "draw_step", drawn)

    def words_of(source: Any) -> bytes:
        assert isinstance(source, KeyedWords)
        return source._base.digest() + source._argument + str(source._block).encode()

    def select(owner: type) -> None:
        original = owner.select  # type: ignore[attr-defined]

        def selected(self: Any, scores: NDArray[np.int64], source: Any) -> Any:
            found.note(words_of(source), np.sort(scores).tobytes())
            return original(self, scores, source)

        monkeypatch.setattr(owner, "select", selected)

    for owner in (KnownDomainTopK, GumbelTopK, GaussianTopK):
        select(owner)
    above = SparseVector.above

    def asked(self: Any, counts: Any, threshold: int, kept: Any, fresh: Any) -> bool:
        found.note(words_of(fresh), np.sort(counts).tobytes())
        return above(self, counts, threshold, kept, fresh)

    monkeypatch.setattr(SparseVector, "above", asked)
    of_cell = MetaHistogram.release_cell

    def cell(self: Any, place: Any, scores: Any, groups: Any, keys: Sequence[StepKey]) -> Any:
        _, last = self.steps_of(place)
        counts = sorted(zip(groups, scores.tolist(), strict=True))
        there = [(group, count) for group, count in counts if count]
        found.note(keys[last - 1].secret + repr(place).encode(), repr(there).encode())
        return of_cell(self, place, scores, groups, keys)

    monkeypatch.setattr(MetaHistogram, "release_cell", cell)
    yield found
    assert len(found.of) > 2, "nothing was watched"


def stop_at(moment: str, patch: pytest.MonkeyPatch) -> None:
    """Interrupt the second step, as a process that is killed there."""
    owner, name, after = {
        "begun": (ViewState, "absorb", False),
        "counted": (ViewState, "totals", False),
        "chosen": (KeptChoices, "keep", True),
        "drawn": (Ledger, "publish_step", False),
        "published": (Ledger, "publish_step", True),
    }[moment]
    original, calls = getattr(owner, name), iter(range(1, 10_000))

    def stopped(*given: Any) -> Any:
        if next(calls) < 2:
            return original(*given)
        if after:
            original(*given)
        raise KeyboardInterrupt

    patch.setattr(owner, name, stopped)


def fork(place: Path, name: str) -> Path:
    """Put everything back elsewhere, as from a backup, and change the rows."""
    other = place.parent / name
    shutil.copytree(place, other)
    change(
        other,
        "DELETE FROM plays WHERE user_id % 5 = 1; INSERT INTO plays SELECT 5000 + range, "
        "'a' || range % 9, '2026-01-03 10:00', 0 FROM range(33)",
    )
    return other


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("moment", ["between", *MOMENTS])
@pytest.mark.parametrize("name", list(EVERY))
def test_no_word_meets_two_states_of_the_data(
    name: str, moment: str, place: Path, clock: Callable[[int], None], meetings: Meetings
) -> None:
    kind = EVERY[name]
    with closing(connect(place, kind)) as opened:
        opened.sql(create(kind))
        clock(3)
        with pytest.MonkeyPatch.context() as patch:
            if moment != "between":
                stop_at(moment, patch)
            with suppress(KeyboardInterrupt):
                opened.sql(REFRESH)
    futures = [place, fork(place, "one")]
    clock(5)
    for where in (*futures, fork(futures[1], "two")):
        with closing(connect(where, kind)) as opened:
            opened.sql(REFRESH)
            clock(7)
            with suppress(KeyboardInterrupt):
                opened.sql(REFRESH)
        clock(5)
    assert not meetings.broken


@pytest.mark.slow
@pytest.mark.parametrize("name", ["declared", "schedule, declared", "sparse", "cells, declared"])
@pytest.mark.few(1)
def test_one_key_for_all_steps_would_be_noticed(
    name: str,
    place: Path,
    clock: Callable[[int], None],
    meetings: Meetings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin: keys that follow from one that a backup has, too."""
    kind = EVERY[name]
    absorb = ViewState.absorb

    def derived(self: ViewState, step: int, given: Any) -> None:
        later = iter(range(self.read_steps, step))
        source = SimpleNamespace(token_bytes=lambda size: bytes([next(later) + 1]) * size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(state, "secrets", source)
            absorb(self, step, given)

    monkeypatch.setattr(ViewState, "absorb", derived)
    with closing(connect(place, kind)) as opened:
        opened.sql(create(kind))
    for where in (place, fork(place, "one")):
        clock(6)
        with closing(connect(where, kind)) as opened:
            opened.sql(REFRESH)
    assert meetings.broken


def noise_of(place: Path, kind: Kind, step: int) -> list[int]:
    """What was added to the counts of declared artists at a step, by artist."""
    with closing(connect(place, kind)) as opened:
        shown = dict(rows(opened, f"SELECT artist, users FROM v WHERE step = {step}"))
    with duckdb.connect(str(place / "x.duckdb"), read_only=True) as owner:
        counted = owner.execute(
            "SELECT artist, count(DISTINCT user_id) FROM plays "
            f"WHERE played_at < DATE '2026-01-01' + {step} GROUP BY ALL"
        )
        exact = dict(counted.fetchall())
    return [shown[artist] - exact.get(artist, 0) for artist in sorted(shown)]


@pytest.mark.slow
def test_a_view_restored_with_its_ledger_and_its_rows_draws_other_noise(
    place: Path, clock: Callable[[int], None]
) -> None:
    """By what an analyst sees: the difference of two futures is not that of their rows."""
    # As many groups as a unit may have: all count.
    many = Kind("", cap=9, declared=True, select=COUNTS)
    with closing(connect(place, many)) as opened:
        opened.sql(create(many))
        clock(4)
        opened.sql(REFRESH)
    other = place.parent / "restored"
    shutil.copytree(place, other)
    change(
        other, "INSERT INTO plays SELECT 9000 + range, 'a2', '2026-01-04 08:00', 0 FROM range(7)"
    )
    clock(7)
    for where in (place, other):
        with closing(connect(where, many)) as opened:
            opened.sql(REFRESH)
    assert noise_of(place, many, 3) == noise_of(other, many, 3)  # published before
    for step in (4, 5, 6):
        assert noise_of(place, many, step) != noise_of(other, many, step)


@pytest.mark.slow
def test_a_step_without_its_rows_is_lost_and_has_noise_of_its_own_time(
    place: Path, clock: Callable[[int], None]
) -> None:
    """A step that was begun and not counted never resumes; the next one counts its rows."""
    kind = PLAIN["declared"]
    with closing(connect(place, kind)) as opened:
        opened.sql(create(kind))
        clock(4)
        with pytest.MonkeyPatch.context() as patch:
            stop_at("begun", patch)
            with pytest.raises(KeyboardInterrupt):
                opened.sql(REFRESH)
        (file,) = (place / "x.views").rglob("*.duckdb")
        with duckdb.connect(str(file), read_only=True) as inside:
            assert inside.execute("SELECT step FROM read").fetchall() == [(1,)]
        clock(6)
        opened.sql(REFRESH)
        assert rows(opened, "SELECT DISTINCT step FROM v ORDER BY 1") == [(1,), (4,), (5,)]
        with duckdb.connect(str(file), read_only=True) as inside:
            kept = inside.execute("SELECT step, key FROM read ORDER BY step").fetchall()
    assert [step for step, _ in kept] == [1, 2, 3, 4, 5]
    assert len({key for _, key in kept}) == 5
    assert noise_of(place, Kind("", cap=9, declared=True, select=COUNTS), 4)


@pytest.mark.slow
def test_a_new_state_knows_nothing_of_its_noise(place: Path, clock: Callable[[int], None]) -> None:
    kind = PLAIN["counts"]
    with closing(connect(place, kind)) as opened:
        opened.sql(create(kind))
    (file,) = (place / "x.views").rglob("*.duckdb")
    with duckdb.connect(str(file), read_only=True) as inside:
        assert inside.execute("SELECT * FROM read").fetchall() == []
        assert [c[0] for c in inside.execute("DESCRIBE meta").fetchall()] == ["version", "stream"]
