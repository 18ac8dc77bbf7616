package fsservice

import (
	"cmp"
	"context"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/feed"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// resolveTime bounds how long a change waits for its context, to find where its paths lead.
	resolveTime = 2 * time.Second
	// maxStepBytes bounds the paths of a batch's steps in a change.
	maxStepBytes = 64 << 10
)

// Interrupted is the record of what a killed server may have done.
func Interrupted() []byte {
	text, _ := proto.Marshal(&ctxfsv1.FeedChange{ // its strings are valid
		TimeNs: time.Now().UnixNano(), Role: "server", Operation: "Interrupted", Path: "/", Below: true,
	})
	return text
}

// Recorder puts calls that change the files of a context into its feed. It takes calls of all services: the method table says which of them
// change files, so a method that is new needs no line here.
type Recorder struct {
	Feeds *feed.Feeds
	Gate  Gate
	Log   *zap.Logger
}

// Recorded is a call that has ended, before it is answered.
type Recorded struct {
	Method *method.Method
	ID     panels.Identity
	// Handle is what the handle stood for that the request names; nil if it names none.
	Handle *handles.Spec
	// Req is the request, or the first message of a stream. Resp is nil where it is not known.
	Req, Resp any
	Err       error
	// RequestID returns the call's ID.
	RequestID func() string
}

// Active reports whether any context may have a feed. While none has, Record has nothing to do.
func (l *Recorder) Active() bool { return l != nil && l.Feeds.Some() }

// Changes reports whether a request of a method is one for the feed if it succeeds.
func (l *Recorder) Changes(m *method.Method, req any) bool {
	if m.Reads() || m.Files() == ctxfsv1.Files_FILES_NONE || !strings.HasPrefix(m.Name, "/ctxfs.") {
		return false
	}
	message, _ := req.(proto.Message)
	return m.Changes(message)
}

// Record puts a call into its context's feed, if it may have changed files there.
func (l *Recorder) Record(ctx context.Context, c Recorded) {
	if !l.Active() || c.ID.Role == panels.RoleNone || !l.Changes(c.Method, c.Req) {
		return
	}
	c.Req = opened(c.Req)
	if isDryRun(c.Req) || c.Err != nil && !c.maybePartly() {
		return
	}
	id := c.context()
	f := l.Feeds.Of(string(id))
	if f == nil {
		return
	}
	w := &changeWriter{change: &ctxfsv1.FeedChange{
		TimeNs: time.Now().UnixNano(), Role: "host", PanelId: c.ID.Panel, Operation: string(c.Method.Desc.Name()), RequestId: c.RequestID(),
	}}
	if c.ID.Role == panels.RolePanel {
		w.change.Role = "panel"
	}
	if c.Err != nil {
		w.change.Failed = cmp.Or(fserrpb.ReasonOf(fserrpb.ToStatus(c.Err)), fserr.CodeOf(c.Err).String())
	}
	w.describe(c)
	l.resolve(ctx, id, w)
	text, err := proto.Marshal(w.change)
	if err == nil {
		err = f.Append(text)
	}
	if err != nil {
		l.Log.Error("a change could not be recorded: readers of the feed get a reset", zap.String("context", string(id)), zap.Error(err))
	}
}

// opened returns the message of a request that names what the call is about.
func opened(req any) any {
	switch r := req.(type) {
	case *ctxfsv1.WriteStreamRequest:
		return r.GetOpen()
	case *ctxfsv1.ImportRequest:
		return r.GetOpen()
	case *ctxfsv1.AttachRequest:
		return r.GetOpen()
	case interface{ GetCommand() *ctxfsv1.Command }:
		return r.GetCommand()
	}
	return req
}

func isDryRun(req any) bool {
	r, ok := req.(interface{ GetDryRun() bool })
	return ok && r.GetDryRun()
}

