package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// endsWithin is how soon a session ends, at the most, whose operations its server has cancelled.
const endsWithin = time.Second

// session is one Session stream. A caller queues its message; when no other caller is sending it sends what is queued, its own and
// others'. A caller that waits alone receives its reply itself; else the session's receiver receives, and delivers each reply to
// the caller that waits for it.
type session struct {
	link sessionLink
	// stop ends the link, and ended closes when that was called.
	stop       context.CancelFunc
	ended      <-chan struct{}
	maxContent int
	maxWatches int
	// slots bounds what is under way: beyond it the server would receive no cancel either.
	slots chan struct{}
	// over closes when the session has ended.
	over chan struct{}
	reading
	// free holds exchanges that are done with.
	free sync.Pool
	last atomic.Uint64
	// senders are goroutines that send what no caller may wait for.
	senders sync.WaitGroup

	mu      sync.Mutex
	pending map[uint64]*exchange
	queue   []outgoing
	// batch is what is being sent, and spare the room for the next queue.
	batch, spare []outgoing
	sending      bool
	// together is the sender's.
	together together
	// unanswered is the size of the pending requests.
	unanswered int
	watches    int
	// why is a gRPC status, set when the session ends.
	why error
}

// exchange is a request and what came back. It belongs to its caller, but for the fields that mu guards.
type exchange struct {
	// method and args are those of a call; args is nil of a control request.
	method string
	args   proto.Message
	// size is that of args, encoded, and cached in it.
	size    int
	control ctxfsv1.SessionRequest
	id      uint64
	// encoded is the request as it travels.
	encoded []byte
	reply   chan reply
	// small has room for a small reply.
	small []byte
	// watch takes what comes in parts; nil for all but watches.
	watch *sessionWatch
	// queued, guarded by mu, says that it is not being sent yet.
	queued bool
}

// reply is a response, encoded, or an error.
type reply struct {
	data []byte
	err  error
}

// outgoing is a message to send; x is nil when nothing comes back.
type outgoing struct {
	id      uint64
	x       *exchange
	request []byte
}

func newSession(link sessionLink, ready *ctxfsv1.SessionReady, ended <-chan struct{}, stop context.CancelFunc) *session {
	return &session{
		link: link, stop: stop, ended: ended, reading: newReading(link), maxContent: int(ready.GetMaxContent()), maxWatches: int(ready.GetMaxWatches()),
		slots: make(chan struct{}, max(1, ready.GetMaxInFlight())), over: make(chan struct{}), pending: map[uint64]*exchange{},
		free: sync.Pool{New: func() any { return &exchange{reply: make(chan reply, 1)} }},
	}
}

// call calls an RPC whose request is of that size, and decodes the response into out. Errors: a *brokenError, ctx's, the server's.
func (s *session) call(ctx context.Context, method string, args proto.Message, size int, out proto.Message) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	x := s.newExchange(method, args, size)
	r, done := s.exchange(ctx, x)
	if r.err == nil {
		r.err = decode(r.data, out)
	}
	if done {
		s.reuse(x)
	}
	return r.err
}

func (s *session) newExchange(method string, args proto.Message, size int) *exchange {
	x, _ := s.free.Get().(*exchange)
	x.method, x.args, x.size = method, args, size
	return x
}

// reuse takes back an exchange that is done. What holds much is left to the garbage collector.
func (s *session) reuse(x *exchange) {
	if len(x.encoded) < largeRequest {
		x.args = nil
		s.free.Put(x)
	}
}

// acquire waits until one more operation may be under way.
func (s *session) acquire(ctx context.Context) error {
	if ctx.Done() != nil && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if s.tryAcquire() {
		return nil
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-s.over:
		return &brokenError{why: s.reason()}
	}
}

// tryAcquire takes a slot if one is free.
func (s *session) tryAcquire() bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// exchange sends a request and waits for its reply. done says that no other goroutine uses x any more.
func (s *session) exchange(ctx context.Context, x *exchange) (r reply, done bool) {
	if err := s.begin(ctx, x); err != nil {
		return reply{err: err}, false
	}
	return s.await(ctx, x)
}

