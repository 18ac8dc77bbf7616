package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// audits reads the lines of an audit log, each without what differs between runs.
func audits(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var e auditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if e.Time.IsZero() || e.RequestID == "" || e.Peer == "" {
			t.Errorf("incomplete: %s", lines.Text())
		}
		line := strings.Join([]string{e.Role, e.Panel, e.Context, e.Op, e.Path, e.Dest, e.Name, e.Result}, "|")
		if e.Bytes > 0 {
			line += fmt.Sprintf("|%d", e.Bytes)
		}
		out = append(out, line)
	}
	if bytes.Contains(data, []byte("secret content")) {
		t.Error("the audit log has content")
	}
	return out
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	p := r.openPanel(t, "p")
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(p.GetToken()))
	secret := &ctxfsv1.WriteFileRequest_Data{Data: []byte("secret content")}
	ok := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/a", Content: secret}))
	ok(fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/a"}))
	ok(fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/made", FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: "a+"}}))
	ok(fs.Rename(ctx, &ctxfsv1.RenameRequest{Path: "/a", RawDest: []byte("/b\xff")}))
	ok(fs.Symlink(ctx, &ctxfsv1.SymlinkRequest{Path: "/l", Target: "b"}))
	ok(fs.Mkdtemp(ctx, &ctxfsv1.MkdtempRequest{Prefix: "/d-"}))
	if _, err := fs.Unlink(ctx, &ctxfsv1.UnlinkRequest{Path: "/none"}); err == nil {
		t.Error("what is not there was removed")
	}
	if _, err := fs.Unlink(with(t, "authorization", "Bearer no"), &ctxfsv1.UnlinkRequest{Path: "/none"}); err == nil {
		t.Error("a bad token was taken")
	}
	read, err := fs.Open(ctx, &ctxfsv1.OpenRequest{RawPath: []byte("/b\xff")})
	ok(read, err)
	opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{Path: "/h", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}})
	ok(opened, err)
	ok(fs.Write(ctx, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Data{Data: []byte("secret content")}}))
	ok(fs.Close(ctx, &ctxfsv1.CloseRequest{Fd: opened.GetFd()}))
	stream, err := fs.WriteStream(ctx)
	ok(stream, err)
	ok(nil, stream.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: "/s"}}}))
	ok(nil, stream.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: []byte("secret content")}}))
	ok(stream.CloseAndRecv())
	imported, err := fs.Import(ctx)
	ok(imported, err)
	ok(nil, imported.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{Path: "/i"}}}))
	ok(nil, imported.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: tarOfFile(t, "secret", "secret content")}}))
	ok(imported.CloseAndRecv())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.Info().Addresses.HTTP+"/v1/content?path=/put", strings.NewReader("secret content"))
	ok(req, err)
	req.Header.Set("Authorization", bearerOf(p.GetToken()))
	resp, err := http.DefaultClient.Do(req)
	ok(resp, err)
	ok(nil, resp.Body.Close())
	cs := ctxfsv1.NewContextServiceClient(r.host(t))
	ok(cs.ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{}))
	ok(cs.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_p", Name: "s"}))
	ok(cs.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: "ctx_p", NewPanelId: "q"}))

	want := []string{
		"host|||OpenPanel|||p|ok",
		"panel|p|ctx_p|WriteFile|/a|||ok|14",
		"panel|p|ctx_p|ReadFile|/made|||ok",
		`panel|p|ctx_p|Rename|/a|/b\xff||ok`,
		"panel|p|ctx_p|Symlink|/l|b||ok",
		"panel|p|ctx_p|Mkdtemp|/d-|||ok",
		"panel|p|ctx_p|Unlink|/none|||ENOENT",
		"none|||Unlink||||EACCES", // its request was not received
		"panel|p|ctx_p|Open|/h|||ok",
		"panel|p|ctx_p|Write|/h|||ok|14",
		"panel|p|ctx_p|WriteStream|/s|||ok|14",
		"panel|p|ctx_p|Import|/i|||ok|14",
		"panel|p|ctx_p|WriteStream|/put|||ok|14",
		"host||ctx_p|Snapshot|||s|ok",
		"host||ctx_p|Fork|||q|ok",
	}
	got := audits(t, cfg.AuditLog)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("too much: %s", got[i])
		case got[i] != want[i]:
			t.Errorf("line %d is %s, want %s", i, got[i], want[i])
		}
	}
}

func TestAnAuditLogThatFailsIsTold(t *testing.T) {
	t.Parallel()
	file, err := openRotated(filepath.Join(t.TempDir(), "audit"), 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	m := newMetrics("1")
	a := &auditLog{file: file, metrics: m, log: zap.NewNop(), strangers: rate.NewLimiter(1, 1)}
	a.record(&call{method: method.Of(ctxfsv1.FsService_Rm_FullMethodName)}, &ctxfsv1.RmRequest{Path: "/a"}, nil, nil, 0, "", "")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ctxfs_audit_errors_total" && f.GetMetric()[0].GetCounter().GetValue() == 1 {
			return
		}
	}
	t.Error("the line that was lost is not counted")
}

// TestStrangersDoNotPushOthersOut has somebody without a token try until the log would be full of it.
func TestStrangersDoNotPushOthersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the limit is one of time
		path := filepath.Join(t.TempDir(), "audit")
		s := &Server{cfg: Config{AuditLog: path, AuditMaxSize: 1 << 20, AuditKeep: 1}, metrics: newMetrics("1"), log: zap.NewNop()}
		a, err := s.openAudit()
		must(t, err)
		try := func(as panels.Role, code error) {
			a.record(&call{method: method.Of(ctxfsv1.FsService_Unlink_FullMethodName), start: time.Now(), id: panels.Identity{Role: as}}, &ctxfsv1.UnlinkRequest{}, nil, code, 0, "peer", "id")
		}
		refused := fserrpb.ToStatus(&fserr.Error{Code: fserr.EACCES})
		want := 10 * strangerLines
		for range 3 * want {
			try(panels.RoleNone, refused)
		}
		time.Sleep(2 * time.Second)
		want += 2 * strangerLines
		for range want {
			try(panels.RoleNone, refused)
		}
		try(panels.RoleHost, nil)
		must(t, a.file.Close())
		got := audits(t, path)
		if n := len(got); n != want+1 || got[0] != "none|||Unlink||||EACCES" || got[n-1] != "host|||Unlink||||ok" {
			t.Errorf("%d lines from %s to %s, want %d", n, got[0], got[n-1], want+1)
		}
	})
}
