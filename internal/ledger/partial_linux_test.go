package ledger

import (
	"io/fs"
	"path"
	"strings"
)

// partial reports whether got, found after a kill, is an intermediate state that the operation in flight is permitted to leave,
// besides the state before and the state after it. nil permits none.
type partial func(before, got tree) bool

func either(a, b partial) partial {
	return func(before, got tree) bool { return a(before, got) || b(before, got) }
}

func exactly(want tree) partial {
	return func(_, got tree) bool { return same(want, got) }
}

// leavesOld allows that a part of a renamed directory still has its old name, beside all of it at the new one: overlay-userns
// renames a directory of the layer in steps (docs/explanation/drivers.md).
func leavesOld(from string, after tree) partial {
	return func(before, got tree) bool {
		for p, n := range got {
			if old, ok := before[p]; within(p, from) && (!ok || differs(old, n) != "") {
				return false
			}
		}
		return same(after, got.without(from))
	}
}

// mixes reports whether got may be the result of an interrupted write in place of text at off: only a beginning of text has
// reached the file.
func mixes(old, text string, off int, got string) bool {
	if len(old) < off {
		old += strings.Repeat("\x00", off-len(old))
	}
	n := 0
	for n < len(text) && off+n < len(got) && got[off+n] == text[n] {
		n++
	}
	for ; n >= 0; n-- {
		want := old[:off] + text[:n]
		if len(old) > len(want) {
			want += old[len(want):]
		}
		if got == want {
			return true
		}
	}
	return false
}

// inPlace allows content that is partly new, under all names of a file; and another mode when a mode is to come.
func inPlace(name, text string, off int, modes ...fs.FileMode) partial {
	return func(before, got tree) bool {
		g, old := got[name], before[name]
		if g.kind != 0 || !mixes(old.text, text, off, g.text) {
			return false
		}
		return same(before.changed(name, func(n *node) {
			n.text, n.mtime = g.text, 0
			for _, m := range modes {
				if g.perm == m {
					n.perm = m
				}
			}
		}), got)
	}
}

// newFile allows a new file that holds a beginning of what it is to hold, as yet for its owner alone.
func newFile(name, text string, perm fs.FileMode) partial {
	return func(before, got tree) bool {
		g, ok := got[name]
		return ok && g.kind == 0 && strings.HasPrefix(text, g.text) && (g.perm == perm || g.perm == 0o600) &&
			same(before.with(name, file(g.text, g.perm)), got)
	}
}

// fewer allows that only some of what is below top is gone: what is left has its parents.
func fewer(top string) partial {
	return func(before, got tree) bool {
		want := before.clone()
		for p := range before {
			if _, there := got[p]; !there && within(p, top) {
				delete(want, p)
			}
		}
		return same(want, got) && whole(want, top)
	}
}

// whole reports whether every path below top has its parent in t.
func whole(t tree, top string) bool {
	for p := range t {
		if _, there := t[path.Dir(p)]; within(p, top) && p != top && !there {
			return false
		}
	}
	return true
}

// more allows that only some of what is to come below top is there, each with its parents: directories with another mode
// as long as they are filled, files with a beginning of their content.
func more(top string, after tree) partial {
	return func(before, got tree) bool {
		want := before.clone()
		for p, n := range after {
			g, there := got[p]
			if !within(p, top) || !there {
				continue
			}
			if _, old := before[p]; !old && half(n, g) {
				n.perm, n.text, n.mtime = g.perm, g.text, 0
				want[p] = n
			}
		}
		return same(want, got) && whole(want, top)
	}
}

// merged is more where some of what is to come replaces what is there, which may be gone.
func merged(top string, after tree) partial {
	return func(before, got tree) bool {
		want := before.clone()
		for p, n := range after {
			g, there := got[p]
			old, was := before[p]
			switch {
			case !within(p, top) || was && there && differs(old, g) == "":
			case !there && n.kind == fs.ModeDir && was:
				return false
			case !there:
				delete(want, p)
			case half(n, g):
				n.perm, n.text, n.mtime, n.id = g.perm, g.text, 0, 0
				want[p] = n
			}
		}
		return same(want, got) && whole(want, top)
	}
}

// half reports whether got may be an unfinished n.
func half(n, got node) bool {
	switch {
	case n.kind != got.kind:
		return false
	case n.kind == 0:
		return strings.HasPrefix(n.text, got.text) && (got.perm == n.perm || got.perm == 0o600)
	case n.kind == fs.ModeDir:
		return got.perm == n.perm || got.perm == 0o700
	}
	return n.text == got.text
}
