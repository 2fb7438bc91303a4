"""The fingerprint of a question: one for all spellings, another for what changes the release."""

from __future__ import annotations

import datetime
import itertools
import json
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from helpers.columns import column_of
from helpers.linked_tables import planned_here
from helpers.support import planned
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.schema import Table, schema_of
from dpsql.ir.relations import JoinKind, RowSet
from dpsql.pipeline.kept.description import VERSION, VOCABULARY, Descriptions, default_of, worded
from dpsql.pipeline.kept.fingerprint import STATISTIC_DIGITS, fingerprint
from dpsql.planner import plan_query
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Link, Policy, PrivacyUnit
from dpsql.policy.model import TablePolicy as Rules
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.registry import ENTRIES, Sizes
from dpsql.views.prepare import STEP_VOCABULARY

SCHEMA = schema_of(
    Table(
        "visits",
        tuple(
            column_of(*pair)
            for pair in [("uid", "BIGINT"), ("k", "VARCHAR"), ("n", "BIGINT"), ("x", "DOUBLE")]
        ),
    ),
    Table(
        "users", (column_of("uid", "BIGINT"), column_of("age", "BIGINT"), column_of("z", "VARCHAR"))
    ),
)
UNIT = PrivacyUnit("user", "uid")
VISITS = Rules("visits", UNIT, {"n": ColumnPolicy(0, 10), "x": ColumnPolicy(0.0, 1.0)})
POLICY = Policy(
    "clinic",
    Parameters(delta=1e-6, max_groups_contributed=10, left_out_share=0.0),
    accounts={"ana": AccountPolicy("ana", 5.0, 1e-4)},
    tables={"visits": VISITS, "users": Rules("users", UNIT)},
)
ASKED = "SELECT k, count(*) AS c, sum(x) FROM visits WHERE n > 3 GROUP BY k"


def of(sql: str, policy: Policy = POLICY, **parameters: Any) -> str:
    return planned(sql, SCHEMA, policy, **parameters).fingerprint


@pytest.mark.parametrize(
    "sql",
    [
        "select K,COUNT( * ) AS other, SUM(X)\nfrom Visits -- a comment\n where N>3 group by 1",
        "SELECT v.k AS a, count(*), sum(v.x) FROM visits AS v WHERE (v.n > 003) GROUP BY v.k",
        'SELECT "k", count(*), sum("x") FROM "visits" WHERE "n" > 3 GROUP BY ALL',
        "SELECT k, count(*) AS c, sum(x) FROM visits WHERE n > 3 GROUP BY k ORDER BY c",
        "SELECT upper(k), 100 * c, s FROM (SELECT k, count(*) AS c, sum(x) AS s FROM visits "
        "WHERE n > 3 GROUP BY k) WHERE c > 50",
        "WITH w AS (SELECT k, count(*), sum(x) FROM visits WHERE n > 3 GROUP BY k) TABLE w",
        "SELECT k, count(*) AS c, sum(x), dp_interval_low(c) FROM visits WHERE n > 3 GROUP BY k",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true) k, count(*), sum(x) FROM visits "
        "WHERE n > 3 GROUP BY k",
    ],
)
def test_names_layout_and_what_is_done_with_the_answer_do_not_matter(sql: str) -> None:
    assert of(sql) == of(ASKED)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1e2", "1.0E2"), (".5", "0.5"), ("0010", "10"), ("1_000", "1000"), ("'a'", "$$a$$")],
)
def test_how_a_literal_is_written_does_not_matter(one: str, other: str) -> None:
    asked = "SELECT count(*) FROM visits WHERE k || {} = 'q'"
    assert of(asked.format(one)) == of(asked.format(other))


@pytest.mark.parametrize(
    "sql",
    [
        ASKED.replace("n > 3", "n > 4"),
        ASKED.replace("n > 3", "n >= 3"),
        ASKED.replace("n > 3", "n > 3.0"),
        ASKED.replace("sum(x)", "avg(x)"),
        ASKED.replace("sum(x)", "sum(x, contribution_bounds_per_row => (0, 0.5))"),
        ASKED.replace("sum(x)", "sum(x) FILTER (k = 'a')"),
        ASKED.replace("count(*) AS c", "count(DISTINCT uid) AS c"),
        ASKED.replace("k, count", "lower(k), count").replace("GROUP BY k", "GROUP BY 1"),
        ASKED.replace("GROUP BY k", "GROUP BY k, n").replace("k, count", "k, n, count"),
        ASKED.replace("visits", "visits JOIN users USING (uid)"),
        ASKED + " ORDER BY c DESC LIMIT 3",
        ASKED.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)"),
        f"({ASKED}) UNION ALL ({ASKED})",
    ],
)
def test_what_changes_the_release_changes_the_fingerprint(sql: str) -> None:
    assert of(sql) != of(ASKED)


@pytest.mark.slow
def test_digits_that_make_another_type_are_told_apart() -> None:
    asked = "SELECT count(*) FROM visits WHERE k = CAST({} AS VARCHAR)"
    assert len({of(asked.format(text)) for text in ("1", "1.0", "1.00", "1e0", "'1'")}) == 5


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0.4}, {"delta": 1e-7}, {"max_groups_contributed": 3}, {"max_rows_contributed": 2}],
)
def test_other_parameters_are_another_question(parameters: dict[str, Any]) -> None:
    assert of(ASKED, **parameters) != of(ASKED)


