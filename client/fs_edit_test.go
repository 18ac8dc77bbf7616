package client_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestSixtyFourClientsOfOneCounter has 64 connections, of as many panels that share a context, increment a number in a file.
func TestSixtyFourClientsOfOneCounter(t *testing.T) {
	t.Parallel()
	const clients, increments = 64, 4
	socket := servertest.Start(t, servertest.Workspace(t), nil)
	host := dialAt(t, socket)
	var all sync.WaitGroup
	var first *client.FS
	for i := range clients {
		p, err := host.OpenPanel(t.Context(), "panels/counter"+strconv.Itoa(i), client.InContext("ctx_counter"))
		must(t, err)
		token, _ := p.Token()
		must(t, p.Close())
		f := dialAt(t, socket, client.WithToken(token)).FS()
		if first == nil {
			first = f
			must(t, f.WriteFile("counter", []byte("100000"), 0o644)) // all numbers have one length
		}
		all.Go(func() {
			for range increments {
				if err := increment(f, "counter"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := first.ReadFile("counter")
	if want := strconv.Itoa(100000 + clients*increments); err != nil || string(got) != want {
		t.Errorf("the counter is %s (%v), want %s", got, err, want)
	}
}

// increment adds one to the number in a file, once.
func increment(f *client.FS, name string) error {
	for {
		lines, err := f.ReadLines(name, 1, 1)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(lines.Data))
		if err != nil {
			return err
		}
		err = f.If(client.Conditions{IfMatch: lines.ETag}).WriteFile(name, []byte(strconv.Itoa(n+1)), 0o644)
		if _, stale := client.StaleETag(err); !stale {
			return err
		}
	}
}

func TestConditionsOfChanges(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.WriteFile("f", []byte("one\ntwo\n"), 0o644))
	info, err := f.Stat("f")
	must(t, err)
	before := client.ETagOf(info)
	done, err := f.If(client.Conditions{IfMatch: before}).EditFile("f", []client.Edit{{Old: "two", New: "2"}, {StartLine: 1, EndLine: 1, New: "1"}}, client.EditOptions{})
	must(t, err)
	if want := "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n"; done.Diff != want || len(done.Replacements) != 2 || done.LinesAdded != 2 || done.LinesRemoved != 2 {
		t.Errorf("EditFile: %+v, want the diff %q", done, want)
	}
	stale, free := f.If(client.Conditions{IfMatch: before}), f.If(client.Conditions{IfNoneMatch: true})
	to := f.If(client.Conditions{DestIfNoneMatch: true})
	large := []byte(strings.Repeat("x", 17<<20)) // which goes as a stream, by HTTP
	for name, change := range map[string]func() error{
		"WriteFile":       func() error { return stale.WriteFile("f", nil, 0o644) },
		"large WriteFile": func() error { return stale.WriteFile("f", large, 0o644) },
		"AppendFile":      func() error { return stale.AppendFile("f", []byte("x"), 0o644) },
		"Truncate":        func() error { return stale.Truncate("f", 0) },
		"Create":          func() error { _, err := stale.Create("f"); return err },
		"Chmod":           func() error { return stale.Chmod("f", 0o600) },
		"Rename":          func() error { return stale.Rename("f", "g") },
		"Unlink":          func() error { return stale.Unlink("f") },
		"RemoveAll":       func() error { return stale.RemoveAll("f") },
		"Symlink":         func() error { return free.Symlink("x", "f") },
		"Mkdir":           func() error { return free.Mkdir("f", 0o755) },
		"new WriteFile":   func() error { return free.WriteFile("f", nil, 0o644) },
		"CopyFile":        func() error { _, err := to.CopyFile("README.md", "f", 0); return err },
		"Link":            func() error { return to.Link("README.md", "f") },
	} {
		if now, isStale := client.StaleETag(change()); !isStale || now != done.ETag {
			t.Errorf("%s: stale %v, the present etag %q, want %q", name, isStale, now, done.ETag)
		}
	}
	lines, err := f.ReadLines("f", 2, 0)
	if err != nil || string(lines.Data) != "2\n" || lines.Total != 2 || lines.ETag != done.ETag {
		t.Errorf("ReadLines: %+v (%v)", lines, err)
	}
	_, err = f.EditFile("f", []client.Edit{{Old: "three", New: "3"}}, client.EditOptions{})
	var e *fserr.Error
	if !errors.As(err, &e) || e.Code != fserr.EINVAL || e.Kind != fserr.KindEdit {
		t.Errorf("an edit of text that is missing: %v", err)
	}
}
