"""``dpsql budget owner``: what the data owner may do to the ledger. All of it is recorded there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget.ledgers import announce, existing, located
from dpsql.interfaces.cli.printing import remark

if TYPE_CHECKING:
    from dpsql.budget.account import AccountReport
    from dpsql.ledger import Ledger, Owner

_PATH = click.argument("path")
_YES = click.option("--yes", is_flag=True, help="Do it without asking.")
_AS = click.option(
    "--as",
    "name",
    required=True,
    envvar="DPSQL_OWNER",
    help="Your name, which is recorded with what you do.",
)


@click.group(
    short_help="Create, limit and renew accounts. For the data owner.",
    epilog=options.examples(
        "dpsql budget owner create dpsql-demo/ana --as olga",
        "dpsql budget owner limit dpsql-demo/ana --epsilon 2 --delta 1e-6 --as olga",
    ),
)
def owner_command() -> None:
    """Create accounts, limit, renew and rename them, delete stored answers. For the data owner.

    An account is named by its path, from the dataset down: sales, sales/ana, sales/ana/notebook.
    Every action is an event of the ledger's chain, under the name that --as gives.
    """


def _action(function: Callable[..., bool | None], new: bool = False) -> Callable[..., Any]:
    """Make a command that acts on the ledger in the owner's name, with every action's options.

    It is called with the ledger, what its owner may do, and options of its own. What it has done is
    recorded, unless it says that it has done nothing by False. ``new``: it may create the ledger.
    """

    @wraps(function)
    def act(
        *, database: str | Path | None, policies: Path, ledger: str | None, name: str, **own: Any
    ) -> None:
        quiet, place = own.pop("quiet"), located(ledger, policies, database)
        with _opened(place, name, new) as opened:
            if function(opened, opened.owner(name), **own) is not False:
                remark(f"Done, and recorded: the ledger's head is {opened.head()}.", quiet)

    return options.place_of_ledger(_AS(options.quiet(act)))


@contextmanager
def _opened(place: str, name: str, new: bool) -> Iterator[Ledger]:
    """Open the ledger at a place; with ``new``, create a missing one."""
    if not new:
        with existing(place, name) as ledger:
            yield ledger
        return
    from dpsql.ledger import Ledger

    with Ledger.open(place, who=name) as ledger:
        announce(ledger.created, place)
        yield ledger


@owner_command.command(
    short_help="Create an account.",
    epilog=options.examples("dpsql budget owner create dpsql-demo/ana --as olga"),
)
@_PATH
@partial(_action, new=True)
def create_command(ledger: Ledger, actions: Owner, path: str) -> None:
    """Create the account PATH, without limits of its own; and the ledger, if there is none."""
    actions.create(path)


@owner_command.command(
    short_help="Give an account another name.",
    epilog=options.examples(
        "dpsql budget owner rename dpsql-demo/ana dpsql-demo/zoe --as olga",
    ),
)
@_PATH
@click.argument("new", metavar="NAME")
@_YES
@_action
def rename_command(ledger: Ledger, actions: Owner, path: str, new: str, yes: bool) -> None:
    """Give the account PATH another name, the path NAME: all that it spent goes along.

    For an analyst who has another name now, or whose questions somebody else takes over. The
    policies file has to name the account so too. PATH is closed for ever: nothing is asked or told
    under it any more.
    """
    if path in ledger.accounts():
        _confirm(
            yes,
            f"Who asks as {_shown(new)} from now on pays from what {_shown(path)} has left, and "
            f"is given its stored answers and views. Who asks as {_shown(path)} is refused, and no "
            "other account can ever have that name.",
        )
    actions.rename(path, new)


@owner_command.command(
    short_help="Limit what an account may spend in a window.",
    epilog=options.examples(
        "dpsql budget owner limit dpsql-demo --epsilon 8 --delta 1e-5 --as olga",
        "dpsql budget owner limit dpsql-demo --none --as olga",
    ),
)
@_PATH
@click.option("--epsilon", type=float, help="The most that all queries of a window may cost, as ε.")
@click.option("--delta", type=float, help="The same as δ.")
@click.option(
    "--composition",
    type=click.Choice(["zcdp", "basic", "gdp"]),
    default="zcdp",
    show_default=True,
    help="How costs add up; that of the analysts below.",
)
@click.option("--none", "lifted", is_flag=True, help="Lift the owner's limit.")
@_action
def limit_command(
    ledger: Ledger,
    actions: Owner,
    path: str,
    epsilon: float | None,
    delta: float | None,
    composition: str,
    lifted: bool,
) -> None:
    """Limit what the account PATH may spend in a window, in addition to the policy.

    Where there are both, both bind. ε and δ are converted as those of the policy are.
    """
    from dpsql.budget.owner import limit_account
    from dpsql.privacy.accounting.zcdp import Composition

    if lifted == (epsilon is not None or delta is not None):
        raise click.UsageError("give --epsilon and --delta, or --none")
    if lifted:
        actions.set_limits(path, None)
        return
    if epsilon is None or delta is None:
        raise click.UsageError("a limit needs both --epsilon and --delta")
    limit_account(ledger, actions, path, epsilon, delta, Composition(composition))


@owner_command.command(
    short_help="Open a new window every day or month.",
    epilog=options.examples("dpsql budget owner renew dpsql-demo/ana month --as olga"),
)
@_PATH
@click.argument("every", type=click.Choice(["day", "month", "never"]))
@_YES
@_action
def renew_command(ledger: Ledger, actions: Owner, path: str, every: str, yes: bool) -> None:
    """Open a new window for PATH every day or month (UTC), in which all limits start afresh."""
    from dpsql.ledger import Renewal

    if every != "never":
        _confirm(yes, _warning(_account(ledger, path), f"Every {every}, a new window"))
    actions.renew(path, None if every == "never" else Renewal(every))


@owner_command.command(
    short_help="Open a new window now.",
    epilog=options.examples("dpsql budget owner window dpsql-demo/ana --as olga"),
)
@_PATH
@_YES
@_action
def window_command(ledger: Ledger, actions: Owner, path: str, yes: bool) -> None:
    """Open a new window for PATH now: nothing spent before counts against its limits any more."""
    _confirm(yes, _warning(_account(ledger, path), "A new window"))
    actions.open_window(path)


@owner_command.command(
    short_help="Have an account answer no new question.",
    epilog=options.examples("dpsql budget owner suspend dpsql-demo/ana --as olga"),
)
@_PATH
@_action
def suspend_command(ledger: Ledger, actions: Owner, path: str) -> None:
    """Have PATH, and all accounts below it, answer no new question until it is reopened.

    Questions that were answered before are still answered, from the ledger.
    """
    actions.suspend(path)


@owner_command.command(
    short_help="Let a suspended account ask again.",
    epilog=options.examples("dpsql budget owner reopen dpsql-demo/ana --as olga"),
)
@_PATH
@_YES
@_action
def reopen_command(ledger: Ledger, actions: Owner, path: str, yes: bool) -> None:
    """Let PATH ask again, after it was suspended by you or because the engine failed.

    Look at the question that failed first (`dpsql budget history`): whether a question fails may
    depend on a row, and then every such failure tells something about that row.
    """
    _confirm(yes, _failures(ledger, path))
    actions.reopen(path)


@owner_command.command(
    short_help="Delete stored answers.",
    epilog=options.examples(
        "dpsql budget owner forget dpsql-demo/ana --before 2026-01-01 --as olga"
    ),
)
@_PATH
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Only answers given before this time (UTC).",
)
@_YES
@_action
def forget_command(
    ledger: Ledger, actions: Owner, path: str, before: datetime | None, yes: bool
) -> bool:
    """Delete the stored answers of PATH and of all accounts below it, and what their views show.

    A view ends with what it has published. With --before, one that has published later goes on.
    """
    _confirm(
        yes,
        f"The stored answers of {_shown(path)} and of all accounts below it will be deleted, and "
        "what their materialized views have published, which ends these. They cannot be had again: "
        "to ask again is to pay again. What they cost stays spent.",
    )
    count = actions.forget(path, None if before is None else before.replace(tzinfo=UTC))
    quiet = click.get_current_context().params["quiet"]
    remark(f"Deleted {count:,} stored answer{'' if count == 1 else 's'}.", quiet)
    return count > 0


@owner_command.command(
    short_help="Go on after a clock that was ahead.",
    epilog=options.examples("dpsql budget owner accept-clock --as olga"),
)
@_action
def accept_clock_command(ledger: Ledger, actions: Owner) -> None:
    """Go on with the present time, after a clock that was ahead was set right."""
    actions.accept_clock()


def _account(ledger: Ledger, path: str) -> AccountReport | None:
    """Return the state of an account; None for a missing one."""
    from dpsql.budget.account import any_account

    return any_account(path, None, ledger) if path in ledger.accounts() else None


def _warning(account: AccountReport | None, what: str) -> str:
    """Word the effect of a new window on the people in the data."""
    if account is None:
        return ""
    from dpsql.core.formatting import significant

    total = account.total
    again = "as much as their limits allow"
    if account.binding is not None:
        budget = account.binding.budget
        again = f"up to ε {significant(budget.epsilon)} at δ {significant(budget.delta)}"
    return (
        f"{what} lets those who ask from {_shown(account.path)} learn {again} once more about the "
        f"same people. So far they were charged ε {significant(total.epsilon)} at "
        f"δ {significant(total.delta)}, over {_windows(account.windows)}; what is spent in a new "
        "window comes on top of that, and nothing takes it back."
    )


def _failures(ledger: Ledger, path: str) -> str:
    """Word the risk of reopening an account; empty without failures since the last time."""
    from itertools import takewhile

    from dpsql.ledger import Kind

    own = (event for event in ledger.suspensions(path) if event.account == path)
    since = takewhile(lambda event: event.kind != Kind.REOPEN, own)
    failed = sorted(event.entry for event in since if event.entry is not None)
    if not failed:
        return ""
    questions = ", ".join(f"#{entry}" for entry in failed)
    return (
        f"The engine failed while it read private rows for {_shown(path)}: {questions} of `dpsql "
        "budget history`. If that depended on what some row holds, it told something about that "
        "row, and asking like that again would tell more."
    )


def _windows(count: int) -> str:
    return "one window" if count == 1 else f"{count:,} windows"


def _confirm(yes: bool, warning: str) -> None:
    if not yes and warning:
        click.echo(click.wrap_text(warning, 78), err=True)
        click.confirm("Go on?", abort=True, err=True)


def _shown(path: str) -> str:
    from dpsql.core.formatting import printable

    return printable(path)
