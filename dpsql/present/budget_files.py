"""Budgets and ledgers for other programs: JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from itertools import islice
from typing import Any

from dpsql.budget import BudgetReport, Seen
from dpsql.budget.account import AccountReport, Limit, Spending
from dpsql.budget.forecasts import Forecast
from dpsql.budget.question import LoggedQuery, read_record
from dpsql.core.formatting import json_text, upper_figures
from dpsql.ledger import Entry, Event, Head, RenamedAccount, Verification, cause_of
from dpsql.privacy.accounting.zcdp import Amount, PrivacyLoss

_CONTROLS = re.compile(r"[\x7f-\x9f]")

PIECE = 1000
"""How many rows are made into text at once."""

ENTRY_COLUMNS = (
    *("entry", "created", "who", "account", "statement", "values", "tables", "mechanisms"),
    *("reserved_rho", "reserved_epsilon", "reserved_delta", "settled"),
    *("charged_rho", "charged_epsilon", "charged_delta", "stored", "query", "failed"),
    *("stream", "steps", "begun", "published", "dropped", "kind"),
)
ACCOUNT_COLUMNS = (
    *("account", "composition", "epsilon_spent", "rho_spent", "delta_spent", "queries"),
    *("unsettled", "epsilon_limit", "rho_limit", "delta_limit", "limit_source", "renews"),
    *("opened", "windows", "epsilon_total", "delta_of_epsilon_total", "queries_total"),
    *("suspended", "looks", "looks_total", "former"),
)


def budget_json(report: BudgetReport) -> str:
    """Return a budget as JSON: the analyst's figures, all accounts, forecasts and analyses.

    Its figures are rounded up; those of single questions and of exports are the ledger's own.
    """
    names = (
        *("account", "composition", "epsilon", "delta", "rho_limit", "delta_limit", "rho_spent"),
        *("delta_spent", "epsilon_spent", "queries", "looks", "unsettled"),
        *("epsilon_remaining", "rho_remaining", "delta_remaining"),
    )
    found = (
        _named(report, *names)
        | {"analyst": report.analyst, "suspended": report.suspended or None}
        | {"promise": None if report.promise is None else asdict(report.promise)}
        | {"shown": _shown(report.shown)}
        | {"total": report.total}
        | {"accounts": [account_dict(account) for account in report.accounts]}
        | {"forecasts": [_forecast(each) for each in report.forecasts]}
        | {"analyses": [asdict(each) for each in report.analyses]}
        | {"streams": [asdict(s) | {"charged": _loss(s.charged)} for s in report.streams]}
    )
    return to_json(upper_figures(found))


def _shown(shown: Seen) -> dict[str, Any]:
    parts = {"bought": shown.bought, "carried": shown.carried, "shared": shown.shared}
    return {name: _loss(part.loss) for name, part in parts.items()} | {"views": shown.views}


def account_dict(account: AccountReport) -> dict[str, Any]:
    """Return one account's figures; ``left`` is null without limits."""
    left = account.left
    return {
        **_named(account, "path", "composition"),
        "limits": [_limit(limit, account) for limit in account.limits],
        "spent": _spending(account.spent),
        "total": _spending(account.total),
        "left": None if left is None else _loss(left),
        "carried": _loss(account.carried),
        **_named(account, "renews", "period", "opened", "windows", "suspended", empty=None),
        "former": list(account.former),
    }


def account_row(account: AccountReport) -> list[object]:
    """Return the cells of ``ACCOUNT_COLUMNS``, with the limits that bind."""
    spent, total, bound = account.spent, account.total, account.binding
    limits: list[object] = [None] * 4
    if bound is not None:
        budget = bound.budget
        limits = [budget.epsilon, budget.limit.loss.rho, account.delta_limit, bound.source]
    own = (account.path, str(account.composition), spent.epsilon, spent.loss.rho, spent.loss.delta)
    return [
        *(*own, spent.queries, spent.unsettled, *limits),
        *(account.renews, account.opened, account.windows),
        *(total.epsilon, total.delta, total.queries, account.suspended),
        *(spent.looks, total.looks, "; ".join(account.former)),
    ]


def entry_dict(entry: Entry) -> dict[str, Any]:
    """Return one question of the ledger; ``settled`` and ``charged`` are null until settled.

    ``kind`` tells what was asked once, a query, from an estimate beside one, and from a stream, of
    which ``stream`` says how far it is.
    """
    return {
        "kind": _kind(entry, read_record(entry.plan)),
        **_named(entry, "entry", "created", "who", "account", "query"),
        "plan": _plan(entry.plan),
        "reserved": _amount(entry.reserved),
        "settled": entry.settled,
        "charged": None if entry.charged is None else _amount(entry.charged),
        **_named(entry, "stored", "failed"),
        "stream": None if entry.stream is None else asdict(entry.stream),
    }


