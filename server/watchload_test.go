package server

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/long"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestUnreadWatchesTakeBoundedMemory opens 1,000 watches of one panel, reads none of them, and makes up to 12,000 events, or 60,000.
func TestUnreadWatchesTakeBoundedMemory(t *testing.T) {
	const (
		watches   = 1000
		maxGrowth = 64 << 20 // 8 MiB in queues, the rest is with the transport and in growing slices
	)
	for name, c := range map[string]struct {
		files int // each is created, changed twice and removed: four events
		watch func(t *testing.T, r *running, token string, n int) (end func())
	}{
		"streams": {long.Of(3_000, 15_000), watchByStreams},
		"sessions over gRPC": {long.Of(600, 2_000), func(t *testing.T, r *running, token string, n int) func() {
			return watchBySessions(t, n, func() *talk { return beginGRPC(t, r.Info().Addresses.TCP[0], token, "") })
		}},
		"sessions over WebSocket": {long.Of(600, 2_000), func(t *testing.T, r *running, token string, n int) func() {
			return watchBySessions(t, n, func() *talk { return beginWeb(t, r.Info().Addresses.HTTP, token, "") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, sessionConfig(t))
			other := beginWeb(t, r.Info().Addresses.HTTP, r.openPanel(t, "other").GetToken(), "")
			token := r.openPanel(t, "p").GetToken()
			dir := filepath.Join(r.Info().ContextsDir, "ctx_p", "sub")
			other.must(os.Mkdir(dir, 0o755))
			base := heap()
			end := c.watch(t, r, token, watches)
			before := heap()
			for i := range c.files {
				name := filepath.Join(dir, fmt.Sprintf("file%06d", i))
				other.must(os.WriteFile(name, []byte("x"), 0o600))
				other.must(os.Remove(name))
				if i%1000 == 0 {
					other.works(opStat("/"))
				}
			}
			after := heap()
			t.Logf("%d MiB, with the watches %d, after the events %d", base>>20, before>>20, after>>20)
			if after > before+maxGrowth {
				t.Errorf("the events take %d MiB", (after-before)>>20)
			}
			end()
			// The transport of one connection, the last that ended, may stay in memory with its unsent messages until another one
			// ends: 16 messages of 1 KiB for each watch. More of them do not add up.
			eventually(t, "the memory returns", func() bool { return heap() < base+watches*16<<10+16<<20 })
		})
	}
}

// watchByStreams opens n watches as calls of one connection, which it reads no further than that they are ready.
func watchByStreams(t *testing.T, r *running, token string, n int) (end func()) {
	c := dialFrames(t, r.Info().Addresses.TCP[0])
	request, err := proto.Marshal(&ctxfsv1.WatchRequest{Path: "/", Recursive: true})
	c.must(err)
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...)
	for i := range n {
		id := uint32(2*i + 1)
		c.headers(id, false, ctxfsv1.FsService_Watch_FullMethodName, "authorization", bearerOf(token))
		c.must(c.framer.WriteData(id, true, message))
	}
	c.awaitMessages(n)
	return func() { c.must(c.conn.Close()) }
}

// watchBySessions opens n watches in as many sessions as they need.
func watchBySessions(t *testing.T, n int, begin func() *talk) (end func()) {
	var sessions []*talk
	for i := range n {
		if i%64 == 0 {
			sessions = append(sessions, begin())
		}
		s := sessions[len(sessions)-1]
		s.ask(&ctxfsv1.WatchRequest{Path: "/", Recursive: true})
		if m := s.next(); sessiontest.ResultOf(m).GetWatch().GetReady() == nil {
			t.Fatalf("want ready, got %v", m)
		}
	}
	return func() {
		for _, s := range sessions {
			s.cut()
		}
	}
}

// TestOverflowsAreCounted has a watch report that events were lost: its client reads nothing while 20,000 files are made.
func TestOverflowsAreCounted(t *testing.T) {
	r := start(t, testConfig(t))
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	w, err := fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := w.Recv(); err != nil || m.GetReady() == nil {
		t.Fatalf("the first message is %v, %v", m, err)
	}
	for i := range 20_000 {
		write(t, filepath.Join(r.folder("ctx_p"), fmt.Sprint("f", i)), "")
	}
	for {
		m, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetOverflow() != nil {
			break
		}
	}
	if n := r.fs.WatchOverflows(); n != 1 {
		t.Errorf("%d overflows are counted, want 1", n)
	}
}
