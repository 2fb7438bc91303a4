"""The pages of docs/ hold: links, pictures, tables, names, and every block of Python."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.guides import GUIDES
from helpers.scripts import script

from dpsql.interfaces.cli import cli
from dpsql.privacy.accounting.composition import compare
from dpsql.privacy.mechanisms.registry import ENTRIES
from dpsql.views.definition import ContinualMechanism

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
SVG = "{http://www.w3.org/2000/svg}"


def generator(name: str) -> ModuleType:
    """A script that writes pages."""
    return script(f"tools/docs/{name}.py")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives headings."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_there_is_a_page_for_each_family_and_the_readme_leads_to_the_index() -> None:
    names = {page.name for page in PAGES}
    families = {"known-domain.md", "release-all.md", "top-k.md", "set-union.md", "accounting.md"}
    assert families | {"README.md"} <= names
    index = DOCS / "mechanisms" / "README.md"
    assert families <= {link.partition("#")[0] for link in links(index)}
    assert "docs/mechanisms/README.md" in links(ROOT / "README.md")


@PAGE
def test_every_link_leads_somewhere(page: Path) -> None:
    assert links(page)
    assert broken_links(page) == []


def test_a_broken_link_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](#b-title) [c](gone.md)", encoding="utf-8")
    assert broken_links(page) == ["#b-title", "gone.md"]


@PAGE
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"`((?:tests|dpsql|benchmarks|docs)/[\w./]*)`", prose(page)):
        assert (ROOT / name).exists(), name


@PAGE
def test_a_page_about_mechanisms_names_tests_and_a_picture(page: Path) -> None:
    if page.parent.name == "mechanisms" and page.name != "README.md":
        assert re.search(r"`tests/[\w/]+/test_\w+\.py`", prose(page))
        assert "](../pictures/" in prose(page)
        assert "## What can go wrong" in prose(page)


def outcomes(code: str) -> tuple[list[str], list[str]]:
    """What a block prints, and what its comments say it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, NAMES)  # blocks of a page share their names
    lines = code.splitlines()
    beside = [line.split(")  # ", 1)[1] for line in lines if re.search(r"print\(.*\)  # ", line)]
    return output.getvalue().splitlines(), beside + [x[2:] for x in lines if x.startswith("# ")]


NAMES: dict[str, object] = {}


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GUIDES], ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for policies in blocks(page, "yaml"):
        Path("policies.yaml").write_text(policies, encoding="utf-8")
    NAMES.clear()
    for code in blocks(page, "python"):
        printed, stated = outcomes(code)
        assert printed
        assert stated in ([], printed)
        if page.name != "README.md":
            assert stated


@pytest.mark.slow
def test_commands_that_pages_mention_run() -> None:
    commands = {
        c for page in PAGES for c in re.findall(r"`dpsql (calibrate [^`\[]+)`", prose(page))
    }
    assert commands
    for command in commands:
        done = CliRunner().invoke(cli, shlex.split(command))
        assert done.exit_code == 0, done.output


def mechanisms() -> set[str]:
    return {entry.name for entry in ENTRIES}


def test_mechanisms_that_pages_name_exist_and_all_are_described() -> None:
    shape = (
        r"`(\w+_(?:domain|counts|histogram|top_k|top_k_chosen_k_bar|threshold|set_union)|cascade)`"
    )
    named = {name for page in PAGES for name in re.findall(shape, prose(page))}
    assert named - mechanisms() - set(ContinualMechanism) == set()
    assert mechanisms() - named == set()


def test_pages_show_exactly_the_pictures_that_the_script_draws() -> None:
    shown = {Path(link).name for page in PAGES for link in links(page) if link.endswith(".svg")}
    files = {path.name for path in (DOCS / "pictures").iterdir()}
    assert shown == files == set(generator("pictures").PICTURES)


def curves(path: Path) -> dict[str, list[float]]:
    """The coordinates of every curve in a picture, and its words."""
    root = ElementTree.parse(path).getroot()
    found = {}
    for group in root.iter(f"{SVG}g"):
        name = group.get("id", "")
        if name.startswith("curve-"):
            data = [p.get("d", "") for p in group.iter(f"{SVG}path")]
            data += [f"{use.get('x')} {use.get('y')}" for use in group.iter(f"{SVG}use")]
            found[name] = [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", " ".join(data))]
    return found


def words(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return ["".join(text.itertext()).strip() for text in root.iter(f"{SVG}text")]


def same_curves(one: dict[str, list[float]], other: dict[str, list[float]]) -> bool:
    return one.keys() == other.keys() and all(
        len(points) == len(other[name]) and np.allclose(points, other[name], atol=0.5)
        for name, points in one.items()
    )


@pytest.mark.slow
def test_pictures_are_what_the_script_draws_today(tmp_path: Path) -> None:
    pictures = generator("pictures")
    for name in pictures.PICTURES:
        drawn, kept = pictures.draw(name, tmp_path), DOCS / "pictures" / name
        assert curves(kept)
        assert same_curves(curves(drawn), curves(kept)), f"run make pictures: {name}"
        assert words(drawn) == words(kept), f"run make pictures: {name}"
        moved = {key: [x + 2 for x in points] for key, points in curves(kept).items()}
        assert not same_curves(curves(drawn), moved)


def contrast(colour: str, background: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(code: str) -> float:
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(colour), luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", [path.name for path in sorted((DOCS / "pictures").iterdir())])
def test_pictures_are_small_and_read_on_light_and_dark_pages(name: str) -> None:
    path = DOCS / "pictures" / name
    assert path.stat().st_size < 50_000
    content = text_of(path)
    colours = set(re.findall(r"(?:stroke|fill): (#[0-9a-f]{6})", content))
    assert len(colours) >= 2
    for colour in colours:
        assert contrast(colour, "#ffffff") > 3, colour
        assert contrast(colour, "#0d1117") > 3, colour
    assert "<text" in content  # words are words, to be searched and read aloud


@pytest.mark.slow
def test_tables_are_what_the_package_computes_today() -> None:
    tables = generator("tables")
    named: list[str] = []
    for path in tables.PAGES:
        page = text_of(path)
        named += re.findall(r"<!-- table: (\w+) -->", page)
        assert tables.rewritten(page) == page, f"run make pictures: {path.name}"
    assert sorted(named) == sorted(tables.TABLES)


def test_a_drifted_figure_would_be_noticed() -> None:
    tables = generator("tables")
    page = text_of(DOCS / "mechanisms" / "accounting.md")
    drifted = page.replace("| 4.77 |", "| 4.76 |", 1)
    assert drifted != page
    assert tables.rewritten(drifted) == page


def test_what_the_accounting_page_says_about_its_tables_is_true() -> None:
    tables = generator("tables")
    for epsilon in (0.01, 0.1, 1.0):
        for queries in (100, 1_000, 10_000):
            total = {c.theorem: c.epsilon for c in compare(epsilon, queries, 1e-6)}
            assert total["zcdp_tight"] <= 1.14 * total["optimal"]
    for queries in (1, 2, 3, 5, 10):
        zcdp, basic = tables.account_thresholds(queries)
        assert (zcdp < basic) == (queries >= 2)
    few, all_of_them = tables.session_counts(0), tables.session_counts(tables.K)
    assert list(all_of_them.values()) == sorted(all_of_them.values())
    *fixed, paid = zip(few.values(), all_of_them.values(), strict=True)
    assert all(nothing == everything for nothing, everything in fixed)
    assert paid[0] > 5 * paid[1]
