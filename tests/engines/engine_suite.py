"""The suite that every engine has to pass, whatever it is: a class to inherit from.

A subclass has a fixture ``world`` (:class:`engine_world.EngineWorld`). What is asked comes from the
golden files and from the generator of the sensitivity audit; what DuckDB reads of the same rows is
what is expected.
"""

from __future__ import annotations

import random
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
import test_sensitivity as sensitivity
from engine_world import (
    EngineWorld,
    Filled,
    Groups,
    Row,
    blocks_of,
    prepared,
    read_all,
    read_block,
    schema_for,
    statement_groups,
)
from golden_files import Case, cases, files
from helpers import linked_tables as lineage_world
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import (
    moved_by_units,
    plan_violations,
    rows_without,
    shared_moves_beyond,
    units_of,
)
from helpers.sql_text import Spelled, generated
from helpers.support import Planned, planned, policy
from helpers.unchecked_runs import unread
from hypothesis import given, settings
from scipy import stats
from worlds import DuckDBWorld, small_tables

from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.row_types import BLANKS
from dpsql.errors import EngineError, QueryRefused
from dpsql.ir.plan import OpenBounds, PreparedBlock, PreparedBoundsChoice, PreparedValueBounds
from dpsql.ir.relations import scanned
from dpsql.kinds.bounds_choice import bounds_choice_sql, read_weights
from dpsql.kinds.groups import ExactGroups
from dpsql.kinds.staged import Stages
from dpsql.kinds.union import UnionKind
from dpsql.kinds.value_bounds import value_bounds_sql
from dpsql.pipeline.release import read_choice, read_exact, stage_of_block
from dpsql.policy.model import EACH_ROW, ColumnPolicy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import AUTO
from dpsql.privacy.mechanisms.bounds_choice import WHOLE_WEIGHT
from dpsql.sql.rewrite.stage import Stage

CASES = [case for file in files() for case in cases(file)]
LIFTED = {"max_groups_contributed": 1000, "max_rows_contributed": 10**5}
R_COLUMNS = sensitivity.COLUMNS

# -- data ------------------------------------------------------------------------------------------


def odd_rows(*more: float) -> list[Row]:
    """Rows of few units, at the edges of types, with ``more`` values of ``f``."""
    drawn = random.Random(3)
    return [
        (
            *(drawn.choice((1, 1, 1, 2, 2, 3, 4, None)), drawn.choice((0, 1, None, -(2**31)))),
            *(drawn.choice((0.0, -0.0, 1.5, None, *more)), drawn.choice(("", "1", "bad", None))),
            *(drawn.choice(("p", "q", "other", None)), drawn.choice((-3, 2**31 - 1, None))),
            *(drawn.choice((0, 4, -(2**63), None)), drawn.choice((0.1, 1e308, None))),
        )
        for _ in range(250)
    ]


def lineage_tables(seed: int = 7, rows: int = 60) -> dict[str, Filled]:
    """Random rows for the tables of the lineage world, few values so that they meet."""
    drawn = random.Random(seed)
    values: Mapping[str, Sequence[object]] = {
        "BIGINT": (1, 2, 3, 4, 5, 6, None),
        "INTEGER": (0, 1, 2, 3, 4, 40, None),
        "DOUBLE": (0.0, -0.0, 1.5, -2.25, 9.75, 1e9, None),
        "VARCHAR": ("", "a", "b", "ä", "A", "Oslo", "7", None),
    }

    def value(table: str, column: str, type_: str, place: int) -> object:
        if (table, column) in (("orders", "okey"), ("items", "ikey")):
            return place  # what other tables are linked to is unique
        if table in ("shops", "towns"):  # NULL would leave NOT IN without rows, as would all values
            return drawn.choice((0, 1, 2) if column == "k" else values[type_][:-1])
        return drawn.choice(values[type_])

    return {
        name: Filled(
            columns,
            [tuple(value(name, *column, place) for column in columns) for place in range(rows)],
        )
        for name, columns in lineage_world.COLUMNS.items()
    }


def one_table(rows: Sequence[Row]) -> dict[str, Filled]:
    """The table of the sensitivity audit."""
    return {"r": Filled(R_COLUMNS, rows)}


def tables_of(case: Case) -> Mapping[str, Filled]:
    """The rows that a golden case is asked of."""
    return small_tables() if case.world == "small" else lineage_tables()


def asked(case: Case, tables: Mapping[str, Filled]) -> Planned:
    """A golden case, its caps above what any unit has."""
    parameters: dict[str, Any] = dict(case.parameters)
    if isinstance(parameters.get("max_groups_contributed", 1), int):
        parameters["max_groups_contributed"] = LIFTED["max_groups_contributed"]
    parameters["max_rows_contributed"] = LIFTED["max_rows_contributed"]
    if case.world == "small":
        return planned(case.statement, schema_for(tables), policy(), **parameters)
    return lineage_world.planned_here(case.statement, **parameters)


def groups_of(world: EngineWorld, sql: str, tables: Mapping[str, Filled]) -> Groups:
    """The exact groups of a question over a table ``t`` with a unit ``u``."""
    listed = TablePolicy("t", PrivacyUnit("unit", "u"))
    rules = replace(sensitivity.RULES, tables={"t": listed})
    schema = schema_for(tables)
    block = prepared(planned(sql, schema, rules).plans[0], schema)
    return read_all(world.engine(tables), block).groups


