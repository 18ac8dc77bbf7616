-- Sites have no foreign key on panels: one that a host opens has no panel.
-- +goose Up
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

-- +goose Down
DROP TABLE sites;
