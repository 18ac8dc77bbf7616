package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestLstatAll compares each answer with that of a single call, with sessions and without.
func TestLstatAll(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	for name, opts := range map[string][]client.Option{"session": nil, "unary": {client.WithoutSession()}} {
		t.Run(name, func(t *testing.T) {
			f := dialFS(t, append(opts, client.WithAddress(address), client.WithPanel("panels/many-"+name))...)
			var names []string
			for i := range 300 {
				name := fmt.Sprintf("dir%d/f%d", i%3, i)
				names = append(names, name, name+".absent", "dir1/link")
			}
			for i := range 3 {
				if err := f.MkdirAll(fmt.Sprintf("dir%d", i), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 300 {
				if err := f.WriteFile(fmt.Sprintf("dir%d/f%d", i%3, i), make([]byte, i), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Symlink("f1", "dir1/link"); err != nil {
				t.Fatal(err)
			}
			names = append(names, "", "../outside", "\xff", "/", "dir0/")
			sameAnswers(t, names, f.LstatAll(names), f.Lstat)
			sameAnswers(t, names, f.StatAll(names), f.Stat)
			if got := f.LstatAll(nil); len(got) != 0 {
				t.Errorf("of nothing: %v", got)
			}
		})
	}
}

func sameAnswers(t *testing.T, names []string, got []client.Answer, one func(string) (fs.FileInfo, error)) {
	t.Helper()
	if len(got) != len(names) {
		t.Fatalf("%d answers to %d names", len(got), len(names))
	}
	for i, name := range names {
		want, err := one(name)
		switch {
		case fmt.Sprint(got[i].Err) != fmt.Sprint(err):
			t.Errorf("%q: %v, want %v", name, got[i].Err, err)
		case err == nil && (got[i].Info.Size() != want.Size() || got[i].Info.Mode() != want.Mode() || got[i].Info.Name() != want.Name()):
			t.Errorf("%q: %v, want %v", name, got[i].Info, want)
		}
	}
}

// TestLstatAllEnds does not wait for a server when its context has ended, nor after Close.
func TestLstatAllEnds(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	f := dialFS(t, client.WithAddress(address), client.WithPanel("panels/ends"))
	names := make([]string, 1000)
	for i := range names {
		names[i] = "README.md"
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, a := range f.With(ctx).LstatAll(names) {
		if !errors.Is(a.Err, context.Canceled) {
			t.Fatalf("answer %d: %v, %v", i, a.Info, a.Err)
		}
	}
	for i, a := range f.LstatAll(names) {
		if a.Err != nil || a.Info.Name() != "README.md" {
			t.Fatalf("answer %d afterwards: %v, %v", i, a.Info, a.Err)
		}
	}
}

// TestLstatAllByMany runs several callers that together need more slots than are free, because watches hold some.
func TestLstatAllByMany(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	f := dialFS(t, client.WithAddress(address), client.WithPanel("panels/many"))
	for range 8 {
		w, err := f.Watch(".", false)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
	}
	names := make([]string, 1000)
	for i := range names {
		names[i] = "README.md"
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i, a := range f.LstatAll(names) {
				if a.Err != nil {
					t.Errorf("answer %d: %v", i, a.Err)
					return
				}
			}
		})
	}
	all.Wait()
}

func dialFS(t *testing.T, opts ...client.Option) *client.FS {
	t.Helper()
	c, err := client.Dial(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.FS()
}
