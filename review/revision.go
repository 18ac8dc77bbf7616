package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// revisionFormat is the format of revisions that this version reads and writes.
const revisionFormat = 1

// revision is what a context held when it was submitted. The contents are in the store.
type revision struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Digest names the layer that Overrides change.
	Digest    string           `json:"layer"`
	At        time.Time        `json:"at"`
	Overrides pathMap[Version] `json:"overrides"`
	// Beside are ignored directories and barred paths, whose content is not kept.
	Beside pathMap[Difference] `json:"beside,omitempty"`
	// Space is what the contents take in the store, in bytes.
	Space int64 `json:"space,omitempty"`
	// size is that of the record, in bytes.
	size int64
}

// revisions keeps the revisions of each context in a directory of its own.
type revisions struct{ dir string }

func (r revisions) of(context string) string { return filepath.Join(r.dir, context) }

// list returns the revisions of a context, the newest first. It leaves out files that it cannot read.
func (r revisions) list(context string) ([]*revision, error) {
	entries, err := os.ReadDir(r.of(context))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []*revision
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		rev, err := r.load(context, id)
		if err != nil {
			return nil, err
		}
		if rev != nil {
			out = append(out, rev)
		}
	}
	slices.SortFunc(out, func(a, b *revision) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// load reads a revision, nil if there is none.
func (r revisions) load(context, id string) (*revision, error) {
	data, err := statedir.ReadFile(filepath.Join(r.of(context), id+".json"), statedir.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	rev := &revision{size: int64(len(data))}
	if err == nil && (json.Unmarshal(data, rev) != nil || rev.Format != revisionFormat) {
		err = &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: fmt.Sprintf("revision %s of context '%s' is damaged, or of a newer ctxfs", id, context),
			Hint: "restore the state directory from a backup, or submit the changes again",
		}
	}
	return rev, err
}

// read returns a revision. It fails with ENOENT, and names those that are kept, if there is none with this ID.
func (r revisions) read(context, id string) (*revision, error) {
	kept, err := r.list(context)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, rev := range kept {
		if rev.ID == id {
			return rev, nil
		}
		ids = append(ids, rev.ID)
	}
	hint := "nothing was submitted yet"
	if len(ids) > 0 {
		hint = "kept are, the newest first: " + strings.Join(ids, ", ")
	}
	return nil, &fserr.Error{Code: fserr.ENOENT, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' has no revision %.80q", context, id), Hint: hint}
}

// write keeps a revision, and removes the oldest ones that are beyond the bounds.
func (r revisions) write(context string, rev *revision, most bounds) error {
	data, err := json.Marshal(rev)
	if err == nil {
		err = durable.MkdirAll(r.of(context), 0o700)
	}
	if err == nil {
		err = replaceDurably(filepath.Join(r.of(context), rev.ID+".json"), data)
	}
	if err != nil {
		return err
	}
	kept, err := r.list(context)
	errs := []error{err}
	space := int64(0)
	for i, rev := range kept {
		if space += rev.Space + rev.size; i >= most.revisions || i > 0 && space > most.revisionBytes {
			errs = append(errs, os.Remove(filepath.Join(r.of(context), rev.ID+".json")))
		}
	}
	return errors.Join(errs...)
}

// remove forgets the revisions of a context.
func (r revisions) remove(context string) error { return os.RemoveAll(r.of(context)) }

// use adds the contents that revisions refer to.
func (r revisions) use(used map[string]bool) error {
	contexts, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, c := range contexts {
		kept, err := r.list(c.Name())
		if err != nil {
			return err
		}
		for _, rev := range kept {
			rev.use(used)
		}
	}
	return nil
}

// use adds the contents of a revision.
func (rev *revision) use(used map[string]bool) {
	for _, v := range rev.Overrides {
		used[v.Hash] = true
	}
}

// newContents returns the contents of a revision that the state of its context does not refer to.
func (rev *revision) newContents(st *state) map[string]bool {
	contents := map[string]bool{}
	rev.use(contents)
	for _, v := range st.Overrides {
		delete(contents, v.Hash)
	}
	return contents
}

// seal puts the contents of a context's changes into the store, and returns the revision that they make. A file that another program writes meanwhile
// is kept as it was read.
func (r *Reviews) seal(ctx context.Context, root rootfs.Root, l *List) (*revision, error) {
	rev := &revision{Format: revisionFormat, ID: revisionOf(l.Changes), Digest: l.base.digest, At: time.Now().UTC()}
	diffs := make([]Difference, len(l.Changes))
	for i, c := range l.Changes {
		diffs[i] = c.Difference
	}
	if err := r.keepAfter(ctx, root, diffs); err != nil {
		return nil, err
	}
	rev.Overrides, rev.Beside = after(diffs, l.state.Overrides)
	used := map[string]bool{}
	rev.use(used)
	var err error
	rev.Space, err = r.store.space(used)
	return rev, err
}
