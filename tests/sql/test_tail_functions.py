"""Functions over released rows compute from their arguments: the engine says which may not."""

from __future__ import annotations

import duckdb

from dpsql.core.wordlists import words
from dpsql.sql.expressions.legality import TAIL_FORBIDDEN_FUNCTIONS

# Time, randomness that no noise comes from, and the names of a database that has nothing in it.
_HARMLESS = words(
    """
    current_database current_date current_schema current_schemas gen_random_uuid get_current_time
    get_current_timestamp in_search_path now random setseed today transaction_timestamp uuid uuidv4
    uuidv7
    """
)


def test_what_the_engine_does_not_call_a_function_of_its_arguments_is_refused_or_known() -> None:
    """A function of a newer engine that reads its state is noticed here."""
    with duckdb.connect() as engine:
        found = engine.execute(
            "SELECT DISTINCT function_name, stability FROM duckdb_functions() "
            "WHERE function_type = 'scalar' AND stability <> 'CONSISTENT'"
        ).fetchall()
    unsteady = {name for name, _ in found}
    assert "current_setting" in unsteady, "the engine tells"
    assert unsteady - TAIL_FORBIDDEN_FUNCTIONS == frozenset(_HARMLESS)


def test_planning_a_text_would_reach_what_is_refused() -> None:
    """The engine calls it steady: its plans hold settings, so it is refused by name."""
    text = "SELECT json_serialize_plan('SELECT current_setting(''threads'')', optimize := true)"
    with duckdb.connect(config={"threads": "3"}) as engine:
        ((plan,),) = engine.execute(text).fetchall()
    assert '"value":3' in plan
    assert "json_serialize_plan" in TAIL_FORBIDDEN_FUNCTIONS
