"""What catalogs say of rows: read where every row obeys it, and nowhere else."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from helpers.postgresql_server import Server
from postgresql_world import READER, PostgreSQLWorld

import dpsql
from dpsql.core.constraints import Constraints, ForeignKey
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.interfaces.cli import cli
from dpsql.owner.checks import Checked, checked_values
from dpsql.policy.load import load_policy

DUCKDB = (
    "CREATE SCHEMA s",
    'CREATE TABLE people (id INT PRIMARY KEY, ssn VARCHAR UNIQUE, "Od d" INT, n INT NOT NULL, '
    'age INT CHECK (age BETWEEN 0 AND 120), CHECK ("Od d" > -5), UNIQUE (n, age))',
    "CREATE TABLE s.people (id INT PRIMARY KEY)",
    "CREATE TABLE s.visits (pid INT REFERENCES s.people (id), no INT, k INT, z INT)",
    "CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b))",
    'CREATE TABLE filled (a INT NOT NULL, "Od d" INT NOT NULL, c INT, UNIQUE ("Od d", a), '
    "UNIQUE (a, c))",
    "CREATE TABLE of_pairs (a INT, b INT, FOREIGN KEY (a, b) REFERENCES pairs (a, b))",
    "CREATE UNIQUE INDEX one ON s.visits (no)",
    'CREATE UNIQUE INDEX spaced ON people ("Od d")',
    "CREATE UNIQUE INDEX computed ON s.visits ((k + 1))",
    "CREATE UNIQUE INDEX two ON s.visits (k, z)",
    'CREATE TABLE indexed (k INT NOT NULL, Z INT NOT NULL, "a, b" INT NOT NULL, n INT)',
    "CREATE UNIQUE INDEX cased ON indexed (K, z)",
    'CREATE UNIQUE INDEX commas ON indexed ("a, b", k)',
    "CREATE UNIQUE INDEX with_null ON indexed (n, k)",
    "CREATE UNIQUE INDEX with_sum ON indexed ((k + z), k)",
    "CREATE UNIQUE INDEX with_text ON indexed (('k'), z)",
    "CREATE INDEX plain ON s.visits (z)",
    "CREATE VIEW seen AS SELECT * FROM people",
)


def test_duckdb_tells_what_its_tables_are_held_to(tmp_path: Path) -> None:
    place = tmp_path / "c.duckdb"
    with duckdb.connect(str(place)) as writer:
        for statement in DUCKDB:
            writer.execute(statement)
    engine = open_database(place)
    found = engine.constraints()
    engine.close()
    assert found == {
        "people": Constraints(
            frozenset({"id", "ssn", "Od d"}), (), ("(age BETWEEN 0 AND 120)", '("Od d" > -5)')
        ),
        "s.people": Constraints(frozenset({"id"})),
        "s.visits": Constraints(
            frozenset({"no"}), (ForeignKey("pid", TableName("people", "s"), "id"),)
        ),
        "pairs": Constraints(combinations=frozenset({frozenset({"a", "b"})})),
        "filled": Constraints(combinations=frozenset({frozenset({"a", "Od d"})})),
        "indexed": Constraints(
            combinations=frozenset({frozenset({"k", "Z"}), frozenset({"a, b", "k"})})
        ),
    }


CHECKED = (
    "s VARCHAR(9) CHECK (s IN ('o', 'it''s', 'a\\b'))",
    "t TEXT CHECK (t = 'a' OR t = 'b' OR t IS NULL)",
    "n DECIMAL(9,2) CHECK (n BETWEEN -1.50 AND 2)",
    "x DOUBLE PRECISION CHECK (x > 0 AND x <= 10.5)",
    "b BIGINT CHECK (b >= -5 AND b < 100000000000)",
    '"Od d" SMALLINT CHECK ("Od d" IN (3, 1, 2))',
    "v BOOLEAN CHECK (v = true)",
    "d DATE CHECK (d IN ('2020-01-01', '2020-01-02'))",
    "h INT CHECK (h > 7 AND h <> 9)",
    "o INT CHECK (o % 2 = 0)",
)
READ = {
    "s": Checked(values=("o", "it's", "a\\b")),
    "t": Checked(values=("a", "b")),
    "n": Checked(-1.5, 2),
    "x": Checked(0, 10.5),
    "b": Checked(-5, 99_999_999_999),
    "od d": Checked(1, 3, (3, 1, 2)),
    "v": Checked(values=(True,)),
    "d": Checked(values=(datetime.date(2020, 1, 1), datetime.date(2020, 1, 2))),
    "h": Checked(lower=8),
}
CREATE_CHECKED = f"CREATE TABLE checked ({', '.join(CHECKED)})"


def test_checks_are_read_as_duckdb_writes_them(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "c.duckdb")) as writer:
        writer.execute(CREATE_CHECKED)
    engine = open_database(tmp_path / "c.duckdb")
    table, conditions = (
        engine.catalog().tables["checked"],
        engine.constraints()["checked"].conditions,
    )
    engine.close()
    assert len(conditions) == len(CHECKED)
    assert checked_values(table, conditions, 100) == READ


@pytest.mark.slow
def test_checks_are_read_as_postgresql_writes_them(world: PostgreSQLWorld) -> None:
    world.run(CREATE_CHECKED)
    world.run(f"GRANT SELECT ON checked TO {READER}")
    engine = PostgreSQLEngine(world.url)
    table, conditions = (
        engine.catalog().tables["checked"],
        engine.constraints()["checked"].conditions,
    )
    engine.close()
    world.run("DROP TABLE checked")
    assert len(conditions) == len(CHECKED)
    assert checked_values(table, conditions, 100) == READ


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_rows_without_a_unit_are_nobodys_though_a_key_lets_in_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a UNIQUE column that may be NULL proves one row per unit all the same."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("c.duckdb") as writer:
        writer.execute(
            "CREATE TABLE people (id INT UNIQUE, ward VARCHAR CHECK (ward IN ('a', 'b')))"
        )
        writer.execute("INSERT INTO people SELECT i, ['a', 'b'][1 + i % 2] FROM range(300) r(i)")
        writer.execute("INSERT INTO people SELECT NULL, 'a' FROM range(5000)")
    assert CliRunner().invoke(cli, ["init", "c.duckdb", "--no-ask"]).exit_code == 0
    assert load_policy("policies.yaml").tables["people"].rows_per_unit == 1
    with dpsql.connect("c.duckdb", "policies.yaml", "b.db", "analyst") as opened:
        found = opened.sql("SELECT ward, count(*) FROM people GROUP BY ward ORDER BY ward")
        assert found.fetchall() == [("a", 150), ("b", 150)]


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_a_key_of_person_and_year_is_drafted_checked_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it promises is kept of tables that have no such key, and told where it is broken."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("c.duckdb") as writer:
        writer.execute("CREATE TABLE people (person INT PRIMARY KEY)")
        writer.execute(
            "CREATE TABLE taxes (person INT REFERENCES people (person), year INT, "
            "PRIMARY KEY (person, year))"
        )
        writer.execute("CREATE TABLE other (person INT, year INT)")
        writer.execute("INSERT INTO people SELECT range FROM range(300)")
        writer.execute("INSERT INTO taxes SELECT person, 2000 + y FROM people, range(3) r(y)")
        # Twice each of 300 people, rows of nobody, and one person's rows without a year.
        writer.execute("INSERT INTO other SELECT person, 2000 FROM people, range(2)")
        writer.execute("INSERT INTO other SELECT NULL, 2001 FROM range(9)")
        writer.execute("INSERT INTO other SELECT 1000, NULL FROM range(9)")
    units = ("--unit=people.person=person", "--unit=other.person=person")
    drafted = CliRunner().invoke(cli, ["init", "c.duckdb", "--no-ask", *units])
    assert drafted.exit_code == 0, drafted.output
    text = Path("policies.yaml").read_text()
    assert text.count("    unique: [[person, year]]  # KEY:") == 1
    assert load_policy("policies.yaml").tables["taxes"].unique == (("person", "year"),)

    Path("policies.yaml").write_text(
        text.replace("    unique: [[person, year]]", "    #").replace(
            "  other:\n", "  other:\n    unique: [[person, year]]\n"
        )
    )
    told = CliRunner().invoke(cli, ["check", "-d", "c.duckdb", "--format=json"]).stdout
    found = {each["subject"]: each["message"] for each in json.loads(told)}
    assert found["taxes"].startswith("has no two rows with the same person, year, as a key proves")
    assert "but 301 have some: of these one counts" in found["other"]
    assert (
        "unique (person, year) of other"
        in CliRunner().invoke(cli, ["check", "-d", "c.duckdb"]).output
    )

    Path("policies.yaml").write_text(
        text.replace("  other:\n", "  other:\n    unique: [[person, year]]\n")
    )
    with dpsql.connect("c.duckdb", "policies.yaml", "b.db", "analyst") as opened:
        kept = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3) year, count(*) "
            "FROM taxes GROUP BY year ORDER BY year"
        )
        assert opened.explain(kept).blocks[0].declared == (
            "max_rows_contributed is 1, as no person has more rows in a group",
        )
        assert opened.sql(kept).fetchall() == [(2000, 300), (2001, 300), (2002, 300)]
        broken = opened.sql("SELECT year, count(*) FROM other GROUP BY year")
        assert broken.fetchall() == [(2000, 300)]


LISTINGS = (
    "SHOW TABLES",
    "DESCRIBE people",
    "SELECT * FROM people LIMIT 0",
    "SELECT * FROM information_schema.columns",
)
HIDDEN = (
    "SELECT constraint_text FROM duckdb_constraints()",
    "SELECT * FROM information_schema.table_constraints",
    "SELECT * FROM information_schema.check_constraints",
    "SELECT * FROM pg_catalog.pg_constraint",
    "SELECT sql FROM duckdb_tables()",
)


@pytest.mark.slow
def test_analysts_learn_of_constraints_what_the_policy_says_and_nothing_else(
    tmp_path: Path,
) -> None:
    place, rules = tmp_path / "c.duckdb", tmp_path / "policies.yaml"
    with duckdb.connect(str(place)) as writer:
        writer.execute("CREATE TABLE people (id INT PRIMARY KEY, age INT CHECK (age < 4711))")
    head = "version: 1\ndataset: d\naccounts: {ana: {epsilon: 9, delta: 1e-4}}\ntables:\n"
    for declared in ("", ", columns: {age: {lower: 0, upper: 4710}}"):
        rules.write_text(f"{head}  people: {{privacy_unit: id{declared}}}\n")
        with dpsql.connect(place, rules, tmp_path / "b.db", "ana") as opened:
            told = "".join(str(opened.sql(asked)) for asked in LISTINGS)
            assert "471" in told if declared else "471" not in told
            for asked in HIDDEN:
                with pytest.raises(dpsql.Error) as refused:
                    opened.sql(asked)
                assert "471" not in str(refused.value)


def test_files_and_frames_are_held_to_nothing(tmp_path: Path) -> None:
    place = tmp_path / "t.csv"
    place.write_text("id\n1\n2\n")
    engine = open_database(place)
    engine.declare(engine.proposed())
    assert engine.constraints() == {}
    engine.close()
    frames = DuckDBEngine()
    frames.register("t", {"id": [1, 2]}, types={"id": "BIGINT"})
    assert frames.constraints() == {}
    frames.close()


HELD = (
    "CREATE TABLE people (id INT PRIMARY KEY, ssn TEXT UNIQUE, age INT CHECK (age <= 120), n INT)",
    "CREATE TABLE visits (pid INT REFERENCES people, no INT UNIQUE NULLS NOT DISTINCT)",
    "CREATE TABLE covered (id INT, n INT)",
    "CREATE TABLE pairs (id INT, n INT, PRIMARY KEY (id, n))",
    'CREATE TABLE filled (id INT NOT NULL, "Od d" INT NOT NULL, c INT NOT NULL)',
    'CREATE UNIQUE INDEX ON filled ("Od d", id) INCLUDE (c)',
    "CREATE UNIQUE INDEX ON covered (id) INCLUDE (n)",
    "CREATE TABLE parts (id INT PRIMARY KEY, pid INT REFERENCES people) PARTITION BY RANGE (id)",
    "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9)",
    "CREATE TABLE of_parts (part INT REFERENCES parts)",
)
NOT_HELD = {
    "partial": "CREATE TABLE partial (id INT, n INT); "
    "CREATE UNIQUE INDEX ON partial (id) WHERE n > 0",
    "computed": "CREATE TABLE computed (id INT); CREATE UNIQUE INDEX ON computed (abs(id))",
    "may_be_null": "CREATE TABLE may_be_null (id INT NOT NULL, n INT, UNIQUE (id, n))",
    "partial_pairs": "CREATE TABLE partial_pairs (id INT NOT NULL, n INT NOT NULL); "
    "CREATE UNIQUE INDEX ON partial_pairs (id, n) WHERE n > 0",
    "computed_pairs": "CREATE TABLE computed_pairs (id INT NOT NULL, n INT NOT NULL); "
    "CREATE UNIQUE INDEX ON computed_pairs (id, abs(n))",
    "deferred_pairs": "CREATE TABLE deferred_pairs (id INT NOT NULL, n INT NOT NULL, "
    "UNIQUE (id, n) DEFERRABLE INITIALLY DEFERRED)",
    "deferred": "CREATE TABLE deferred (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED)",
    "excluded": "CREATE TABLE excluded (id INT, EXCLUDE USING btree (id WITH =))",
    "plain": "CREATE TABLE plain (id INT); CREATE INDEX ON plain (id)",
    "not_valid": "CREATE TABLE not_valid (pid INT, age INT); "
    "ALTER TABLE not_valid ADD FOREIGN KEY (pid) REFERENCES people NOT VALID; "
    "ALTER TABLE not_valid ADD CHECK (age > 0) NOT VALID",
    # Rows of a child are its parent's, and the parent's keys are not the child's.
    "parent": "CREATE TABLE parent (id INT PRIMARY KEY, n INT CHECK (n > 0) NO INHERIT); "
    "CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1, -1), (1, -1)",
    "of_parent": "CREATE TABLE of_parent (pid INT REFERENCES parent)",
    "of_pairs": "CREATE TABLE of_pairs (a INT, b INT, FOREIGN KEY (a, b) REFERENCES pairs)",
    "unattached": "CREATE TABLE unattached (id INT) PARTITION BY RANGE (id); "
    "CREATE TABLE piece PARTITION OF unattached FOR VALUES FROM (0) TO (9); "
    "CREATE UNIQUE INDEX ON ONLY unattached (id)",
    "view": 'CREATE VIEW "view" AS SELECT * FROM people',
}
SINCE_18 = {
    "not_enforced": "CREATE TABLE not_enforced (pid INT REFERENCES people NOT ENFORCED, "
    "age INT CHECK (age > 0) NOT ENFORCED)",
}


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    world = PostgreSQLWorld(postgres_server, f"constraints_{os.getpid()}")
    later = SINCE_18 if world.version >= 18 else {}
    for statement in (*HELD, *NOT_HELD.values(), *later.values()):
        world.run(statement)
    world.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}")
    yield world
    world.close()


def test_postgresql_tells_what_its_tables_are_held_to(world: PostgreSQLWorld) -> None:
    engine = PostgreSQLEngine(world.url)
    found, tables = engine.constraints(), engine.catalog().tables
    engine.close()
    to_people = ForeignKey("pid", TableName("people"), "id")
    held = {
        "people": Constraints(frozenset({"id", "ssn"}), (), ("(age <= 120)",)),
        "visits": Constraints(frozenset({"no"}), (to_people,)),
        "covered": Constraints(frozenset({"id"})),
        "pairs": Constraints(combinations=frozenset({frozenset({"id", "n"})})),
        "filled": Constraints(combinations=frozenset({frozenset({"id", "Od d"})})),
        "parts": Constraints(frozenset({"id"}), (to_people,)),
        "of_parts": Constraints(references=(ForeignKey("part", TableName("parts"), "id"),)),
    }
    assert {key: each for key, each in found.items() if key in tables} == held
    assert held.keys() | NOT_HELD.keys() <= tables.keys()
    assert held.keys().isdisjoint(NOT_HELD)


@pytest.mark.slow
def test_a_server_is_drafted_by_its_keys_and_checks(
    world: PostgreSQLWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = ("people", "partial", "deferred", "parent", "pairs", "filled", "may_be_null")
    options = [f"--unit={name}.id=person" for name in named]
    done = CliRunner().invoke(cli, ["init", world.url, "--no-ask", *options])
    assert done.exit_code == 0, done.output
    tables = load_policy("policies.yaml").tables
    linked = {key: str(t.link.parent) for key, t in tables.items() if t.link is not None}
    assert linked == {"visits": "people", "parts": "people", "of_parts": "parts"}
    assert {key for key, t in tables.items() if t.rows_per_unit == 1} == {"people", "covered"}
    unique = {key: t.unique for key, t in tables.items() if t.unique}
    assert unique == {"pairs": (("id", "n"),), "filled": (("id", "od d"),)}
    assert "upper: 120}, one by CHECK" in Path("policies.yaml").read_text()
    told = CliRunner().invoke(cli, ["check", "-d", world.url])
    assert (
        "Keys of the database prove: rows_per_unit of covered, unique (id, od d) of filled, "
        "unique (id, n) of pairs, rows_per_unit of people." in told.output
    )
