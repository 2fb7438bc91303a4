"""Budgets: who pays, and that every figure of a report is what the ledger will really allow."""

from __future__ import annotations

import pytest

from dpsql.accounting import Budget, Composition
from dpsql.budget import payer
from dpsql.errors import ParameterError, UnknownName
from dpsql.ledger import Account
from dpsql.policy import AccountPolicy, Policy

HOSTILE = ["a/b", "/", " a", "a ", "a\n", "\x1b[2J", "\u202e", "\x00", "a" * 201, "\udcff"]


def account(name: str, epsilon: float = 1.0, **more: object) -> AccountPolicy:
    return AccountPolicy(name, epsilon, 1e-6, **more)  # type: ignore[arg-type]


def limit(epsilon: float, composition: Composition = Composition.ZCDP):
    return Budget.of(epsilon, 1e-6, composition).limit


# -- who pays ---------------------------------------------------------------------------------


def test_an_analyst_pays_from_an_account_named_after_the_dataset() -> None:
    found = payer(Policy("sales", accounts={"ana": account("ana")}), "ana")
    assert found.path == "sales/ana"
    assert found.limits == (Account("sales/ana", limit(1.0)),)


@pytest.mark.parametrize("composition", Composition)
def test_a_session_pays_below_its_analyst_and_a_total_binds_them_all(composition) -> None:
    policy = Policy(
        "sales",
        accounts={"ana": account("ana", composition=composition)},
        total=account("sales", 3.0, composition=composition),
    )
    limits = (
        Account("sales", limit(3.0, composition)),
        Account("sales/ana", limit(1.0, composition)),
    )
    for session in ("", "notebook", "2026-01-31 12:00"):
        found = payer(policy, "ana", session)
        assert found.path == "/".join(filter(None, ("sales", "ana", session)))
        assert found.limits == limits


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_reach_another_account_are_refused(name) -> None:
    policy = Policy("sales", accounts={"ana": account("ana"), name: account(name)})
    for who, session in ((name, ""), (name, "s"), ("ana", name)):
        with pytest.raises(ParameterError, match="printable characters without /"):
            payer(policy, who, session)


def test_nobody_pays_for_an_unknown_analyst() -> None:
    with pytest.raises(UnknownName):
        payer(Policy("sales", total=account("sales")), "ana")
