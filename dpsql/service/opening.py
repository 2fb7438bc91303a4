"""Opens datasets: checks a policy against a database, and keeps only the tables of the policy.

Here alone a dataset's making holds a catalog. What the dataset is given is an engine of the listed
tables, which can name no others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.core.plain import type_name
from dpsql.engines.base.engine import Database
from dpsql.engines.opening import engine_of_session, is_session, open_engine
from dpsql.errors import NewLedgerWarning, ParameterError, PolicyError
from dpsql.ledger import Ledger
from dpsql.owner.conformance import Finding, check_policy
from dpsql.policy.ledger_place import announcement, place_beside, usual_place
from dpsql.policy.model import Policy
from dpsql.policy.parameters import NOT_GIVEN, NotGiven
from dpsql.service.session import Closing, Dataset
from dpsql.syntax.dialect import check_parser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_dataset(
    database: str | Path | Database | SparkSession,
    policies: str | Path | Policy = "policies.yaml",
    ledger: str | Path | Ledger | NotGiven | None = NOT_GIVEN,
) -> Dataset:
    """Open the tables of a database that a policy lists, for sessions of its analysts.

    ``database``: a DuckDB, Parquet or CSV file, the ``postgresql://`` URL of a server's database,
    the ``sc://`` URL of a Spark Connect server, a Spark session, or an engine the owner has filled.
    ``policies``: a policies file. ``ledger``: the SQLite file that keeps the budget, created if
    missing, or the ``postgresql://`` URL of one; None for sessions that can explain and do nothing
    else. Left out, it is the one that the policies file names, or ``clinic.budget.db`` beside
    ``clinic.duckdb``; if that had to be created, a ``NewLedgerWarning`` says so. Raises
    ``PolicyError``, ``LedgerError``, ``ParameterError`` or ``InterfaceError``, saying what is wrong
    and where.
    """
    return opened_dataset(database, policies, ledger)


def opened_dataset(
    database: str | Path | Database | SparkSession,
    policies: str | Path | Policy,
    ledger: str | Path | Ledger | NotGiven | None,
    accept: Callable[[Policy], object] = lambda policy: None,
) -> Dataset:
    """Open a dataset for a caller of a caller, unless ``accept`` raises about its policy.

    What it refuses is refused before the database is opened, or a ledger created.
    """
    check_parser()
    if is_session(database):
        database = engine_of_session(database)
    if not isinstance(database, str | Path) and not hasattr(type(database), "catalog"):
        raise ParameterError(
            f"database must be a path or an engine, not {type_name(database)}",
            code="bad_parameter",
            hint="Data in memory are an engine's: engine = dpsql.DuckDBEngine(), "
            "engine.register('visits', data), then connect(engine, ...).",
        )
    if not isinstance(ledger, str | Path | Ledger | NotGiven | None):
        raise _wrong_type("ledger", "a path, a URL, a Ledger or None", ledger)
    policy = _policy(policies)
    accept(policy)
    place = usual_place(policy, database) if isinstance(ledger, NotGiven) else ledger
    with ExitStack() as owned:
        found, closed = database, list[Closing]()
        if isinstance(found, str | Path):
            found = owned.enter_context(closing(open_engine(found)))
            closed.append(found)
        found.declare(policy.declared)
        _check(policy, found)
        engine = found.open(policy.tables, policy.limits.memory)
        if policy.declared:  # in between, another policy may have declared what there is
            _check(policy, found)
        policy = replace(policy, edition=policy.edition or engine.edition or "")
        opened, created = place, False
        if isinstance(opened, str | Path):
            opened = owned.enter_context(closing(Ledger.open(opened)))
            closed.append(opened)
            created = opened.created
            if created and place is not ledger:
                text = announcement(str(place))
                warnings.warn(text, NewLedgerWarning, stacklevel=3)
        owned.pop_all()  # from here on they are the dataset's
    views = place_beside(database, policy.views.directory)
    return Dataset(engine, policy, opened, views, ledger_created=created, owned=closed)


def policy_findings(database: str | Path, policy: Policy) -> list[Finding]:
    """Compare a policy with names, types and keys of a database, without reading rows."""
    with closing(open_engine(database)) as found:
        found.declare(policy.declared)
        tables = found.catalog().tables
        return check_policy(policy, tables, found.definition, found.constraints())


def _policy(policies: str | Path | Policy) -> Policy:
    if isinstance(policies, Policy):
        return policies
    if not isinstance(policies, str | Path):
        raise _wrong_type("policies", "a path or a Policy", policies)
    from dpsql.policy.load import load_policy

    return load_policy(policies)


def _wrong_type(name: str, kinds: str, value: object) -> ParameterError:
    """Build the error for an argument of a type that it cannot have."""
    return ParameterError(f"{name} must be {kinds}, not {type_name(value)}", code="bad_parameter")


def _check(policy: Policy, database: Database) -> None:
    """Refuse a policy that does not fit the database, in words about listed tables alone."""
    tables = database.catalog().tables
    listed = {key: tables[key] for key in policy.tables if key in tables}
    found = check_policy(policy, listed, database.definition)
    findings = [f for f in found if f.level == "error"]
    if findings:
        first = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PolicyError(
            f"{first.subject}: {first.message}{more}",
            code="policy_does_not_fit",
            hint=first.hint or "Run `dpsql check` to see all findings.",
        )
