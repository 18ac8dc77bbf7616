//go:build unix

package review

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// TestStateIsPlainFiles has another user put something else in the place of each file of the state. No call waits for
// it, or reads or changes the file that a link leads to.
func TestStateIsPlainFiles(t *testing.T) {
	t.Parallel()
	// reads has a reader of each kind of file, by the directory.
	reads := map[string]func(w *world, name string) error{
		"contexts": func(w *world, _ string) error {
			_, err := w.reviews.states.read(id)
			return err
		},
		"journal": func(w *world, _ string) error {
			_, err := w.reviews.journal.read(1, doneSuffix)
			return err
		},
		"revisions": func(w *world, name string) error {
			_, err := w.reviews.revisions.load(id, strings.TrimSuffix(name, ".json"))
			return err
		},
		"blobs": func(w *world, name string) error {
			_, err := w.reviews.store.Open(name)
			return err
		},
		"listed": func(w *world, name string) error {
			l, err := openListings(w.reviews.listed.dir, zap.NewNop())
			if _, is := l.of[name]; !is {
				err = errors.Join(err, errLeftOut)
			}
			return err
		},
		workspaceLock: func(w *world, _ string) error {
			unlock, err := w.reviews.lockWorkspace(t.Context())
			if err == nil {
				unlock()
			}
			return err
		},
	}
	tested := map[string]bool{}
	for name := range read(t, reviewed(t).in("state")) {
		kind, _, _ := strings.Cut(name, "/")
		if kind == "known" { // package seed reads it
			continue
		}
		tested[kind] = true
		if reads[kind] == nil {
			t.Errorf("no reader of %s is known", name)
			continue
		}
		for is, put := range map[string]func(victim, path string) error{
			"a FIFO": func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
			"a link": os.Symlink,
		} {
			t.Run(name+" is "+is, func(t *testing.T) {
				t.Parallel()
				w := reviewed(t)
				path, victim := w.in("state/"+name), w.in("victim")
				must(t, reads[kind](w, filepath.Base(path)))
				must(t, errors.Join(os.Rename(path, victim), put(victim, path)))
				content, err := os.ReadFile(victim)
				must(t, err)
				refused := make(chan error, 1)
				go func() { refused <- reads[kind](w, filepath.Base(path)) }()
				select {
				case err := <-refused:
					other, ok := errors.AsType[*statedir.NotPlainError](err)
					switch {
					case kind == workspaceLock && is == "a FIFO": // it is a lock as good as a file
						must(t, err)
					case kind == workspaceLock && errors.Is(err, syscall.ELOOP), errors.Is(err, errLeftOut):
					case !ok || other.Path != path || other.Is != is:
						t.Errorf("got %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it waits")
				}
				if after, err := os.ReadFile(victim); err != nil || !bytes.Equal(after, content) {
					t.Errorf("the file elsewhere has %q, %v", after, err)
				}
			})
		}
	}
	for kind := range reads {
		if !tested[kind] {
			t.Errorf("no file of %s is there", kind)
		}
	}
}

// errLeftOut says that a cache is not read.
var errLeftOut = errors.New("it is left out")

// reviewed returns a world that has files of each kind in its state.
func reviewed(t *testing.T) *world {
	t.Helper()
	base := files{"a": "base\n", "same": "base\n"}
	w := newWorld(t, base)
	write(t, w.in(id), files{"a": "A\n", "same": "base\n"})
	w.submit()
	w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
	return w
}
