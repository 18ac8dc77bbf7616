-- "@." is the schema of the records. Times are in UTC to the millisecond; NULL is the zero time. Durations are nanoseconds.
-- Keys are compared byte by byte. id_folded is metadata.Fold of the ID, which Go computes: lower() depends on the locale. rights is a set of bits. labels is a JSON object whose values are strings.

-- +goose Up
-- A panel may be bound before its context is made, and a context recovered before
-- its layer is: hence no foreign keys on context_id and layer.
CREATE TABLE @.contexts (
    id          text COLLATE "C" PRIMARY KEY,
    id_folded   text COLLATE "C" NOT NULL,
    explicit    boolean NOT NULL,
    owner_panel text COLLATE "C" NOT NULL,
    state       text NOT NULL,
    last_error  text NOT NULL,
    driver      text NOT NULL,
    layer       text COLLATE "C" NOT NULL,
    generation  bigint NOT NULL,
    files       bigint NOT NULL,
    bytes       bigint NOT NULL,
    created_at  timestamptz,
    seeded_in   bigint NOT NULL,
    recovered   boolean NOT NULL,
    forked_from text COLLATE "C" NOT NULL,
    used_at     timestamptz,
    labels      jsonb NOT NULL
);
CREATE UNIQUE INDEX contexts_id_folded ON @.contexts (id_folded);
CREATE INDEX contexts_layer ON @.contexts (layer);

CREATE TABLE @.panels (
    id             text COLLATE "C" PRIMARY KEY,
    id_folded      text COLLATE "C" NOT NULL,
    context_id     text COLLATE "C" NOT NULL,
    context_folded text COLLATE "C" NOT NULL,
    read_only      boolean NOT NULL,
    rights         bigint NOT NULL,
    opened_at      timestamptz,
    closed_at      timestamptz,
    labels         jsonb NOT NULL
);
CREATE UNIQUE INDEX panels_id_folded ON @.panels (id_folded);
CREATE INDEX panels_context_id ON @.panels (context_id);
CREATE INDEX panels_context_folded ON @.panels (context_folded);

CREATE TABLE @.tokens (
    hash       bytea PRIMARY KEY,
    panel_id   text COLLATE "C" NOT NULL REFERENCES @.panels (id) ON DELETE CASCADE,
    context_id text COLLATE "C" NOT NULL,
    read_only  boolean NOT NULL,
    rights     bigint NOT NULL,
    issued_at  timestamptz,
    expires_at timestamptz NOT NULL
);
CREATE INDEX tokens_panel_id ON @.tokens (panel_id);
CREATE INDEX tokens_expires_at ON @.tokens (expires_at);

CREATE TABLE @.layers (
    digest     text COLLATE "C" PRIMARY KEY,
    kind       text NOT NULL,
    files      bigint NOT NULL,
    bytes      bigint NOT NULL,
    created_at timestamptz
);

-- Sites have no foreign key on panels: one that a host opens has no panel.
CREATE TABLE @.sites (
    id         text COLLATE "C" PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE,
    context_id text COLLATE "C" NOT NULL,
    panel_id   text COLLATE "C" NOT NULL,
    options    bytea NOT NULL,
    opened_at  timestamptz,
    expires_at timestamptz
);
CREATE INDEX sites_context_id ON @.sites (context_id);

-- The contexts directory whose records the schema holds, in one row, with the lease of the server that serves it.
-- expires_at is NULL while no server has the lease.
CREATE TABLE @.directory (
    id         text COLLATE "C" PRIMARY KEY,
    path       text NOT NULL,
    host       text NOT NULL,
    bound_at   timestamptz NOT NULL,
    epoch      bigint NOT NULL DEFAULT 0,
    holder     text NOT NULL DEFAULT '',
    place      text NOT NULL DEFAULT '',
    held_host  text NOT NULL DEFAULT '',
    held_pid   bigint NOT NULL DEFAULT 0,
    held_since timestamptz,
    expires_at timestamptz
);
CREATE UNIQUE INDEX directory_one_row ON @.directory ((true));
