"""policies.yaml: what is accepted means what it says, and what is wrong is shown with its line."""

from __future__ import annotations

import datetime
import inspect
import math
import os
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import click
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.periods import Period
from dpsql.core.schema import Table, fold, schema_of
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.dbapi.connection import Connection, connect
from dpsql.dbapi.cursor import Cursor
from dpsql.errors import ParameterError, PolicyError, UnknownName
from dpsql.interfaces.cli import options
from dpsql.policy import document
from dpsql.policy.limits import Limits, ResourceFailures
from dpsql.policy.load import MAX_BYTES, load_policy, parse_policy
from dpsql.policy.model import (
    EACH_ROW,
    AccountPolicy,
    AgentPolicy,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    UnitPeriod,
    ViewsPolicy,
)
from dpsql.policy.parameters import (
    NOT_GIVEN,
    PARAMETER_NAMES,
    PARAMETERS,
    UNLIMITED,
    ContributionBounding,
    Maxima,
    Overrides,
    Parameters,
    PrivacyParameters,
    check_value,
)
from dpsql.policy.resolve import resolve
from dpsql.privacy.accounting.zcdp import Composition

GOOD = """\
version: 1
dataset: dpsql-demo            # the budget's identity
defaults:
  epsilon: 0.5
  delta: 1e-8
  max_groups_contributed: 10
  max_rows_contributed: 10
  k_bar: 1000
  min_units_per_group: 1
maxima:
  epsilon: 2.0
  delta: 1e-7
  max_groups_contributed: unlimited
  max_rows_contributed: 100
  k_bar: 10000
accounts:
  ana: {epsilon: 8, delta: 1e-6, composition: zcdp}
  bo: {epsilon: 1, delta: 1e-7, composition: basic}
  cy: {epsilon: 1, delta: 1e-6}
tables:
  Flights:
    privacy_unit: {name: aircraft, column: tailnum}
    columns:
      dep_delay: {lower: -60, upper: 300}
      carrier: {domain: [AA, B6, UA]}
      Stars: {lower: 0.5, upper: 5, domain: [0.5, 1, 5]}
      day: {domain: [2013-01-01, 2013-01-02]}
      left: {lower: 2013-01-01, upper: 2014-01-01}
      seen: {lower: 2013-01-01 00:00:00, upper: 2013-12-31 23:59:59.5}
  airports:
    public: true
  trips:
    privacy_unit: tailnum
"""


def test_a_good_file_means_what_it_says() -> None:
    policy = parse_policy(GOOD)
    assert policy.dataset == "dpsql-demo"
    assert policy.defaults == Parameters(0.5, 1e-8, 10, 10, 1000, 1)
    assert policy.maxima == Maxima(2.0, 1e-7, UNLIMITED, 100, 10000)
    ana = policy.account("ana")
    assert ana == AccountPolicy("ana", 8.0, 1e-6, Composition.ZCDP)
    assert policy.account("bo") == AccountPolicy("bo", 1.0, 1e-7, Composition.BASIC)
    assert policy.account("cy").composition is Composition.ZCDP
    flights = policy.table("FLIGHTS")
    assert flights is not None
    assert str(flights.name) == "Flights"
    assert not flights.public
    assert flights.privacy_unit == PrivacyUnit("aircraft", "tailnum")
    assert flights.column("DEP_DELAY") == ColumnPolicy(-60, 300, None)
    assert flights.column("carrier") == ColumnPolicy(domain=("AA", "B6", "UA"))
    assert flights.column("stars") == ColumnPolicy(0.5, 5, (0.5, 1.0, 5.0))
    assert flights.column("day") == ColumnPolicy(
        domain=(datetime.date(2013, 1, 1), datetime.date(2013, 1, 2))
    )
    assert flights.column("other") is None
    airports, trips = policy.table("airports"), policy.table("trips")
    assert airports is not None
    assert airports.public
    assert trips is not None
    assert trips.privacy_unit == PrivacyUnit("tailnum", "tailnum")
    assert policy.table("nothing") is None


def test_limits_bound_the_work_of_a_statement() -> None:
    assert parse_policy(GOOD).limits == Limits(600.0, None, 8, ResourceFailures.SUSPEND)
    text = (
        GOOD + "limits: {seconds: 1, memory: 512MB, private_relations: 3, resource_failures: keep}"
    )
    limits = parse_policy(text).limits
    assert limits == Limits(1.0, "512MB", 3, ResourceFailures.KEEP)
    assert type(limits.resource_failures) is ResourceFailures
    assert parse_policy(GOOD + "limits:\n").limits == Limits()


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("seconds: 0", "limits.seconds: must be a number above 0 and at most 86400"),
        ("seconds: 100000", "limits.seconds: must be a number above 0 and at most 86400"),
        ("memory: 1MB", "limits.memory: must be a size from 64MB to 64TB"),
        ("memory: 65TB", "limits.memory: must be a size from 64MB to 64TB"),
        ("memory: 8 GB", "limits.memory: must be a size from 64MB to 64TB"),
        ("memory: 8", "limits.memory: must be a size from 64MB to 64TB"),
        ("private_relations: 65", "limits.private_relations: must be a whole number from 1 to 64"),
        ("resource_failures: no", "limits.resource_failures: must be `suspend` or `keep`"),
        ("resource_failures: {}", "limits.resource_failures: must be `suspend` or `keep`"),
    ],
)
def test_a_limit_out_of_range_is_shown_with_its_line(limit: str, says: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(GOOD + f"limits:\n  {limit}\n")
    assert refused.value.reason == says
    assert refused.value.place is not None
    assert refused.value.place.line == GOOD.count("\n") + 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": math.nan},
        {"seconds": True},
        {"memory": "8GB; x"},
        {"private_relations": 0},
        {"resource_failures": "suspend"},
    ],
)
def test_limits_made_in_python_are_checked_too(wrong: dict[str, object]) -> None:
    with pytest.raises(PolicyError, match=f"limits.{next(iter(wrong))}"):
        Limits(**wrong)  # type: ignore[arg-type]


