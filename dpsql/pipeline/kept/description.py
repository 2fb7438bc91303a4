"""The description of a question: a text that two plans share only if their releases are one.

A stored release is found again by the digest of this text, in the ledgers of years. So the text is
a format with a version, and its words are its own: they are listed here, next to the classes and
attributes that they stand for today, and stay when these get other names. An attribute is either
described or left out by name; a class that is not listed has no description. Nodes of expressions
are called as sqlglot calls them, but for those that it has renamed: :data:`RENAMED`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlglot import exp

from dpsql.core.identity_memory import IdentityMemory
from dpsql.core.schema import Column, LeftOut, Remark, Table
from dpsql.core.sql_types import SqlType
from dpsql.ir.measures import (
    Aggregate,
    AggregateKind,
    Lattice,
    Measure,
    MeasureKind,
    Quantile,
    Ranked,
    WeightGrid,
)
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure, NoisyQuantile
from dpsql.ir.query import Block, Key, Source, TopK
from dpsql.ir.relations import (
    Combined,
    Computed,
    Distinct,
    EachRow,
    Extend,
    Filter,
    Frame,
    Join,
    JoinKind,
    LinkJoin,
    NumberedRows,
    OneSpelling,
    PerUnit,
    Placed,
    PlaceFunction,
    PlaceValue,
    Rename,
    RowSet,
    Sampled,
    Scan,
    SemiJoin,
    SetOperator,
    Sorted,
    Typed,
    UnitFunction,
    UnitValue,
    ViewScan,
    bottom_up,
)
from dpsql.policy.parameters import PARAMETERS, Parameters
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.cascade import CascadeGoal
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.mechanisms.left_out import Ladder
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile
from dpsql.privacy.mechanisms.registry import CASCADES, ENTRIES
from dpsql.privacy.mechanisms.set_union import Weighting
from dpsql.privacy.mechanisms.weighted_histogram import Weights
from dpsql.privacy.sampling.distributions import DiscreteGaussian, DiscreteLaplace

VERSION: Final = 1
"""The version of the format. Texts of different versions are different."""

RENAMED: Final[Mapping[str, str]] = MappingProxyType({})
"""Nodes of expressions that sqlglot has renamed: today's name → the one in descriptions."""


@dataclass(frozen=True, slots=True)
class Words:
    """How the values of a class are described: a word, and one for each attribute.

    ``parts`` are pairs of a word and an attribute, in the order of the text. ``left_out`` are
    attributes that change no release. ``optional`` parts are written only where they differ from
    the attribute's default: so are all that a class gets later.
    """

    word: str
    parts: tuple[tuple[str, str], ...]
    left_out: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


Vocabulary: TypeAlias = Mapping[type, Words]


def worded(word: str, attributes: str, *, left_out: str = "", optional: str = "") -> Words:
    """Give a class its word, and each attribute one: its name, unless ``name: word`` is written.

    Attributes are apart by commas, and so are those that are left out or optional.
    """
    pairs = tuple(
        (named.strip() or attribute, attribute)
        for attribute, _, named in (part.partition(":") for part in _listed(attributes))
    )
    return Words(word, pairs, frozenset(_listed(left_out)), frozenset(_listed(optional)))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _by_its_word(kind: type[Any]) -> Words:
    """Describe a mechanism by its own word and all its attributes."""
    return worded(kind.word, ",".join(attribute.name for attribute in fields(kind)))


