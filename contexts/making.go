package contexts

import (
	"context"
	"os"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/metadata"
)

// make fills a staging directory and renames it to where the context is.
func (m *Manager) make(ctx context.Context, f *flight, rec *metadata.Context) error {
	l, err := m.layerFor(ctx, f)
	if err != nil {
		return err
	}
	staged, err := m.stage("context")
	if err != nil {
		return err
	}
	defer m.discard(staged)
	made, place := filepath.Join(staged, "folder"), m.layout.Folder(f.id)
	mounter, ok := m.cfg.Driver.(driver.Mounter)
	if ok {
		place = m.layout.DriverState(mounter.Name(), f.id)
		err = m.makeState(ctx, f, l, made, filepath.Dir(place))
	} else {
		err = m.makeFolder(ctx, f, l, made)
	}
	if err != nil {
		return err
	}
	if l != nil {
		rec.Layer, rec.Files, rec.Bytes = l.Digest, l.Manifest.Files, l.Manifest.Bytes
	}
	if err := f.closed(); err != nil {
		return err
	}
	m.cfg.onPhase("copied")
	if err := m.keepManifest(f.id, l); err != nil {
		return err
	}
	m.cfg.onPhase("manifested")
	if err := m.dropSnapshots(f.id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := renameNoReplace(made, place); err != nil {
		return err
	}
	m.cfg.onPhase("renamed")
	return nil
}

// makeFolder makes the folder itself; without a layer it stays empty.
func (m *Manager) makeFolder(ctx context.Context, f *flight, l *layer.Layer, folder string) error {
	if m.claim(ctx, f, l, folder) {
		return nil
	}
	if err := m.makeTop(folder); err != nil || l == nil {
		return err
	}
	return m.fromLayer(ctx, f, l, folder)
}

// makeState makes what a driver mounts, and the directory that it is to stand in.
func (m *Manager) makeState(ctx context.Context, f *flight, l *layer.Layer, state, parent string) error {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		return err
	}
	return m.fromLayer(ctx, f, l, state)
}

// fromLayer has the driver fill dst; l is nil when the context starts empty.
func (m *Manager) fromLayer(ctx context.Context, f *flight, l *layer.Layer, dst string) error {
	f.phase(PhaseCopying)
	if l == nil {
		return m.cfg.Driver.Prepare(ctx, "", dst, nil)
	}
	f.update(func(p *Progress) { p.FilesTotal, p.BytesTotal = l.Manifest.Files, l.Manifest.Bytes })
	m.cfg.onPhase("copying")
	return m.cfg.Driver.Prepare(ctx, l.Tree, dst, func(p driver.Progress) {
		f.counts(p.Files, p.Bytes)
		if p.Files == l.Manifest.Files/2 {
			m.cfg.onPhase("copying-midway")
		}
	})
}