// maybePartly reports whether a call that failed may have made a part of its change.
func (c *Recorded) maybePartly() bool {
	e, ok := fserrpb.FromStatus(fserrpb.ToStatus(c.Err))
	if !ok {
		return true
	}
	if e.Reason != "" || e.Kind == fserr.KindCondition || e.Kind == fserr.KindEdit || e.Kind == fserr.KindRequest || e.Step > 0 {
		return false
	}
	switch e.Code {
	case fserr.ECANCELED, fserr.ETIMEDOUT, fserr.EIO, fserr.ENOSPC, fserr.EDQUOT:
		return true
	}
	m, _ := c.Req.(proto.Message)
	return e.Written > 0 || c.Method.Unbounded(m) || isRecursive(c.Req)
}

func isRecursive(req any) bool {
	r, ok := req.(interface{ GetRecursive() bool })
	return ok && r.GetRecursive()
}

// context returns the context whose files the call changes.
func (c *Recorded) context() contexts.ID {
	if c.Handle != nil {
		return c.Handle.Context
	}
	if r, ok := c.Req.(interface{ GetContextId() string }); ok && r.GetContextId() != "" {
		return contexts.ID(r.GetContextId())
	}
	return c.ID.Context
}

// changeWriter fills in what a change is about.
type changeWriter struct {
	change *ctxfsv1.FeedChange
	// paths are those that the change names, absolute.
	paths []string
	// opened is a handle, whose path may lead elsewhere now.
	opened *handles.Spec
	// also are further paths that changed.
	also []string
}

// describe fills in the paths. Only FsService names paths from the root of the context.
func (w *changeWriter) describe(c Recorded) {
	_, extracts := c.Req.(*ctxfsv1.ExtractRequest) // its handle is the archive
	_, imports := c.Req.(*ctxfsv1.ImportOpen)
	w.change.Below = isRecursive(c.Req) || extracts || imports
	batch, isBatch := c.Req.(*ctxfsv1.BatchRequest)
	named, isNamed := c.Req.(namesPath)
	if made, ok := c.Resp.(*ctxfsv1.MkdtempResponse); ok {
		named, isNamed = made, true
	}
	switch {
	case !strings.HasPrefix(c.Method.Name, "/"+ctxfsv1.FsService_ServiceDesc.ServiceName+"/"):
		w.everything()
	case isBatch:
		w.steps(batch.GetSteps())
	case c.Handle != nil && !extracts:
		w.opened = c.Handle
		w.setPath(c.Handle.Path)
	case isNamed:
		w.setPath(named.GetPath() + string(named.GetRawPath()))
		w.second(c)
	default:
		w.everything()
	}
}

// second fills in the further paths of a request with one path.
func (w *changeWriter) second(c Recorded) {
	if d, ok := c.Req.(namesDest); ok {
		w.change.Dest, w.change.RawDest = wirePath(w.named(d.GetDest() + string(d.GetRawDest())))
		w.change.Below = true
	}
	if made, ok := c.Resp.(*ctxfsv1.MkdirResponse); ok {
		if first := made.GetPath() + string(made.GetRawPath()); first != "" {
			w.also = append(w.also, first)
		}
	}
}

type namesPath interface {
	GetPath() string
	GetRawPath() []byte
}

type namesDest interface {
	GetDest() string
	GetRawDest() []byte
}

// everything says that any path may have changed.
func (w *changeWriter) everything() {
	w.paths, w.also, w.opened = nil, nil, nil
	w.change.Path, w.change.RawPath, w.change.Dest, w.change.RawDest, w.change.Steps, w.change.Below = "/", nil, "", nil, nil, true
}

func (w *changeWriter) setPath(p string) {
	w.change.Path, w.change.RawPath = wirePath(w.named(p))
}

// named notes a path of the change, and returns it in the form of a feed.
func (w *changeWriter) named(p string) string {
	p = absolute(p)
	w.paths = append(w.paths, p)
	return p
}

