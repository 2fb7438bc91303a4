"""The ledger's values: windows, accounts, limits, charges, totals, entries. All are frozen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Never

from dpsql.core.names import RULE, is_account_name
from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.chain import iso
from dpsql.privacy.accounting.zcdp import Amount, Composition, check_units


class Renewal(StrEnum):
    """How often an account's window is renewed, by the calendar in UTC."""

    DAY = "day"
    MONTH = "month"


_LENGTH = {Renewal.DAY: len("2026-01-31"), Renewal.MONTH: len("2026-01")}


def period(renews: Renewal | None, at: int) -> str:
    """Return the day or month that ``at`` lies in, such as ``2026-01``; empty without renewal."""
    return "" if renews is None else iso(at)[: _LENGTH[renews]]


def is_over(renews: Renewal | None, current: str, at: int) -> bool:
    """Tell whether a new window is due at ``at`` for an account whose window was of ``current``.

    Only a later period renews: a clock that was wrong and went back never buys a new window.
    """
    return renews is not None and period(renews, at) > current


def beginning(opened: datetime, label: str) -> datetime:
    """Return the first moment of a window, ``opened`` by an event in a period.

    An event opens it when it is first needed: its period may have begun before.
    """
    if not label:
        return opened
    first = datetime.fromisoformat(f"{label}-01"[: len("2026-01-31")])
    return min(opened, first.replace(tzinfo=UTC))


MAX_PATH = 512
"""The longest account path, in characters."""
MAX_LEDGER_NAME = 1024
"""The longest fingerprint of a query or name of a person, in characters."""
MAX_LEDGER_STEPS = 1_000_000
"""The most steps that a stream may have."""
MAX_DETAIL = 2**20
"""The longest JSON text of a plan or of terms, in characters."""


class Cause(StrEnum):
    """Why an engine could not finish reading private rows, as far as the ledger is told."""

    ENGINE = "engine"  # it raised an error
    TIME = "time"  # it ran into the limit of time
    MEMORY = "memory"  # ... or of memory


