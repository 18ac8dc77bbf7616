package seeding

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

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/metadata"
)

// TemplateOptions say where templates find their repositories.
type TemplateOptions struct {
	// GitBase is the base URL of repositories that the workspace does not have; "" means that there are none.
	GitBase string
	// Timeout bounds one question to a repository, FetchTimeout one fetch; 0 means the defaults of package template.
	Timeout, FetchTimeout time.Duration
}

// BuiltTemplate is the result of Templates.Build.
type BuiltTemplate struct {
	template.Built
	// Made is false if the template was built before.
	Made bool
}

// TemplateUse is a template that is built, and the number of contexts that were made from it and exist.
type TemplateUse struct {
	template.Built
	Contexts int
}

// maxResolved bounds how many resolved templates are remembered. Beyond it they must be resolved again.
const maxResolved = 1000

// Templates prepares what template contexts (safe_tpl_...) are made from. Errors about a template name its file and line.
type Templates struct {
	cat      *catalog.Catalog
	life     *gate.Life
	flights  *Flights
	layers   *Layers
	pool     *Pool
	source   seed.Source
	resolver *template.Resolver
	builder  *template.Builder

	mu sync.Mutex
	// resolved are the templates that may not be built yet, by the digits of their hash that an ID has.
	resolved map[string]*template.Resolved
}

func (t *Templates) remember(r *template.Resolved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.resolved) >= maxResolved {
		clear(t.resolved)
	}
	t.resolved[r.Hash[:catalog.TemplateDigits]] = r
}

// recall returns the template that was resolved to a hash, given in full or its first 12 digits, or nil.
func (t *Templates) recall(hash string) *template.Resolved {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.resolved[hash[:catalog.TemplateDigits]]
	if r == nil || !strings.HasPrefix(r.Hash, hash) {
		return nil
	}
	return r
}

// Find returns the path of the template beside a panel's source; found is false if there is none.
func (t *Templates) Find(panelID string) (path string, found bool, err error) {
	return template.Find(t.source, panelID)
}

// Resolve resolves the template at path, a folder or file of the workspace, as it is now. From then on this process can make
// contexts of its hash: the first one's seeding builds the layer.
func (t *Templates) Resolve(ctx context.Context, path string) (*template.Resolved, error) {
	release, err := t.work(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return t.resolve(ctx, path)
}

// work takes a share of the work lock: git's scratch directories are in staging.
func (t *Templates) work(ctx context.Context) (release func(), err error) {
	if t.life.Stopped() {
		return nil, &fserr.Error{Code: fserr.ECANCELED, Detail: "templates cannot be used: ctxfs is stopping", Hint: "retry when it runs again"}
	}
	if release, err = t.cat.Locks.Share(ctx, catalog.WorkLock); err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the state could not be locked", Err: err}
	}
	return release, nil
}

func (t *Templates) resolve(ctx context.Context, path string) (*template.Resolved, error) {
	r, err := t.resolver.Resolve(ctx, path)
	if err != nil {
		t.logUnreachable(path, err)
		return nil, err
	}
	t.remember(r)
	return r, nil
}

// Known reports whether contexts can be made of a hash, given in full or its first 12 digits: the template was built, or
// resolved in this process.
func (t *Templates) Known(hash string) (bool, error) {
	built, err := t.builder.Ready(hash)
	if err != nil {
		return false, err
	}
	return built != nil || t.recall(hash) != nil, nil
}

// Build resolves a template and builds its layer, unless that exists. progress may be nil. If ctx ends the build ends, and leaves
// nothing.
func (t *Templates) Build(ctx context.Context, path string, progress func(template.Progress)) (BuiltTemplate, error) {
	release, err := t.work(ctx)
	if err != nil {
		return BuiltTemplate{}, err
	}
	defer release()
	r, err := t.resolve(ctx, path)
	if err != nil {
		return BuiltTemplate{}, err
	}
	there, err := t.builder.Settled(ctx, r.Hash)
	if err != nil {
		return BuiltTemplate{}, err
	}
	if there != nil {
		return BuiltTemplate{Built: *there}, nil
	}
	built, err := t.build(ctx, r, progress)
	if err != nil {
		return BuiltTemplate{}, err
	}
	return BuiltTemplate{Built: *built, Made: true}, nil
}

// build makes a template's layer and its record. The size is not known before, so build only checks that the reserve is free.
func (t *Templates) build(ctx context.Context, r *template.Resolved, progress func(template.Progress)) (*template.Built, error) {
	if err := t.pool.MakeRoom(fmt.Sprintf("build template %.12s", r.Hash), 0); err != nil {
		return nil, err
	}
	built, err := t.builder.Build(ctx, r, progress)
	if err != nil {
		t.logUnreachable(r.Chain[0], err)
		return nil, err
	}
	if built == nil {
		return nil, &fserr.Error{
			Code: fserr.EAGAIN, RetryAfter: catalog.RetryAfter, Detail: fmt.Sprintf("template %.12s was removed while it was built", r.Hash),
		}
	}
	t.layers.record(ctx, layerOf(built), "template")
	t.cat.Log.Info("template built", zap.String("template", built.Hash), zap.String("path", r.Chain[0]),
		zap.Int64("files", built.Files), zap.Int64("bytes", built.Bytes))
	return built, nil
}

