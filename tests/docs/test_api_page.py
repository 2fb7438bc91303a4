"""docs/api.md is what signatures and docstrings say, and says it of every public name."""

from __future__ import annotations

import inspect
import re

import pytest
from test_docs_pages import DOCS, generator

import dpsql
from dpsql import dbapi, ledger

API = generator("api")
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_source_says() -> None:
    assert API.page() == PAGE, "run make pictures"


@pytest.mark.parametrize("name", [*dpsql.__all__, *dbapi.__all__])
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"^(?:### (?:class )?{name}$|\| `{name}\b)", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    "kind", [dpsql.Session, dpsql.Connection, dpsql.Result, dbapi.Cursor, ledger.Ledger]
)
def test_every_public_member_is_on_the_page(kind: type) -> None:
    for name, value in inspect.getmembers(kind):
        own = inspect.isfunction(value) or isinstance(value, property) or inspect.ismethod(value)
        if own and not name.startswith("_") and name not in API.INTERNAL:
            home = dpsql.Session if hasattr(dpsql.Session, name) else kind  # a connection is one
            method = f"#### {home.__name__}.{name}\n"
            assert method in PAGE or f"* `{name}: " in PAGE


def test_a_changed_docstring_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpsql.connect, "__doc__", "Something else.")
    assert API.page() != PAGE


def test_docstrings_become_markdown() -> None:
    def example() -> None:
        """First ``a``,
        of :class:`~x.B`.

        Second.
        """

    assert API.text(example) == "First `a`, of `~x.B`.\n\nSecond.".replace("~", "")
