"""The tutorial, the how-to guides and the page about the promise run from top to bottom."""

from __future__ import annotations

import os
import re
from pathlib import Path
from unittest import mock

import pytest
from helpers.guides import DOCS, GUIDES, Guide, blocks, commands, fits, stated, statements

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = Guide(page)
    with mock.patch.dict(os.environ):  # guides export variables
        guide.run()
    assert guide.ran >= 3


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([^)#]+)\)", index)) == set()


def test_the_tests_that_guides_name_exist() -> None:
    named = [
        (page.parent / path, name)
        for page in GUIDES
        for name, path in re.findall(
            r"\[`(test_\w+)`\]\(([^)]+)\)", page.read_text(encoding="utf-8")
        )
    ]
    assert len(named) > 30
    for path, name in named:
        assert f"def {name}(" in path.read_text(encoding="utf-8"), name


def test_the_table_of_odds_is_what_the_block_below_it_computes() -> None:
    text = (ROOT / "docs" / "promise.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+% \| (.*) \|$", text, re.MULTILINE)
    computed = re.findall(r"^# \[('.*%')\]$", text, re.MULTILINE)
    assert len(rows) == 3
    assert [row.split(" | ") for row in rows] == [
        [cell.strip("'") for cell in line.split(", ")] for line in computed
    ]


def test_the_refusals_that_the_analysts_guide_explains_exist() -> None:
    guide = (DOCS / "how-to" / "analyst.md").read_text(encoding="utf-8")
    errors = (DOCS / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", guide, re.MULTILINE)
    codes = [code for row in rows for code in re.findall(r"\w+", row)]
    assert len(codes) > 10
    known = re.findall(r"^(?:### |\| `)(\w+)", errors, re.MULTILINE)
    assert set(codes) - set(known) == set()


def test_what_guides_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        target
        for page in GUIDES
        for target in re.findall(r"`make ([\w-]+)`", page.read_text(encoding="utf-8"))
    }
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_what_guides_install_exists() -> None:
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    installed = [
        command.words
        for page in GUIDES
        for language, content in blocks(page.read_text(encoding="utf-8"))
        if language == "console"
        for command in commands(content)
        if command.words.startswith("pip install ")
    ]
    assert installed
    for words in installed:
        asked = re.fullmatch(r"pip install '?\.(?:\[([\w,]+)\])?'?", words)
        assert asked is not None, words
        assert set((asked[1] or "dev").split(",")) <= set(extras), words


def test_a_guide_that_says_something_else_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {
        "```console\n$ echo one two\none three\n```": "one two",
        "```console\n$ false\n```": "false",
        "```python\nprint(1)\n# 2\n```": "print",
        "```python\nprint('a 1')\n# for example\n# b 2\n```": "print",
        "```python\nprint(1)\n```": "print",
        "```console\n$ dpsql budget --analyst ana\n```": "policies.yaml",
    }
    for text, words in wrong.items():
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError, match=words):
            Guide(page).run()


def test_shapes_differ_in_words_and_not_in_numbers() -> None:
    assert fits(["a  1,200 ± 3  ████░░"], ["a -7.5 ± 1e-08 █░░░░"])
    assert not fits(["a 1"], ["b 1"])
    assert not fits(["a 1"], ["a 1", "b 2"])
    assert fits(["a 1", "…", "z 1"], ["a 1", "b 2", "c 3", "z 9"])
    assert not fits(["a 1", "…", "z 1"], ["a 1", "b 2"])


def test_commands_and_statements_are_found_in_their_blocks() -> None:
    (first, second) = commands("$ one 'a\nb'\nprinted\n$ three \\\nfour  # exit 2\n")
    assert (first.words, first.shown, first.exit_code) == ("one 'a\nb'", ("printed",), 0)
    assert (second.words, second.exit_code) == ("three four", 2)
    assert list(statements("-- refused: raw_rows\nSELECT 1;\nSELECT ';'\n")) == [
        ("raw_rows", "SELECT 1"),
        (None, "SELECT ';'"),
    ]
    assert stated("print(1)  # 1\nprint(2)\n# 2\n# for example\n# x 3") == (["1", "2"], ["x 3"])
