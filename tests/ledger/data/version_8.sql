PRAGMA application_id = 1685091180;
PRAGMA user_version = 8;
BEGIN TRANSACTION;
CREATE TABLE accounts (
    path           TEXT PRIMARY KEY,
    opened         INTEGER NOT NULL REFERENCES windows,
    renews         TEXT NOT NULL DEFAULT '' CHECK (renews IN ('', 'day', 'month')),
    terms          TEXT NOT NULL DEFAULT '{}',
    limit_rho      INTEGER CHECK (limit_rho >= 0),
    limit_epsilon  INTEGER CHECK (limit_epsilon >= 0),
    limit_delta    INTEGER CHECK (limit_delta >= 0),
    limit_gaussian INTEGER CHECK (limit_gaussian >= 0),
    policy_rho     INTEGER CHECK (policy_rho >= 0),
    policy_epsilon INTEGER CHECK (policy_epsilon >= 0),
    policy_delta   INTEGER CHECK (policy_delta >= 0),
    policy_gaussian INTEGER CHECK (policy_gaussian >= 0),
    suspended      INTEGER NOT NULL DEFAULT 0,
    reopened       INTEGER NOT NULL DEFAULT 0,
    last           INTEGER NOT NULL DEFAULT 0,
    tie            BLOB,
    CHECK ((limit_rho IS NULL) = (limit_delta IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_epsilon IS NULL)),
    CHECK ((limit_rho IS NULL) = (limit_gaussian IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_gaussian IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_delta IS NULL)),
    CHECK ((policy_rho IS NULL) = (policy_epsilon IS NULL))
) STRICT;
INSERT INTO "accounts" VALUES('clinic',2,'','{}',NULL,NULL,NULL,NULL,1000000000000,0,1000000000000,0,0,0,5,X'68E6131DE97CDD073187A88461B9087F1C37A9F18AC866BA63B7E00641498980');
INSERT INTO "accounts" VALUES('clinic/ana',12,'month','{"note": "kept"}',100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0,12,X'CB3FC21DB43E707AA81B491C4B08E04FD1B1140C24D842A6DA3368292BDB6DAF');
INSERT INTO "accounts" VALUES('clinic/ana/notebook',13,'','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,13,X'E03E18A42FBE9763E3D013A37A49B27E91F10CF715E2EDFD019BA9C3D79BEDAC');
INSERT INTO "accounts" VALUES('clinic/bob',22,'','{}',NULL,NULL,NULL,NULL,10000000000,0,10000000000,0,25,0,25,X'1244C38DCBD4F433015E9BDD97BCFBB0B7ED7C856F48711BB5D8A2270DA9F933');
INSERT INTO "accounts" VALUES('clinic/carl',26,'','{}',NULL,NULL,NULL,NULL,10000000000,0,10000000000,0,0,0,27,X'44AB86582F26A77B856D960D6A21CB73B684E79051BB2C3118B43AE8C7754060');
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    account TEXT NOT NULL,
    entry   INTEGER UNIQUE REFERENCES events,
    stream  INTEGER REFERENCES events,
    step    INTEGER NOT NULL CHECK (step >= 0),
    query   TEXT NOT NULL,
    detail  TEXT NOT NULL,
    rho     INTEGER NOT NULL CHECK (rho >= 0),
    epsilon INTEGER NOT NULL CHECK (epsilon >= 0),
    delta   INTEGER NOT NULL CHECK (delta >= 0),
    gaussian INTEGER NOT NULL CHECK (gaussian >= 0),
    digest  BLOB CHECK (length(digest) = 32),
    state   TEXT,
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    CHECK (step = 0 OR stream IS NOT NULL)
) STRICT;
INSERT INTO "events" VALUES(1,1709640000000000,'ana','ledger','',NULL,NULL,0,'','{"ledger": "8d9e651879e24834b4450bd0b2b9dc08", "version": 8}',0,0,0,0,NULL,'[]',X'D182877362AA031722ECE2ADDDF70D6C58F80E690AF8364801338AE159674AB1');
INSERT INTO "events" VALUES(2,1709640001000000,'olga','account','clinic',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic",2,"",null,null,null,null,null,null,null,null,0,0],["windows",2,"clinic","",0,0,0,0,0,0]]',X'57A5C9131BEDD1F6F91AD9AC0EC608873FA1F29DBA49A1F1E151BC5991A2E670');
INSERT INTO "events" VALUES(3,1709640001000000,'olga','account','clinic/ana',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/ana",3,"",null,null,null,null,null,null,null,null,0,0],["windows",3,"clinic/ana","",0,0,0,0,0,0]]',X'6ECB69BF0F5B53307903CFA8058D3FE140453E9DAA5AAA914CEC2670F22E1627');
INSERT INTO "events" VALUES(4,1709640002000000,'olga','limits','clinic/ana',NULL,NULL,0,'','{"limited": true, "terms": {"note": "kept"}}',100000000000,0,100000000000,0,NULL,'[["accounts","clinic/ana",3,"",100000000000,0,100000000000,0,null,null,null,null,0,0]]',X'820A95C03252E6323CDE7277094C1DF593348A20CC0495E2CF747DBAB5642792');
INSERT INTO "events" VALUES(5,1709640003000000,'ana','policy','clinic',NULL,NULL,0,'','{"limited": true}',1000000000000,0,1000000000000,0,NULL,'[["accounts","clinic",2,"",null,null,null,null,1000000000000,0,1000000000000,0,0,0]]',X'68E6131DE97CDD073187A88461B9087F1C37A9F18AC866BA63B7E00641498980');
INSERT INTO "events" VALUES(6,1709640003000000,'ana','policy','clinic/ana',NULL,NULL,0,'','{"conversion_share": 0.5, "limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/ana",3,"",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0]]',X'E2ABE9FEFE37E7C9C16D75BC9B6FB85BD8CBB424569C89E30EF09100B1EFE7F9');
INSERT INTO "events" VALUES(7,1709640003000000,'ana','reserve','clinic/ana',NULL,NULL,0,'look 1','{"blocks": [{"delta": 0.0, "epsilon": 0.0, "mechanism": "left-out look", "rho": 0.0001}], "statement": "", "values": []}',300,0,0,0,NULL,'[["windows",2,"clinic","",300,0,0,0,1,1],["windows",3,"clinic/ana","",300,0,0,0,1,1]]',X'9E282CCB59BCCC70C9BD7E604DFAD16F2B348C949D3F03B2A4748DFC88D2A148');
INSERT INTO "events" VALUES(8,1709640004000000,'ana','reserve','clinic/ana',NULL,NULL,0,'question 1','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',1000,0,7,0,NULL,'[["windows",2,"clinic","",1300,0,7,0,2,2],["windows",3,"clinic/ana","",1300,0,7,0,2,2]]',X'05204C9719EDA01A84259D923A5B75C2D11493CB0DBC72B2685E887FA5B24D65');
INSERT INTO "events" VALUES(9,1709640005000000,'ana','settle','clinic/ana',8,NULL,0,'','{}',900,0,7,0,X'D4B6394E3E282D5E4D1D2DCDD6848F5A3CA267977FA25C52FD77110000D251A4','[["windows",2,"clinic","",1200,0,7,0,2,1],["windows",3,"clinic/ana","",1200,0,7,0,2,1]]',X'45E214FCE1A977A98F33E96B3E70471F680710559E5A1287A5AA74F6A57916C7');
INSERT INTO "events" VALUES(10,1709640006000000,'ana','settle','clinic/ana',7,NULL,0,'','{}',300,0,0,0,X'3C01EBA119E00D79C82B6F65D70BC5F1044D568618BF41377E6D1432023FC2B8','[["windows",2,"clinic","",1200,0,7,0,2,0],["windows",3,"clinic/ana","",1200,0,7,0,2,0]]',X'F20062DA5F95ABE06806B210604D64FCD74C8308052CB3CD58190FA119128F84');
INSERT INTO "events" VALUES(11,1709640007000000,'olga','renewal','clinic/ana',NULL,NULL,0,'','{"every": "month", "period": "2024-03"}',0,0,0,0,NULL,'[["accounts","clinic/ana",3,"month",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0],["windows",3,"clinic/ana","2024-03",1200,0,7,0,2,0]]',X'2258A2AD06D04EE98633C22F770B425B950662159A9702F82A51A978381302A0');
INSERT INTO "events" VALUES(12,1709640008000000,'olga','window','clinic/ana',NULL,NULL,0,'','{"by": "owner", "period": "2024-03"}',0,0,0,0,NULL,'[["accounts","clinic/ana",12,"month",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0],["windows",12,"clinic/ana","2024-03",0,0,0,0,0,0]]',X'CB3FC21DB43E707AA81B491C4B08E04FD1B1140C24D842A6DA3368292BDB6DAF');
INSERT INTO "events" VALUES(13,1709640009000000,'ana','account','clinic/ana/notebook',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/ana/notebook",13,"",null,null,null,null,null,null,null,null,0,0],["windows",13,"clinic/ana/notebook","",0,0,0,0,0,0]]',X'E03E18A42FBE9763E3D013A37A49B27E91F10CF715E2EDFD019BA9C3D79BEDAC');
INSERT INTO "events" VALUES(14,1709640009000000,'ana','reserve','clinic/ana/notebook',NULL,NULL,0,'question 2','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',500,0,3,0,NULL,'[["windows",2,"clinic","",1700,0,10,0,3,1],["windows",12,"clinic/ana","2024-03",500,0,3,0,1,1],["windows",13,"clinic/ana/notebook","",500,0,3,0,1,1]]',X'74F421A3AF8E101D4C4912D876B2E937EBDAF763F58733F27B093C80D850C611');
INSERT INTO "events" VALUES(15,1709640010000000,'ana','settle','clinic/ana/notebook',14,NULL,0,'','{}',500,0,3,0,X'F05116872230F0B18715D85CBE21E607F6FC49A8E7DE8F7B7EACEF1AD7DD419A','[["windows",2,"clinic","",1700,0,10,0,3,0],["windows",12,"clinic/ana","2024-03",500,0,3,0,1,0],["windows",13,"clinic/ana/notebook","",500,0,3,0,1,0]]',X'5A53288D7C50EB794B96BC0BE22CD8C9D9BF96390A0AB96BB3C73C68FD7DCF1C');
INSERT INTO "events" VALUES(16,1709640011000000,'ana','reserve','clinic/ana',NULL,NULL,0,'question 3','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',200,0,2,0,NULL,'[["windows",2,"clinic","",1900,0,12,0,4,1],["windows",12,"clinic/ana","2024-03",700,0,5,0,2,1]]',X'2B33671B40B125DA11365763FF05253ED72762D97E9D309D6DC2A12FCC8E5DBC');
INSERT INTO "events" VALUES(17,1709640012000000,'ana','reserve','clinic/ana',NULL,NULL,0,'stream 1','{"stream": {"name": "visits", "steps": 5}, "text": "SELECT 1"}',50,0,5,0,NULL,'[["windows",2,"clinic","",1950,0,17,0,5,2],["windows",12,"clinic/ana","2024-03",750,0,10,0,3,2]]',X'B24005C487E29CCDF11BF7575A5555824623D19E6FC9713D0CFB09502BC70B91');
INSERT INTO "events" VALUES(18,1709640012000000,'ana','settle','clinic/ana',17,NULL,0,'','{}',50,0,5,0,NULL,'[["windows",2,"clinic","",1950,0,17,0,5,1],["windows",12,"clinic/ana","2024-03",750,0,10,0,3,1]]',X'FB0A62B88F29CD3B1E1F7B6727FD37D9C6C2750E7204CE2A60BE832D06FECC98');
INSERT INTO "events" VALUES(19,1709640012000000,'ana','stream','clinic/ana',NULL,17,0,'stream 1','{"name": "visits", "steps": 5}',0,0,0,0,NULL,'[]',X'97272D36E0F1C323A63CE87109BDE71DFBEA28177E437022EAFB1C50B32488E7');
INSERT INTO "events" VALUES(20,1709640013000000,'ana','step','clinic/ana',NULL,17,1,'stream 1','{}',0,0,0,0,NULL,'[]',X'4409B867ECADFE80DED3FAD6F08B6165FC3C003ABE3B4E7CF81045983C9E0C5F');
INSERT INTO "events" VALUES(21,1709640014000000,'ana','publish','clinic/ana',NULL,17,1,'stream 1','{}',0,0,0,0,X'20371F4B593295F27F402DDD9899DAC3210B6CABD9BDBD062F9B8AE71741A56B','[]',X'6F87E567246C4D533A4C36C5AA10EF77E14D943638EC8ED6F87EA51AEC605A42');
INSERT INTO "events" VALUES(22,1709640015000000,'ana','account','clinic/bob',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,null,null,null,null,0,0],["windows",22,"clinic/bob","",0,0,0,0,0,0]]',X'93FFF4CE083F592D0ED5526D39372D0E53D5C642F493D3E7868C9AE51128AAB9');
INSERT INTO "events" VALUES(23,1709640015000000,'ana','policy','clinic/bob',NULL,NULL,0,'','{"conversion_share": 0.5, "limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,10000000000,0,10000000000,0,0,0]]',X'2F35EF6DE448789BE370D3F11C7C06B555F407F888162842AFACEC921FF066D2');
INSERT INTO "events" VALUES(24,1709640015000000,'ana','reserve','clinic/bob',NULL,NULL,0,'question 1','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',100,0,1,0,NULL,'[["windows",2,"clinic","",2050,0,18,0,6,2],["windows",22,"clinic/bob","",100,0,1,0,1,1]]',X'701FD7E468316544A2C1A898E023D6CDE9FD1D557AD511665C02729254DD4E83');
INSERT INTO "events" VALUES(25,1709640016000000,'ana','failure','clinic/bob',24,NULL,0,'','{"cause": "engine"}',0,0,0,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,10000000000,0,10000000000,0,25,0]]',X'1244C38DCBD4F433015E9BDD97BCFBB0B7ED7C856F48711BB5D8A2270DA9F933');
INSERT INTO "events" VALUES(26,1709640017000000,'ana','account','clinic/carl',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/carl",26,"",null,null,null,null,null,null,null,null,0,0],["windows",26,"clinic/carl","",0,0,0,0,0,0]]',X'D9BE5BE1F34C2BB378DEFD71AB16CFABCCDBE26FC40E387A4971C299C18B8F35');
INSERT INTO "events" VALUES(27,1709640017000000,'ana','policy','clinic/carl',NULL,NULL,0,'','{"limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/carl",26,"",null,null,null,null,10000000000,0,10000000000,0,0,0]]',X'44AB86582F26A77B856D960D6A21CB73B684E79051BB2C3118B43AE8C7754060');
INSERT INTO "events" VALUES(28,1709640017000000,'ana','reserve','clinic/carl',NULL,NULL,0,'stream 2','{"stream": {"name": "old", "steps": 2}}',50,0,5,0,NULL,'[["windows",2,"clinic","",2100,0,23,0,7,3],["windows",26,"clinic/carl","",50,0,5,0,1,1]]',X'DCF81F7E7D4BB60E7B2AB3B2DC6082229B452295CF6A4E1595D790635FF2B2F7');
INSERT INTO "events" VALUES(29,1709640017000000,'ana','settle','clinic/carl',28,NULL,0,'','{}',50,0,5,0,NULL,'[["windows",2,"clinic","",2100,0,23,0,7,2],["windows",26,"clinic/carl","",50,0,5,0,1,0]]',X'3813C6D9BDF94CDC0704E6B1934398CC387F3A01BB20D37D930EBB6D882AAA03');
INSERT INTO "events" VALUES(30,1709640017000000,'ana','stream','clinic/carl',NULL,28,0,'stream 2','{"name": "old", "steps": 2}',0,0,0,0,NULL,'[]',X'E978A215266AF194F507204844A68F3EE8E344DB80990B63C895586DDDBB3112');
INSERT INTO "events" VALUES(31,1709640018000000,'ana','drop','clinic/carl',NULL,28,0,'stream 2','{}',0,0,0,0,NULL,'[]',X'AD4C8B1CB432909BA2E5F8FD730AE4DFEEE013B07C771B830F3583034633BEF2');
INSERT INTO "events" VALUES(32,1709640019000000,'ana','reserve','clinic/ana',NULL,NULL,0,'question 4','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',10,0,1,0,NULL,'[["windows",2,"clinic","",2110,0,24,0,8,3],["windows",12,"clinic/ana","2024-03",760,0,11,0,4,2]]',X'EE114B0B388A51059CC3FDAB037FC3EFA5F79DB6D4AEF63B526FA5A7D5C003D0');
INSERT INTO "events" VALUES(33,1709640020000000,'ana','settle','clinic/ana',32,NULL,0,'','{}',10,0,1,0,X'283BB9DEEF02E6843ABFB538EFA1ECA70801BD8A701C3F98191E123496339247','[["windows",2,"clinic","",2110,0,24,0,8,2],["windows",12,"clinic/ana","2024-03",760,0,11,0,4,1]]',X'78485971D75463620CE84EDB0B9380C13E737899DCAAF79C37084265B3F8A833');
INSERT INTO "events" VALUES(34,1709640021000000,'olga','forget','clinic/ana/notebook',NULL,NULL,0,'','{"entry": 14}',0,0,0,0,NULL,'[]',X'DC25BAC101AAD7D50AAC0D66FA0D3A6F7074BB09FDEAE4A195613F306AB645C1');
CREATE TABLE head (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    ledger  TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO "head" VALUES(1,'8d9e651879e24834b4450bd0b2b9dc08',8,34,1709640021000000,X'DC25BAC101AAD7D50AAC0D66FA0D3A6F7074BB09FDEAE4A195613F306AB645C1');
CREATE TABLE releases (
    entry   INTEGER PRIMARY KEY REFERENCES events,
    account TEXT NOT NULL,
    query   TEXT NOT NULL,
    size    INTEGER NOT NULL,
    packed  INTEGER NOT NULL CHECK (packed IN (0, 1)),
    payload BLOB NOT NULL
) STRICT;
INSERT INTO "releases" VALUES(7,'clinic/ana','look 1',4,0,X'6C6F6F6B');
INSERT INTO "releases" VALUES(8,'clinic/ana','question 1',180,1,X'78014BCC2B2E4F2D523054481C3A0C006EF93C15');
INSERT INTO "releases" VALUES(32,'clinic/ana','question 4',4,0,X'676F6E65');
CREATE TABLE step_releases (
    stream  INTEGER NOT NULL REFERENCES events,
    step    INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    packed  INTEGER NOT NULL CHECK (packed IN (0, 1)),
    payload BLOB NOT NULL,
    PRIMARY KEY (stream, step, part)
) STRICT;
INSERT INTO "step_releases" VALUES(17,1,0,6,0,X'737465702031');
CREATE TABLE windows (
    opened    INTEGER PRIMARY KEY,
    path      TEXT NOT NULL,
    period    TEXT NOT NULL,
    rho       INTEGER NOT NULL DEFAULT 0 CHECK (rho >= 0),
    epsilon   INTEGER NOT NULL DEFAULT 0 CHECK (epsilon >= 0),
    delta     INTEGER NOT NULL DEFAULT 0 CHECK (delta >= 0),
    gaussian  INTEGER NOT NULL DEFAULT 0 CHECK (gaussian >= 0),
    queries   INTEGER NOT NULL DEFAULT 0 CHECK (queries >= 0),
    unsettled INTEGER NOT NULL DEFAULT 0 CHECK (unsettled BETWEEN 0 AND queries),
    last      INTEGER NOT NULL DEFAULT 0,
    tie       BLOB
) STRICT;
INSERT INTO "windows" VALUES(2,'clinic','',2110,0,24,0,8,2,33,X'78485971D75463620CE84EDB0B9380C13E737899DCAAF79C37084265B3F8A833');
INSERT INTO "windows" VALUES(3,'clinic/ana','2024-03',1200,0,7,0,2,0,11,X'2258A2AD06D04EE98633C22F770B425B950662159A9702F82A51A978381302A0');
INSERT INTO "windows" VALUES(12,'clinic/ana','2024-03',760,0,11,0,4,1,33,X'78485971D75463620CE84EDB0B9380C13E737899DCAAF79C37084265B3F8A833');
INSERT INTO "windows" VALUES(13,'clinic/ana/notebook','',500,0,3,0,1,0,15,X'5A53288D7C50EB794B96BC0BE22CD8C9D9BF96390A0AB96BB3C73C68FD7DCF1C');
INSERT INTO "windows" VALUES(22,'clinic/bob','',100,0,1,0,1,1,24,X'701FD7E468316544A2C1A898E023D6CDE9FD1D557AD511665C02729254DD4E83');
INSERT INTO "windows" VALUES(26,'clinic/carl','',50,0,5,0,1,0,29,X'3813C6D9BDF94CDC0704E6B1934398CC387F3A01BB20D37D930EBB6D882AAA03');
CREATE UNIQUE INDEX steps_by_stream ON events (stream, kind, step) WHERE stream IS NOT NULL;
CREATE UNIQUE INDEX streams_by_id ON events (query) WHERE kind = 'stream';
CREATE INDEX streams_by_account ON events (account, seq) WHERE kind = 'stream';
CREATE INDEX entries_by_account ON events (account, seq, kind) WHERE kind = 'reserve';
CREATE INDEX suspensions ON events (seq, account) WHERE (kind = 'failure' OR kind = 'suspend' OR kind = 'reopen');
CREATE INDEX changes_by_account ON events (account, seq, kind) WHERE kind <> 'reserve' AND kind <> 'settle' AND kind <> 'forget' AND kind <> 'stream' AND kind <> 'step' AND kind <> 'publish' AND kind <> 'drop';
CREATE UNIQUE INDEX windows_by_account ON windows (path, opened);
CREATE INDEX releases_by_query ON releases (query, entry);
CREATE INDEX releases_by_rows ON releases (substr(query, 65), account, entry);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'events refuses UPDATE'); END;
CREATE TRIGGER releases_no_update BEFORE UPDATE ON releases WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'releases refuses UPDATE'); END;
CREATE TRIGGER step_releases_no_update BEFORE UPDATE ON step_releases WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'step_releases refuses UPDATE'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'events refuses DELETE'); END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'head refuses DELETE'); END;
CREATE TRIGGER windows_no_delete BEFORE DELETE ON windows WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'windows refuses DELETE'); END;
CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'accounts refuses DELETE'); END;
CREATE TRIGGER event_says_what_it_does BEFORE INSERT ON events WHEN (NEW.state IS NULL) BEGIN SELECT RAISE(ABORT, 'an event says what it makes of accounts and windows'); END;
CREATE TRIGGER step_comes_after_all_before BEFORE INSERT ON events WHEN (NEW.kind = 'step') AND EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND kind = 'step' AND step >= NEW.step) BEGIN SELECT RAISE(ABORT, 'a step is later than all that were begun'); END;
CREATE TRIGGER steps_are_published_in_order BEFORE INSERT ON events WHEN (NEW.kind = 'publish') AND EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND kind = 'publish' AND step > NEW.step) BEGIN SELECT RAISE(ABORT, 'a later step was published'); END;
CREATE TRIGGER dropped_stream_has_ended BEFORE INSERT ON events WHEN (NEW.kind = 'step' OR NEW.kind = 'publish') AND EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND kind = 'drop') BEGIN SELECT RAISE(ABORT, 'the stream was dropped'); END;
CREATE TRIGGER steps_are_kept_until_dropped BEFORE DELETE ON step_releases WHEN (1 = 1) AND EXISTS (SELECT 1 FROM (SELECT 1) AS here WHERE NOT EXISTS (SELECT 1 FROM events WHERE stream = OLD.stream AND kind = 'drop')) BEGIN SELECT RAISE(ABORT, 'what a stream has published is kept until it is dropped'); END;
CREATE TRIGGER window_starts_at_zero BEFORE INSERT ON windows WHEN (NEW.rho + NEW.epsilon + NEW.delta + NEW.gaussian + NEW.queries > 0) BEGIN SELECT RAISE(ABORT, 'a window is new and nothing was spent in it'); END;
CREATE TRIGGER window_only_grows_or_settles BEFORE UPDATE ON windows WHEN (NEW.opened <> OLD.opened OR NEW.path <> OLD.path OR NEW.delta < OLD.delta OR NEW.queries < OLD.queries OR ((NEW.rho < OLD.rho OR NEW.epsilon < OLD.epsilon OR NEW.gaussian < OLD.gaussian) AND NEW.unsettled <> OLD.unsettled - 1) OR NEW.last < OLD.last) BEGIN SELECT RAISE(ABORT, 'what was spent is lowered by settling only'); END;
CREATE TRIGGER account_keeps_its_name BEFORE UPDATE ON accounts WHEN (NEW.path <> OLD.path OR NEW.opened < OLD.opened OR NEW.suspended < OLD.suspended OR NEW.reopened < OLD.reopened OR NEW.last < OLD.last) BEGIN SELECT RAISE(ABORT, 'an account keeps its name and never returns to an older window'); END;
CREATE TRIGGER suspended_account_is_not_charged BEFORE UPDATE ON windows WHEN (NEW.queries > OLD.queries) AND EXISTS (SELECT 1 FROM accounts WHERE path = NEW.path AND suspended > reopened) BEGIN SELECT RAISE(ABORT, 'a suspended account is not charged'); END;
CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN (NEW.ledger <> OLD.ledger OR NEW.version < OLD.version OR NEW.seq <= OLD.seq) BEGIN SELECT RAISE(ABORT, 'the head only moves on'); END;
CREATE TRIGGER events_no_replace BEFORE INSERT ON events WHEN (EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq) OR EXISTS (SELECT 1 FROM events WHERE entry = NEW.entry) OR EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND kind = NEW.kind AND step = NEW.step) OR EXISTS (SELECT 1 FROM events WHERE kind = 'stream' AND query = NEW.query AND NEW.kind = 'stream')) BEGIN SELECT RAISE(ABORT, 'events refuses REPLACE'); END;
CREATE TRIGGER head_no_replace BEFORE INSERT ON head WHEN (EXISTS (SELECT 1 FROM head WHERE one = NEW.one)) BEGIN SELECT RAISE(ABORT, 'head refuses REPLACE'); END;
CREATE TRIGGER windows_no_replace BEFORE INSERT ON windows WHEN (EXISTS (SELECT 1 FROM windows WHERE opened = NEW.opened)) BEGIN SELECT RAISE(ABORT, 'windows refuses REPLACE'); END;
CREATE TRIGGER accounts_no_replace BEFORE INSERT ON accounts WHEN (EXISTS (SELECT 1 FROM accounts WHERE path = NEW.path)) BEGIN SELECT RAISE(ABORT, 'accounts refuses REPLACE'); END;
CREATE TRIGGER releases_no_replace BEFORE INSERT ON releases WHEN (EXISTS (SELECT 1 FROM releases WHERE entry = NEW.entry)) BEGIN SELECT RAISE(ABORT, 'releases refuses REPLACE'); END;
CREATE TRIGGER step_releases_no_replace BEFORE INSERT ON step_releases WHEN (EXISTS (SELECT 1 FROM step_releases WHERE stream = NEW.stream AND step = NEW.step AND part = NEW.part)) BEGIN SELECT RAISE(ABORT, 'step_releases refuses REPLACE'); END;
COMMIT;
