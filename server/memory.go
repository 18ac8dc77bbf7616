package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/cgroups"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
)

const (
	// streamWindow is how much of a request a client may send before the server asks for more, in bytes. Each call may hold as much
	// memory without being counted. gRPC's own windows grow to 16 MiB for each call.
	streamWindow = 64 << 10
	// connWindow is the same for all calls of a connection together; gRPC renews it at once, whether or not a call is read.
	connWindow = 1 << 20
	// A request is read in so many pieces, but of leastPiece bytes at least. A client may send it in frames of one byte, and each frame
	// takes the memory of sixty bytes, so a piece of many frames is copied.
	leastPiece, pieces = 4 << 10, 8
	// maxStrangerRequest bounds a request of an unknown caller, in bytes.
	maxStrangerRequest = 4 << 10
	// jsonCost is the memory of a reply in JSON, as a multiple of its size: entries of a directory take nine times theirs, content takes five.
	jsonCost = 8
	// receiveTime is how long a client may take to send the request of a call that has one.
	receiveTime = defaultDeadline
)

// connShares has the panels' shares of memory on one connection.
type connShares struct {
	mu     sync.Mutex
	closed bool
	shares map[*panelUse]session.Shares
	// cut ends the connection.
	cut func()
}

// of returns a panel's shares, of limit bytes each.
func (c *connShares) of(u *panelUse, limit int64) session.Shares {
	if c == nil {
		return session.Shares{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.shares[u]
	if !ok {
		if c.shares == nil {
			c.shares = map[*panelUse]session.Shares{}
		}
		c.forgetClosed()
		s = session.Shares{Requests: u.requests.Share(limit, c.end), Replies: u.replies.Share(limit, c.end)}
		c.shares[u] = s
		if c.closed {
			s.Requests.Close()
			s.Replies.Close()
		}
	}
	return s
}

// forgetClosed drops panels that were closed. c.mu is held.
func (c *connShares) forgetClosed() {
	for u, s := range c.shares {
		if s.Requests.IsOver() && s.Replies.IsOver() {
			s.Requests.Close()
			s.Replies.Close()
			delete(c.shares, u)
		}
	}
}

// close gives back the memory of all panels. The connection has ended.
func (c *connShares) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.shares {
		s.Requests.Close()
		s.Replies.Close()
	}
}

// end closes the connection if no other panel uses it.
func (c *connShares) end() {
	c.mu.Lock()
	alone := len(c.shares) == 1
	c.mu.Unlock()
	if alone && c.cut != nil {
		c.cut()
	}
}

// registrar registers unary methods as streams that serveUnary serves: gRPC would receive and inflate a request before its caller is
// known.
type registrar struct {
	*grpc.Server
	calls *interceptors
	// sessions gets the same services.
	sessions *session.Calls
	// rpcs gets the RPCs with one request.
	rpcs map[string]serveRPC
}

// serveRPC serves a call over another link than gRPC's.
type serveRPC func(stream grpc.ServerStream) error

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	r.sessions.RegisterService(desc, impl)
	d := *desc
	d.Methods, d.Streams = nil, append([]grpc.StreamDesc(nil), desc.Streams...)
	for _, m := range desc.Methods {
		method := "/" + desc.ServiceName + "/" + m.MethodName
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(srv any, stream grpc.ServerStream) error {
			return r.calls.serveUnary(method, m.Handler, srv, stream)
		}})
		r.rpcs[method] = func(stream grpc.ServerStream) error { return r.calls.serveUnary(method, m.Handler, impl, stream) }
	}
	for _, s := range desc.Streams {
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + s.StreamName, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams}
		if !s.ClientStreams {
			r.rpcs[info.FullMethod] = func(stream grpc.ServerStream) error { return r.calls.stream(impl, stream, info, s.Handler) }
		}
	}
	r.Server.RegisterService(&d, impl)
}

// receiver receives the messages of one call.
type receiver struct {
	calls  *interceptors
	stream transportStream
	// whole receives the request instead, unless it is nil.
	whole wholeRequest
	// limit is the largest message, in bytes.
	limit int
	// hold counts the message that was received last.
	hold *budget.Hold
	// until is when the wait for its memory ends.
	until time.Time
}

// transportStream is gRPC's transport stream of a call.
type transportStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
	WriteStatus(st *status.Status) error
}

// wholeRequest is the transport stream of a call whose request is no message of gRPC.
type wholeRequest interface {
	ReceiveRequest(ctx context.Context, m proto.Message, limit int, reserve func(bytes int64) error) (size int, err error)
}

