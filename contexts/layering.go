package contexts

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// layerFor returns a layer that is as the workspace is now, building it when the
// last one no longer holds; nil when the context starts empty. Seedings of one process
// take turns: the second finds the first one's layer.
func (m *Manager) layerFor(ctx context.Context, f *flight) (*layer.Layer, error) {
	p, err := ParseID(string(f.id))
	switch {
	case err != nil || p.Mode == ModeUnsafe:
		return nil, err
	case p.TemplateHash != "":
		return m.templateLayer(ctx, f, p.TemplateHash)
	}
	select {
	case m.layering <- struct{}{}:
		defer func() { <-m.layering }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	scan, err := m.scan(ctx, f)
	if err != nil || len(scan.Entries) == 0 {
		return nil, err
	}
	current, err := m.layers.Current()
	if err != nil {
		return nil, err
	}
	if current != nil && current.Manifest.Holds(scan) {
		return current, m.checkSpace(f.id, scan, m.copies())
	}
	if err := m.checkSpace(f.id, scan, 1+m.copies()); err != nil {
		return nil, err
	}
	return m.buildLayer(ctx, f, scan)
}

func (m *Manager) scan(ctx context.Context, f *flight) (*seed.Scan, error) {
	f.phase(PhaseScanning)
	m.cfg.onPhase("scanning")
	scan, err := seed.Walk(ctx, m.source, m.cfg.Seed, f.counts)
	if err != nil {
		return nil, err
	}
	if err := seed.Guard(scan, m.cfg.Seed); err != nil {
		return nil, err
	}
	if len(scan.Unreadable) > 0 {
		m.cfg.Log.Warn("the server may not read some folders of the workspace; they are left out", zap.Strings("folders", scan.Unreadable))
	}
	f.update(func(p *Progress) { p.FilesTotal, p.BytesTotal = scan.Files, scan.Bytes })
	m.cfg.onPhase("scanned")
	return scan, nil
}

func (m *Manager) buildLayer(ctx context.Context, f *flight, scan *seed.Scan) (*layer.Layer, error) {
	staged, err := m.stage("layer")
	if err != nil {
		return nil, err
	}
	defer m.discard(staged)
	f.phase(PhaseLayering)
	f.update(func(p *Progress) { p.FilesTotal, p.BytesTotal = scan.Files, scan.Bytes })
	m.cfg.onPhase("layering")
	l, err := m.layers.Build(ctx, m.source, scan, layer.BuildOptions{
		Repos: seed.Describe(ctx, m.source, scan.Repos), Staging: staged, Workers: m.cfg.Seed.Workers, Link: m.linksLayers(),
		Progress:   func(p tree.CopyProgress) { f.counts(p.Files, p.Bytes) },
		Manifested: func() { m.cfg.onPhase("layer-manifested") },
	})
	if err != nil {
		return nil, err
	}
	m.cfg.onPhase("layered")
	m.recordLayer(ctx, l, "workspace")
	f.closing = make(chan error, 1)
	m.wg.Go(func() { f.closing <- m.closingWalk(ctx, l) })
	return l, nil
}

// recordLayer tells the store of a layer. The directory is the truth, so a failure only costs a listing.
func (m *Manager) recordLayer(ctx context.Context, l *layer.Layer, kind string) {
	err := m.cfg.Store.Layers().Put(ctx, metadata.Layer{
		Digest: l.Digest, Kind: kind, Files: l.Manifest.Files, Bytes: l.Manifest.Bytes, CreatedAt: m.cfg.now().UTC(),
	})
	if err != nil {
		m.cfg.Log.Warn("a layer could not be recorded", zap.String("layer", l.Digest), zap.Error(err))
	}
}

// closingWalk marks a layer stale when the workspace moved while it was copied:
// this context is made from it, the next one is not.
func (m *Manager) closingWalk(ctx context.Context, l *layer.Layer) error {
	scan, err := seed.Walk(ctx, m.source, m.cfg.Seed, nil)
	if err == nil && len(l.Unstable) == 0 && l.Manifest.Holds(scan) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.cfg.Log.Info("the workspace changed while it was copied", zap.String("layer", l.Digest), zap.Strings("unstable", l.Unstable))
	return m.layers.MarkStale(l)
}

// copies is how many copies of its layer a new context takes.
func (m *Manager) copies() int64 {
	if _, ok := m.cfg.Driver.(driver.Mounter); ok {
		return 0
	}
	return 1
}

// linksLayers tells whether the driver takes layers whose files have names in other layers too.
func (m *Manager) linksLayers() bool {
	_, ok := m.cfg.Driver.(driver.Linker)
	return ok
}

// blockSize is what a small file takes on the file systems we know.
const blockSize = 4096

// spaceFor estimates what one copy of what was scanned takes, in bytes.
func spaceFor(entries []seed.Entry) int64 {
	var n int64
	for _, e := range entries {
		n += (e.Size+blockSize-1)/blockSize*blockSize + blockSize/8
	}
	return n
}

// checkSpace refuses (ENOSPC) a seeding that would not leave the reserve.
func (m *Manager) checkSpace(id ID, scan *seed.Scan, copies int64) error {
	return m.checkNeed(fmt.Sprintf("seed context '%s'", id), spaceFor(scan.Entries)*copies)
}

// checkNeed refuses (ENOSPC) to do what takes need bytes and would not leave the reserve.
func (m *Manager) checkNeed(what string, need int64) error {
	free, err := freeBytes(m.layout.Staging)
	for err == nil && free-need < m.cfg.DiskReserve && m.giveUpSpare(m.ctx) {
		free, err = freeBytes(m.layout.Staging)
	}
	if err != nil {
		return nil //nolint:nilerr // a system that cannot tell does not refuse; the copy itself will
	}
	if free-need >= m.cfg.DiskReserve {
		return nil
	}
	return &fserr.Error{
		Code: fserr.ENOSPC, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("no space to %s: it needs about %s and must leave %s, %s are free",
			what, seed.Size(need), seed.Size(m.cfg.DiskReserve), seed.Size(max(free, 0))),
		Hint: "free space, delete a context, or lower --disk-reserve",
	}
}
