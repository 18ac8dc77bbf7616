package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/panels"
)

// Why a stream ends before its time.
var (
	errStopping = &fserr.Error{Code: fserr.EAGAIN, Detail: "the server is stopping", Hint: "connect again", RetryAfter: time.Second}
	errNoSite   = &fserr.Error{Code: fserr.ENOENT, Detail: "the site was closed", Hint: "open another"}
	errConsole  = &fserr.Error{Code: fserr.EACCES, Detail: "this console has ended", Hint: "run 'ctxfs console' again"}
	errExpired  = &fserr.Error{Code: fserr.EACCES, Detail: "the token expired", Hint: "its host gets another by RenewToken"}
)

// ended is the cause of a stream's context that the server has ended.
type ended struct{ error }

// Unwrap returns the reason.
func (e ended) Unwrap() error { return e.error }

// maxPanelStreams bounds the streams of one panel, or of one site that belongs to none, over all its connections: each may have an open file, and all panels share the
// process's descriptors.
const maxPanelStreams = 1000

var errTooMany = &fserr.Error{Code: fserr.EMFILE, Detail: "the panel has 1000 streams open", Hint: "end some"}

// endGrace is how long a handler has to return once its stream was ended. After that the stream ends without the handler, which may be
// blocked in a send to a client that does not read. A write under way is waited for.
const endGrace = 500 * time.Millisecond

// streamTable has the running streams, so that those of a closed panel can be ended.
type streamTable struct {
	mu   sync.Mutex
	live map[*liveStream]struct{}
	// counts has the counted streams of each panel, and of each site that belongs to none (limited).
	counts map[string]int
	closed bool
	// handlers counts the handlers that have not returned.
	handlers sync.WaitGroup
}

// liveStream is the context of a stream's handler.
type liveStream struct {
	context.Context //nolint:containedctx // it is one

	panel string
	// account is what the stream counts for, up to maxPanelStreams; "" for a host's, which are not bounded.
	account string
	// token is the hash of the caller's token, or of a site's capability.
	token  [32]byte
	cancel context.CancelCauseFunc
	// writing is full while the handler writes, after its commit, and once the stream was answered without the handler.
	writing chan struct{}
	// expiry ends the stream with its token; nil when the token does not expire.
	expiry *time.Timer
}

type liveStreamKey struct{}

// extendStream lets the stream of ctx last until its further token expires.
func extendStream(ctx context.Context, until time.Time) {
	if s, ok := ctx.Value(liveStreamKey{}).(*liveStream); ok && s.expiry != nil {
		s.expiry.Reset(time.Until(until))
	}
}

// Value implements context.Context.
func (s *liveStream) Value(key any) any {
	if _, ok := key.(liveStreamKey); ok {
		return s
	}
	return s.Context.Value(key)
}

func newStreamTable() *streamTable {
	return &streamTable{live: map[*liveStream]struct{}{}, counts: map[string]int{}}
}

// add adds a stream, or refuses it.
func (t *streamTable) add(s *liveStream) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errStopping
	case s.account != "" && t.counts[s.account] >= maxPanelStreams:
		return errTooMany
	case s.account != "":
		t.counts[s.account]++
	}
	t.live[s] = struct{}{}
	t.handlers.Add(1)
	return nil
}

func (t *streamTable) remove(s *liveStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, s)
	if s.account == "" {
		return
	}
	if t.counts[s.account]--; t.counts[s.account] == 0 {
		delete(t.counts, s.account)
	}
}

// endPanel ends a panel's streams.
func (t *streamTable) endPanel(panel string, why error) {
	t.end(unauthenticated(why), func(s *liveStream) bool { return s.panel == panel })
}

// endToken ends the streams of a site, or of a console.
func (t *streamTable) endToken(hash [32]byte, why error) {
	t.end(why, func(s *liveStream) bool { return s.token == hash })
}