// holds returns the holds of a call's request and reply. A reply over HTTP takes more memory than its size.
func (i *interceptors) holds(ctx context.Context, id panels.Identity) (request, reply *budget.Hold) {
	shares := i.shares(ctx, id)
	request, reply = shares.Requests.Hold(), shares.Replies.Hold()
	if _, ok := grpc.ServerTransportStreamFromContext(ctx).(wholeRequest); ok {
		reply.Times(jsonCost)
	}
	return request, reply
}

// receiver returns the receiver of a call. hold is nil when messages are not counted. It refuses compressed messages, since a small one
// may inflate to any size.
func (i *interceptors) receiver(ctx context.Context, c *call, hold *budget.Hold) (*receiver, error) {
	r := &receiver{calls: i, limit: i.maxRequest + maxOverhead, hold: hold}
	switch stream := grpc.ServerTransportStreamFromContext(ctx).(type) {
	case wholeRequest:
		r.whole = stream
	case transportStream:
		if how := stream.RecvCompress(); how != "" && how != "identity" {
			return nil, status.Errorf(codes.Unimplemented, "compressed messages (grpc-encoding: %.20q) are not accepted; send them as they are", how)
		}
		r.stream = stream
	default:
		return nil, &fserr.Error{Code: fserr.EIO, Detail: "gRPC's transport is not one that requests can be read from"}
	}
	switch {
	case c.id.Role == panels.RoleNone:
		r.limit = maxStrangerRequest
	case c.method.Limit() == ctxfsv1.Limit_LIMIT_SESSIONS:
		r.limit = session.MaxMessage
	}
	return r, nil
}

// receive receives one message into m. It returns io.EOF when there is none, else a status.
func (r *receiver) receive(ctx context.Context, m any) error {
	r.hold.Release()
	var header [5]byte
	if err := r.stream.ReadMessageHeader(header[:]); err != nil {
		return received(err)
	}
	n := int(uint32(header[1])<<24 | uint32(header[2])<<16 | uint32(header[3])<<8 | uint32(header[4]))
	switch {
	case header[0] != 0:
		return status.Error(codes.Internal, "a compressed message, though no compression was agreed")
	case n > r.limit:
		return r.tooLarge(n)
	}
	r.until = time.Now().Add(receiveTime)
	if n > streamWindow { // once for the message, and once for what it is decoded to
		if err := r.reserve(ctx, 2*int64(n)); err != nil {
			return err
		}
	}
	kept, err := r.take(ctx, n, m)
	if err != nil {
		return err
	}
	r.hold.Keep(kept)
	return nil
}

// reserve waits until n bytes are held, in all. What is held already counts while it waits.
func (r *receiver) reserve(ctx context.Context, n int64) error {
	ctx, cancel := context.WithDeadline(ctx, r.until)
	defer cancel()
	if err := r.hold.Reserve(ctx, n); err != nil {
		return budget.Refusal(err, "the request")
	}
	return nil
}

// take reads a message of n bytes into m, and returns the memory that both take, in bytes. A message of many small elements takes far more than it
// has bytes.
func (r *receiver) take(ctx context.Context, n int, m any) (kept int64, err error) {
	data, err := r.read(n)
	if err != nil {
		return 0, received(err)
	}
	defer data.Free()
	decodes, err := footprint(data, m)
	if err != nil {
		return 0, err
	}
	// Of what a message is decoded to, a stream's window is not counted: the encoding of a small one gives that back, and a large one counts twice.
	counted := int64(0)
	if n > streamWindow {
		counted = int64(n)
	}
	if decodes > counted+streamWindow {
		if err := r.reserve(ctx, int64(n)+decodes); err != nil {
			return 0, err
		}
	}
	return max(int64(n), decodes), r.decode(data, n, m)
}

// footprint is codec.Footprint of what a message is received into.
func footprint(data mem.BufferSlice, m any) (int64, error) {
	if in, ok := m.(*codec.Incoming); ok {
		m = in.Message
	}
	message, ok := m.(proto.Message)
	if !ok {
		return 0, nil
	}
	return codec.Footprint(data, message.ProtoReflect().Descriptor())
}

func (r *receiver) decode(data mem.BufferSlice, n int, m any) error {
	if whole, ok := m.(proto.Message); ok && n > streamWindow {
		return decoded(r.calls.codec.UnmarshalOwned(data.Materialize(), whole))
	}
	return decoded(r.calls.codec.Unmarshal(data, m))
}

// read reads n bytes, into buffers that are not much larger.
func (r *receiver) read(n int) (mem.BufferSlice, error) {
	var all mem.BufferSlice
	for left := n; left > 0; {
		part, err := r.stream.Read(min(left, max(n/pieces, leastPiece)))
		if err != nil {
			all.Free()
			return nil, err
		}
		left -= part.Len()
		if len(part) > 2+part.Len()/leastPiece {
			whole := mem.SliceBuffer(part.Materialize())
			part.Free()
			part = mem.BufferSlice{whole}
		}
		all = append(all, part...)
	}
	return all, nil
}