var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// logUnreachable logs git's message about a repository under the base URL. The message names addresses, so callers do not get
// it. The log does not get user names and passwords.
func (t *Templates) logUnreachable(path string, err error) {
	if !errors.Is(err, git.ErrUnreachable) {
		return
	}
	var e *fserr.Error
	for errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	t.cat.Log.Warn("a template's repository could not be reached", zap.String("template", path),
		zap.String("git", userinfo.ReplaceAllString(err.Error(), "://")))
}

// layerOf describes a template's layer as contexts are made from it.
func layerOf(b *template.Built) *layer.Layer {
	return &layer.Layer{
		Digest: b.Hash, Dir: b.Dir, Tree: b.Tree, ManifestFile: b.ManifestFile,
		Manifest: &seed.Manifest{Template: b.Hash, Files: b.Files, Bytes: b.Bytes},
	}
}

// layerFor returns the layer of the template that a context's ID names, and builds it if this process has resolved the template.
// The context's record, which exists already, keeps the layer from being removed.
func (t *Templates) layerFor(ctx context.Context, f *flight, digits string) (*layer.Layer, error) {
	r := t.recall(digits)
	hash := digits
	if r != nil {
		hash = r.Hash
	}
	built, err := t.builder.Settled(ctx, hash)
	if err != nil {
		return nil, err
	}
	if built == nil && r == nil {
		return nil, unknownTemplate(f.id)
	}
	if built == nil {
		f.phase(PhaseBuilding)
		t.cat.Events.Step("building")
		built, err = t.build(ctx, r, func(p template.Progress) { f.counts(p.Files, p.Bytes) })
		t.cat.Events.Step("built")
		if err != nil {
			return nil, err
		}
	}
	need := (built.Bytes + built.Files*(blockSize+blockSize/8)) * copiesPer(t.cat.Drivers.New)
	return layerOf(built), t.pool.MakeRoom(seedOf(f.id), need)
}

// unknownTemplate (EINVAL): this server cannot build the template of an ID.
func unknownTemplate(id catalog.ID) error {
	return &fserr.Error{
		Code: fserr.EINVAL, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("the template of context '%s' is unknown", id),
		Hint:   "build it (ctxfs template build PATH), or open the panel by its template",
	}
}

// List lists the templates that are built, by hash.
func (t *Templates) List(ctx context.Context) ([]TemplateUse, error) {
	all, err := t.builder.List()
	if err != nil {
		return nil, err
	}
	uses, err := t.uses(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]TemplateUse, len(all))
	for i, b := range all {
		out[i] = TemplateUse{Built: b, Contexts: uses[b.Hash]}
	}
	return out, nil
}

// uses counts the contexts that are ready, by their layer.
func (t *Templates) uses(ctx context.Context) (map[string]int, error) {
	recs, err := t.cat.ByID(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := t.cat.IDs(recs)
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, id := range ids {
		if there, err := t.cat.FolderState(id); err != nil || !there || t.flights.of(id) != nil {
			continue
		}
		rec, ok := recs[id]
		if !ok {
			rec = t.cat.DescribeFolder(id)
		}
		uses[rec.Layer]++
	}
	return uses, nil
}

// Unused lists the templates that no context needs, by hash.
func (t *Templates) Unused(ctx context.Context) ([]template.Built, error) {
	all, err := t.builder.List()
	if err != nil {
		return nil, err
	}
	needed, err := t.needed(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(b template.Built) bool { return needed(b.Hash) }), nil
}

// Remove moves the layer of a template, by its full hash, to a free path, and reports whether it did: it leaves a template that a
// context needs, or that is being built. The caller holds the work lock, or a share of it.
func (t *Templates) Remove(ctx context.Context, hash, to string) (removed bool, err error) {
	removed, err = t.builder.Remove(hash, to, func() (bool, error) {
		needed, err := t.needed(ctx)
		return err == nil && needed(hash), err
	})
	if removed {
		t.layers.Forget(ctx, hash)
	}
	return removed, err
}

// needed returns a function that reports whether a context was made of the template of a hash, or is being made: the record of a
// context exists before its seeding looks for the layer.
func (t *Templates) needed(ctx context.Context) (needed func(hash string) bool, err error) {
	keep, err := t.cat.LayersInUse(ctx)
	if err != nil {
		return nil, err
	}
	recs, err := t.cat.ByID(ctx)
	if err != nil {
		return nil, err
	}
	seeding := map[string]bool{}
	for id, rec := range recs {
		if p, err := catalog.ParseID(string(id)); err == nil && rec.State == metadata.ContextSeeding {
			seeding[p.TemplateHash] = true
		}
	}
	return func(hash string) bool { return keep[hash] || seeding[hash[:catalog.TemplateDigits]] }, nil
}
