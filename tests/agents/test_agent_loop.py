"""The notebook with an agent's loop runs as it stands, within its ε."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpsql.ledger import Ledger

NOTEBOOK = Path(__file__).parents[2] / "examples" / "agent_loop.ipynb"


@pytest.mark.slow
def test_twelve_questions_are_asked_within_epsilon_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs"), "it is kept without outputs"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    said = capsys.readouterr().out
    assert len(names["QUESTIONS"]) == len(names["answers"]) == 12
    assert sum(each["cost"]["free"] for each in names["answers"]) == 2
    assert "refused (unknown_column), asked as proposed: SELECT ward, COUNT" in said
    assert "refused (raw_rows), asked as proposed: SELECT COUNT" in said
    assert "Refused (question_too_dear)" in said
    assert "123,456: not ours" in said
    assert names["left"]["epsilon_spent"] <= 1.0
    with Ledger.open(tmp_path / "budget.db") as ledger:
        assert ledger.spent("clinic/ana/report").queries == 10
