"""Keys and links that a policy declares are constraints in the catalogs, where tools look."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from helpers.serving import PASSWORD, Serving, filled, psql_program, started

POLICY = """
version: 1
dataset: clinic
accounts:
  ana: {epsilon: 3, delta: 1e-6}
  bob: {epsilon: 1, delta: 1e-6}
links:
  - visits.patient_id -> patients.id
  - items.(Patient, day) -> days.(patient, "day")
tables:
  patients:
    privacy_unit: {name: patient, column: id}
    rows_per_unit: 1
    unique: [[region, number]]
  visits: {}
  days:
    privacy_unit: {name: patient, column: patient}
  items: {}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("served")
    filled(directory)
    (directory / "policies.yaml").write_text(POLICY)
    with duckdb.connect(str(directory / "clinic.duckdb")) as owner:
        owner.execute("CREATE TABLE patients (region TEXT, id BIGINT, number INTEGER)")
        owner.execute("CREATE TABLE days (patient BIGINT, day DATE)")
        owner.execute('CREATE TABLE items ("Patient" BIGINT, what TEXT, day DATE)')
    found = started(directory)
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


def described(server: Serving, table: str) -> list[str]:
    found = subprocess.run(
        [psql_program(), "-X", "-A", server.address(), "-c", rf"\d {table}"],
        capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "PAGER": "cat", "PGPASSWORD": PASSWORD},
    )  # fmt: skip
    assert found.stderr == ""
    return [line.strip() for line in found.stdout.splitlines()]


def test_psql_lists_keys_and_references(server: Serving) -> None:
    patients = described(server, "patients")
    assert '"patients_pkey" PRIMARY KEY, btree (id)' in patients
    assert '"patients_region_number_key" UNIQUE CONSTRAINT, btree (region, number)' in patients
    to_patients = 'CONSTRAINT "visits_patient_id_fkey" FOREIGN KEY (patient_id) REFERENCES'
    assert f'TABLE "visits" {to_patients} patients(id)' in patients
    assert '"visits_patient_id_fkey" FOREIGN KEY (patient_id) REFERENCES patients(id)' in (
        described(server, "visits")
    )
    assert (
        '"items_Patient_day_fkey" FOREIGN KEY ("Patient", day) REFERENCES days(patient, day)'
    ) in described(server, "items")
    assert "PRIMARY KEY" not in "".join(described(server, "visits"))


JDBC_PRIMARY = """
SELECT result.TABLE_NAME, result.COLUMN_NAME, result.KEY_SEQ, result.PK_NAME FROM
(SELECT ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME,
(information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,
information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM
FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid)
JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)
JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid)
JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)
WHERE n.nspname = 'public' AND ct.relname = 'days' AND i.indisprimary) result
WHERE result.A_ATTNUM = (result.KEYS).x ORDER BY 3
"""


JDBC_IMPORTED = """
SELECT pkn.nspname AS PKTABLE_SCHEM, pkc.relname AS PKTABLE_NAME, pka.attname AS PKCOLUMN_NAME,
fkc.relname AS FKTABLE_NAME, fka.attname AS FKCOLUMN_NAME, pos.n AS KEY_SEQ,
CASE con.confupdtype WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1
WHEN 'a' THEN 3 ELSE NULL END AS UPDATE_RULE, con.conname AS FK_NAME, pkic.relname AS PK_NAME
FROM pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka,
pg_catalog.pg_namespace fkn, pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka,
pg_catalog.pg_constraint con, pg_catalog.generate_series(1, 32) pos(n), pg_catalog.pg_class pkic
WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n]
AND con.confrelid = pkc.oid AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid
AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid AND con.contype = 'f'
AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid
AND fkc.relname = 'items' ORDER BY pkn.nspname, pkc.relname, con.conname, pos.n
"""


def test_drivers_find_the_columns_of_keys(server: Serving) -> None:
    with server.connect() as con:
        link = ("items_Patient_day_fkey", "days_pkey")
        assert con.execute(JDBC_IMPORTED).fetchall() == [
            ("public", "days", "patient", "items", "Patient", 1, 3, *link),
            ("public", "days", "day", "items", "day", 2, 3, *link),
        ]
        assert con.execute(JDBC_PRIMARY).fetchall() == [
            ("days", "patient", 1, "days_pkey"),
            ("days", "day", 2, "days_pkey"),
        ]
        standard = con.execute(
            "SELECT constraint_name, constraint_type FROM information_schema.table_constraints"
            " ORDER BY 1"
        ).fetchall()
        assert standard == [
            ("days_pkey", "PRIMARY KEY"),
            ("items_Patient_day_fkey", "FOREIGN KEY"),
            ("patients_pkey", "PRIMARY KEY"),
            ("patients_region_number_key", "UNIQUE"),
            ("visits_patient_id_fkey", "FOREIGN KEY"),
        ]
        columns = con.execute(
            "SELECT column_name, ordinal_position, position_in_unique_constraint"
            " FROM information_schema.key_column_usage"
            " WHERE constraint_name = 'items_Patient_day_fkey' ORDER BY 2"
        ).fetchall()
        assert columns == [("Patient", 1, 1), ("day", 2, 2)]


def test_sqlalchemy_reflects_them(server: Serving) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = sqlalchemy.URL.create(
        "postgresql+psycopg", "ana", PASSWORD, "127.0.0.1", server.port, "clinic"
    )
    engine = sqlalchemy.create_engine(url, connect_args={"sslmode": "disable"})
    seen: Any = sqlalchemy.inspect(engine)
    assert seen.get_pk_constraint("patients")["constrained_columns"] == ["id"]
    (link,) = seen.get_foreign_keys("items")
    assert (link["constrained_columns"], link["referred_table"], link["referred_columns"]) == (
        *(["Patient", "day"], "days", ["patient", "day"]),
    )
    (unique,) = seen.get_unique_constraints("patients")
    assert unique["column_names"] == ["region", "number"]
    reflected = sqlalchemy.MetaData()
    reflected.reflect(engine)
    assert [c.name for c in reflected.tables["days"].primary_key] == ["patient", "day"]
    engine.dispose()
