CREATE TABLE IF NOT EXISTS meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS marks (
    scope  TEXT PRIMARY KEY,
    era    INTEGER NOT NULL,
    token  INTEGER NOT NULL,
    burnt  INTEGER NOT NULL,
    holder TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS registrations (
    scope      TEXT NOT NULL,
    id         TEXT NOT NULL,
    replica    TEXT NOT NULL,
    generation TEXT NOT NULL,
    era        INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    PRIMARY KEY (scope, id)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS registrations_by_generation ON registrations (generation);

CREATE TABLE IF NOT EXISTS members (
    generation TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    beat       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS agreed_rules (
    generation TEXT PRIMARY KEY,
    rules      TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS inbox (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    generation TEXT NOT NULL,
    scope      TEXT NOT NULL,
    era        INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    burnt      INTEGER NOT NULL,
    holder     TEXT
);

CREATE INDEX IF NOT EXISTS inbox_by_generation ON inbox (generation);

CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    scope  TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT NOT NULL,
    after  TEXT NOT NULL
);
