"""Presentation of budgets: bars for all limits, the remaining amounts, and the promise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpsql.budget import BudgetReport, Guarantee
from dpsql.budget.account import POLICY, AccountReport, Limit, Spending, StreamReport
from dpsql.budget.comparison import Analysis
from dpsql.budget.forecasts import AGAIN, DEFAULTS, Forecast
from dpsql.core.formatting import percent, printable, significant
from dpsql.policy.model import ROW_PROMISE
from dpsql.present.tables import bare, indented
from dpsql.privacy.accounting.zcdp import Budget, Composition, PrivacyLoss

_ANALYSES = {
    "ledger": "what the ledger counts",
    "basic": "simple addition",
    "advanced": "advanced composition",
    "zcdp": "zCDP, nothing refunded",
    "optimal": "optimal composition",
}
_OTHERS = "as far as this account goes: others pay from the total too, and may leave less"
_PERIODS = {"day": "every day", "month": "every month"}


def budget_panel(report: BudgetReport) -> Group:
    """Show the headline, bars per account, how many more questions, and the promise."""
    parts: list[RenderableType] = [Text(headline(report), style="bold")]
    if report.suspended_above:
        text = f"{printable(report.dataset)} is {_suspended(report.suspended)}"
        parts += [Text(), Text(text, style="bold red")]
    for account in report.accounts:
        parts += [Text(), account_panel(account, _role(report, account))]
    parts += [Text(), Text("More questions", style="bold")]
    parts += [indented(_forecast(each)) for each in report.forecasts]
    if report.total:
        parts.append(indented(Text(_OTHERS, style="dim")))
    if report.streams:
        parts += [Text(), Text("Streams", style="bold")]
        parts += [indented(_stream(each)) for each in report.streams]
    if report.analyses:
        parts += [Text(), analyses_table(report.analyses)]
    return Group(*parts, Text(), promise(report))


def headline(report: BudgetReport) -> str:
    """Return the account in a line: ``42 of 500 queries · ε 0.61 of 2 · about 130 more …``."""
    nearest = report.forecasts[-1]
    asked = _asked(report.own.spent)
    if nearest.max_queries is not None:
        asked = (
            f"{report.queries:,} of {nearest.max_queries:,} queries{_estimates(report.own.spent)}"
        )
    spent = f"ε {significant(report.epsilon_spent)} of {significant(report.epsilon)}"
    suspended = ("suspended",) if report.suspended else ()
    return " · ".join((*suspended, asked, spent, _more(nearest)))


def estimate_panel(report: BudgetReport) -> Group:
    """Tell how often the question that the last forecast is for could still be asked."""
    found = report.forecasts[-1]
    delta = found.reserved.delta
    price = f"ε {significant(found.reserved.epsilon)}, δ {significant(delta)}"
    if found.reserved.rho > 0.0:
        price = f"ρ {significant(found.reserved.rho)}, δ {significant(delta)}"
    lines = [Text.assemble(("It reserves ", "bold"), price, f" of {printable(report.account)}")]
    if found.usual is not None:
        paid, held = found.usual.rho + found.usual.epsilon, found.reserved.rho
        answers = _plural(found.sample, "such answer", "such answers")
        share = percent(paid, held + found.reserved.epsilon)
        lines.append(Text(f"On average, {answers} cost {share} of that"))
    return Group(*lines, _forecast(found), Text(headline(report), style="dim"))


def account_panel(account: AccountReport, role: str = "") -> Group:
    """Show an account: its name, a bar per limit, its window and its limits."""
    note = f" ({role + ', ' if role else ''}{account.composition} composition)"
    title = Text.assemble((f"Budget of {printable(account.path)}", "bold"), (note, "dim"))
    parts: list[RenderableType] = [title]
    if account.limits:
        parts.append(indented(_bars(account)))
    if account.suspended:
        parts.append(indented(Text(_suspended(account.suspended), style="bold red")))
    parts += [indented(Text(line, style="dim")) for line in _remarks(account)]
    return Group(*parts)


def accounts_table(accounts: Sequence[AccountReport]) -> Table:
    """Show many accounts, one row each: the scarcest quantity, epsilon, number of queries."""
    table = bare()
    table.add_column("account", overflow="fold")
    table.add_column("used", no_wrap=True)
    table.add_column("ε spent", justify="right", no_wrap=True)
    table.add_column("queries", justify="right", no_wrap=True)
    older = any(account.windows > 1 for account in accounts)
    if older:
        table.add_column("over all windows", overflow="fold")
    for account in accounts:
        bound, spent = account.binding, account.spent
        used, epsilon = Text("no limit", style="dim"), significant(spent.epsilon)
        if bound is not None:
            used, epsilon = (
                _bar(_share(account), 10),
                f"{epsilon} of {significant(bound.budget.epsilon)}",
            )
        row: list[RenderableType] = [
            Text.assemble(
                printable(account.path),
                (
                    f" (was {', '.join(map(printable, account.former))})" if account.former else "",
                    "dim",
                ),
                (" suspended" if account.suspended else "", "bold red"),
            ),
            used,
            epsilon,
            f"{spent.queries:,}{_estimates(spent, ', ')}",
        ]
        if older:
            row.append(Text("" if account.windows < 2 else _worth(account.total), style="dim"))
        table.add_row(*row)
    return table


def analyses_table(analyses: Sequence[Analysis]) -> Group:
    """Show the cost of all questions by the ledger and by other theorems."""
    table = bare()
    for title in ("analysis", "ε"):
        table.add_column(title, justify="left" if title == "analysis" else "right")
    for each in analyses:
        style = "bold" if each.promised else "dim"
        cells = (_ANALYSES[each.name], significant(each.epsilon))
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return Group(
        Text(
            f"Other analyses of all questions so far, at δ {significant(analyses[0].delta)}",
            style="bold",
        ),
        indented(table),
        indented(
            Text(
                "For comparison: every question at what it reserved, as if all had been fixed "
                "beforehand. The promise rests on the first line alone.",
                style="dim",
            )
        ),
    )


def promise(report: BudgetReport) -> Text:
    """Word the guarantee in a sentence, with the figures it rests on."""
    return Text(" ".join(_promise(report)), style="dim")


# -- parts ------------------------------------------------------------------------------------


def _promise(report: BudgetReport) -> Iterator[str]:
    promise, who = report.promise, printable(report.analyst)
    if promise is None:
        yield from _without_promise(report, who)
        return
    counted = "ε and δ" if report.composition is Composition.BASIC else "ρ and δ"
    yield (
        f"The promise: {_what_is_seen(report, promise, who)} "
        f"(ε {significant(promise.epsilon)}, "
        f"δ {significant(promise.delta)})-differentially private, whatever is asked. It rests on "
        f"the limits of {counted}, which no query can pass."
    )
    if promise.views:
        own = report.own.binding
        assert own is not None, "the policy limits every analyst"
        yield (
            f"Of that, the account's own limit is {_pair(own.budget)}; the rest is the whole price "
            "of those views."
        )
    if not report.total:
        yield "A view of others that the policy shares later adds its own price."
    if promise.per_window:
        yield (
            "A window counts what is bought in it, and each view that may publish in it with its "
            "whole price. An answer that is given again belongs to the window that bought it."
        )
    if promise.periods:
        units = ", ".join(map(printable, promise.periods))
        yield f"It protects each period for itself, not all of them together, of: {units}."
    if promise.rows:
        yield f"Of {', '.join(map(printable, promise.rows))}, {ROW_PROMISE}."
    if report.total:
        yield (
            "It is about all of them, as what others were answered decides whether their total "
            f"leaves room for a question of {who}."
        )
    else:
        yield "What is spent says how much of that has been used."


def _what_is_seen(report: BudgetReport, promise: Guarantee, who: str) -> str:
    window = " of one window" if promise.per_window else ""
    if report.total:
        return f"all that all analysts together see{window} is"
    if not promise.views:
        return f"all answers{window} to {who} together are"
    views = _plural(promise.views, "view", "views")
    return (
        f"all answers{window} to {who}, and the {views} of others that may be read or were read, "
        "together are"
    )


def _without_promise(report: BudgetReport, who: str) -> Iterator[str]:
    whose = "all analysts together than their total" if report.total else f"{who} than its limit"
    yield (
        f"More was charged to {whose} now allows, so nothing more can be asked or published. The "
        "promise is that of the limit before."
    )
    bound = report.own.binding
    if not report.total and bound is not None:
        epsilon, delta = report.shown.so_far(bound.budget)
        window = " in the present window" if report.own.windows > 1 else ""
        yield f"What is seen{window} amounts to ε {significant(epsilon)} at δ {significant(delta)}."


def _pair(budget: Budget) -> str:
    return f"(ε {significant(budget.epsilon)}, δ {significant(budget.delta)})"


def _role(report: BudgetReport, account: AccountReport) -> str:
    if report.account == report.analyst:
        return ""
    return "all sessions" if account.path == report.analyst else "session"


def _bars(account: AccountReport) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=1)
    grid.add_column(min_width=8)  # gives way to figures on a narrow terminal
    grid.add_column(no_wrap=True, justify="right")
    for name, spent, limit in _quantities(account):
        grid.add_row(
            Text(name, style="bold cyan"),
            ShareBar(spent / limit if limit > 0 else 1.0),
            f"{significant(spent)} of {significant(limit)} ({percent(spent, limit)})",
        )
    return grid


def _quantities(account: AccountReport) -> Iterator[tuple[str, float, float]]:
    """Yield name, spent and limit of all that the account counts."""
    bound, delta = account.binding, account.delta_limit
    if bound is None or delta is None:
        return
    loss = account.spent.loss
    yield "ε", account.spent.epsilon, bound.budget.epsilon
    if bound.budget.composition is not Composition.BASIC:
        yield "ρ", loss.rho, bound.budget.limit.loss.rho
    yield "δ", loss.delta, delta


def _suspended(since: str) -> str:
    return (
        f"suspended since {since[:16].replace('T', ' ')} UTC: no new question is answered until "
        "the owner of the data has reopened it; what was answered before still is"
    )


def _remarks(account: AccountReport) -> Iterator[str]:
    bound, spent = account.binding, account.spent
    if bound is None:
        yield f"no limit of its own · {_worth(spent)} so far"
    elif bound.budget.composition is not Composition.BASIC:
        yield f"ε is at δ {significant(spent.delta)}, over all queries; ρ and δ add up"
    else:
        yield "ε and δ add up query by query"
    yield _queries(spent)
    if account.carried.delta or account.carried.rho or account.carried.epsilon:
        yield f"of that, {_cost(account.carried)} for views of earlier windows that go on"
    if len(account.limits) > 1:
        yield "limits: " + ", ".join(_limit(limit, bound) for limit in account.limits)
    elif bound is not None and bound.source != POLICY:
        yield "the owner's limit"
    yield from _window(account)


def _limit(limit: Limit, bound: Limit | None) -> str:
    whose = "the policy's" if limit.source == POLICY else "the owner's"
    budget = limit.budget
    text = f"{whose} ε {significant(budget.epsilon)} at δ {significant(budget.delta)}"
    return f"{text} (binds)" if limit is bound else text


def _window(account: AccountReport) -> Iterator[str]:
    if account.renews:
        since = f" since {account.opened[:10]}" if account.opened else ""
        yield f"a new window {_PERIODS[account.renews]} (UTC); the present one{since}"
    elif account.windows > 1:
        yield f"the owner opened this window on {account.opened[:10]}"
    if account.windows > 1:
        yield (
            f"over all {account.windows} windows {_worth(account.total)}, {_asked(account.total)}: "
            "the loss to think about"
        )


def _worth(spent: Spending) -> str:
    return f"ε {significant(spent.epsilon)} at δ {significant(spent.delta)}"


def _queries(spent: Spending) -> str:
    text = f"{_asked(spent)} charged"
    if spent.unsettled:
        text += (
            f", {spent.unsettled:,} of them unsettled: running, or failed after reserving, "
            "and held at the whole reservation"
        )
    return text


def _asked(spent: Spending) -> str:
    """Write ``3 queries``, or ``3 queries and 1 estimate``."""
    return _plural(spent.queries, "query", "queries") + _estimates(spent)


def _estimates(spent: Spending, between: str = " and ") -> str:
    return f"{between}{_plural(spent.looks, 'estimate', 'estimates')}" if spent.looks else ""


def _forecast(found: Forecast) -> Text:
    """Write ``the last question, fresh: 12 more at worst, about 20 at the average cost of …``."""
    names = {DEFAULTS: "at the policy's defaults", AGAIN: "the last question, fresh"}
    name = names.get(found.which, "this question")
    about = ", ".join(filter(None, (printable(found.kind), _settings(found))))
    text = Text.assemble((name, "bold cyan"), (f" ({about})" if about else "", "dim"), ": ")
    if found.at_worst is None:
        return text.append("any number")
    text.append(f"{found.at_worst:,} more at worst")
    if found.about not in (None, found.at_worst):
        answers = _plural(found.sample, "such answer", "such answers")
        text.append(f", about {found.about:,} at the average cost of {answers}")
    if found.max_queries is not None:
        text.append(f"; δ allows {found.max_queries:,} queries in all", style="dim")
    return text


def _stream(found: StreamReport) -> Text:
    """Write ``visits: 12 of 365 steps published; ρ 0.01, δ 1e-08 paid for all``."""
    return Text.assemble(
        (printable(found.name), "bold cyan"),
        f": {found.published:,} of {found.steps:,} steps published",
        (f"; {_cost(found.charged)} paid for all", "dim"),
    )


def _cost(loss: PrivacyLoss) -> str:
    cost = f"ρ {significant(loss.rho)}" if loss.rho else f"ε {significant(loss.epsilon)}"
    return f"{cost}, δ {significant(loss.delta)}"


def _settings(found: Forecast) -> str:
    pairs = (f"ε {significant(e)}, δ {significant(d)}" for e, d in dict.fromkeys(found.settings))
    return " + ".join(pairs)


def _more(found: Forecast) -> str:
    """Write ``about 130 more like the last (top-10 of flights)``, or the worst case.

    "About" is for estimates alone: the worst case is a bound.
    """
    kind = {DEFAULTS: "at the policy's defaults", AGAIN: "like the last"}.get(
        found.which, "like it"
    )
    kind += f" ({printable(found.kind, 40)})" if found.kind else ""
    if found.at_worst is None:
        return f"any number more {kind}"
    if found.about is None:
        return f"{found.at_worst:,} more {kind}, at worst"
    about = "" if found.about == found.at_worst else "about "
    return f"{about}{found.about:,} more {kind}"


def _share(account: AccountReport) -> float:
    """Return how much is used of what is nearest to its end."""
    return max((s / m if m > 0 else 1.0 for _, s, m in _quantities(account)), default=0.0)


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A bar that is ``share`` full: never empty once something is spent, and never overfull."""

    share: float

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(8, 24)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _bar(self.share, min(24, options.max_width))


def _bar(share: float, width: int) -> Text:
    full = min(width, math.ceil(min(1.0, share) * width))
    colour = "green" if share < 0.5 else "yellow" if share < 0.9 else "red"
    return Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"))


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
