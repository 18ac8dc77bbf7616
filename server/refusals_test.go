package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// reasonsIn returns the constants of type Reason that a package's source has.
func reasonsIn(t *testing.T, file string) (out []string) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if kind, isName := specType(spec, ok).(*ast.Ident); !isName || kind.Name != "Reason" {
			return true
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value) //nolint:forcetypeassert // reasons are literals
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return true
	})
	if len(out) < 5 {
		t.Fatalf("%s has the reasons %v", file, out)
	}
	return out
}

func specType(spec *ast.ValueSpec, ok bool) ast.Expr {
	if !ok {
		return nil
	}
	return spec.Type
}

// TestEveryReasonTravels compares the reasons that the packages refuse with to those that have a gRPC code.
func TestEveryReasonTravels(t *testing.T) {
	t.Parallel()
	given := []string{"EXEC_UNAVAILABLE"}
	for _, file := range []string{"../review/errors.go", "../repos/errors.go"} {
		given = append(given, reasonsIn(t, filepath.FromSlash(file))...)
	}
	known := fserrpb.Reasons()
	for _, reason := range given {
		if known[reason].Code == codes.OK || known[reason].Text == "" {
			t.Errorf("%s has no code or text in fserrpb", reason)
		}
	}
	for reason := range known {
		if !slices.Contains(given, reason) {
			t.Errorf("no package refuses with %s", reason)
		}
	}
}

// TestRefusalsAreCountedByTheirReason refuses calls, and looks for the reason wherever an operator does.
func TestRefusalsAreCountedByTheirReason(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit")
	h := newHouse(t, cfg)
	id := h.reviewed().GetContextId()
	shell(t, h.folder(id), "sed -i 's/line 3/panel/' app/src/main.go; echo x > app/other; echo x > loose; mkdir -p x/.git; echo h > x/.git/HEAD")
	shell(t, h.in("app"), "sed -i 's/line 3/user/' src/main.go")
	change := func(path string) string { return `"selection":{"changes":{"changes":[{"path":"` + path + `"}]}}` }
	commit := `,"approve":true,"target":"APPLY_TARGET_COMMIT","commit":{"message":"m","authorName":"a","authorEmail":"a@example.com"}}`
	for _, c := range []struct {
		reason, rpc, body string
		status            int
	}{
		{"CONFLICT", "ReviewService/Apply", `{"contextId":"` + id + `","approve":true,` + change("/app/src/main.go") + `}`, 409},
		{"STALE_REVISION", "ReviewService/Decide", `{"contextId":"` + id + `","ifRevision":"r_0","decision":"DECISION_APPROVED",` + change("/app/other") + `}`, 409},
		{"NOT_APPROVED", "ReviewService/Apply", `{"contextId":"` + id + `",` + change("/app/other") + `}`, 400},
		{"BARRED_PATH", "ReviewService/Apply", `{"contextId":"` + id + `","approve":true,` + change("/x/.git/HEAD") + `}`, 403},
		{"NO_REPOSITORY", "ReviewService/Apply", `{"contextId":"` + id + `",` + change("/loose") + commit, 400},
		{"GIT_NO_REPOSITORY", "GitService/Stage", `{"contextId":"` + id + `","repo":"/none","message":"m"}`, 404},
		{"GIT_NO_STAGED", "GitService/DiscardStaged", `{"id":"none"}`, 404},
	} {
		for by, a := range askBy(t, h.r, readToken(t, h.r)) {
			resp := a.rpc(c.rpc, c.body)
			if body := answered(t, resp); resp.StatusCode != c.status || resp.Header.Get("Ctxfs-Error") != c.reason {
				t.Errorf("%s by %s: %d, %s: %.400s; want %d", c.reason, by, resp.StatusCode, resp.Header.Get("Ctxfs-Error"), body, c.status)
			}
		}
		name := c.rpc[strings.Index(c.rpc, "/")+1:]
		if got := h.r.metricsText(t); !strings.Contains(got, `ctxfs_errors_total{errno="`+c.reason+`",method="/ctxfs.v1.`+c.rpc+`"} 3`) {
			t.Errorf("/metrics does not count %s: %v", c.reason, regexp.MustCompile(`(?m)^ctxfs_errors_total.*$`).FindAllString(got, -1))
		}
		if last := audits(t, cfg.AuditLog); !strings.Contains(last[len(last)-1], "|"+name+"|") || !strings.HasSuffix(last[len(last)-1], "|"+c.reason) {
			t.Errorf("the audit log has %s for %s", last[len(last)-1], c.reason)
		}
	}
	alert := regexp.MustCompile(`ctxfs_errors_total\{errno(=~?)"([^"]*)"\}`).FindStringSubmatch(readDeploy(t, "alerts.yaml"))
	if alert == nil || alert[1] != "=" || alert[2] != "EIO" || strings.Contains(h.r.metricsText(t), `errno="EIO"`) {
		t.Errorf("the alert about the disk, %v, fires", alert)
	}
}

// TestRefusalsListTheirFiles refuses a selection of many files, of a context that has them in a zone or not.
func TestRefusalsListTheirFiles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	id := h.reviewed().GetContextId()
	shell(t, h.folder(id), "mkdir many; for i in $(seq 1000); do echo x > many/some-file-$i; done")
	_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
		ContextId: id, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{{Path: "/many"}}}}},
	})
	wantError(t, err, codes.FailedPrecondition, "NOT_APPROVED", "of 1000 files, and ListChanges lists them all")
	files := fserrpb.FilesOf(err)
	if n := len(files.GetFiles()); n < 100 || n == 1000 || files.GetFileCount() != 1000 || files.GetListedBy() != "ReviewService/ListChanges" || !strings.HasPrefix(files.GetFiles()[0].GetPath(), "/many/some-file-") {
		t.Errorf("the error has %d files of %d, listed by %q", n, files.GetFileCount(), files.GetListedBy())
	}
}
