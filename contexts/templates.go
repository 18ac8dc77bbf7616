package contexts

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// TemplateOptions says where templates find their repositories.
type TemplateOptions struct {
	// GitBase is the URL below which repositories are looked for that the workspace does not have; "" means nowhere.
	GitBase string
	// Timeout bounds one question to a repository, FetchTimeout one fetch; 0 means the defaults of package template.
	Timeout, FetchTimeout time.Duration
}

// Templates prepares what template contexts (safe_tpl_...) are made from. Manager implements it.
// Errors about a template name its file and line.
type Templates interface {
	// FindTemplate returns the path of the template beside a panel's source; found is false when there is none.
	FindTemplate(panelID string) (path string, found bool, err error)
	// ResolveTemplate says what the template at path, a folder or file of the workspace, means now. From then
	// on this process can make contexts of its hash: the first one's seeding builds the layer.
	ResolveTemplate(ctx context.Context, path string) (*template.Resolved, error)
	// KnownTemplate reports whether contexts can be made of a hash, given in full or its first 12 digits: it was built, or resolved in this process.
	KnownTemplate(hash string) (bool, error)
	// BuildTemplate resolves a template and builds its layer, unless that is there. progress may be nil.
	// When ctx ends the build ends, and leaves nothing.
	BuildTemplate(ctx context.Context, path string, progress func(template.Progress)) (BuiltTemplate, error)
	// ListTemplates lists the templates that are built, by hash.
	ListTemplates(ctx context.Context) ([]TemplateUse, error)
}

var _ Templates = (*Manager)(nil)

// BuiltTemplate is BuildTemplate's result.
type BuiltTemplate struct {
	template.Built
	// Made says that this call built it; false when it was there.
	Made bool
}

// TemplateUse is a template that is built, and how many contexts were made from it and are there.
type TemplateUse struct {
	template.Built
	Contexts int
}

// maxResolved bounds how many resolved templates are remembered; beyond it they are asked for anew.
const maxResolved = 1000

// templates is what a Manager needs for them.
type templates struct {
	resolver *template.Resolver
	builder  *template.Builder

	mu sync.Mutex
	// resolved are those that may have to be built yet, by the digits of their hash that an ID has.
	resolved map[string]*template.Resolved
}

func openTemplates(cfg Config, l Layout, src seed.Source) (*templates, error) {
	resolver, err := template.NewResolver(src, cfg.Templates.GitBase, git.Options{
		Scratch: l.Staging, Timeout: cfg.Templates.Timeout, FetchTimeout: cfg.Templates.FetchTimeout,
	})
	if err != nil {
		return nil, err
	}
	builder := template.NewBuilder(template.BuildOptions{
		Layers: l.Layers, Staging: l.Staging, Locks: l.Locks, Owner: cfg.Owner,
		MaxFiles: cfg.Seed.MaxFiles, MaxBytes: cfg.Seed.MaxBytes, Now: cfg.now,
	})
	return &templates{resolver: resolver, builder: builder, resolved: map[string]*template.Resolved{}}, nil
}

func (t *templates) close() error { return t.resolver.Close() }

func (t *templates) remember(r *template.Resolved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.resolved) >= maxResolved {
		clear(t.resolved)
	}
	t.resolved[r.Hash[:templateDigits]] = r
}

// recall returns what was resolved to a hash, of which at least 12 digits are given; nil when nothing was.
func (t *templates) recall(hash string) *template.Resolved {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.resolved[hash[:templateDigits]]
	if r == nil || !strings.HasPrefix(r.Hash, hash) {
		return nil
	}
	return r
}

// FindTemplate implements Templates.
func (m *Manager) FindTemplate(panelID string) (path string, found bool, err error) {
	return template.Find(m.source, panelID)
}

// ResolveTemplate implements Templates.
func (m *Manager) ResolveTemplate(ctx context.Context, path string) (*template.Resolved, error) {
	release, err := m.workOn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return m.resolve(ctx, path)
}