def test_rows_per_group_are_told_apart_where_the_noise_is_the_same() -> None:
    bounds = "contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0, 1)"
    asked = f"SELECT k, sum(x, {bounds}) FROM visits GROUP BY k"
    assert of(asked, max_rows_contributed=2) != of(asked, max_rows_contributed=50)


def test_parameters_that_play_no_part_do_not_matter() -> None:
    assert of(ASKED, k_bar=77) == of(ASKED)


def with_table(**changes: Any) -> Policy:
    return replace(POLICY, tables={**POLICY.tables, "visits": replace(VISITS, **changes)})


CHANGED = {
    "bounds": with_table(columns={**VISITS.columns, "x": ColumnPolicy(0.0, 2.0)}),
    "domain": with_table(columns={**VISITS.columns, "k": ColumnPolicy(domain=("a", "b"))}),
    "unit": with_table(privacy_unit=PrivacyUnit("person", "uid")),
    "unit column": with_table(privacy_unit=PrivacyUnit("user", "n")),
    "link": with_table(privacy_unit=None, link=Link("n", "users", "age")),
    "defaults": replace(POLICY, defaults=replace(POLICY.defaults, epsilon=0.4)),
    "least units": replace(POLICY, defaults=replace(POLICY.defaults, min_units_per_group=20)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_policy_that_changes_the_answer_makes_it_another_question(name: str) -> None:
    assert of(ASKED, CHANGED[name]) != of(ASKED)


def test_a_policy_that_only_grew_leaves_answers_where_they_are() -> None:
    grown = replace(
        POLICY,
        tables={**POLICY.tables, "other": Rules("other", UNIT)},
        accounts={**POLICY.accounts, "bo": AccountPolicy("bo", 1.0, 1e-6)},
    )
    assert of(ASKED, grown) == of(ASKED)


def test_other_columns_of_the_table_make_it_another_question() -> None:
    # What a name meant when the question was answered must be what it means now.
    visits = SCHEMA["visits"]
    changed = schema_of(
        replace(visits, columns=(*visits.columns, column_of("c", "DATE"))), SCHEMA["users"]
    )
    assert planned(ASKED, changed, POLICY).fingerprint != of(ASKED)


def test_compositions_that_plan_differently_are_told_apart() -> None:
    query = planned(ASKED, SCHEMA, POLICY).query
    prints = {fingerprint(plan_query(query, None, c).blocks) for c in Composition}
    assert len(prints) == len(Composition)


# -- no two questions share one ---------------------------------------------------------------


@dataclass(frozen=True)
class Later:
    one: object
    two: object = 2


@dataclass(frozen=True)
class Pair:
    one: object
    two: object


described = Descriptions({Pair: worded("pair", "one, two")}).of
SHARP = st.text(st.sampled_from("(),=[]'\"\\-1a. \n"), max_size=4)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 1))
    | SHARP
    | SHARP.map(str.encode)
    | st.sampled_from([Decimal(1), Decimal("1.0"), Decimal("1.00"), Fraction(1), Fraction(1, 2)])
    | st.sampled_from([datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)])
    | st.sampled_from([*JoinKind])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(Pair, inner, inner)
        | st.builds(lambda text: exp.Literal.string(text), SHARP)
        | st.builds(lambda text: exp.to_identifier(text or "x", quoted=False), SHARP)
        | st.builds(lambda one, two: exp.Anonymous(this=one, expressions=[two]), SHARP, LEAVES)
    ),
    max_leaves=6,
)


def typed(value: object) -> object:
    """A value with the types of all its parts, which Python compares by value: 1 == 1.0 == True."""
    match value:
        case tuple():
            return ("tuple", *map(typed, value))
        case Pair():
            return "pair", typed(value.one), typed(value.two)
        case exp.Expr():
            parts = ((name, typed(part)) for name, part in value.args.items() if part is not None)
            return type(value), *sorted(parts, key=lambda part: part[0])
        case list():
            return ("list", *(typed(part) for part in value if part is not None))
    return type(value), repr(value)


@pytest.mark.slow
@given(st.lists(VALUES, min_size=2, max_size=30))
@settings(max_examples=300, deadline=None)
def test_values_share_a_text_only_if_they_and_their_types_are_the_same(
    values: list[object],
) -> None:
    for one, other in itertools.combinations(values, 2):
        assert (described(one) == described(other)) == (typed(one) == typed(other))


