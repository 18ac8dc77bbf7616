package peers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// TestMain is also the process of a peer: tests run servers as bench does.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "peer" {
		if err := peers.Serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func env(t *testing.T) peers.Env {
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
	return peers.Env{Root: filepath.Join(scratch, "root"), Scratch: scratch, Self: self, Source: source}
}

func tree(t *testing.T, root string) {
	t.Helper()
	for name, size := range map[string]int{"dir/a": 4096, "dir/b": 5, "dir/sub/c": 1, "large": 3 << 20} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// files is what every peer with files can do.
type files interface {
	peers.Stater
	peers.FileReader
	peers.FileWriter
	peers.Remover
	peers.Lister
	peers.StreamReader
	peers.StreamWriter
}

func TestEveryPeerDoesTheSameWork(t *testing.T) {
	for _, f := range []peers.Family{&peers.Local{}, &peers.SFTP{}, &peers.NetHTTP{}, &peers.Nginx{}, &peers.JSONWS{}} {
		t.Run(f.Name(), func(t *testing.T) {
			e := env(t)
			tree(t, e.Root)
			all, err := f.Start(t.Context(), e)
			defer func() {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}()
			if missing := (*peers.MissingError)(nil); errors.As(err, &missing) {
				t.Skip(missing)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				t.Run(p.Name, func(t *testing.T) { work(t, p, e.Root) })
			}
		})
	}
}

func work(t *testing.T, p *peers.Peer, root string) {
	conn, err := p.Dial(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := conn.(files)
	if err := c.Stat(0, "dir/a"); err != nil {
		t.Error("stat:", err)
	}
	if err := c.Stat(1, "dir/none"); err == nil {
		t.Error("stat: a missing file was found")
	}
	if b, err := c.ReadFile(1, "dir/a"); len(b) != 4096 || err != nil {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	if n, dirs, err := c.List(0, "dir"); n != 3 || len(dirs) != 1 || err != nil {
		t.Errorf("listed %d, %v, %v", n, dirs, err)
	}
	if n, err := c.ReadStream("large"); n != 3<<20 || err != nil {
		t.Errorf("streamed %d bytes, %v", n, err)
	}
	writes(t, c, filepath.Join(root, "own-"+p.Name))
}

func writes(t *testing.T, c files, dir string) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Base(dir)
	for _, content := range []string{"", "hello", "hi"} {
		if err := c.WriteFile(0, own+"/f", []byte(content)); err != nil {
			t.Fatal("write:", err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != content {
			t.Errorf("wrote %q, %v", b, err)
		}
	}
	const size = 2<<20 + 5
	if err := c.WriteStream(own+"/large", size); err != nil {
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
	e := env(t)
	f := &peers.Echo{}
	all, err := f.Start(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range all {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprint(p.Name, workers), func(t *testing.T) {
				conn, err := p.Dial(t.Context(), workers)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				for w := range workers {
					if b, err := conn.(peers.FileReader).ReadFile(w, ""); len(b) != 4096 || err != nil {
						t.Errorf("worker %d: %d bytes, %v", w, len(b), err)
					}
				}
			})
		}
	}
}

func TestWhatIsNotInstalledIsNamed(t *testing.T) {
	t.Setenv("PATH", "")
	for _, f := range []peers.Family{&peers.Nginx{}, &peers.JSONWS{}, &peers.Ripgrep{}} {
		_, err := f.Start(t.Context(), env(t))
		if missing := (*peers.MissingError)(nil); !errors.As(err, &missing) || missing.What == "" {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}
