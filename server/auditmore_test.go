package server

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestTheAuditLogHasNoContent writes a secret by the RPCs that TestAuditLog does not, and by a session's operations: what succeeds
// and what fails, as bytes and as text.
func TestTheAuditLogHasNoContent(t *testing.T) {
	t.Parallel()
	const secret = "secret content"
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		cfg := sessionConfig(t)
		cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
		r := start(t, cfg)
		token := r.openPanel(t, "p").GetToken()
		fs := ctxfsv1.NewFsServiceClient(r.host(t))
		ctx, s := with(t, "authorization", bearerOf(token)), begin(t, addr(r), token, "")
		fd := s.file("/h")
		appendFile := &ctxfsv1.AppendFileRequest{Path: "/a", Content: &ctxfsv1.AppendFileRequest_Text{Text: secret}}
		writev := &ctxfsv1.WritevRequest{Fd: fd, Buffers: [][]byte{[]byte(secret), []byte(secret)}}
		if _, err := fs.AppendFile(ctx, appendFile); err != nil {
			t.Fatal(err)
		}
		if _, err := fs.Writev(ctx, writev); err != nil {
			t.Fatal(err)
		}
		s.works(opWriteFile("/s", secret))
		s.works(appendFile)
		s.works(opWrite(fd, secret))
		s.works(writev)
		for _, op := range []proto.Message{opWriteFile("/none/s", secret), opWrite(99, secret)} {
			if _, err := s.do(op); err == nil {
				t.Errorf("%v was done", op)
			}
		}
		want := []string{
			"host|||OpenPanel|||p|ok",
			"panel|p|ctx_p|Open|/h|||ok",
			"panel|p|ctx_p|AppendFile|/a|||ok|14",
			"panel|p|ctx_p|Writev|/h|||ok|28",
			"panel|p|ctx_p|WriteFile|/s|||ok|14",
			"panel|p|ctx_p|AppendFile|/a|||ok|14",
			"panel|p|ctx_p|Write|/h|||ok|14",
			"panel|p|ctx_p|Writev|/h|||ok|28",
			"panel|p|ctx_p|WriteFile|/none/s|||ENOENT",
			"panel|p|ctx_p|Write||||EBADF",
		}
		if got := audits(t, cfg.AuditLog); !slices.Equal(got, want) {
			t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		data, err := os.ReadFile(cfg.AuditLog)
		if err != nil {
			t.Fatal(err)
		}
		if encoded := base64.StdEncoding.EncodeToString([]byte(secret))[:16]; strings.Contains(string(data), encoded) {
			t.Error("the audit log has content in base64")
		}
	})
}

// TestTheAuditLogIsRotated makes a running server write more than it is to keep.
func TestTheAuditLogIsRotated(t *testing.T) {
	t.Parallel()
	const calls, keep, maxSize = 200, 2, 4 << 10
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	if err := cfg.AuditMaxSize.Set("4KiB"); err != nil {
		t.Fatal(err)
	}
	cfg.AuditKeep = keep
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	for i := range calls {
		if _, err := fs.Mkdir(ctx, &ctxfsv1.MkdirRequest{Path: fmt.Sprintf("/d%03d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(cfg.AuditLog + "*")
	if err != nil || len(names) != keep+1 {
		t.Fatalf("there are %q, %v, want the log and %d older ones", names, err, keep)
	}
	var got []string
	for _, name := range []string{cfg.AuditLog + ".2", cfg.AuditLog + ".1", cfg.AuditLog} {
		if st, err := os.Stat(name); err != nil || st.Size() > maxSize || st.Size() == 0 || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(name), st, err)
		}
		got = append(got, audits(t, name)...)
	}
	first := calls - len(got)
	if first <= 0 || first > calls-keep*10 {
		t.Fatalf("%d lines are kept", len(got))
	}
	for i, line := range got {
		if want := fmt.Sprintf("panel|p|ctx_p|Mkdir|/d%03d|||ok", first+i); line != want {
			t.Fatalf("line %d is %s, want %s", i, line, want)
		}
	}
}

// TestStepsOfALineAreBounded records a batch with many long paths, as a caller may send it: its line does not push out many others.
func TestStepsOfALineAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ steps, length, most int }{"many": {1000, 1, 100}, "long": {1000, 4000, 10}, "few": {3, 10, 3}} {
		var steps []*ctxfsv1.BatchStep
		for range c.steps {
			steps = append(steps, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rename{Rename: &ctxfsv1.RenameRequest{
				Path: strings.Repeat("a", c.length), Dest: strings.Repeat("b", c.length),
			}}})
		}
		out := auditedSteps(steps)
		if size := len(strings.Join(out, "")); size > 20<<10 || len(out) > c.most+1 {
			t.Errorf("%s: %d steps with %d bytes", name, len(out), size)
		}
		if last := out[len(out)-1]; c.steps > c.most && !strings.HasSuffix(last, fmt.Sprintf("and %d more", c.steps-len(out)+1)) {
			t.Errorf("%s: ends with %q after %d", name, last, len(out))
		}
	}
}
