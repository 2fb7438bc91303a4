-- The tables of a ledger of version 3, as its writer left them in sqlite_schema.
PRAGMA application_id = 1685091180;
PRAGMA user_version = 3;
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    account TEXT NOT NULL,
    entry   INTEGER UNIQUE REFERENCES events,
    query   TEXT NOT NULL,
    detail  TEXT NOT NULL,
    rho     INTEGER NOT NULL CHECK (rho >= 0),
    epsilon INTEGER NOT NULL CHECK (epsilon >= 0),
    delta   INTEGER NOT NULL CHECK (delta >= 0),
    digest  BLOB CHECK (length(digest) = 32),
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE INDEX entries_by_account ON events (account, seq, kind) WHERE kind = 'reserve';
CREATE TABLE head (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    ledger  TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE TABLE windows (
    opened    INTEGER PRIMARY KEY,
    path      TEXT NOT NULL,
    period    TEXT NOT NULL,
    rho       INTEGER NOT NULL DEFAULT 0 CHECK (rho >= 0),
    epsilon   INTEGER NOT NULL DEFAULT 0 CHECK (epsilon >= 0),
    delta     INTEGER NOT NULL DEFAULT 0 CHECK (delta >= 0),
    queries   INTEGER NOT NULL DEFAULT 0 CHECK (queries >= 0),
    unsettled INTEGER NOT NULL DEFAULT 0 CHECK (unsettled BETWEEN 0 AND queries)
) STRICT;
CREATE UNIQUE INDEX windows_by_account ON windows (path, opened);
CREATE TABLE accounts (
    path           TEXT PRIMARY KEY,
    opened         INTEGER NOT NULL REFERENCES windows,
    renews         TEXT NOT NULL DEFAULT '' CHECK (renews IN ('', 'day', 'month')),
    terms          TEXT NOT NULL DEFAULT '{}',
    limit_rho      INTEGER CHECK (limit_rho >= 0),
    limit_epsilon  INTEGER CHECK (limit_epsilon >= 0),
    limit_delta    INTEGER CHECK (limit_delta >= 0),
    policy_rho     INTEGER CHECK (policy_rho >= 0),
    policy_epsilon INTEGER CHECK (policy_epsilon >= 0),
    policy_delta   INTEGER CHECK (policy_delta >= 0),
    CHECK ((limit_rho IS NULL) = (limit_delta IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_epsilon IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_delta IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_epsilon IS NULL))
) STRICT;
CREATE TABLE releases (
    entry   INTEGER PRIMARY KEY REFERENCES events,
    account TEXT NOT NULL,
    query   TEXT NOT NULL,
    size    INTEGER NOT NULL,
    packed  INTEGER NOT NULL CHECK (packed IN (0, 1)),
    payload BLOB NOT NULL
) STRICT;
CREATE INDEX releases_by_query ON releases (query, entry);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'events refuses UPDATE'); END;
CREATE TRIGGER releases_no_update BEFORE UPDATE ON releases WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'releases refuses UPDATE'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'events refuses DELETE'); END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'head refuses DELETE'); END;
CREATE TRIGGER windows_no_delete BEFORE DELETE ON windows WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'windows refuses DELETE'); END;
CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'accounts refuses DELETE'); END;
CREATE TRIGGER window_starts_at_zero BEFORE INSERT ON windows WHEN NEW.rho + NEW.epsilon + NEW.delta + NEW.queries > 0 BEGIN SELECT RAISE(ABORT, 'a window is new and nothing was spent in it'); END;
CREATE TRIGGER window_only_grows_or_settles BEFORE UPDATE ON windows WHEN NEW.opened <> OLD.opened OR NEW.path <> OLD.path OR NEW.delta < OLD.delta OR NEW.queries < OLD.queries OR ((NEW.rho < OLD.rho OR NEW.epsilon < OLD.epsilon) AND NEW.unsettled <> OLD.unsettled - 1) BEGIN SELECT RAISE(ABORT, 'what was spent is lowered by settling only'); END;
CREATE TRIGGER account_keeps_its_name BEFORE UPDATE ON accounts WHEN NEW.path <> OLD.path OR NEW.opened < OLD.opened BEGIN SELECT RAISE(ABORT, 'an account keeps its name and never returns to an older window'); END;
CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.ledger <> OLD.ledger OR NEW.version < OLD.version OR NEW.seq <= OLD.seq BEGIN SELECT RAISE(ABORT, 'the head only moves on'); END;
CREATE TRIGGER events_no_replace BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq) OR EXISTS (SELECT 1 FROM events WHERE entry = NEW.entry) BEGIN SELECT RAISE(ABORT, 'events refuses REPLACE'); END;
CREATE TRIGGER head_no_replace BEFORE INSERT ON head WHEN EXISTS (SELECT 1 FROM head WHERE one = NEW.one) BEGIN SELECT RAISE(ABORT, 'head refuses REPLACE'); END;
CREATE TRIGGER windows_no_replace BEFORE INSERT ON windows WHEN EXISTS (SELECT 1 FROM windows WHERE opened = NEW.opened) BEGIN SELECT RAISE(ABORT, 'windows refuses REPLACE'); END;
CREATE TRIGGER accounts_no_replace BEFORE INSERT ON accounts WHEN EXISTS (SELECT 1 FROM accounts WHERE path = NEW.path) BEGIN SELECT RAISE(ABORT, 'accounts refuses REPLACE'); END;
CREATE TRIGGER releases_no_replace BEFORE INSERT ON releases WHEN EXISTS (SELECT 1 FROM releases WHERE entry = NEW.entry) BEGIN SELECT RAISE(ABORT, 'releases refuses REPLACE'); END;
