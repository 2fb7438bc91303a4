"""Checks a tail before anything is paid: refuses tails that fail for every release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from dpsql.core.schema import Table
from dpsql.core.sql import Sql
from dpsql.engines.embedded.constants import FailingConstant, failing_constant
from dpsql.engines.embedded.sandbox import Apart, ApartFailed, SandboxLimits
from dpsql.errors import EngineError, QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import Query, TailKind
from dpsql.pipeline.tail.public_tables import empty_copy
from dpsql.pipeline.tail.rooms import Tenant
from dpsql.sql.tail.bind_check import constant_fails, needs_catalog, tail_sql, text_is_read

PLAN_LIMITS: Final = SandboxLimits(1 << 30, "500MB", 10.0)


class TailChecker:
    """Plans tails where there is nothing released, and computes their constants."""

    def __init__(self, tenant: Tenant, apart: Apart) -> None:
        self._tenant = tenant
        self._apart = apart

    def check(
        self, query: Query, blocks: Sequence[PreparedBlock], stand_ins: Sequence[Table] = ()
    ) -> None:
        """Refuse a tail that fails whatever is released. Nothing is run but its constants.

        Tables with ``stand_ins`` are not looked for: types take their place, or empty copies.

        Raises ``QueryRefused`` if one of them cannot be computed, or if planning the tail alone
        takes more than ``PLAN_LIMITS``. Errors that depend on released values come when it runs.
        Raises ``EngineError`` (``interrupted``) where the statement was: nothing is known then.
        """
        if query.tail_kind is TailKind.SURE:
            return
        try:
            found = self._failing(query, tail_sql(query, blocks, stand_ins), stand_ins)
        except ApartFailed:
            raise QueryRefused(
                "the query is too large to be planned",
                code="tail_too_large",
                hint="Its constants alone, or columns and aliases that are repeated in each other, "
                f"take more than {PLAN_LIMITS.memory_bytes >> 30} GB "
                f"or {PLAN_LIMITS.seconds:.0f} seconds.",
            ) from None
        except duckdb.InterruptException:
            raise EngineError("the query was interrupted", code="interrupted") from None
        if found is not None and found.read_as:
            raise text_is_read(query.text, found.read_as, found.literals)
        if found is not None:
            raise constant_fails(query.text, found.reason, found.literals)

    def _failing(
        self, query: Query, tail: Sql, stand_ins: Sequence[Table]
    ) -> FailingConstant | None:
        if query.tail_kind is TailKind.BOUNDED and not any(map(needs_catalog, stand_ins)):
            return failing_constant(self._tenant.stay().cursor, tail, texts=not query.casts)
        given = [table for table in stand_ins if not needs_catalog(table)]
        read = (source.table for source in query.public_tables)
        tables = [made for table in read if table not in given for made in empty_copy(table)]
        return self._apart.failing_constant(tables, tail, PLAN_LIMITS, texts=not query.casts)
