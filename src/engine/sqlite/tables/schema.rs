//! The tables. One file holds any number of queues.

/// Packs have positions, not row ids: SQLite uses ids again after a delete.
pub(in crate::engine::sqlite) const SCHEMA: &str = "
CREATE TABLE meta (queue TEXT PRIMARY KEY, birth TEXT, layout INT, names TEXT, clock INT, wall INT, step INT,
  generator TEXT, epoch INT, crown INT, heirs TEXT, seq INT, made INT, due INT, grain INT, again INT, head INT,
  done INT, failed INT, requeued INT, rewinds INT, paused_generator INT, paused_handlers INT, ruled INT, chosen TEXT,
  rank INT, skipped INT, trimmed INT, clearing INT DEFAULT 0, steps TEXT DEFAULT '', server TEXT DEFAULT '',
  waited INT DEFAULT 0, waited_at INT DEFAULT 0, gate TEXT DEFAULT '', cancels BLOB DEFAULT x'') WITHOUT ROWID;
CREATE TABLE purged (queue TEXT PRIMARY KEY, until INT, births TEXT) WITHOUT ROWID;
CREATE TABLE unheard (position INTEGER PRIMARY KEY, queue TEXT, node TEXT);
CREATE TABLE cursors (queue TEXT PRIMARY KEY, cursor BLOB) WITHOUT ROWID;
CREATE TABLE bells (queue TEXT, bell INT, rung INT, PRIMARY KEY (queue, bell)) WITHOUT ROWID;

CREATE TABLE leases (queue TEXT, lessee INT, name TEXT, until INT, PRIMARY KEY (queue, lessee, name)) WITHOUT ROWID;

