package labels

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Text is a set of labels as a database keeps it: a JSON object.
func Text(set map[string]string) string {
	if len(set) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(set) // strings can always be written
	return string(text)
}

// Column scans what Text has written. An empty set comes back nil.
type Column struct{ To *map[string]string }

// Scan implements sql.Scanner.
func (c Column) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return errors.New("labels are stored as no text")
	}
	*c.To = nil
	if text == "{}" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), c.To); err != nil {
		return fmt.Errorf("labels are stored as no JSON: %w", err)
	}
	return nil
}
