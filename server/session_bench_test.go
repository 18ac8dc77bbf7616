package server

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
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

func (l *benchLink) Send(m *ctxfsv1.SessionResponse) error {
	if m.GetReady() != nil {
		return nil
	}
	if m.GetError() != nil {
		l.b.Error(m.GetError())
	}
	l.answered <- struct{}{}
	return nil
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
	ctx := panels.WithIdentity(b.Context(), panels.Identity{Role: panels.RolePanel, Panel: "p", Context: "ctx_p", Owner: "p"})
	content := []byte(strings.Repeat("y", 4096))
	for name, op := range map[string]*ctxfsv1.Operation{
		"stat":        {Request: &ctxfsv1.Operation_Stat{Stat: &ctxfsv1.StatRequest{Path: "/f"}}},
		"stat-absent": {Request: &ctxfsv1.Operation_Exists{Exists: &ctxfsv1.ExistsRequest{Path: "/g"}}},
		"read-4k":     {Request: &ctxfsv1.Operation_ReadFile{ReadFile: &ctxfsv1.ReadFileRequest{Path: "/f"}}},
		"overwrite-4k": {Request: &ctxfsv1.Operation_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
			Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: content},
		}}},
		"list-handles": {Request: &ctxfsv1.Operation_ListHandles{ListHandles: &ctxfsv1.ListHandlesRequest{}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			first := &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}}
			link := &benchLink{b: b, answered: make(chan struct{}, 32), request: func(id uint64) *ctxfsv1.SessionRequest {
				return &ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Operation{Operation: op}}
			}}
			if err := s.fs.ServeSession(ctx, first, link, "session"); err != nil {
				b.Fatal(err)
			}
		})
	}
}
