"""`dpsql init`: options and answers make the same draft, and rows are read only when asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from click.testing import CliRunner, Result
from helpers.present import present

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.policy.load import load_policy
from dpsql.policy.model import EACH_ROW

SHOP = (
    "CREATE TABLE customer (c_id BIGINT, name VARCHAR, balance DOUBLE)",
    "CREATE TABLE orders (o_id BIGINT, o_c_id BIGINT, mode VARCHAR)",
    "CREATE TABLE lineitem (l_o_id BIGINT, price DOUBLE, discount DOUBLE)",
    "CREATE TABLE nation (code INTEGER, title VARCHAR)",
    "CREATE TABLE scratch (x INTEGER)",
    "INSERT INTO lineitem SELECT range, range * 4711.25, NULL FROM range(3)",
    "INSERT INTO orders VALUES (1, 1, 'sea'), (2, 1, 'air'), (3, 2, NULL)",
)
OPTIONS = (
    *("--dataset", "shop"),
    *("--unit", "customer.c_id=customer", "--public", "nation"),
    *("--link", "lineitem.l_o_id=orders.o_id", "--link", "orders.o_c_id=customer.c_id"),
    *("--only", "customer", "--only", "orders", "--only", "lineitem", "--only", "nation"),
    *("--bounds", "lineitem.price=0:100000"),
    *("--account", "ana=3,1e-6", "--account", "bo=0.5,1e-7"),
)
ANSWERS = (
    *("shop",),  # the dataset
    *("c_id", "customer"),  # customer
    *("link", "public", "link", "skip"),  # lineitem, nation, orders, scratch
    *("l_o_id -> orders.o_id", "o_c_id -> customer.c_id"),
    *("", ""),  # balance is not summed, names are not listed
    *("price", "0:100000"),
    *("", ""),  # of orders, o_id is not summed, and modes are not listed
    *("ana, bo", "3,1e-6", "0.5,1e-7"),
    *("y",),
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as writer:
        for statement in SHOP:
            writer.execute(statement)
    return tmp_path


def run(*arguments: str, answers: tuple[str, ...] = ()) -> Result:
    text = "".join(f"{answer}\n" for answer in answers)
    return CliRunner().invoke(cli, ["init", *arguments], input=text)


def check(path: str = "policies.yaml", database: str = "shop.duckdb") -> Result:
    return CliRunner().invoke(cli, ["check", "-d", database, "-p", path])


@pytest.mark.slow
def test_options_and_answers_make_the_same_draft_which_fits(shop: Path) -> None:
    given = run("shop.duckdb", "-o", "given.yaml", *OPTIONS)
    assert given.exit_code == 0, given.output
    asked = run("shop.duckdb", "-o", "asked.yaml", "--ask", answers=ANSWERS)
    assert asked.exit_code == 0, asked.output
    assert "Error" not in asked.output
    assert (shop / "given.yaml").read_text() == (shop / "asked.yaml").read_text()
    assert load_policy("given.yaml").tables["lineitem"].columns["price"].upper == 100000
    assert check("given.yaml").exit_code == 0
    assert "Next: dpsql check --database shop.duckdb -p given.yaml" in given.output


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["y", "n"])
def test_an_engine_of_which_nothing_is_known_is_surveyed_where_its_owner_agrees(
    shop: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    assert run("shop.duckdb", *OPTIONS).exit_code == 0
    monkeypatch.setattr("dpsql.engines.opening.is_surveyed", lambda _: False)
    monkeypatch.setattr("dpsql.survey.keep.keep_surveys", lambda _: iter(["done"]))
    next_command = run("shop.duckdb", "-o", "next.yaml", *OPTIONS).output
    assert "Next: dpsql check --survey --database shop.duckdb" in next_command
    told = check()
    assert "Find out now?" not in told.output  # nobody is there to answer
    drafted = run("shop.duckdb", "-o", "asked.yaml", "--ask", answers=(answer, *ANSWERS))
    assert drafted.exit_code == 0
    assert ("What is known of the engine: done" in drafted.output) == (answer == "y")
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("dpsql.interfaces.cli.check.sys", SimpleNamespace(stdin=terminal))
    asked = CliRunner().invoke(cli, ["check", "-d", "shop.duckdb"], input=answer)
    assert "reads no data. [Y/n]" in asked.output
    assert ("What is known of the engine: done" in asked.output) == (answer == "y")


def test_a_survey_needs_no_policies_file(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one nothing could be drafted of an engine that nobody has surveyed."""
    monkeypatch.setattr("dpsql.survey.keep.keep_surveys", lambda _: iter(["done"]))
    assert not Path("policies.yaml").exists()
    told = CliRunner().invoke(cli, ["check", "--survey", "-d", "shop.duckdb"])
    assert "What is known of the engine: done" in told.output
    assert told.exit_code != 0


