"""Presentation of plans: price, mechanism, candidates, noise and generated SQL."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import figure_above, ordinal, percent, printable, several, significant
from dpsql.ir.plan import ColumnFigure, Maker
from dpsql.kinds.summary import COUNTED
from dpsql.policy.limits import Limits, ResourceFailures
from dpsql.present.tables import indented, pairs, titled
from dpsql.privacy.mechanisms.selection import UtilityBound
from dpsql.results.explanation import BlockExplanation, Explanation, StreamFigures
from dpsql.syntax.text import pretty

MAX_SQL = 20_000
PRIVATE_SQL, ESTIMATE, PUBLIC_TAIL = "Private SQL", "Estimate", "Public tail"
"""Headings of the parts that hold SQL."""
MAX_RATED = 4
"""How many aggregates the exchange rate is shown for."""


def explanation_panel(explanation: Explanation) -> Group:
    """Draw the output of EXPLAIN: price, then each private block; then SQL, if it is asked for."""
    blocks = explanation.blocks
    parts: list[RenderableType] = [_prices(explanation)] if blocks or not explanation.tail else []
    for number, block in enumerate(blocks, start=1):
        which = f" {number} of {len(blocks)}" if len(blocks) > 1 else ""
        parts += _block_parts(block, f"Private block{which}")
        if explanation.shows_sql:
            parts += _statements(block)
    if not explanation.shows_sql:
        if explanation.tail and not blocks:
            parts.append(Text("This question reads no private table, costs nothing."))
        parts += [indented(Text(COUNTED), above=1)] * any(block.counted for block in blocks)
        parts.append(Text("\nEXPLAIN (SQL) SELECT … shows the statements that run", style="dim"))
    elif explanation.tail:
        sees = "sees released rows only" if blocks else "reads no private table"
        parts += [_heading(PUBLIC_TAIL, f"{sees}, costs nothing")]
        if any(block.counted for block in blocks):
            parts.append(indented(Text(COUNTED)))
        parts += [sql_panel(_laid_out(explanation.tail))]
    return Group(*parts)


def sql_panel(sql: str) -> RenderableType:
    """Show SQL with its syntax highlighted, on the terminal's own background."""
    from rich.syntax import Syntax  # and pygments, which answers do without

    text = "\n".join(printable(line) for line in sql.split("\n"))
    syntax = Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True)
    return indented(syntax)


def _laid_out(sql: str) -> str:
    """Lay out generated SQL for reading, unless it holds a domain of thousands of values."""
    return pretty(sql) if len(sql) <= MAX_SQL else sql


def _heading(title: str, note: str = "") -> Text:
    text = Text(f"\n{title}", style="bold")
    return text.append(f"  {note}", style="not bold dim") if note else text


def _prices(explanation: Explanation) -> Table:
    reserved = explanation.reserved
    # What estimates cost is paid in full, whatever comes out.
    given_back = sum(block.reserved.rho - block.least.rho for block in explanation.blocks)
    least = reserved.rho - given_back
    delta = reserved.delta + explanation.conversion_delta
    grid = pairs()
    price = f"ε {significant(explanation.reserved_epsilon)} at δ {significant(delta)}"
    if reserved.rho > 0:
        price += f"   (ρ {significant(reserved.rho)}, δ {significant(reserved.delta)})"
    if explanation.taken is not None:
        share = percent(explanation.taken, 1.0) if explanation.taken <= 1 else "more than all"
        price += f", {share} of {explanation.taken_from}"
    if explanation.answered is not None:
        day = explanation.answered[:10]
        _row(grid, "Costs", f"nothing: it was answered on {day}. Asked afresh, it costs as follows")
    elif explanation.only_released:
        text = "nothing: a stored release answers it. From the rows it costs as follows"
        refused = (
            "refused: no stored release answers it. With answer_from = rows it costs as follows"
        )
        _row(grid, "Costs", refused if explanation.follows is None else text)
    if explanation.clock:
        _row(grid, "Clock", explanation.clock)
    if explanation.answers_first:
        many = explanation.answers_first > 1
        text = f"{explanation.answers_first} subquer{'ies' if many else 'y'} are answered"
        text = text if many else text.replace(" are ", " is ")
        text += " first and listed first; figures of the rest depend on what is released"
        _row(grid, "First", text)
    if explanation.anew:
        _row(grid, "Anew", explanation.anew)
    if explanation.price_open:
        first = "the bounds that are found first"
        if explanation.cheapest is not None:
            first += f", from ε {figure_above(explanation.cheapest)}"
        price += (
            f"; more or less with {first}. If these take more than can be spent, it is answered at "
            "the epsilon in force, with wider intervals"
        )
    _row(grid, "Reserves", price)
    if given_back > 0:
        text = f"at least ρ {significant(least)}: the fewer groups come out, the less it costs"
    else:
        text = "all of it, whatever comes out"
    _row(grid, "Pays", text)
    if explanation.delta_buys is not None:
        bought = explanation.delta_buys
        text = f"the account's δ is for {several(bought, 'such question')} in all"
        _row(grid, "δ", text)
    if explanation.earlier:
        _row(grid, "Pools", _pooled(explanation))
    if explanation.follows is not None and not explanation.only_released:
        text = "of a stored release, for nothing, with answer_from = released"
        _row(grid, "Roll-up", f"{text}: then values are within the last column")
    if explanation.limits is not None:
        _row(grid, "Limits", _limits(explanation.limits))
    return grid


