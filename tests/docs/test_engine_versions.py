"""Pages name the versions of servers that the package has verdicts on, all and no others."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from helpers.dialects import SERVERS

ROOT = Path(__file__).parents[2]

TITLES = {"postgresql": "PostgreSQL", "spark": "Spark"}
PAGES = ("README.md", "CHANGELOG.md", "docs/engines/{engine}.md")
SEVERAL = r"{title} (\d[\d.]*(?:, \d[\d.]*)* and \d[\d.]*)"


def versions(engine: str) -> list[str]:
    return [each.version for each in SERVERS if each.engine == engine]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("engine", TITLES)
def test_a_page_names_the_versions_that_are_shipped(engine: str, page: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / page.format(engine=engine)).read_text("utf-8"))
    told = re.findall(SEVERAL.format(title=TITLES[engine]), text)
    assert told
    for each in told:
        assert re.split(", | and ", each.rstrip(".")) == versions(engine)


def test_each_shipped_version_of_postgresql_can_be_brought() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "servers.py"))
    assert [*tool["PACKAGED"]] == versions("postgresql")