def is_blank(character: str) -> bool:
    """Tell whether nothing is seen of a character: spaces, ends of lines, controls, formats."""
    return unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf")


def fair(counts: Sequence[int], groups: int, cap: int) -> float:
    """The p-value of how often units keep each of their groups, if none is favoured."""
    spread = (groups - cap) / (groups - 1)
    return float(stats.chi2.sf(stats.chisquare(list(counts)).statistic / spread, groups - 1))


def only(refused: QueryRefused, code: str) -> None:
    """Raise a refusal again that is not of this kind."""
    if refused.code != code:
        raise refused


WITHIN_A_UNIT: Final = (
    "SELECT u, row_number() OVER (PARTITION BY u ORDER BY count(*), s) AS v FROM r GROUP BY u, s",
    "SELECT u, sum(count(*)) OVER (PARTITION BY u) AS v FROM r GROUP BY u, s",
    "SELECT u, sum(j) OVER (PARTITION BY u ORDER BY a ROWS UNBOUNDED PRECEDING) AS v FROM r",
    "SELECT u, last_value(s) OVER (PARTITION BY u ORDER BY j ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS v FROM r",
    "SELECT u, last_value(s) OVER (PARTITION BY u ORDER BY j, s, a) AS v FROM r",
    "SELECT u, last_value(j IGNORE NULLS) OVER (PARTITION BY u ORDER BY s, a, j) AS v FROM r",
    "SELECT u, first_value(j IGNORE NULLS) OVER (PARTITION BY u ORDER BY s, a, j) AS v FROM r",
    "SELECT u, lag(j IGNORE NULLS) OVER (PARTITION BY u ORDER BY s, a, j) AS v FROM r",
    "SELECT u, lead(j IGNORE NULLS) OVER (PARTITION BY u ORDER BY s, a, j) AS v FROM r",
    "SELECT u, rank() OVER w AS v FROM r WINDOW w AS (PARTITION BY u ORDER BY a)",
    "SELECT u, dense_rank() OVER (PARTITION BY u ORDER BY a DESC) AS v FROM r",
    "SELECT u, ntile(3) OVER (PARTITION BY u ORDER BY a, s) AS v FROM r",
    "SELECT u, (SELECT s FROM r w WHERE w.u = r.u ORDER BY a DESC, s, j LIMIT 1) AS v FROM r",
    "SELECT u, (SELECT -j AS j FROM r w WHERE w.u = r.u ORDER BY j LIMIT 1) AS v FROM r",
    "SELECT DISTINCT ON (u) u, j AS v, -j AS j FROM r ORDER BY u, j",
    "SELECT u, sum(j + 1) OVER (PARTITION BY u ORDER BY a, s, j ROWS BETWEEN 1 PRECEDING AND 1 "
    "FOLLOWING) AS v FROM r",
    "SELECT u, count(*) OVER w + count(a) OVER w + max(j) OVER w AS v FROM r WINDOW w AS "
    "(PARTITION BY u ORDER BY j, s, a ROWS 2 PRECEDING)",
    "SELECT u, round(avg(j) OVER (PARTITION BY u ORDER BY j, s, a ROWS 1 PRECEDING)) AS v FROM r",
    "SELECT u, count(*) OVER w + max(j) OVER w AS v FROM r WINDOW w AS (PARTITION BY u ORDER BY j "
    "RANGE BETWEEN 1 PRECEDING AND 1.5 FOLLOWING)",
    "SELECT u, count(*) OVER (PARTITION BY u ORDER BY a DESC NULLS FIRST RANGE BETWEEN 2 PRECEDING "
    "AND CURRENT ROW) AS v FROM r",
    "SELECT u, sum(j) OVER (PARTITION BY u ORDER BY j, s RANGE BETWEEN CURRENT ROW AND UNBOUNDED "
    "FOLLOWING) AS v FROM r",
    "SELECT u, sum(j) OVER (PARTITION BY u ORDER BY a, s, j ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "1 PRECEDING) AS v FROM r",
    "SELECT u, max(j) OVER (PARTITION BY u ORDER BY a, s, j ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED "
    "FOLLOWING) AS v FROM r",
    "SELECT u, round(8 * percent_rank() OVER w + 16 * cume_dist() OVER w) AS v FROM r WINDOW w AS "
    "(PARTITION BY u ORDER BY a)",
    "SELECT u, nth_value(j, 2) OVER (PARTITION BY u ORDER BY a, s, j) + lead(j, 1, -1) OVER "
    "(PARTITION BY u ORDER BY s, j, a) AS v FROM r",
    "SELECT u, length(string_agg(s, '-' ORDER BY a, s)) AS v FROM r GROUP BY u",
    "SELECT u, len(list(DISTINCT s)) + len(list(j) FILTER (WHERE a > 1)) AS v FROM r GROUP BY u",
    "SELECT u, length(array_to_string(ss, '-')) AS v FROM (SELECT u, list(s ORDER BY a, s) AS ss, "
    "list(j) AS js FROM r GROUP BY u) WHERE NOT list_contains(js, 7)",
    "SELECT u, length(string_agg(DISTINCT s, '')) + first(j ORDER BY a DESC, s) AS v FROM r "
    "GROUP BY u HAVING string_agg(j, ',') LIKE '%0%'",
    "SELECT u, j AS v FROM r UNION ALL SELECT u, f FROM r",
    "SELECT u, median(j) * 2 AS v FROM r GROUP BY u",
    "SELECT u, quantile_disc(s, 0.4) AS v FROM r GROUP BY u HAVING quantile_cont(j, 0.5) > -9",
    "SELECT u, percentile_disc(0.25) WITHIN GROUP (ORDER BY j DESC) AS v FROM r GROUP BY u",
    "SELECT u, mode(j * 0 + 3) AS v FROM r GROUP BY u",
    "SELECT u, j > ALL (SELECT j FROM r w WHERE w.u = r.u AND w.s <> r.s) AS v FROM r",
    "SELECT u, CASE WHEN bool_or(j > 0) THEN 1 WHEN bool_and(j > 0) THEN 2 ELSE 3 END AS v FROM r "
    "GROUP BY u",
)
"""Subqueries of which each row is of one unit, and follows from its rows."""


