package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// maxOverhead bounds what a request may have besides content of Config.MaxRequest, in bytes: paths and flags.
const maxOverhead = 64 << 10

// maxStreams bounds the calls in flight on one connection.
const maxStreams = 1000

// defaultDeadline bounds a unary call that sets no deadline.
const defaultDeadline = 30 * time.Second

// tooLarge refuses a request of size bytes and names what to use instead.
func (i *interceptors) tooLarge(size, limit int) *fserr.Error {
	i.metrics.rejected("request_bytes")
	e := &fserr.Error{
		Code: fserr.EFBIG, Kind: fserr.KindRequest,
		Detail: fmt.Sprintf("request of %.1f MiB exceeds %s", float64(size)/(1<<20), Size(i.maxRequest)),
		Hint:   "use FsService/WriteStream, in chunks of 256 KiB to 1 MiB",
	}
	if limit == maxStrangerRequest {
		e.Detail, e.Hint = fmt.Sprintf("request of %d bytes exceeds %s", size, Size(limit)), "name a service"
	}
	return e
}

// sessionTooLarge refuses a session's message of size bytes, which ends the session. Too much content for one operation fails only that
// operation.
func sessionTooLarge(size int) error {
	return &fserr.Error{
		Code: fserr.EFBIG, Detail: fmt.Sprintf("a session's message of %.1f MiB exceeds 1 MiB", float64(size)/(1<<20)),
		Hint: "send content in ranges of at most 256 KiB",
	}
}

// withDefaultDeadline bounds a call that began at start and has no deadline, unless its time depends on the number of files.
func withDefaultDeadline(ctx context.Context, start time.Time, m *method.Method, req any) (context.Context, context.CancelFunc) {
	message, _ := req.(proto.Message)
	if _, ok := ctx.Deadline(); ok || m.Unbounded(message) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, start.Add(defaultDeadline))
}

// panelLimits bounds what one panel has under way, on all its connections. 0 means no bound. A host that names no panel is not bounded. The
// visitors of a site that belongs to no panel have the limits of a panel.
type panelLimits struct {
	inFlight, sessions, watches int64
	// memory is that of all panels; memoryPerPanel and memoryPerConnection bound parts of it, in bytes.
	memory                              *budget.Budget
	memoryPerPanel, memoryPerConnection int64
	// perSecond is how many operations may begin in a second. After a pause as many may begin at once.
	perSecond int
	rejected  func(limit string)

	// uses has a *panelUse for each panel that has called.
	uses sync.Map
}

type panelUse struct {
	inFlight, sessions, watches atomic.Int64
	requests, replies           *budget.Account
	// pace is nil when there is no bound.
	pace *rate.Limiter
}

func newPanelLimits(cfg Config, m *metrics) *panelLimits {
	total := int64(cfg.MemoryTotal)
	if total == 0 {
		total = defaultMemoryTotal()
	}
	return &panelLimits{
		memory:         budget.New(total, cfg.Keepalive, func(l budget.Level) { m.waits.WithLabelValues(string(l)).Inc() }),
		memoryPerPanel: int64(cfg.MemoryPerPanel), memoryPerConnection: int64(cfg.MemoryPerConnection),
		inFlight: int64(cfg.InFlightPerPanel), sessions: int64(cfg.SessionsPerPanel), watches: int64(cfg.WatchesPerPanel),
		perSecond: cfg.OperationsPerSecond, rejected: m.rejected,
	}
}

func (l *panelLimits) use(panel string) *panelUse {
	if u, ok := l.uses.Load(panel); ok {
		return u.(*panelUse) //nolint:forcetypeassert // nothing else is in it
	}
	u := &panelUse{requests: l.memory.Account(l.memoryPerPanel), replies: l.memory.Account(l.memoryPerPanel)}
	if l.perSecond > 0 {
		u.pace = rate.NewLimiter(rate.Limit(l.perSecond), l.perSecond)
	}
	got, _ := l.uses.LoadOrStore(panel, u)
	return got.(*panelUse) //nolint:forcetypeassert // as above
}

// forget drops the use of a panel that was closed, and ends its waits for memory. Replies that no client reads are freed with their
// connections, which first have time to send why their sessions end.
func (l *panelLimits) forget(panel string) {
	u, ok := l.uses.LoadAndDelete(panel)
	if !ok {
		return
	}
	for _, memory := range []*budget.Account{u.(*panelUse).requests, u.(*panelUse).replies} { //nolint:forcetypeassert // nothing else is in it
		memory.Close()
		if memory.Held() > 0 {
			time.AfterFunc(2*endGrace, memory.Cut)
		}
	}
}

// limited returns for whom a caller's calls count: its panel or, without one, the site that it visits; "" for hosts.
func limited(id panels.Identity) string {
	if id.Panel == "" && id.Role == panels.RolePanel {
		return id.Owner
	}
	return id.Panel
}

// enter counts a call, until leave.
func (l *panelLimits) enter(c *call) (err error) {
	if l == nil || limited(c.id) == "" {
		return nil
	}
	c.counted, err = l.counter(c.id, c.method)
	return err
}

// leave ends what enter began.
func (l *panelLimits) leave(c *call) {
	if c.counted != nil {
		c.counted.Add(-1)
	}
}

// counter counts a call, and returns the counter.
func (l *panelLimits) counter(id panels.Identity, m *method.Method) (*atomic.Int64, error) {
	u := l.use(limited(id))
	switch m.Limit() {
	case ctxfsv1.Limit_LIMIT_SESSIONS:
		return l.count(&u.sessions, l.sessions, "sessions", tooMany)
	case ctxfsv1.Limit_LIMIT_WATCHES:
		return l.count(&u.watches, l.watches, "watches", tooMany)
	}
	if u.pace != nil && !u.pace.Allow() {
		l.rejected("operations_per_second")
		return nil, later(fmt.Sprintf("more than %d operations in a second", l.perSecond), time.Second)
	}
	return l.count(&u.inFlight, l.inFlight, "in_flight", func(string, int64) error {
		return later(fmt.Sprintf("more than %d operations at once", l.inFlight), 100*time.Millisecond)
	})
}

func (l *panelLimits) count(n *atomic.Int64, limit int64, name string, refusal func(name string, limit int64) error) (*atomic.Int64, error) {
	if n.Add(1) <= limit || limit <= 0 {
		return n, nil
	}
	n.Add(-1)
	l.rejected(name)
	return nil, refusal(name, limit)
}

// tooMany refuses a call that would last until its client ends it.
func tooMany(what string, limit int64) error {
	return &fserr.Error{Code: fserr.EMFILE, Detail: fmt.Sprintf("this panel has %d %s already", limit, what), Hint: "end those that are not needed"}
}

// later refuses a call that may be repeated soon.
func later(why string, after time.Duration) error {
	return fserrpb.WithCode(&fserr.Error{
		Code: fserr.EAGAIN, Detail: "this panel has asked for too much: " + why, Hint: fmt.Sprintf("retry in %s", after), RetryAfter: after,
	}, codes.ResourceExhausted)
}
