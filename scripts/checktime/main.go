// Checktime refuses tests that judge real time: they fail on a busy machine although nothing is wrong. A test that needs a clock gets one
// (testing/synctest, an injected Now), or counts the work. A wait has a bound of at least a minute, which only stops a hang
// (internal/clocktest.Await).
//
// It accepts code in bubbles of testing/synctest and in benchmarks, functions that only such code calls, and lines with a reason:
//
//	time.Sleep(tick) // clock: the kernel's clock has this tick, and nothing here is measured
//
// A comment of its own covers the line after it, and all of a function that begins there. A reason that covers nothing is refused too.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// finding is a place that is refused.
type finding struct {
	file string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// reasonOf finds the reason in a comment.
var reasonOf = regexp.MustCompile(`^//\s?clock:\s*(.*)`)

// reasons are those of a file, by the lines that they cover.
type reasons struct {
	file  string
	lines map[int]*reason
}

type reason struct {
	line        int
	given, used bool
}

// add learns of a comment at the end of a line, or alone there: then it covers the next line.
func (r reasons) add(comment string, line int, alone bool) {
	m := reasonOf.FindStringSubmatch(comment)
	if m == nil {
		return
	}
	covered := line
	if alone {
		covered++
	}
	r.lines[covered] = &reason{line: line, given: m[1] != ""}
}

// cover reports whether a line has a reason, which is used then.
func (r reasons) cover(line int) bool {
	found := r.lines[line]
	if found != nil {
		found.used = true
	}
	return found != nil
}

// faults returns the reasons that say nothing, and those that cover nothing.
func (r reasons) faults() (all []finding) {
	for _, is := range r.lines {
		if !is.given {
			all = append(all, finding{r.file, is.line, "the reason is missing"})
		} else if !is.used {
			all = append(all, finding{r.file, is.line, "this reason covers nothing that is refused"})
		}
	}
	return all
}

// check reads the tests among files and returns what is refused, by file and line.
func check(files []string, read func(string) ([]byte, error)) ([]finding, error) {
	var found []finding
	packages := map[string][]source{}
	for _, name := range files {
		isGo, isScript := strings.HasSuffix(name, "_test.go"), scripts.MatchString(name)
		if !isGo && !isScript {
			continue
		}
		text, err := read(name)
		if os.IsNotExist(err) {
			continue // it was removed, and git has not heard of it
		}
		if err != nil {
			return nil, err
		}
		if isScript {
			found = append(found, checkScript(name, text)...)
			continue
		}
		packages[filepath.Dir(name)] = append(packages[filepath.Dir(name)], source{name, text})
	}
	for _, sources := range packages {
		more, err := checkPackage(sources)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	slices.SortFunc(found, func(a, b finding) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
	return slices.CompactFunc(found, func(a, b finding) bool { return a.file == b.file && a.line == b.line }), nil
}

func main() {
	out, err := exec.CommandContext(context.Background(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").Output()
	var found []finding
	if err == nil {
		found, err = check(strings.Split(string(out), "\x00"), os.ReadFile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "checktime:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(found) > 0 {
		fmt.Fprintln(os.Stderr, "checktime: tests judge no real time (go doc ./scripts/checktime)")
		os.Exit(1)
	}
}
