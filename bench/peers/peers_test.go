package peers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// TestMain is also the process of a peer: tests run servers as bench does.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "peer" {
		if err := Serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// start starts a family on a small tree, with a server of ctxfs that nobody asks.
func start(t *testing.T, f Family) (*Env, []*Peer, []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := os.MkdirTemp("", "pt") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{Options: &stand.Options{Self: self, Source: source, Log: io.Discard}, Root: filepath.Join(scratch, "root"), Scratch: scratch}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, size := range map[string]int{"dir/a": 4096, "dir/b": 5, "dir/sub/c": 1, "large": 3 << 20} {
		if err := stand.Write(filepath.Join(e.Root, name), []byte(strings.Repeat("x", size))); err != nil {
			t.Fatal(err)
		}
	}
	all, missing, err := e.Join(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return e, all, missing
}

func TestEveryPeerDoesTheSameWork(t *testing.T) {
	for _, f := range Rivals() {
		if f.Name == "echo" || f.Name == "ripgrep" || f.Name == "node" {
			continue // they do another part of it, and make bench-quick runs them
		}
		t.Run(f.Name, func(t *testing.T) {
			e, all, missing := start(t, f)
			if len(missing) > 0 {
				t.Skip(missing)
			}
			for _, p := range all {
				t.Run(p.Name, func(t *testing.T) { work(t, p, e.Root) })
			}
		})
	}
}

func work(t *testing.T, p *Peer, root string) {
	c, err := p.Dial(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Stat(0, "dir/a"); err != nil {
		t.Error("stat:", err)
	}
	if err := c.Stat(1, "dir/none"); err == nil {
		t.Error("stat: a missing file was found")
	}
	if b, err := c.Read(1, "dir/a"); len(b) != 4096 || err != nil {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	if n, err := c.ReadLarge("large"); n != 3<<20 || err != nil {
		t.Errorf("streamed %d bytes, %v", n, err)
	}
	if p.Name == "net-http" {
		return // it only reads
	}
	if n, dirs, err := c.List(0, "dir"); n != 3 || len(dirs) != 1 || err != nil {
		t.Errorf("listed %d, %v, %v", n, dirs, err)
	}
	dir := filepath.Join(root, "own-"+p.Name)
	own := filepath.Base(dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "hello", "hi"} {
		if err := c.Write(0, own+"/f", []byte(content)); err != nil {
			t.Fatal("write:", err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != content {
			t.Errorf("wrote %q, %v", b, err)
		}
	}
	const size = 2<<20 + 5
	if err := c.WriteLarge(own+"/large", size); err != nil {
		t.Fatal("write a large file:", err)
	}
	if i, err := os.Stat(filepath.Join(dir, "large")); err != nil || i.Size() != size {
		t.Errorf("large: %v, %v", i, err)
	}
	if err := c.Remove(1, own+"/f"); err != nil {
		t.Error("remove:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestTheEchoAnswersAloneAndShared(t *testing.T) {
	_, all, _ := start(t, Family{"echo", startEcho})
	for _, p := range all {
		for _, workers := range []int{1, 4} {
			c, err := p.Dial(t.Context(), workers)
			if err != nil {
				t.Fatal(err)
			}
			for w := range workers {
				if b, err := c.Read(w, ""); len(b) != 4096 || err != nil {
					t.Errorf("%s, %d workers, worker %d: %d bytes, %v", p.Name, workers, w, len(b), err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhatIsNotInstalledIsNamed(t *testing.T) {
	t.Setenv("PATH", "")
	for _, f := range []Family{{"nginx", StartNginx("json")}, {"node", startNode}, {"ripgrep", startRipgrep}} {
		if _, _, missing := start(t, f); len(missing) != 1 || !strings.Contains(missing[0], "Debian: ") {
			t.Errorf("%s: %v", f.Name, missing)
		}
	}
}
