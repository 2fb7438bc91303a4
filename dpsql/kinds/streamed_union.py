"""Set unions whose units are bounded in NumPy: the weights of keys, over kept pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.maker import gathered_units
from dpsql.bounding.pairs import Pairs
from dpsql.bounding.unit_order import number_of_units
from dpsql.bounding.units import kept_units
from dpsql.core.sql import name
from dpsql.engines.base.engine import IntegerStream, Scratch
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.streamed import ordered_units, read_stream, specification_of_found
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.set_union_weights import Progress
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed


def streamed_weights_of_keys(
    reading: BlockReading,
    union: SetUnion | GreedySetUnion,
    scratch: Scratch,
    progress: Progress,
    stored: Callable[[], None],
) -> NDArray[np.int64]:
    """Weigh the keys of rows by row id, stored as GROUPS.

    ``stored`` is told once pairs of units and keys are there. Sensitivity: as of
    ``set_union_sql``. Checked by ``tests/kinds/test_streamed_union.py``.
    """
    streamed = Streamed(PrivateRows(reading.plan, reading.salt, reading.dialect))
    spec = specification_of_found(streamed, scratch, None, by_hash=union.keys_by_hash)

    def alone(pairs: Pairs) -> Pairs:
        return replace(pairs, numbers=())

    def work(stream: IntegerStream) -> tuple[KeptPairs, int]:
        whole = (units.changed(alone) for units in gathered_units(stream, spec))
        kept = KeptPairs.of(stream, (kept_units(spec, units) for units in whole))
        return kept, number_of_units(kept)

    kept, units = read_stream(streamed, scratch, name(GROUPS), work)
    stored()
    return union.weigh(ordered_units(kept, spec, scratch), progress, units)