@pytest.mark.slow
def test_answers_are_asked_again_until_they_fit(shop: Path) -> None:
    wrong = (
        *("shop",),
        *("c_idd", "name->", "c_id", " ", "customer"),
        *("link", "public", "link", "skip"),
        *("l_o_id", "l_o_id -> nation.code", "l_o_id -> orders.o_id"),
        *("o_c_id -> lineitem.l_o_id", "o_c_id -> customer.c_id"),
        *("", "", "prize", "price", "5:1", "0:100000"),
        *("", "o_c_id", ""),
        *("ana, bo", "3", "0,1", "3,1e-6", "0.5,1e-7", "y"),
    )
    asked = run("shop.duckdb", "--ask", answers=wrong)
    assert asked.exit_code == 0, asked.output
    for words in (
        "customer has no column c_idd. Did you mean `c_id`?",
        "customer has no column name->",
        "nation is public, so its rows belong to nobody",
        "the links would go round in a circle",
        "lineitem has no column prize. Did you mean `price`?",
        "o_c_id is none of them",
        "not bounds: 5:1. Write LOW:HIGH",
        "not a budget: 3. Write EPSILON,DELTA",
        "epsilon must be between",
    ):
        assert any(
            words in line for line in asked.output.splitlines() if line.startswith("Error: ")
        ), words
    assert run("shop.duckdb", "-o", "given.yaml", *OPTIONS).exit_code == 0
    assert (shop / "policies.yaml").read_text() == (shop / "given.yaml").read_text()


@pytest.mark.slow
def test_columns_that_look_like_identifiers_are_suggested_but_not_chosen(shop: Path) -> None:
    asked = run("shop.duckdb", "--ask", answers=ANSWERS)
    assert "Likely: o_id, o_c_id\n" in asked.output
    assert "skip [" not in asked.output
    with duckdb.connect("clinic.duckdb") as writer:
        writer.execute("CREATE TABLE visits (visit_id BIGINT, patient_id BIGINT)")
    asked = run("clinic.duckdb", "--ask", "--force", answers=("",) * 8)
    assert "skip [patient_id]: " in asked.output
    policy = load_policy("policies.yaml")
    assert policy.unit_name(policy.tables["visits"]) == "patient"


def test_what_options_say_is_not_asked_for(shop: Path) -> None:
    asked = run("shop.duckdb", "--ask", *OPTIONS, answers=("", "", "y"))
    assert asked.exit_code == 0, asked.output
    assert "Whose rows" not in asked.output
    assert "Who may ask" not in asked.output


@pytest.mark.slow
def test_any_question_can_be_gone_back_to(shop: Path) -> None:
    """Back from each question in turn, whatever was answered there: the file is the same."""
    assert run("shop.duckdb", "-o", "plain.yaml", "--ask", answers=ANSWERS).exit_code == 0
    plain = (shop / "plain.yaml").read_text()
    for place in range(1, len(ANSWERS)):
        back = (*ANSWERS[:place], "<", *ANSWERS[place - 1 :])
        asked = run("shop.duckdb", "-o", "asked.yaml", "--ask", "--force", answers=back)
        assert asked.exit_code == 0, asked.output
        assert (shop / "asked.yaml").read_text() == plain
        assert asked.output.count("lineitem: l_o_id BIGINT") <= 2
    many = (*ANSWERS[:-1], *["<"] * (len(ANSWERS) + 2), *ANSWERS)
    asked = run("shop.duckdb", "-o", "asked.yaml", "--ask", "--force", answers=many)
    assert (shop / "asked.yaml").read_text() == plain
    assert "this is the first question" in asked.output
    other = (*ANSWERS[:3], "<", "customer", *ANSWERS[2:])
    asked = run("shop.duckdb", "-o", "asked.yaml", "--ask", "--force", answers=other)
    assert (shop / "asked.yaml").read_text() == plain