VOCABULARY: Final[Vocabulary] = MappingProxyType(
    {
        # What is asked.
        Block: worded(
            "block",
            "source, unit_name: unit, unit_column: unit column, condition, keys, measures, "
            "aggregates, top_k: top, parameters",
            left_out="name, table, mechanism, noise_columns, fresh, pools, counted, "
            "groups_chosen, most_rows, most_groups, unit_rows, unit_groups, table_defaults, "
            "step_number, bounds_found, followers, public_groups, limited, limited_order, "
            "chosen_after",
        ),
        Parameters: worded(
            "parameters",
            "max_rows_contributed: rows of a unit in a group, "
            "min_units_per_group: least units of a group",
            left_out=",".join(spec.name for spec in PARAMETERS.values() if spec.in_plan),
        ),
        Key: worded(
            "key", "expression: of, domain: declared values", left_out="text, origin, type"
        ),
        # Whether its score is seen shows in the noise on that.
        TopK: worded("top", "measure: by measure, limit", left_out="unseen"),
        # Its columns are among those of the rows; what else is declared is none of the question's.
        Source: worded(
            "source",
            "rows, edition, share",
            optional="edition, share",
            left_out="table, declared, bounds, given",
        ),
        Measure: worded(
            "measure",
            "kind, argument: of, lattice, per_group: bounds per group, weights",
            left_out="text",
        ),
        Lattice: worded(
            "lattice",
            "lower, upper, quantum: step, low, high, coarsening, integral: whole, root",
        ),
        WeightGrid: worded("weights", "steps, coarsening"),
        Ranked: worded("ranked", "argument: of, lattice, bits: kept bits", optional="bits"),
        Quantile: worded("quantile", "ranked, fraction, whole, extreme", optional="extreme"),
        Aggregate: worded("aggregate", "kind, measures, quantile", left_out="text"),
        # Rows.
        Table: worded("table", "name, columns, is_view: view, unreadable, left_out: left out"),
        Column: worded("column", "name, type, collated", left_out="enumerated"),
        LeftOut: worded("left out", "name, reason"),
        Remark: worded("remark", "reason, hint"),
        Scan: worded("scan", "table"),
        ViewScan: worded("view", "table"),
        NumberedRows: worded("numbers", "name, count"),
        Rename: worded("rename", "source, names"),
        EachRow: worded("each row", "source, name"),
        Filter: worded("filter", "source, condition"),
        Sampled: worded("sampled", "source, share"),
        Computed: worded("computed", "name, expression: of"),
        Extend: worded("extend", "source, computed"),
        Typed: worded("typed", "source, types"),
        Distinct: worded("distinct", "source, names"),
        OneSpelling: worded("one spelling", "source, names, kept"),
        UnitValue: worded("unit value", "name, function, argument: of"),
        Sorted: worded("sorted", "name, descending, nulls_first: nulls first"),
        Frame: worded("frame", "first, last, by_value: by value"),
        PlaceValue: worded(
            "row value",
            "name, function, argument: of, among, order, distance, frame",
            optional="frame",
        ),
        Placed: worded("placed", "source, values"),
        PerUnit: worded("per unit", "source, keys, values"),
        Join: worded("join", "left, right, kind, conditions"),
        LinkJoin: worded("link", "left, right, column, key"),
        SemiJoin: worded("semi join", "left, right, conditions, negated"),
        Combined: worded("combined", "left, right, operator, distinct, names"),
        # How it is released.
        BlockPlan: worded(
            "release",
            "block, selection: groups by, measures, score, groups: groups of a unit, bounding, "
            "conversion_delta: conversion delta, quantiles, one_shot: one shot, gaussian",
            left_out="candidates, estimates, kept, bounds_choice, value_bounds, weight_cut, "
            "weight_untold",
        ),
        Bounding: worded("bounding", "groups, kept"),
        NoisyMeasure: worded("noisy measure", "measure, noise"),
        NoisyQuantile: worded("noisy quantile", "quantile, mechanism"),
        PrivacyLoss: worded("loss", "rho, delta, epsilon, gaussian"),
        # Mechanisms and noise.
        DiscreteGaussian: worded("gaussian", "sigma"),
        DiscreteLaplace: worded("laplace", "scale"),
        IndependentNoise: worded("independent noise", "noise, sensitivity"),
        CorrelatedGaussian: worded("correlated gaussian", "sigma, sensitivity"),
        EllipticGaussian: worded("elliptic gaussian", "sigma, shared, fineness, sensitivity, of"),
        **{entry.kind: _by_its_word(entry.kind) for entry in (*ENTRIES, *CASCADES.values())},
        Weights: worded("kept weights", "groups, kept"),
        ExponentialQuantile: worded(
            "exponential quantile", "fraction, rate, rows, size, extreme", optional="extreme"
        ),
        Ladder: worded("ladder", "first, rungs, grain"),
    }
)
"""The words of all that the plan of a question is made of."""

# Enumerations, and which words their members have, where these are not their values.
_KINDS: Final[Mapping[type[Enum], str]] = MappingProxyType(
    {
        MeasureKind: "measure",
        AggregateKind: "aggregate",
        JoinKind: "join",
        SetOperator: "set",
        UnitFunction: "per unit",
        PlaceFunction: "place",
        CascadeGoal: "goal",
        Weighting: "weighting",
    }
)

