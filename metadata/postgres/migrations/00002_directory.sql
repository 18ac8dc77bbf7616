-- The contexts directory whose records the schema holds, in one row, with the lease of the server that serves it.
-- expires_at is NULL while no server has the lease.

-- +goose Up
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

-- +goose Down
DROP TABLE @.directory;
