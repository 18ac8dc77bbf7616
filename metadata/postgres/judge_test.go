package postgres

import (
	"errors"
	"strings"
	"testing"
)

// TestServersAreJudged has the servers that no test can start: an old one and a replica.
func TestServersAreJudged(t *testing.T) {
	sound := facts{version: "13.0", number: 130000, encoding: "UTF8", plain: true, schema: true, mayCreate: true}
	if err := sound.judge("public"); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*facts){
		"version 13":   func(f *facts) { f.number = 120022 },
		"the primary":  func(f *facts) { f.recovering = true },
		"read-only":    func(f *facts) { f.readOnly = true },
		"another prog": func(f *facts) { f.tables = []string{"a", "b", "c", "d"} },
	} {
		f := sound
		change(&f)
		if err := f.judge("public"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a refusal that says %q", err, want)
		}
	}
	sound.ours, sound.mayCreate, sound.tables = true, false, []string{"contexts", "a_view"}
	if err := sound.judge("public"); err != nil {
		t.Errorf("our tables and a view of the operator's: %v", err)
	}
}
