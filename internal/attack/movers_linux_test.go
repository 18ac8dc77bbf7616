package attack

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mover changes what a path leads to, over and over, while operations use it. It works on
// disk, as a program in the context would.
type mover struct {
	name string
	// plant makes what is moved, in place of what operations and turns have left of it.
	plant func(w *world) error
	// turn is one change and its reverse.
	turn func(w *world) error
	// home is where the inner directory is between the turns, in the context.
	home string
	// paths lead to a directory that is sometimes not there, sometimes outside.
	paths []string
	// leaves says that the mover moves a part of the context out of it, with rename(2). An overlay is a
	// separate file system, so such a rename fails with EXDEV.
	leaves bool
}

// fits reports whether the mover can move anything in a context of cfg.
func (m mover) fits(cfg config) bool { return !m.leaves || cfg.driver != "overlay" }

// arena is what the races' links lead to, from the top of the context.
const arena = "../../../outside"

func movers() []mover {
	return []mover{
		{name: "exchange of a directory and a link", plant: plantPair, turn: exchange, home: "r/x", paths: []string{"r/x", "r/y"}},
		{name: "unlink and relink", plant: plantPair, turn: relink, home: "r/x", paths: []string{"r/x"}},
		{name: "ancestor moved up", plant: plantAncestor, turn: moveAncestor, home: "in", paths: []string{"r/anc/x/up", "anc/x/up"}},
		{
			// The paths climb to the context's own directory "in", or to the one of that name outside.
			name: "ancestor moved out", plant: plantLeaver, turn: leave, home: "in", leaves: true,
			paths: []string{"r/anc/x/../../../in", "r/anc/x/y/../../../../in"},
		},
	}
}

// fillDir makes the content of the directory that is inside.
func fillDir(dir string) error {
	err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	for _, name := range []string{"target", "sub/target"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("inside"), 0o644))
	}
	return err
}

func plantPair(w *world) error {
	return errors.Join(
		os.RemoveAll(filepath.Join(w.dir, "r")), fillDir(filepath.Join(w.dir, "r/x")),
		os.Symlink("../"+arena, filepath.Join(w.dir, "r/y")),
	)
}

func exchange(w *world) error { return swap(w.dir) }

// swap exchanges dir's r/x and r/y, and does it again.
func swap(dir string) error {
	x, y := filepath.Join(dir, "r/x"), filepath.Join(dir, "r/y")
	once := func() error { return unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, y, unix.RENAME_EXCHANGE) }
	return errors.Join(once(), once())
}

func relink(w *world) error {
	x, away := filepath.Join(w.dir, "r/x"), filepath.Join(w.dir, "r/away")
	return errors.Join(os.Rename(x, away), os.Symlink("../"+arena, x), os.Remove(x), os.Rename(away, x))
}

// plantAncestor makes a link that leads to a directory of the context, and outside once
// the directory that it stands in has moved up.
func plantAncestor(w *world) error {
	x := filepath.Join(w.dir, "r/anc/x")
	return errors.Join(
		os.RemoveAll(filepath.Join(w.dir, "r")), os.RemoveAll(filepath.Join(w.dir, "anc")),
		fillDir(filepath.Join(w.dir, "in")), os.MkdirAll(x, 0o755), os.Symlink("../../../in", filepath.Join(x, "up")),
	)
}

func moveAncestor(w *world) error {
	return thereAndBack(filepath.Join(w.dir, "r/anc"), filepath.Join(w.dir, "anc"))
}

// plantLeaver makes a directory that leaves the context: ".." of it is inside, or outside.
func plantLeaver(w *world) error {
	return errors.Join(
		os.RemoveAll(filepath.Join(w.dir, "r")), os.RemoveAll(w.gone()),
		fillDir(filepath.Join(w.dir, "in")), os.MkdirAll(filepath.Join(w.dir, "r/anc/x/y"), 0o755),
	)
}

func leave(w *world) error { return thereAndBack(filepath.Join(w.dir, "r/anc"), w.gone()) }

// gone is where leave moves a directory.
func (w *world) gone() string { return filepath.Join(w.away(), "anc") }

func thereAndBack(from, to string) error {
	return errors.Join(os.Rename(from, to), os.Rename(to, from))
}

// move turns m until ctx ends, and returns how often all of a turn worked.
func (w *world) move(ctx context.Context, m mover) (turned int64) {
	for n := 0; ctx.Err() == nil; n++ {
		if m.turn(w) == nil {
			turned++
		} else {
			_ = m.plant(w) // an operation was in the way, and may be again: then the next turn fails too
		}
		if n%64 == 0 {
			_ = fillDir(filepath.Join(w.dir, m.home)) // what operations moved or removed
		}
	}
	return turned
}
