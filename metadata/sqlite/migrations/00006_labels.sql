-- labels is a JSON object of strings.
-- +goose Up
ALTER TABLE contexts ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE panels ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE panels DROP COLUMN labels;
ALTER TABLE contexts DROP COLUMN labels;
