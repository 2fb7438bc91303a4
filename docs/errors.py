"""Writes docs/errors.md, the catalogue of errors, from the package's source: ``make pictures``.

Every call that makes an error is found in the syntax trees, through the helper functions that are
given its code or its reason. What is only known when it happens is shown as ``…``.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import dpsql
from dpsql import errors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dpsql"
PAGE = Path(__file__).with_suffix(".md")
UNKNOWN = "…"
WIDTH = 300  # of an example; beyond, only its beginning is shown

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.Error)
}
QUERY_CLASSES = ("QueryRefused", "SQLSyntaxError", "UnknownName")
ELSEWHERE = frozenset({"unknown_account"})
"""Codes of those classes that no statement raises."""

MEANINGS = {
    "aggregate_not_supported": "An aggregate without a private version, or in a form without one.",
    "ambiguous_column": "A name that several joined tables have as a column.",
    "bad_bounds": "Contribution bounds that are not two numbers in order, or are given twice.",
    "bad_fraction": "A quantile of something else than one fraction between 0 and 1.",
    "bad_option": "An option of WITH DIFFERENTIAL_PRIVACY whose value is not a plain literal.",
    "bounds_do_not_apply": "Contribution bounds for an aggregate that has no use for them.",
    "bounds_not_private": "Contribution bounds on an aggregate over released rows.",
    "bounds_too_large": "Bounds so wide, or per row and per group so far apart, that noise "
    "in proportion would be useless, or sums of many rows no integers of the engine.",
    "bounds_too_small": "Bounds so close to zero that computers tell the values apart no more.",
    "can_fail": "A function that could fail on a row, with arguments of these types: that it did "
    "would tell that there is such a row.",
    "clause_not_allowed": "A clause that picks private rows by looking at other people's.",
    "column_not_grouped": "A column that is neither a key nor inside an aggregate would release "
    "values of single rows.",
    "constant_fails": "A constant that cannot be what is needed in its place: `'x'::DATE`.",
    "constant_key": "A GROUP BY key that is the same for all rows.",
    "does_not_bind": "Types or names that do not fit, found on empty tables.",
    "domain_too_large": "Declared keys are all answered, and there would be too many of them.",
    "empty_group_by": "GROUP BY without a key.",
    "explain_analyze": "A plan with measured times would read private rows.",
    "expression_not_allowed": "An expression over private rows that is not on the list of "
    "deterministic functions of one row, or not in its plain form.",
    "fails": "A part of the query that failed when it was tried on made-up rows, before any row of "
    "the data was read.",
    "function_not_allowed": "A function that reaches beyond its arguments.",
    "group_by_form": "A form of GROUP BY without a private version.",
    "groups_by_unit": "Groups of one privacy unit each would name it.",
    "join_column": "USING or NATURAL with a column that is not once on both sides.",
    "join_keeps_public": "An outer join that keeps rows which belong to no privacy unit.",
    "join_kind": "A join that pairs rows by their order or nearness, which other rows decide.",
    "join_needs_unit": "A join of private tables that would pair rows of different people.",
    "join_not_supported": "A join of private rows with something that is not a table.",
    "join_units_differ": "A join of tables that protect different privacy units.",
    "key_type": "Keys of a type whose equal values can look different.",
    "mechanism_does_not_fit": "The mechanism asked for by name cannot answer this shape of query.",
    "mechanism_needs_basic": "A mechanism for single publications, in an account under zCDP.",
    "misplaced_aggregate": "An aggregate where a value of one row is needed.",
    "no_mechanism": "No mechanism can answer the query with these parameters; the reason says why.",
    "no_noise_known": "DP_INTERVAL_LOW and the like of something that is no aggregate as released.",
    "not_a_query": "Another kind of statement: data definition, settings, files, transactions.",
    "not_numeric": "A sum of something that is not a number.",
    "not_understood": "A call that the parser of SQL cannot make sense of.",
    "number_too_long": "A number with more digits than the engine compares without an error.",
    "option_twice": "An option of WITH DIFFERENTIAL_PRIVACY that is given twice.",
    "options_not_private": "WITH DIFFERENTIAL_PRIVACY on a SELECT over released rows.",
    "order_not_selected": "ROLLUP and the like, sorted by something that is not selected.",
    "query_too_deep": "Brackets or operators nested so deeply that reading them is not safe.",
    "query_too_large": "Very many parts, or aliases or joins that stand for very many.",
    "query_too_long": "A text so long that reading it is not safe.",
    "raw_rows": "Rows, or values of single rows, of a private table.",
    "recursive_name": "A recursive CTE named like a table: parts of it would mean the table.",
    "reserved_name": "A name that dpsql uses for itself.",
    "set_operation_mixed": "UNION and the like of private rows with anything else.",
    "set_operation_types": "UNION and the like of columns whose types differ.",
    "set_operation_unit": "UNION, EXCEPT and INTERSECT that would compare different people's rows.",
    "several_statements": "More than one statement in a text.",
    "statement_not_allowed": "Something other than a query inside a query.",
    "subquery_over_private_rows": "A condition on private rows that looks at other private rows.",
    "syntax_error": "Text that cannot be read as SQL, or a misspelt statement of dpsql's own.",
    "table_form_not_allowed": "A private table with a schema, a sample, a pivot or a version.",
    "table_function": "A function in FROM that could read files, catalogs or settings.",
    "tail_too_large": "Constants, or columns repeated in each other, that take more memory or time "
    "than there is.",
    "too_many_aliases": "More names for columns than there are columns.",
    "too_many_relations": "More private tables joined than `limits.private_relations` allows.",
    "too_many_grouping_sets": "ROLLUP, CUBE or GROUPING SETS that stand for very many answers.",
    "unbounded_sum": "A sum of values without bounds: no noise could hide one row.",
    "unknown_account": "A name that is no account of the policy.",
    "unknown_bounds": "A named argument of an aggregate that is not a contribution bound.",
    "unknown_column": "A column that the tables in reach do not have.",
    "unknown_qualifier": "A name before `.*` that no table of the FROM clause has.",
    "unknown_ordinal": "A GROUP BY position outside the select list.",
    "unknown_table": "A table that the policy does not list, whether it exists or not.",
    "window_over_private_rows": "A window function over private rows: it looks at other rows.",
    "bad_parameter": "A number out of range, given to the ledger or to `dpsql calibrate`.",
    "budget_exceeded": "The account, or the total of all, cannot pay the worst case.",
    "engine_failed": "The engine failed; its message is withheld, as it may quote data. The "
    "account is suspended until the owner has looked.",
    "interrupted": "The caller ended the query; what it reserved stays spent.",
    "memory_limit": "The query took more memory than there is for it. By the policy, the "
    "account is suspended.",
    "time_limit": "The query took longer than the policy lets one. By the policy, the account "
    "is suspended.",
    "policy_does_not_fit": "The policies file and the database do not agree.",
    "policy_invalid": "The policies file says something that is not allowed.",
    "policy_syntax": "The policies file is not YAML, or not in the expected form.",
    "policy_unreadable": "The policies file is missing or cannot be read.",
    "tail_failed": "The part over released rows failed. The release was paid for.",
}
"""What codes mean, in one line each: all that a query can raise, and those whose reason varies."""

INTRODUCTION = """\
# Errors

