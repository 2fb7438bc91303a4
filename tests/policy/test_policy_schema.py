"""The JSON schema of policies files, and their reference, say what the reader does."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.columns import column_of
from helpers.scripts import script
from jsonschema import Draft202012Validator

from dpsql.core.schema import Table, schema_of
from dpsql.errors import PolicyError
from dpsql.interfaces.cli import cli
from dpsql.owner.draft import Draft
from dpsql.owner.draft_text import draft_policy
from dpsql.policy.load import load_policy, parse_policy
from dpsql.policy.yaml_tree import read_tree

ROOT = Path(__file__).parents[2]


SCRIPT = script("tools/docs/policies.py")
SCHEMA = json.loads(SCRIPT.SCHEMA.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
HEAD = "version: 1\ndataset: d\n"
UNIT = HEAD + "tables: {t: {privacy_unit: {name: u, column: u}}}\n"


def as_json(value: Any) -> Any:
    """A document as editors see it, to whom dates are text."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def misfits(text: str) -> list[str]:
    """What the schema says against a policies file."""
    return [error.message for error in VALIDATOR.iter_errors(as_json(read_tree(text).value))]


def test_schema_and_page_are_what_the_models_say() -> None:
    """If this fails, run ``python tools/docs/policies.py``."""
    assert SCRIPT.SCHEMA.read_text(encoding="utf-8") == SCRIPT.schema_text()
    assert SCRIPT.PAGE.read_text(encoding="utf-8") == SCRIPT.page()


def test_the_schema_is_one_and_every_key_is_described() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for section in (SCHEMA, *SCHEMA["$defs"].values()):
        assert section["description"]
        assert section["additionalProperties"] is False
        assert all(key.get("description") for key in section["properties"].values())
    assert set(SCRIPT.SECTIONS) == {"", *SCHEMA["$defs"]}


def test_dpsql_prints_the_schema_and_writes_it(tmp_path: Path) -> None:
    assert json.loads(CliRunner().invoke(cli, ["schema"]).stdout) == SCHEMA
    target = tmp_path / "policies.schema.json"
    assert CliRunner().invoke(cli, ["schema", "-o", str(target)]).exit_code == 0
    assert json.loads(target.read_text(encoding="utf-8")) == SCHEMA
    assert CliRunner().invoke(cli, ["schema", "-o", str(target)]).exit_code == 2


def policies() -> dict[str, str]:
    """Every policies file of the repository: its own, and those in pages and examples."""
    found = {"policies.yaml": (ROOT / "policies.yaml").read_text(encoding="utf-8")}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        whole = [block for block in blocks if re.search(r"^version: 1$", block, re.MULTILINE)]
        found |= {f"{page.name} {number}": text for number, text in enumerate(whole)}
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        found[path.name] = path.read_text(encoding="utf-8")
    return found


POLICIES = policies()


@pytest.mark.parametrize("name", POLICIES)
def test_every_policies_file_of_the_project_fits_the_schema(name: str) -> None:
    assert misfits(POLICIES[name]) == []


def test_the_example_of_the_reference_is_read_and_uses_every_section(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(SCRIPT.EXAMPLE, encoding="utf-8")
    policy = load_policy(path)
    assert policy.unit_name(policy.tables["prescriptions"]) == "patient"
    assert policy.tables["icd10"].public
    assert policy.total is not None
    given = read_tree(SCRIPT.EXAMPLE).value
    assert isinstance(given, dict)
    assert set(given) == set(SCHEMA["properties"])


def test_drafts_fit_the_schema() -> None:
    table = Table("visits", (column_of("patient_id", "BIGINT"), column_of("cost", "DOUBLE")))
    draft = draft_policy(schema_of(table), Draft("clinic"))
    assert misfits(draft) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "tables:\n",
        HEAD + "tables: {t: {privacy_unit: u}}\n",
        HEAD + "tables: {t: {public: true}}\n",
        HEAD
        + "tables: {t: {privacy_unit: u, columns: {c: {lower: 2020-01-01, upper: 2030-01-01}}}}\n",
        HEAD + "tables: {t: {privacy_unit: u, time: {column: at, zone: Europe/Berlin}}}\n",
        HEAD
        + "tables: {t: {privacy_unit: {name: u, column: u, per: {column: c, every: 1 day}}}}\n",
        UNIT + "views:\n",
        UNIT + "accounts: {a: {epsilon: 1, delta: 1e-6}}\n"
        "views: {create: [a], shared: [], directory: v}\n",
        UNIT + "defaults:\nmaxima:\nlimits:\naccounts:\nlinks:\n",
        UNIT
        + "limits: {seconds: 0.5, memory: 8GB, private_relations: 64, resource_failures: keep}\n",
        UNIT + "defaults: {max_groups_contributed: unlimited, contribution_bounding: weight}\n",
        UNIT + "accounts: {a b: {epsilon: 1, delta: 1e-6, composition: basic}}\n",
        HEAD + "tables: {t: {privacy_unit: u, columns: {c: {domain: [2024-01-01, 2024-02-01]}}}}\n",
        HEAD
        + "tables: {t: {privacy_unit: u, columns: {c: {domain: [1, 2.5], lower: 0, upper: 1}}}}\n",
        UNIT + 'links: [\'"a b"."c.d" -> t.u\']\n',
    ],
)
def test_the_schema_passes_what_it_is_meant_to(text: str) -> None:
    assert misfits(text) == []