@dataclass(frozen=True, slots=True)
class Account:
    """The limits that the policy gives an account.

    ``path`` names it, from the dataset down, as in ``sales/alice``. ``limit`` allows rho,
    epsilon or ``gaussian``, one of them, and delta. A later call may bring higher or lower limits,
    and what was spent stays spent. ``conversion_share`` is the part of the account's delta that was
    kept for turning rho into epsilon, None where nothing says so; it stays while anything is spent.

    Raises :class:`ParameterError` for a malformed path or a limit in several of them.
    """

    path: str
    limit: Amount
    conversion_share: float | None = None

    def __post_init__(self) -> None:
        check_path(self.path)
        check_limit(self.limit)

    def has_room(self, spent: Amount, charge: Amount) -> bool:
        """Tell whether ``charge`` fits into what is left after ``spent``."""
        sums = zip(spent.units, charge.units, self.limit.units, strict=True)
        return all(paid + more <= most for paid, more, most in sums)

    def left(self, spent: Amount) -> Amount:
        """Return the rest of the limit: nothing where the limit was lowered below ``spent``."""
        pairs = zip(self.limit.units, spent.units, strict=True)
        return Amount(*(max(0, most - paid) for most, paid in pairs))

    def require_same_composition(self, spent: Amount) -> None:
        """Refuse an account limited in rho that was charged in epsilon, and the like.

        What was spent of the one says nothing of how much is left of the other. Raises
        :class:`LedgerError` (``ledger_other_composition``).
        """
        of_limit, of_spent = _compositions(self.limit), _compositions(spent)
        if of_limit and not of_spent <= of_limit:
            former = min(of_spent - of_limit)
            raise LedgerError(
                f"the account {self.path} was charged under `composition: {former}`, and the "
                "policy now gives it another",
                code="ledger_other_composition",
                hint=f"restore `composition: {former}` in the policies file, or give the analyst "
                "an account of another name",
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """A reservation on disk: its entry, the account that pays, and the worst case.

    The account is called what the chain calls it, which is its first name.
    """

    entry: int
    account: str
    amount: Amount

    def lowered_to(self, actual: Amount) -> Amount:
        """Return the amount to settle for an actual cost: at most the reservation, all of delta."""
        if not _compositions(actual) <= _compositions(self.amount):
            return self.amount  # of another currency, it says nothing of what may be given back
        return Amount(
            rho=min(actual.rho, self.amount.rho),
            epsilon=min(actual.epsilon, self.amount.epsilon),
            delta=self.amount.delta,
            gaussian=min(actual.gaussian, self.amount.gaussian),
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """Totals: settled entries at their actual cost, unsettled ones at their reservation.

    ``queries`` counts all charges. Of them, ``looks`` were made for estimates of what bounding
    leaves out, and not for questions, and ``returned`` for estimates that were given back whole, as
    the question did not fit.
    """

    amount: Amount = field(default_factory=Amount)
    queries: int = 0
    unsettled: int = 0
    looks: int = 0
    returned: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A window of an account: its opening, its day or month, and its sums.

    ``opened`` is a UTC time in ISO 8601; ``period`` is empty for an account without renewal.
    ``spent`` is all that counts against limits. Of it, ``carried`` are the charges of streams that
    were bought in earlier windows and went on when this one opened.
    """

    opened: str
    period: str
    spent: Spent
    carried: Amount = field(default_factory=Amount)

    @property
    def began(self) -> datetime | None:
        """The latest moment at which it can have begun; None for a new account."""
        return beginning(datetime.fromisoformat(self.opened), self.period) if self.opened else None

    @property
    def bought(self) -> Amount:
        """The charges of the window itself."""
        pairs = zip(self.spent.amount.units, self.carried.units, strict=True)
        return Amount(*(spent - carried for spent, carried in pairs))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one account stands.

    ``limits`` are those of the policy and of the owner that bind it, ``window`` the window they
    apply to, ``total`` what was spent over all windows, each charge once; ``terms`` is what the
    owner wrote beside his limits, as JSON text. ``suspended`` is since when it is suspended, a UTC
    time in ISO 8601; None if it is not.
    """

    path: str
    limits: tuple[Amount, ...]
    renews: Renewal | None
    terms: str
    window: Window
    total: Spent
    suspended: str | None = None

    @property
    def left(self) -> Amount | None:
        """The amount that all limits leave for the rest of the window; None without limits."""
        spent = self.window.spent.amount
        left = [Account(self.path, limit).left(spent).units for limit in self.limits]
        return Amount(*map(min, zip(*left, strict=True))) if left else None

    @property
    def passed(self) -> bool:
        """True if more was spent than a limit allows, which was lowered since."""
        spent = self.window.spent.amount.units
        return any(
            paid > most
            for limit in self.limits
            for paid, most in zip(spent, limit.units, strict=True)
        )

    def affordable(self, amount: Amount) -> int | None:
        """Count the charges of ``amount`` that fit into the rest; None without a limit."""
        if self.left is None:
            return None
        pairs = zip(self.left.units, amount.units, strict=True)
        return min((left // units for left, units in pairs if units), default=None)


@dataclass(frozen=True, slots=True)
class Entry:
    """One question of the ledger. ``settled`` and ``charged`` are None until it is settled.

    ``created`` and ``settled`` are UTC times in ISO 8601; ``query`` is the query's fingerprint and
    ``plan`` the JSON text of its mechanism and parameters. ``stored`` says that its answer is kept,
    ``failed`` when the engine failed on it, if it did. ``stream`` is None for a question that was
    asked once; for a stream, whose every step it pays for, ``query`` is its id.
    """

    entry: int
    created: str
    who: str
    account: str
    query: str
    plan: str
    reserved: Amount
    settled: str | None
    charged: Amount | None
    stored: bool
    failed: str | None = None
    stream: StreamProgress | None = None


@dataclass(frozen=True, slots=True)
class RenamedAccount:
    """An account got another name: ``former`` until then, ``given`` by it, ``name`` now.

    Each is a path. ``event`` is its number in the chain, ``time`` a UTC time in ISO 8601, ``who``
    the owner that did it.
    """

    event: int
    time: str
    who: str
    former: str
    given: str
    name: str


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream: one charge for up to ``steps`` published steps, numbered from 1 on.

    ``entry`` is the charge, of ``charged``, which ``account`` has paid in full when the stream was
    ``created``, a UTC time in ISO 8601. No other live stream of the account has its ``name``, and
    no other stream its id, ``stream``. ``plan`` is the JSON text of its definition. ``begun`` is
    the last step that was begun, 0 before the first: it and all before it are used.
    ``published`` are those of which a release is kept.
    """

    entry: int
    account: str
    name: str
    stream: str
    steps: int
    plan: str
    created: str
    charged: Amount
    begun: int
    published: tuple[PublishedStep, ...]


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """A step that was published, and when: a UTC time in ISO 8601."""

    step: int
    time: str


@dataclass(frozen=True, slots=True)
class ReadableStream:
    """A stream with releases read by other accounts: its id, and the account of its owner.

    ``price`` is its charge, and what its plan says was charged beside for it.
    """

    stream: str
    account: str
    price: Amount


@dataclass(frozen=True, slots=True)
class StepTicket:
    """A step that is begun, on disk: its number, from 1 on, and the stream, by its charge and id.

    From :meth:`Ledger.begin_step`; what the step releases is published with it, once. The account
    is called what the chain calls it, which is its first name.
    """

    entry: int
    account: str
    stream: str
    step: int


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far the stream is that an entry of the ledger pays for.

    ``begun`` is the last step that was begun, of at most ``steps``; ``published`` counts those that
    were published. ``dropped`` says that it has ended.
    """

    name: str
    steps: int
    begun: int
    published: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored release: the bytes given when the entry was settled, and what they cost then.

    ``payload`` is the first part of them, of at most ``MAX_RELEASE`` bytes, and all unless there
    are ``further`` parts: :meth:`Ledger.release_parts` reads them one by one. ``digest`` is what
    the chain has of them all.
    """

    entry: int
    account: str
    settled: str
    charged: Amount
    payload: bytes = field(repr=False)
    further: int = 0
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain. Kept elsewhere, it shows later that the ledger still goes on from it.

    Written as ``str(head)``, read back by :meth:`parse`.
    """

    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Return the head written as ``text``. Raises :class:`ParameterError`."""
        seq, _, digest = text.strip().partition(":")
        try:
            head = cls(int(seq), bytes.fromhex(digest))
        except ValueError:
            head = None
        if head is None or head.seq < 1 or len(head.hash) != 32:
            _refuse(
                "a head of the ledger is a number, a colon and 64 hexadecimal digits",
                hint="copy it as `head` printed it",
            )
        return head


def check_path(path: str) -> None:
    """Refuse an account path that is not non-empty printable parts joined by slashes."""
    if not isinstance(path, str):
        _refuse(f"an account path must be text, not {type(path).__name__}")
    if len(path) > MAX_PATH:
        _refuse(f"an account path has at most {MAX_PATH} characters")
    parts = path.split("/")
    if not path.isprintable() or any(not part or part != part.strip() for part in parts):
        _refuse(
            "an account path is made of non-empty printable parts joined by '/'",
            hint="write it like 'dataset/analyst', without spaces around a part",
        )


def check_new_path(path: str) -> None:
    """Refuse a path of a new account that could pass for another's (:mod:`dpsql.core.names`)."""
    check_path(path)
    if not all(map(is_account_name, path.split("/"))):
        _refuse(f"each part of an account path {RULE}", hint="choose plain names")


@lru_cache
def line_of(path: str) -> tuple[str, ...]:
    """Return the account and its ancestors, the dataset first: a charge must fit all of them."""
    parts = path.split("/")
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def check_limits(path: str, limits: Sequence[Account]) -> dict[str, Account]:
    """Return the policy's limits by path: each on the account or an ancestor, each account once."""
    if not all(isinstance(account, Account) for account in limits):
        _refuse("limits are given as Account values")
    found = {account.path: account for account in limits}
    if len(found) < len(limits):
        _refuse("the limits name the same account twice")
    if not found.keys() <= set(line_of(path)):
        _refuse(f"limits are given for the account {path} and those above it only")
    return found


def check_limit(limit: Amount) -> None:
    """Refuse a limit in more than one currency."""
    if limit.currencies > 1:
        _refuse("an account is limited in one of rho, epsilon and mu, not in several")


def check_charge(amount: Amount) -> None:
    """Refuse a charge of nothing, or in more than one currency."""
    if not any(amount.units):
        _refuse("a charge of nothing is not recorded")
    if amount.currencies > 1:
        _refuse("a charge is made in one of rho, epsilon and mu, not in several")


def _compositions(amount: Amount) -> set[Composition]:
    """Return the compositions of an amount's parts: one for a charge, several for some sums."""
    parts = {
        Composition.ZCDP: amount.rho,
        Composition.BASIC: amount.epsilon,
        Composition.GDP: amount.gaussian,
    }
    return {composition for composition, units in parts.items() if units}


def check_cause(cause: str) -> None:
    """Refuse a cause outside of :class:`Cause`: no text of an engine gets into the ledger."""
    if not isinstance(cause, str) or cause not in set(Cause):
        _refuse(f"a cause is one of {', '.join(Cause)}")


def check_step(step: int) -> None:
    """Refuse a value that is no number of a step."""
    if type(step) is not int or not 1 <= step <= MAX_LEDGER_STEPS:
        _refuse(f"a step is a number from 1 to {MAX_LEDGER_STEPS}")


def check_ticket(ticket: StepTicket) -> None:
    """Refuse a value that is no ticket of a step."""
    if not isinstance(ticket, StepTicket):
        _refuse("a step is published with the ticket that beginning it has returned")
    check_units("entry", ticket.entry)
    check_step(ticket.step)


def planned_steps(plan: str) -> int:
    """Read how many steps the plan of a stream has: ``{"stream": {"steps": 365}}``, and more.

    Raises :class:`ParameterError` for JSON text that does not say it.
    """
    try:
        steps = json.loads(plan)["stream"]["steps"]
    except (KeyError, TypeError, IndexError):
        steps = None
    if type(steps) is not int or not 1 <= steps <= MAX_LEDGER_STEPS:
        _refuse(
            f"the plan of a stream says how many steps it has, from 1 to {MAX_LEDGER_STEPS}",
            hint="write it as `stream`, `steps` of the plan",
        )
    return steps


def planned_beside(plan: str) -> Amount:
    """Read the charge beside a stream, for draws shown by its releases.

    Plans say it as ``{"stream": {"beside": [rho, epsilon, delta, gaussian]}}``, in units; nothing
    where they do not.
    """
    try:
        return Amount(*json.loads(plan)["stream"].get("beside", ()))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise LedgerError(
            "the ledger holds an impossible stream",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        ) from None


def check_name(what: str, name: str) -> None:
    """Refuse a fingerprint or a name that is not one line of printable characters."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_LEDGER_NAME:
        _refuse(f"the {what} must be 1 to {MAX_LEDGER_NAME} printable characters")


def check_json(what: str, text: str) -> None:
    """Refuse text that is not JSON, or too long for the ledger."""
    try:
        json.loads(text)
        text.encode()
        short = len(text) <= MAX_DETAIL
    except (TypeError, ValueError, RecursionError, AttributeError):
        short = False
    if not short:
        _refuse(f"the {what} must be JSON text of at most {MAX_DETAIL} characters")


def _refuse(reason: str, hint: str | None = None) -> Never:
    raise ParameterError(reason, code="bad_parameter", hint=hint)


def refused_change(code: str, reason: str) -> LedgerError:
    """Build the error for a change that was refused, and left the ledger unchanged."""
    return LedgerError(reason, code=code, hint="the ledger was not changed")
