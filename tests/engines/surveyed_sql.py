"""Digests of the SQL that surveys computed, by call: a verdict is on that SQL and on no other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dpsql.engines.evidence.verdicts import EngineVersion
from dpsql.survey.forms import ComparedForm, forms
from dpsql.survey.sameness import case_of, unjudged

PLACE: Final = Path(__file__).with_suffix(".json")


def digests(version: EngineVersion, asked: Iterable[ComparedForm] | None = None) -> dict[str, str]:
    """Digest what is written today of all forms that are about a call, with their types."""
    return {
        call: hashlib.sha256("\n".join(sorted(text for _, text in made)).encode()).hexdigest()[:12]
        for call, made in _written(version, asked).items()
    }


def changed(version: EngineVersion) -> list[ComparedForm]:
    """List the forms about calls whose SQL is not that of the last survey."""
    known, written = kept().get(str(version), {}), _written(version)
    redone = {call for call, digest in digests(version).items() if known.get(call) != digest}
    found = {form for call in redone for form, _ in written[call]}
    return [form for form in forms() if form in found]


def _written(
    version: EngineVersion, asked: Iterable[ComparedForm] | None = None
) -> dict[str, list[tuple[ComparedForm, str]]]:
    """Write all forms that are about a call, by that."""
    dialect = unjudged(version)
    written: dict[str, list[tuple[ComparedForm, str]]] = {}
    for form in forms() if asked is None else asked:
        case = case_of(form, dialect)
        if case is not None and case.call:
            made = f"{case.type} {case.server.render(dialect.renderer)}"
            written.setdefault(case.call, []).append((form, made))
    return dict(sorted(written.items()))


def kept() -> dict[str, dict[str, str]]:
    """The digests of the last surveys, by engine and version."""
    found: dict[str, dict[str, str]] = json.loads(PLACE.read_text(encoding="utf-8"))
    return {version: table for versions, table in found.items() for version in versions.split(", ")}


def keep(version: EngineVersion) -> None:
    """Keep the digests of what has just been surveyed, once for versions that have the same."""
    found = {**kept(), str(version): digests(version)}
    alike: list[tuple[list[str], dict[str, str]]] = []
    for each, table in sorted(found.items()):
        versions = next((known for known, other in alike if other == table), None)
        if versions is None:
            alike.append(([each], table))
        else:
            versions.append(each)
    grouped = {", ".join(versions): table for versions, table in alike}
    PLACE.write_text(json.dumps(grouped, indent=0) + "\n", encoding="utf-8")
