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
INSERT INTO "accounts" VALUES('clinic',2,'','{}',NULL,NULL,NULL,NULL,1000000000000,0,1000000000000,0,0,0,5,X'98087A35A985EBAFCC2B57FC2C8A5019FCB40100F216B495BCB86FE019A93B6A');
INSERT INTO "accounts" VALUES('clinic/ana',12,'month','{"note": "kept"}',100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0,12,X'D084E9EF859330F423B9A1B115B24E4AF2C3FAB3F4D5FC1FDA2F89D4F284CF95');
INSERT INTO "accounts" VALUES('clinic/ana/notebook',13,'','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,13,X'ED4DA051D579898AF7C300AC9BC6EF2AA06BE69F5B9A04E5E2EA5A74FEE3B646');
INSERT INTO "accounts" VALUES('clinic/bob',22,'','{}',NULL,NULL,NULL,NULL,10000000000,0,10000000000,0,25,0,25,X'963D6C4197D4920B150DFA9ABF84502BC22AC97343A3AD839EC917699174D02E');
INSERT INTO "accounts" VALUES('clinic/carl',26,'','{}',NULL,NULL,NULL,NULL,10000000000,0,10000000000,0,0,0,27,X'A0BFD9E1D87FA54B495645295DD3AEA8B67FBA2C529D52C307E8EE0AC6AE08A2');
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
INSERT INTO "events" VALUES(1,1795438068608317,'ana','ledger','',NULL,NULL,0,'','{"ledger": "f5897310fa00f9492089156793a0b8e8", "version": 8}',0,0,0,0,NULL,'[]',X'6C6EF1E1CEC240F31AF495C738949DD2E25ADD84588503488CAD57270856D2EF');
INSERT INTO "events" VALUES(2,1795438068676672,'olga','account','clinic',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic",2,"",null,null,null,null,null,null,null,null,0,0],["windows",2,"clinic","",0,0,0,0,0,0]]',X'D10967539E1109BD0759BF11A93099EA7C2244EBE3294321162D1A559DBB0AFD');
INSERT INTO "events" VALUES(3,1795438068676672,'olga','account','clinic/ana',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/ana",3,"",null,null,null,null,null,null,null,null,0,0],["windows",3,"clinic/ana","",0,0,0,0,0,0]]',X'2237923A3B3D1FC02DF61ED6977834CAD8E614F4F15B2D76848FEBD124600899');
INSERT INTO "events" VALUES(4,1795438068691448,'olga','limits','clinic/ana',NULL,NULL,0,'','{"limited": true, "terms": {"note": "kept"}}',100000000000,0,100000000000,0,NULL,'[["accounts","clinic/ana",3,"",100000000000,0,100000000000,0,null,null,null,null,0,0]]',X'283008788B732025838EC6DF99822ADBA54F3B96B53A23453AB1E5B9EE2F94F4');
INSERT INTO "events" VALUES(5,1795438068702228,'ana','policy','clinic',NULL,NULL,0,'','{"limited": true}',1000000000000,0,1000000000000,0,NULL,'[["accounts","clinic",2,"",null,null,null,null,1000000000000,0,1000000000000,0,0,0]]',X'98087A35A985EBAFCC2B57FC2C8A5019FCB40100F216B495BCB86FE019A93B6A');
INSERT INTO "events" VALUES(6,1795438068702228,'ana','policy','clinic/ana',NULL,NULL,0,'','{"conversion_share": 0.5, "limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/ana",3,"",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0]]',X'E51289FA7A4CDEEA695EC91B131668DCABA342464A490D1E1965139D46F1BE26');
INSERT INTO "events" VALUES(7,1795438068702228,'ana','reserve','clinic/ana',NULL,NULL,0,'look 1','{"blocks": [{"delta": 0.0, "epsilon": 0.0, "mechanism": "left-out look", "rho": 0.0001}], "statement": "", "values": []}',300,0,0,0,NULL,'[["windows",2,"clinic","",300,0,0,0,1,1],["windows",3,"clinic/ana","",300,0,0,0,1,1]]',X'266DBF1B87E9FD3CFA582EAC743CB6F440D3C667F73A723B8630FB0099E21F62');
INSERT INTO "events" VALUES(8,1795438068706085,'ana','reserve','clinic/ana',NULL,NULL,0,'question 1','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',1000,0,7,0,NULL,'[["windows",2,"clinic","",1300,0,7,0,2,2],["windows",3,"clinic/ana","",1300,0,7,0,2,2]]',X'DAEFF0DE4C45A9C013F4B64C5D401EC80B62160DA7D2932148753A64AA26B124');
INSERT INTO "events" VALUES(9,1795438068718019,'ana','settle','clinic/ana',8,NULL,0,'','{}',900,0,7,0,X'D4B6394E3E282D5E4D1D2DCDD6848F5A3CA267977FA25C52FD77110000D251A4','[["windows",2,"clinic","",1200,0,7,0,2,1],["windows",3,"clinic/ana","",1200,0,7,0,2,1]]',X'E9A2B49EB2DFD11907DFF71023C69067B5EF31580E999C7196C5FFC7568FB49B');
INSERT INTO "events" VALUES(10,1795438068722059,'ana','settle','clinic/ana',7,NULL,0,'','{}',300,0,0,0,X'3C01EBA119E00D79C82B6F65D70BC5F1044D568618BF41377E6D1432023FC2B8','[["windows",2,"clinic","",1200,0,7,0,2,0],["windows",3,"clinic/ana","",1200,0,7,0,2,0]]',X'4765A3BA6D0C30ACF8531F1A15632BC62E3475B101A658D1ABE15ADE4430B760');
INSERT INTO "events" VALUES(11,1795438068732292,'olga','renewal','clinic/ana',NULL,NULL,0,'','{"every": "month", "period": "2026-11"}',0,0,0,0,NULL,'[["accounts","clinic/ana",3,"month",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0],["windows",3,"clinic/ana","2026-11",1200,0,7,0,2,0]]',X'8546188B3F62FCC2B367F79F90EC0180C37E505B34069E2B7B72D3D62ADB0A82');
INSERT INTO "events" VALUES(12,1795438068737959,'olga','window','clinic/ana',NULL,NULL,0,'','{"by": "owner", "period": "2026-11"}',0,0,0,0,NULL,'[["accounts","clinic/ana",12,"month",100000000000,0,100000000000,0,10000000000,0,10000000000,0,0,0],["windows",12,"clinic/ana","2026-11",0,0,0,0,0,0]]',X'D084E9EF859330F423B9A1B115B24E4AF2C3FAB3F4D5FC1FDA2F89D4F284CF95');
INSERT INTO "events" VALUES(13,1795438068746052,'ana','account','clinic/ana/notebook',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/ana/notebook",13,"",null,null,null,null,null,null,null,null,0,0],["windows",13,"clinic/ana/notebook","",0,0,0,0,0,0]]',X'ED4DA051D579898AF7C300AC9BC6EF2AA06BE69F5B9A04E5E2EA5A74FEE3B646');
INSERT INTO "events" VALUES(14,1795438068746052,'ana','reserve','clinic/ana/notebook',NULL,NULL,0,'question 2','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',500,0,3,0,NULL,'[["windows",2,"clinic","",1700,0,10,0,3,1],["windows",12,"clinic/ana","2026-11",500,0,3,0,1,1],["windows",13,"clinic/ana/notebook","",500,0,3,0,1,1]]',X'5D8EBF430ED6C0223EF0FC344598D14F7E1BF382144AD9B3326CD5BFC9B6DF4C');
INSERT INTO "events" VALUES(15,1795438068749806,'ana','settle','clinic/ana/notebook',14,NULL,0,'','{}',500,0,3,0,X'F05116872230F0B18715D85CBE21E607F6FC49A8E7DE8F7B7EACEF1AD7DD419A','[["windows",2,"clinic","",1700,0,10,0,3,0],["windows",12,"clinic/ana","2026-11",500,0,3,0,1,0],["windows",13,"clinic/ana/notebook","",500,0,3,0,1,0]]',X'09FB4DE09F13BD4094AEB68AA6D532320754838995AEDAE25740B3671C63CDA4');
INSERT INTO "events" VALUES(16,1795438068757952,'ana','reserve','clinic/ana',NULL,NULL,0,'question 3','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',200,0,2,0,NULL,'[["windows",2,"clinic","",1900,0,12,0,4,1],["windows",12,"clinic/ana","2026-11",700,0,5,0,2,1]]',X'F3AC57AC9B449276BAF8F035B530C6B4205F3C4ACEFA758CD95CD997FF1CBB18');
INSERT INTO "events" VALUES(17,1795438068765968,'ana','reserve','clinic/ana',NULL,NULL,0,'stream 1','{"stream": {"name": "visits", "steps": 5}, "text": "SELECT 1"}',50,0,5,0,NULL,'[["windows",2,"clinic","",1950,0,17,0,5,2],["windows",12,"clinic/ana","2026-11",750,0,10,0,3,2]]',X'FA9BB05446292077C08083F24F2F4E83A6BBE9904BDAD60CB5485084FDA52FE0');
INSERT INTO "events" VALUES(18,1795438068765968,'ana','settle','clinic/ana',17,NULL,0,'','{}',50,0,5,0,NULL,'[["windows",2,"clinic","",1950,0,17,0,5,1],["windows",12,"clinic/ana","2026-11",750,0,10,0,3,1]]',X'ED3EF0663F77639BD0286F324EBDA1249BD08630DD2CC40B2A9F61E26A091712');
INSERT INTO "events" VALUES(19,1795438068765968,'ana','stream','clinic/ana',NULL,17,0,'stream 1','{"name": "visits", "steps": 5}',0,0,0,0,NULL,'[]',X'93C705C2AA6EE6A1B4C38D19EAE46F38A819B14FE262F3FA32DEE3B37AFA2FBB');
INSERT INTO "events" VALUES(20,1795438068769858,'ana','step','clinic/ana',NULL,17,1,'stream 1','{}',0,0,0,0,NULL,'[]',X'8CC3B99E48E700FD36A7BA2C377354C903A134E1BD3F821E14334911D4209AA4');
INSERT INTO "events" VALUES(21,1795438068773850,'ana','publish','clinic/ana',NULL,17,1,'stream 1','{}',0,0,0,0,X'20371F4B593295F27F402DDD9899DAC3210B6CABD9BDBD062F9B8AE71741A56B','[]',X'99575660E6D248AF8292A1D60618DE994D186EEA6954EE6758D444C0E4DADD7F');
INSERT INTO "events" VALUES(22,1795438068775320,'ana','account','clinic/bob',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,null,null,null,null,0,0],["windows",22,"clinic/bob","",0,0,0,0,0,0]]',X'B10BF12D8CAD2C4A7EF38950CC5DD57A3E77C243A09C0A27D15AD4BAA766D665');
INSERT INTO "events" VALUES(23,1795438068775320,'ana','policy','clinic/bob',NULL,NULL,0,'','{"conversion_share": 0.5, "limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,10000000000,0,10000000000,0,0,0]]',X'AF8F38DACC5A2C27E41952B0DE7BC7122A6BDEB8E63FF8289FFFF693D6ACB913');
INSERT INTO "events" VALUES(24,1795438068775320,'ana','reserve','clinic/bob',NULL,NULL,0,'question 1','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',100,0,1,0,NULL,'[["windows",2,"clinic","",2050,0,18,0,6,2],["windows",22,"clinic/bob","",100,0,1,0,1,1]]',X'B50249A0252874C690D95CB9EF59A5E67C70EC3378D7C9A26FD6D9B7A7620A57');
INSERT INTO "events" VALUES(25,1795438068782388,'ana','failure','clinic/bob',24,NULL,0,'','{"cause": "engine"}',0,0,0,0,NULL,'[["accounts","clinic/bob",22,"",null,null,null,null,10000000000,0,10000000000,0,25,0]]',X'963D6C4197D4920B150DFA9ABF84502BC22AC97343A3AD839EC917699174D02E');
INSERT INTO "events" VALUES(26,1795438068794034,'ana','account','clinic/carl',NULL,NULL,0,'','{}',0,0,0,0,NULL,'[["accounts","clinic/carl",26,"",null,null,null,null,null,null,null,null,0,0],["windows",26,"clinic/carl","",0,0,0,0,0,0]]',X'0985D074788F99FA8721354D7D628ED04DE5684185948B55497B65D8132FDAF1');
INSERT INTO "events" VALUES(27,1795438068794034,'ana','policy','clinic/carl',NULL,NULL,0,'','{"limited": true}',10000000000,0,10000000000,0,NULL,'[["accounts","clinic/carl",26,"",null,null,null,null,10000000000,0,10000000000,0,0,0]]',X'A0BFD9E1D87FA54B495645295DD3AEA8B67FBA2C529D52C307E8EE0AC6AE08A2');
INSERT INTO "events" VALUES(28,1795438068794034,'ana','reserve','clinic/carl',NULL,NULL,0,'stream 2','{"stream": {"name": "old", "steps": 2}}',50,0,5,0,NULL,'[["windows",2,"clinic","",2100,0,23,0,7,3],["windows",26,"clinic/carl","",50,0,5,0,1,1]]',X'91914BB5C7EBEEE2A02F571CD8CDB82E9117FE3AC448FBE1249159ED9F2B675C');
INSERT INTO "events" VALUES(29,1795438068794034,'ana','settle','clinic/carl',28,NULL,0,'','{}',50,0,5,0,NULL,'[["windows",2,"clinic","",2100,0,23,0,7,2],["windows",26,"clinic/carl","",50,0,5,0,1,0]]',X'6A8460FCA8DA9C164872D54E905980309BA23E9377267F267A0E99D4B0A2C018');
INSERT INTO "events" VALUES(30,1795438068794034,'ana','stream','clinic/carl',NULL,28,0,'stream 2','{"name": "old", "steps": 2}',0,0,0,0,NULL,'[]',X'D175D4667E53E00823B55D4465A3DC88D4342F7646FD5C1621D1B61204B60E95');
INSERT INTO "events" VALUES(31,1795438068797847,'ana','drop','clinic/carl',NULL,28,0,'stream 2','{}',0,0,0,0,NULL,'[]',X'4D361D4544FB045E8A152660BDAAAA750A2D213919538778E634FD30198322BE');
INSERT INTO "events" VALUES(32,1795438068816226,'ana','reserve','clinic/ana',NULL,NULL,0,'question 4','{"blocks": [{"mechanism": "gaussian", "rho": 0.1, "table": "visits"}], "statement": "SELECT COUNT(*) FROM visits", "values": []}',10,0,1,0,NULL,'[["windows",2,"clinic","",2110,0,24,0,8,3],["windows",12,"clinic/ana","2026-11",760,0,11,0,4,2]]',X'CD7346F8BD0BC2B7FBE5CB5270AAD67C61B12A07F58674B0925EC395397C08BE');
INSERT INTO "events" VALUES(33,1795438068823110,'ana','settle','clinic/ana',32,NULL,0,'','{}',10,0,1,0,X'283BB9DEEF02E6843ABFB538EFA1ECA70801BD8A701C3F98191E123496339247','[["windows",2,"clinic","",2110,0,24,0,8,2],["windows",12,"clinic/ana","2026-11",760,0,11,0,4,1]]',X'587DA099B47B86A135C9F59212A04A9AEF79CCCC2251DC626C8E218E5DF8AACE');
INSERT INTO "events" VALUES(34,1795438068829265,'olga','forget','clinic/ana/notebook',NULL,NULL,0,'','{"entry": 14}',0,0,0,0,NULL,'[]',X'617F3598571DF9A70601EDE82F90DA773C763E6EAD9F566CF164E27FD8C81721');
CREATE TABLE head (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    ledger  TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO "head" VALUES(1,'f5897310fa00f9492089156793a0b8e8',8,34,1795438068829265,X'617F3598571DF9A70601EDE82F90DA773C763E6EAD9F566CF164E27FD8C81721');
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
INSERT INTO "windows" VALUES(2,'clinic','',2110,0,24,0,8,2,33,X'587DA099B47B86A135C9F59212A04A9AEF79CCCC2251DC626C8E218E5DF8AACE');
INSERT INTO "windows" VALUES(3,'clinic/ana','2026-11',1200,0,7,0,2,0,11,X'8546188B3F62FCC2B367F79F90EC0180C37E505B34069E2B7B72D3D62ADB0A82');
INSERT INTO "windows" VALUES(12,'clinic/ana','2026-11',760,0,11,0,4,1,33,X'587DA099B47B86A135C9F59212A04A9AEF79CCCC2251DC626C8E218E5DF8AACE');
INSERT INTO "windows" VALUES(13,'clinic/ana/notebook','',500,0,3,0,1,0,15,X'09FB4DE09F13BD4094AEB68AA6D532320754838995AEDAE25740B3671C63CDA4');
INSERT INTO "windows" VALUES(22,'clinic/bob','',100,0,1,0,1,1,24,X'B50249A0252874C690D95CB9EF59A5E67C70EC3378D7C9A26FD6D9B7A7620A57');
INSERT INTO "windows" VALUES(26,'clinic/carl','',50,0,5,0,1,0,29,X'6A8460FCA8DA9C164872D54E905980309BA23E9377267F267A0E99D4B0A2C018');
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
