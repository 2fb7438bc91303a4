"""The ledger's tables, and the rules the database itself enforces whoever writes to it.

One text serves SQLite and PostgreSQL; only the names of types and the form of triggers differ.
What happened is in ``events`` and nowhere else. The other tables are its sums, kept so that a
reservation takes the same work after a million entries; ``Ledger.verify`` recomputes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.errors import LedgerError

APPLICATION_ID = 0x6470736C
"""Marks a SQLite file as a ledger: the letters ``dpsl``."""

SCHEMA_VERSION = 10
"""In ``head``, and in SQLite's ``user_version``."""

ROWS_START = 65
"""Where the digits begin, from 1, that name the rows of a question in its fingerprint."""

# Lists would be slower: SQLite makes a table of one for each event.
ACCOUNT_CHANGES = (
    "kind <> 'reserve' AND kind <> 'settle' AND kind <> 'forget'"
    " AND kind <> 'stream' AND kind <> 'step' AND kind <> 'publish' AND kind <> 'drop'"
)
"""The events that change the row of their account in ``accounts``."""

SUSPENDING = "(kind = 'failure' OR kind = 'suspend' OR kind = 'reopen')"
"""The events that suspend accounts or reopen them."""

LEFT_OUT_MECHANISM = "left-out look"
"""The mechanism in the plan of a charge for a left-out estimate; no question has it."""

# No text inside a plan has these quotes: JSON puts a backslash before each of its own.
IS_ESTIMATE = f"kind = 'reserve' AND detail LIKE '%\"mechanism\": \"{LEFT_OUT_MECHANISM}\"%'"
"""The charges that estimates are made for."""

