"""What a unit contributes to a view over all steps, whatever its rows do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.step_keys import repeat_keys as repeat_keys
from helpers.step_keys import repeated_keys as repeated_keys

from dpsql.core.sql_types import INTEGER
from dpsql.errors import EngineError
from dpsql.views.state import UNIT, Contribution, KeptNoise, StateShape, ViewState

GROUPS = 2
SHAPE = StateShape(
    INTEGER,
    (column_of("k", "VARCHAR"),),
    (Contribution("units", 1, True), Contribution("total", 6, False)),
    groups=GROUPS,
)
Row = tuple[int, str | None, int, int]
Totals = dict[str | None, tuple[int, int]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "clinic.views" / "a"
    ViewState.create(found, "a", SHAPE)
    return found


class Source:
    """Rows for the state, as another engine gives them."""

    def __init__(self, rows: list[Row]) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(
            f"CREATE TABLE r ({UNIT} INTEGER, k VARCHAR, units BIGINT, total BIGINT)"
        )
        if rows:
            self._connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._connection.table("r").__arrow_c_stream__(requested_schema)


def absorb(place: Path, steps: list[list[Row]], first: int = 1) -> list[Totals]:
    found = []
    with ViewState.open(place, "a", SHAPE) as state:
        for number, rows in enumerate(steps, start=first):
            state.absorb(number, Source(rows))
            found_now = state.totals(number)
            (keys,), (units, total) = found_now.keys, found_now.values
            found.append(
                dict(zip(keys, zip(units.tolist(), total.tolist(), strict=True), strict=True))
            )
    return found


def test_what_is_counted_adds_up(place: Path) -> None:
    first, second = absorb(
        place, [[(1, "a", 1, 3), (2, "a", 1, 2)], [(1, "a", 1, 3), (2, "a", 1, 4), (3, None, 1, 1)]]
    )
    assert first == {"a": (2, 5)}
    assert second == {"a": (2, 7), None: (1, 1)}


def test_rows_that_disappear_stay_counted(place: Path) -> None:
    assert absorb(place, [[(1, "a", 1, 3)], []])[1] == {"a": (1, 3)}


@pytest.mark.slow
def test_groups_are_taken_for_good_in_the_order_of_steps(place: Path) -> None:
    steps: list[list[Row]] = [
        [(1, "a", 1, 1)],
        [(1, "a", 1, 1), (1, "b", 1, 1)],
        [(1, x, 1, 1) for x in "0abz"],
    ]
    assert set(absorb(place, steps)[2]) == {"a", "b"}


@pytest.mark.slow
def test_a_unit_with_too_many_groups_at_once_keeps_some_of_them(place: Path) -> None:
    (found,) = absorb(place, [[(unit, k, 1, 1) for unit in range(50) for k in "abcdef"]])
    assert sum(units for units, _ in found.values()) == 100
    assert all(5 <= units <= 30 for units, _ in found.values())


@pytest.mark.slow
def test_values_that_go_up_and_down_use_up_what_the_unit_has(place: Path) -> None:
    steps: list[list[Row]] = [[(1, "a", 1, value)] for value in (3, 1, 3, -4, 6)]
    totals = [found["a"][1] for found in absorb(place, steps)]
    assert totals == [3, 1, 2, 2, 2]  # 3 + 2 + 1 of the 6


def moves(seed: int, where: Path) -> list[list[int]]:
    """How far one unit moves each group, in l1 over all steps; rows come and go as they like."""
    random = np.random.default_rng(seed)

    def rows(units: int) -> list[Row]:
        pairs = {(int(random.integers(units)), "abcdefg"[random.integers(7)]) for _ in range(60)}
        return [(u, k, 1, int(random.integers(-9, 10))) for u, k in sorted(pairs)]

    steps = [rows(8) for _ in range(8)]
    without = [[row for row in step if row[0] != 3] for step in steps]
    places = [where / name for name in ("with", "without")]
    ViewState.create(places[0], "a", SHAPE)
    shutil.copytree(places[0], places[1])
    one, other = absorb(places[0], steps), absorb(places[1], without)
    moved = []
    for group in {key for step in one for key in step}:
        values = [[step.get(group, (0, 0)) for step in steps] for steps in (one, other)]
        difference = np.subtract(values[0], values[1])
        increments = np.abs(np.diff(difference, axis=0, prepend=np.zeros((1, 2), dtype=int)))
        moved.append(increments.sum(axis=0).tolist())
    return [most for most in moved if most != [0, 0]]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("repeated_keys")
def test_no_unit_changes_more_than_its_bounds_whatever_the_rows_do(
    seed: int, tmp_path: Path
) -> None:
    changed = moves(seed, tmp_path)
    assert 0 < len(changed) <= GROUPS
    assert all(units <= 1 and total <= 6 for units, total in changed)
    assert max(total for _, total in changed) > 3  # the rows do press against the bound


@pytest.mark.slow
@pytest.mark.usefixtures("repeated_keys")
def test_caps_that_are_made_anew_at_every_step_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what a unit had before is forgotten, as in a query that is asked again."""
    original = ViewState.absorb

    def forgetful(self: ViewState, step: int, rows: Any) -> None:
        self._connection.execute("DELETE FROM counted")
        original(self, step, rows)

    monkeypatch.setattr(ViewState, "absorb", forgetful)
    changed = moves(0, tmp_path)
    assert len(changed) > GROUPS
    assert any(units > 1 or total > 6 for units, total in changed)


