"""Writes docs/policies.md and dpsql/policies.schema.json from the models that read policies.

``make pictures`` runs it. What a key means is written once, in ``dpsql/policy/document.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpsql.policy.load import file_schema

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
SCHEMA = Path(__file__).parents[2] / "dpsql" / "policies.schema.json"

EXAMPLE = """\
# yaml-language-server: $schema=policies.schema.json
version: 1
dataset: city-clinics # the budget belongs to this name, for as long as the data are there
edition: 2026-11 # under another one, every question is new
ledger: budget.db # what was spent is kept beside this file

defaults: # what a query uses unless it says otherwise
  epsilon: 0.5
  delta: 1e-9
  max_groups_contributed: 4 # most patients are seen in few wards
  # how many visits of a patient count in a ward, a question finds out privately
  min_units_per_group: 20 # groups of fewer patients are left out
  max_age: 30 days # older answers are asked anew, and paid for again

maxima: # no query may ask for more
  epsilon: 2
  delta: 1e-8
  max_groups_contributed: unlimited

limits: # of the work of one statement
  seconds: 120
  memory: 8GB
  private_relations: 4

accounts: # what each analyst may learn, over all queries
  ana: { epsilon: 6, delta: 1e-6 }
  bo: { epsilon: 1, delta: 1e-6 }
  board: { epsilon: 2, delta: 1e-6 }
total: { epsilon: 8, delta: 3e-6 } # what all of them may learn together

views: # answers that are kept up to date
  create: [board, ana]
  shared: [board] # everybody may read what board creates
  directory: clinic.views # what lies there tells as much as the data

agents: # language models that ask for ana
  ana: { epsilon_per_run: 2, epsilon_per_question: 1, confirm_above: 0.6 }

tables:
  patients:
    privacy_unit: { name: patient, column: id }
    rows_per_unit: 1 # nobody is in two rows: questions take no larger bounds
    columns:
      born: { lower: 1900, upper: 2030 }
      sex: { domain: [f, m, x] } # all are answered, even those without rows
  visits:
    privacy_unit: { name: patient, column: patient_id } # joins with patients
    time: { column: seen_at, zone: Europe/Berlin } # views count their steps by it
    defaults: { max_rows_contributed: 3, max_age: 1 day } # of questions that read this table
    columns:
      clinic: { one_per_unit: true } # a patient goes to one of them, and counts in one group
      ward: { domain: [eyes, ears, heart] }
      cost: { lower: 0, upper: 2000 } # higher costs count as 2000
  calls: # who called on one day is protected, and not all that somebody did over the years
    privacy_unit: { name: caller-day, column: caller, per: { column: called_at, every: 1 day } }
  satisfaction: # a survey without names
    privacy_unit: row # each row is one person; nobody with two rows is protected as one
  prescriptions: {} # says nothing about patients, but belongs to a visit: see links
  icd10:
    public: true # a list of codes, about nobody

links:
  - prescriptions.visit -> visits.visit_id # visit_id must be unique in visits
"""

INTRODUCTION = """\
# The policies file

The owner of the data writes one YAML file. It says who is protected, how much a query may cost and
how much each analyst may ever spend. What it does not list does not exist for analysts.

```console
$ dpsql init clinic.duckdb      # drafts one from a database
$ dpsql check -d clinic.duckdb  # compares it with the database
```

