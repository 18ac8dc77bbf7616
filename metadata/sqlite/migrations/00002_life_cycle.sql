-- used_at is milliseconds since the epoch; its default is the zero time. Nobody knows when the contexts that are there were used:
-- as of now, or a collection would take those that are in use every day.
-- +goose Up
ALTER TABLE contexts ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE contexts ADD COLUMN used_at INTEGER NOT NULL DEFAULT -62135596800000;
UPDATE contexts SET used_at = unixepoch() * 1000;

-- +goose Down
ALTER TABLE contexts DROP COLUMN used_at;
ALTER TABLE contexts DROP COLUMN forked_from;