def test_a_step_that_failed_counts_nothing(place: Path) -> None:
    absorb(place, [[(1, "a", 1, 3)]])
    with pytest.raises(EngineError), ViewState.open(place, "a", SHAPE) as state:
        state.absorb(2, duckdb.sql("SELECT 1::INTEGER AS other"))  # type: ignore[arg-type]
    with ViewState.open(place, "a", SHAPE) as state:
        assert state.read_steps == 1
        assert state.totals(1).values[0].tolist() == [1]


@pytest.mark.slow
def test_a_window_forgets_what_was_counted_before_it(tmp_path: Path) -> None:
    place = tmp_path / "v"
    shape = StateShape(INTEGER, SHAPE.keys, SHAPE.contributions, groups=2, window=2)
    ViewState.create(place, "a", shape)
    found = []
    with ViewState.open(place, "a", shape) as state:
        for step, total in enumerate([2, 3, 3, 3], start=1):
            state.absorb(step, Source([(1, "a", 1, total)]))
            found.append(state.totals(step).values[1].tolist())
    assert found == [[2], [3], [1], [0]]


def test_only_the_owner_may_read_it(place: Path) -> None:
    """From the beginning, and whatever the engine puts beside it."""
    assert place.stat().st_mode & 0o777 == 0o700
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert (place / "state.duckdb").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in place.parent.iterdir()] == [place.name]


def test_states_that_cannot_be_used_are_refused(place: Path, tmp_path: Path) -> None:
    for where, stream, code in [
        (tmp_path / "none.duckdb", "a", "state_missing"),
        (place, "b", "state_of_another"),
    ]:
        with pytest.raises(EngineError) as caught, ViewState.open(where, stream, SHAPE):
            pass
        assert caught.value.code == code
    with fails_with("state_in_the_way"):
        ViewState.create(place, "a", SHAPE)


def test_a_state_of_another_version_is_refused(place: Path) -> None:
    """One whose later noise exists already, for example."""
    with duckdb.connect(str(place / "state.duckdb")) as inside:
        inside.execute("UPDATE meta SET version = 2")
    with pytest.raises(EngineError) as caught, ViewState.open(place, "a", SHAPE):
        pass
    assert caught.value.code == "state_of_another_version"
    assert "another version" in str(caught.value)


@pytest.mark.parametrize("damage", [
    lambda raw: b"DUCK, but not really",
    lambda raw: b"",
    lambda raw: raw[: len(raw) // 2],
    lambda raw: raw[:8192] + bytes(len(raw) - 8192),
    lambda raw: bytes(byte ^ 255 for byte in raw),
])  # fmt: skip
def test_a_damaged_state_is_refused_in_fixed_words(place: Path, damage: Any) -> None:
    absorb(place, [[(1, "secret", 1, 3)]])
    (file,) = place.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(EngineError) as caught:
        absorb(place, [[(1, "secret", 1, 3)]], first=2)
    assert caught.value.code in ("state_damaged", "engine_failed")
    assert caught.value.hint
    assert caught.value.__cause__ is None
    assert "duckdb" not in f"{caught.value} {caught.value.__context__!r}"


@pytest.mark.slow
def test_a_state_is_opened_by_one_at_a_time(place: Path) -> None:
    with ViewState.open(place, "a", SHAPE):
        with pytest.raises(EngineError) as caught, ViewState.open(place, "a", SHAPE):
            pass
        assert caught.value.code == "state_busy"
        script = f"import duckdb; duckdb.connect({str(place / 'state.duckdb')!r})"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert other.returncode != 0
    with ViewState.open(place, "a", SHAPE):
        pass


@pytest.mark.slow
def test_a_state_that_another_process_has_is_busy(place: Path) -> None:
    script = (
        f"import duckdb, time; c = duckdb.connect({str(place / 'state.duckdb')!r}); "
        "print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        try:
            with pytest.raises(EngineError) as caught, ViewState.open(place, "a", SHAPE):
                pass
        finally:
            other.kill()
    assert caught.value.code == "state_busy"


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_counted_as_that(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    monkeypatch.setattr(ViewState, "_absorb", lambda self, *_: self._connection.execute(endless))
    with ViewState.open(place, "a", SHAPE) as state:
        with pytest.raises(EngineError) as caught, state.within(0.1):
            state.absorb(1, Source([]))
        timer = threading.Timer(0.2, state.interrupt)
        timer.start()
        with pytest.raises(EngineError) as stopped, state.within(60):
            state.absorb(1, Source([]))
        assert state.read_steps == 0
    assert [caught.value.code, stopped.value.code] == ["time_limit", "interrupted"]


@pytest.mark.slow
def test_groups_keep_their_numbers_and_their_keys(place: Path) -> None:
    steps: list[list[Row]] = [
        [(unit, f"g{unit % 7}", 1, 1) for unit in range(20)],
        [(unit, f"g{unit % 9}", 1, 1) for unit in range(20, 40)],
    ]
    orders = []
    for number, rows in enumerate(steps, start=1):
        with ViewState.open(place, "a", SHAPE) as state:
            state.absorb(number, Source(rows))
            first = state.totals(number).keys
            assert state.totals(number).keys == first
            orders.append(first[0])
    assert orders[1][:7] == orders[0]
    assert sorted(map(str, orders[1])) == [f"g{n}" for n in range(9)]


def test_noise_is_kept_as_it_was_given(place: Path) -> None:
    random = np.random.default_rng(5)
    with ViewState.open(place, "a", SHAPE) as state:
        assert state.kept_noise() is None
        for step, size in ((1, 0), (2, 5000), (3, 5001)):
            columns = {name: random.normal(size=size) for name in ("sum_0_0", "size_0")}
            state.keep_noise(KeptNoise(step, b"digest", columns))
            found = state.kept_noise()
            assert found is not None
            assert (found.step, found.digest) == (step, b"digest")
            assert all((found.columns[name] == columns[name]).all() for name in columns)