class EngineSuite:
    """What holds of every engine."""

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls) -> Iterator[EngineWorld]:
        """DuckDB with the same rows."""
        world = DuckDBWorld()
        yield world
        world.close()

    # -- exact rows ---------------------------------------------------------------------------

    @pytest.mark.few(12)
    @pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.title}")
    def test_exact_rows_are_those_of_duckdb_with_the_caps_lifted(
        self, case: Case, world: EngineWorld, reference: EngineWorld
    ) -> None:
        tables = tables_of(case)
        try:
            found = asked(case, tables)
        except QueryRefused as refused:
            only(refused, "no_mechanism")  # with caps that high
            return
        blocks = blocks_of(found, schema_for(tables))
        expected = [read_all(reference.engine(tables), block) for block in blocks]
        assert any(each.groups for each in expected), "the case finds no rows"
        engine = world.engine(tables)
        for block, each in zip(blocks, expected, strict=True):
            try:
                answer = read_all(engine, block)
            except QueryRefused as refused:
                if world.lenient(case.title, refused.code) is None:
                    raise
                return
            assert answer.groups == each.groups
            if not UnionKind.fits(block.plan):
                assert answer.others == each.others
        assert world.lenient(case.title, "") is None, "what is answered is listed as refused"

    def test_random_questions_have_the_exact_rows_of_duckdb(
        self, world: EngineWorld, reference: EngineWorld
    ) -> None:
        self._random(world, reference, examples_of(8))

    @pytest.mark.slow
    def test_random_questions_have_the_exact_rows_of_duckdb_at_length(
        self, world: EngineWorld, reference: EngineWorld
    ) -> None:
        self._random(world, reference, many_examples_of(150))

    def _random(self, world: EngineWorld, reference: EngineWorld, examples: settings) -> None:
        compared, refused = [0], [0]

        @examples
        @given(sensitivity.questions(), sensitivity.rows_of_units)
        def check(question: tuple[str, dict[str, Any]], rows: list[Row]) -> None:
            sql, parameters = question
            wide = {**parameters, "max_rows_contributed": 1000}
            if wide["max_groups_contributed"] is not None:
                wide["max_groups_contributed"] = 1000
            found = sensitivity.plans(sql, wide)
            # Which units are in a sample follows from a hash of the engine's own.
            if found is None or found.plans[0].block.source.share is not None:
                return
            tables = one_table(rows)
            block = prepared(found.plans[0], schema_for(tables))
            with reference.engine(tables).run() as run:
                expected = statement_groups(run, block, reference.dialect)
            try:
                with world.engine(tables).run() as run:
                    answer = statement_groups(run, block, world.dialect)
            except QueryRefused as refusal:
                only(refusal, "expression_not_allowed")
                refused[0] += 1
                return
            compared[0] += 1
            assert answer == expected, sql

        check()
        assert compared[0] > refused[0] / 2

    @pytest.mark.parametrize("rows_of_a_unit", WITHIN_A_UNIT)
    def test_what_is_told_of_a_units_rows_is_that_of_duckdb(
        self, rows_of_a_unit: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        sql = f"SELECT v, count(*) FROM ({rows_of_a_unit}) GROUP BY v"
        wide = {"max_groups_contributed": 1000, "max_rows_contributed": 1000}
        found = sensitivity.plans(sql, wide)
        assert found is not None
        tables = one_table(odd_rows())
        block = prepared(found.plans[0], schema_for(tables))
        answers = []
        for each in (reference, world):
            with each.engine(tables).run() as run:
                answers.append(statement_groups(run, block, each.dialect))
        assert answers[0] == answers[1]
        assert answers[0]

    # -- what one unit changes ----------------------------------------------------------------

    def test_one_unit_moves_exact_rows_within_the_declared_sensitivity(
        self, world: EngineWorld
    ) -> None:
        self._audit(world, examples_of(4))

    @pytest.mark.slow
    def test_one_unit_moves_exact_rows_within_the_declared_sensitivity_at_length(
        self, world: EngineWorld
    ) -> None:
        self._audit(world, many_examples_of(100))

    def test_a_row_that_is_a_unit_counts_once(self, world: EngineWorld) -> None:
        columns = (("k", "INTEGER"), ("n", "INTEGER"), ("s", "VARCHAR"))
        rows = [(place % 2, 1, "ab"[place % 3 % 2]) for place in range(7)]
        tables = {"answers": Filled(columns, rows)}
        answers = TablePolicy("answers", EACH_ROW, {"n": ColumnPolicy(0, 20)})
        rules = replace(policy(), tables={"answers": answers})
        for sql, expected in (
            ("SELECT COUNT(*), SUM(n) FROM answers", {(): (7, 7)}),
            ("SELECT k, COUNT(*) FROM answers GROUP BY k", {(0,): (4,), (1,): (3,)}),
            (
                "SELECT k, SUM(n + n), COUNT(*) FROM answers WHERE s = 'a' GROUP BY k",
                {(0,): (6, 3), (1,): (4, 2)},
            ),
            (
                "SELECT k, COUNT(DISTINCT s), COUNT(*) FROM answers GROUP BY k",
                {(0,): (2, 4), (1,): (2, 3)},
            ),
        ):
            plan = planned(sql, schema_for(tables), rules).plans[0]
            block = prepared(plan, schema_for(tables))
            with world.engine(tables).run() as run:
                assert statement_groups(run, block, world.dialect) == expected, sql

    def _audit(self, world: EngineWorld, examples: settings) -> None:
        @examples
        @given(sensitivity.questions(), sensitivity.rows_of_units)
        def check(question: tuple[str, dict[str, Any]], rows: list[Row]) -> None:
            found = sensitivity.plans(*question)
            if found is not None:
                assert self.violations(world, found, rows, world.dialect) == {}

        check()

    def violations(
        self, world: EngineWorld, found: Planned, rows: Sequence[Row], dialect: Dialect
    ) -> dict[object, list[str]]:
        """What each unit moves beyond what is declared, by a dialect's statement."""
        block = prepared(found.plans[0], schema_for(one_table(())))

        def groups(kept: Sequence[Row]) -> Groups:
            with world.engine(one_table(kept)).run() as run:
                return statement_groups(run, block, dialect)

        try:
            allowed = plan_violations(block.plan)
            return moved_by_units(rows, units_of(rows), rows_without, groups, allowed)
        except QueryRefused as refusal:
            only(refusal, "expression_not_allowed")
            return {}

    @pytest.mark.parametrize(
        "question",
        [
            "SELECT count(*) FROM r",
            "SELECT f, s, sum(j) FROM r WHERE a IS NULL OR a <> 1 GROUP BY f, s",
            "SELECT c, avg(x), median(i) FROM r GROUP BY c",
            "SELECT c, avg(x), avg(i) FROM r GROUP BY c",
            "SELECT c, corr(x, i), quantile_cont(x, [0.25, 0.75]) FROM r GROUP BY c",
        ],
    )
    def test_one_unit_moves_the_weights_of_its_pairs_by_a_whole_at_most(
        self, question: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        parameters: dict[str, Any] = {"epsilon": 1.0, "max_rows_contributed": AUTO}
        (plan,) = planned(
            question, sensitivity.SCHEMA, sensitivity.RULES, usual=False, **parameters
        ).plans
        choice = plan.bounds_choice
        assert choice is not None

        def asked(dialect: Dialect) -> PreparedBoundsChoice:
            write = partial(bounds_choice_sql, plan, choice, dialect)
            tables, renderer = scanned(plan.block.source.rows), dialect.renderer
            return PreparedBoundsChoice("f", tables, choice=choice, write=write, renderer=renderer)

        self._moves_a_whole(world, reference, asked, odd_rows())

    @pytest.mark.parametrize(
        "question",
        [
            "SELECT count(*) FROM r",
            "SELECT f, s, sum(j) FROM r WHERE a IS NULL OR a <> 1 GROUP BY f, s",
            "SELECT c, avg(x), stddev(x), count(s) FROM r GROUP BY c",
            "SELECT s, count(DISTINCT u) FROM r GROUP BY s",
        ],
    )
    def test_bounds_and_answers_are_the_same_over_a_stage(
        self, question: str, world: EngineWorld
    ) -> None:
        schema, rules, dialect = sensitivity.SCHEMA, sensitivity.RULES, world.dialect
        if not dialect.keeps_stages:
            pytest.skip("pairs are not stored there")
        options: dict[str, Any] = {"epsilon": 1.0, "left_out_share": 0.0}
        automatic: dict[str, Any] = {"max_rows_contributed": AUTO, "max_groups_contributed": AUTO}
        (plan,) = planned(question, schema, rules, usual=False, **options, **automatic).plans
        (bounded,) = planned(
            *(question, schema, rules),
            max_rows_contributed=2,
            max_groups_contributed=10**4,
            **options,
        ).plans
        choice, rows = plan.bounds_choice, odd_rows()
        block = prepared(bounded, schema_for(one_table(rows)))
        with world.engine(one_table(rows)).run() as run, ExitStack() as held:
            stages = Stages(run, held)
            if choice is None:  # keys are named in rounds, and no row counts twice
                stage = stage_of_block(block, dialect, ())
                assert isinstance(stage, Stage)
                stages.store(stage, scanned(plan.block.source.rows), "stage")
            else:
                draw = PreparedBoundsChoice(
                    *("f", scanned(plan.block.source.rows)),
                    choice=choice,
                    write=partial(bounds_choice_sql, plan, choice, dialect),
                    renderer=dialect.renderer,
                    block=plan,
                )
                assert read_choice(draw, stages, run, dialect) == read_weights(run, draw)
            with (
                stages.taken(stage_of_block(block, dialect, ())) as taken,
                read_exact(run, block, dialect, lambda _: None, (), taken) as exact,
            ):
                assert taken is not None
                assert isinstance(exact, ExactGroups)
                found = read_block(exact, block)
            with read_exact(run, block, dialect, lambda _: None) as again:
                assert isinstance(again, ExactGroups)
                assert found == read_block(again, block)
        assert found.groups

    @pytest.mark.parametrize("value", ["f", "s", "j", "CAST(s AS DOUBLE) * a"])
    def test_one_unit_moves_the_weights_of_shared_values_by_those_it_names(
        self, value: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        question = f"SELECT c, count(DISTINCT {value}), count(DISTINCT a) FROM r GROUP BY c"
        parameters: dict[str, Any] = {"epsilon": 1.0, "max_rows_contributed": AUTO}
        (plan,) = planned(
            question, sensitivity.SCHEMA, sensitivity.RULES, usual=False, **parameters
        ).plans
        choice = plan.bounds_choice
        assert choice is not None
        assert choice.rows is not None
        assert choice.rows.shared

        def weights(each: EngineWorld, kept: Sequence[Row]) -> list[int]:
            write = partial(bounds_choice_sql, plan, choice, each.dialect)
            tables, renderer = scanned(plan.block.source.rows), each.dialect.renderer
            asked = PreparedBoundsChoice("f", tables, choice=choice, write=write, renderer=renderer)
            with each.engine(one_table(kept)).run() as run:
                return read_weights(run, asked)[0]

        rows = odd_rows(float("nan"), -float("nan"))
        before = weights(world, rows)
        assert sum(before) == sum(weights(reference, rows)) > 0  # orders differ, and values do not
        assert not any(weights(world, []))
        for unit in (1, 3, None):
            after = weights(world, [row for row in rows if row[0] != unit])
            moved = [one - other for one, other in zip(before, after, strict=True)]
            assert shared_moves_beyond(choice.rows.rungs, moved, WHOLE_WEIGHT) == []

    @pytest.mark.parametrize(
        "value", ["f", "a", "f * a", "a * a * j", "CAST(s AS DOUBLE) * a", "abs(f) / i"]
    )
    def test_one_unit_moves_the_weights_of_its_values_by_a_whole_at_most(
        self, value: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        question = f"SELECT c, sum({value}) FROM r WHERE i IS NOT NULL GROUP BY c"
        schema, rules = sensitivity.SCHEMA, sensitivity.RULES
        (plan,) = planned(question, schema, rules, bounds=(), epsilon=1.0).plans
        (draw,), found = plan.value_bounds, plan.block.bounds_found
        assert found is not None

        def asked(dialect: Dialect) -> PreparedValueBounds:
            write = partial(value_bounds_sql, plan, found.values[0], draw, dialect)
            tables, renderer = scanned(plan.block.source.rows), dialect.renderer
            return PreparedValueBounds("f", tables, choice=draw, write=write, renderer=renderer)

        infinite = float("inf")
        rows = odd_rows(float("nan"), infinite, -infinite, 1e308, -1e308, 2.0**-12)
        self._moves_a_whole(world, reference, asked, rows)

    def _moves_a_whole(
        self,
        world: EngineWorld,
        reference: EngineWorld,
        asked: Callable[[Dialect], OpenBounds],
        rows: Sequence[Row],
    ) -> None:
        """Check that a unit moves the weights that bounds are drawn from by a whole at most."""

        def weights(each: EngineWorld, kept: Sequence[Row]) -> tuple[list[int], list[int]]:
            with each.engine(one_table(kept)).run() as run:
                return read_weights(run, asked(each.dialect))

        before = weights(world, rows)
        assert before == weights(reference, rows)
        assert sum(map(bool, before[0])) > 1
        assert not any(map(any, weights(world, [])))
        for unit in (1, 3, None):
            after = weights(world, [row for row in rows if row[0] != unit])
            for more, less in zip(before, after, strict=True):
                moved = [one - other for one, other in zip(more, less, strict=True)]
                assert min(moved, default=0) >= 0
                assert sum(moved) <= (0 if unit is None else WHOLE_WEIGHT)

    # -- caps ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("measure", ["count(DISTINCT u)", "count(*)", "sum(j)"])
    @pytest.mark.parametrize("bounding", ["sample", "weight"])
    def test_units_keep_as_many_groups_as_they_may(
        self, measure: str, bounding: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        sizes = {unit: 1 + unit % 9 for unit in range(60)}
        rows = [
            (unit, k, 0.0, "1", "p", 5, 4, 3.5) for unit, size in sizes.items() for k in range(size)
        ]
        found = self._planned(f"SELECT a, {measure} FROM r GROUP BY a", 4, bounding)
        answers = []
        for each in (reference, world):
            block = prepared(found.plans[0], schema_for(one_table(rows)))
            with each.engine(one_table(rows)).run() as run:
                answers.append(statement_groups(run, block, each.dialect))
        assert set(answers[1]) == set(answers[0]) == {(k,) for k in range(9)}
        if bounding == "weight":
            return
        factor = 4 if measure == "sum(j)" else 1
        expected = sum(min(4, size) for size in sizes.values()) * factor
        assert [sum(m[0] for m in answer.values()) for answer in answers] == [expected] * 2

    def _planned(self, sql: str, cap: int, bounding: str = "sample") -> Planned:
        return planned(
            sql,
            sensitivity.SCHEMA,
            sensitivity.RULES,
            max_groups_contributed=cap,
            contribution_bounding=bounding,
        )

    @pytest.mark.parametrize("key", ["", "a, "])
    def test_a_sample_has_units_as_a_whole(self, key: str, world: EngineWorld) -> None:
        group = " GROUP BY a" if key else ""
        found = planned(
            f"SELECT {key}count(*), count(DISTINCT u) FROM r WHERE random() < 0.25{group}",
            sensitivity.SCHEMA,
            sensitivity.RULES,
            max_rows_contributed=3,
        )
        rows = [(unit, 1, 0.0, "1", "p", 5, 4, 3.5) for unit in range(600) for _ in range(3)]
        block = prepared(found.plans[0], schema_for(one_table(rows)))
        kept = []
        with world.engine(one_table(rows)).run() as run:
            for salt in (7, 2**61 + 12345, 2**61 + 12346):
                (counts,) = statement_groups(run, block, world.dialect, salt).values()
                assert counts[0] == 3 * counts[1]
                kept.append(counts[1])
        assert all(100 < each < 200 for each in kept)
        assert len(set(kept)) > 1

    @pytest.mark.parametrize("salt", [7, 2**61 + 12345])
    def test_the_cap_favours_no_group(self, salt: int, world: EngineWorld) -> None:
        assert self.fairness(world, world.dialect, salt) > 1e-9

    def fairness(self, world: EngineWorld, dialect: Dialect, salt: int) -> float:
        """The p-value of what 300 units keep that all have the same 12 groups."""
        found = self._planned("SELECT a, count(DISTINCT u) FROM r GROUP BY a", 4)
        rows = [(unit, k, 0.0, "1", "p", 5, 4, 3.5) for unit in range(300) for k in range(12)]
        block = prepared(found.plans[0], schema_for(one_table(rows)))
        with world.engine(one_table(rows)).run() as run:
            kept = [m[0] for m in statement_groups(run, block, dialect, salt).values()]
        assert sum(kept) == 300 * 4
        return fair([*kept, *[0] * (12 - len(kept))], 12, 4)  # a group nobody keeps is not there

    # -- poison -------------------------------------------------------------------------------

    POISON: Mapping[str, Sequence[object]] = {
        "a": (0, -1, 2**31 - 1, -(2**31)),
        "f": (float("nan"), float("inf"), -float("inf"), -0.0, 1e308, -1e308, 5e-324, 2.0**53),
        "s": (
            "",
            " ",
            "bad",
            "1e3",
            "1e400",
            " 7 ",
            "İ",
            "straße",
            "a\\",
            "%",
            "'\";--",
            "9" * 400,
        ),
        "i": (2**31 - 1, -(2**31), 0),
        "j": (2**63 - 1, -(2**63), 2**53 + 1),
        "x": (float("nan"), float("inf"), -float("inf"), -0.0, 1.7e308, -1.7e308, 5e-324, 1e-310),
    }

    @pytest.mark.few(12)
    @pytest.mark.parametrize("column", POISON)
    @pytest.mark.parametrize("measure", [*sensitivity.MEASURES])
    def test_no_row_makes_a_statement_fail_or_changes_other_rows(
        self, column: str, measure: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        """Groups of units without the value stay; those of the one with it are DuckDB's."""
        clean = [(unit, unit % 3, 1.5, "1", "p", 2, 3, 1.0) for unit in range(1, 7)]
        place = [name for name, _ in R_COLUMNS].index(column)
        usual: list[object] = [99, 77, 1.5, "poison", "p", 2, 3, 1.0]
        poison = []
        for value in self.POISON[column]:
            row = list(usual)
            row[place] = value
            poison.append(tuple(row))
        # Its unit has groups of its own, so all others must stay as they are.
        key = "s" if column == "a" else "a"
        sql = f"SELECT {key}, {measure} FROM r GROUP BY 1"
        found = sensitivity.plans(sql, {"max_groups_contributed": 100, "max_rows_contributed": 100})
        if found is None:
            return
        block = prepared(found.plans[0], schema_for(one_table(())))
        try:
            before, after = (
                self._groups(world, rows, block) for rows in (clean, [*clean, *poison])
            )
        except QueryRefused as refusal:
            only(refusal, "expression_not_allowed")
            return
        assert after == self._groups(reference, [*clean, *poison], block)
        for group, values in before.items():
            assert after[group] == values
        assert len(after) > len(before)

    def _groups(
        self,
        world: EngineWorld,
        rows: Sequence[Row],
        block: PreparedBlock,
        dialect: Dialect | None = None,
    ) -> Groups:
        with world.engine(one_table(rows)).run() as run:
            return statement_groups(run, block, dialect or world.dialect)

    def asked(
        self, world: EngineWorld, dialect: Dialect, sql: str, rows: Sequence[Row], **options: Any
    ) -> Groups:
        """The groups of a question over some rows, by a dialect's statement."""
        found = planned(sql, sensitivity.SCHEMA, sensitivity.RULES, **options)
        block = prepared(found.plans[0], schema_for(one_table(())))
        return self._groups(world, rows, block, dialect)

    # -- order --------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", ["s", "a", "f"])
    def test_groups_of_one_score_come_in_the_order_of_their_keys(
        self, key: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        expected = self.ordered(reference, reference.dialect, key)
        assert self.ordered(world, world.dialect, key) == expected
        assert len(expected) == (3 if key == "a" else 5)

    def ordered(self, world: EngineWorld, dialect: Dialect, key: str) -> list[object]:
        """The first of many groups with one score."""
        values: Mapping[str, Sequence[object]] = {
            "s": ("b", "A", "a", "ä", "Z", "", "10", "9", "a b", None, "é", "B"),
            "a": (3, -1, 0, None),
            "f": (1.0, float("nan"), None, -1.0, float("inf"), 0.0, -float("inf")),
        }
        column = [name for name, _ in R_COLUMNS].index(key)
        rows = []
        for unit, value in enumerate(values[key]):
            row: list[object] = [unit, 1, 1.0, "1", "p", 2, 3, 1.0]
            row[column] = value
            rows.append(tuple(row))
        found = planned(
            f"SELECT {key}, count(DISTINCT u) AS n FROM r GROUP BY 1 ORDER BY n DESC LIMIT 2",
            sensitivity.SCHEMA,
            sensitivity.RULES,
            k_bar=4 if key != "a" else 2,
            max_groups_contributed=None,
        )
        block = prepared(found.plans[0], schema_for(one_table(())))
        return list(self._groups(world, rows, block, dialect))

    # -- runs ---------------------------------------------------------------------------------

    def test_steps_of_a_run_see_one_state_of_the_data(self, world: EngineWorld) -> None:
        if not world.snapshots:
            pytest.skip("nobody else can write")
        rows = [(unit, 1, 0.0, "1", "p", 5, 4, 3.5) for unit in range(10)]
        engine = world.engine(one_table(rows))
        table = Spelled(world.dialect).table(engine.schema["r"])
        count = f"SELECT 1 AS __dpsql_rid, count(*) AS m FROM {table}"
        with engine.run(60) as run:
            before = unread(run).exact(count, (), ["m"]).measures["m"].tolist()
            world.write("r", rows[0])
            with unread(run).scratch() as scratch:
                assert scratch.store("__dpsql_t", f"SELECT * FROM {table}") == 10
                stored = scratch.integers("SELECT count(*) AS m FROM __dpsql_t")
            after = unread(run).exact(count, (), ["m"]).measures["m"].tolist()
        assert before == after == stored[0].tolist() == [10]
        with engine.run(60) as run:
            assert unread(run).exact(count, (), ["m"]).measures["m"].tolist() == [11]

    def test_scratch_tables_are_gone_when_it_is_left(self, world: EngineWorld) -> None:
        engine = world.engine(one_table([]))
        dialect = Spelled(world.dialect)
        numbers = dialect.numbers(5, "v", "n")
        for _ in range(2):
            with engine.run(60) as run, unread(run).scratch() as scratch:
                assert scratch.store("__dpsql_t", f"SELECT n FROM {numbers}") == 5
                assert scratch.store("__dpsql_u", "SELECT n FROM __dpsql_t WHERE n > 3") == 2
                few = dialect.among_given("n", few=True)
                many = dialect.among_given("n", few=False)
                assert scratch.store("__dpsql_v", f"SELECT n FROM __dpsql_t WHERE {few}", [1]) == 1
                for among in (few, many):
                    (found,) = scratch.integers(
                        generated(f"SELECT n FROM __dpsql_t WHERE {among} ORDER BY n"), [2, 4, 9]
                    )
                    assert found.tolist() == [2, 4]
                first, end = dialect.parameter(1), dialect.parameter(2)
                (found,) = scratch.integers(
                    generated(
                        f"SELECT n FROM __dpsql_t WHERE n >= {first} AND n < {end} ORDER BY n"
                    ),
                    2,
                    4,
                )
                assert found.tolist() == [2, 3]
                assert found.dtype == np.int64
                scratch.drop("__dpsql_u")
                with pytest.raises(EngineError):
                    scratch.integers(generated("SELECT n FROM __dpsql_u"))

    def test_errors_say_nothing_of_a_value(self, world: EngineWorld) -> None:
        engine = world.engine(one_table([]))
        with engine.run(60) as run, pytest.raises(EngineError) as failed:
            unread(run).exact(world.failing, (), ["m"])
        assert str(failed.value).startswith(EngineError.FIXED_REASON)
        error: BaseException | None = failed.value
        while error is not None:
            assert "quoted-value" not in str(error) + repr(error.args)
            error = error.__cause__ or error.__context__
        with engine.run(60) as run:  # the engine goes on
            answer = unread(run).exact("SELECT 1 AS __dpsql_rid, 2 AS m", (), ["m"])
            assert answer.measures["m"] == [2]

    def test_a_run_is_over_when_its_time_is(self, world: EngineWorld) -> None:
        engine = world.engine(one_table([]))
        start = time.monotonic()
        with engine.run(0.5) as run, pytest.raises(EngineError):
            unread(run).exact(world.endless, (), ["m"])
        assert run.expired
        assert time.monotonic() - start < 20

    def test_a_run_is_interrupted_from_another_thread_and_no_other_is(
        self, world: EngineWorld
    ) -> None:
        engine = world.engine(one_table([(1, 1, 0.0, "1", "p", 5, 4, 3.5)]))
        with engine.run() as run, engine.run() as other:
            over = threading.Event()

            def interrupt() -> None:
                while not over.wait(0.2):
                    run.interrupt()

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                with pytest.raises(EngineError) as stopped:
                    unread(run).exact(world.endless, (), ["m"])
            finally:
                over.set()
                thread.join()
            assert stopped.value.code == "interrupted"
            assert not run.expired
            found = unread(other).exact("SELECT 1 AS __dpsql_rid, 2 AS m", (), ["m"])
            assert found.measures["m"].tolist() == [2]

    def test_keys_of_every_type_arrive_as_they_are(
        self, world: EngineWorld, reference: EngineWorld
    ) -> None:
        import datetime
        import uuid
        from decimal import Decimal

        values: Mapping[str, Sequence[object]] = {
            "BOOLEAN": (True, False),
            "SMALLINT": (-(2**15), 0, 2**15 - 1),
            "INTEGER": (-(2**31), 0, 2**31 - 1),
            "BIGINT": (-(2**63), 2**53 + 1, 2**63 - 1),
            "FLOAT": (0.5, float("inf"), -1.5, float("nan")),
            "DOUBLE": (0.1, -0.0, 1e308, 5e-324, float("nan"), -float("inf")),
            "DECIMAL(12,2)": (Decimal("9999999999.99"), Decimal("-0.01")),
            "DECIMAL(38,10)": (Decimal("1234567890123456789012345678.0123456789"),),
            "VARCHAR": ("", "it's", "İ", "straße", "😀", "a\\b", "x" * 5000),
            "DATE": (
                datetime.date(1, 1, 1),
                datetime.date(2024, 2, 29),
                datetime.date(9999, 12, 31),
            ),
            "TIMESTAMP": (
                datetime.datetime(1, 1, 1),
                datetime.datetime(2024, 2, 29, 23, 59, 59, 999999),
            ),
            "TIME": (datetime.time(0, 0), datetime.time(23, 59, 59, 999999)),
            "UUID": (uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)),
        }
        for type_ in sorted(values.keys() & world.types):
            rows = [(place, value) for place, value in enumerate([*values[type_], None])]
            tables = {"t": Filled((("u", "BIGINT"), ("k", type_)), rows)}
            for place in (
                "t",
                "(SELECT DISTINCT u, k FROM t)",
                "(SELECT u, k FROM t UNION TABLE t)",
            ):
                asked = f"SELECT k, count(DISTINCT u) FROM {place} GROUP BY k"
                expected, found = (groups_of(each, asked, tables) for each in (reference, world))
                assert found == expected, (type_, place)
                assert len(expected) == len(rows)

    @pytest.mark.parametrize("trimmed", ["trim(k)", "trim(BOTH FROM k)", "ltrim(k)", "rtrim(k)"])
    def test_texts_are_trimmed_of_what_duckdb_trims(
        self, trimmed: str, world: EngineWorld, reference: EngineWorld
    ) -> None:
        drawn = random.Random(5)
        blank = [chr(code) for code in range(1, 0x10000) if is_blank(chr(code))]
        assert len(blank) > 100
        texts = [*blank, *(f"{each}{each}x {each}y{each}" for each in blank)]
        texts += ["".join(drawn.choices([*blank[:40], *BLANKS, "x"], k=6)) for _ in range(300)]
        texts += ["".join(drawn.choices(BLANKS, k=9)) + "x" + BLANKS[::-1] for _ in range(20)]
        rows = list(enumerate([*texts, BLANKS, "", None]))
        tables = {"t": Filled((("u", "BIGINT"), ("k", "VARCHAR")), rows)}
        # Where keys are equal, their units are counted.
        asked = f"SELECT {trimmed} AS k, count(DISTINCT u) FROM t GROUP BY 1"
        expected, found = (groups_of(each, asked, tables) for each in (reference, world))
        assert found == expected
        assert 200 < len(expected) < len(rows) - len(BLANKS)