@pytest.mark.slow
def test_a_column_that_is_called_like_no_other_needs_no_table(shop: Path) -> None:
    options = ("--unit", "c_id=customer", "--bounds", "balance=0:5", "--account", "ana=3,1e-6")
    assert run("shop.duckdb", *options).exit_code == 0
    customer = load_policy("policies.yaml").tables["customer"]
    assert (present(customer.privacy_unit).column, customer.columns["balance"].upper) == ("c_id", 5)
    with duckdb.connect("shop.duckdb") as writer:
        writer.execute("CREATE TABLE other (balance DOUBLE)")
    refused = run("shop.duckdb", "--force", *options)
    assert refused.exit_code == 2
    assert "several tables have a column balance" in " ".join(refused.output.split())


@pytest.mark.slow
def test_domains_are_asked_for_and_types_say_theirs(shop: Path) -> None:
    with duckdb.connect("pets.duckdb") as writer:
        writer.execute(
            "CREATE TYPE species AS ENUM ('cat', 'dog', 'no, they: say'); CREATE TABLE pets ("
            "rownames INTEGER, license_number VARCHAR, kind species, tagged BOOLEAN, "
            "town VARCHAR, weight DOUBLE)"
        )
    answers = ("pets", "license_number", "pet", "weight", "0:90", "town, tagged", "town, kind")
    towns = "Graz, Linz, 'sHertogenbosch"
    asked = run("pets.duckdb", "--ask", answers=(*answers, towns, "", "ana", "3,1e-6", "yes"))
    assert asked.exit_code == 0, asked.output
    assert "Likely: license_number" in asked.output
    assert "tagged is none of them" in asked.output
    assert "A,B,C [cat,dog,no, they: say]: " in asked.output
    assert "rownames, weight" not in asked.output
    columns = load_policy("policies.yaml").tables["pets"].columns
    assert columns["kind"].domain == ("cat", "dog", "no, they: say")
    assert columns["tagged"].domain == (False, True)
    assert columns["town"].domain == ("Graz", "Linz", "'sHertogenbosch")
    assert check(database="pets.duckdb").exit_code == 0
    sql = "SELECT kind, tagged, COUNT(*) FROM pets GROUP BY ALL"
    shown = CliRunner().invoke(cli, ["query", sql, "-d", "pets.duckdb", "-a", "ana", "-f", "csv"])
    assert len(shown.stdout.splitlines()) == 1 + 3 * 2
    assert run("pets.duckdb", "--unit", "license_number=pet", "--force").exit_code == 0
    text = (shop / "policies.yaml").read_text()
    keys = 'kind: VARCHAR  # as keys: {type: VARCHAR, domain: [cat, dog, "no, they: say"]}, '
    assert f"{keys}its ENUM's list: declare it" in text
    assert {*load_policy("policies.yaml").tables["pets"].columns} == {"tagged"}


@pytest.mark.slow
def test_the_delta_of_a_query_follows_from_the_account_unless_it_is_given(shop: Path) -> None:
    run("shop.duckdb", "--unit", "customer.c_id=customer", "--account", "ana=3,1e-4")
    policy = load_policy("policies.yaml")
    assert policy.of_account("ana").defaults.delta == pytest.approx(1e-6)
    assert "delta is 1% of the account's" in (shop / "policies.yaml").read_text()
    run("shop.duckdb", "--force", "--unit", "customer.c_id=customer", "--delta", "1e-9")
    assert load_policy("policies.yaml").defaults.delta == 1e-9


@pytest.mark.slow
def test_a_draft_without_tables_says_so(shop: Path) -> None:
    done = run("shop.duckdb", "--no-ask")
    assert done.exit_code == 0
    assert "No table is in it yet" in done.stderr
    assert "No table" not in run("shop.duckdb", "--force", *OPTIONS).stderr