# ``windows.opened`` is the event that opened the window, so it tells windows apart and orders them.
# ``accounts.suspended`` and ``reopened`` are such events: an account is suspended while the first
# is the later one. Each only moves on, so that who may suspend need not be able to reopen.
# ``events.stream`` is the charge of a stream: of one stream, each step is begun and published once.
# ``windows.carried_*`` is what a window has opened with, for streams that go on.
# ``release_parts`` are those of a large answer, after the first, which is in ``releases``.
# ``releases`` are looked up by the start of a text, as a range that bytes decide: the language of a
# PostgreSQL database may have another order.
# ``last`` is the event that changed a row last and says to what, ``tie`` its hash (``ties.py``).
# SQLite keeps this text, and a file is a ledger if its text is the same to the byte: so the last
# columns of ``windows`` stay in the line in which they are.
_TABLES = """
CREATE TABLE events (
    seq     {int} PRIMARY KEY,
    at      {int} NOT NULL,
    who     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    account TEXT NOT NULL,
    entry   {int} UNIQUE REFERENCES events,
    stream  {int} REFERENCES events,
    step    {int} NOT NULL CHECK (step >= 0),
    query   TEXT NOT NULL,
    detail  TEXT NOT NULL,
    rho     {int} NOT NULL CHECK (rho >= 0),
    epsilon {int} NOT NULL CHECK (epsilon >= 0),
    delta   {int} NOT NULL CHECK (delta >= 0),
    gaussian {int} NOT NULL CHECK (gaussian >= 0),
    digest  {bytes} CHECK (length(digest) = 32),
    state   TEXT,
    hash    {bytes} NOT NULL CHECK (length(hash) = 32),
    CHECK (step = 0 OR stream IS NOT NULL)
){strict};
CREATE UNIQUE INDEX steps_by_stream ON events (stream, kind, step) WHERE stream IS NOT NULL;
CREATE UNIQUE INDEX streams_by_id ON events (query) WHERE kind = 'stream';
CREATE INDEX streams_by_account ON events (account, seq) WHERE kind = 'stream';
CREATE INDEX entries_by_account ON events (account, seq, kind) WHERE kind = 'reserve';
CREATE INDEX suspensions ON events (seq, account) WHERE {suspending};
CREATE INDEX changes_by_account ON events (account, seq, kind) WHERE {account_changes};
CREATE INDEX renames_by_name ON events (query, seq) WHERE kind = 'rename';
CREATE INDEX renames_by_account ON events (account, seq) WHERE kind = 'rename';
CREATE INDEX looks_by_account ON events (account, seq) WHERE {is_estimate};
CREATE TABLE head (
    one     {int} PRIMARY KEY CHECK (one = 1),
    ledger  TEXT NOT NULL,
    version {int} NOT NULL,
    seq     {int} NOT NULL,
    at      {int} NOT NULL,
    hash    {bytes} NOT NULL CHECK (length(hash) = 32)
){strict};
CREATE TABLE windows (
    opened    {int} PRIMARY KEY,
    path      TEXT NOT NULL,
    period    TEXT NOT NULL,
    rho       {int} NOT NULL DEFAULT 0 CHECK (rho >= 0),
    epsilon   {int} NOT NULL DEFAULT 0 CHECK (epsilon >= 0),
    delta     {int} NOT NULL DEFAULT 0 CHECK (delta >= 0),
    gaussian  {int} NOT NULL DEFAULT 0 CHECK (gaussian >= 0),
    queries   {int} NOT NULL DEFAULT 0 CHECK (queries >= 0),
    unsettled {int} NOT NULL DEFAULT 0 CHECK (unsettled BETWEEN 0 AND queries),
    last      {int} NOT NULL DEFAULT 0,
    tie       {bytes}
, carried_rho {int} NOT NULL DEFAULT 0 CHECK (carried_rho >= 0), \
carried_epsilon {int} NOT NULL DEFAULT 0 CHECK (carried_epsilon >= 0), \
carried_delta {int} NOT NULL DEFAULT 0 CHECK (carried_delta >= 0), \
carried_gaussian {int} NOT NULL DEFAULT 0 CHECK (carried_gaussian >= 0)){strict};
CREATE UNIQUE INDEX windows_by_account ON windows (path, opened);
CREATE TABLE accounts (
    path           TEXT PRIMARY KEY,
    opened         {int} NOT NULL REFERENCES windows,
    renews         TEXT NOT NULL DEFAULT '' CHECK (renews IN ('', 'day', 'month')),
    terms          TEXT NOT NULL DEFAULT '{{}}',
    limit_rho      {int} CHECK (limit_rho >= 0),
    limit_epsilon  {int} CHECK (limit_epsilon >= 0),
    limit_delta    {int} CHECK (limit_delta >= 0),
    limit_gaussian {int} CHECK (limit_gaussian >= 0),
    policy_rho     {int} CHECK (policy_rho >= 0),
    policy_epsilon {int} CHECK (policy_epsilon >= 0),
    policy_delta   {int} CHECK (policy_delta >= 0),
    policy_gaussian {int} CHECK (policy_gaussian >= 0),
    suspended      {int} NOT NULL DEFAULT 0,
    reopened       {int} NOT NULL DEFAULT 0,
    last           {int} NOT NULL DEFAULT 0,
    tie            {bytes},
    CHECK ((limit_rho IS NULL) = (limit_delta IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_epsilon IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_gaussian IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_gaussian IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_delta IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_epsilon IS NULL))
){strict};
CREATE TABLE releases (
    entry   {int} PRIMARY KEY REFERENCES events,
    account {bytewise} NOT NULL,
    query   {bytewise} NOT NULL,
    size    {int} NOT NULL,
    packed  {int} NOT NULL CHECK (packed IN (0, 1)),
    payload {bytes} NOT NULL
){strict};
CREATE INDEX releases_by_query ON releases (query, entry);
CREATE INDEX releases_by_rows ON releases (substr(query, {rows}), account, entry);
CREATE TABLE release_parts (
    entry   {int} NOT NULL REFERENCES events,
    part    {int} NOT NULL CHECK (part > 0),
    size    {int} NOT NULL,
    packed  {int} NOT NULL CHECK (packed IN (0, 1)),
    payload {bytes} NOT NULL,
    PRIMARY KEY (entry, part)
){strict};
CREATE TABLE step_releases (
    stream  {int} NOT NULL REFERENCES events,
    step    {int} NOT NULL,
    part    {int} NOT NULL,
    size    {int} NOT NULL,
    packed  {int} NOT NULL CHECK (packed IN (0, 1)),
    payload {bytes} NOT NULL,
    PRIMARY KEY (stream, step, part)
){strict};
"""

_CARRIED = ("rho", "epsilon", "delta", "gaussian")


@dataclass(frozen=True, slots=True)
class _Rule:
    """``action`` on a row of ``table`` is refused where ``condition`` holds.

    With ``rows``, which are a table and a condition, it is refused if there is one of them as well.
    """

    name: str
    table: str
    action: str
    condition: str
    reason: str
    rows: str = ""


def _never(action: str, table: str) -> _Rule:
    return _Rule(
        f"{table}_no_{action.lower()}", table, action, "1 = 1", f"{table} refuses {action}"
    )


