package main

import (
	"regexp"
	"strconv"
	"strings"
)

// scripts are the tests in TypeScript and JavaScript, and the settings of their runners.
var scripts = regexp.MustCompile(`^(client/ts|console/web)/(test/.*|src/.*\.test|[a-z]+\.config)\.(ts|tsx|mjs|js)$`)

var scriptRules = []struct {
	is   *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`\b(?:Date|performance)\.now\b|\bnew Date\(\)|\bhrtime\b`), "the test reads the real clock"},
	{regexp.MustCompile(`\bsetTimeout\s*\(|["']timers/promises|node:timers/promises|\.waitForTimeout\(`), "the test sleeps: wait for an event (expect.poll)"},
	{regexp.MustCompile(`\b(?i:[a-z]*timeout|[a-z]*timeoutMs)(?::\s*|\()([0-9_]+)\s*(?:[,)}]|$)`), shortWait},
}

// shortWait is what is wrong with a wait of less than minWait.
const shortWait = "the wait is bounded by less than a minute"

// checkScript looks at each line: what it refuses is written in one.
func checkScript(name string, text []byte) (found []finding) {
	covered := reasons{name, map[int]*reason{}}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		code, comment, _ := strings.Cut(line, "// ")
		covered.add("// "+comment, i+1, strings.TrimSpace(code) == "")
		lines[i] = code
	}
	for i, code := range lines {
		for _, rule := range scriptRules {
			m := rule.is.FindStringSubmatch(code)
			if m == nil || len(m) > 1 && !isShort(m[1]) || covered.cover(i+1) {
				continue
			}
			found = append(found, finding{name, i + 1, rule.what})
		}
	}
	return append(found, covered.faults()...)
}

// isShort reports whether a number of milliseconds is a time, and less than a minute; 0 is none.
func isShort(ms string) bool {
	n, err := strconv.Atoi(strings.ReplaceAll(ms, "_", ""))
	return err == nil && n > 0 && n < 60_000
}