@pytest.mark.slow
def test_a_file_is_written_only_when_its_owner_agrees(shop: Path) -> None:
    for last in (("n",), ()):  # no, and the end of the input
        asked = run("shop.duckdb", "--ask", answers=(*ANSWERS[:-1], *last))
        assert asked.exit_code == 130
        assert "Nothing was written" in asked.output
    assert {path.name for path in shop.iterdir()} == {"shop.duckdb"}


def test_without_questions_what_is_open_is_guessed_or_left_open_and_marked(shop: Path) -> None:
    done = run("shop.duckdb", "--unit", "customer.c_id=customer")
    assert done.exit_code == 0
    assert "Read it through" in done.output
    text = (shop / "policies.yaml").read_text()
    assert "DECIDE: no column of scratch" in text
    assert text.startswith("# yaml-language-server: $schema=policies.schema.json\n")
    assert set(load_policy("policies.yaml").tables) == {"customer"}


@pytest.mark.slow
def test_no_row_is_read_unless_asked_for_and_then_it_is_marked(shop: Path) -> None:
    assert run("shop.duckdb", *OPTIONS).exit_code == 0
    plain = (shop / "policies.yaml").read_text()
    assert "9422.5" not in plain
    assert "no row was read" in plain
    assert run("shop.duckdb", "--force", "--look", *OPTIONS).exit_code == 0
    text = (shop / "policies.yaml").read_text()
    assert "SEEN, not private: air, sea" in text
    assert "no row was read" not in text
    assert run("shop.duckdb", "--force", "--look", "--no-ask").exit_code == 0
    text = (shop / "policies.yaml").read_text()
    bounds = "DOUBLE  # to sum it: {type: DOUBLE, lower: LOWEST, upper: HIGHEST}"
    assert f"price: {bounds}; SEEN, not private: 0.0 to 9422.5" in text
    assert f"discount: {bounds}\n" in text


@pytest.mark.slow
def test_an_owner_at_a_terminal_confirms_looking(shop: Path) -> None:
    refused = run("shop.duckdb", "--ask", "--look", answers=("n",))
    assert refused.exit_code == 130
    assert "9422" not in refused.output
    agreed = run("shop.duckdb", "--ask", "--look", answers=("y", *ANSWERS))
    assert agreed.exit_code == 0
    assert "(the data hold 0.0 to 9422.5: not private)" in agreed.output


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_files_that_are_one_table_can_be_drafted_for(format_: str, shop: Path) -> None:
    present(duckdb.sql("SELECT 7 AS user_id, 1.5 AS cost")).write_csv("visits.csv")
    present(duckdb.sql("SELECT 7 AS user_id, 1.5 AS cost")).write_parquet("visits.parquet")
    done = run(f"visits.{format_}", "--bounds", "visits.cost=0:5", "--account", "ana=1,1e-6")
    assert done.exit_code == 0, done.output
    unit = load_policy("policies.yaml").tables["visits"].privacy_unit
    assert unit is not None
    assert (unit.name, unit.column) == ("user", "user_id")


BAD = {
    "no such column": (("--unit", "customer.cid=c"), "no column customer.cid|`customer.c_id`"),
    "a part of a value": (("--unit", "customer.name.first=c"), "no column|A part of a value is no"),
    "no such table": (("--public", "nations"), "no table nations|`nation`"),
    "no equals sign": (
        ("--unit", "customer.c_id"),
        "--unit customer.c_id: write --unit TABLE.COLUMN=NAME",
    ),
    "nothing behind it": (
        ("--account", "ana="),
        "--account ana=: write --account NAME=EPSILON,DELTA",
    ),
    "bounds": (("--bounds", "lineitem.price=0"), "not bounds: 0|LOW:HIGH"),
    "bounds of text": (("--unit", "customer.c_id=c", "--bounds", "customer.name=0:1"), "VARCHAR"),
    "domain": (("--domain", "nation.code=a,b"), "code is INTEGER, and some values"),
    "budget": (("--account", "ana=1"), "not a budget: 1|EPSILON,DELTA"),
    "account": (("--account", "a/b=1,1e-6"), "not a name of an account: a/b"),
    "dataset": (("--dataset", " shop"), "not a name"),
    "epsilon": (("--epsilon", "nan"), "epsilon must be a finite number"),
    "link to nobody": (("--link", "orders.o_c_id=nation.code", "--public", "nation"), "public"),
}


