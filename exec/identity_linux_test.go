package exec

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestRequestIDStartsOnce starts a command with one request ID many times at once.
func TestRequestIDStartsOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	cmd := Command{Context: testContext, Argv: []string{"sh", "-c", "echo x >> count"}, Env: map[string]string{"A": "b"}, Identity: Identity{RequestID: "r"}}
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			if p, err := s.Start(t.Context(), cmd); err != nil {
				t.Error(err)
			} else {
				ids[i] = p.ID
			}
		})
	}
	wg.Wait()
	p, err := s.Get(ids[0])
	if err != nil {
		t.Fatal(err)
	}
	s.result(p)
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("the IDs differ: %v", ids)
		}
	}
	if _, out, _ := s.result(s.start("cat count")); out != "x\n" {
		t.Errorf("the command ran so often: %q", out)
	}
	other := cmd
	other.Argv = []string{"true"}
	if _, err := s.Start(t.Context(), other); fserr.CodeOf(err) != fserr.EEXIST || !strings.Contains(err.Error(), ids[0]) {
		t.Errorf("another command with the ID: %v", err)
	}
	other.Context = "ctx_b"
	if exit, _, _ := s.result(s.begin(other)); exit.Code != 0 {
		t.Errorf("the ID in another context: %+v", exit)
	}
	if err := s.Remove(ids[0]); err != nil {
		t.Fatal(err)
	}
	if p := s.begin(cmd); p.ID == ids[0] {
		t.Error("the ID of a removed process returned it")
	}
}

// TestRequestIDOutlivesItsEngine has another engine adopt what one left, as after a crash.
func TestRequestIDOutlivesItsEngine(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	cmd := Command{
		Context: testContext, Argv: []string{"sh", "-c", "cat; echo x >> count"}, Stdin: []byte("secret input"), Env: map[string]string{"A": "secret variable"},
		Limits: Limits{Files: 50}, Identity: Identity{RequestID: "r", Name: "n"},
	}
	ended := s.begin(cmd)
	s.result(ended)
	running := s.begin(Command{Argv: []string{"sleep", "1000"}, Identity: Identity{RequestID: "r2", Name: "n2"}})
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(s.cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"r": true, "r2": true, "r3": false, "": false} {
		e, known, err := Left(left, testContext, name)
		if err != nil || known != want || e.Running != 1 || !slices.Equal(e.Names, []string{"n2"}) {
			t.Errorf("of request ID %q it left %+v, %v, %v", name, e, known, err)
		}
		if other, known, err := Left(left, "ctx_b", name); err != nil || known || other.Running > 0 {
			t.Errorf("in another context it left %+v, %v, %v", other, known, err)
		}
	}
	record, err := os.ReadFile(filepath.Join(left, ended.ID+recordSuffix))
	if err != nil || strings.Contains(string(record), "secret") || strings.Contains(string(record), "c2VjcmV0") { // in base64
		t.Errorf("the record is %s, %v", record, err)
	}

	next := openEngine(t, filepath.Join(t.TempDir(), "own"))
	if err := next.Adopt(t.Context(), left); err != nil { // which ends what runs
		t.Fatal(err)
	}
	if p, err := next.Start(t.Context(), cmd); err != nil || p.ID != ended.ID {
		t.Errorf("the repeated start: %v, %v", p, err)
	}
	for what, change := range map[string]func(c *Command){
		"argv": func(c *Command) { c.Argv = []string{"true"} }, "env": func(c *Command) { c.Env = map[string]string{"A": ""} },
		"stdin": func(c *Command) { c.Stdin = nil }, "limits": func(c *Command) { c.Limits.Files++ }, "name": func(c *Command) { c.Name = "" },
	} {
		other := cmd
		change(&other)
		if p, err := next.Start(t.Context(), other); fserr.CodeOf(err) != fserr.EEXIST {
			t.Errorf("with another %s: %v, %v", what, p, err)
		}
	}
	lost := Command{Context: testContext, Argv: []string{"sleep", "1000"}, Identity: Identity{RequestID: "r2", Name: "n2"}}
	if p, err := next.Start(t.Context(), lost); err != nil || p.ID != running.ID || p.Ended().Reason != Lost {
		t.Errorf("the repeated start of a lost command: %v, %v", p, err)
	}
	if len(next.names) > 0 {
		t.Errorf("names of processes that have ended are taken: %v", next.names)
	}
}

