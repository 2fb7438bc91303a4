"""`check` finds what does not fit the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.columns import column_of

from dpsql.core.schema import Table, schema_of
from dpsql.core.sql_types import SqlType
from dpsql.owner.conformance import Finding, check_policy, doubtful_unit
from dpsql.policy.load import load_policy, parse_policy


def table(name: str, columns: dict[str, str], is_view: bool = False) -> Table:
    return Table(name, tuple(column_of(n, t) for n, t in columns.items()), is_view)


SCHEMA = schema_of(
    table(
        "Flights",
        {
            "TailNum": "VARCHAR",
            "speed": "DOUBLE",
            "carrier": "VARCHAR",
            "price": "DECIMAL(5,2)",
            "gate": "TINYINT",
            "seen": "DATE",
            "landed": "TIMESTAMP",
            "late": "BOOLEAN",
            "mood": "ENUM('good', 'bad')",
            "tags": "VARCHAR[]",
        },
    )
)


HEAD = "version: 1\ndataset: d\naccounts: {ana: {epsilon: 9, delta: 1e-4}}\n"


def findings(body: str, schema: object = SCHEMA) -> list[Finding]:
    text = f"{HEAD}tables:\n  flights:\n{body}"
    return check_policy(parse_policy(text), schema)  # type: ignore[arg-type]


UNIT = "    privacy_unit: tailnum\n"


def test_a_policy_that_fits_has_no_findings() -> None:
    body = UNIT + (
        "    columns:\n"
        "      SPEED: {lower: 0, upper: 1000.5, domain: [1, 2.5]}\n"
        "      carrier: {domain: [AA, '9E']}\n"
        "      price: {lower: 0, upper: 9, domain: [0.25, 999.99, 3]}\n"
        "      gate: {domain: [-128, 127]}\n"
        "      seen: {domain: [2013-01-01]}\n"
        "      landed: {domain: [2013-01-01T10:00:00]}\n"
        "      late: {domain: [true, false]}\n"
        "      mood: {domain: [good, bad]}\n"
    )
    assert findings(body) == []


@pytest.mark.parametrize(
    ("type_", "doubted"),
    [
        *((each, False) for each in ("UTINYINT", "HUGEINT", "VARCHAR", "UUID", "DECIMAL(9,0)")),
        *((each, False) for each in ("BLOB", "ENUM('a', 'b')")),
        *(
            (each, True)
            for each in ("FLOAT", "BOOLEAN", "DATE", "TIME", "TIMESTAMP_NS", "INTERVAL")
        ),
        *((each, True) for each in ("STRUCT(a INTEGER)", "INTEGER[3]", "JSON", "BIT")),
        *((each, True) for each in ("MAP(VARCHAR, INTEGER)", "UNION(a INTEGER)", "VARIANT")),
    ],
)
def test_types_that_do_not_tell_people_apart_are_doubted(type_: str, doubted: bool) -> None:
    assert (doubtful_unit(SqlType.of(type_)) is not None) is doubted


@pytest.mark.parametrize(
    ("body", "level", "subject", "words"),
    [
        ("    privacy_unit: tailno\n", "error", "flights.tailno", "privacy unit's|`TailNum`"),
        ("    privacy_unit: speed\n", "warning", "flights.speed", "DOUBLE|NaN"),
        ("    privacy_unit: late\n", "warning", "flights.late", "BOOLEAN|two people"),
        ("    privacy_unit: seen\n", "warning", "flights.seen", "DATE|of one time"),
        ("    privacy_unit: landed\n", "warning", "flights.landed", "TIMESTAMP|of one time"),
        ("    privacy_unit: tags\n", "warning", "flights.tags", "VARCHAR[]|several parts"),
        (UNIT + "    columns: {sped: {lower: 0, upper: 1}}\n", "error", "flights.sped", "`speed`"),
        (UNIT + "    columns: {zz: {lower: 0, upper: 1}}\n", "error", "flights.zz", "Correct the"),
        *(
            (
                UNIT + f"    columns: {{{column}: {{lower: 0, upper: 1}}}}\n",
                "error",
                f"flights.{column}",
                "has bounds, but its type is",
            )
            for column in ("carrier", "seen", "late", "mood", "tags")
        ),
        (
            UNIT + "    columns: {speed: {lower: 2020-01-01, upper: 2021-01-01}}\n",
            "error",
            "flights.speed",
            "has bounds that are dates, but its type is",
        ),
        *(
            (
                UNIT + f"    columns: {{{column}: {{domain: [{values}]}}}}\n",
                "error",
                f"flights.{column}",
                "can equal the domain's",
            )
            for column, values in [
                ("carrier", "1, 2"),
                ("carrier", "true"),
                ("carrier", "2013-01-01"),
                ("speed", "AA"),
                ("speed", "true"),
                ("speed", "2013-01-01"),
                ("price", "0.125"),
                ("price", "1000"),
                ("gate", "1, 200"),
                ("gate", "1.5"),
                ("gate", "A1"),
                ("seen", "'2013-01-01'"),
                ("seen", "2013-01-01T10:00:00"),
                ("late", "0, 1"),
                ("late", "'true'"),
                ("tags", "a"),
            ]
        ),
    ],
)
def test_each_misfit_is_found(body: str, level: str, subject: str, words: str) -> None:
    (finding,) = findings(body)
    assert (finding.level, finding.subject) == (level, subject)
    for word in words.split("|"):
        assert word in f"{finding.message} {finding.hint}"
    assert finding.hint


def test_only_the_values_that_do_not_fit_are_named() -> None:
    (finding,) = findings(UNIT + "    columns: {gate: {domain: [1, 200, 300, 400, 500]}}\n")
    assert "200, 300, 400 and 1 more" in finding.message


def test_a_missing_table_is_an_error_with_a_suggestion() -> None:
    schema = schema_of(table("flight", {"tailnum": "VARCHAR"}))
    missing, unlisted = findings(UNIT, schema)
    assert (missing.level, missing.subject) == ("error", "flights")
    assert "`flight`" in missing.hint
    assert (unlisted.level, unlisted.subject) == ("warning", "flight")


def test_an_unlisted_table_is_a_warning_after_the_errors() -> None:
    schema = schema_of(table("aaa", {"x": "INTEGER"}), *SCHEMA.values())
    found = findings(UNIT + "    columns: {zz: {lower: 0, upper: 1}}\n", schema)
    assert [(f.level, f.subject) for f in found] == [("error", "flights.zz"), ("warning", "aaa")]


def test_a_view_is_a_warning() -> None:
    schema = schema_of(table("flights", {"tailnum": "VARCHAR"}, is_view=True))
    (finding,) = findings(UNIT, schema)
    assert finding.level == "warning"
    assert "view" in finding.message


def test_an_account_that_cannot_pay_for_one_query_is_a_warning() -> None:
    text = (
        "version: 1\ndataset: d\ndefaults: {delta: 1e-6}\n"
        "accounts: {ana: {epsilon: 1, delta: 1e-7}}\ntables:\n"
    )
    (finding,) = check_policy(parse_policy(text), {})
    assert (finding.level, finding.subject) == ("warning", "ana")


def test_an_account_that_cannot_pay_for_a_query_as_it_is_asked_is_a_warning() -> None:
    text = HEAD.replace("epsilon: 9", "epsilon: 0.5") + "defaults: {epsilon: 1}\ntables:\n"
    (finding,) = check_policy(parse_policy(text), {})
    assert (finding.level, finding.subject) == ("warning", "ana")
    assert "epsilon 0.5" in finding.message


def test_a_policy_that_nobody_can_ask_under_is_a_warning() -> None:
    (finding,) = check_policy(parse_policy("version: 1\ndataset: d\ntables:\n"), {})
    assert (finding.level, finding.subject) == ("warning", "accounts")


def test_the_demo_policy_fits_the_demo_tables() -> None:
    policy = load_policy(Path(__file__).parents[2] / "policies.yaml")
    flights = {
        **dict.fromkeys(["month", "day", "hour", "minute", "distance"], "BIGINT"),
        **dict.fromkeys(["dep_delay", "arr_delay", "air_time"], "DOUBLE"),
        **dict.fromkeys(["carrier", "tailnum", "origin", "dest"], "VARCHAR"),
        "time_hour": "TIMESTAMP",
    }
    movielens = {
        **dict.fromkeys(["movieId", "userId", "timestamp"], "BIGINT"),
        **dict.fromkeys(["year", "rating"], "DOUBLE"),
        **dict.fromkeys(["title", "genres"], "VARCHAR"),
    }
    nafld2 = {"id": "BIGINT", "days": "BIGINT", "test": "VARCHAR", "value": "DOUBLE"}
    schema = schema_of(
        table("flights", flights), table("movielens", movielens), table("nafld2", nafld2)
    )
    assert check_policy(policy, schema) == []


# -- the time of rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("SEEN", None),
        ("landed", None),
        ("landde", "the time column does not exist|Did you mean `landed`?"),
        ("carrier", "is the time column, but its type is VARCHAR|a date or a timestamp"),
        ("clock", "is the time column, but its type is TIME|a date or a timestamp"),
    ],
)
def test_a_time_column_is_a_date_or_a_timestamp(column: str, words: str | None) -> None:
    columns = (*SCHEMA["flights"].columns, column_of("clock", "TIME"))
    body = UNIT + f"    time: {{column: {column}}}\n"
    found = findings(body, schema_of(Table("Flights", columns)))
    assert [(f.level, f.subject) for f in found] == [("error", f"flights.{column}")] * bool(words)
    for word in words.split("|") if words else ():
        assert word in f"{found[0].message} {found[0].hint}"


@pytest.mark.parametrize(
    ("who", "when", "subject", "words"),
    [
        ("tailnum", "seen", None, ""),
        ("tailnum", "landed", None, ""),
        ("speed", "landed", "speed", "of a privacy unit per period, but its type is DOUBLE"),
        ("tailnum", "clock", "clock", "says in which period a row is, but its type is TIME"),
        ("tailnum", "zoned", "zoned", "but its type is TIMESTAMP WITH TIME ZONE|DATE, TIMESTAMP"),
        ("tailnum", "fine", None, ""),
        ("tailnum", "landde", "landde", "periods does not exist|`landed`"),
    ],
)
def test_a_unit_per_period_tells_users_and_periods_apart(
    who: str, when: str, subject: str | None, words: str
) -> None:
    times = {"clock": "TIME", "zoned": "TIMESTAMP WITH TIME ZONE", "fine": "TIMESTAMP_NS"}
    columns = (*SCHEMA["flights"].columns, *(column_of(*c) for c in times.items()))
    body = f"    privacy_unit: {{name: u, column: {who}, per: {{column: {when}, every: 1 day}}}}\n"
    found = findings(body, schema_of(Table("Flights", columns)))
    errors = [f for f in found if f.level == "error"]
    assert [f.subject.lower() for f in errors] == ([f"flights.{subject}"] if subject else [])
    for word in words.split("|") if subject else ():
        assert word in f"{errors[0].message} {errors[0].hint}"


# -- links and collations -------------------------------------------------------------------------

LINKED = (
    "version: 1\ndataset: d\naccounts: {{ana: {{epsilon: 9, delta: 1e-4}}}}\n"
    "tables:\n  orders: {{privacy_unit: {{name: p, column: who}}}}\n"
    "  items: {{}}\nlinks: [{link}]\n"
)


@pytest.mark.parametrize(
    ("link", "subject", "words"),
    [
        ("items.o -> orders.okey", None, ""),
        ("items.o -> orders.who", None, ""),
        ("items.okye -> orders.okey", "items.okye", "the link's column does not exist|`okey`"),
        ("items.o -> orders.okye", "orders.okye", "a link refers to does not exist|`okey`"),
        (
            "items.name -> orders.okey",
            "items.name",
            "is VARCHAR, but the link leads to orders.okey",
        ),
        ("items.x -> orders.okey", "items.x", "is DOUBLE, but|a cast could make two keys the same"),
        ("items.c -> orders.name", "items.c", "has a collation"),
    ],
)
def test_the_ends_of_a_link_must_exist_and_compare_as_what_they_are(
    link: str, subject: str | None, words: str
) -> None:
    orders = table("orders", {"who": "BIGINT", "okey": "BIGINT", "name": "VARCHAR"})
    items = table("items", {"o": "INTEGER", "okey": "BIGINT", "x": "DOUBLE", "name": "VARCHAR"})
    items = Table("items", (*items.columns, column_of("c", "VARCHAR", collated=True)))
    found = check_policy(parse_policy(LINKED.format(link=link)), schema_of(orders, items))
    assert [(f.level, f.subject) for f in found] == ([("error", subject)] if subject else [])
    for word in words.split("|") if subject else ():
        assert word in f"{found[0].message} {found[0].hint}"


def test_a_privacy_unit_with_a_collation_is_an_error() -> None:
    """Where 'Bob' equals 'bob', tables that are joined need not agree on who is who."""
    flights = SCHEMA["flights"]
    columns = (column_of("TailNum", "VARCHAR", collated=True), *flights.columns[1:])
    (found,) = findings(UNIT, schema_of(Table("Flights", columns)))
    assert (found.level, found.subject) == ("error", "flights.TailNum")
