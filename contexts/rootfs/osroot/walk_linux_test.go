package osroot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/roottest"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestMovedWhileLetGo has something else stand where the way back up leads through.
func TestMovedWhileLetGo(t *testing.T) {
	for what, replace := range map[string]func(path string) error{
		"nothing":     func(string) error { return nil },
		"a link out":  func(path string) error { return os.Symlink("/etc", path) },
		"a directory": func(path string) error { return os.MkdirAll(filepath.Join(path, strings.Repeat("d/", 60)), 0o755) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r, err := Open(dir, node.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			roottest.MakeDeep(t, dir, "d", 200)
			if err := backUp(r, func() {}); err != nil {
				t.Fatal(err)
			}
			err = backUp(r, func() {
				path := filepath.Join(dir, strings.Repeat("d/", 60))
				if err := errors.Join(os.Rename(path, filepath.Join(dir, "aside")), replace(path)); err != nil {
					t.Error(err)
				}
			})
			if fserr.CodeOf(err) != fserr.ESTALE {
				t.Errorf("got %v, want ESTALE", err)
			}
		})
	}
}

// backUp goes down, calls between, and goes back up beyond what is held.
func backUp(r *Root, between func()) error {
	top, err := r.openTop()
	if err != nil {
		return err
	}
	walk := &pathWalk{root: r, trail: node.NewTrail(top, top.id)}
	defer walk.trail.Close()
	walk.push(strings.Repeat("d/", 200))
	if _, err := walk.run(); err != nil {
		return err
	}
	between()
	walk.push(strings.Repeat("../", 120) + "d")
	_, err = walk.run()
	return err
}
