"""Presentation of the ledger: questions with author and price, and the state of the chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from dpsql.budget.question import AskedBlock, LoggedQuery, read_record
from dpsql.core.formatting import percent, printable, significant
from dpsql.ledger import (
    LEFT_OUT_MECHANISM,
    Cause,
    Entry,
    Event,
    Kind,
    RenamedAccount,
    StreamProgress,
    Verification,
    cause_of,
)
from dpsql.policy.parameters import PARAMETERS, Parameters
from dpsql.present.tables import indented
from dpsql.privacy.accounting.zcdp import Amount

MAX_SHOWN_STATEMENT = 1000
_UNLIMITED = frozenset(spec.name for spec in PARAMETERS.values() if spec.unlimited)
_USUAL = (  # of which nothing needs to be said; compared, as a ledger may hold anything
    ("left_out_share", Parameters().left_out_share),
    ("answer_from", Parameters().answer_from),
)


def history_panel(
    entries: Sequence[Entry],
    suspensions: Sequence[Event] = (),
    renames: Sequence[RenamedAccount] = (),
) -> Group:
    """Show questions, newest first: author, time, statement, mechanism and cost.

    Among them, when accounts were suspended, reopened and renamed.
    """
    found = [(entry.entry, list(_entry(entry))) for entry in entries]
    found += [(event.seq, list(_suspension(event))) for event in suspensions]
    found += [(each.event, list(_renaming(each))) for each in renames]
    parts: list[RenderableType] = []
    for _, lines in sorted(found, key=lambda each: each[0], reverse=True):
        parts += [*([Text()] if parts else []), *lines]
    return Group(*parts)


def verification_panel(found: Verification, anchors: int) -> Group:
    """Tell whether the ledger is sound, and how far, or name the first broken place."""
    events = f"{found.events:,} event{'' if found.events == 1 else 's'}"
    if not found.sound:
        place = "" if found.place is None else f" at event {found.place:,}"
        lines = [Text.assemble(("broken", "bold red"), (f"{place}: {found.broken}", "bold"))]
        lines.append(Text(f"The {events} before are sound." if found.events else "Nothing before."))
        lines.append(Text("hint: restore the ledger from a backup no older than the last query"))
        return Group(*lines)
    lines = [Text.assemble(("sound", "bold green"), f": {events}, all sums and all limits")]
    lines.append(Text(f"head: {found.head}"))
    if anchors:
        kept = "the head that was" if anchors == 1 else f"all {anchors:,} heads that were"
        lines.append(Text(f"The chain goes on from {kept} written down."))
    else:
        lines.append(
            Text(
                "No head was given: an older copy that was put back would not be noticed, nor a "
                "chain that was rewritten as a whole. Write this one down, and give it next time.",
                style="dim",
            )
        )
    return Group(*lines)


def _entry(entry: Entry) -> Iterator[RenderableType]:
    asked = read_record(entry.plan)
    yield _title(entry.entry, entry.created, entry.account, entry.who)
    if entry.stream is not None:
        yield indented(Text(_stream(entry.stream), style="bold"))
    statement = " ".join(asked.statement.split())
    unknown = "an estimate beside a question" if asked.is_estimate else "the statement was not kept"
    yield indented(Text(printable(statement, MAX_SHOWN_STATEMENT) or unknown))
    if asked.values:
        yield indented(Text(f"with {printable('; '.join(asked.values), MAX_SHOWN_STATEMENT)}"))
    if asked.blocks:
        how = " + ".join(dict.fromkeys(map(_how, asked.blocks)))
        yield indented(Text(printable(how, MAX_SHOWN_STATEMENT), style="dim"))
    yield indented(_price(entry, asked))


def _stream(stream: StreamProgress) -> str:
    """Write ``stream visits: 12 of 365 steps published``."""
    name, steps = printable(stream.name, MAX_SHOWN_STATEMENT), f"{stream.steps:,} steps published"
    dropped = ", dropped" if stream.dropped else ""
    return f"stream {name}: {stream.published:,} of {steps}{dropped}"


def _failed(event: Event) -> str:
    if event.stream is None:
        return f"question #{event.entry}"
    return f"step {event.step:,} of stream #{event.stream}"


def _suspension(event: Event) -> Iterator[RenderableType]:
    yield _title(event.seq, event.time, event.account, event.who)
    said = {
        Kind.FAILURE: f"suspended: the engine failed on {_failed(event)} ({_cause(event)})",
        Kind.SUSPEND: "suspended by the owner",
        Kind.REOPEN: "reopened by the owner",
    }
    style = "green" if event.kind == Kind.REOPEN else "bold red"
    yield indented(Text(said.get(Kind(event.kind), event.kind), style=style))


def _renaming(found: RenamedAccount) -> Iterator[RenderableType]:
    yield _title(found.event, found.time, found.given, found.who)
    yield indented(Text(f"renamed by the owner: it was {printable(found.former)}", style="bold"))


def _cause(event: Event) -> str:
    told = {Cause.TIME: "its limit of time", Cause.MEMORY: "its limit of memory"}
    cause = cause_of(event)
    return told.get(Cause(cause), "an error") if cause in set(Cause) else "for an unknown reason"


def _title(number: int, time: str, account: str, who: str) -> Text:
    return Text.assemble(
        (f"#{number}", "bold cyan"),
        f"  {time[:19].replace('T', ' ')}  {printable(account)}",
        (f"  as {printable(who)}", "dim"),
    )


def _how(block: AskedBlock) -> str:
    """Write ``top-10 of flights by gumbel_top_k, at ε 0.5, δ 1e-08, max_groups_contributed 10``."""
    if block.mechanism == LEFT_OUT_MECHANISM:
        return f"{LEFT_OUT_MECHANISM}: what bounding leaves out"
    top = "" if block.limit is None else f"top-{block.limit} of "
    numbers = [
        f"{sign} {significant(value)}"
        for sign, name in (("ε", "epsilon"), ("δ", "delta"))
        if (value := block.number(name)) is not None
    ]
    others = [
        f"{name} {'unlimited' if value is None else value}"
        for name, value in block.parameters.items()
        if name not in ("epsilon", "delta")
        and (name, value) not in _USUAL
        and (isinstance(value, str | int | float) or (value is None and name in _UNLIMITED))
    ]
    settings = ", ".join((*numbers, *others))
    return f"{top}{block.table} by {block.mechanism}" + (f", at {settings}" if settings else "")


def _price(entry: Entry, asked: LoggedQuery) -> Text:
    reserved, charged = entry.reserved, entry.charged
    text = Text(f"reserved {_cost(reserved, asked)}")
    if entry.failed is not None:
        return text.append(" · failed: held in full", style="bold red")
    if charged is None:
        return text.append(" · unsettled: running, or failed and held in full", style="yellow")
    if charged == reserved:
        text.append(" · paid in full")
        if entry.stream is not None:
            return text.append(" for all steps")
    else:
        paid, held = charged.loss, reserved.loss
        parts = (paid.rho, held.rho) if held.rho else (paid.epsilon, held.epsilon)
        text.append(f" · paid {_cost(charged, asked)} ({percent(*parts)})")
    return text.append(" · stored" if entry.stored else " · not stored", style="dim")


def _cost(amount: Amount, asked: LoggedQuery) -> str:
    """Write a charged cost, with the epsilon of its rho where the record has a delta for it."""
    loss = amount.loss
    if not loss.rho:
        return f"ε {significant(loss.epsilon)}, δ {significant(loss.delta)}"
    text = f"ρ {significant(loss.rho)}, δ {significant(loss.delta)}"
    aside = sum(block.conversion_delta for block in asked.blocks)
    if not 0.0 < aside < 1.0:
        return text
    return (
        f"{text} (ε {significant(loss.epsilon_at(aside))} at δ {significant(loss.delta + aside)})"
    )
