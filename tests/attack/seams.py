"""Where the attacker touches the insides of dpsql: what may have to follow when these change.

Everything goes through the product's own code: preparing, generating SQL, and reading it with the
engine that a connection holds. Only the salt is fixed, so that two databases can be compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from helpers.sql_text import generated, text
from helpers.unchecked_runs import unread

import dpsql
from dpsql.core.quoting import quote
from dpsql.core.schema import Column
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.embedded.spelling import one_spelling
from dpsql.ir.plan import BlockPlan, OpenBounds
from dpsql.kinds import staged
from dpsql.kinds.bounds_choice import read_weights
from dpsql.kinds.cascade import CascadeKind, StepProgress, read_cascade, units_alone
from dpsql.kinds.registry import release_kind
from dpsql.kinds.union import UnionKind
from dpsql.pipeline.prepare import Prepared
from dpsql.pipeline.release import read_exact, release_block
from dpsql.privacy.mechanisms.cascade import Caps
from dpsql.service.statements import Arguments

SALT = 7
LARGE = 2**31 - 1
RUNS = "runs when it is run alone"


def prepare(
    connection: dpsql.Connection, text: str, values: object, parameters: dict[str, Any]
) -> Prepared:
    """The statement made ready, as a connection does it."""
    given = dict(parameters)
    mechanism = given.pop("mechanism", None)
    asked = Arguments(values, mechanism, given)  # type: ignore[arg-type]
    question = connection._statements.question(text, asked)
    return connection._answerer.preparer.prepare(question)


def statement_of(plan: BlockPlan) -> str:
    """The generated SQL of a block with a fixed salt, and without the LIMIT of a top-k."""
    statement = text(release_kind(plan).statement(SALT, DUCKDB))
    fetch = plan.selection.top_rows_needed
    if fetch is not None and not plan.quantiles:
        assert f" LIMIT {fetch}" in statement
        statement = statement.replace(f" LIMIT {fetch}", f" LIMIT {LARGE}")
    return statement


def exact(connection: dpsql.Connection, plan: BlockPlan, statement: str, keys: Any) -> None:
    """Run a block's statement as the product does, its rows as the product wants them."""
    measures = [plan.block.measure_column(i) for i in range(len(plan.measures))]
    if UnionKind.fits(plan) or plan.quantiles or CascadeKind.fits(plan):
        measures = []
    if CascadeKind.fits(plan):
        _all_steps(connection, plan)
    named = () if plan.declared else keys
    if plan.declared:
        measures = [*(k.name for k in keys), *measures]
    unread(connection._answerer.engine.run()).exact(statement, named, measures)


def _all_steps(connection: dpsql.Connection, plan: BlockPlan) -> None:
    """Take every step of a cascade, as if each other group had been named."""
    sql = CascadeKind(plan).sql(SALT, DUCKDB)
    with connection._answerer.engine.run() as run, unread(run).scratch() as scratch:
        stage = read_cascade(sql, scratch, lambda ids: {}, StepProgress(lambda _: None))
        stage.rows.unit_sizes(None)
        found = stage.rows.unnamed_weights(np.zeros(0, np.int64), 2)
        named = np.sort(found.ids)[::2]
        stage.rows.unnamed_weights(named, 1)
        stage.rows.unit_sizes(named)
        if any(noisy.noise is not None for noisy in plan.measures):
            if not units_alone(plan):
                stage.rows.unit_norms(named)
                stage.rows.norm_shares(named)
            stage.totals(named, Caps(2, 2))


def rows(
    connection: dpsql.Connection, plan: BlockPlan, statement: str, keys: Sequence[Column]
) -> list[tuple[Any, ...]]:
    """The same rows, keys as text, in the spelling in which the engine hands them out."""
    names = [quote(key.name) for key in keys]
    spelled = names
    if not plan.declared:
        spelled = [
            f"CAST({text(one_spelling(generated(quote(k.name)), k.type))} AS VARCHAR)" for k in keys
        ]
    replaced = ", ".join(f"{one} AS {name}" for one, name in zip(spelled, names, strict=True))
    columns = f"* REPLACE ({replaced})" if names else "*"
    found = _cursor(connection).execute(f"SELECT {columns} FROM ({statement})")
    read: list[tuple[Any, ...]] = found.fetchall()
    return read


def weights(connection: dpsql.Connection, choice: OpenBounds) -> tuple[list[int], list[int]]:
    """The exact weights that bounds are drawn from, read as the product reads them.

    Samples are those of the fixed salt: two samples may differ by more than a unit.
    """
    with mock.patch.object(staged, "fresh_salt", return_value=SALT):
        return read_weights(connection._answerer.engine.run(), choice)


def engine_message(connection: dpsql.Connection, statement: str) -> str:
    """What the engine itself says of a statement that fails: for the attacker's report only."""
    import duckdb

    try:
        _cursor(connection).execute(statement).fetchall()
    except duckdb.Error as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return RUNS


def _cursor(connection: dpsql.Connection) -> Any:
    return connection._answerer.engine._cursor()  # type: ignore[attr-defined]


def release(connection: dpsql.Connection, prepared: Prepared) -> None:
    """Read and release every block as it is answered, noise included."""
    for block in prepared.blocks:
        answerer = connection._answerer
        run, dialect = answerer.engine.run(), answerer.preparer.dialect
        with read_exact(run, block, dialect, lambda _: None) as exact:
            release_block(block, exact, answerer.buyer.entropy)


def forget(connection: dpsql.Connection) -> None:
    """Undo SET, and forget what was planned."""
    connection._statements.reset()
    connection._answerer.preparer._shared.clear()


# -- what can be taken away ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Patch:
    """A replacement of one name of a module, which may not be there (yet)."""

    module: str
    name: str
    make: Callable[[Any], Any]

    @contextlib.contextmanager
    def applied(self) -> Any:
        """Replace it; yields whether it was there."""
        import importlib

        try:
            target: Any = importlib.import_module(self.module)
            *path, last = self.name.split(".")
            for part in path:
                target = getattr(target, part)
            original = target.__dict__[last] if isinstance(target, type) else getattr(target, last)
        except (ImportError, AttributeError, KeyError):
            yield False
            return
        setattr(target, last, self.make(original))
        try:
            yield True
        finally:
            setattr(target, last, original)