// TestRequestIDOfFailedStartCanBeUsedAgain fails, then succeeds.
func TestRequestIDOfFailedStartCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	cmd := Command{Context: testContext, Argv: []string{"true"}, Cwd: "later", Identity: Identity{RequestID: "r", Name: "n"}}
	if _, err := s.Start(t.Context(), cmd); fserr.CodeOf(err) != fserr.ENOENT {
		t.Fatal(err)
	}
	s.result(s.start("mkdir later"))
	if exit, _, _ := s.result(s.begin(cmd)); exit.Code != 0 {
		t.Errorf("got %+v", exit)
	}
}

func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	many := map[string]string{}
	for _, c := range "abcdefghijklmnopq" {
		many[string(c)] = ""
	}
	for what, id := range map[string]Identity{
		"no such name": {Name: "a b"}, "name like an ID": {Name: "p-1"}, "long name": {Name: strings.Repeat("x", 65)},
		"long request ID": {RequestID: strings.Repeat("x", 129)}, "too many labels": {Labels: many},
		"label without key": {Labels: map[string]string{"": "x"}}, "long label": {Labels: map[string]string{"a": strings.Repeat("x", 257)}},
	} {
		if _, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}, Identity: id}); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%s: %v", what, err)
		}
	}
	dev := Command{Context: testContext, Argv: []string{"sleep", "1000"}, Identity: Identity{Name: "dev", Labels: map[string]string{"a": "b"}}}
	p := s.begin(dev)
	if _, err := s.Start(t.Context(), dev); fserr.CodeOf(err) != fserr.EEXIST || !strings.Contains(err.Error(), `"dev"`) {
		t.Errorf("a second of that name: %v", err)
	}
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	dev.Argv = []string{"true"}
	for ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ; { // the name is free once nothing of the process runs
		_, err := s.Start(ctx, dev)
		if err == nil {
			cancel()
			break
		}
		if fserr.CodeOf(err) != fserr.EEXIST || ctx.Err() != nil {
			cancel()
			t.Fatalf("after the end: %v", err)
		}
	}
}

// TestProcessEndsWithItsLastCaller connects and leaves in each way.
func TestProcessEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	begin := func(alone bool) *Process {
		return s.begin(Command{Argv: []string{"sleep", "1000"}, KillAlone: alone})
	}
	kept, two, detached := begin(false), begin(true), begin(true)
	kept.Connect()(false)
	first, second := two.Connect(), two.Connect()
	first(false)
	detached.Connect()(true)
	if kept.Ended() != nil || two.Ended() != nil || detached.Ended() != nil {
		t.Errorf("ended: kept %v, two %v, detached %v", kept.Ended(), two.Ended(), detached.Ended())
	}
	second(false)
	detached.Connect()(false)
	for _, p := range []*Process{two, detached} {
		if exit, _, _ := s.result(p); exit.Reason != Killed {
			t.Errorf("got %+v", exit)
		}
	}
	if kept.Ended() != nil {
		t.Errorf("the process that is kept ended: %+v", kept.Ended())
	}
}

// TestProcessThatNobodyAttachesToEnds gives callers no time.
func TestProcessThatNobodyAttachesToEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.attachTime = 50 * time.Millisecond
	if exit, _, _ := s.result(s.begin(Command{Argv: []string{"sleep", "1000"}, KillAlone: true})); exit.Reason != Killed {
		t.Errorf("got %+v", exit)
	}
}
