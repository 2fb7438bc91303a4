-- The tables of a ledger of version 2, as its writer left them in sqlite_schema.
PRAGMA application_id = 1685091180;
PRAGMA user_version = 2;
CREATE TABLE accounts (
    account   INTEGER PRIMARY KEY,
    path      TEXT NOT NULL UNIQUE,
    rho       INTEGER NOT NULL DEFAULT 0 CHECK (rho >= 0),
    epsilon   INTEGER NOT NULL DEFAULT 0 CHECK (epsilon >= 0),
    delta     INTEGER NOT NULL DEFAULT 0 CHECK (delta >= 0),
    queries   INTEGER NOT NULL DEFAULT 0 CHECK (queries >= 0),
    unsettled INTEGER NOT NULL DEFAULT 0 CHECK (unsettled BETWEEN 0 AND queries),
    CHECK (rho = 0 OR epsilon = 0)
) STRICT;

CREATE TABLE entries (
    entry            INTEGER PRIMARY KEY,
    created          TEXT NOT NULL,
    query            TEXT NOT NULL,
    plan             TEXT NOT NULL,
    reserved_rho     INTEGER NOT NULL CHECK (reserved_rho >= 0),
    reserved_epsilon INTEGER NOT NULL CHECK (reserved_epsilon >= 0),
    reserved_delta   INTEGER NOT NULL CHECK (reserved_delta >= 0),
    settled          TEXT,
    settled_rho      INTEGER CHECK (settled_rho BETWEEN 0 AND reserved_rho),
    settled_epsilon  INTEGER CHECK (settled_epsilon BETWEEN 0 AND reserved_epsilon),
    settled_delta    INTEGER CHECK (settled_delta = reserved_delta),
    CHECK (reserved_rho = 0 OR reserved_epsilon = 0),
    CHECK (reserved_rho > 0 OR reserved_epsilon > 0 OR reserved_delta > 0),
    CHECK ((settled IS NULL) = (settled_rho IS NULL)),
    CHECK ((settled IS NULL) = (settled_epsilon IS NULL)),
    CHECK ((settled IS NULL) = (settled_delta IS NULL))
) STRICT;

CREATE TABLE charges (
    account INTEGER NOT NULL REFERENCES accounts,
    entry   INTEGER NOT NULL REFERENCES entries,
    PRIMARY KEY (account, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX charges_by_entry ON charges (entry);

CREATE TRIGGER charge_adds_reservation AFTER INSERT ON charges BEGIN
    UPDATE accounts
    SET (rho, epsilon, delta, queries, unsettled) = (
        SELECT rho + reserved_rho, epsilon + reserved_epsilon, delta + reserved_delta,
            queries + 1, unsettled + 1
        FROM entries WHERE entry = NEW.entry)
    WHERE account = NEW.account;
END;

CREATE TRIGGER settling_lowers_totals AFTER UPDATE ON entries BEGIN
    UPDATE accounts
    SET rho = rho - (NEW.reserved_rho - NEW.settled_rho),
        epsilon = epsilon - (NEW.reserved_epsilon - NEW.settled_epsilon),
        unsettled = unsettled - 1
    WHERE account IN (SELECT account FROM charges WHERE entry = NEW.entry);
END;

CREATE TRIGGER entry_starts_unsettled BEFORE INSERT ON entries
WHEN NEW.settled IS NOT NULL OR EXISTS (SELECT 1 FROM entries WHERE entry = NEW.entry) BEGIN
    SELECT RAISE(ABORT, 'an entry is new and unsettled');
END;

CREATE TRIGGER entry_settles_once BEFORE UPDATE ON entries
WHEN OLD.settled IS NOT NULL OR NEW.settled IS NULL
    OR (NEW.entry, NEW.created, NEW.query, NEW.plan)
    IS NOT (OLD.entry, OLD.created, OLD.query, OLD.plan)
    OR (NEW.reserved_rho, NEW.reserved_epsilon, NEW.reserved_delta)
    IS NOT (OLD.reserved_rho, OLD.reserved_epsilon, OLD.reserved_delta) BEGIN
    SELECT RAISE(ABORT, 'an entry changes once, when it is settled');
END;

CREATE TRIGGER entry_stays BEFORE DELETE ON entries BEGIN
    SELECT RAISE(ABORT, 'entries are never deleted');
END;

CREATE TRIGGER charge_starts_with_its_entry BEFORE INSERT ON charges
WHEN EXISTS (SELECT 1 FROM charges WHERE account = NEW.account AND entry = NEW.entry)
    OR NOT EXISTS (SELECT 1 FROM entries WHERE entry = NEW.entry AND settled IS NULL) BEGIN
    SELECT RAISE(ABORT, 'a charge is new and its entry unsettled');
END;

CREATE TRIGGER charge_never_changes BEFORE UPDATE ON charges BEGIN
    SELECT RAISE(ABORT, 'charges never change');
END;

CREATE TRIGGER charge_stays BEFORE DELETE ON charges BEGIN
    SELECT RAISE(ABORT, 'charges are never deleted');
END;

CREATE TRIGGER account_starts_at_zero BEFORE INSERT ON accounts
WHEN NEW.rho OR NEW.epsilon OR NEW.delta OR NEW.queries
    OR EXISTS (SELECT 1 FROM accounts WHERE path = NEW.path OR account = NEW.account) BEGIN
    SELECT RAISE(ABORT, 'an account is new and has spent nothing');
END;

CREATE TRIGGER account_only_grows_or_settles BEFORE UPDATE ON accounts
WHEN (NEW.account, NEW.path) IS NOT (OLD.account, OLD.path)
    OR NEW.delta < OLD.delta OR NEW.queries < OLD.queries
    OR ((NEW.rho < OLD.rho OR NEW.epsilon < OLD.epsilon)
        AND NEW.unsettled IS NOT OLD.unsettled - 1) BEGIN
    SELECT RAISE(ABORT, 'what an account spent is lowered by settling only');
END;

CREATE TRIGGER account_stays BEFORE DELETE ON accounts BEGIN
    SELECT RAISE(ABORT, 'accounts are never deleted');
END;
