-- Version 3 is in Go: see foldKeys. rights is a set of bits. The panels and tokens that exist get none.
-- +goose Up
ALTER TABLE panels ADD COLUMN rights INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN rights INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tokens DROP COLUMN rights;
ALTER TABLE panels DROP COLUMN rights;
