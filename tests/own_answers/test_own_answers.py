"""Without noise and bounds that cut, answers are the engine's own but for a few named rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.scripts import script

import dpsql

from .compare import Comparisons, without_chance
from .rules import RULES
from .worlds import ROOT

HERE = Path(__file__).parent


def statements() -> dict[str, list[str]]:
    """The statements of each world: those that others write, and those beside this file."""
    found: dict[str, list[str]] = {}
    bench = script("benchmarks/statements.py")
    for path in sorted(bench.CORPORA.glob("*.sql")):
        world, written = bench.parsed(path)
        found.setdefault(world, []).extend(each.text for each in written if each.rule is None)
    found["tpch"] += [each.text for each in bench.tpch() if each.rule is None]
    return found


def own_statements() -> dict[str, list[str]]:
    """The statements beside this file, by their world."""
    return {
        path.stem: [
            text.strip()
            for text in re.split(r";\n", re.sub(r"^--.*\n", "", path.read_text(), flags=re.M))
            if text.strip()
        ]
        for path in sorted(HERE.glob("*.sql"))
    }


OTHERS, OURS = statements(), own_statements()
# Of ours; each is compared once it is answered.
REFUSED = (
    "SELECT a, b, COUNT(*) FROM (SELECT user_id, channel AS a FROM orders UNION ALL BY NAME",
    "SELECT COUNT(*) FROM users WHERE manager_id IN (SELECT user_id FROM orders)",
    "SELECT COUNT(*) FROM orders WHERE order_date BETWEEN SYMMETRIC",
    "SELECT split_part(channel, 'n', 1) AS a, split_part(channel, '', 1) AS b",
    "SELECT users.country, COUNT(*) FROM orders users JOIN events orders",
    "SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM events e WHERE",
)
# Ends of intervals, and GoogleSQL's lists of quantiles, are nothing that the engine has. What it
# tells of whole columns is approximate. Samples are drawn. Of equally frequent values a list of the
# most frequent ones has any.
_ENDS = re.compile(
    r"\bDP_INTERVAL|\breport_format\b|\bWITH REPORT\b|\bANON_QUANTILES\b|^SUMMARIZE\b"
    r"|\bWIDTH_BUCKET\(\w+, ARRAY|\b(?:TABLE)?SAMPLE\b|\bRANDOM\(\) <"
    r"|\bWITH AGGREGATION_THRESHOLD\b|\bAPPROX_TOP_\w+\(|\btopK\(",
    re.IGNORECASE,
)
ALL = {
    world: tuple(
        sql
        for sql in dict.fromkeys([*OTHERS[world], *OURS.get(world, [])])
        if not _ENDS.search(sql)
    )
    for world in OTHERS
}
CASES = [(world, sql) for world, texts in ALL.items() for sql in texts]
FAILURES = {"engine_failed", "tail_failed", "budget_exceeded", "noise_scale"}
"""Codes of errors by which a statement is not refused, but lost for the comparison."""
QUICK = "hospital"
"""The world whose statements are compared by ``make test``."""


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, and nothing cut."""
    without_chance(monkeypatch)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Comparisons]]:
    """All worlds, whose rows are made when they are first asked of."""
    made = {
        name: Comparisons(name, texts, tmp_path_factory.mktemp(name)) for name, texts in ALL.items()
    }
    yield made
    for each in made.values():
        each.close()


def compare(
    comparisons: Comparisons, sql: str, monkeypatch: pytest.MonkeyPatch
) -> frozenset[str] | None:
    """The rules by which an answer differs; None for a statement that is refused."""
    try:
        verdict = comparisons.verdict(sql, monkeypatch)
    except dpsql.Error as error:
        if error.code in FAILURES:
            raise
        return None
    assert not verdict.difference, verdict.difference
    assert verdict.rules <= RULES.keys()
    return verdict.rules


@pytest.mark.slow
@pytest.mark.few(16)
@pytest.mark.parametrize("sql", ALL[QUICK])
def test_answers_about_the_hospital_are_the_engines_own(
    sql: str, worlds: dict[str, Comparisons], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(worlds[QUICK], sql, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "sql"), CASES)