def test_values_read_from_yaml_are_plain_python_types() -> None:
    policy = parse_policy(GOOD)
    assert type(policy.defaults.delta) is float
    assert type(policy.defaults.k_bar) is int
    assert type(policy.dataset) is str
    flights = policy.tables["flights"]
    assert type(flights.columns["dep_delay"].lower) is int
    assert {type(v) for v in flights.columns["carrier"].domain or ()} == {str}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_byte_order_mark_change_nothing(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", ending).encode())
    assert load_policy(path) == parse_policy(GOOD)


def test_optional_groups_may_be_left_out_or_empty() -> None:
    short = parse_policy("version: 1\ndataset: d\ntables: {t: {privacy_unit: u}}\n")
    empty = parse_policy(
        "version: 1\ndataset: d\ndefaults:\nmaxima:\naccounts:\ntables:\n"
        "  t:\n    privacy_unit: u\n    columns:\n      # a: {lower: 1}\n"
    )
    assert short == empty
    assert short.defaults == Parameters()
    assert short.maxima == Maxima()


@pytest.mark.parametrize("composition", [*Composition, None])
def test_a_total_belongs_to_the_dataset_and_adds_up_as_its_accounts_do(
    composition: Composition | None,
) -> None:
    how = "" if composition is None else f", composition: {composition}"
    accounts = (
        f"accounts: {{a: {{epsilon: 1, delta: 1e-6{how}}}, b: {{epsilon: 1, delta: 1e-6{how}}}}}"
    )
    total = "total: {epsilon: 3, delta: 2e-6}"
    for text in (f"{HEAD}{accounts}\n{total}\ntables:\n", f"{HEAD}{total}\n{accounts}\ntables:\n"):
        expected = AccountPolicy("d", 3.0, 2e-6, composition or Composition.ZCDP)
        assert parse_policy(text).total == expected
    assert parse_policy(f"{HEAD}{total}\ntables:\n").total == AccountPolicy("d", 3.0, 2e-6)
    assert parse_policy(f"{HEAD}{accounts}\ntables:\n").total is None


def test_agents_are_limited_by_the_lower_of_file_and_start() -> None:
    policy = parse_policy(
        f"{HEAD}accounts: {{ana: {{epsilon: 4, delta: 1e-6}}, bo: {{epsilon: 1, delta: 1e-6}}}}\n"
        "agents: {ana: {epsilon_per_run: 0.5, epsilon_per_question: 0.1, confirm_above: 0.2}}\n"
        "tables:\n"
    )
    said = AgentPolicy(0.5, 0.1, 0.2)
    assert policy.agents == {"ana": said}
    assert policy.agent("ana", AgentPolicy()) == said == policy.agent("ana", AgentPolicy(3, 2, 1))
    assert policy.agent("ana", AgentPolicy(0.3, None, 0.05)) == AgentPolicy(0.3, 0.1, 0.05)
    assert policy.agent("bo", AgentPolicy()) == AgentPolicy(0.5)  # half of the account
    assert policy.agent("bo", AgentPolicy(0.9, 0.2)) == AgentPolicy(0.9, 0.2)
    with pytest.raises(UnknownName):
        policy.agent("cy", AgentPolicy())
    with pytest.raises(PolicyError, match=r"agents\.cy: the policy has no account"):
        replace(policy, agents={"cy": said})
    assert parse_policy(GOOD + "agents:\n").agents == {}


def test_views_and_times_mean_what_they_say(tmp_path: Path) -> None:
    plain = parse_policy(GOOD)
    assert plain.views == ViewsPolicy() == parse_policy(GOOD + "views:\n").views
    assert plain.tables["flights"].time is None
    text = GOOD + "    time: {column: At}\nviews: {create: [ana, bo], shared: [bo], directory: v}\n"
    policy = parse_policy(text)
    assert policy.views == ViewsPolicy(("ana", "bo"), ("bo",), "v")
    assert policy.tables["trips"].time == TimeColumn("At", "UTC")
    zoned = parse_policy(text.replace("{column: At}", "{column: At, zone: Asia/Kathmandu}"))
    assert zoned.tables["trips"].time == TimeColumn("At", "Asia/Kathmandu")
    assert parse_policy(GOOD + "views: {create: []}\n").views.create == ()
    path = tmp_path / "policies.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_policy(path).views.directory == os.path.realpath(tmp_path / "v")
    path.write_text(text.replace("directory: v", "directory: /a/b"), encoding="utf-8")
    assert load_policy(path).views.directory == "/a/b"


def test_views_and_times_made_in_python_are_checked_too() -> None:
    policy = parse_policy(GOOD)
    for views in (ViewsPolicy(create=("dora",)), ViewsPolicy(shared=("ana", "dora"))):
        with fails_with("policy_invalid", match="has no account 'dora'"):
            replace(policy, views=views)
    timed = replace(policy.tables["airports"], time=TimeColumn("at"))
    with pytest.raises(PolicyError, match="airports: a public table needs no time"):
        replace(policy, tables={**policy.tables, "airports": timed})


def test_a_unit_may_be_one_of_each_period() -> None:
    text = PER.format("{column: At, every: 24 hours}") + (
        "  s: {privacy_unit: {name: w, column: x, per: {column: y, every: day}}}\n  c: {}\n"
        "links: [c.a -> t.id]\n"
    )
    policy = parse_policy(text)
    day = Period(seconds=86_400)
    assert policy.tables["t"].privacy_unit == PrivacyUnit("w", "who", UnitPeriod("At", day))
    assert policy.unit_of(policy.tables["c"]) == policy.tables["t"].privacy_unit
    assert policy.tables["t"].privacy_unit.words == "who per 1 day of At"
    assert not policy.refers_to_unit(Link("a", "t", "who"))
    other = replace(policy.tables["s"], privacy_unit=PrivacyUnit("w", "x"))
    with pytest.raises(PolicyError, match="different periods"):
        replace(policy, tables={**policy.tables, "s": other})
    child = replace(policy.tables["c"], link=Link("a", "t", "WHO"))
    with pytest.raises(PolicyError, match="not in which period"):
        replace(policy, tables={**policy.tables, "c": child})


SEVERAL = """\
version: 1
dataset: d
tables:
  fact: {privacy_unit: {name: p, column: u}}
  Mart.Fact: {privacy_unit: {name: q, column: u}}
  '"mart.fact"': {privacy_unit: {name: r, column: u}}
  my schema."a.b": {}
  main."odd": {public: true}
links:
  - '"my schema"."a.b".k -> mart.fact.k'
"""


def test_tables_of_several_schemas_are_told_apart() -> None:
    policy = parse_policy(SEVERAL)
    found = {key: policy.unit_name(table) for key, table in policy.tables.items()}
    assert found == {
        "fact": "p",
        "mart.fact": "q",
        '"mart.fact"': "r",
        '"my schema"."a.b"': "q",
        "odd": None,
    }
    names = [(table.name.schema, table.name.table) for table in policy.tables.values()]
    assert names[1:4] == [("Mart", "Fact"), ("main", "mart.fact"), ("my schema", "a.b")]
    assert policy.table(TableName("FACT", "MART")) is policy.tables["mart.fact"]
    assert policy.table("mart.fact") is policy.tables['"mart.fact"']


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("main.fact", "is the same table as `fact`"),
        ("'\"FACT\"'", "is the same table as `fact`"),
        ("'\"mart\".fact'", "is the same table as `Mart.Fact`"),
        ("MART.FACT", "differs from `Mart.Fact` in case only"),
        ("'main.\"mart.fact\"'", "is the same table as"),
        ("a.b.c", "is not the name of a table"),
        ("mart.", "is not the name of a table"),
        (".fact", "is not the name of a table"),
        ("'\"mart'", "is not the name of a table"),
    ],
)
def test_two_spellings_of_a_table_and_what_is_no_name_are_refused(name: str, reason: str) -> None:
    text = SEVERAL.replace("links:", f"  {name}: {{public: true}}\nlinks:")
    with pytest.raises(PolicyError) as refused:
        parse_policy(text)
    assert reason in refused.value.reason
    assert refused.value.place is not None
    assert refused.value.place.line == 9


