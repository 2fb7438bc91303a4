"""The public DB-API 2.0 compliance suite, on ``dpsql.dbapi``.

``dbapi20.py`` is the suite of the package dbapi-compliance 1.15.0 by Stuart Bishop and others, in
the public domain, unchanged. It was written for databases that can be written to, and its queries
name rows of a table; dpsql answers aggregates of tables that others have filled. So:

* the tables are public ones of a database that DuckDB fills before a test connects, and what the
  suite has for a prefix of their names joins them to an aggregate of a private table: every
  SELECT of the suite is a private query, and its rows are known whatever the noise;
* ``executeDDL1``, ``executeDDL2`` (hooks): CREATE TABLE is tried and has to be refused. To the
  suite that is a statement that leaves no rows;
* ``_populate`` (a hook): no statements, for the rows are there.

Overridden, because the suite's own test has an INSERT in its middle: ``test_cursor_isolation``,
``test_rowcount``, ``test_fetchone``, ``test_None`` and ``_paraminsert`` (used by three tests) check
the same of rows that are there. ``test_executemany`` inserts only, and is refused here, as PEP 249
allows for statements that return rows. ``test_nextset`` and ``test_setoutputsize`` must be
overridden by everyone. ``test_non_idempotent_close`` wants closing twice to fail, which PEP 249
does not ask for and sqlite3, psycopg and DuckDB do not do. All others run as they are.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from helpers import dbapi20

from dpsql import dbapi
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy

BOOZE, BARFLYS = "dbapi20test_booze", "dbapi20test_barflys"
TROUBLE = "thi%s :may ca%(u)se? troub:1e"
POLICY = Policy(
    "bar",
    accounts={"ana": AccountPolicy("ana", 100.0, 1e-4)},
    tables={
        BOOZE: TablePolicy(BOOZE, None),
        BARFLYS: TablePolicy(BARFLYS, None),
        "dbapi20test_visits": TablePolicy("dbapi20test_visits", PrivacyUnit("guest", "guest")),
    },
)


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = dbapi
    # "select name from %sbooze" becomes a query of one private aggregate and a public table.
    table_prefix = (
        "(select count(*) as visits from dbapi20test_visits) as v cross join dbapi20test_"
    )

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.connect_args = (self.path / "bar.duckdb", POLICY, self.path / "budget.db", "ana")
        self.fill(self.samples)

    def tearDown(self) -> None:
        """Nothing to drop: the directory goes."""

    def fill(
        self, booze: Sequence[str] = (), barflys: Sequence[tuple[str, str | None]] = ()
    ) -> None:
        """What the suite creates and inserts, done by the owner of the data."""
        self.connect_args[0].unlink(missing_ok=True)
        with duckdb.connect(str(self.connect_args[0])) as owner:
            owner.execute(f"CREATE TABLE {BOOZE} (name VARCHAR(20))")
            owner.execute(f"CREATE TABLE {BARFLYS} (name VARCHAR(20), drink VARCHAR(30))")
            owner.execute("CREATE TABLE dbapi20test_visits AS SELECT range AS guest FROM range(9)")
            for name in booze:
                owner.execute(f"INSERT INTO {BOOZE} VALUES (?)", [name])
            for row in barflys:
                owner.execute(f"INSERT INTO {BARFLYS} VALUES (?, ?)", row)

    def _connect(self) -> dbapi.Connection:
        """As the suite connects; what it leaves open is closed when its test is over."""
        connection: dbapi.Connection = super()._connect()
        self.addCleanup(connection.close)
        return connection

    def executeDDL1(self, cursor: dbapi.Cursor) -> None:
        with pytest.raises(dbapi.NotSupportedError):
            cursor.execute(self.ddl1)

    def executeDDL2(self, cursor: dbapi.Cursor) -> None:
        with pytest.raises(dbapi.NotSupportedError):
            cursor.execute(self.ddl2)

    def _populate(self) -> list[str]:
        return []

    def insert_is_refused(self, cursor: dbapi.Cursor) -> None:
        with pytest.raises(dbapi.NotSupportedError):
            cursor.execute(f"insert into {BOOZE} values ('Victoria Bitter')")

    @pytest.mark.slow
    def test_cursor_isolation(self) -> None:
        self.fill(["Victoria Bitter"])
        with self._connect() as con:
            first, second = con.cursor(), con.cursor()
            first.execute(f"select name from {self.table_prefix}booze")
            self.insert_is_refused(first)
            second.execute(f"select name from {self.table_prefix}booze")
            assert second.fetchall() == [("Victoria Bitter",)]

    @pytest.mark.slow
    def test_rowcount(self) -> None:
        self.fill(["Victoria Bitter"])
        with self._connect() as con:
            cur = con.cursor()
            assert cur.rowcount == -1
            self.executeDDL1(cur)
            assert cur.rowcount == -1
            cur.execute(f"select name from {self.table_prefix}booze")
            assert cur.rowcount == 1
            self.insert_is_refused(cur)
            assert cur.rowcount == -1
            cur.execute(f"select name from {self.table_prefix}barflys")
            assert cur.rowcount == 0

    @pytest.mark.slow
    def test_fetchone(self) -> None:
        self.fill(["Victoria Bitter"])
        with self._connect() as con:
            cur = con.cursor()
            with pytest.raises(dbapi.Error):
                cur.fetchone()
            self.executeDDL1(cur)
            with pytest.raises(dbapi.Error):
                cur.fetchone()
            cur.execute(f"select name from {self.table_prefix}barflys")
            assert cur.fetchone() is None
            assert cur.rowcount == 0
            self.insert_is_refused(cur)
            with pytest.raises(dbapi.Error):
                cur.fetchone()
            cur.execute(f"select name from {self.table_prefix}booze")
            assert cur.fetchone() == ("Victoria Bitter",)
            assert cur.fetchone() is None
            assert cur.rowcount == 1

    @pytest.mark.slow
    def test_None(self) -> None:
        self.fill(barflys=[("a", None)])
        with self._connect() as con:
            cur = con.cursor()
            cur.execute(f"select drink from {self.table_prefix}barflys")
            assert cur.fetchall() == [(None,)]

    def _paraminsert(self, cur: dbapi.Cursor) -> None:
        """The suite's values, given to a query; its literal reads the same as the parameter."""
        cur.execute(
            f"select name, ? as drink, '{TROUBLE}' as text from {self.table_prefix}booze "
            "where name in (?, ?)",
            (TROUBLE, "Redback", "Victoria Bitter"),
        )
        assert cur.rowcount == 2
        rows = sorted(cur.fetchall())
        assert rows == [("Redback", TROUBLE, TROUBLE), ("Victoria Bitter", TROUBLE, TROUBLE)]

    def test_executemany(self) -> None:
        with self._connect() as con:
            before = con.budget()
            cur = con.cursor()
            with pytest.raises(dbapi.NotSupportedError):
                cur.executemany(f"select name from {self.table_prefix}booze", [(), ()])
            with pytest.raises(dbapi.NotSupportedError):
                cur.executemany(f"insert into {BOOZE} values (?)", [("Cooper's",), ("Boag's",)])
            assert con.budget() == before

    def test_nextset(self) -> None:
        with self._connect() as con:
            assert not hasattr(con.cursor(), "nextset")  # one statement, one set of rows

    @pytest.mark.slow
    def test_setoutputsize(self) -> None:
        with self._connect() as con:
            cur = con.cursor()
            cur.setoutputsize(3)
            cur.execute(f"select name from {self.table_prefix}booze")
            assert sorted(name for (name,) in cur.fetchall()) == self.samples  # nothing is cut

    def test_non_idempotent_close(self) -> None:
        con = self._connect()
        con.close()
        con.close()


def test_the_suite_is_the_published_one() -> None:
    published = "2a39cd002803147a0a1e1739cc2ad112fb8bacdbea9c79d8ecee844a5e5f5ea8"
    assert hashlib.sha256(Path(dbapi20.__file__).read_bytes()).hexdigest() == published


def test_most_of_the_suite_runs_as_it_is() -> None:
    def tests(names: object) -> set[str]:
        return {name for name in names if name.startswith("test_")}  # type: ignore[attr-defined]

    assert tests(vars(TestCompliance)) == {
        "test_None",
        "test_cursor_isolation",
        "test_executemany",
        "test_fetchone",
        "test_nextset",
        "test_non_idempotent_close",
        "test_rowcount",
        "test_setoutputsize",
    }
    assert len(tests(dir(dbapi20.DatabaseAPI20Test))) > 35