@pytest.mark.parametrize("name", BAD)
def test_options_that_do_not_fit_are_refused_and_nothing_is_written(name: str, shop: Path) -> None:
    arguments, words = BAD[name]
    done = run("shop.duckdb", *arguments)
    assert done.exit_code == 2
    for word in words.split("|"):
        assert word in " ".join(done.output.split())
    assert {path.name for path in shop.iterdir()} == {"shop.duckdb"}


@pytest.mark.slow
def test_a_terminal_is_asked_and_a_pipe_is_not(shop: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        sys.executable, ["-m", "dpsql", "init", "shop.duckdb"], encoding="utf-8", timeout=30
    )
    for answer in ANSWERS:
        child.expect(r"[^\n]*: $")
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    assert check().exit_code == 0
    piped = subprocess.run(
        [sys.executable, "-m", "dpsql", "init", "shop.duckdb", "-o", "piped.yaml"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert piped.stdout.startswith(b"Wrote piped.yaml.")


@pytest.mark.slow
def test_the_database_can_be_a_setting_as_in_other_commands(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run().exit_code == 2
    monkeypatch.setenv("DPSQL_DATABASE", "shop.duckdb")
    assert run().exit_code == 0
    assert run("-d", "nowhere.duckdb", "--force").exit_code == 2
    assert run("shop.duckdb", "-d", "nowhere.duckdb", "--force").exit_code == 0


@pytest.mark.slow
def test_a_drafted_policy_answers_queries(shop: Path) -> None:
    assert run("shop.duckdb", *OPTIONS).exit_code == 0
    sql = "SELECT COUNT(*) AS n, SUM(price) AS turnover FROM lineitem"
    arguments = ["query", sql, "-d", "shop.duckdb", "-a", "ana", "-f", "json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["columns"] == ["n", "turnover"]


@pytest.mark.slow
def test_tables_of_all_schemas_are_drafted_and_checked(shop: Path) -> None:
    with duckdb.connect("several.duckdb") as writer:
        writer.execute('CREATE SCHEMA mart; CREATE SCHEMA "a b"')
        for name in ("mart.fact", '"mart.fact"', '"a b"."c.d ""q"" 😀"', "mart.other"):
            writer.execute(f"CREATE TABLE {name} (user_id BIGINT, amount DOUBLE)")
        writer.execute("CREATE TABLE mart.items (fact BIGINT, price DOUBLE)")
    arguments = (
        *("several.duckdb", "--no-ask", "--dataset", "d", "--account", "ana=3,1e-6"),
        *("--unit", "mart.fact.user_id=user", "--bounds", "MART.fact.amount=0:5"),
        *("--unit", '"a b"."c.d ""q"" 😀".user_id=user', "--unit", '"mart.fact".user_id=who'),
        *("--link", "mart.items.fact=mart.fact.user_id"),
    )
    assert run(*arguments).exit_code == 0
    assert check(database="several.duckdb").exit_code == 0
    policy = load_policy("policies.yaml")
    names = ("mart.fact", '"mart.fact"', '"a b"."c.d ""q"" 😀"', "mart.other", "mart.items")
    assert set(policy.tables) == set(names)
    assert policy.unit_name(policy.tables['"mart.fact"']) == "who"
    assert policy.unit_name(policy.tables["mart.items"]) == "user"
    assert policy.tables["mart.fact"].columns["amount"].upper == 5
    assert not policy.tables['"mart.fact"'].columns

    for wrong in ("mart.fact", "fact.user_id", '"mart".user_id', "a b.c.d.user_id"):
        assert run(*arguments, "--force", "--bounds", f"{wrong}=0:5").exit_code != 0

    only = run("several.duckdb", "--no-ask", "--force", "--only", "mart.other")
    assert only.exit_code == 0
    assert set(load_policy("policies.yaml").tables) == {"mart.other"}
    found = CliRunner().invoke(
        cli, ["check", "-d", "several.duckdb", "-p", "policies.yaml", "-f", "json"]
    )
    left_out = {
        f["subject"] for f in json.loads(found.stdout) if "not in the policy" in f["message"]
    }
    assert left_out == set(names) - {"mart.other"}
    shutil.copy("policies.yaml", "wrong.yaml")
    text = Path("wrong.yaml").read_text(encoding="utf-8").replace("  mart.other:", "  other:")
    Path("wrong.yaml").write_text(text, encoding="utf-8")
    found = CliRunner().invoke(
        cli, ["check", "-d", "several.duckdb", "-p", "wrong.yaml", "-f", "json"]
    )
    error = json.loads(found.stdout)[0]
    assert (error["subject"], error["hint"]) == ("other", "Did you mean mart.other?")


@pytest.mark.slow
def test_links_to_what_is_no_key_are_found(shop: Path) -> None:
    assert run("shop.duckdb", *OPTIONS).exit_code == 0
    assert check().exit_code == 0
    with duckdb.connect("shop.duckdb") as writer:
        writer.execute("INSERT INTO orders VALUES (NULL, 2, 'air'), (NULL, 3, 'air')")
    assert check().exit_code == 0  # nothing is linked to what has no key
    with duckdb.connect("shop.duckdb") as writer:
        writer.execute("INSERT INTO orders VALUES (2, 3, 'rail')")
    found = CliRunner().invoke(cli, ["check", "-d", "shop.duckdb", "-f", "json"])
    assert found.exit_code == 2
    (error,) = (f for f in json.loads(found.stdout) if f["level"] == "error")
    assert error["subject"] == "orders.o_id"
    assert "a value stands in several rows" in error["message"]
    assert "rail" not in found.output


@pytest.mark.slow
def test_names_that_look_renamed_beside_the_ledger_are_told_of(shop: Path) -> None:
    assert run("shop.duckdb", *OPTIONS).exit_code == 0
    sql = "SELECT COUNT(*) FROM lineitem"
    for name in ("ana", "bo"):
        CliRunner().invoke(cli, ["query", sql, "-d", "shop.duckdb", "-a", name, "--epsilon", "0.1"])
    text = (shop / "policies.yaml").read_text()
    for old, new, warned in (
        ("ana:", "zoe:", "has ana, which the policy has not, and nothing of zoe"),
        ("dataset: shop", "dataset: store", ""),  # a ledger may be that of several data sets
        ("  bo:", "  # bo:", ""),
        ("  ana:", "  zoe: {epsilon: 1, delta: 1e-6}\n  ana:", ""),
    ):
        Path("new.yaml").write_text(text.replace(old, new), encoding="utf-8")
        found = CliRunner().invoke(
            cli, ["check", "-d", "shop.duckdb", "-p", "new.yaml", "-f", "json"]
        )
        assert found.exit_code == 0, found.output
        told = [f["message"] for f in json.loads(found.stdout) if "new budget" in f["message"]]
        assert len(told) == bool(warned)
        assert all(warned in message for message in told)


def test_a_database_without_tables_is_told_of(shop: Path) -> None:
    duckdb.connect("empty.duckdb").close()
    assert "has no tables" in run("empty.duckdb", "--no-ask").stderr
    checked = CliRunner().invoke(cli, ["check", "-d", "empty.duckdb", "-f", "json"])
    assert [finding["message"] for finding in json.loads(checked.stdout)] == [
        "the database has no tables, in no schema"
    ]


STORE = (
    "CREATE TABLE nation (n_key INTEGER PRIMARY KEY, n_name VARCHAR)",
    """CREATE TABLE customer (c_key INTEGER PRIMARY KEY, c_nation INTEGER REFERENCES nation (n_key),
        c_segment VARCHAR CHECK (c_segment IN ('AUTO', 'HOME')), c_owes DOUBLE CHECK (c_owes >= 0),
        c_vip BOOLEAN)""",
    """CREATE TABLE orders (o_key INTEGER PRIMARY KEY, o_cust INTEGER REFERENCES customer (c_key),
        o_stars INTEGER CHECK (o_stars BETWEEN 1 AND 5),
        o_parts INTEGER CHECK (o_parts BETWEEN 1 AND 50), o_note VARCHAR)""",
    "CREATE TABLE lines (l_order INTEGER REFERENCES orders (o_key), l_no INTEGER, l_n INTEGER)",
    "CREATE TABLE faces (f_cust INTEGER PRIMARY KEY REFERENCES customer (c_key), f_age INTEGER)",
    "INSERT INTO nation SELECT i, 'secret nation ' || i FROM range(3) r(i)",
    "INSERT INTO customer SELECT i, i % 3, 'AUTO', 4711.5 + i, true FROM range(2000) r(i)",
    "INSERT INTO orders SELECT i, i % 2000, 1 + i % 5, 1 + i % 50, 'secret' FROM range(4000) r(i)",
    "INSERT INTO faces SELECT i, i % 90 FROM range(2000) r(i)",
)
STORE_ANSWERS = (
    *("", "c_key", "customer", "", "", "public", ""),  # faces, lines and orders: their links
    *("", "", ""),  # which are as their foreign keys say
    *("c_owes", "0:9999", ""),
    *("", "", "", ""),  # nothing of faces and lines
    *("", ""),  # of orders o_parts, whose values are those between its bounds
    *("", "", "y"),
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with keys and checks, and one with the same rows and without them."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("store.duckdb") as writer:
        for statement in STORE:
            writer.execute(statement)
    with duckdb.connect("bare.duckdb") as writer:
        writer.execute("ATTACH 'store.duckdb' AS store (READ_ONLY)")
        for name in ("nation", "customer", "orders", "lines", "faces"):
            writer.execute(f"CREATE TABLE {name} AS FROM store.{name}")
    return tmp_path


@pytest.mark.slow
def test_keys_and_checks_of_a_database_are_drafted_and_marked(store: Path) -> None:
    options = ("--unit", "customer.c_key=customer", "--public", "nation")
    assert run("store.duckdb", "--no-ask", *options).exit_code == 0
    text, policy = (store / "policies.yaml").read_text(), load_policy("policies.yaml")
    links = {n: str(present(t.link).parent) for n, t in policy.tables.items() if t.link}
    assert links == {"orders": "customer", "lines": "orders", "faces": "customer"}
    rows = {name: table.rows_per_unit for name, table in policy.tables.items()}
    assert rows == {"customer": 1, "faces": 1, "orders": None, "lines": None, "nation": None}
    assert policy.tables["customer"].columns["c_segment"].domain == ("AUTO", "HOME")
    assert policy.tables["customer"].columns["c_vip"].domain == (False, True)
    stars = policy.tables["orders"].columns["o_stars"]
    assert (stars.lower, stars.upper, stars.domain) == (1, 5, (1, 2, 3, 4, 5))
    parts = policy.tables["orders"].columns["o_parts"]
    assert (parts.lower, parts.upper, parts.domain) == (1, 50, None)
    assert "lower: 0, upper: HIGHEST}, one by CHECK\n" in text
    assert "c_nation: INTEGER\n" in text  # nobody sums a foreign key
    assert (text.count("# CHECK"), text.count("# KEY")) == (3, 5)
    assert "no row was read" in text
    assert "4711" not in text
    assert "secret" not in text
    told = check(database="store.duckdb")
    assert told.exit_code == 0
    assert (
        "Keys of the database prove: rows_per_unit of customer, rows_per_unit of faces."
        in told.output
    )


@pytest.mark.slow
def test_without_keys_and_checks_none_of_it_is_drafted(store: Path) -> None:
    options = ("--unit", "customer.c_key=customer", "--public", "nation")
    assert run("bare.duckdb", "--no-ask", *options).exit_code == 0
    text, policy = (store / "policies.yaml").read_text(), load_policy("policies.yaml")
    assert set(policy.tables) == {"customer", "nation"}
    assert policy.tables["customer"].rows_per_unit is None
    assert set(policy.tables["customer"].columns) == {"c_vip"}
    assert "KEY" not in text
    assert "CHECK" not in text
    assert "prove" not in check(database="bare.duckdb").output


@pytest.mark.slow
def test_answers_are_proposed_that_keys_and_checks_suggest(store: Path) -> None:
    asked = run("store.duckdb", "--ask", answers=STORE_ANSWERS)
    assert asked.exit_code == 0, asked.output
    for words in (
        "A foreign key leads to a unit: l_order -> orders.o_key",
        "public, row, skip [link]: ",
        "COLUMN -> TABLE.COLUMN [o_cust -> customer.c_key]: ",
        "such as 0:100 (by CHECK at least 0): ",
        "of: o_parts, o_note? With commas; - for none [o_parts]: ",
        "With commas, such as A,B,C [1,2,3,4,5,6,",
    ):
        assert words in asked.output
    policy = load_policy("policies.yaml")
    parts = policy.tables["orders"].columns["o_parts"]
    assert (parts.lower, parts.upper, parts.domain) == (1, 50, tuple(range(1, 51)))
    assert policy.tables["customer"].columns["c_owes"].upper == 9999
    others = (*STORE_ANSWERS[:-5], "-", *STORE_ANSWERS[-3:])
    assert run("store.duckdb", "--ask", "-o", "other.yaml", answers=others).exit_code == 0
    assert load_policy("other.yaml").tables["orders"].columns["o_parts"].domain is None
    assert policy.tables["faces"].rows_per_unit == 1
    assert check(database="store.duckdb").exit_code == 0


@pytest.mark.slow
def test_an_owner_is_warned_of_a_unit_that_does_not_tell_people_apart(store: Path) -> None:
    """In the draft, at the prompt and by check."""
    options = ("--unit", "customer.c_vip=customer", "--only", "customer")
    assert run("bare.duckdb", "--no-ask", *options).exit_code == 0
    doubt = "is a BOOLEAN: all rows would be those of two people"
    assert f"    # LOOK: the privacy unit {doubt}.\n" in (store / "policies.yaml").read_text()
    assert doubt in " ".join(check(database="bare.duckdb").output.split())
    answers = ("", "c_vip", "customer", "", "", "", "", "y")
    asked = run("bare.duckdb", "--ask", "--force", "--only", "customer", answers=answers)
    assert f"Look again: c_vip {doubt}." in asked.output


@pytest.mark.slow
def test_a_first_count_of_one_row_per_unit_buys_no_estimate(store: Path) -> None:
    asked = "SELECT c_segment, count(*) AS n FROM customer GROUP BY c_segment"
    options = ("--unit", "customer.c_key=customer", "--domain", "customer.c_segment=AUTO,HOME")
    margins = []
    for name in ("store", "bare"):
        assert run(f"{name}.duckdb", "--no-ask", "--force", *options).exit_code == 0
        with dpsql.connect(f"{name}.duckdb", "policies.yaml", f"{name}.db", "analyst") as opened:
            assert bool(opened.explain(asked).blocks[0].left_out) is (name == "bare")
            result = opened.sql(asked)
            assert ("left out" in result.summary()) is (name == "bare")
            ends = result.intervals()["n"]
            margins.append(float(ends.high[0] - ends.low[0]))
    assert margins[0] < margins[1]


@pytest.mark.slow
def test_rows_that_are_people_are_declared_by_an_option_or_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("survey.duckdb") as writer:
        writer.execute(
            "CREATE TABLE replies AS SELECT i % 5 AS answer, now() AS at FROM range(9) r(i)"
        )
    given = run("survey.duckdb", "-o", "given.yaml", "--row", "replies", "--look", "--no-ask")
    assert given.exit_code == 0, given.output
    asked = run("survey.duckdb", "--ask", answers=("survey", "row", "", "", "ana", "3,1e-6", "y"))
    assert asked.exit_code == 0, asked.output
    for name in ("given.yaml", "policies.yaml"):
        assert load_policy(name).tables["replies"].privacy_unit == EACH_ROW
        text = Path(name).read_text()
        assert "nobody with two rows is protected as one" in text
        assert "time:" not in text  # no view can be of such rows
        assert check(name, "survey.duckdb").exit_code == 0
    twice = run("survey.duckdb", "-o", "x.yaml", "--row", "replies", "--public", "replies")
    assert "decided twice" in twice.output