// await waits for the reply to a request.
func (s *session) await(ctx context.Context, x *exchange) (r reply, done bool) {
	if s.mayLead(x) {
		s.lead(ctx, x)
	}
	if ctx.Done() == nil {
		return <-x.reply, true
	}
	select {
	case r := <-x.reply:
		return r, true
	case <-ctx.Done():
	}
	if s.abandon(x) {
		return reply{err: status.FromContextError(ctx.Err()).Err()}, false
	}
	return <-x.reply, true
}

// begin sends a request, or has it sent.
func (s *session) begin(ctx context.Context, x *exchange) error {
	if err := s.number(x); err != nil {
		return err
	}
	s.mu.Lock()
	if s.why != nil {
		defer s.mu.Unlock()
		s.release(x)
		return &brokenError{why: s.why}
	}
	s.enter(x)
	s.push(outgoing{id: x.id, x: x, request: x.encoded}, ctx.Done() == nil)
	return nil
}

// number gives a request that has its slot its number and its form on the wire.
func (s *session) number(x *exchange) (err error) {
	x.id = s.last.Add(1)
	if x.args != nil {
		x.encoded, err = appendCall(x.encoded[:0], x)
	} else {
		x.control.Id = x.id
		x.encoded, err = proto.Marshal(&x.control)
	}
	if err != nil {
		s.release(x)
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// enter makes a request known that is about to be queued. The caller holds mu.
func (s *session) enter(x *exchange) {
	s.pending[x.id] = x
	x.queued = true
	s.unanswered += len(x.encoded)
	if len(s.pending) > 1 || x.watch != nil {
		s.receiverReads()
	}
}

// fail answers a call by the session's end. The caller holds mu.
func (s *session) fail(x *exchange, sent bool) {
	why := s.why
	if why == nil {
		why = status.Error(codes.Unavailable, "the session ended")
	}
	s.forget(x)
	s.deliver(x, reply{err: &brokenError{why: why, sent: sent}})
}

// forget takes an exchange out of what is pending. The caller holds mu.
func (s *session) forget(x *exchange) {
	delete(s.pending, x.id)
	s.unanswered -= len(x.encoded)
	if x.watch != nil {
		s.watches--
	}
}

// deliver hands the last reply over and frees the slot.
func (s *session) deliver(x *exchange, r reply) {
	s.release(x)
	if x.watch != nil {
		x.watch.finish(r.err)
		return
	}
	x.reply <- r
}

func (s *session) release(x *exchange) {
	if x.args != nil {
		<-s.slots
	}
}

// refresh gives the session a further token.
func (s *session) refresh(ctx context.Context, token string) error {
	x := &exchange{reply: make(chan reply, 1)}
	x.control.Request = &ctxfsv1.SessionRequest_RefreshToken{RefreshToken: &ctxfsv1.SessionRefreshToken{Token: token}}
	r, _ := s.exchange(ctx, x)
	return r.err
}

// end fails the pending calls, and waits for the senders. A call whose message waits fails as not sent. The sender settles those
// that are being sent.
func (s *session) end(why error) {
	s.stop()
	s.mu.Lock()
	s.why = why
	close(s.over)
	s.queue = s.queue[:0]
	for _, x := range s.pending {
		if x.queued || !slices.ContainsFunc(s.batch, func(o outgoing) bool { return o.id == x.id }) {
			s.fail(x, !x.queued)
		}
	}
	s.mu.Unlock()
	s.senders.Wait()
}

// orEnd returns the error of a call that failed with err. A server that ends a session cancels the calls under way, and may answer
// them before it reports the reason: then the reason is the error.
func (s *session) orEnd(ctx context.Context, err error) error {
	var broken *brokenError
	if errors.As(err, &broken) || fserr.CodeOf(err) != fserr.ECANCELED || ctx.Err() != nil {
		return err
	}
	timer := time.NewTimer(endsWithin)
	defer timer.Stop()
	select {
	case <-s.over:
		return &brokenError{why: s.reason(), sent: true}
	case <-ctx.Done():
	case <-timer.C:
	}
	return err
}

// reason is why the session ended.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}