_NOTHING: Final[Mapping[int, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Writes descriptions, in the words of all classes that it may meet.

    A relation that is met again, alone or in another, is not digested again.
    """

    vocabulary: Vocabulary
    _digests: IdentityMemory[RowSet, None, str] = field(
        default_factory=IdentityMemory, init=False, repr=False, compare=False
    )

    def of(self, value: object) -> str:
        """Describe a value: a text that two share only if they are equal and of the same types.

        Every part says where it ends: text is quoted, all else is a word, a number or in brackets.
        Raises ``TypeError`` for a class without words.
        """
        if type(value) is str:  # as most are
            return repr(value)
        if type(value) in self.vocabulary:  # and of none of the classes below
            if isinstance(value, RowSet):
                return self._of_rows(value)
            return f"{self._words(value).word}({','.join(self._parts(value))})"
        match value:
            case None:
                return "-"
            case SqlType():
                return repr(value.text)
            case exp.Column():
                return f"column({value.table!r},{value.name!r})"
            case exp.Expr():
                return f"Paren[this={self._of_tree(value)}]"
            case Enum():
                return _of_member(value)
            case tuple():
                return f"({self.together(value)})"
            case bool() | int() | float() | bytes():
                return repr(value)
            case date() | time():  # a timestamp is a date to Python, and a longer text
                return f"moment({value.isoformat()})"
            case Decimal():
                return f"decimal({value})"
            case Fraction():
                return f"fraction({value})"
        raise _undescribed(value)

    def together(self, values: Iterable[object]) -> str:
        """Describe some values side by side, as a tuple of them is described in its brackets."""
        return ",".join(map(self.of, values))

    def _words(self, value: object) -> Words:
        found = self.vocabulary.get(type(value))
        if found is None:
            raise _undescribed(value)
        return found

    def _parts(self, value: object, known: Mapping[int, str] = _NOTHING) -> Iterator[str]:
        """Describe the parts of a value; ``known`` has the descriptions of relations, by id."""
        words = self._words(value)
        for word, attribute in words.parts:
            part = getattr(value, attribute)
            if attribute in words.optional and part == default_of(type(value), attribute):
                continue
            if isinstance(value, Table) and attribute == "name":
                name = value.name  # in the schema ``main`` that of the table alone
                part = name.table if name.in_main else (name.schema, name.table)
            text = known.get(id(part))
            yield f"{word}={self.of(part) if text is None else text}"

    def _of_rows(self, rows: RowSet) -> str:
        """Digest a relation: by its last node, which names its sources by theirs.

        A part that is read twice is described once, as it would double with every step else.
        """
        known: dict[int, str] = {}
        for node in bottom_up(rows):
            found = self._digests.get(node, None)
            if found is None:
                text = f"{self._words(node).word}({','.join(self._parts(node, known))})"
                found = f"rows.{digest(text)}"
                self._digests.keep(node, None, found)
            known[id(node)] = found
        return known[id(rows)]

    def _of_tree(self, part: object) -> str:
        """Describe an expression: its node types and arguments, those left out apart.

        Parentheses go, as its shape says them, and so do comments; numbers are written one way.
        """
        match part:
            case exp.Paren():
                return self._of_tree(part.this)
            case exp.Literal() if not part.is_string:
                return f"Literal[is_string=False,this={_number(str(part.this))!r}]"
            case exp.Expr():
                given = {k: v for k, v in part.args.items() if v is not None and v != []}
                parts = ",".join(f"{name}={self._of_tree(given[name])}" for name in sorted(given))
                name = type(part).__name__
                return f"{RENAMED.get(name, name)}[{parts}]"
            case Enum():  # of sqlglot's, such as the names of types
                return f"{type(part).__name__}.{part.name}"
            case list() | tuple():
                return f"[{','.join(map(self._of_tree, part))}]"
        return self.of(part)


def _undescribed(value: object) -> TypeError:
    return TypeError(f"a plan holds a {type(value).__name__}, which has no description")


def default_of(kind: type, attribute: str) -> object:
    """Return the default of an attribute of a dataclass; ``MISSING`` if it has none."""
    return next((f.default for f in fields(kind) if f.name == attribute), MISSING)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _of_member(value: Enum) -> str:
    kind = _KINDS.get(type(value))
    if kind is None:
        raise TypeError(f"a plan holds a {type(value).__name__}, which has no description")
    word = value.value.name if isinstance(value, AggregateKind) else value.value
    return f"{kind} {word!r}"


def _number(text: str) -> str:
    """Write a number one way: 7 for 007, 0.5 for .5, 100.0e0 for 1E2.

    Digits after the point stay: 1.0 and 1.00 are decimals of different types.
    """
    if "e" in text.lower():
        return f"{float(text)!r}e0"  # a double, unlike decimals
    whole, point, fraction = text.partition(".")
    return f"{whole.lstrip('0') or '0'}{point}{fraction}"
