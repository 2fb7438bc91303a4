"""What errors and pages say to install can be installed, and is ours."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from dpsql.core.extras import install_hint

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "extra", ["arrow", "demo", "notebook", "plot", "polars", "postgresql", "shell"]
)
def test_a_hint_names_the_packages_that_the_extra_consists_of(extra: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(rf"^{extra} = \[(.*)\]$", text, re.MULTILINE)
    assert declared is not None
    packages = re.findall(r'"([^"]+)"', declared[1])
    told = install_hint(extra)
    assert told.startswith("Install it with: pip install ")
    # A distribution's metadata writes versions in another order.
    names = {re.split(r"[<>=,]", package)[0] for package in packages}
    assert {re.split(r"[<>=,]", given)[0] for given in re.findall(r"'([^']+)'", told)} == names


def test_without_metadata_a_hint_names_the_extra_of_a_clone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("dpsql.core.extras.requires", missing)
    told = "Install it with: pip install '.[shell]' in a clone of dpsql."
    assert install_hint("shell") == told
    monkeypatch.setattr("dpsql.core.extras.requires", lambda name: ["rich>=13"])
    assert install_hint("shell") == told


def test_nothing_tells_people_to_install_dpsql_by_name() -> None:
    by_name = re.compile(r"pip install (?:-\S+ )*['\"]?dpsql")
    files = [
        path
        for pattern in (
            "*.md",
            "docs/**/*.md",
            "dpsql/**/*.py",
            "examples/*.py",
            "examples/*.ipynb",
        )
        for path in ROOT.glob(pattern)
    ]
    assert len(files) > 100
    for path in files:
        assert not by_name.search(path.read_text(encoding="utf-8")), path
    assert by_name.search("pip install 'dpsql[shell]'")
    assert by_name.search("$ pip install -U dpsql")
