"""Names of datasets, analysts and sessions: no two accounts can be taken for one another."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.budget import payer
from dpsql.core.names import is_account_name, look_alikes
from dpsql.errors import ParameterError, PolicyError
from dpsql.ledger import Account, Ledger
from dpsql.owner.draft import Draft
from dpsql.policy.load import parse_policy
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.privacy.accounting.zcdp import Amount

PLAIN = ["ana", "Ana", "o'neil & sons", "José", "王小明", "अनीता", "2026-01-31 12:00", "a" * 200]
HOSTILE = {
    "a slash": "a/b",
    "only a slash": "/",
    "nothing": "",
    "a space before": " ana",
    "a space after": "ana ",
    "two spaces": "ana  b",
    "a line's end": "ana\n",
    "a control character": "an\x1ba",
    "a no-break space": "ana\u00a0b",
    "a zero-width joiner": "ana\u200d",
    "a zero-width space": "a\u200bna",
    "a right-to-left override": "\u202eana",
    "a right-to-left mark": "ana\u200f",
    "a soft hyphen": "an\u00ada",
    "a byte order mark": "\ufeffana",
    "a blank of Braille": "ana\u2800",
    "a filler of Hangul": "\u3164",
    "a variation selector": "ana\ufe0f",
    "a joiner of graphemes": "ana\u034f",
    "another normal form": "Jose\u0301",
    "a mark that joins the slash before": "\u0338ana",
    "a lone surrogate": "ana\udcff",
    "for private use": "ana\ue000",
    "not assigned": "ana\U000e0fff",
    "too long": "a" * 201,
}
LOOK_ALIKES = [("ana", "Ana"), ("straße", "STRASSE"), ("ﬁona", "fiona"), ("ana", "ａｎａ")]


def account(name: str) -> AccountPolicy:
    return AccountPolicy(name, 1.0, 1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_name_datasets_analysts_and_sessions(name: str, tmp_path: Path) -> None:
    assert is_account_name(name)
    policy = Policy(name, accounts={name: account(name)})
    assert Draft("d").with_dataset(name).with_account(name, 1.0, 1e-6).dataset == name
    if len(name) < 100:
        paying = payer(policy, name, name)
        assert paying.path == f"{name}/{name}/{name}"
        with Ledger.open(tmp_path / "b.db") as ledger:
            ledger.reserve(paying.path, Amount(rho=1), query="q", plan="{}", limits=paying.limits)
            assert ledger.spent(f"{name}/{name}").queries == 1


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_that_could_pass_for_another_are_refused_everywhere(
    name: str, tmp_path: Path
) -> None:
    assert not is_account_name(name)
    policies: tuple[Callable[[], object], ...] = (
        lambda: Policy(name, accounts={"ana": account("ana")}),
        lambda: Policy("sales", accounts={name: account(name)}),
        lambda: parse_policy(f"version: 1\ndataset: {written(name)}\ntables:\n"),
        lambda: parse_policy(
            "version: 1\ndataset: d\naccounts:\n"
            f"  {written(name)}: {{epsilon: 1, delta: 1e-6}}\ntables:\n"
        ),
    )
    for made in policies:
        with pytest.raises(PolicyError):
            made()
    for given_to in (
        Draft("d").with_dataset,
        lambda name: Draft("d").with_account(name, 1.0, 1e-6),
    ):
        with pytest.raises(ParameterError):
            given_to(name)
    if name:
        with pytest.raises(ParameterError):
            payer(Policy("sales", accounts={"ana": account("ana")}), "ana", name)


@pytest.mark.parametrize("name", [n for n in HOSTILE.values() if "/" not in n], ids=ascii)
def test_no_account_of_such_a_name_is_made_in_a_ledger(name: str, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.db") as ledger:
        with pytest.raises(ParameterError):
            ledger.owner("olga").create(f"sales/{name}")
        with pytest.raises(ParameterError):
            ledger.reserve(
                f"sales/{name}",
                Amount(rho=1),
                query="q",
                plan="{}",
                limits=[Account("sales", Amount(rho=9))],
            )
        assert ledger.accounts() == ()


def written(name: str) -> str:
    """A name as YAML has it, escaped."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in name) + '"'


def test_the_account_of_one_dataset_is_not_that_of_another() -> None:
    # An analyst b of the dataset a/b would read what a dataset's analysts were answered.
    with pytest.raises(PolicyError, match="the name of the dataset 'a/b' is not one"):
        Policy("a/b", accounts={"c": account("c")})
    with pytest.raises(PolicyError, match=r"no `/`") as refused:
        parse_policy("version: 1\ndataset: a/b\ntables:\n")
    assert refused.value.place is not None
    assert refused.value.place.line == 2


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=2, max_size=6))
def test_paths_of_different_accounts_differ(names: list[str]) -> None:
    good = [name for name in names if is_account_name(name)]
    lines = {*itertools.permutations(good, 2), *itertools.permutations(good, 3)}
    assert len({"/".join(line) for line in lines}) == len(lines)
    assert all(tuple(path.split("/")) in lines for path in map("/".join, lines))
    assert all(unicodedata.normalize("NFC", "/".join(line)) == "/".join(line) for line in lines)


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES)
def test_accounts_of_one_policy_that_look_alike_are_refused(one: str, other: str) -> None:
    assert list(look_alikes([one, "bo", other])) == [(one, other)]
    with pytest.raises(PolicyError, match="look the same, and are two budgets"):
        Policy("sales", accounts={name: account(name) for name in (one, other)})
    text = "version: 1\ndataset: d\naccounts:\n" + "".join(
        f"  {name}: {{epsilon: 1, delta: 1e-6}}\n" for name in (one, other)
    )
    with pytest.raises(PolicyError, match=r"look the same|in case only") as refused:
        parse_policy(text + "tables:\n")
    assert refused.value.place is not None
    assert refused.value.place.line == 5
    with pytest.raises(ParameterError, match="given twice"):
        Draft("d").with_account(one, 1.0, 1e-6).with_account(other, 1.0, 1e-6)


def test_accounts_are_listed_by_their_own_names() -> None:
    with pytest.raises(PolicyError, match="the account 'bo' is listed as 'ana'"):
        Policy("sales", accounts={"ana": account("bo")})


def test_accounts_of_older_ledgers_can_still_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "sales/Jose\u0301"
    with monkeypatch.context() as older, Ledger.open(tmp_path / "b.db") as ledger:
        older.setattr("dpsql.ledger.owner.check_new_path", lambda path: None)
        ledger.owner("olga").create(path)
        assert ledger.standing(path)[-1].path == path
        assert ledger.verify().sound
