"""Links that a draft takes from foreign keys: how tables reach the unit of another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsql.core.schema import Schema, Table
from dpsql.owner.draft import MAX_DRAFTED_NAME, Draft, guess_unit, is_telling
from dpsql.owner.keys import Reference, references


def likely_link(table: Table, schema: Schema, draft: Draft) -> Reference | None:
    """Return the foreign key by which an undecided table reaches a unit; None without one."""
    return ways_to_units(schema, draft).get(table.name.key)


def with_foreign_keys(draft: Draft, schema: Schema) -> Draft:
    """Add links of undecided tables to units, by foreign keys."""
    links = {name: way.link for name, way in ways_to_units(schema, draft).items()}
    return replace(draft, links={**draft.links, **links})


def ways_to_units(schema: Schema, draft: Draft) -> Mapping[str, Reference]:
    """Find the only foreign key to a unit of each undecided table.

    The way with the fewest tables is taken, and of several as short none. A column whose name says
    that it stands for people is a unit before foreign keys are followed, one that may number rows
    after that.
    """
    waiting = {
        name: table
        for name, table in sorted(schema.items())
        if not draft.decided(table) and len(str(table.name)) <= MAX_DRAFTED_NAME
    }
    keys = {name: references(table, schema, draft.constraints) for name, table in waiting.items()}
    guessed = {name: guess_unit(table, draft.constraints) for name, table in waiting.items()}
    guesses = {name: guess for name, guess in guessed.items() if guess is not None}
    telling = {name for name, guess in guesses.items() if is_telling(waiting[name], guess)}
    reached = telling | {name for name, table in schema.items() if draft.protects(table)}
    found: dict[str, Reference] = {}
    left = waiting.keys() - telling
    while left:
        leads = {n: [key for key in keys[n] if key.parent.name.key in reached] for n in left}
        now = {name for name, each in leads.items() if each}
        found |= {name: leads[name][0] for name in now if len(leads[name]) == 1}
        reached |= {name for name in now if name in found or name in guesses}
        if not now:
            likely = {name for name in left if name in guesses}
            ends = {n for n in likely if not any(k.parent.name.key in likely for k in keys[n])}
            now = ends or likely
            reached |= now
            if not now:
                break
        left = left - now
    for name in sorted(telling):
        for key in keys[name]:
            if key.column == guesses[name] and not _leads_to(name, key, found, reached):
                found[name] = key
    return found


def _leads_to(name: str, key: Reference, found: Mapping[str, Reference], reached: set[str]) -> bool:
    """Tell whether a foreign key leads back to its table, or to none with a unit."""
    parent = key.parent.name.key
    if parent not in reached:
        return True
    while parent != name and parent in found:
        parent = found[parent].parent.name.key
    return parent == name