func decoded(err error) error {
	if err != nil {
		return status.Errorf(codes.Internal, "a request that is not the protobuf message of its method: %v", err)
	}
	return nil
}

// only receives the one message of a call that has one.
func (r *receiver) only(ctx context.Context, m any) error {
	if r.whole != nil {
		return r.request(ctx, m)
	}
	timer := time.AfterFunc(receiveTime+time.Second, func() { // later than a wait for memory, which returns an error of its own
		_ = r.stream.WriteStatus(status.New(codes.DeadlineExceeded, "the request did not come in "+receiveTime.String()))
	})
	defer timer.Stop()
	switch err := r.receive(ctx, m); {
	case errors.Is(err, io.EOF):
		return status.Error(codes.Internal, "the call has no request")
	case err != nil:
		return err
	}
	var header [1]byte
	switch err := r.stream.ReadMessageHeader(header[:]); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return received(err)
	}
	return status.Error(codes.Internal, "the call has more than one request")
}

// request receives a request that is no message of gRPC.
func (r *receiver) request(ctx context.Context, m any) error {
	message, err := asMessage(m)
	if err != nil {
		return err
	}
	r.until = time.Now().Add(receiveTime)
	n, err := r.whole.ReceiveRequest(ctx, message, r.limit, func(n int64) error {
		if n <= streamWindow {
			return nil
		}
		return r.reserve(ctx, n)
	})
	if large, ok := errors.AsType[*gateway.TooLargeError](err); ok {
		return r.tooLarge(large.Size)
	}
	if size := proto.Size(message); err == nil && size > r.limit {
		return r.tooLarge(size)
	}
	r.hold.Keep(int64(n))
	return err
}

// tooLarge refuses a request of n bytes.
func (r *receiver) tooLarge(n int) error {
	if r.limit == session.MaxMessage {
		return sessionTooLarge(n)
	}
	err := r.calls.tooLarge(n, r.limit)
	if r.whole != nil {
		err.Hint = "write content with PUT /v1/content?path=/a"
	}
	return err
}

// received returns the status of an error of the transport.
func received(err error) error {
	if _, ok := status.FromError(err); ok || errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, "the request ended within a message")
	}
	return fserrpb.ToStatus(err)
}

// sessionShares returns the shares of the session of ctx.
func (i *interceptors) sessionShares(ctx context.Context) session.Shares {
	return i.shares(ctx, panels.IdentityFrom(ctx))
}

// shares returns a panel's shares of memory on the connection of ctx. A host has none, and is not bounded.
func (i *interceptors) shares(ctx context.Context, id panels.Identity) session.Shares {
	if i.limits == nil || limited(id) == "" {
		return session.Shares{}
	}
	return connOf(ctx).shares.of(i.limits.use(limited(id)), i.limits.memoryPerConnection)
}

// defaultMemoryTotal returns a quarter of the memory that the process may use, at most 1 GiB; 256 MiB where that is not known.
func defaultMemoryTotal() int64 {
	const unknown, most, least = 256 << 20, 1 << 30, 32 << 20
	memory := min(ownMemory(), machineMemory())
	if memory == math.MaxInt64 {
		return unknown
	}
	return max(min(memory/4, most), least)
}

// LimitMemory makes the process collect its garbage in time if its control group has a limit, unless GOMEMLIMIT says when. An eighth of the limit is
// left for the memory that Go does not count.
func LimitMemory() {
	if limit := ownMemory(); os.Getenv("GOMEMLIMIT") == "" && limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 8 * 7)
	}
}

// ownMemory is cgroupMemory of this process.
func ownMemory() int64 {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxInt64 // a system without control groups
	}
	return cgroupMemory("/sys/fs/cgroup", string(groups))
}

// cgroupMemory returns the lowest limit of the control groups that /proc/self/cgroup names and of those above them, in bytes; math.MaxInt64 without
// one. mounted is where they are mounted. In a container its own group may be mounted there, whatever its name.
func cgroupMemory(mounted, groups string) int64 {
	lowest := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case strings.HasPrefix(line, "0::"):
			lowest = min(lowest, cgroups.Lowest(mounted, group, "memory.max"))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			lowest = min(lowest, cgroups.Lowest(filepath.Join(mounted, "memory"), group, "memory.limit_in_bytes"))
		}
	}
	return lowest
}

// machineMemory returns the machine's memory, in bytes; math.MaxInt64 where the system does not report it.
func machineMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 && kib > 0 {
			return kib << 10
		}
	}
	return math.MaxInt64
}

// asMessage returns a reply as a message.
func asMessage(resp any) (proto.Message, error) {
	m, ok := resp.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "a reply of type %T", resp)
	}
	return m, nil
}