Every error is a `dpsql.Error` and carries a `code` that programs can rely on, a `reason` in one
sentence, the `place` in the query or the file where there is one, and mostly a `hint`. None quotes
data. Whatever can be refused is refused before anything is read or spent; only `EngineError` and
`DataError` come later, and then what was reserved or charged stays spent.

`…` stands for what depends on the query. The classes are those of PEP 249 and their subclasses.
What can be asked is in the [README](../README.md#what-you-can-ask). This page is written by
`docs/errors.py` from the source; the examples are statements of
[`tests/attacks.py`](../tests/attacks.py), each of which is run.
"""


@dataclass(frozen=True, slots=True)
class Raised:
    """One way an error is made: its class, its code, and what it says."""

    kind: str
    code: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Site:
    """A call that makes an error, inside ``owner``, with what it says as expressions."""

    kind: str
    parts: dict[str, ast.expr | None]
    owner: ast.FunctionDef | None
    module: ast.Module


def raised() -> list[Raised]:
    """All errors the package makes, each once."""
    trees = {path: _tree(path) for path in sorted(PACKAGE.rglob("*.py"))}
    found: dict[Raised, None] = {}
    for module in trees.values():
        for site in _sites(module):
            for item in _expanded(site, trees.values(), 3):
                found.setdefault(item)
    return list(found)


def by_code() -> dict[str, dict[str, list[Raised]]]:
    """Class to code to the ways it is raised, in the order of the page."""
    grouped: dict[str, dict[str, list[Raised]]] = defaultdict(lambda: defaultdict(list))
    for item in sorted(raised(), key=lambda item: item.code):
        grouped[item.kind][item.code].append(item)
    first = [name for name in QUERY_CLASSES if name in grouped]
    return {name: dict(grouped[name]) for name in [*first, *sorted(set(grouped) - set(first))]}


# -- finding errors in the source -----------------------------------------------------------------


def _tree(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    return tree


def _owner(node: ast.AST, kind: type) -> ast.AST | None:
    while (node := getattr(node, "parent", None)) is not None:  # type: ignore[assignment]
        if isinstance(node, kind):
            return node
    return None


def _sites(module: ast.Module) -> Iterator[_Site]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        kind = _name(node.func)
        owner = _owner(node, ast.FunctionDef)
        if kind == "__init__" and isinstance(owner, ast.FunctionDef):
            cls = _owner(owner, ast.ClassDef)
            kind = cls.name if isinstance(cls, ast.ClassDef) else ""
        elif "__init__" in vars(CLASSES.get(kind, object)) and kind not in ("Error", "EngineError"):
            continue  # its own __init__ fixes the code
        elif kind == "EngineError" and not node.args:
            continue  # its code is known where it is told again, with a reason
        if kind in CLASSES and any(keyword.arg == "code" for keyword in node.keywords):
            given = {k.arg: k.value for k in node.keywords if k.arg is not None}
            reason = node.args[0] if node.args else None
            parts = {"code": given["code"], "reason": reason, "hint": given.get("hint")}
            function = owner if isinstance(owner, ast.FunctionDef) else None
            yield _Site(kind, parts, function, module)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _expanded(site: _Site, modules: Iterable[ast.Module], depth: int) -> Iterator[Raised]:
    """What a site raises; where that is up to its function's caller, what its callers ask for."""
    owner = site.owner
    names = [] if owner is None or owner.name == "__init__" else _parameters(owner)
    free = {
        part: node.id
        for part, node in site.parts.items()
        if isinstance(node, ast.Name) and node.id in names
    }
    if owner is None or depth == 0 or not {"code", "reason"} & set(free):
        yield from _read(site)
        return
    called = False
    for module in modules:
        for call in _calls(owner, module, site.module):
            called = True
            bound = _bound(call, names, owner)
            parts = {p: bound.get(free[p]) if p in free else n for p, n in site.parts.items()}
            within = _owner(call, ast.FunctionDef)
            caller = within if isinstance(within, ast.FunctionDef) else None
            fixed = {p: n for p, n in parts.items() if p not in free}
            if any(not isinstance(n, ast.Constant | None) for n in fixed.values()):
                texts = {p: _texts(n, site) for p, n in fixed.items()}
                parts |= {p: ast.Constant(t[0] if t else "") for p, t in texts.items()}
            yield from _expanded(_Site(site.kind, parts, caller, module), modules, depth - 1)
    if not called:
        yield from _read(site)


def _calls(owner: ast.FunctionDef, module: ast.Module, home: ast.Module) -> Iterator[ast.Call]:
    imported = any(
        alias.name == owner.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or _name(node.func) != owner.name:
            continue
        if module is home or (imported and isinstance(node.func, ast.Name)):
            yield node


def _parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def _bound(call: ast.Call, names: list[str], owner: ast.FunctionDef) -> dict[str, ast.expr | None]:
    positional = owner.args.args[-len(owner.args.defaults) :] if owner.args.defaults else []
    bound: dict[str, ast.expr | None] = dict(
        zip((argument.arg for argument in positional), owner.args.defaults, strict=False)
    )
    bound |= dict(zip(names, call.args, strict=False))
    return bound | {k.arg: k.value for k in call.keywords if k.arg is not None}


def _read(site: _Site) -> Iterator[Raised]:
    tuples = _unpacked(site)
    if tuples:
        for code, reason, hint in tuples:
            yield Raised(site.kind, code, reason, hint)
        return
    hints = _texts(site.parts["hint"], site) or [""]
    reasons = _texts(site.parts["reason"], site) or [UNKNOWN]
    for code in _texts(site.parts["code"], site):
        assert re.fullmatch(r"[a-z][a-z0-9_]+", code), f"{site.kind} of an unknown code: {code}"
        for number, reason in enumerate(reasons):
            yield Raised(site.kind, code, reason, hints[min(number, len(hints) - 1)])


def _unpacked(site: _Site) -> list[tuple[str, str, str]]:
    """Where code, reason and hint come out of a table together: its rows."""
    wanted = [getattr(site.parts[part], "id", None) for part in ("code", "reason", "hint")]
    rows: dict[tuple[str, str, str], None] = {}
    for node in ast.walk(site.owner or site.module):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        if [getattr(name, "id", "") for name in node.targets[0].elts] != wanted:
            continue
        tables = [
            _module_value(n.id, site.module)
            for n in ast.walk(node.value)
            if isinstance(n, ast.Name)
        ]
        for part in [node.value, *(table for table in tables if table is not None)]:
            for row in ast.walk(part):
                if isinstance(row, ast.Tuple) and len(row.elts) == 3:
                    texts = [_texts(element, site) for element in row.elts]
                    rows.setdefault((texts[0][0], texts[1][0], texts[2][0]))
    return list(rows)


def _module_value(name: str, module: ast.Module) -> ast.expr | None:
    for node in module.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node.value
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            return node.value
    return None


def _texts(node: ast.expr | None, site: _Site) -> list[str]:
    """The texts an expression may be, with ``…`` for what is not known."""
    match node:
        case None | ast.Constant(None):
            return []
        case ast.Constant(value):
            return [str(value)]
        case ast.JoinedStr(values):
            return [_joined(values)]
        case ast.BinOp(left, ast.Add(), right):
            pairs = product(_texts(left, site), _texts(right, site))
            return [one + other for one, other in pairs]
        case ast.IfExp(_, body, orelse):
            return _texts(body, site) + _texts(orelse, site)
        case ast.BoolOp(_, values):
            found = [text for value in values for text in _texts(value, site)]
            return [text for text in found if text != UNKNOWN] or found
        case ast.Name(name):
            return _named(name, site)
        case ast.Attribute(ast.Name("self"), name) if hasattr(CLASSES[site.kind], name):
            return [str(getattr(CLASSES[site.kind], name))]
    return [UNKNOWN]


def _named(name: str, site: _Site) -> list[str]:
    """What a name may stand for: a default, what it is set to here, or a constant."""
    owner = site.owner
    if owner is not None and name in _parameters(owner):
        defaults = zip(owner.args.kwonlyargs, owner.args.kw_defaults, strict=True)
        return [t for a, d in defaults if a.arg == name for t in _texts(d, site)] or [UNKNOWN]
    values = [
        node.value
        for node in ast.walk(owner or site.module)
        if isinstance(node, ast.Assign) and any(_name(t) == name for t in node.targets)
    ]
    constant = _module_value(name, site.module)
    if not values and constant is not None:
        values = [constant]
    found = [text for value in values for text in _texts(value, site)]
    return [text for text in found if text != UNKNOWN] or [UNKNOWN]


def _joined(values: list[ast.expr]) -> str:
    text = "".join(str(v.value) if isinstance(v, ast.Constant) else UNKNOWN for v in values)
    return re.sub(rf"{UNKNOWN}(\s*{UNKNOWN})+", UNKNOWN, text)


# -- the page -------------------------------------------------------------------------------------


def examples() -> dict[str, str]:
    """The shortest statement of the attack suite for each code."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from attacks import ATTACKS, GRID_ATTACKS
    finally:
        sys.path.pop(0)
    found: dict[str, str] = {}
    for attack in sorted(
        [*ATTACKS, *GRID_ATTACKS], key=lambda attack: (len(attack.sql), attack.sql)
    ):
        found.setdefault(attack.outcome, attack.sql)
    return found


def page() -> str:
    """The catalogue as Markdown."""
    shown = examples()
    parts = [INTRODUCTION]
    for kind, codes in by_code().items():
        parts.append(f"## {kind}\n\n{inspect.getdoc(getattr(dpsql, kind))}\n")
        if kind in QUERY_CLASSES:
            parts += [_section(code, ways, shown.get(code)) for code, ways in codes.items()]
        else:
            parts.append(_table(codes))
    return "\n".join(parts)


def _section(code: str, ways: list[Raised], example: str | None) -> str:
    lines = [f"### {code}", "", MEANINGS.get(code, UNKNOWN), ""]
    lines += [f"- Says: {reason}" for reason in _reasons(ways)]
    lines += [f"- Hint: {hint}" for hint in _hints(ways)]
    if example is not None:
        cut = example if len(example) <= WIDTH else f"{example[: WIDTH // 3]} …"
        lines += ["", "```sql", _printable(cut), "```"]
    return "\n".join([*lines, ""])


def _table(codes: dict[str, list[Raised]]) -> str:
    rows = ["| Code | Meaning | What to do |", "|---|---|---|"]
    for code, ways in codes.items():
        says = MEANINGS.get(code) or "; ".join(_reasons(ways))
        rows.append(f"| `{code}` | {says} | {'; '.join(_hints(ways))} |")
    return "\n".join([*rows, ""])


def _reasons(ways: list[Raised]) -> list[str]:
    return list(dict.fromkeys(_line(way.reason) for way in ways if way.reason != UNKNOWN))


def _hints(ways: list[Raised]) -> list[str]:
    return list(dict.fromkeys(_line(way.hint) for way in ways if way.hint not in ("", UNKNOWN)))


def _line(text: str) -> str:
    """A text on one line, with what Markdown would take for its own escaped."""
    return re.sub(r"([*_<>|\[\]])", r"\\\1", " ".join(text.split()))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