def test_a_link_gives_a_table_its_parents_unit() -> None:
    policy = parse_policy(
        LINKED
        + '  "odd name": {columns: {n: {lower: 0, upper: 1}}}\n  Notes:\n    public: false\n'
        + "links:\n  - items.o -> Orders.Key\n"
        + '  - \'"odd name"."a.b"->items.id\'\n  - notes.w -> orders.WHO\n'
    )
    assert policy.tables["items"].link == Link("o", "Orders", "Key")
    assert policy.tables["odd name"].link == Link("a.b", "items", "id")
    assert policy.tables["odd name"].columns == {"n": ColumnPolicy(0, 1)}
    for name in ("items", "odd name", "notes", "orders"):
        assert policy.unit_name(policy.tables[name]) == "person"
        assert not policy.tables[name].public
    assert policy.unit_name(policy.tables["towns"]) is None
    referring = [n for n, t in policy.tables.items() if t.link and policy.refers_to_unit(t.link)]
    assert referring == ["notes"]


OWNED, OPEN = PrivacyUnit("customer", "c"), None
WRONG_LINKS: list[tuple[dict[str, PrivacyUnit | None], list[tuple[str, Link]], str, int]] = [
    ({"a": None}, [("a", Link("x", "b", "y"))], "there is no table b", 1),
    ({"a": None}, [("a", Link("x", "a", "y"))], "the links go round in a circle", 1),
    (
        {"a": None, "b": None, "C": None},
        [("a", Link("x", "b", "y")), ("b", Link("x", "C", "y")), ("C", Link("x", "A", "y"))],
        "the links go round in a circle",
        3,
    ),
    (
        {"a": OWNED, "b": PrivacyUnit("shop", "s")},
        [("a", Link("x", "b", "y"))],
        "a has a privacy_unit of its own",
        1,
    ),
    (
        {"a": None, "b": OWNED, "c": None, "d": OPEN},
        [("a", Link("x", "b", "y")), ("c", Link("x", "d", "y"))],
        "d is public, so its rows belong to nobody",
        2,
    ),
]


@pytest.mark.parametrize(("units", "links", "reason", "line"), WRONG_LINKS)
def test_links_that_lead_to_no_unit_are_refused_in_files_and_in_python(
    units: dict[str, PrivacyUnit | None], links: list[tuple[str, Link]], reason: str, line: int
) -> None:
    """Of one policy, written in both ways: the same reason, and in the file also its line."""
    linked = dict(links)
    tables = {fold(n): TablePolicy(n, unit, {}, linked.get(n)) for n, unit in units.items()}
    with fails_with("policy_invalid") as refused:
        Policy("d", tables=tables)
    assert refused.value.reason.startswith(reason)
    assert refused.value.hint

    text = "version: 1\ndataset: d\ntables:\n"
    for name, unit in units.items():
        kind = "" if unit is None else f"privacy_unit: {{name: {unit.name}, column: {unit.column}}}"
        text += f"  {name}: {{{'public: true' if name == 'd' else kind}}}\n"
    text += "links:\n" + "".join(
        f"  - {child}.{k.columns[0]} -> {k.parent}.{k.parent_columns[0]}\n" for child, k in links
    )
    with pytest.raises(PolicyError) as in_file:
        parse_policy(text)
    assert reason in in_file.value.reason
    assert in_file.value.place is not None
    assert in_file.value.place.line == 4 + len(units) + line


def test_links_on_several_columns_stand_in_brackets() -> None:
    text = (
        "version: 1\ndataset: d\ntables:\n  sales: {privacy_unit: {name: c, column: who}}\n"
        "  parts: {}\n  refunds: {privacy_unit: {name: c, column: whom}}\nlinks:\n"
        "  - parts.(ticket, line) -> sales.(no, line)\n"
        "  - 'refunds.(\"a,b\" , line) -> main.sales.(no,line)'\n"
        "  - refunds.ticket -> sales.no\n  - sales.no -> sales.no\n"
    )
    tables = parse_policy(text).tables
    assert tables["parts"].link == Link(("ticket", "line"), "sales", ("no", "line"))
    assert tables["refunds"].unit_links == (
        Link(("a,b", "line"), "sales", ("no", "line")),
        Link("ticket", "sales", "no"),
    )
    assert tables["sales"].unit_links == (Link("no", "sales", "no"),)
    assert tables["sales"].link is None
    for wrong, reason in (
        ("parts.(ticket, line) -> sales.no", "must be"),
        ("parts.(ticket) -> sales.(no)", None),
        ("parts.(ticket, line) -> sales.(no, line, k)", "must be"),
        ("parts.(ticket, ticket) -> sales.(no, line)", "names a column twice"),
        ("parts.(ticket, line) -> sales.(no, NO)", "names a column twice"),
    ):
        broken = text.replace("parts.(ticket, line) -> sales.(no, line)", wrong)
        if reason is None:  # one name, which is odd
            assert parse_policy(broken).tables["parts"].link == Link("(ticket)", "sales", "(no)")
        else:
            with pytest.raises(PolicyError, match=reason):
                parse_policy(broken)


@pytest.mark.parametrize(
    "other",
    [EACH_ROW, PrivacyUnit("shop", "s"), None],
)
def test_a_table_with_a_unit_is_linked_to_tables_of_that_unit_alone(
    other: PrivacyUnit | None,
) -> None:
    tables = {
        "a": TablePolicy("a", OWNED, unit_links=(Link("x", "b", "y"),)),
        "b": TablePolicy("b", other),
    }
    with pytest.raises(PolicyError, match="a has a privacy_unit of its own"):
        Policy("d", tables=tables)
    fine = {**tables, "b": TablePolicy("b", OWNED)}
    assert Policy("d", tables=fine).tables["a"].links == (Link("x", "b", "y"),)
    with pytest.raises(PolicyError, match="no privacy_unit of its own"):
        Policy("d", tables={**fine, "a": replace(fine["a"], privacy_unit=None)})


def test_a_policy_made_from_another_is_checked_too() -> None:
    policy = parse_policy(LINKED + "links: [items.o -> orders.o]\n")
    orders = replace(policy.tables["orders"], privacy_unit=None, link=Link("o", "items", "o"))
    with pytest.raises(PolicyError, match="circle"):
        replace(policy, tables={**policy.tables, "orders": orders})


def test_tables_are_listed_under_the_names_they_are_looked_up_by() -> None:
    table = TablePolicy("Orders", OWNED)
    assert Policy("d", tables={"orders": table}).table("ORDERS") is table
    with pytest.raises(PolicyError, match="folded"):
        Policy("d", tables={"Orders": table})


def test_the_demo_policy_is_valid_and_allows_unlimited_groups() -> None:
    policy = load_policy(Path(__file__).parents[2] / "policies.yaml")
    assert set(policy.tables) == {"flights", "movielens", "nafld2"}
    assert set(policy.accounts) == {"ana", "bo"}
    resolved = resolve(policy, Overrides(max_groups_contributed=UNLIMITED, epsilon=1))
    assert resolved.max_groups_contributed is None


def test_a_policy_is_frozen() -> None:
    policy = parse_policy(GOOD)
    with pytest.raises(FrozenInstanceError):
        policy.defaults.epsilon = 100.0  # type: ignore[misc]