CREATE TABLE dead (position INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, node TEXT);
CREATE TABLE nodes (queue TEXT, node TEXT, host TEXT, pid INT, version TEXT, concurrency INT,
  deliveries_max INT, joined INT, suspects INT, alone INT DEFAULT 0, held INT, token TEXT DEFAULT '',
  step INT DEFAULT 0, reshards INT DEFAULT 0, PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE lanes (queue TEXT, node TEXT, lane INT, record BLOB, PRIMARY KEY (queue, node, lane)) WITHOUT ROWID;
CREATE TABLE pieces (queue TEXT, node TEXT, first INT, pack BLOB);
CREATE UNIQUE INDEX pieces_by_node ON pieces (queue, node, first);

CREATE TABLE lines (queue TEXT, line INT, position INT, pack BLOB);
CREATE UNIQUE INDEX lines_by_position ON lines (queue, line, position);
CREATE TABLE later (queue TEXT, due INT, number INT, pack BLOB);
CREATE UNIQUE INDEX later_by_due ON later (queue, due, number);

CREATE TABLE grouped (queue TEXT, grp TEXT, number INT, pack BLOB);
CREATE UNIQUE INDEX grouped_by_line ON grouped (queue, grp, number);
CREATE TABLE turns (queue TEXT, grp TEXT, turn INT, waiting INT, PRIMARY KEY (queue, grp)) WITHOUT ROWID;
CREATE INDEX turns_by_length ON turns (queue, waiting, grp) WHERE waiting > 0;
CREATE INDEX turns_paused ON turns (queue, grp) WHERE turn / 2 % 2 = 1;
CREATE TABLE ready (queue TEXT, position INT, grp TEXT, PRIMARY KEY (queue, position)) WITHOUT ROWID;
CREATE TABLE group_rules (queue TEXT PRIMARY KEY, rules INT, waiting INT) WITHOUT ROWID;
CREATE TABLE resting (queue TEXT, grp TEXT, until INT, PRIMARY KEY (queue, grp)) WITHOUT ROWID;
CREATE INDEX resting_by_end ON resting (queue, until, grp);

CREATE TABLE once (queue TEXT, name TEXT, until INT, receipts BLOB, PRIMARY KEY (queue, name)) WITHOUT ROWID;
CREATE INDEX once_by_end ON once (queue, until, name);

CREATE TABLE asked (queue TEXT, number INT, ended INT, record BLOB, PRIMARY KEY (queue, number)) WITHOUT ROWID;
CREATE INDEX asked_by_end ON asked (queue, ended, number) WHERE ended IS NOT NULL;

CREATE TABLE errors (queue TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX errors_by_number ON errors (queue, number);
CREATE TABLE readers (queue TEXT, reader TEXT, call INT, PRIMARY KEY (queue, reader)) WITHOUT ROWID;
CREATE TABLE reading (queue TEXT, reader TEXT, number INT, record BLOB);
CREATE UNIQUE INDEX reading_by_number ON reading (queue, reader, number);

CREATE TABLE reports (queue TEXT, node TEXT, number INT, time INT, live BLOB, PRIMARY KEY (queue, node)) WITHOUT ROWID;
CREATE TABLE history (queue TEXT, ring INT, slot INT, bucket BLOB, PRIMARY KEY (queue, ring, slot)) WITHOUT ROWID;
CREATE TABLE reigns (queue TEXT, position INT, epoch INT, node TEXT, time INT, before INT, made INT DEFAULT 0,
  PRIMARY KEY (queue, position)) WITHOUT ROWID;

CREATE TABLE effect_values (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE effect_fields (key TEXT, field TEXT, value BLOB, PRIMARY KEY (key, field)) WITHOUT ROWID;
CREATE TABLE effect_items (position INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value BLOB);
CREATE INDEX effect_items_by_key ON effect_items (key, position);
";

/// Added later: a file that was made without it gets it when it is opened.
pub(in crate::engine::sqlite) const DAMAGED: &str =
    "CREATE TABLE IF NOT EXISTS damaged (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, place TEXT, bytes BLOB);";

/// What a file of an older layout lacks: the statements that bring it to each one, from the second on.
pub(in crate::engine::sqlite) const SINCE: [&str; 3] = [
    "
ALTER TABLE meta ADD COLUMN clearing INT DEFAULT 0;
ALTER TABLE meta ADD COLUMN steps TEXT DEFAULT '';
ALTER TABLE meta ADD COLUMN server TEXT DEFAULT '';
ALTER TABLE meta ADD COLUMN waited INT DEFAULT 0;
ALTER TABLE meta ADD COLUMN waited_at INT DEFAULT 0;
CREATE TABLE purged (queue TEXT PRIMARY KEY, until INT, births TEXT) WITHOUT ROWID;
CREATE TABLE unheard (position INTEGER PRIMARY KEY, queue TEXT, node TEXT);
ALTER TABLE reigns ADD COLUMN made INT DEFAULT 0;
ALTER TABLE nodes ADD COLUMN deliveries_max INT DEFAULT 5;
ALTER TABLE nodes ADD COLUMN alone INT DEFAULT 0;
ALTER TABLE nodes ADD COLUMN token TEXT DEFAULT '';
ALTER TABLE nodes ADD COLUMN step INT DEFAULT 0;
",
    "
CREATE TABLE grouped (queue TEXT, grp TEXT, number INT, pack BLOB);
CREATE UNIQUE INDEX grouped_by_line ON grouped (queue, grp, number);
CREATE TABLE turns (queue TEXT, grp TEXT, turn INT, waiting INT, PRIMARY KEY (queue, grp)) WITHOUT ROWID;
CREATE INDEX turns_by_length ON turns (queue, waiting, grp) WHERE waiting > 0;
CREATE INDEX turns_paused ON turns (queue, grp) WHERE turn / 2 % 2 = 1;
CREATE TABLE ready (queue TEXT, position INT, grp TEXT, PRIMARY KEY (queue, position)) WITHOUT ROWID;
CREATE TABLE group_rules (queue TEXT PRIMARY KEY, rules INT, waiting INT) WITHOUT ROWID;
CREATE TABLE resting (queue TEXT, grp TEXT, until INT, PRIMARY KEY (queue, grp)) WITHOUT ROWID;
CREATE INDEX resting_by_end ON resting (queue, until, grp);
ALTER TABLE meta ADD COLUMN gate TEXT DEFAULT '';
ALTER TABLE meta ADD COLUMN cancels BLOB DEFAULT x'';
CREATE TABLE asked (queue TEXT, number INT, ended INT, record BLOB, PRIMARY KEY (queue, number)) WITHOUT ROWID;
CREATE INDEX asked_by_end ON asked (queue, ended, number) WHERE ended IS NOT NULL;
",
    "
ALTER TABLE nodes ADD COLUMN reshards INT DEFAULT 0;
",
];

/// The tables that hold queues; the other ones hold what effects have written and which queues were removed, and stay when a
/// queue is removed.
pub(super) const OF_QUEUES: [&str; 25] = [
    "meta",
    "cursors",
    "bells",
    "leases",
    "dead",
    "nodes",
    "lanes",
    "pieces",
    "lines",
    "later",
    "once",
    "errors",
    "readers",
    "reading",
    "reports",
    "history",
    "reigns",
    "unheard",
    "damaged",
    "grouped",
    "turns",
    "ready",
    "group_rules",
    "resting",
    "asked",
];
