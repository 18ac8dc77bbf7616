package fsservice_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// stalling is a root on whose file /slow every look takes until release is closed.
type stalling struct {
	rootfs.Root
	entered, release chan struct{}
}

func (s stalling) Stat(path string) (rootfs.Stat, error) {
	if path == "/slow" {
		s.stall()
	}
	return s.Root.Stat(path)
}

func (s stalling) Lookups() rootfs.Lookups { return stallingLookups{s.Root.Lookups(), s} }

type stallingLookups struct {
	rootfs.Lookups
	s stalling
}

func (l stallingLookups) Stat(path string) (rootfs.Stat, error) {
	if path == "/slow" {
		l.s.stall()
	}
	return l.Lookups.Stat(path)
}

func (s stalling) stall() {
	select {
	case s.entered <- struct{}{}:
		<-s.release
	case <-s.release:
	}
}

func (s stalling) OpenFile(path string, flags rootfs.Flags, mode uint32) (rootfs.File, error) {
	f, err := s.Root.OpenFile(path, flags, mode)
	if path == "/slow" && err == nil {
		f = stallingFile{f, s}
	}
	return f, err
}

type stallingFile struct {
	rootfs.File
	s stalling
}

func (f stallingFile) Stat() (rootfs.Stat, error) {
	f.s.stall()
	return f.File.Stat()
}

func newStallingWorld(t *testing.T) (*world, stalling) {
	t.Helper()
	w := newWorld(t)
	w.put("slow", "text")
	s := stalling{w.gate.roots["ctx_a"], make(chan struct{}), make(chan struct{})}
	w.gate.roots["ctx_a"] = s
	return w, s
}

// send sends operations in one message and returns the id of the first.
func (t *talk) send(ops ...proto.Message) (first uint64) {
	t.Helper()
	var m *ctxfsv1.SessionRequest
	for _, op := range ops {
		t.id++
		r := sessiontest.Call(t.id, op)
		if m == nil {
			m, first = r, t.id
		} else {
			m.Also = append(m.Also, r)
		}
	}
	t.must(t.stream.Send(m))
	return first
}

// TestSessionGoesOnWhileOneStalls has operations that should be short last: the others,
// those that came with it too, do not wait.
func TestSessionGoesOnWhileOneStalls(t *testing.T) {
	t.Parallel()
	w, slow := newStallingWorld(t)
	s := w.session("a", "")
	s.works(opStat("/"))
	stuck := s.send(opStat("/slow"), opStat("/"), opStat("/slow"), opStat("/"))
	<-slow.entered
	if m := s.recv(); m.GetId() != stuck+1 || m.GetError() != nil {
		t.Errorf("want the reply to %d, got %v", stuck+1, m)
	}
	<-slow.entered
	if m := s.recv(); m.GetId() != stuck+3 || m.GetError() != nil {
		t.Errorf("want the reply to %d, got %v", stuck+3, m)
	}
	s.works(opStat("/"))
	s.cancel(stuck) // it has nothing that could be cancelled
	close(slow.release)
	for range 2 {
		if m := s.recv(); m.GetError() != nil || (m.GetId() != stuck && m.GetId() != stuck+2) {
			t.Errorf("want the replies to %d and %d, got %v", stuck, stuck+2, m)
		}
	}
	s.works(opStat("/slow"))
}

// TestSessionStalledHandle keeps the order of a handle behind an operation that stalls.
func TestSessionStalledHandle(t *testing.T) {
	t.Parallel()
	w, slow := newStallingWorld(t)
	s := w.session("a", "")
	fd := s.works(opOpen("/slow", "r", false)).GetOpen().GetFd()
	stat := s.send(&ctxfsv1.FstatRequest{Fd: fd}, opClose(fd, false), opStat("/"))
	<-slow.entered
	if m := s.recv(); m.GetId() != stat+2 {
		t.Errorf("want the reply to %d, got %v", stat+2, m)
	}
	close(slow.release)
	for _, want := range []uint64{stat, stat + 1} {
		if m := s.recv(); m.GetId() != want || m.GetError() != nil {
			t.Errorf("want the reply to %d, got %v", want, m)
		}
	}
}

// TestSessionEndsWhileOneStalls waits for what stalls, and leaves nothing behind.
func TestSessionEndsWhileOneStalls(t *testing.T) {
	t.Parallel()
	w, slow := newStallingWorld(t)
	s := w.session("a", "one")
	s.works(opStat("/"))
	s.ask(opStat("/slow"))
	<-slow.entered
	s.cut()
	close(slow.release)
	if name := <-w.gone; name != "one" {
		t.Errorf("the instance %q is gone", name)
	}
}

// TestSessionRepliesTogether asks until the replies came as one message: an operation that
// takes longer than the server's patience has its own.
func TestSessionRepliesTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.begin("a", &ctxfsv1.SessionOpen{Batches: true})
	s.works(opStat("/"))
	for range 1000 {
		first := s.send(opStat("/"), opStat("/"), opStat("/absent"))
		m := s.recv()
		n := 1 + len(m.GetAlso())
		if n == 3 {
			if m.GetId() != first || m.GetAlso()[0].GetId() != first+1 || m.GetAlso()[0].GetError() != nil || m.GetAlso()[1].GetError().GetReason() != "ENOENT" {
				t.Errorf("want the replies in order, got %v", m)
			}
			return
		}
		for n < 3 {
			n += 1 + len(s.recv().GetAlso())
		}
	}
	t.Error("no three replies came together")
}

// TestSessionAtMostTogether is about the edge of what may come as one message.
func TestSessionAtMostTogether(t *testing.T) {
	t.Parallel()
	ops := make([]proto.Message, 129)
	for i := range ops {
		ops[i] = opStat("/")
	}
	s := newWorld(t).session("a", "")
	s.send(ops[:128]...)
	for range 128 {
		if m := s.recv(); m.GetError() != nil {
			t.Fatal(m)
		}
	}
	s.send(ops...)
	s.ends(codes.InvalidArgument, "129 requests came together, the limit is 128")
}