// workOn takes a share of the work lock for a template: git's scratch directories are in staging.
func (m *Manager) workOn(ctx context.Context) (release func(), err error) {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return nil, &fserr.Error{Code: fserr.ECANCELED, Detail: "templates cannot be used: ctxfs is stopping", Hint: "retry when it runs again"}
	}
	if release, err = m.locks.work(ctx); err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the state could not be locked", Err: err}
	}
	return release, nil
}

func (m *Manager) resolve(ctx context.Context, path string) (*template.Resolved, error) {
	r, err := m.templates.resolver.Resolve(ctx, path)
	if err != nil {
		m.tellUnreachable(path, err)
		return nil, err
	}
	m.templates.remember(r)
	return r, nil
}

// KnownTemplate implements Templates.
func (m *Manager) KnownTemplate(hash string) (bool, error) {
	built, err := m.templates.builder.Ready(hash)
	if err != nil {
		return false, err
	}
	return built != nil || m.templates.recall(hash) != nil, nil
}

// BuildTemplate implements Templates.
func (m *Manager) BuildTemplate(ctx context.Context, path string, progress func(template.Progress)) (BuiltTemplate, error) {
	release, err := m.workOn(ctx)
	if err != nil {
		return BuiltTemplate{}, err
	}
	defer release()
	r, err := m.resolve(ctx, path)
	if err != nil {
		return BuiltTemplate{}, err
	}
	there, err := m.templates.builder.Settled(ctx, r.Hash)
	if err != nil {
		return BuiltTemplate{}, err
	}
	if there != nil {
		return BuiltTemplate{Built: *there}, nil
	}
	built, err := m.build(ctx, r, progress)
	if err != nil {
		return BuiltTemplate{}, err
	}
	return BuiltTemplate{Built: *built, Made: true}, nil
}

// build makes a template's layer and tells the store of it. How much it will take is not known before, so
// only the reserve is asked for.
func (m *Manager) build(ctx context.Context, r *template.Resolved, progress func(template.Progress)) (*template.Built, error) {
	if err := m.checkNeed(fmt.Sprintf("build template %.12s", r.Hash), 0); err != nil {
		return nil, err
	}
	built, err := m.templates.builder.Build(ctx, r, progress)
	if err != nil {
		m.tellUnreachable(r.Chain[0], err)
		return nil, err
	}
	if built == nil {
		return nil, &fserr.Error{Code: fserr.EAGAIN, RetryAfter: retryAfter, Detail: fmt.Sprintf("template %.12s was removed while it was built", r.Hash)}
	}
	m.recordLayer(ctx, layerOf(built), "template")
	m.cfg.Log.Info("template built", zap.String("template", built.Hash), zap.String("path", r.Chain[0]),
		zap.Int64("files", built.Files), zap.Int64("bytes", built.Bytes))
	return built, nil
}

var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// tellUnreachable logs what git said of a repository under the base URL: it names addresses, so callers are not told. Who may
// come in is not for a log either.
func (m *Manager) tellUnreachable(path string, err error) {
	if !errors.Is(err, git.ErrUnreachable) {
		return
	}
	var e *fserr.Error
	for errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	m.cfg.Log.Warn("a template's repository could not be reached", zap.String("template", path),
		zap.String("git", userinfo.ReplaceAllString(err.Error(), "://")))
}

// layerOf describes a template's layer as what contexts are made from.
func layerOf(b *template.Built) *layer.Layer {
	return &layer.Layer{
		Digest: b.Hash, Dir: b.Dir, Tree: b.Tree, ManifestFile: b.ManifestFile,
		Manifest: &seed.Manifest{Template: b.Hash, Files: b.Files, Bytes: b.Bytes},
	}
}

