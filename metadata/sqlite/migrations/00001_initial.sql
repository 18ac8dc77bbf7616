-- +goose Up
-- Times are milliseconds since the epoch, durations nanoseconds.

-- A panel may be bound before its context is made, and a context recovered before
-- its layer is: hence no foreign keys on context_id and layer.
CREATE TABLE contexts (
    id          TEXT NOT NULL PRIMARY KEY,
    id_folded   TEXT NOT NULL,
    explicit    INTEGER NOT NULL,
    owner_panel TEXT NOT NULL,
    state       TEXT NOT NULL,
    last_error  TEXT NOT NULL,
    driver      TEXT NOT NULL,
    layer       TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    files       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    seeded_in   INTEGER NOT NULL,
    recovered   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX contexts_id_folded ON contexts (id_folded);
CREATE INDEX contexts_layer ON contexts (layer);

CREATE TABLE panels (
    id         TEXT NOT NULL PRIMARY KEY,
    id_folded  TEXT NOT NULL,
    context_id TEXT NOT NULL,
    read_only  INTEGER NOT NULL,
    opened_at  INTEGER NOT NULL,
    closed_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX panels_id_folded ON panels (id_folded);
CREATE INDEX panels_context_id ON panels (context_id);

CREATE TABLE tokens (
    hash       BLOB NOT NULL PRIMARY KEY,
    panel_id   TEXT NOT NULL REFERENCES panels (id) ON DELETE CASCADE,
    context_id TEXT NOT NULL,
    read_only  INTEGER NOT NULL,
    issued_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tokens_panel_id ON tokens (panel_id);
CREATE INDEX tokens_expires_at ON tokens (expires_at);

CREATE TABLE layers (
    digest     TEXT NOT NULL PRIMARY KEY,
    kind       TEXT NOT NULL,
    files      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE layers;
DROP TABLE tokens;
DROP TABLE panels;
DROP TABLE contexts;
