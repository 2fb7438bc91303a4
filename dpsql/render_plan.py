"""How a plan looks: price, mechanism, candidates, noise and the SQL it runs."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dpsql.explain import BlockExplanation, Explanation
from dpsql.figures import printable, significant
from dpsql.sql.text import pretty

INDENT = 2
MAX_SQL = 20_000


def explanation_panel(explanation: Explanation) -> Group:
    """What EXPLAIN prints: price, then each private block, then the public tail."""
    blocks = explanation.blocks
    parts: list[RenderableType] = [_prices(explanation)]
    for number, block in enumerate(blocks, start=1):
        which = f" {number} of {len(blocks)}" if len(blocks) > 1 else ""
        parts += _block_parts(block, f"Private block{which}")
    parts += [_heading("Public tail", "sees released rows only, costs nothing")]
    parts += [sql_panel(_laid_out(explanation.tail))]
    return Group(*parts)


def sql_panel(sql: str) -> RenderableType:
    """SQL with its syntax highlighted, on the terminal's own background."""
    text = "\n".join(printable(line) for line in sql.split("\n"))
    syntax = Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True)
    return Padding(syntax, (0, 0, 0, INDENT))


def _laid_out(sql: str) -> str:
    """Generated SQL for reading; a declared domain of thousands of values is cut short."""
    return pretty(sql) if len(sql) <= MAX_SQL else f"{sql[: MAX_SQL // 10]} …"


def _heading(title: str, note: str = "") -> Text:
    text = Text(f"\n{title}", style="bold")
    return text.append(f"  {note}", style="not bold dim") if note else text


def _prices(explanation: Explanation) -> Table:
    reserved = explanation.reserved
    least = sum(block.least.rho for block in explanation.blocks)
    delta = reserved.delta + explanation.conversion_delta
    grid = _grid()
    _row(
        grid,
        "Reserves",
        f"ε {significant(explanation.reserved_epsilon)} at δ {significant(delta)}"
        f"   (ρ {significant(reserved.rho)}, δ {significant(reserved.delta)})",
    )
    if least < reserved.rho:
        text = f"at least ρ {significant(least)}: the fewer groups come out, the less it costs"
    else:
        text = "all of it, whatever comes out"
    _row(grid, "Pays", text)
    return grid


def _block_parts(block: BlockExplanation, title: str) -> list[RenderableType]:
    grid = _grid()
    _row(grid, "Table", f"{block.table}, protecting every {block.privacy_unit}")
    _row(grid, "Mechanism", f"{block.mechanism}  ({block.source})")
    _row(grid, "Bounding", block.bounding)
    _row(grid, "Groups", _appearance(block))
    parts: list[RenderableType] = [_heading(title), Padding(grid, (0, 0, 0, INDENT))]
    if block.columns:
        parts.append(Padding(_noise_table(block), (1, 0, 0, INDENT)))
    parts.append(Padding(_candidate_table(block), (1, 0, 0, INDENT)))
    parts += [_heading("Private SQL", "the only statement that reads protected rows")]
    return [*parts, sql_panel(_laid_out(block.sql))]


def _appearance(block: BlockExplanation) -> str:
    if block.appears_half is None or block.appears_95 is None:
        return "all are answered, whether they hold rows or not"
    half, high = significant(block.appears_half), significant(block.appears_95)
    score = "units" if block.score is None else block.score
    base = " above the (k_bar+1)-th largest group" if block.relative else ""
    return f"one appears half the time at {half} {score}{base}, 95% of the time at {high}"


def _noise_table(block: BlockExplanation) -> Table:
    table = _figures("Noise on", "distribution", "scale", "std", "95% within")
    for column in block.columns:
        _row(
            table,
            column.aggregate,
            column.noise,
            significant(column.noise_scale),
            "" if column.noise_std is None else significant(column.noise_std),
            "depends on the count"
            if column.margin95 is None
            else f"± {significant(column.margin95)}",
        )
    return table


def _candidate_table(block: BlockExplanation) -> Table:
    table = _figures("Candidates", "threshold", "noise std", "verdict", words=(0, 3))
    for candidate in block.candidates:
        threshold = "" if candidate.threshold is None else significant(candidate.threshold)
        plus = "base + " if candidate.relative and threshold else ""
        _row(
            table,
            candidate.mechanism,
            plus + threshold,
            "" if candidate.noise_std is None else significant(candidate.noise_std),
            ("✓ " if candidate.chosen else "  ") + candidate.verdict,
            style="" if candidate.chosen else "dim",
        )
    return table


def _row(table: Table, *cells: str, style: str = "") -> None:
    """A row of texts: rich would read markup in plain strings, and names may look like it."""
    table.add_row(*(Text(printable(cell)) for cell in cells), style=style)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _figures(*titles: str, words: tuple[int, ...] = (0, 1)) -> Table:
    """A small table of figures; ``words`` are the columns that hold text."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        table.add_column(title, justify="left" if index in words else "right", overflow="fold")
    return table