def test_an_unknown_account_is_refused_with_a_suggestion() -> None:
    with fails_with("unknown_account", match="`ana`"):
        parse_policy(GOOD).account("anna")


# ----------------------------------------------------------------------------- broken files

HEAD = "version: 1\ndataset: d\n"
TABLE = HEAD + "tables:\n  t:\n    privacy_unit: u\n    columns:\n      "  # a column goes on line 7

LINKED = (
    "version: 1\ndataset: d\ntables:\n  orders: {privacy_unit: {name: person, column: who}}\n"
    "  towns: {public: true}\n  items: {}\n"
)

PER = HEAD + "tables:\n  t: {{privacy_unit: {{name: w, column: who, per: {}}}}}\n"
BROKEN: list[tuple[str, int, str]] = [
    # (text, line of the first problem, words the message must contain, separated by |)
    # the whole file
    ("just text\n", 1, "must be a group of names"),
    ("- a\n- b\n", 1, "must be a group of names|but is a list"),
    ("dataset: d\ntables:\n", 1, "version: missing|Add `version: 1`"),
    ("version: 1\ntables:\n", 1, "dataset: missing|names the budget"),
    ("version: 1\ndataset: d\n", 1, "tables: missing"),
    ("version: 2\ndataset: d\ntables:\n", 1, "version 1 only"),
    ("version: 1.0\ndataset: d\ntables:\n", 1, "version 1 only"),
    ("version: true\ndataset: d\ntables:\n", 1, "version 1 only"),
    ("version: 1\ndataset:\ntables:\n", 2, "dataset: has no value"),
    ("version: 1\ndataset: 7\ntables:\n", 2, "must be text, but is a whole number|quotes"),
    ('version: 1\ndataset: ""\ntables:\n', 2, "1 to 200 printable characters"),
    ('version: 1\ndataset: " d"\ntables:\n', 2, "without spaces at the ends"),
    ('version: 1\ndataset: "a\\nb"\ntables:\n', 2, "printable"),
    (HEAD + "tabels:\n  t: {public: true}\ntables:\n", 3, "unknown key|Did you mean `tables`?"),
    (HEAD + "zzz: 1\ntables:\n", 3, "unknown key|Known here: version, dataset"),
    (HEAD + "tables:\ntables:\n", 4, "the name `tables` appears twice"),
    (HEAD + "Tables:\ntables:\n", 3, "unknown key|differs from `Tables` in case only"),
    # YAML itself
    (HEAD + "tables: {t: {public: true}\n", 4, "not valid YAML|bracket"),
    (HEAD + "tables:\n\tt: 1\n", 4, "not valid YAML|spaces, not tabs"),
    (HEAD + "tables:\n  t: a: b\n", 4, "not valid YAML|colon"),
    (HEAD + "tables:\n---\na: 1\n", 4, "another document|Keep one document"),
    ("%YAML 1.1\n---\n" + HEAD + "tables:\n", 1, "directives"),
    ("version: 1\ndataset: a\x00b\ntables:\n", 2, "U+0000 is not allowed"),
    ('version: 1\ndataset: "\\U99999999"\ntables:\n', 1, "not valid YAML"),
    (HEAD + "tables: " + "[" * 2000 + "\n", 3, "nested too deeply"),
    (HEAD + "tables: " + "{a: " * 20 + "1" + "}" * 20 + "\n", 3, "nested too deeply"),
    (HEAD + "tables:\n  t: &t {public: true}\n  u: *t\n", 4, "anchors (&) and aliases (*)"),
    (HEAD + "tables:\n  t: {<<: {public: true}}\n", 4, "a name must be text"),
    (HEAD + "tables:\n  t: {public: !!python/name:os.system ''}\n", 4, "tags (!)"),
    (HEAD + "tables:\n  t: !!set {a, b}\n", 4, "tags (!)"),
    (HEAD + "tables:\n  ? [a, b]\n  : {public: true}\n", 4, "a name must be text"),
    (HEAD + "tables:\n  2013: {public: true}\n", 4, 'a name must be text|Put it in quotes: "2013"'),
    (HEAD + "tables:\n  null: {public: true}\n", 4, "a name must be text"),
    (HEAD + 'tables:\n  "": {public: true}\n', 4, "a name must be text, and not empty"),
    (HEAD + 'tables:\n  "a\\ud800": {public: true}\n', 4, "half a character"),
    # parameters
    (HEAD + "defaults: {epsilon: 0}\ntables:\n", 3, "epsilon must be between|but is 0"),
    (HEAD + "defaults: {epsilon: -1}\ntables:\n", 3, "epsilon must be between|but is -1"),
    (HEAD + "defaults: {epsilon: .nan}\ntables:\n", 3, "not a finite number"),
    (HEAD + "defaults: {epsilon: .inf}\ntables:\n", 3, "not a finite number"),
    (HEAD + "defaults: {epsilon: 1e400}\ntables:\n", 3, "too large"),
    (HEAD + "defaults: {epsilon: 1e308}\ntables:\n", 3, "epsilon must be between"),
    (HEAD + "defaults: {epsilon: '0.5'}\ntables:\n", 3, "epsilon must be a number"),
    (HEAD + "defaults: {epsilon: true}\ntables:\n", 3, "epsilon must be a number"),
    (HEAD + "defaults: {epsilon: }\ntables:\n", 3, "defaults.epsilon: has no value"),
    (HEAD + "defaults: {delta: 1}\ntables:\n", 3, "delta must be between"),
    (HEAD + "defaults: {delta: 1e-300}\ntables:\n", 3, "delta must be between"),
    (HEAD + "defaults: {k_bar: 10.0}\ntables:\n", 3, "k_bar must be a whole number"),
    (HEAD + "defaults: {k_bar: 0x1F}\ntables:\n", 3, "plain decimal"),
    (HEAD + "defaults: {k_bar: 9223372036854775808}\ntables:\n", 3, "k_bar must be between"),
    (HEAD + f"defaults: {{k_bar: {'9' * 5000}}}\ntables:\n", 3, "too many digits"),
    (HEAD + "defaults: {k_bar: unlimited}\ntables:\n", 3, "k_bar must be a whole number"),
    (
        HEAD + "defaults:\n  max_groups_contributed:\ntables:\n",
        4,
        "max_groups_contributed: has no value",
    ),
    (HEAD + "defaults: {epsilom: 1}\ntables:\n", 3, "unknown key|Did you mean `epsilon`?"),
    (HEAD + "defaults: 3\ntables:\n", 3, "must be a group of names, but is a whole number"),
    (
        HEAD + "defaults: {epsilon: 3}\nmaxima:\n  epsilon: 2\ntables:\n",
        5,
        "below the default: epsilon must be at most 2.0, but is 3.0|Lower defaults.epsilon",
    ),
    (HEAD + "maxima:\n  epsilon: 0.1\ntables:\n", 4, "below the default|defaults.epsilon"),
    (
        HEAD + "defaults: {max_groups_contributed: unlimited}\n"
        "maxima: {max_groups_contributed: 5}\ntables:\n",
        4,
        "must be at most 5, but is unlimited",
    ),
    (HEAD + "maxima: {min_units_per_group: 5}\ntables:\n", 3, "unknown key|Set it under defaults"),
    (
        HEAD + "maxima: {contribution_bounding: weight}\ntables:\n",
        3,
        "unknown key|Set it under defaults",
    ),
    (
        HEAD + "defaults:\n  contribution_bounding: truncate\ntables:\n",
        4,
        "must be `sample` or `weight`, but is 'truncate'|keeps more",
    ),
    (HEAD + "defaults: {contribution_bounding: 1}\ntables:\n", 3, "must be `sample` or `weight`"),
    # accounts
    (HEAD + "accounts:\n  ana: {epsilon: 0, delta: 1e-6}\ntables:\n", 4, "ana.epsilon|but is 0"),
    (HEAD + "accounts:\n  ana: {epsilon: 1}\ntables:\n", 4, "ana.delta: missing"),
    (HEAD + "accounts:\n  ana: 3\ntables:\n", 4, "must be a group of names"),
    (HEAD + "accounts:\n  ana:\ntables:\n", 4, "accounts.ana: has no value"),
    (
        HEAD + "accounts:\n  ana: {epsilon: 1, delta: 1e-6, composition: advanced}\ntables:\n",
        4,
        "must be zcdp, basic or gdp|`composition: zcdp` (rho adds up",
    ),
    *(
        (
            HEAD + f"accounts:\n  ana: {{epsilon: 1, delta: 1e-6, {rest}}}\ntables:\n",
            4,
            f"ana.delta_for_conversion: {said}",
        )
        for rest, said in (
            ("delta_for_conversion: 1.0", "must be a number from 0.01 to 0.99|0.95 suits"),
            ("delta_for_conversion: half", "must be a number from 0.01 to 0.99"),
            ("delta_for_conversion: true", "must be a number from 0.01 to 0.99"),
            ("composition: basic, delta_for_conversion: 0.8", "means nothing under"),
        )
    ),
    (
        HEAD + "accounts:\n  ana: {epsilon: 1, delta: 1e-6, composition: 1}\ntables:\n",
        4,
        "ana.composition: must be zcdp, basic or gdp",
    ),
    (
        HEAD + "accounts:\n  a: {epsilon: 1, delta: 1e-6}\n  A: {epsilon: 1, delta: 1e-6}\ntables:",
        5,
        "differs from `a` in case only",
    ),
    (
        HEAD + "accounts:\n  a/b: {epsilon: 1, delta: 1e-6}\ntables:\n",
        4,
        "accounts.a/b: an account's name|no `/`",
    ),
    # the dataset's total
    (
        HEAD + "accounts:\n  a: {epsilon: 1, delta: 1e-6, composition: basic}\n"
        "total: {epsilon: 1, delta: 1e-6, delta_for_conversion: 0.9}\ntables:\n",
        5,
        "delta_for_conversion means nothing",
    ),
    (
        HEAD + "total: {epsilon: 1, delta: 1e-6, delta_for_conversion: 0}\ntables:\n",
        3,
        "total.delta_for_conversion: must be a number",
    ),
    (HEAD + "total: {epsilon: 0, delta: 1e-6}\ntables:\n", 3, "total.epsilon|but is 0"),
    (HEAD + "total: {epsilon: 1}\ntables:\n", 3, "total.delta: missing"),
    (HEAD + "total:\ntables:\n", 3, "total: has no value"),
    (HEAD + "total: 3\ntables:\n", 3, "must be a group of names"),
    (
        HEAD + "total: {epsilon: 1, delta: 1e-6, composition: zcdp}\ntables:\n",
        3,
        "total.composition: unknown key",
    ),
    (
        HEAD + "accounts:\n  a: {epsilon: 1, delta: 1e-6}\n"
        "  b: {epsilon: 1, delta: 1e-6, composition: basic}\n"
        "total: {epsilon: 1, delta: 1e-6}\ntables:\n",
        6,
        "total: the accounts differ in their composition|remove the total",
    ),
    # views
    (
        HEAD + "accounts: {ana: {epsilon: 1, delta: 1e-6}}\nviews: {create: [an]}\ntables:\n",
        4,
        "views.create.item 1: the policy has no account 'an'|Did you mean `ana`?",
    ),
    (HEAD + "views:\n  shared: [bo]\ntables:\n", 4, "views.shared.item 1|Add it under `accounts`"),
    (HEAD + "views: {create: }\ntables:\n", 3, "views.create: has no value"),
    (HEAD + "views: {create: ana}\ntables:\n", 3, "must be a list, but is text"),
    (HEAD + "views: {directory: ' a'}\ntables:\n", 3, "views.directory: is not a directory"),
    (HEAD + "views: {directory: 'pg://a'}\ntables:\n", 3, "views.directory: is not a directory"),
    (
        HEAD + "accounts: {ana: {epsilon: 1, delta: 1e-6}}\nagents:\n  an: {}\ntables:\n",
        5,
        "agents.an: the policy has no account 'an'|Did you mean `ana`?",
    ),
    (
        HEAD + "accounts: {ana: {epsilon: 1, delta: 1e-6}}\nagents:\n  ana:\n"
        "    epsilon_per_run: 2\ntables:\n",
        6,
        "agents.ana.epsilon_per_run: is above the account's epsilon, 1|Lower it",
    ),
    (
        HEAD + "accounts: {ana: {epsilon: 1, delta: 1e-6}}\nagents:\n  ana:\n"
        "    epsilon_per_run: 0.5\n    epsilon_per_question: 0.6\ntables:\n",
        7,
        "agents.ana.epsilon_per_question: is above epsilon_per_run, 0.5|Lower it",
    ),
    (
        HEAD + "agents: {ana: {confirm_abov: 1}}\ntables:\n",
        3,
        "agents.ana.confirm_abov: unknown key|`confirm_above`",
    ),
    (
        HEAD + "agents: {ana: {confirm_above: 0}}\ntables:\n",
        3,
        "agents.ana.confirm_above: must be|Leave it out",
    ),
    (
        HEAD + "agents: {ana: {epsilon_per_run: much}}\ntables:\n",
        3,
        "agents.ana.epsilon_per_run: must be a number|Leave it out",
    ),
    (HEAD + "agents: [ana]\ntables:\n", 3, "agents: must be a group of names, but is a list"),
    (HEAD + "views: {creates: []}\ntables:\n", 3, "views.creates: unknown key|`create`"),
    # periods
    (PER.format("{every: 1 day}"), 4, "t.privacy_unit.per.column: missing"),
    (PER.format("{column: c, every: 0 days}"), 4, "per.every: every must be a period|minute, hour"),
    (PER.format("{column: c, every: daily}"), 4, "per.every: every must be a period"),
    (PER.format("{column: c, every: 1 day, zone: UTC}"), 4, "privacy_unit.per.zone: unknown key"),
    (PER.format(""), 4, "t.privacy_unit.per: has no value"),
    (
        PER.format("{column: c, every: 1 day}") + "  s: {privacy_unit: w}\n",
        5,
        "s.privacy_unit: s and t give different periods to one privacy unit|the same `per",
    ),
    (
        PER.format("{column: c, every: 1 day}")
        + "  s: {privacy_unit: {name: w, column: w, per: {column: c, every: 1 week}}}\n",
        5,
        "s and t give different periods",
    ),
    (
        PER.format("{column: c, every: 1 day}") + "  s: {}\nlinks: [s.x -> t.who]\n",
        6,
        "t.who says who, but not in which period|unique",
    ),
    # time
    (HEAD + "tables:\n  t: {privacy_unit: u, time: at}\n", 4, "t.time: must be a group"),
    (HEAD + "tables:\n  t: {privacy_unit: u, time: {zone: UTC}}\n", 4, "t.time.column: missing"),
    (HEAD + "tables:\n  t: {privacy_unit: u, time: {column: ''}}\n", 4, "t.time.column: is empty"),
    (
        HEAD + "tables:\n  t: {privacy_unit: u, time: {column: a, zone: Mars/Base}}\n",
        4,
        "t.time.zone: there is no time zone 'Mars/Base'|IANA",
    ),
    (
        HEAD + "tables:\n  t: {privacy_unit: u, time: {column: a, zone: /etc/passwd}}\n",
        4,
        "t.time.zone: there is no time zone",
    ),
    (
        HEAD + "tables:\n  t:\n    public: true\n    time: {column: a}\n",
        6,
        "t.time: a public table needs no time",
    ),
    # tables
    (HEAD + "tables: [t]\n", 3, "must be a group of names, but is a list"),
    (HEAD + "tables:\n  t:\n", 4, "t: has no value|privacy_unit, or public: true"),
    (HEAD + "tables:\n  t: {}\n", 4, "needs either privacy_unit or public: true"),
    (HEAD + "tables:\n  t: {public: false}\n", 4, "needs either privacy_unit or public: true"),
    (HEAD + "tables:\n  t: {privacy_unit: u, public: true}\n", 4, "true, not both"),
    (HEAD + 'tables:\n  t: {public: "true"}\n', 4, "must be true or false, but is text"),
    (HEAD + "tables:\n  t: {public: yes}\n", 4, "must be true or false, but is text"),
    (HEAD + "tables:\n  t: {privacy_unit: }\n", 4, "t.privacy_unit: has no value"),
    (HEAD + "tables:\n  t: {privacy_unit: 3}\n", 4, "must be a group of names"),
    (HEAD + "tables:\n  t: {privacy_unit: {name: u}}\n", 4, "privacy_unit.column: missing"),
    (HEAD + "tables:\n  t: {privacy_unit: {name: u, colum: v}}\n", 4, "Did you mean `column`?"),
    (HEAD + "tables:\n  t: {privacy_unit: {name: u, column: ''}}\n", 4, "column: is empty"),
    (HEAD + "tables:\n  t: {public: true}\n  T: {public: true}\n", 5, "in case only"),
    # links
    (LINKED + "links: items.o -> orders.o\n", 7, "must be a list, but is text|a line of its own"),
    (LINKED + "links: {items: orders}\n", 7, "must be a list, but is a group"),
    (LINKED + "links: [items.o -> orders.o, 3]\n", 7, "item 2: must be `child.column ->|lineitem"),
    (LINKED + "links:\n  - items.o orders.o\n", 8, "must be `child.column -> parent.column`"),
    (LINKED + "links:\n  - items -> orders.o\n", 8, "must be `child.column -> parent.column`"),
    (
        LINKED + "links:\n  - a.b.c.d -> orders.o\n",
        8,
        "must be `child.column -> parent.column`",
    ),
    (LINKED + "links:\n  - item.o -> orders.o\n", 8, "no table item in|Did you mean `items`?"),
    (LINKED + "links:\n  - items.o -> order.o\n", 8, "no table order in|Did you mean `orders`?"),
    (LINKED + "links:\n  - orders.o -> items.o\n", 8, "orders has a privacy_unit of its own"),
    (LINKED + "links:\n  - towns.o -> orders.o\n", 8, "towns is public|Remove `public: true`"),
    (
        LINKED + "links:\n  - items.o -> towns.o\n",
        8,
        "towns is public, so its rows belong to nobody",
    ),
    (LINKED + "links:\n  - items.o -> items.o\n", 8, "go round in a circle"),
    (
        LINKED + "links:\n  - items.o -> orders.o\n  - Items.p -> orders.p\n",
        9,
        "Items has a link already",
    ),
    (
        LINKED + "  parts: {}\nlinks:\n  - items.o -> parts.o\n  - parts.i -> items.i\n",
        10,
        "go round in a circle|end at a table with a privacy_unit",
    ),
    (LINKED, 6, "items: a table needs either privacy_unit or public: true"),
    (LINKED + "links:\n", 6, "items: a table needs either"),
    (LINKED + "links: []\n", 6, "items: a table needs either"),
    (LINKED + "  t: {}\nlinks: [items.o -> t.o]\n", 7, "t: a table needs either"),
    # columns
    (TABLE + "a:\n", 7, "t.a: has no value"),
    (TABLE + "a: 3\n", 7, "must be a group of names"),
    (TABLE + "a: {}\n", 7, "says nothing about the column"),
    (TABLE + "a: {lower: 1}\n", 7, "t.a.lower: needs upper as well"),
    (TABLE + "a: {upper: 1}\n", 7, "t.a.upper: needs lower as well"),
    (TABLE + "a: {lower: 1, upper: 1}\n", 7, "lower must be below upper"),
    (TABLE + "a: {lower: 2, upper: 1}\n", 7, "lower must be below upper"),
    (
        TABLE + "a: {lower: 2, upper: 2020-01-01}\n",
        7,
        "t.a.lower: lower and upper must be two numbers",
    ),
    (TABLE + "a: {lower: 2020-01-02, upper: 2020-01-01}\n", 7, "t.a.lower: lower must be below"),
    (
        TABLE + "a: {lower: 2020-01-01, upper: 2020-01-02 10:00:00}\n",
        7,
        "t.a.lower: lower and upper must be two",
    ),
    (
        TABLE + "a: {lower: 2020-01-01 10:00:00Z, upper: 2020-01-02 10:00:00Z}\n",
        7,
        "t.a.lower: must have no time zone",
    ),
    (TABLE + "a: {lower: LOWEST, upper: HIGHEST}\n", 7, "t.a.lower: must be a number"),
    (TABLE + "a: {lower: -.inf, upper: 1}\n", 7, "`-.inf` is not a finite number"),
    (TABLE + "a: {lower: 0, upper: .NaN}\n", 7, "`.NaN` is not a finite number"),
    (TABLE + "a: {lower: false, upper: true}\n", 7, "a number or a date, but is true/false"),
    (TABLE + "a: {lower: 0, upper: 1e300}\n", 7, "2^53"),
    (TABLE + "a: {lower: 0, upper: 1, uper: 1}\n", 7, "Did you mean `upper`?"),
    (TABLE + "a: {domain: []}\n", 7, "t.a.domain: lists no values"),
    (TABLE + "a: {domain: AA}\n", 7, "must be a list, but is text"),
    (TABLE + "a: {domain: [AA, AA]}\n", 7, "domain.item 2: the same value as item 1"),
    (TABLE + "a: {domain: [1, 1.0]}\n", 7, "the same value as item 1"),
    (TABLE + "a: {domain: [1, AA]}\n", 7, "text in a domain that starts with a whole number"),
    (TABLE + "a: {domain: [1, true]}\n", 7, "true/false in a domain that starts with"),
    (TABLE + "a: {domain: [a, null]}\n", 7, "not missing"),
    (TABLE + "a: {domain: [a, [b]]}\n", 7, "not a list"),
    (TABLE + "a: {domain: [.nan]}\n", 7, "not a finite number"),
    (TABLE + "a: {domain: [01234, 56789]}\n", 7, "plain decimal number|quotes"),
    (TABLE + "a: {domain: [2013-02-30]}\n", 7, "not a date or time"),
    (TABLE + "a: {domain: [x]}\n      A: {domain: [x]}\n", 8, "differs from `a` in case only"),
]


