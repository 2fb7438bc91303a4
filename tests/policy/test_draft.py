"""`init` drafts a policy: guesses are marked, decisions kept, and it always reads back."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from helpers.columns import column_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.constraints import Constraints, ForeignKey
from dpsql.core.schema import Column, Schema, Table, schema_of
from dpsql.errors import Error, ParameterError, PolicyError
from dpsql.owner.conformance import check_policy
from dpsql.owner.draft import Draft, guess_unit, guess_unit_name
from dpsql.owner.draft_options import asked_budget, bounds_of, column_named, domain_of
from dpsql.owner.draft_text import checked, draft_policy
from dpsql.policy.load import parse_policy
from dpsql.policy.model import ColumnPolicy, TimeColumn
from dpsql.policy.parameters import Automatic


def table(name: str, columns: dict[str, str], is_view: bool = False) -> Table:
    return Table(name, tuple(column_of(n, t) for n, t in columns.items()), is_view)


# -- guesses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "guess"),
    [
        (["id", "customer_id", "price"], "customer_id"),
        (["userId", "id"], "userId"),
        (["Patient ID", "x"], "Patient ID"),
        (["x", "ID"], "ID"),
        (["email", "user_id"], "user_id"),
        (["x", "tailnum"], None),
        ([], None),
    ],
)
def test_the_most_telling_name_is_guessed(columns: list[str], guess: str | None) -> None:
    unit = guess_unit(Table("t", tuple(column_of(c, "BIGINT") for c in columns)))
    assert (unit.name if unit else None) == guess


@pytest.mark.parametrize(
    ("keys", "referred_to", "guess"),
    [
        ({"rider_id"}, "rider_id", "rider_id"),
        ({"rider_id", "email"}, "rider_id", "rider_id"),
        ({"rider_id", "email"}, "email", "email"),
        ({"rider_id"}, None, "email"),
        (set(), "rider_id", "email"),
    ],
)
def test_a_key_that_other_tables_refer_to_is_guessed_before_an_address(
    keys: set[str], referred_to: str | None, guess: str
) -> None:
    riders = table("riders", {"rider_id": "BIGINT", "email": "VARCHAR"})
    leads = () if referred_to is None else (ForeignKey("rider", riders.name, referred_to),)
    known = {
        riders.name.key: Constraints(keys=frozenset(keys)),
        "rides": Constraints(references=leads),
    }
    unit = guess_unit(riders, known)
    assert unit is not None
    assert unit.name == guess


def test_a_column_that_cannot_tell_people_apart_is_not_guessed() -> None:
    assert guess_unit(table("t", {"user_id": "DOUBLE", "id": "INTEGER[]"})) is None


DATABASE = schema_of(
    table("patients", {"id": "BIGINT", "height": "DOUBLE", "name": "VARCHAR"}),
    table("visits", {"patient_id": "BIGINT", "fee": "DECIMAL(9,2)", "at": "TIMESTAMP"}),
    table("hospitals", {"code": "VARCHAR", "beds": "INTEGER"}),
)


def test_a_draft_reads_back_with_its_guesses_and_nothing_else() -> None:
    text = draft_policy(DATABASE, Draft("clinic"))
    policy = parse_policy(text)
    assert policy.dataset == "clinic"
    assert set(policy.tables) == {"patients", "visits"}
    for name, column in [("patients", "id"), ("visits", "patient_id")]:
        unit = policy.tables[name].privacy_unit
        assert unit is not None
        assert (unit.name, unit.column) == ("patient", column)
        assert policy.tables[name].columns == {}
    assert text.count("GUESS:") == 2
    assert "DECIDE: no column of hospitals" in text
    (finding,) = check_policy(policy, DATABASE)
    assert finding.subject == "hospitals"


def test_a_draft_leaves_numbers_of_groups_and_rows_to_the_questions() -> None:
    text = draft_policy(DATABASE, Draft("clinic"))
    found = parse_policy(text).defaults
    assert found.undecided
    assert isinstance(found.max_rows_contributed, Automatic)
    fixed = parse_policy(text.replace("# max_", "max_"))
    assert fixed.defaults == parse_policy(text).defaults.with_usual_numbers


def test_a_draft_proposes_the_only_moment_of_a_table_for_views() -> None:
    schema = schema_of(
        table("one", {"user_id": "BIGINT", "played at": "TIMESTAMP_NS", "hour": "TIME"}),
        table("two", {"user_id": "BIGINT", "a": "DATE", "b": "TIMESTAMP WITH TIME ZONE"}),
    )
    text = draft_policy(schema, Draft("music"))
    assert text.count("# time:") == 1
    filled = parse_policy(text.replace("# time:", "time:"))
    assert filled.tables["one"].time == TimeColumn("played at")
    assert [f for f in check_policy(filled, schema) if f.level == "error"] == []


def test_a_draft_lists_every_numeric_column_for_its_owner_to_bound() -> None:
    text = draft_policy(DATABASE, Draft("clinic"))
    for name in ("height", "fee", "beds"):
        assert re.search(f"{name}: .*  # to sum it: .*lower: LOWEST, upper: HIGHEST}}\n", text)
    assert "name: {lower" not in text
    filled = re.sub(
        "fee: .*LOWEST, upper: HIGHEST}", 'fee: {type: "DECIMAL(9,2)", lower: 0, upper: 9}', text
    )
    visits = parse_policy(filled).tables["visits"]
    assert visits.columns["fee"].upper == 9


def test_a_draft_without_any_guess_still_reads_back() -> None:
    assert parse_policy(draft_policy({}, Draft("empty"))).tables == {}
    only = schema_of(table("hospitals", {"code": "VARCHAR", "beds": "INTEGER"}))
    assert parse_policy(draft_policy(only, Draft("empty"))).tables == {}


def test_names_and_types_that_yaml_would_misread_are_quoted() -> None:
    names = ["null", "2013", "a b", "x: y", 'q"\\', "# no", "día", "line\nend: {", "-", "😀", " s "]
    schema = schema_of(
        *(
            Table(
                n,
                (
                    column_of("user_id", "INTEGER"),
                    column_of(n, "DOUBLE"),
                    column_of("e", "ENUM('\n')"),
                ),
            )
            for n in names
        )
    )
    policy = parse_policy(draft_policy(schema, Draft("yes: no\n")))
    assert {t.name.table for t in policy.tables.values()} == set(names)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
            st.sampled_from(["id", "userId", "x"]),
            st.text(max_size=8),
        ),
        max_size=4,
    ),
    st.text(max_size=5),
)
@pytest.mark.slow
def test_any_schema_gives_a_draft_that_reads_back(
    shapes: list[tuple[str, str, str]], dataset: str
) -> None:
    tables = [
        Table(
            name, (column_of(unit, "BIGINT"), column_of(name + "_", "DOUBLE"), column_of("t", odd))
        )
        for name, unit, odd in shapes
    ]
    schema = schema_of(*tables)
    policy = parse_policy(draft_policy(schema, Draft(dataset)))
    expected = {t.name for t in schema.values() if guess_unit(t) and len(str(t.name)) <= 200}
    assert {t.name for t in policy.tables.values()} == expected


# -- decisions --------------------------------------------------------------------------------

SHOP = schema_of(
    table("customer", {"c_id": "BIGINT", "name": "VARCHAR", "balance": "DECIMAL(15,2)"}),
    table("orders", {"o_id": "BIGINT", "o_c_id": "BIGINT", "day": "DATE", "gift": "BOOLEAN"}),
    table("lineitem", {"l_o_id": "BIGINT", "price": "DOUBLE", "mode": "ENUM('air', 'sea')"}),
    table("nation", {"code": "INTEGER", "title": "VARCHAR"}),
)


def place(text: str) -> tuple[Table, Column]:
    return column_named(SHOP, text)


def decided() -> Draft:
    """A draft in which everything is decided."""
    draft = Draft("shop", guesses=False)
    draft = draft.with_unit(*place("customer.c_id"), "customer").with_public(SHOP["nation"])
    draft = draft.with_link(*place("lineitem.l_o_id"), *place("orders.o_id"))
    draft = draft.with_link(*place("orders.o_c_id"), *place("customer.c_id"))
    draft = draft.with_column(*place("lineitem.price"), bounds_of("0:1e5"))
    draft = draft.with_column(*place("lineitem.price"), ColumnPolicy(domain=(1, 2.5)))
    return draft.with_account("ana", 2.0, 1e-7)


def test_what_is_decided_is_written_and_fits() -> None:
    policy = parse_policy(checked(SHOP, decided()))
    assert {name: policy.unit_name(t) for name, t in policy.tables.items()} == {
        "customer": "customer",
        "orders": "customer",
        "lineitem": "customer",
        "nation": None,
    }
    assert policy.tables["nation"].public
    assert policy.tables["lineitem"].columns["price"] == ColumnPolicy(0, 100000, (1.0, 2.5))
    assert [(a.name, a.epsilon, a.delta) for a in policy.accounts.values()] == [("ana", 2.0, 1e-7)]
    assert check_policy(policy, SHOP) == []


def test_nothing_is_left_to_do_where_everything_is_decided() -> None:
    text = draft_policy(SHOP, decided())
    _, _, body = text.partition("\nversion: 1\n")
    assert "GUESS" not in body
    assert "DECIDE" not in body


def test_a_decision_goes_before_a_guess_and_the_other_guesses_stay() -> None:
    schema = schema_of(*DATABASE.values())
    draft = Draft("d").with_unit(*column_named(schema, "visits.patient_id"), "guest")
    text = draft_policy(schema, draft.without(schema["hospitals"]))
    assert "privacy_unit: {name: guest, column: patient_id}" in text
    assert text.count("GUESS:") == 1
    assert "hospitals is left out" in text
    assert "hospitals" not in parse_policy(text).tables


def test_defaults_that_are_given_stay_within_the_maxima() -> None:
    for epsilon, delta in ((0.1, 1e-9), (5.0, 1e-3)):
        draft = Draft("d").with_parameters(epsilon=epsilon, delta=delta)
        policy = parse_policy(draft_policy({}, draft))
        assert (policy.defaults.epsilon, policy.defaults.delta) == (epsilon, delta)
    with pytest.raises(ParameterError, match="epsilon must be between"):
        Draft("d").with_parameters(epsilon=0.0, delta=None)


def test_what_was_seen_is_shown_as_a_comment_and_never_as_a_bound() -> None:
    seen = {("visits", "fee"): "1 to 77", ("patients", "name"): "ann, bob"}
    text = draft_policy(DATABASE, replace(Draft("d"), seen=seen))
    assert (
        'fee: DECIMAL(9,2)  # to sum it: {type: "DECIMAL(9,2)", lower: LOWEST, upper: HIGHEST}; '
        "SEEN, not private: 1 to 77" in text
    )
    keys = "name: VARCHAR  # as keys: {type: VARCHAR, domain: [VALUES]}"
    assert f"{keys}; SEEN, not private: ann, bob" in text
    assert "no row was read" not in text
    assert "SEEN is what\n# the data hold" in text
    policy = parse_policy(text)
    assert all(not t.columns for t in policy.tables.values())
    assert "no row was read" in draft_policy(DATABASE, Draft("d"))


def linked(*ends: str) -> Draft:
    """Customers as the unit, nations public, and one link."""
    draft = Draft("shop", guesses=False).with_unit(*place("customer.c_id"), "customer")
    return draft.with_public(SHOP["nation"]).with_link(*place(ends[0]), *place(ends[1]))


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (decided().with_column(*place("customer.name"), ColumnPolicy(0, 1)), "has bounds, but its"),
        (decided().with_column(*place("orders.gift"), ColumnPolicy(domain=(1,))), "no BOOLEAN can"),
        (linked("orders.o_c_id", "nation.code"), "nation is public"),
        (linked("orders.o_c_id", "customer.name"), "is BIGINT, but"),
        (linked("orders.o_c_id", "lineitem.l_o_id"), "there is no table lineitem"),
        (linked("orders.o_id", "orders.o_c_id"), "in a circle"),
        (Draft("d").with_unit(*place("customer.c_id"), " x"), "without spaces at the ends"),
    ],
)
def test_decisions_that_contradict_the_database_or_each_other_are_refused(
    draft: Draft, words: str
) -> None:
    with pytest.raises(PolicyError, match=words):
        checked(SHOP, draft)


@pytest.mark.parametrize(
    "again",
    [
        lambda draft, table: draft.with_unit(table, table.columns[0], "x"),
        lambda draft, table: draft.with_link(table, table.columns[0], table, table.columns[0]),
        lambda draft, table: draft.with_public(table),
        lambda draft, table: draft.without(table),
    ],
)
@pytest.mark.parametrize("name", ["customer", "orders", "nation"])
def test_nothing_is_decided_twice(name: str, again: Callable[[Draft, Table], Draft]) -> None:
    """A unit that loses to `public` would leave people unprotected."""
    with pytest.raises(ParameterError, match=f"{name} is decided twice"):
        again(decided(), SHOP[name])


def test_bounds_domains_and_accounts_are_given_once() -> None:
    for known in (ColumnPolicy(0, 1), ColumnPolicy(domain=(1,))):
        with pytest.raises(ParameterError, match=r"lineitem\.price is decided twice"):
            decided().with_column(*place("lineitem.price"), known)
    with pytest.raises(ParameterError, match="nation is left out"):
        Draft("d").without(SHOP["nation"]).with_column(*place("nation.code"), ColumnPolicy(0, 1))
    with pytest.raises(ParameterError, match="the account ana is given twice"):
        decided().with_account("ana", 1.0, 1e-6)


def test_what_is_known_of_columns_is_written_for_public_and_undecided_tables_too() -> None:
    draft = Draft("d").with_public(SHOP["nation"])
    draft = draft.with_column(*place("nation.code"), ColumnPolicy(0, 30))
    draft = draft.with_column(*place("lineitem.price"), ColumnPolicy(0, 9))
    text = draft_policy(SHOP, draft)
    assert parse_policy(text).tables["nation"].columns["code"] == ColumnPolicy(0, 30)
    assert "  #     price: {type: DOUBLE, lower: 0, upper: 9}\n" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:1", (0, 1)),
        ("-60 : 300", (-60, 300)),
        ("0.5:1e3", (0.5, 1000)),
        ("-1e-3:0", (-0.001, 0)),
    ],
)
def test_bounds_are_read(text: str, expected: tuple[float, float]) -> None:
    found = bounds_of(text)
    assert (found.lower, found.upper) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "5:", ":5", "1:1", "2:1", "a:b", "0:inf", "nan:1", "1:2:3"]
)
def test_what_is_no_bounds_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="not bounds"):
        bounds_of(text)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("nation.code", "1, 2,30", (1, 2, 30)),
        ("customer.balance", "1,2.50", (1, 2.5)),
        ("customer.name", "a,007, true", ("a", "007", "true")),
        ("orders.gift", "true,False", (True, False)),
        ("orders.day", "2024-02-29", (datetime.date(2024, 2, 29),)),
        ("lineitem.mode", "air,sea", ("air", "sea")),
    ],
)
def test_domains_are_read_as_their_columns_type_and_written_so(
    name: str, text: str, values: tuple[object, ...]
) -> None:
    found, column = place(name)
    known = domain_of(text, column)
    assert known.domain == values
    draft = decided()
    if found.name.key != "nation":
        policy = parse_policy(checked(SHOP, draft.with_column(found, column, known)))
        assert policy.tables[found.name.key].columns[column.name].domain == values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nation.code", "1,b"),
        ("nation.code", "1.5"),
        ("nation.code", ""),
        ("orders.gift", "yes"),
        ("orders.day", "29.2.2024"),
        ("customer.balance", "inf"),
    ],
)
def test_domains_of_another_type_are_refused(name: str, text: str) -> None:
    with pytest.raises(ParameterError, match="some values of its domain"):
        domain_of(text, place(name)[1])


@pytest.mark.parametrize("text", ["3", "3,1e-6,1", "a,b", "0,1e-6", "1,2", "inf,1e-6"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        asked_budget(text)


def test_names_that_do_not_exist_are_refused_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"no column customer\.nam") as raised:
        column_named(SHOP, "customer.nam")
    assert raised.value.hint == "Did you mean `customer.name`?"


def test_tables_and_columns_with_dots_in_their_names_can_be_named() -> None:
    odd = schema_of(table("a.b", {"c.d": "BIGINT", "x": "DOUBLE"}), table("p", {"k": "BIGINT"}))
    draft = Draft("d", guesses=False).with_unit(*column_named(odd, "p.k"), "p")
    draft = draft.with_link(*column_named(odd, '"A.B"."c.d"'), *column_named(odd, "p.k"))
    policy = parse_policy(checked(odd, draft))
    assert policy.unit_name(policy.tables['"a.b"']) == "p"


_COLUMNS = st.sampled_from(["BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(9,2)", "DATE", "BOOLEAN"])


@pytest.mark.slow
@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c d", "e.f", "Null", "1"]),
        st.dictionaries(
            st.sampled_from(["id", "x", "user_id", "y z", "k", "0"]), _COLUMNS, min_size=1
        ),
        min_size=1,
    ),
    st.data(),
)
def test_whatever_is_decided_the_draft_fits_or_is_refused(
    shapes: dict[str, dict[str, str]], data: st.DataObject
) -> None:
    """A draft in which everything is decided passes `dpsql check` without an error."""
    schema = schema_of(*(table(name, columns) for name, columns in shapes.items()))
    draft = _random_decisions(schema, data)
    try:
        text = checked(schema, draft)
    except Error:
        return
    policy = parse_policy(text)
    assert set(policy.tables) == set(schema) - draft.left_out
    assert [f for f in check_policy(policy, schema) if f.level == "error"] == []


def _random_decisions(schema: Schema, data: st.DataObject) -> Draft:
    draft = Draft("d", guesses=False)
    for found in schema.values():
        column = data.draw(st.sampled_from(found.columns))
        match data.draw(st.sampled_from(["unit", "unit", "public", "out", "link"])):
            case "unit":
                draft = draft.with_unit(found, column, guess_unit_name(found, column))
            case "public":
                draft = draft.with_public(found)
            case "out":
                draft = draft.without(found)
            case _:
                parent = data.draw(
                    st.sampled_from(sorted(schema.values(), key=lambda t: t.name.key))
                )
                key = data.draw(st.sampled_from(parent.columns))
                draft = draft.with_link(found, column, parent, key)
        number = data.draw(st.sampled_from(found.columns))
        known = found.name.key not in draft.left_out
        if known and str(number.type) in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
            draft = draft.with_column(found, number, ColumnPolicy(0, 9))
    return draft
