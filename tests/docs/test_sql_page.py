"""docs/sql.md holds: its statements are accepted, its comparison is complete, its tests exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.support import ANALYST, POLICY_TABLES, policy, world_file

import dpsql
from dpsql.policy.model import Link, PrivacyUnit, TablePolicy

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sql.md"
TEXT = PAGE.read_text(encoding="utf-8")
PEERS = ["BigQuery", "Snowflake", "SmartNoise SQL", "Qrlew", "OpenDP (Polars)", "Tumult Analytics"]

# The small world, and tables of the same person: one with the unit, one with a link to it.
LINKED_TABLES = (
    "CREATE TABLE people (uid BIGINT PRIMARY KEY, city VARCHAR)",
    "CREATE TABLE logins (uid BIGINT, device VARCHAR)",
)
LINKED_POLICIES = {
    "people": TablePolicy("people", PrivacyUnit("person", "uid")),
    "logins": TablePolicy("logins", None, {}, Link("uid", "people", "uid")),
}


def tables(text: str) -> list[list[list[str]]]:
    """The numbered tables of a page, by rows and cells, each with its header first."""
    found = re.findall(r"^(\| # \|.*(?:\n\|.*)*)", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]
        for table in found
    ]


COMPARISON, EVIDENCE = tables(TEXT)
FEATURES = COMPARISON[2:]
EXAMPLES = {
    feature: re.sub("^`|`$", "", statement)
    for (_, feature, *_), (_, statement, _) in zip(FEATURES, EVIDENCE[2:], strict=True)
}


def flaws(comparison: list[list[str]], notes: set[str]) -> list[str]:
    """What is missing from a comparison, or is no verdict, or has a footnote that is not there."""
    width = len(comparison[0])
    found = []
    for number, feature, *verdicts in comparison[2:]:
        if len(verdicts) != width - 2:
            found.append(f"{number} {feature}: {len(verdicts)} verdicts")
        for verdict in verdicts:
            match = re.fullmatch(r"(?:yes|no|partly|\?)(?:\[\^(\w+)\])?", verdict)
            if match is None or (match[1] is not None and match[1] not in notes):
                found.append(f"{number} {feature}: {verdict!r}")
            elif verdict == "partly":
                found.append(f"{number} {feature}: partly, without saying how")
    return found


def footnotes(text: str) -> set[str]:
    return set(re.findall(r"^\[\^(\w+)\]: \S", text, re.MULTILINE))


def test_every_cell_of_the_comparison_is_a_verdict_and_every_footnote_is_there() -> None:
    assert COMPARISON[0] == ["#", "", "dpsql", *PEERS]
    assert len(FEATURES) >= 25
    assert flaws(COMPARISON, footnotes(TEXT)) == []
    assert set(re.findall(r"\[\^(\w+)\](?!:)", TEXT)) == footnotes(TEXT)


@pytest.mark.parametrize("cell", ["", "maybe", "yes[^nowhere]", "partly"])
def test_a_cell_that_says_nothing_would_be_noticed(cell: str) -> None:
    broken = [*COMPARISON[:2], [*FEATURES[0][:4], cell, *FEATURES[0][5:]]]
    assert len(flaws(broken, footnotes(TEXT))) == 1


def test_both_tables_number_the_same_features() -> None:
    numbers = [str(number) for number in range(1, len(FEATURES) + 1)]
    assert [row[0] for row in FEATURES] == [row[0] for row in EVIDENCE[2:]] == numbers
    assert len(EXAMPLES) == len(FEATURES)
    assert "no" not in {row[2] for row in FEATURES}


def test_every_peer_has_sources_with_a_date() -> None:
    sources = TEXT.partition("## Sources of the comparison")[2]
    for peer in PEERS:
        (entry,) = re.findall(rf"^\* {peer.partition(' ')[0]}.*(?:\n  .*)*", sources, re.MULTILINE)
        assert "https://" in entry
    assert re.search(r"All read on \d{4}-\d\d-\d\d\.", sources)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", EVIDENCE[2:], ids=lambda row: row[0])
def test_every_test_that_the_page_names_is_in_the_file_it_links_to(row: list[str]) -> None:
    link = re.fullmatch(r"\[`(test_\w+)`\]\((\S+)\)", row[2])
    assert link is not None
    assert link[1] in functions((PAGE.parent / link[2]).resolve())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    directory = tmp_path_factory.mktemp("sql_page")
    rules = replace(policy(), tables={**POLICY_TABLES, **LINKED_POLICIES})
    with (
        world_file(directory / "world.duckdb", *LINKED_TABLES) as path,
        dpsql.connect(path, rules, None, ANALYST) as connection,
    ):
        yield connection


@pytest.mark.parametrize("feature", EXAMPLES)
def test_the_statement_of_each_feature_is_accepted(feature: str, world: dpsql.Connection) -> None:
    assert world.explain(EXAMPLES[feature]).blocks


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """The database of the page, made by its first block of Python, and its policy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("clinic"))
        Path("policies.yaml").write_text(fenced("yaml")[0], encoding="utf-8")
        names: dict[str, object] = {}
        exec(fenced("python")[0], names)
        connection = names["con"]
        assert isinstance(connection, dpsql.Connection)
        with connection:
            yield connection


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


STATEMENTS = [
    statement.strip()
    for fence in fenced("sql")
    for statement in re.sub(r"^--.*\n", "", fence, flags=re.MULTILINE).split(";\n")
]


FREE = ("WHERE 1 = 0", "t LIMIT 0", "FROM visits) SELECT 1", "WHERE table_name = 'visits'")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_of_the_reference_is_accepted(
    statement: str, clinic: dpsql.Connection
) -> None:
    explained = clinic.explain(statement)
    assert explained.blocks or statement.endswith(FREE)


def test_every_section_of_the_reference_about_queries_has_statements() -> None:
    assert len(STATEMENTS) >= 40
    reference = TEXT.partition("## Sources\n")[2].partition("## Compared with others")[0]
    sections = re.split(r"^##+ ", reference, flags=re.MULTILINE)[1:]
    assert all(re.search("```(?:sql|python)\n", section) for section in sections)


def test_the_readme_leads_to_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    asked = readme.partition("## What you can ask")[2].partition("\n## ")[0]
    assert "](docs/sql.md)" in asked