BAD = {
    "another version": "version: 2\ndataset: d\ntables:\n",
    "no version": "dataset: d\ntables:\n",
    "no dataset": "version: 1\ntables:\n",
    "no tables": HEAD,
    "dataset a number": "version: 1\ndataset: 7\ntables:\n",
    "dataset with spaces around": "version: 1\ndataset: ' d'\ntables:\n",
    "unknown key": UNIT + "acounts: {}\n",
    "unknown default": UNIT + "defaults: {epsilom: 1}\n",
    "epsilon zero": UNIT + "defaults: {epsilon: 0}\n",
    "epsilon text": UNIT + "defaults: {epsilon: '1'}\n",
    "epsilon true": UNIT + "defaults: {epsilon: true}\n",
    "delta one": UNIT + "defaults: {delta: 1}\n",
    "groups as a word": UNIT + "defaults: {max_groups_contributed: all}\n",
    "rows unlimited": UNIT + "defaults: {max_rows_contributed: unlimited}\n",
    "k_bar fraction": UNIT + "defaults: {k_bar: 1.5}\n",
    "bounding": UNIT + "defaults: {contribution_bounding: clip}\n",
    "no such maximum": UNIT + "maxima: {min_units_per_group: 5}\n",
    "no seconds": UNIT + "limits: {seconds: 0}\n",
    "seconds beyond a day": UNIT + "limits: {seconds: 86401}\n",
    "seconds text": UNIT + "limits: {seconds: '60'}\n",
    "seconds true": UNIT + "limits: {seconds: true}\n",
    "memory a number": UNIT + "limits: {memory: 8}\n",
    "memory without a unit": UNIT + "limits: {memory: '8'}\n",
    "memory of statements": UNIT + 'limits: {memory: "8GB\'; SET threads = 1"}\n',
    "memory empty": UNIT + "limits: {memory: }\n",
    "no relation": UNIT + "limits: {private_relations: 0}\n",
    "too many relations": UNIT + "limits: {private_relations: 65}\n",
    "relations a fraction": UNIT + "limits: {private_relations: 1.5}\n",
    "failures of another kind": UNIT + "limits: {resource_failures: ignore}\n",
    "failures a list": UNIT + "limits: {resource_failures: [keep]}\n",
    "no such limit": UNIT + "limits: {second: 1}\n",
    "defaults a list": UNIT + "defaults: []\n",
    "account without delta": UNIT + "accounts: {a: {epsilon: 1}}\n",
    "account of another kind": UNIT + "accounts: {a: {epsilon: 1, delta: 0.1, composition: rdp}}\n",
    "account with a slash": UNIT + "accounts: {a/b: {epsilon: 1, delta: 0.1}}\n",
    "account empty": UNIT + "accounts: {a: }\n",
    "total without epsilon": UNIT + "total: {delta: 0.1}\n",
    "total empty": UNIT + "total:\n",
    "table a text": HEAD + "tables: {t: u}\n",
    "table empty": HEAD + "tables: {t: }\n",
    "table with an unknown key": HEAD + "tables: {t: {privacy_unit: u, unit: u}}\n",
    "views a list": UNIT + "views: []\n",
    "views of one account": UNIT + "views: {create: ana}\n",
    "views beside a number": UNIT + "views: {directory: 5}\n",
    "views with more": UNIT + "views: {read: []}\n",
    "time a text": HEAD + "tables: {t: {privacy_unit: u, time: at}}\n",
    "time without a column": HEAD + "tables: {t: {privacy_unit: u, time: {zone: UTC}}}\n",
    "time of a public table": HEAD + "tables: {t: {public: true, time: {column: at}}}\n",
    "per a text": HEAD + "tables: {t: {privacy_unit: {name: u, column: u, per: day}}}\n",
    "per without every": HEAD
    + "tables: {t: {privacy_unit: {name: u, column: u, per: {column: c}}}}\n",
    "unit and public": HEAD + "tables: {t: {privacy_unit: u, public: true}}\n",
    "public text": HEAD + "tables: {t: {public: 'yes'}}\n",
    "unit without column": HEAD + "tables: {t: {privacy_unit: {name: u}}}\n",
    "unit a number": HEAD + "tables: {t: {privacy_unit: 5}}\n",
    "unit with more": HEAD + "tables: {t: {privacy_unit: {name: u, column: u, x: 1}}}\n",
    "column without anything": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {}}}}\n",
    "lower alone": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {lower: 1}}}}\n",
    "bound text": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {lower: a, upper: 1}}}}\n",
    "bound huge": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {lower: 0, upper: 1e17}}}}\n",
    "domain empty": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {domain: []}}}}\n",
    "domain a text": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {domain: a}}}}\n",
    "domain mixed": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {domain: [a, 1]}}}}\n",
    "domain twice": HEAD + "tables: {t: {privacy_unit: u, columns: {c: {domain: [a, a]}}}}\n",
    "links a text": UNIT + "links: 'a.b -> t.u'\n",
    "link without an arrow": UNIT + "links: ['a.b = t.u']\n",
    "link without a column": UNIT + "links: ['a -> t.u']\n",
}


@pytest.mark.parametrize("name", BAD)
def test_the_schema_refuses_what_the_reader_refuses(name: str) -> None:
    with pytest.raises(PolicyError):
        parse_policy(BAD[name])
    assert misfits(BAD[name])