_RULES = (
    _never("UPDATE", "events"),
    _never("UPDATE", "releases"),
    _never("UPDATE", "release_parts"),
    _never("UPDATE", "step_releases"),
    *(_never("DELETE", table) for table in ("events", "head", "windows", "accounts")),
    _Rule(
        "event_says_what_it_does",
        "events",
        "INSERT",
        "NEW.state IS NULL",
        "an event says what it makes of accounts and windows",
    ),
    _Rule(
        "step_comes_after_all_before",
        "events",
        "INSERT",
        "NEW.kind = 'step'",
        "a step is later than all that were begun",
        "events WHERE stream = NEW.stream AND kind = 'step' AND step >= NEW.step",
    ),
    _Rule(
        "steps_are_published_in_order",
        "events",
        "INSERT",
        "NEW.kind = 'publish'",
        "a later step was published",
        "events WHERE stream = NEW.stream AND kind = 'publish' AND step > NEW.step",
    ),
    _Rule(
        "dropped_stream_has_ended",
        "events",
        "INSERT",
        "NEW.kind = 'step' OR NEW.kind = 'publish'",
        "the stream was dropped",
        "events WHERE stream = NEW.stream AND kind = 'drop'",
    ),
    _Rule(
        "steps_are_kept_until_dropped",
        "step_releases",
        "DELETE",
        "1 = 1",
        "what a stream has published is kept until it is dropped",
        "(SELECT 1) AS here WHERE NOT EXISTS "
        "(SELECT 1 FROM events WHERE stream = OLD.stream AND kind = 'drop')",
    ),
    _Rule(
        "release_is_whole_when_settled",
        "release_parts",
        "INSERT",
        "1 = 1",
        "the entry was settled or has failed",
        "events WHERE entry = NEW.entry",
    ),
    _Rule(
        "parts_are_deleted_with_their_release",
        "release_parts",
        "DELETE",
        "1 = 1",
        "a part of a release is kept until that is deleted",
        "releases WHERE entry = OLD.entry",
    ),
    _Rule(
        "window_opens_with_streams",
        "windows",
        "INSERT",
        "NEW.queries > 0 OR "
        + " OR ".join(f"NEW.{part} <> NEW.carried_{part}" for part in _CARRIED),
        "a window opens with the charges of streams that go on, and no others",
    ),
    _Rule(
        "window_only_grows_or_settles",
        "windows",
        "UPDATE",
        "NEW.opened <> OLD.opened OR NEW.path <> OLD.path OR NEW.delta < OLD.delta"
        " OR NEW.queries < OLD.queries OR ((NEW.rho < OLD.rho OR NEW.epsilon < OLD.epsilon"
        " OR NEW.gaussian < OLD.gaussian)"
        " AND NEW.unsettled <> OLD.unsettled - 1) OR NEW.last < OLD.last",
        "what was spent is lowered by settling only",
    ),
    _Rule(
        "window_carries_what_it_did",
        "windows",
        "UPDATE",
        " OR ".join(f"NEW.carried_{part} < OLD.carried_{part}" for part in _CARRIED),
        "what a window has opened with stays in it",
    ),
    _Rule(
        "account_keeps_its_name",
        "accounts",
        "UPDATE",
        "NEW.path <> OLD.path OR NEW.opened < OLD.opened"
        " OR NEW.suspended < OLD.suspended OR NEW.reopened < OLD.reopened"
        " OR NEW.last < OLD.last",
        "an account keeps its name and never returns to an older window",
    ),
    _Rule(
        "suspended_account_is_not_charged",
        "windows",
        "UPDATE",
        "NEW.queries > OLD.queries",
        "a suspended account is not charged",
        "accounts WHERE path = NEW.path AND suspended > reopened",
    ),
    _Rule(
        "name_was_no_other_accounts",
        "events",
        "INSERT",
        "NEW.kind = 'rename'",
        "a name means one account for ever",
        "events WHERE kind = 'rename' AND query = NEW.query AND account <> NEW.account",
    ),
    _Rule(
        "name_is_no_other_accounts",
        "events",
        "INSERT",
        "NEW.kind = 'rename' AND NEW.query <> NEW.account",
        "a name means one account for ever",
        "accounts WHERE path = NEW.query",
    ),
    _Rule(
        "account_has_a_name_of_its_own",
        "accounts",
        "INSERT",
        "1 = 1",
        "a name means one account for ever",
        "events WHERE kind = 'rename' AND query = NEW.path",
    ),
    _Rule(
        "head_moves_on",
        "head",
        "UPDATE",
        "NEW.ledger <> OLD.ledger OR NEW.version < OLD.version OR NEW.seq <= OLD.seq",
        "the head only moves on",
    ),
)
_KEYS = {
    "events": (
        "seq = NEW.seq",
        "entry = NEW.entry",
        "stream = NEW.stream AND kind = NEW.kind AND step = NEW.step",
        "kind = 'stream' AND query = NEW.query AND NEW.kind = 'stream'",
    ),
    "head": ("one = NEW.one",),
    "windows": ("opened = NEW.opened",),
    "accounts": ("path = NEW.path",),
    "releases": ("entry = NEW.entry",),
    "release_parts": ("entry = NEW.entry AND part = NEW.part",),
    "step_releases": ("stream = NEW.stream AND step = NEW.step AND part = NEW.part",),
}

