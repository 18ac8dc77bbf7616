package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// benchLink is a session's link without a transport: it asks the same thing until the benchmark is over.
type benchLink struct {
	b       *testing.B
	request func(id uint64) *ctxfsv1.SessionRequest
	asked   uint64
	// answered has room for the replies to what is under way.
	answered chan struct{}
	ahead    int
	// encoded is the reply sent last.
	encoded []byte
}

func (l *benchLink) Recv() (*ctxfsv1.SessionRequest, error) {
	if l.ahead == cap(l.answered) {
		<-l.answered
		l.ahead--
	}
	if !l.b.Loop() {
		return nil, io.EOF
	}
	l.asked++
	l.ahead++
	return l.request(l.asked), nil
}

func (l *benchLink) Send(m *ctxfsv1.SessionResponse, h *budget.Hold) error {
	h.Release()
	if m.GetReady() != nil || m.GetMore() {
		return nil
	}
	if m.GetError() != nil {
		l.b.Error(m.GetError())
	}
	var err error
	if l.encoded, err = (proto.MarshalOptions{}).MarshalAppend(l.encoded[:0], m); err != nil {
		return err
	}
	l.answered <- struct{}{}
	return nil
}

// fillFolder makes a folder of n files.
func fillFolder(b *testing.B, dir string, n int, content string) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("entry-%04d.txt", i)), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSession is what an operation costs the server beside its transport.
func BenchmarkSession(b *testing.B) {
	cfg := DefaultConfig()
	cfg.Workspace, cfg.DiskReserve = b.TempDir(), 0
	s, err := New(b.Context(), cfg, Deps{Log: zap.NewNop(), Version: "1.2.3"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.parts.panels.Open(b.Context(), panels.OpenRequest{PanelID: "p"}, nil); err != nil {
		b.Fatal(err)
	}
	folder := s.claim.layout.Folder(contexts.ID("ctx_p"))
	if err := os.WriteFile(filepath.Join(folder, "f"), []byte(strings.Repeat("x", 4096)), 0o600); err != nil {
		b.Fatal(err)
	}
	fillFolder(b, filepath.Join(folder, "list"), 1000, "x")
	needle := "quetzalcoatlus"
	for i := range 10 {
		fillFolder(b, filepath.Join(folder, "grep", strconv.Itoa(i)), 50, strings.Repeat("func step(in []byte) (out int)\n", 4096/31))
	}
	ctx := panels.WithIdentity(b.Context(), panels.Identity{Role: panels.RolePanel, Panel: "p", Context: "ctx_p", Owner: "p"})
	ctx = peer.NewContext(ctx, &peer.Peer{AuthInfo: &connInfo{shares: &connShares{}}})
	content := []byte(strings.Repeat("y", 4096))
	for name, op := range map[string]proto.Message{
		"stat":        &ctxfsv1.StatRequest{Path: "/f"},
		"stat-absent": &ctxfsv1.ExistsRequest{Path: "/g"},
		"read-4k":     &ctxfsv1.ReadFileRequest{Path: "/f"},
		"overwrite-4k": &ctxfsv1.WriteFileRequest{
			Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: content},
		},
		"readdir-1000": &ctxfsv1.ReaddirRequest{
			Path: "/list", WithFileTypes: true, WithStats: true,
		},
		"grep-500":     &ctxfsv1.GrepRequest{Path: "/grep", Pattern: needle, FixedStrings: true},
		"list-handles": &ctxfsv1.ListHandlesRequest{},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			first := &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}}
			link := &benchLink{b: b, answered: make(chan struct{}, 32), request: func(id uint64) *ctxfsv1.SessionRequest {
				return sessiontest.Call(id, op)
			}}
			if err := s.sessions.Serve(ctx, first, link, "session"); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkUnary is what a call costs over a unix socket, client and server together.
func BenchmarkUnary(b *testing.B) {
	cfg := DefaultConfig()
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg.Workspace, cfg.DiskReserve = dir, 0
	s, err := New(b.Context(), cfg, Deps{Log: zap.NewNop(), Version: "1.2.3"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	cc, err := grpc.NewClient(s.Info().Addresses.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	fs := ctxfsv1.NewFsServiceClient(cc)
	ctx = metadata.AppendToOutgoingContext(ctx, panelKey, "p")
	content := []byte(strings.Repeat("x", 1<<20))
	if _, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: content}}); err != nil {
		b.Fatal(err)
	}
	fail := func(b *testing.B, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("stat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := fs.Stat(ctx, &ctxfsv1.StatRequest{Path: "/f"})
			fail(b, err)
		}
	})
	b.Run("read-1M", func(b *testing.B) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			_, err := fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/f"})
			fail(b, err)
		}
	})
	b.Run("write-1M", func(b *testing.B) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: content}})
			fail(b, err)
		}
	})
	b.Run("stream-64M", func(b *testing.B) {
		b.SetBytes(64 << 20)
		for b.Loop() {
			w, err := fs.WriteStream(ctx)
			fail(b, err)
			fail(b, w.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: "/f"}}}))
			for range 256 {
				fail(b, w.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: content[:256<<10]}}))
			}
			_, err = w.CloseAndRecv()
			fail(b, err)
		}
	})
}