It is read strictly, as a slip must never weaken a policy: unknown keys, repeated names, values of
the wrong kind, bounds in the wrong order, aliases and tags are errors, and all of them are reported
at once, each with its line. What to write into it is [the owner's guide](how-to/owner.md)'s matter.
This page is written by `tools/docs/policies.py` from the models that read the file.

## A complete example

```yaml
"""

BOUNDS = """\
```

Bounds and domains come from public knowledge, from what a value *can* be. Taken from the data, from
what it happens to be, they reveal it, and no noise covers that.

## People without an id

```yaml
version: 1
dataset: survey
tables:
  answers:
    privacy_unit: row
    columns:
      income: { lower: 0, upper: 200000 }
```

Each row is one person; nobody with two rows is protected as one. That is true of a survey that
everybody answered once, and of extracts with one row per household member; it is a weak promise
where somebody may have answered twice, and none about visits or orders. Only the owner can know, so
`dpsql init` never writes it. If there is a column that says whose row it is, name that.

Nothing of a unit is then left out, no bounds on rows and groups are drawn, and COUNT(*) counts
people. Such a table is read alone and once in a private SELECT: it is joined with no table, as a
row could then stand several times, and combined with no other private one; IN, EXISTS, SEMI and
ANTI JOIN over public tables test its rows. No link leads to it, and it has no materialized views,
as nothing tells which of its rows were counted before. A column that is called `row` is named by
`privacy_unit: { name: person, column: row }`, and no table that has one can be declared so.

## Two people in a row

```yaml
version: 1
dataset: shop
tables:
  customers:
    privacy_unit: { name: customer, column: id }
  orders:
    privacy_unit: { name: customer, column: paid_by }
links:
  - orders.sent_to -> customers.id
```

A row is one person's. Where it names another one as well, choose the person whose row it is, here
who paid, and link the other column to a table of people. Then `orders JOIN customers ON
sent_to = id`, and `EXISTS (SELECT 1 FROM orders WHERE sent_to = customers.id)`, find orders that
were paid by whom they were sent to, and leave out all others. These could be counted for neither:
who pays for a thousand others would add to a thousand people's answers, and no bound on one
person's rows limits that. Answers do not say how many are left out, as that is private;
`dpsql check` tells the owner. If most rows name somebody else, ask by `paid_by`, or make both
people one unit, such as a household. Who is named in a row without being its unit is not protected
in that row.

## Types of columns

```yaml
version: 1
dataset: shop
tables:
  visits:
    privacy_unit: { name: patient, column: patient_id }
    columns:
      patient_id: BIGINT # a text alone is the type
      ward: VARCHAR
      cost: { type: DOUBLE, lower: 0, upper: 500 }
      price: { type: "DECIMAL(9,2)", lower: 0, upper: 99 } # in quotes, for its comma
```

Names and types are what every analyst sees, so they follow from this file and never from rows. Of
data that have none of their own (CSV, JSON, directories `key=value`, lists and objects of Python's)
the columns with a type are those that there are; a value that does not fit is NULL. Where the data
have types, such as in DuckDB, Parquet, PostgreSQL and Spark tables, none need be written, and those
that are must be the stored ones: `dpsql check` compares them, and shows all of them as analysts see
them. `dpsql init` writes them. [How such data are read](duckdb.md#names-and-types).

## Keys and checks of the database

`dpsql init` reads the constraints of DuckDB files and of PostgreSQL, and no row for it. What
follows from them is marked `KEY` or `CHECK` in the draft. It is the owner's: analysts see what is
left in the file.

* **PRIMARY KEY, UNIQUE, a unique index** on the column of the unit alone: `rows_per_unit: 1`. The
  column may be NULL in many rows, as such rows are nobody's. A linked table has one row per unit
  where the column of its link is a key, and its parent has one row per unit.
* **PRIMARY KEY, UNIQUE** of several columns with the unit's among them, on PostgreSQL a unique
  index as well: `unique: [[person, year]]`. All of them must be NOT NULL: of rows with a NULL,
  UNIQUE lets in any number.
* **The only key** of one column in a table that is called like people (`customer`, `patients`) is
  guessed to be its unit, where no column is called like one.
* **FOREIGN KEY** of one column to a table that has a unit, or reaches one: a link, by the way with
  the fewest tables. Of several as short none is taken, and the draft lists them.
* **CHECK** with comparisons of a column with constants, BETWEEN, IN, and AND and OR of these:
  `lower` and `upper`, and a `domain` of up to 100 values, or of up to 31 whole numbers between two
  bounds: of up to 100 it is proposed where questions are asked. One end alone is proposed in a
  comment.
* **BOOLEAN**: `domain: [false, true]`. The list of an **ENUM** is proposed in a comment: it may
  have been collected from rows.

These prove nothing here: keys of several columns, as one row per unit *and* day has no word in a
policy; unique indexes of some rows or of expressions; constraints of PostgreSQL that are
`NOT VALID`, `NOT ENFORCED` or deferrable, and those of a table with children by `INHERITS`; NOT
NULL, of which policies say nothing. Views, files and lakes have none, and those of Spark are
informational.

`dpsql check` names the tables that keys prove to have one row per unit where the policy does not
say `rows_per_unit: 1`, or `unique`, and says of each `rows_per_unit`, `unique` and `one_per_unit`
whether a key proves it or you vouch for it. It warns where a privacy unit has a type that does not
tell people apart: BOOLEAN, dates and times, floating point, lists, records, JSON.

## Tables of other schemas

A name without a dot is that of a table in the schema `main`. Others have their schema in front, in
`tables` and in `links`:

```yaml
version: 1
dataset: shop
tables:
  customers:
    privacy_unit: { name: customer, column: id }
  mart.sales:
    privacy_unit: { name: customer, column: customer_id }
  '"old mart".items': {}
links:
  - '"old mart".items.sale -> mart.sales.id'
```

A part that has a dot or begins with a quote itself stands in double quotes, which double inside:
`'"my.table"'` is a table of `main`, and never `table` of the schema `my`. As keys of YAML, such
names need single quotes around them. Letter case does not matter, and `main.customers` is
`customers`: two spellings of one table are refused. Schemas that are called `memory`, `system` or
`temp` cannot be used, as DuckDB has databases of these names.

## Editors

`dpsql schema --output policies.schema.json` writes a JSON schema of this format. Editors that
understand the first line of the example complete keys, show what they mean and underline mistakes
(VS Code with the YAML extension, Neovim and others with `yaml-language-server`). The schema knows
less than `dpsql check`, which also compares values with each other and with the database.

## All keys

"""

SECTIONS = {
    "": "At the top",
    "Defaults": "`defaults`",
    "Maxima": "`maxima`",
    "Limits": "`limits`",
    "Account": "`accounts.NAME`",
    "Total": "`total`",
    "Views": "`views`",
    "Agent": "`agents.NAME`",
    "Table": "`tables.NAME`",
    "Unit": "`tables.NAME.privacy_unit`",
    "Per": "`tables.NAME.privacy_unit.per`",
    "Time": "`tables.NAME.time`",
    "Column": "`tables.NAME.columns.NAME`",
    "TableDefaults": "`tables.NAME.defaults`",
}


def schema() -> dict[str, Any]:
    """The JSON schema for editors: the models' own, without what only Python knows."""
    found: dict[str, Any] = _plain(file_schema())
    found["$defs"] = {name.removesuffix("Section"): inner for name, inner in found["$defs"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpsql policies",
        **found,
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def page() -> str:
    """The reference, in Markdown."""
    whole = schema()
    sections = [
        f"### {title}\n\n{_about(whole, name)}{_table(whole['$defs'].get(name, whole))}"
        for name, title in SECTIONS.items()
    ]
    return INTRODUCTION + EXAMPLE + BOUNDS + "\n".join(sections)


def _plain(value: Any) -> Any:
    """Without pydantic's titles, without defaults that stand for nothing, and with plain names."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.removesuffix("Section") if value.startswith("#/$defs/") else value
    if not isinstance(value, dict):
        return value
    return {
        name: _plain(inner)
        for name, inner in value.items()
        if not (name == "title" and isinstance(inner, str))
        and not (name == "default" and inner in (None, [], {}))
    }


def _about(whole: dict[str, Any], name: str) -> str:
    return f"{whole['$defs'][name]['description']}\n\n" if name else ""


def _table(section: dict[str, Any]) -> str:
    rows = [("Key", "Value", "Default", "Meaning"), ("---",) * 4]
    required = section.get("required", [])
    for name, key in section["properties"].items():
        default = "required" if name in required else _default(key)
        rows.append((f"`{name}`", _value(key), default, key["description"]))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _default(key: dict[str, Any]) -> str:
    return f"`{key['default']}`".replace("False", "false") if "default" in key else ""


def _value(key: dict[str, Any]) -> str:
    """What may stand behind a key, in words."""
    if "enum" in key:
        return " or ".join(f"`{choice}`" for choice in key["enum"])
    if "const" in key:
        return f"`{key['const']}`"
    if "$ref" in key:
        return "a section, below"
    if key.get("type") == "array":
        return "a list" if "anyOf" in key else "a list of text"
    if "anyOf" in key:
        kinds = [_value(kind) for kind in key["anyOf"] if kind.get("type") != "null"]
        return ", or ".join(kinds)
    match key["type"]:
        case "object":
            return "sections by name, below"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
        case "integer":
            low, high = key["minimum"], key["maximum"]
            bounds = f"from {low} to {high}" if high < 2**31 - 1 else f"of at least {low}"
            return f"a whole number {bounds}"
        case _ if "exclusiveMinimum" in key:
            return f"a number above {key['exclusiveMinimum']}, at most {key['maximum']}"
        case found:
            dates = ", or a date" if isinstance(found, list) else ""
            return f"a number from {_number(key['minimum'])} to {_number(key['maximum'])}{dates}"


def _number(value: float) -> str:
    return f"{'-' if value < 0 else ''}2^53" if abs(value) == 2**53 else f"{value:g}"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