@pytest.mark.parametrize(("text", "line", "words"), BROKEN, ids=[case[2] for case in BROKEN])
def test_a_broken_file_is_refused_with_its_line_and_reason(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    error, message = caught.value, str(caught.value)
    for word in words.split("|"):
        assert word in message
    assert error.place is not None
    assert error.place.line == line
    assert error.place.source == "p.yaml"
    assert f"p.yaml, line {line}, column" in message
    assert error.place.excerpt == text.split("\n")[line - 1]
    assert error.code in ("policy_syntax", "policy_invalid")


def test_each_broken_file_differs_from_a_good_one_only_by_its_fault() -> None:
    """The control: without a fault, the frames that the cases above are built from are accepted."""
    parse_policy(HEAD + "tables:\n  t: {public: true}\n")
    parse_policy(TABLE + "a: {lower: 0, upper: 1, domain: [0, 1]}\n")
    parse_policy(HEAD + "accounts:\n  ana: {epsilon: 1, delta: 1e-6}\ntables:\n")


def test_all_problems_are_reported_at_once_in_order() -> None:
    text = (
        "version: 1\ndataset: 7\ndefaults: {epsilon: 0}\nmaxima: {k_bar: x}\n"
        "accounts: {ana: {epsilon: 1}}\ntables:\n  t: {}\n  u:\n    privacy_unit: w\n"
        "    columns: {a: {lower: 2, upper: 1}, b: {domain: []}}\n"
    )
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    hint = caught.value.hint or ""
    assert "7 problems in all" in hint
    lines = [int(part.split(",")[0]) for part in hint.split("  line ")[1:]]
    assert lines == [2, 3, 4, 5, 7, 10, 10]


def test_a_default_is_checked_against_the_maxima_even_when_tables_are_broken() -> None:
    text = HEAD + "defaults: {epsilon: 3, delta: 1e-6}\nmaxima: {epsilon: 2, delta: 1e-7}\n"
    with pytest.raises(PolicyError, match="3 problems") as caught:
        parse_policy(text + "tables: {t: {}}\n")
    assert "maxima.delta" in str(caught.value)


@pytest.mark.slow
def test_a_thousand_problems_are_listed_briefly() -> None:
    tables = "".join(f"  t{i}: {{public: 3}}\n" for i in range(1000))
    with pytest.raises(PolicyError, match="and 960 more") as caught:
        parse_policy(HEAD + "tables:\n" + tables)
    assert len(str(caught.value)) < 10_000


def test_an_alias_bomb_is_refused_without_being_expanded() -> None:
    levels = "".join(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(60))
    with pytest.raises(PolicyError, match="aliases"):
        parse_policy("a0: &a0 [x, x]\n" + levels)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "~\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    with fails_with("policy_empty", match="is empty"):
        parse_policy(text)


def test_files_that_cannot_be_read_are_policy_errors(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="does not exist"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="is not a file"):
        load_policy(tmp_path)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy("a\x00b")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path / ("x" * 5000))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PolicyError, match="is not a file"):
        load_policy(tmp_path / "pipe")


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"version: 1\ndataset: caf\xe9\n")
    with pytest.raises(PolicyError, match="UTF-8") as caught:
        load_policy(path)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (2, 13)


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(PolicyError, match="larger than 512 KiB"):
        load_policy(path)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, len(GOOD) - 1), st.text(max_size=6), st.integers(0, 12))
