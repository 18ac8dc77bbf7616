package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/long"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// reads is how many reads were done.
func (r *running) reads(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(r.metricsText(t)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(name, "ctxfs_rpc_duration_seconds_count{") && strings.Contains(name, "FsService/Read") {
			more, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
	}
	return n
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestASlowReaderHoldsUpItselfOnly asks for 250 MiB and takes nothing for a while.
func TestASlowReaderHoldsUpItselfOnly(t *testing.T) {
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		const asked, length = 1000, 256 << 10
		r := start(t, sessionConfig(t))
		s := begin(t, addr(r), r.openPanel(t, "p").GetToken(), "")
		other := begin(t, addr(r), r.openPanel(t, "q").GetToken(), "")
		fd := s.file("/a")
		s.works(opWriteFile("/a", strings.Repeat("x", length)))
		before := heap()
		said := make(chan error, 1)
		go func() {
			for i := range asked {
				op := opRead(fd, 0, length)
				if i%2 == 0 { // those of one handle wait for each other, these do not
					op = &ctxfsv1.ReadFileRequest{Path: "/a"}
				}
				if err := s.say(sessiontest.Call(uint64(1000+i), op)); err != nil {
					said <- err
					return
				}
			}
			said <- nil
		}()
		done, still := 0, 0
		eventually(t, "no more is done", func() bool {
			was := done
			if done = r.reads(t); done == 0 || done != was {
				still = 0
			}
			still++
			return still > 20
		})
		hangs := time.AfterFunc(clocktest.Patience, other.cut)
		for range 100 {
			other.works(opStat("/"))
		}
		hangs.Stop()
		// 128 that wait to be answered, and what the system holds of their answers.
		if n := r.reads(t); n > 500 {
			t.Errorf("%d reads were done", n)
		}
		if grown := int64(heap()) - int64(before); grown > 128<<20 {
			t.Errorf("the heap grew by %d MiB", grown>>20)
		}
		answered := map[uint64]bool{}
		for len(answered) < asked {
			m := s.next()
			res := sessiontest.ResultOf(m)
			data := res.GetReadFile().GetData()
			if m.GetId()%2 != 0 {
				data = res.GetRead().GetData()
			}
			if n := len(data); n != length || answered[m.GetId()] {
				t.Fatalf("the reply to %d has %d bytes, error %v", m.GetId(), n, m.GetError())
			}
			answered[m.GetId()] = true
		}
		s.must(<-said)
		s.works(opStat("/"))
	})
}

// TestAClientThatNeverReadsIsCutOff asks for much by WebSocket, whose pings cannot reach it then.
func TestAClientThatNeverReadsIsCutOff(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Second
	r := start(t, cfg)
	s := beginWeb(t, r.Info().Addresses.HTTP, r.openPanel(t, "p").GetToken(), "")
	s.works(opWriteFile("/a", strings.Repeat("x", 256<<10)))
	go func() {
		for id := uint64(10); ; id++ {
			op := &ctxfsv1.ReadFileRequest{Path: "/a"}
			if s.say(sessiontest.Call(id, op)) != nil {
				return
			}
		}
	}()
	eventually(t, "the session has ended", func() bool { return r.sessions.Count() == 0 })
}

// TestASlowNetworkIsNoSilence has a client's answers to pings wait for all that it has to read before.
func TestASlowNetworkIsNoSilence(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = 3 * time.Second // a ping may take a third of it
	r := start(t, cfg)
	network := slowRelay(t, r.Info().Addresses.HTTP, 40*time.Millisecond)
	s := beginWeb(t, network.Addr().String(), r.openPanel(t, "p").GetToken(), "")
	s.works(opWriteFile("/a", strings.Repeat("x", 256<<10)))
	const asked = 24
	for range asked {
		s.ask(&ctxfsv1.ReadFileRequest{Path: "/a"})
	}
	for range asked {
		if m := s.next(); sessiontest.ResultOf(m).GetReadFile() == nil {
			t.Fatalf("got %v", m)
		}
	}
	s.works(opStat("/a"))
}

// TestManySessionsLeaveNothing opens and drops them, each with a handle and a watch.
func TestManySessionsLeaveNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		routines := 0
		for i := range long.Of(300, 1000) {
			s := begin(t, addr(r), token, "")
			s.file("/a")
			s.ask(opWatch("/"))
			s.cut()
			if i == 10 {
				r.wantIdle(t)
				routines = runtime.NumGoroutine()
			}
		}
		r.wantIdle(t)
		eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= routines+10 })
	})
}

// wantIdle waits until nothing is left of any session.
func (r *running) wantIdle(t *testing.T) {
	t.Helper()
	eventually(t, "no session, stream, handle or lease is left", func() bool {
		return r.sessions.Count() == 0 && r.streams.count() == 0 && r.parts.handles.Count() == 0 && r.parts.leases.Count() == 0
	})
}

// TestWebSocketOverTLS is silent for longer than a keepalive, since a read that timed out must not spoil the connection.
func TestWebSocketOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Second
	cfg.TLSCert, cfg.TLSKey = ca.files(t)
	r := start(t, cfg)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}}}
	t.Cleanup(client.CloseIdleConnections)
	pings := make(chan struct{}, 10)
	ws := dialWebWith(t, r.Info().Addresses.HTTP, &websocket.DialOptions{
		HTTPClient:     client,
		HTTPHeader:     http.Header{"Origin": {"https://" + r.Info().Addresses.HTTP}},
		OnPingReceived: func(context.Context, []byte) bool { pings <- struct{}{}; return true },
	})
	s := overWeb(t, ws).open("", r.openPanel(t, "p").GetToken())
	heard := make(chan error, 1)
	go func() {
		_, err := s.hear()
		heard <- err
	}()
	<-pings
	<-pings
	s.ask(opStat("/"))
	s.must(<-heard)
}
