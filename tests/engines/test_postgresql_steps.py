"""Values become lattice steps on a server as they do in exact arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import psycopg
import pytest
from helpers.dialects import POSTGRESQL
from helpers.postgresql_server import Server
from helpers.sql_text import Spelled

pytestmark = pytest.mark.slow  # they start a server

HALF = math.nextafter(0.5, 0.0)
EDGES = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-290, HALF, -HALF, 0.5, -0.5, 1.5, -2.5]
EDGES += [2.0**n + d for n in (1, 20, 51, 52, 53, 60) for d in (-0.5, 0.0, 0.5)]
EDGES += [math.nextafter(n + 0.5, side) for n in (0, 1, 2**20, 2**51) for side in (0.0, math.inf)]


def half_away(value: Fraction) -> int:
    """The nearest integer, of two the one farther from zero."""
    return int(math.copysign(1, value) * math.floor(abs(value) + Fraction(1, 2)))


def exact(value: float, quantum: float) -> int | None:
    """The steps in a value, if a double holds their number before they are rounded."""
    quotient = Fraction(value) / Fraction(quantum)
    if abs(quotient) > 2**62:
        return None  # out of every lattice
    return half_away(quotient)


@pytest.mark.parametrize("quantum", [2.0**-60, 2.0**-23, 1.0, 2.0**10, 2.0**40])
def test_steps_are_halves_away_from_zero(postgres_server: Server, quantum: float) -> None:
    drawn = random.Random(7)
    values = [value * quantum for value in EDGES]
    values += [drawn.uniform(-1, 1) * 2.0 ** drawn.randrange(-40, 50) for _ in range(2000)]
    values += [(drawn.randrange(-(10**6), 10**6) + 0.5) * quantum for _ in range(2000)]
    expected = {value: steps for value in values if (steps := exact(value, quantum)) is not None}
    dialect = Spelled(POSTGRESQL)
    written = dialect.rounded(dialect.quotient("v", quantum))
    rows = "unnest(%s::float8[]) WITH ORDINALITY AS t(v, place)"
    sql = f"SELECT CAST({written} AS BIGINT) FROM {rows} ORDER BY place"
    with psycopg.connect(postgres_server.url("postgres")) as session:
        found = session.execute(sql.encode(), [list(expected)]).fetchall()
    assert [each for (each,) in found] == list(expected.values())