def _pooled(explanation: Explanation) -> str:
    """Name the releases that a new release would be pooled with."""
    how = "with fresh and combine = all, " if explanation.answered is not None else ""
    earlier = explanation.earlier
    which = "the earlier release" if earlier == 1 else f"{earlier} earlier releases"
    return f"{how}with {which} of this question: then values are within what stands last"


def _limits(limits: Limits) -> str:
    """Word the limits on a query's work, and the account's state beyond them."""
    memory = "" if limits.memory is None else f" and {limits.memory} of memory"
    kept = limits.resource_failures is ResourceFailures.KEEP
    then = "what is reserved stays spent" if kept else "the account is suspended"
    return f"{limits.seconds:g} seconds{memory}; beyond them it fails, and {then}"


def _block_parts(block: BlockExplanation, title: str) -> list[RenderableType]:
    grid = pairs()
    _row(grid, "Table", f"{block.table}, protecting every {block.privacy_unit}")
    _row(grid, "Mechanism", f"{block.mechanism}  ({block.source})")
    _row(grid, "Bounding", block.bounding)
    if in_numpy(block):
        _row(grid, "Bounded", f"in {block.maker}")
    if block.stream is not None:
        _row(grid, "Steps", f"{block.stream.lasting}; {block.stream.covered}")
        if block.stream.choices:
            _row(grid, "Choices", block.stream.choices)
    if block.groups_chosen:
        _row(grid, "Chosen", f"max_groups_contributed is {block.groups_chosen}")
    if block.keys:
        _row(grid, "Keys", "; ".join(block.keys))
    elif block.appears_half is not None:
        _row(grid, "Keys", "found in the rows: a group comes out if it is large enough")
    for told in block.declared:
        _row(grid, "Decided", told)
    _row(grid, "Groups", _appearance(block))
    if block.follows:
        _row(grid, "Roll-up", f"values would be {block.follows}")
    if block.utility_bound is not None and block.limit is not None:
        _row(grid, "Utility", _utility(block, block.utility_bound, block.limit))
    parts: list[RenderableType] = [_heading(title), indented(grid)]
    if block.stream is not None:
        parts.append(indented(_stream_table(block, block.stream), above=1))
    elif block.columns:
        parts.append(indented(_noise_table(block), above=1))
    if block.steps:
        parts.append(indented(_step_table(block), above=1))
    if block.left_out:
        parts.append(indented(_left_out_table(block), above=1))
    if len(block.rates) > 1:
        parts.append(indented(_rate_table(block), above=1))
    if len(block.candidates) > 1:
        parts.append(indented(_candidate_table(block), above=1))
    return parts


def in_numpy(block: BlockExplanation) -> bool:
    """Tell whether contributions are bounded outside of SQL."""
    return block.maker.startswith(Maker.NUMPY.value)


def _statements(block: BlockExplanation) -> list[RenderableType]:
    """Show the generated SQL of a private block, and of its estimates."""
    which = "the only statement that reads protected rows"
    if block.stream is not None:
        which = "what the first step reads; each reads up to its own end"
    if block.steps:
        which = "the stage with a round, the first of the statements that read protected rows"
    if in_numpy(block):
        which = "what bounds in SQL; NumPy reads the rows of its innermost SELECT, to the same end"
    estimates = list(dict.fromkeys(figure.sql for figure in block.left_out if figure.sql))
    if estimates:
        which = which.replace(
            "the only statement that reads",
            "over rows that the estimates below share with it, all that reads",
        )
    parts: list[RenderableType] = [_heading(PRIVATE_SQL, which), sql_panel(_laid_out(block.sql))]
    for sql in estimates:
        note = "what bounding leaves out, read where the account does not know it yet"
        parts += [_heading(ESTIMATE, note), sql_panel(_laid_out(sql))]
    return parts


def _appearance(block: BlockExplanation) -> str:
    small = _left_out(block)
    if block.appears_half is None or block.appears_95 is None:
        return small or "all are answered, whether they hold rows or not"
    half, high = significant(block.appears_half), significant(block.appears_95)
    base = "" if block.base_rank is None else f" above the {ordinal(block.base_rank)} largest group"
    text = f"one appears half the time at {half} {_score(block)}{base}, 95% of the time at {high}"
    return f"{text}; {small}" if small else text


def _left_out(block: BlockExplanation) -> str:
    """Say which declared groups are too small to come out; empty where none is."""
    if block.least_units is None or block.units_95 is None:
        return ""
    return (
        f"those of fewer than {block.least_units:,} noisy units are left out: one of "
        f"{block.least_units:,} comes out half the time, one of {significant(block.units_95)} 95% "
        "of the time"
    )


def _score(block: BlockExplanation) -> str:
    return "units" if block.score is None else block.score