def test_answers_are_the_engines_own(
    world: str, sql: str, worlds: dict[str, Comparisons], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = compare(worlds[world], sql, monkeypatch)
    if sql in OURS.get(world, ()):
        assert (rules is None) == sql.startswith(REFUSED), (
            "REFUSED lists those that are not answered"
        )


# A statement for each rule, so that none is idle.
EXAMPLES = {
    "declared values": "SELECT state, COUNT(*) FROM patients GROUP BY state",
    "known keys": "SELECT month(admitted) AS m, COUNT(*) FROM hospital WHERE days > 90 GROUP BY m",
    "given groups": "SELECT i.item, COUNT(p.id) FROM items i LEFT JOIN professors p "
    "ON p.item = i.item WHERE p.quantity > 90 GROUP BY i.item",
    "of nothing": "SELECT SUM(cost), AVG(days) FROM hospital WHERE days < 0",
    "NaN": "SELECT AVG(share) FROM (SELECT patient_id, MAX(cost) / SUM(cost) AS share "
    "FROM hospital GROUP BY patient_id)",
    "quantiles": "SELECT ward, MEDIAN(cost) FROM hospital GROUP BY ward",
    "lists": "SELECT list(DISTINCT ward) FROM hospital",
    "any value": "SELECT any_value(ward) FROM hospital",
    "distinct": "SELECT APPROX_COUNT_DISTINCT(patient_id) FROM patients",
    "ties": "SELECT zip, COUNT(*) FROM hospital GROUP BY zip LIMIT 2",
    "small groups": "SELECT zip, SUM(days) AS d FROM hospital WHERE days < 1 GROUP BY zip "
    "ORDER BY d DESC LIMIT 50",
    "no error": "SELECT ward::INTEGER AS w, COUNT(*) FROM hospital GROUP BY w",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_difference_has_its_rule(
    rule: str, worlds: dict[str, Comparisons], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compare(worlds[QUICK], EXAMPLES[rule], monkeypatch)
    assert found is not None
    assert rule in found


def test_the_comparison_notices_a_wrong_answer(worlds: dict[str, Comparisons]) -> None:
    world = worlds[QUICK].of(ties=True)
    sql = "SELECT ward, COUNT(*), SUM(days) FROM hospital GROUP BY ward"
    rows = world.ask(sql)
    assert world.rules(rows, sql) == frozenset()
    for wrong in (
        [*rows[1:], (*rows[0][:2], rows[0][2] + 1)],
        [*rows[1:], ("other", *rows[0][1:])],
        rows[1:],
        [*rows, rows[0]],
        [*rows[1:], (rows[0][0], None, rows[0][2])],
    ):
        assert world.rules(wrong, sql) is None


def test_rows_that_belong_to_nobody_are_not_read(worlds: dict[str, Comparisons]) -> None:
    world = worlds[QUICK].of(ties=True)
    ((found,),) = world.ask("SELECT COUNT(*) FROM hospital")
    assert found == len(world.world.rows["hospital"])
    assert world.world.nobodys["hospital"]


def test_every_rule_is_on_the_page_with_its_words() -> None:
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    section = page.partition("## What differs from the engine's own answer\n")[2]
    lines = re.findall(r"^\| (.+) \| \[.*?\]\(#([\w-]+)\) \|$", section, re.MULTILINE)
    assert lines == [(rule.words, rule.section) for rule in RULES.values()]
    assert EXAMPLES.keys() | {"nobody"} == RULES.keys()


@pytest.mark.slow
def test_most_statements_have_groups_that_come_out(worlds: dict[str, Comparisons]) -> None:
    world = worlds[QUICK].of(ties=True)
    sizes = Counter[bool]()
    for sql in ALL[QUICK]:
        try:
            world.connections["usual"].explain(sql)
        except dpsql.Error:
            continue
        sizes[len(world.own.execute(world.own_text(sql)).fetchall()) > 0] += 1
    assert sizes[True] > 9 * sizes[False]
