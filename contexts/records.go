package contexts

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// folderState says what stands at a context's name. A context that a driver mounts is there when its
// state is: the folder is only where it is seen, and can be made again.
func (m *Manager) folderState(id ID) (exists bool, err error) {
	st, err := os.Lstat(m.layout.Folder(id))
	switch {
	case isGone(err):
		if err := m.Moved(); err != nil {
			return false, err
		}
		return m.mounterAt(id) != nil, nil
	case err != nil:
		return false, contextError(id, "could not be looked at", err)
	case !st.IsDir():
		return false, notAFolder(id)
	}
	return true, nil
}

// record reads a context's record; ok is false when there is none.
func (m *Manager) record(ctx context.Context, id ID) (rec metadata.Context, ok bool, err error) {
	rec, err = m.cfg.Store.Contexts().Get(ctx, string(id))
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		return rec, false, nil
	case err != nil:
		return rec, false, contextError(id, "has a record that could not be read", err)
	}
	return rec, true, nil
}

// find returns the record of a context that is ready, or why it is not. A folder
// at its name is complete whatever its record says: it got there by one rename.
func (m *Manager) find(ctx context.Context, id ID) (metadata.Context, error) {
	if _, err := ParseID(string(id)); err != nil {
		return metadata.Context{}, err
	}
	exists, err := m.folderState(id)
	if err != nil {
		return metadata.Context{}, err
	}
	rec, ok, err := m.record(ctx, id)
	switch {
	case err != nil:
		return rec, err
	case exists && ok:
		return rec, nil
	case exists:
		return m.recover(ctx, id)
	case ok && rec.State == metadata.ContextFailed:
		return rec, failedBefore(id, rec.LastError)
	case ok && rec.State == metadata.ContextSeeding && m.locks.busy(id):
		return rec, beingSeeded(id, Progress{})
	}
	return rec, missing(id)
}

// running refuses a context that this process is seeding.
func (m *Manager) running(id ID) error {
	m.mu.Lock()
	f := m.flights[strings.ToLower(string(id))]
	closed := m.closed
	m.mu.Unlock()
	switch {
	case closed:
		return stopped(id)
	case f != nil && f.id == id:
		return beingSeeded(id, f.snapshot())
	}
	return nil
}

// recover makes a record for a folder that has none.
func (m *Manager) recover(ctx context.Context, id ID) (metadata.Context, error) {
	if err := m.Distinct(ctx, id); err != nil {
		return metadata.Context{}, err
	}
	rec := m.describeFolder(id)
	err := m.cfg.Store.Contexts().Create(ctx, rec)
	if errors.Is(err, metadata.ErrConflict) {
		return m.cfg.Store.Contexts().Get(ctx, string(id)) // somebody else was faster
	}
	if err == nil { // when it was used is lost: as of now, or a collection would take it at once
		rec.UsedAt = m.cfg.now().UTC()
		err = m.cfg.Store.Contexts().Used(ctx, string(id), rec.UsedAt)
	}
	if err != nil {
		return rec, contextError(id, "could not be recorded", err)
	}
	m.cfg.Log.Sugar().Warnw("record rebuilt from the folder", "context", string(id))
	return rec, nil
}

// describeFolder says of a context what its folder and manifest tell.
func (m *Manager) describeFolder(id ID) metadata.Context {
	rec := metadata.Context{
		ID: string(id), State: metadata.ContextReady, Driver: m.madeBy(id), Generation: 1,
		CreatedAt: m.cfg.now().UTC(), Recovered: true,
	}
	if st, err := os.Lstat(m.layout.Folder(id)); err == nil {
		rec.CreatedAt = st.ModTime().UTC()
	}
	if man, digest, err := seed.Inspect(m.layout.Manifest(id)); err == nil {
		rec.Layer, rec.Files, rec.Bytes = digest, man.Files, man.Bytes
	}
	return rec
}

// Distinct fails with EEXIST if another context has an ID that differs from id only by case.
func (m *Manager) Distinct(ctx context.Context, id ID) error {
	rec, err := m.cfg.Store.Contexts().Folded(ctx, string(id))
	switch {
	case err == nil && rec.ID != string(id):
		return collides(id, ID(rec.ID))
	case err != nil && !errors.Is(err, metadata.ErrNotFound):
		return contextError(id, "could not be compared with the others", err)
	}
	names, err := m.names() // a folder may have no record
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != string(id) && strings.EqualFold(name, string(id)) {
			return collides(id, ID(name))
		}
	}
	return nil
}

// names lists what stands in the contexts directory, and the contexts whose folder is missing there.
func (m *Manager) names() ([]string, error) {
	entries, err := os.ReadDir(m.layout.Dir)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the contexts directory could not be listed", Err: err}
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	for _, name := range m.stateNames() {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// own checks that a panel may use a context, and makes the first panel whose ID
// leads to a context without owner its owner.
func (m *Manager) own(ctx context.Context, rec metadata.Context, panel string) (metadata.Context, error) {
	switch {
	case panel == "" || rec.OwnerPanel == panel:
		return rec, nil
	case rec.OwnerPanel != "":
		return rec, owned(ID(rec.ID), rec.OwnerPanel, panel)
	}
	rec.OwnerPanel = panel
	if err := m.cfg.Store.Contexts().Update(ctx, rec); err != nil {
		return rec, contextError(ID(rec.ID), "could not be recorded", err)
	}
	return rec, nil
}
