-- The tables of a ledger of version 3 in PostgreSQL, in the schema that is searched first.
CREATE TABLE events (
    seq     BIGINT PRIMARY KEY,
    at      BIGINT NOT NULL,
    who     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    account TEXT NOT NULL,
    entry   BIGINT UNIQUE REFERENCES events,
    query   TEXT NOT NULL,
    detail  TEXT NOT NULL,
    rho     BIGINT NOT NULL CHECK (rho >= 0),
    epsilon BIGINT NOT NULL CHECK (epsilon >= 0),
    delta   BIGINT NOT NULL CHECK (delta >= 0),
    digest  BYTEA CHECK (length(digest) = 32),
    hash    BYTEA NOT NULL CHECK (length(hash) = 32)
);
CREATE INDEX entries_by_account ON events (account, seq, kind) WHERE kind = 'reserve';
CREATE TABLE head (
    one     BIGINT PRIMARY KEY CHECK (one = 1),
    ledger  TEXT NOT NULL,
    version BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    hash    BYTEA NOT NULL CHECK (length(hash) = 32)
);
CREATE TABLE windows (
    opened    BIGINT PRIMARY KEY,
    path      TEXT NOT NULL,
    period    TEXT NOT NULL,
    rho       BIGINT NOT NULL DEFAULT 0 CHECK (rho >= 0),
    epsilon   BIGINT NOT NULL DEFAULT 0 CHECK (epsilon >= 0),
    delta     BIGINT NOT NULL DEFAULT 0 CHECK (delta >= 0),
    queries   BIGINT NOT NULL DEFAULT 0 CHECK (queries >= 0),
    unsettled BIGINT NOT NULL DEFAULT 0 CHECK (unsettled BETWEEN 0 AND queries)
);
CREATE UNIQUE INDEX windows_by_account ON windows (path, opened);
CREATE TABLE accounts (
    path           TEXT PRIMARY KEY,
    opened         BIGINT NOT NULL REFERENCES windows,
    renews         TEXT NOT NULL DEFAULT '' CHECK (renews IN ('', 'day', 'month')),
    terms          TEXT NOT NULL DEFAULT '{}',
    limit_rho      BIGINT CHECK (limit_rho >= 0),
    limit_epsilon  BIGINT CHECK (limit_epsilon >= 0),
    limit_delta    BIGINT CHECK (limit_delta >= 0),
    policy_rho     BIGINT CHECK (policy_rho >= 0),
    policy_epsilon BIGINT CHECK (policy_epsilon >= 0),
    policy_delta   BIGINT CHECK (policy_delta >= 0),
    CHECK ((limit_rho IS NULL) = (limit_delta IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_epsilon IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_delta IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_epsilon IS NULL))
);
CREATE TABLE releases (
    entry   BIGINT PRIMARY KEY REFERENCES events,
    account TEXT NOT NULL,
    query   TEXT NOT NULL,
    size    BIGINT NOT NULL,
    packed  BIGINT NOT NULL CHECK (packed IN (0, 1)),
    payload BYTEA NOT NULL
);
CREATE INDEX releases_by_query ON releases (query, entry);

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'restrict_violation'; END $$;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('events refuses UPDATE');
CREATE TRIGGER releases_no_update BEFORE UPDATE ON releases FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('releases refuses UPDATE');
CREATE TRIGGER events_no_delete BEFORE DELETE ON events FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('events refuses DELETE');
CREATE TRIGGER head_no_delete BEFORE DELETE ON head FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('head refuses DELETE');
CREATE TRIGGER windows_no_delete BEFORE DELETE ON windows FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('windows refuses DELETE');
CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts FOR EACH ROW WHEN (1 = 1) EXECUTE FUNCTION refuse('accounts refuses DELETE');
CREATE TRIGGER window_starts_at_zero BEFORE INSERT ON windows FOR EACH ROW WHEN (NEW.rho + NEW.epsilon + NEW.delta + NEW.queries > 0) EXECUTE FUNCTION refuse('a window is new and nothing was spent in it');
CREATE TRIGGER window_only_grows_or_settles BEFORE UPDATE ON windows FOR EACH ROW WHEN (NEW.opened <> OLD.opened OR NEW.path <> OLD.path OR NEW.delta < OLD.delta OR NEW.queries < OLD.queries OR ((NEW.rho < OLD.rho OR NEW.epsilon < OLD.epsilon) AND NEW.unsettled <> OLD.unsettled - 1)) EXECUTE FUNCTION refuse('what was spent is lowered by settling only');
CREATE TRIGGER account_keeps_its_name BEFORE UPDATE ON accounts FOR EACH ROW WHEN (NEW.path <> OLD.path OR NEW.opened < OLD.opened) EXECUTE FUNCTION refuse('an account keeps its name and never returns to an older window');
CREATE TRIGGER head_moves_on BEFORE UPDATE ON head FOR EACH ROW WHEN (NEW.ledger <> OLD.ledger OR NEW.version < OLD.version OR NEW.seq <= OLD.seq) EXECUTE FUNCTION refuse('the head only moves on');
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse('events refuses TRUNCATE');
CREATE TRIGGER head_no_truncate BEFORE TRUNCATE ON head FOR EACH STATEMENT EXECUTE FUNCTION refuse('head refuses TRUNCATE');
CREATE TRIGGER windows_no_truncate BEFORE TRUNCATE ON windows FOR EACH STATEMENT EXECUTE FUNCTION refuse('windows refuses TRUNCATE');
CREATE TRIGGER accounts_no_truncate BEFORE TRUNCATE ON accounts FOR EACH STATEMENT EXECUTE FUNCTION refuse('accounts refuses TRUNCATE');
CREATE TRIGGER releases_no_truncate BEFORE TRUNCATE ON releases FOR EACH STATEMENT EXECUTE FUNCTION refuse('releases refuses TRUNCATE');