func (w *changeWriter) steps(steps []*ctxfsv1.BatchStep) {
	size := 0
	for _, s := range steps {
		m := s.ProtoReflect()
		field := m.WhichOneof(m.Descriptor().Oneofs().ByName("change"))
		if field == nil {
			continue
		}
		step, change := &ctxfsv1.FeedStep{Operation: field.JSONName()}, m.Get(field).Message().Interface()
		if p, ok := change.(namesPath); ok {
			step.Path, step.RawPath = wirePath(w.named(p.GetPath() + string(p.GetRawPath())))
		}
		if d, ok := change.(namesDest); ok {
			step.Dest, step.RawDest = wirePath(w.named(d.GetDest() + string(d.GetRawDest())))
			w.change.Below = true
		}
		w.change.Below = w.change.Below || isRecursive(change)
		w.change.Steps = append(w.change.Steps, step)
		if size += proto.Size(step); size > maxStepBytes {
			w.everything()
			return
		}
	}
	w.change.Path = common(w.paths)
}

// common returns the deepest directory that has all paths; of one path, the path itself.
func common(paths []string) string {
	if len(paths) == 0 {
		return "/"
	}
	dir := paths[0]
	for _, p := range paths[1:] {
		for dir != "/" && p != dir && !strings.HasPrefix(p, dir+"/") {
			dir = pathpkg.Dir(dir)
		}
	}
	return dir
}

// resolve adds where the paths of a change lead through links. If that cannot be found, any path may have changed too.
func (l *Recorder) resolve(ctx context.Context, id contexts.ID, w *changeWriter) {
	if len(w.paths) == 0 {
		return
	}
	a, err := l.enter(ctx, id)
	if err == nil {
		defer a.Release()
	}
	if err != nil || w.opened != nil && !leadsTo(a.Root, w.opened) { // or the file was renamed, or removed, since it was opened
		w.change.Below, w.also = true, []string{"/"}
	} else {
		for _, p := range w.paths {
			w.also = append(w.also, throughLinks(a.Root, p)...)
		}
	}
	slices.Sort(w.also)
	for _, p := range slices.Compact(w.also) {
		if !slices.Contains(w.paths, p) {
			text, raw := wirePath(p)
			w.change.Also = append(w.change.Also, &ctxfsv1.FeedPath{Path: text, RawPath: raw})
		}
	}
}

// enter opens the gate of a context. The change is made, whatever its caller does, so the wait is bounded by time alone.
func (l *Recorder) enter(ctx context.Context, id contexts.ID) (*contexts.Access, error) {
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // a gate that is open nearly always needs no wait, and no timer
	if a, err := l.Gate.Acquire(now, id, reads); err == nil {
		return a, nil
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), resolveTime)
	defer cancel()
	return l.Gate.Acquire(ctx, id, reads)
}

// leadsTo reports whether the path of a handle leads to its file still.
func leadsTo(root rootfs.Root, h *handles.Spec) bool {
	if h.Stat.Ino == 0 { // an atomic file, which appears at its path
		return true
	}
	st, err := root.Stat(h.Path)
	return err == nil && st.ID() == h.Stat.ID()
}

// throughLinks returns where an absolute path leads, if that is elsewhere: through links in its directory, and through a final link.
func throughLinks(root rootfs.Root, p string) []string {
	dir, base := pathpkg.Split(p)
	if p == "/" || !strings.Contains(p+"/", "/../") && (rootfs.Straight(root, p) || rootfs.Straight(root, dir) && !isLink(root, p)) {
		return nil
	}
	var out []string
	if real, err := root.Realpath(p); err == nil {
		out = append(out, real)
	}
	if real, err := root.Realpath(dir); err == nil && base != ".." {
		out = append(out, pathpkg.Join(real, base))
	}
	return out
}

func isLink(root rootfs.Root, p string) bool {
	st, err := root.Lstat(p)
	return err == nil && st.Type() == rootfs.TypeSymlink || err != nil && fserr.CodeOf(err) != fserr.ENOENT
}
