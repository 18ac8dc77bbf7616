package review

import (
	"bytes"
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/git"
)

// merge3 says what becomes of a path that was base, that somebody else made now, and that should become want. merged says that changes of
// both sides are in it. kind is not 0 if both cannot be had.
type merge3 struct {
	base, now, want Version
}

// settled answers without looking into contents; ok is false if it cannot.
func (m merge3) settled() (result Version, merged bool, kind ConflictKind, ok bool) {
	switch base, now, want := m.base, m.now, m.want; {
	case now.Same(base):
		return m.mode(want), false, 0, true
	case now.Same(want), want.Same(base):
		return now, false, 0, true
	case !now.Exists():
		return now, false, ConflictModifyDelete, true
	case now.Type == rootfs.TypeDirectory:
		return now, false, ConflictDirectoryInTheWay, true
	case !want.Exists():
		return now, false, ConflictDeleteModify, true
	case !base.Exists():
		return now, false, ConflictAddAdd, true
	case base.Type != rootfs.TypeFile || now.Type != rootfs.TypeFile || want.Type != rootfs.TypeFile:
		return now, false, ConflictType, true
	case want.Hash == base.Hash || want.Hash == now.Hash:
		return m.mode(now), true, 0, true
	case now.Hash == base.Hash:
		return m.mode(want), true, 0, true
	case max(base.Size, now.Size, want.Size) > MaxText:
		return now, false, ConflictBinary, true
	}
	return Version{}, false, 0, false
}

// mode gives a file the mode that is there now, with the executable bits of whichever side changed them.
func (m merge3) mode(v Version) Version {
	if v.Type != rootfs.TypeFile || m.now.Type != rootfs.TypeFile {
		return v
	}
	run := m.now.Mode&executable != 0
	if !m.want.sameMode(m.base) {
		run = m.want.Mode&executable != 0
	}
	v.Mode = m.now.Mode
	switch readable := v.Mode & 0o444; {
	case run && v.Mode&executable == 0:
		v.Mode |= readable >> 2 // all that may read the file may execute it, as in git
	case !run:
		v.Mode &^= executable
	}
	return v
}

// merger merges contents of the store.
type merger struct {
	store *Store
	// scratch is a directory for git's files.
	scratch string
	// known has results, for a plan that is made twice; nil keeps none. Their contents are in the store.
	known map[merging]mergeResult
	// onlyKnown has other merges fail with errUnmerged.
	onlyKnown bool
	// merges is called before each merge of git's.
	merges func()
}

// errUnmerged is the error of a merge whose result is not known yet.
var errUnmerged = errors.New("the file is not merged yet")

// merging identifies a merge. how is "" for one that fails where both sides changed the same lines, and else what becomes of these.
type merging struct {
	merge3
	how string
}

// mergeResult is what a merge returned. Without a kind, merged is false if the versions are not texts.
type mergeResult struct {
	result Version
	merged bool
	kind   ConflictKind
}

// merge returns the version that m results in, whose content is in the store if it is new.
func (g merger) merge(ctx context.Context, m merge3) (result Version, merged bool, kind ConflictKind, err error) {
	if result, merged, kind, ok := m.settled(); ok {
		return result, merged, kind, nil
	}
	k, err := g.once(merging{m, ""}, func() (k mergeResult, err error) {
		k.result, k.merged, k.kind, err = g.mergeText(ctx, m)
		return k, err
	})
	return k.result, k.merged, k.kind, err
}

// once returns the result of a merge, which do makes unless it is known.
func (g merger) once(m merging, do func() (mergeResult, error)) (mergeResult, error) {
	if k, ok := g.known[m]; ok {
		return k, nil
	}
	if g.onlyKnown {
		return mergeResult{}, errUnmerged
	}
	k, err := do()
	if err == nil && g.known != nil {
		g.known[m] = k
	}
	return k, err
}

// knowing returns a merger that keeps its results.
func (g merger) knowing() merger {
	g.known = map[merging]mergeResult{}
	return g
}

// mergeText merges three files line by line.
func (g merger) mergeText(ctx context.Context, m merge3) (result Version, merged bool, kind ConflictKind, err error) {
	var texts [3][]byte
	for i, v := range []Version{m.base, m.now, m.want} {
		if texts[i], err = g.store.text(v); err != nil {
			return Version{}, false, 0, err
		}
		if !isText(texts[i]) {
			return m.now, false, ConflictBinary, nil
		}
	}
	done, err := forMerge(ctx, texts)
	if errors.Is(err, errTooLarge) {
		return m.now, false, ConflictBinary, nil
	}
	if err != nil {
		return Version{}, false, 0, err
	}
	defer done()
	g.merges()
	text, clean, err := git.MergeFile(ctx, g.scratch, texts[0], texts[1], texts[2])
	if err != nil {
		return Version{}, false, 0, err
	}
	if !clean {
		return m.now, false, ConflictContent, nil
	}
	result = m.mode(m.now)
	result.Hash, result.Size, err = g.store.Put(ctx, bytes.NewReader(text))
	return result, true, 0, err
}