def entry_row(entry: Entry) -> list[object]:
    """Return the cells of ``ENTRY_COLUMNS``."""
    asked, reserved = read_record(entry.plan), entry.reserved.loss
    charged: list[object] = [None] * 3
    if entry.charged is not None:
        charged = [entry.charged.loss.rho, entry.charged.loss.epsilon, entry.charged.loss.delta]
    return [
        *(entry.entry, entry.created, entry.who, entry.account, asked.statement),
        "; ".join(asked.values),
        " + ".join(dict.fromkeys(block.table for block in asked.blocks)),
        " + ".join(dict.fromkeys(block.mechanism for block in asked.blocks)),
        *(reserved.rho, reserved.epsilon, reserved.delta, entry.settled, *charged),
        *(entry.stored, entry.query, entry.failed),
        *([None] * 5 if entry.stream is None else astuple(entry.stream)),
        _kind(entry, asked),
    ]


def _kind(entry: Entry, asked: LoggedQuery) -> str:
    if entry.stream is not None:
        return "stream"
    return "look" if asked.is_estimate else "query"


def suspension_dict(event: Event) -> dict[str, Any]:
    """Return an account's suspension, or its end.

    ``entry`` is the question that failed, if one did; or ``stream`` that of the ``step`` that did.
    """
    told = _named(event, "kind", "time", "who", "account", "entry", "stream")
    return {"event": event.seq, **told, "step": event.step or None, "cause": cause_of(event)}


def verification_dict(found: Verification, anchors: Sequence[Head]) -> dict[str, Any]:
    """Return the result of a verification; ``place`` is the first broken event's number, if any."""
    return {
        **_named(found, "sound", "events"),
        "head": None if found.head is None else str(found.head),
        **_named(found, "broken", "place"),
        "anchors": [str(anchor) for anchor in anchors],
    }


def ledger_json(
    head: Head,
    accounts: Sequence[AccountReport],
    suspensions: Sequence[Event],
    renames: Sequence[RenamedAccount],
    entries: Iterable[Entry],
) -> Iterator[str]:
    """Return a whole ledger as JSON, in pieces.

    Its head, its accounts, when these were suspended and renamed, and its entries from the newest
    on.
    """
    start = to_json(
        {
            "head": str(head),
            "accounts": [account_dict(each) for each in accounts],
            "suspensions": [suspension_dict(each) for each in suspensions],
            "renames": [asdict(each) for each in renames],
        }
    )
    yield start.removesuffix("\n}") + ',\n  "entries": ['
    between = "\n"
    for page in _pages(entries):
        yield between + ",\n".join(f"    {to_json(entry_dict(e), None)}" for e in page)
        between = ",\n"
    yield "\n  ]\n}\n"


def csv_pieces(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield CSV in pieces, which together are :func:`to_csv`."""
    yield to_csv(columns, ())
    for page in _pages(rows):
        yield to_csv((), page)


def _pages(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while page := list(islice(rest, PIECE)):
        yield page


def to_json(value: object, indent: int | None = 2) -> str:
    """Write a value as JSON text; what is not finite is null.

    Control characters of 8 bits are escaped like others: people wrote some texts, others read them,
    and a terminal obeys these.
    """
    text = _unicode(json_text(value, indent))
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a header, unless ``columns`` is empty, and the rows; None as nothing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if columns:
        writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return _unicode(buffer.getvalue())


def _plan(text: str) -> Any:
    """Read a plan as a value; None for JSON that cannot be written again, as any too deep."""
    try:
        plan = json.loads(text)
        to_json([[[[plan]]]])
    except (ValueError, RecursionError):
        return None
    return plan


def _limit(limit: Limit, account: AccountReport) -> dict[str, Any]:
    budget = limit.budget
    return {
        "source": limit.source,
        **_named(budget, "epsilon", "delta", "composition"),
        "binds": limit is account.binding,
        "queries": _loss(budget.limit.loss),
    }


def _spending(spent: Spending) -> dict[str, Any]:
    costs = {"epsilon": spent.epsilon, "at_delta": spent.delta, "charged": _loss(spent.loss)}
    return costs | _named(spent, "queries", "looks", "unsettled")


def _forecast(found: Forecast) -> dict[str, Any]:
    usual = found.usual
    return asdict(found) | {
        "settings": [{"epsilon": e, "delta": d} for e, d in found.settings],
        "reserved": _loss(found.reserved),
        "usual": None if usual is None else _loss(usual),
    }


def _named(value: object, *names: str, empty: object = "") -> dict[str, Any]:
    """Return attributes by name; ``empty`` stands for empty texts."""
    found = {name: getattr(value, name) for name in names}
    return {name: empty if each == "" else each for name, each in found.items()}


def _loss(loss: PrivacyLoss) -> dict[str, float]:
    return {"epsilon": loss.epsilon, "rho": loss.rho, "delta": loss.delta}


def _amount(amount: Amount) -> dict[str, Any]:
    """Return a cost as numbers, and exactly: in ledger units."""
    units = dict(zip(("rho", "epsilon", "delta", "gaussian"), amount.units, strict=True))
    return _loss(amount.loss) | {"units": units}


def _cell(value: object) -> object:
    """Quote by an apostrophe a text that a spreadsheet would run as a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _unicode(text: str) -> str:
    """Escape lone surrogates, which no file can hold: in JSON they mean the same."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
