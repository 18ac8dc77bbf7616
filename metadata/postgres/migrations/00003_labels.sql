-- A set of labels is a JSON object whose values are strings.

-- +goose Up
ALTER TABLE @.contexts ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
ALTER TABLE @.panels ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE @.panels DROP COLUMN labels;
ALTER TABLE @.contexts DROP COLUMN labels;