// templateLayer returns the layer of the template that a context's ID names, building it when it was
// resolved in this process. The context's record, which is there already, keeps it from being removed.
func (m *Manager) templateLayer(ctx context.Context, f *flight, digits string) (*layer.Layer, error) {
	r := m.templates.recall(digits)
	hash := digits
	if r != nil {
		hash = r.Hash
	}
	built, err := m.templates.builder.Settled(ctx, hash)
	if err != nil {
		return nil, err
	}
	if built == nil && r == nil {
		return nil, unknownTemplate(f.id)
	}
	if built == nil {
		if built, err = m.buildFor(ctx, f, r); err != nil {
			return nil, err
		}
	}
	need := (built.Bytes + built.Files*(blockSize+blockSize/8)) * m.copies()
	return layerOf(built), m.checkNeed(fmt.Sprintf("seed context '%s'", f.id), need)
}

func (m *Manager) buildFor(ctx context.Context, f *flight, r *template.Resolved) (*template.Built, error) {
	f.phase(PhaseBuilding)
	m.cfg.onPhase("building")
	built, err := m.build(ctx, r, func(p template.Progress) { f.counts(p.Files, p.Bytes) })
	m.cfg.onPhase("built")
	return built, err
}

// unknownTemplate refuses an ID whose template this server cannot build.
func unknownTemplate(id ID) error {
	return &fserr.Error{
		Code: fserr.EINVAL, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("the template of context '%s' is unknown", id),
		Hint:   "build it (ctxfs template build PATH), or open the panel by its template",
	}
}

// ListTemplates implements Templates.
func (m *Manager) ListTemplates(ctx context.Context) ([]TemplateUse, error) {
	all, err := m.templates.builder.List()
	if err != nil {
		return nil, err
	}
	infos, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]TemplateUse, len(all))
	for i, b := range all {
		out[i].Built = b
		for _, info := range infos {
			if info.State == StateReady && info.Layer == b.Hash {
				out[i].Contexts++
			}
		}
	}
	return out, nil
}

// UnusedTemplates lists the templates that no context needs, by hash.
func (m *Manager) UnusedTemplates(ctx context.Context) ([]template.Built, error) {
	all, err := m.templates.builder.List()
	if err != nil {
		return nil, err
	}
	needed, err := m.neededTemplates(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(b template.Built) bool { return needed(b.Hash) }), nil
}

// removeTemplate moves the layer of a template, by its full hash, to a free path, and reports whether it did: it leaves
// a template that a context needs, or that is being built. The caller holds the work lock, or a share of it.
func (m *Manager) removeTemplate(ctx context.Context, hash, to string) (removed bool, err error) {
	removed, err = m.templates.builder.Remove(hash, to, func() (bool, error) {
		needed, err := m.neededTemplates(ctx)
		return err == nil && needed(hash), err
	})
	if removed {
		m.forgetLayer(ctx, hash)
	}
	return removed, err
}

// neededTemplates returns a function that reports whether a context was made of the template of a hash, or is being made: its
// record is there before its layer is looked for.
func (m *Manager) neededTemplates(ctx context.Context) (needed func(hash string) bool, err error) {
	keep, err := m.layersInUse(ctx)
	if err != nil {
		return nil, err
	}
	recs, err := m.byID(ctx)
	if err != nil {
		return nil, err
	}
	seeding := map[string]bool{}
	for id, rec := range recs {
		if p, err := ParseID(string(id)); err == nil && State(rec.State) == StateSeeding {
			seeding[p.TemplateHash] = true
		}
	}
	return func(hash string) bool { return keep[hash] || seeding[hash[:templateDigits]] }, nil
}

// ContextForPanel returns the ID of the context that a panel gets when nothing is said: that of the
// template beside its source, as that resolves now, or ctx_NAME.
func ContextForPanel(ctx context.Context, t Templates, panelID string) (ID, error) {
	id, err := IDForPanel(panelID)
	if err != nil {
		return "", err
	}
	path, found, err := t.FindTemplate(panelID)
	if !found || err != nil {
		return id, err
	}
	r, err := t.ResolveTemplate(ctx, path)
	if err != nil {
		return "", err
	}
	return TemplateIDForPanel(r.Hash, panelID)
}