def test_any_damaged_file_is_a_policy_or_a_policy_error(at: int, text: str, cut: int) -> None:
    try:
        parse_policy(GOOD[:at] + text + GOOD[at + cut :])
    except PolicyError:
        return


# ----------------------------------------------------------------------------- resolve

POLICY = parse_policy(GOOD)


def test_the_nearest_setting_wins() -> None:
    connection = Overrides(epsilon=1.0, k_bar=7)
    query = Overrides(epsilon=0.25)
    assert resolve(POLICY) == POLICY.defaults
    resolved = resolve(POLICY, connection, query)
    assert resolved == Parameters(0.25, 1e-8, 10, 10, 7, 1)
    assert resolve(POLICY, query, connection).epsilon == 1.0


def test_not_given_is_not_unlimited() -> None:
    assert resolve(POLICY, Overrides()).max_groups_contributed == 10
    assert resolve(POLICY, Overrides(max_groups_contributed=None)).max_groups_contributed is None
    given = Overrides.of({"MAX_GROUPS_CONTRIBUTED": "Unlimited"})
    assert resolve(POLICY, given).max_groups_contributed is None
    assert repr(Overrides().epsilon) == repr(NOT_GIVEN) == "NOT_GIVEN"


def test_contribution_bounding_is_one_of_two_words_and_samples_by_default() -> None:
    assert resolve(POLICY).contribution_bounding is ContributionBounding.SAMPLE
    for word in ("weight", "WEIGHT", ContributionBounding.WEIGHT):
        resolved = resolve(POLICY, Overrides.of({"contribution_bounding": word}))
        assert resolved.contribution_bounding is ContributionBounding.WEIGHT
    weighing = HEAD + "defaults: {contribution_bounding: weight}\ntables: {t: {public: true}}\n"
    assert parse_policy(weighing).defaults == Parameters(
        contribution_bounding=ContributionBounding.WEIGHT
    )