def _utility(block: BlockExplanation, bound: UtilityBound, k: int) -> str:
    """Say how good the ranking is, in one sentence."""
    score, wanted = _score(block), ordinal(k)
    worst = f"none comes out that has {significant(bound.shortfall)} {score} less than the {wanted}"
    if bound.shortfall == 0:
        worst = f"none but the {k:,} largest come out"
    every = f"{k:,} always come out"
    if bound.gap is not None and block.base_rank is not None:
        ahead = f"is {significant(bound.gap)} {score} above the {ordinal(block.base_rank)}"
        every = f"all {k:,} come out if the {wanted} {ahead}"
    return f"with probability {1 - bound.beta:.0%}, {worst}; {every}"


def _noise_table(block: BlockExplanation) -> Table:
    pooled = any(column.together95 is not None for column in block.columns)
    rolled_up = any(column.follows95 is not None for column in block.columns)
    last = ("pooled",) * pooled + ("rolled up",) * rolled_up
    table = titled(
        "Noise on", "distribution", "scale", "std", "95% within", *last, right=(2, 3, 4, 5, 6)
    )
    for column in block.columns:
        cells = column.aggregate, column.noise, column.noise_scale, column.noise_std
        joined, added = _within(column.together95), _within(column.follows95)
        _row(table, *cells, _margin(column), *(joined,) * pooled, *(added,) * rolled_up)
    return table


def _stream_table(block: BlockExplanation, stream: StreamFigures) -> Table:
    """Draw the standard deviations of noise by step, beside those of other ways to ask."""
    steps = [f"step {step:,}" for step in stream.steps]
    last = len(steps) + 4
    table = titled(
        "Noise std of", "distribution", *steps, "asked once", "each step", right=range(2, last)
    )
    for figure in stream.noises:
        _row(table, figure.measure, figure.noise, *figure.stds, figure.once, figure.repeated)
    if stream.thresholds is not None:
        shown = [f"> {threshold:,.0f}" for threshold in stream.thresholds]
        _row(table, f"groups by {_score(block)}", "threshold", *shown, "", "")
    return table


def _step_table(block: BlockExplanation) -> Table:
    table = titled("Steps", "ρ", "δ", "noise std", "threshold", right=(1, 2, 3, 4))
    for step in block.steps:
        thresholds = " to ".join(map(significant, step.thresholds or ()))
        _row(table, step.step, step.rho, step.delta or None, step.noise_std, thresholds)
    return table


def _left_out_table(block: BlockExplanation) -> Table:
    table = titled("Left out of", "told", "caused by", "price", "std in units", right=(3, 4))
    for figure in block.left_out:
        loss = figure.loss
        price = f"ρ {significant(loss.rho)}" if loss.rho else f"ε {significant(loss.epsilon)}"
        said = (price, figure.noise_std) if figure.sql else ("", "")
        told = "an estimate" if figure.sql else figure.status
        _row(table, figure.aggregate, told, ", ".join(figure.limits), *said)
    return table


def _margin(column: ColumnFigure) -> str:
    if column.margin95 is None:
        return "depends on the count"
    if column.resolution is None:
        return f"± {significant(column.margin95)}"
    size = f"{column.resolution:.1%} of the value" if column.relative else ""
    steps = size or significant(column.resolution)
    target = "" if column.beyond is None else f"{column.beyond:,} rows from the end, "
    return f"{target}± {significant(column.margin95)} ranks, in steps of {steps}"


def _rate_table(block: BlockExplanation) -> Table:
    """Draw a table of epsilons and the errors they buy, with the block's own."""
    rated = [i for i, margin in enumerate(block.rates[0].margins) if margin is not None]
    shown = rated[:MAX_RATED]
    names = [printable(block.columns[index].aggregate) for index in shown]
    table = titled("With epsilon", *names, right=range(1, len(names) + 1))
    for rate in block.rates:
        margins = [f"± {figure_above(rate.margins[index] or 0.0)}" for index in shown]
        own = rate.epsilon == block.epsilon
        note = " (this query)" if own else ""
        _row(table, f"{significant(rate.epsilon)}{note}", *margins, style="" if own else "dim")
    return table


def _candidate_table(block: BlockExplanation) -> Table:
    table = titled("Candidates", "threshold", "noise std", "verdict", right=(1, 2))
    for candidate in block.candidates:
        threshold = "" if candidate.threshold is None else significant(candidate.threshold)
        plus = "base + " if candidate.relative and threshold else ""
        verdict = ("✓ " if candidate.chosen else "  ") + candidate.verdict
        cells = candidate.mechanism, plus + threshold, candidate.noise_std, verdict
        _row(table, *cells, style="" if candidate.chosen else "dim")
    return table


def _within(reach: float | None) -> str:
    return "" if reach is None else f"± {figure_above(reach)}"


def _row(table: Table, *cells: str | float | None, style: str = "") -> None:
    """Add texts and figures, or blanks: rich would read markup in plain strings."""
    texts = ("" if cell is None else _text(cell) for cell in cells)
    table.add_row(*map(Text, texts), style=style)


def _text(cell: str | float) -> str:
    return printable(cell) if isinstance(cell, str) else significant(cell)