// extendToken lets the streams of a site last until its further time, which may be an earlier one.
func (t *streamTable) extendToken(hash [32]byte, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.live {
		if s.token == hash && s.expiry != nil {
			s.expiry.Reset(time.Until(until))
		}
	}
}

// has reports whether a token has a stream.
func (t *streamTable) has(hash [32]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.live {
		if s.token == hash {
			return true
		}
	}
	return false
}

// panels returns the panels that have a stream.
func (t *streamTable) panels() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := map[string]bool{}
	for s := range t.live {
		live[s.panel] = true
	}
	return live
}

// close ends all streams, and refuses further ones.
func (t *streamTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end(errStopping, func(*liveStream) bool { return true })
}

// wait returns when the handlers of all streams have returned.
func (t *streamTable) wait() { t.handlers.Wait() }

func (t *streamTable) end(why error, which func(*liveStream) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.live {
		if which(s) {
			s.cancel(ended{why})
		}
	}
}

// begin adds a stream whose context ends with the panel, the token or the server. The caller must call leave when its handler has
// returned, or when the stream ends without it.
func (t *streamTable) begin(ctx context.Context, id panels.Identity) (s *liveStream, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s = &liveStream{Context: ctx, panel: id.Panel, token: id.TokenHash, cancel: cancel}
	if id.Role == panels.RolePanel {
		s.account = limited(id)
	}
	if !id.ExpiresAt.IsZero() {
		why := errExpired
		if id.Console {
			why = errConsole
		}
		s.expiry = time.AfterFunc(time.Until(id.ExpiresAt), func() { cancel(ended{unauthenticated(why)}) })
	}
	leave = func() {
		t.remove(s)
		s.stop()
	}
	if err := t.add(s); err != nil {
		s.stop()
		return nil, nil, err
	}
	return s, leave, nil
}

// stop frees what the stream's context has.
func (s *liveStream) stop() {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.cancel(nil)
}

// runHere calls handler with a context that ends with the panel, the token or the server. If it ended, runHere returns the reason once
// handler has returned. It spares the goroutine of run, for handlers that read, and return soon after their context has ended.
func (t *streamTable) runHere(ctx context.Context, id panels.Identity, handler func(context.Context) error) error {
	s, leave, err := t.begin(ctx, id)
	if err != nil {
		return err
	}
	defer t.handlers.Done()
	defer leave()
	return reasonOr(s, handler(s))
}

// run is runHere for handlers that may block after their context has ended: it waits only a while for them.
func (t *streamTable) run(ctx context.Context, id panels.Identity, handler func(context.Context) error) error {
	s, leave, err := t.begin(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	s.writing = make(chan struct{}, 1)
	ctx = fsservice.WithWrites(s, s.beginWrite)
	done := make(chan error, 1)
	go func() {
		defer t.handlers.Done()
		done <- handler(ctx)
	}()
	select {
	case err := <-done:
		return reasonOr(ctx, err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return reasonOr(ctx, err)
	case <-grace.C:
	}
	select {
	case err := <-done: // a write or a commit is under way: its result is the answer
		return reasonOr(ctx, err)
	case s.writing <- struct{}{}:
		return reasonOr(ctx, fserr.ECANCELED)
	}
}

// beginWrite is the begin of fsservice.WithWrites.
func (s *liveStream) beginWrite() (end func(), err error) {
	select {
	case s.writing <- struct{}{}:
		return func() { <-s.writing }, nil
	default:
		return nil, fserr.ECANCELED
	}
}

// reasonOr returns why the server ended ctx; err when it did not. A handler that succeeded has succeeded.
func reasonOr(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var why ended
	if errors.As(context.Cause(ctx), &why) {
		return why.error
	}
	return err
}

// streamWithContext is a stream with another context.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // the interface asks for it
}

// Context implements grpc.ServerStream.
func (s *streamWithContext) Context() context.Context { return s.ctx }