def test_unlimited_groups_need_a_policy_that_allows_them() -> None:
    limited = Policy("d", maxima=Maxima(max_groups_contributed=50))
    with pytest.raises(ParameterError, match="at most 50, but is unlimited") as caught:
        resolve(limited, Overrides(max_groups_contributed=UNLIMITED))
    assert "maxima.max_groups_contributed" in (caught.value.hint or "")
    assert resolve(limited, Overrides(max_groups_contributed=50)).max_groups_contributed == 50


HOSTILE: list[object] = [
    *(math.nan, math.inf, -math.inf, -1, -0.0, 0, 1e308, True, False, "0.5", "unlimited'--"),
    *(2**31, 2**63, -(2**63), 10**5000, None, [], {}, b"1", 1j, 5e-324, NOT_GIVEN.value),
]


@pytest.mark.parametrize("name", PARAMETER_NAMES)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: repr(v)[:20] if v != 10**5000 else "huge")
def test_hostile_values_are_refused_for_every_parameter(name: str, value: object) -> None:
    if name in ("max_groups_contributed", "max_error", "max_age") and value is None:
        return  # which says that there is no limit, or nothing
    if name == "max_error" and value in (2**31, 2**63):
        return  # wide, and no less an error that can be kept
    if name == "left_out_share" and value in (0, 5e-324) and not isinstance(value, bool):
        return  # nothing, or next to nothing
    for policy in (POLICY, Policy("no maxima")):
        with pytest.raises(ParameterError) as caught:
            resolve(policy, Overrides.of({name: value}))
        assert name in caught.value.reason
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("epsilon", math.nan, "parameter_not_finite"),
        ("epsilon", math.inf, "parameter_not_finite"),
        ("epsilon", "0.5", "parameter_not_number"),
        ("epsilon", True, "parameter_not_number"),
        ("epsilon", 0, "parameter_out_of_range"),
        ("epsilon", 2.0000001, "parameter_out_of_range"),
        ("delta", 1e-6, "parameter_out_of_range"),
        ("delta", 1.0, "parameter_out_of_range"),
        ("k_bar", 0, "parameter_out_of_range"),
        ("k_bar", 10001, "parameter_out_of_range"),
        ("k_bar", 10.0, "parameter_not_integer"),
        ("k_bar", math.inf, "parameter_not_finite"),
        ("max_rows_contributed", 101, "parameter_out_of_range"),
        ("max_rows_contributed", "unlimited", "parameter_not_integer"),
        ("contribution_bounding", "both", "parameter_not_a_choice"),
        ("contribution_bounding", None, "parameter_not_a_choice"),
        ("no_such", 1, "unknown_parameter"),
    ],
)
def test_each_refusal_has_its_code(name: str, value: object, code: str) -> None:
    with fails_with(code):
        resolve(POLICY, Overrides.of({name: value}))


