package fsservice

import "testing"

func TestRequiredLiteral(t *testing.T) {
	for expr, want := range map[string]string{
		"plain":                "plain",
		`func \w+\(in`:         "func ",
		"(?m)(?:a longer one)": "a longer one",
		"(abc)+x":              "abc",
		"(?:abcd){2,}":         "abcd",
		"(abcd)?efg":           "efg",
		"(abcd)*":              "",
		"(abcd){0,3}":          "",
		"abcd|abef":            "",
		"(?i)abcd":             "",
		"(?i)abcd(?-i)efg":     "efg",
		"ab":                   "",
		"a.b.c":                "",
		"one\ntwo":             "",
		"one\uFFFDtwo":         "",
		"(":                    "",
	} {
		if got := string(requiredLiteral(expr)); got != want {
			t.Errorf("%q requires %q, want %q", expr, got, want)
		}
	}
}
