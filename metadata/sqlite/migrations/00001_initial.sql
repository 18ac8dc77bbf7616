-- Times are milliseconds since the epoch, durations nanoseconds. id_folded and context_folded are metadata.Fold of the ID,
-- which Go computes: lower() knows ASCII alone. rights is a set of bits. labels is a JSON object of strings.

-- +goose Up
-- A panel may be bound before its context is made, and a context recovered before
-- its layer is: hence no foreign keys on context_id and layer.
CREATE TABLE contexts (
    id          TEXT NOT NULL PRIMARY KEY,
    id_folded   TEXT NOT NULL UNIQUE,
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
    recovered   INTEGER NOT NULL,
    forked_from TEXT NOT NULL,
    used_at     INTEGER NOT NULL,
    labels      TEXT NOT NULL
) STRICT;
CREATE INDEX contexts_layer ON contexts (layer);

CREATE TABLE panels (
    id             TEXT NOT NULL PRIMARY KEY,
    id_folded      TEXT NOT NULL UNIQUE,
    context_id     TEXT NOT NULL,
    context_folded TEXT NOT NULL,
    read_only      INTEGER NOT NULL,
    rights         INTEGER NOT NULL,
    opened_at      INTEGER NOT NULL,
    closed_at      INTEGER NOT NULL,
    labels         TEXT NOT NULL
) STRICT;
CREATE INDEX panels_context_id ON panels (context_id);
CREATE INDEX panels_context_folded ON panels (context_folded);

CREATE TABLE tokens (
    hash       BLOB NOT NULL PRIMARY KEY,
    panel_id   TEXT NOT NULL REFERENCES panels (id) ON DELETE CASCADE,
    context_id TEXT NOT NULL,
    read_only  INTEGER NOT NULL,
    rights     INTEGER NOT NULL,
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

-- Sites have no foreign key on panels: one that a host opens has no panel.
CREATE TABLE sites (
    id         TEXT NOT NULL PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    context_id TEXT NOT NULL,
    panel_id   TEXT NOT NULL,
    options    BLOB NOT NULL,
    opened_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sites_context_id ON sites (context_id);