def test_values_at_the_maximum_are_accepted() -> None:
    most = Overrides(epsilon=2, delta=1e-7, max_rows_contributed=100, k_bar=10000)
    assert resolve(POLICY, most) == Parameters(2.0, 1e-7, 10, 100, 10000, 1)
    assert type(resolve(POLICY, most).epsilon) is float


def test_a_refusal_says_where_the_maximum_comes_from() -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be at most 2\.0") as caught:
        resolve(POLICY, Overrides(epsilon=3))
    assert "maxima.epsilon" in (caught.value.hint or "")


def test_min_units_per_group_can_be_raised_and_never_lowered() -> None:
    policy = Policy("d", defaults=Parameters(min_units_per_group=5))
    assert resolve(policy, Overrides(min_units_per_group=6)).min_units_per_group == 6
    assert resolve(policy, Overrides(min_units_per_group=5)).min_units_per_group == 5
    with pytest.raises(ParameterError, match="at least 5"):
        resolve(policy, Overrides(min_units_per_group=4))


# ----------------------------------------------------------------------------- schema


def test_column_lookup_ignores_ascii_case_only_as_duckdb_does() -> None:
    table = Table("T", (column_of("UserId", "BIGINT"), column_of("É", "VARCHAR")))
    assert table.column("userid") == table.columns[0]
    assert table.column("é") is None
    assert table.column("x") is None
    assert schema_of(table) == {"t": table}
    assert fold("ÀB") == "Àb"


@pytest.mark.parametrize(
    ("type_text", "kinds"),
    [
        ("BIGINT", "integer numeric"),
        ("uhugeint", "integer numeric"),
        ("INT4", "integer numeric"),
        ("DOUBLE", "float numeric"),
        ("REAL", "float numeric"),
        ("DECIMAL(18,3)", "decimal numeric"),
        ("numeric(9, 2)", "decimal numeric"),
        ("VARCHAR", "text"),
        ("VARCHAR(10)", "text"),
        ("ENUM('INTEGER', 'b')", "text"),
        ("DATE", "temporal"),
        ("TIMESTAMP WITH TIME ZONE", "temporal"),
        ("TIMESTAMPTZ", "temporal"),
        ("INTERVAL", ""),
        ("BOOLEAN", ""),
        ("BLOB", ""),
        ("INTEGER[]", ""),
        ("VARCHAR[3]", ""),
        ("STRUCT(a INTEGER)", ""),
        ("MAP(INTEGER, DOUBLE)", ""),
    ],
)
def test_each_type_is_of_exactly_its_kinds(type_text: str, kinds: str) -> None:
    found = SqlType.of(type_text)
    known = ("integer", "float", "decimal", "numeric", "text", "temporal")
    assert {kind for kind in known if getattr(found, f"is_{kind}")} == set(kinds.split())


# -- the table of parameters ----------------------------------------------------------------------


def test_every_form_of_the_parameters_has_those_of_the_table() -> None:
    """A parameter that one of them forgets could be set and never be checked, or the other way."""
    names = list(PARAMETERS)
    maxima = [spec.name for spec in PARAMETERS.values() if spec.maximum is not None]
    # What a question was asked with, and is no parameter, tells no two of them apart.
    assert [f.name for f in fields(Parameters) if f.compare] == names
    tables = [spec.name for spec in PARAMETERS.values() if spec.several is not None]
    assert list(document.TableDefaultsSection.model_fields) == tables
    assert [f.name for f in fields(Overrides)] == names
    assert [f.name for f in fields(Maxima)] == maxima
    assert list(PrivacyParameters.__annotations__) == names
    assert list(document.DefaultsSection.model_fields) == names
    assert list(document.MaximaSection.model_fields) == maxima
    command = click.command()(options.privacy_parameters(lambda: None))
    assert [option.name for option in command.params] == [*names, "mechanism"]


@pytest.mark.parametrize("name", PARAMETER_NAMES)
def test_a_default_of_dpsql_is_within_its_own_limits(name: str) -> None:
    spec, default = PARAMETERS[name], getattr(Parameters(), name)
    assert check_value(name, default) == default
    assert spec.words == () or default in spec.words
    numbers = not spec.words and not spec.period
    for limit in spec.limits if numbers else ():
        assert check_value(name, limit) == limit
    beyond = 2 * spec.limits[1] if numbers else "neither"
    with pytest.raises(ParameterError, match=name):
        check_value(name, beyond)
    if spec.unlimited:
        assert check_value(name, "Unlimited") is UNLIMITED
    else:
        with pytest.raises(ParameterError, match=name):
            check_value(name, "unlimited")


@pytest.mark.parametrize(
    "function",
    [connect, Connection.sql, Connection.explain, Cursor.execute],
    ids=["connect", "sql", "explain", "execute"],
)
def test_what_takes_parameters_tells_type_checkers_which(function: Callable[..., object]) -> None:
    *_, last = inspect.signature(function).parameters.values()
    assert last.kind is inspect.Parameter.VAR_KEYWORD
    assert last.annotation == f"Unpack[{PrivacyParameters.__name__}]"


@pytest.mark.parametrize("given", [None, 7, 1.5, b"version: 1", [], {}, object()])
def test_a_policy_is_read_from_a_text_and_from_nothing_else(given: object) -> None:
    with fails_with("bad_parameter"):
        parse_policy(given)  # type: ignore[arg-type]