# INSERT OR REPLACE deletes without asking the rules about deletion. PostgreSQL has no such thing.
_SQLITE_RULES = tuple(
    _Rule(
        f"{table}_no_replace",
        table,
        "INSERT",
        # One question for each key: with OR in one, SQLite would read the whole table.
        " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {key})" for key in ways),
        f"{table} refuses REPLACE",
    )
    for table, ways in _KEYS.items()
)


def _sqlite_trigger(rule: _Rule) -> str:
    found = f" AND EXISTS (SELECT 1 FROM {rule.rows})" if rule.rows else ""
    return (
        f"CREATE TRIGGER {rule.name} BEFORE {rule.action} ON {rule.table} "
        f"WHEN ({rule.condition}){found} BEGIN SELECT RAISE(ABORT, '{rule.reason}'); END;\n"
    )


def _postgres_trigger(rule: _Rule) -> str:
    function = _postgres_function(rule) if rule.rows else ""
    call = f"{rule.name}()" if rule.rows else f"refuse('{rule.reason}')"
    return (
        f"{function}CREATE TRIGGER {rule.name} BEFORE {rule.action} ON {rule.table} FOR EACH ROW "
        f"WHEN ({rule.condition}) EXECUTE FUNCTION {call};\n"
    )


def _postgres_function(rule: _Rule) -> str:
    """Write a trigger function for a rule that reads other rows."""
    row = "OLD" if rule.action == "DELETE" else "NEW"
    return (
        f"CREATE FUNCTION {rule.name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM "
        f"CURRENT AS $$ BEGIN IF EXISTS (SELECT 1 FROM {rule.rows}) THEN RAISE EXCEPTION "
        f"'{rule.reason}' USING ERRCODE = 'restrict_violation'; END IF; RETURN {row}; END $$;\n"
    )


def _postgres_truncation(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
        f"EXECUTE FUNCTION refuse('{table} refuses TRUNCATE');\n"
    )


_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'restrict_violation'; END $$;
"""


_SQLITE_TYPES = {"int": "INTEGER", "bytes": "BLOB", "bytewise": "TEXT", "strict": " STRICT"}
_POSTGRES_TYPES = {"int": "BIGINT", "bytes": "BYTEA", "bytewise": 'TEXT COLLATE "C"', "strict": ""}


def _tables(types: Mapping[str, str]) -> str:
    return _TABLES.format(
        **types,
        suspending=SUSPENDING,
        account_changes=ACCOUNT_CHANGES,
        is_estimate=IS_ESTIMATE,
        rows=ROWS_START,
    )


SQLITE_SCHEMA = "".join((_tables(_SQLITE_TYPES), *map(_sqlite_trigger, _RULES + _SQLITE_RULES)))
"""The tables and triggers of a SQLite ledger."""

POSTGRES_SCHEMA = "".join(
    (
        _tables(_POSTGRES_TYPES),
        _REFUSE,
        *map(_postgres_trigger, _RULES),
        *map(_postgres_truncation, _KEYS),
    )
)
"""The tables and triggers of a PostgreSQL ledger."""

POSTGRES_TRIGGERS = frozenset(
    (*(rule.name for rule in _RULES), *(f"{table}_no_truncate" for table in _KEYS))
)
"""The names of the triggers that a PostgreSQL ledger must have."""


def require_version(version: int) -> None:
    """Refuse a ledger of another version (``ledger_version``)."""
    if version != SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger has version {version}; this dpsql reads version {SCHEMA_VERSION}",
            code="ledger_version",
            hint="use the dpsql that wrote it; a new ledger in its place would forget what was "
            "spent. Nothing was changed",
        )
