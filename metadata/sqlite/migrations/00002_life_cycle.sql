-- used_at is milliseconds since the epoch; its default is the zero time.
-- +goose Up
ALTER TABLE contexts ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE contexts ADD COLUMN used_at INTEGER NOT NULL DEFAULT -62135596800000;

-- +goose Down
ALTER TABLE contexts DROP COLUMN used_at;
ALTER TABLE contexts DROP COLUMN forked_from;