KEYS = ["k", "n", "lower(k)", "k || 'a'", "k || 'a,b'", "k || ('a' || 'b')"]
LITERALS = ["1", "1.0", "1e0", "'1'", "true", "'a'", "'a'')'", "DATE '2024-01-01'", "'2024-01-01'"]
CONDITIONS = ["TRUE", *(f"k = CAST({literal} AS VARCHAR)" for literal in LITERALS)]
CONDITIONS += ["k IN ('a', 'b')", "k IN ('a'', ''b')", "n > 1 AND n > 2", "n > 2 AND n > 1"]
AGGREGATES = ["count(*)", "count(n)", "count(DISTINCT uid)", "sum(n)", "sum(x)", "avg(x)"]
AGGREGATES += ["sum(x) FILTER (n > 1)", "sum(x, contribution_bounds_per_row => (0, 0.5))"]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"epsilon": 0.25},
    {"max_rows_contributed": 2},
    {"min_units_per_group": 2},
]
QUESTIONS = st.tuples(
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple),
    st.sampled_from(CONDITIONS),
    st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=2, unique=True).map(tuple),
    st.sampled_from(SETTINGS),
)


Asked: TypeAlias = tuple[tuple[str, ...], str, tuple[str, ...], dict[str, Any]]


def written(question: Asked, shout: bool) -> str:
    keys, condition, aggregates, _ = question
    named = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    named += [f"{aggregate} AS a{i}" for i, aggregate in enumerate(aggregates)]
    text = f"SELECT {', '.join(named)} FROM visits WHERE {condition}"
    text += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return f"/* again */ {text.replace(' AS a', ' AS other')}  -- the same" if shout else text


@given(QUESTIONS, QUESTIONS, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_different_questions_have_different_fingerprints_and_the_same_one_has_one(
    one: Asked, another: Asked, changed: int
) -> None:
    parts: list[Any] = [*one[:changed], another[changed], *one[changed + 1 :]]
    other: Asked = (parts[0], parts[1], parts[2], parts[3])
    prints = [of(written(each, False), **each[-1]) for each in (one, other)]
    assert (prints[0] == prints[1]) == (one == other)
    assert of(written(one, True), **one[-1]) == prints[0]


# -- the format -------------------------------------------------------------------------------

WORDS = Path(__file__).with_name("description_words.json")
FIXED = Path(__file__).with_name("fingerprints.json")
CORPUS = Path(__file__).parents[1] / "sql" / "lineage_equivalence.sql"


def words_now() -> dict[str, list[str]]:
    """The words of every class, and of its parts in order."""
    return {each.word: [word for word, _ in each.parts] for each in STEP_VOCABULARY.values()}


def prints_now() -> dict[str, str]:
    """What of their fingerprints does not depend on rounding: the statistics that are asked for."""
    asked = CORPUS.read_text("utf-8").splitlines()
    return {sql: planned_here(sql).fingerprint[:STATISTIC_DIGITS] for sql in asked}


def test_every_attribute_is_described_or_left_out_by_name() -> None:
    for kind, told in STEP_VOCABULARY.items():
        there = {f.name for f in fields(kind) if f.compare}
        described = [attribute for _, attribute in told.parts]
        assert sorted(there) == sorted({*described, *told.left_out}), kind
        assert not set(described) & told.left_out
        assert len({word for word, _ in told.parts}) == len(described) == len(set(described))
        assert all(default_of(kind, attribute) is not MISSING for attribute in told.optional)


@pytest.mark.slow
def test_every_relation_and_mechanism_has_a_word_of_its_own() -> None:
    assert len(words_now()) == len(STEP_VOCABULARY)
    relations = names_of_kinds(RowSet) - {"Derived", "BinaryOperator"}  # no relations themselves
    assert relations <= {kind.__name__ for kind in VOCABULARY}
    made = {type(mechanism) for mechanism in every_mechanism()}
    assert len(made) > 12
    assert made <= {*VOCABULARY}


def every_mechanism() -> list[object]:
    """What the entries of the registry build, in every currency, with their noise."""
    sizes = Sizes(k=3, groups=2, k_bar=5, sensitivity=1, domain=9, floor=1, shared=1)
    found: list[object] = []
    for entry in ENTRIES:
        for price in (
            PrivacyLoss(0.5, 1e-6),
            PrivacyLoss(0.0, 1e-6, 0.5),
            PrivacyLoss(0.5, 1e-6, gaussian=True),
        ):
            if price.composition in entry.priced_in:
                found.append(entry.within(sizes, price))
    parts = (getattr(made, "noise", None) for made in found)
    return [each for each in (*found, *parts) if is_dataclass(each)]


def names_of_kinds(kind: type) -> set[str]:
    """The names of all subclasses."""
    subs: list[type] = kind.__subclasses__()
    return {sub.__name__ for sub in subs}.union(*map(names_of_kinds, subs))


@pytest.mark.slow
def test_words_and_fingerprints_are_those_of_this_version() -> None:
    """Whoever changes them changes VERSION, and loses all releases that are stored."""
    fixed = json.loads(WORDS.read_text("utf-8"))
    assert fixed["version"] == VERSION
    assert words_now() == fixed["words"]
    assert prints_now() == json.loads(FIXED.read_text("utf-8"))


def test_a_part_that_is_written_where_it_is_no_default_leaves_other_texts_as_they_are() -> None:
    plain = Descriptions({Later: worded("l", "one")}).of
    later = Descriptions({Later: worded("l", "one, two", optional="two")}).of
    assert plain(Later(1)) == later(Later(1)) != later(Later(1, 3))
