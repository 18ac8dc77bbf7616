package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/contexts"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCollectionsComeAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var runs, skipped []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			atIntervals(ctx, time.Hour, 5*time.Minute, func() {
				runs = append(runs, time.Since(begun))
				if len(runs) == 2 { // longer than two intervals
					time.Sleep(130 * time.Minute)
				}
			}, func() { skipped = append(skipped, time.Since(begun)) })
		}()
		time.Sleep(6 * time.Hour)
		cancel()
		<-done
		minutes := func(list ...int) (out []time.Duration) {
			for _, m := range list {
				out = append(out, time.Duration(m)*time.Minute)
			}
			return out
		}
		if want := minutes(65, 125, 305); !slices.Equal(runs, want) {
			t.Errorf("collected at %v, want %v", runs, want)
		}
		if want := minutes(255, 255); !slices.Equal(skipped, want) {
			t.Errorf("skipped at %v, want %v", skipped, want)
		}
	})
}

// setClock gives the server a clock that the test sets forward.
func (h *house) setClock() (pass func(time.Duration)) {
	var passed atomic.Int64
	h.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	return func(d time.Duration) { passed.Add(int64(d)) }
}

// verdicts returns what a collection decided: the rule of a context that it removed, and the reasons of one that it kept.
func (h *house) verdicts(req *ctxfsv1.CollectGarbageRequest) map[string]string {
	h.t.Helper()
	resp, err := h.contexts().CollectGarbage(h.t.Context(), req)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range resp.GetFailures() {
		h.t.Errorf("not removed: %v", f)
	}
	out := map[string]string{}
	for _, v := range resp.GetContexts() {
		if v.GetRemoved() {
			out[v.GetContextId()] = strings.TrimPrefix(v.GetRule().String(), "CONTEXT_RULE_")
			continue
		}
		var reasons []string
		for _, k := range v.GetKept() {
			reasons = append(reasons, strings.TrimPrefix(k.GetReason().String(), "KEEP_REASON_"))
		}
		out[v.GetContextId()] = strings.Join(reasons, " ")
	}
	return out
}

// TestEachUseKeepsAContext has a context for each thing that keeps one. With a real server, each shows in the verdicts, and ends when the thing ends.
func TestEachUseKeepsAContext(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Pool = 0 // filling it would hold up a collection
	cfg.AuditLog, cfg.Gateway = filepath.Join(t.TempDir(), "audit"), "127.0.0.1:0"
	h := newHouse(t, cfg)
	pass := h.setClock()
	h.serve()
	ctx := t.Context()
	names := []string{"free", "session", "handle", "submitted", "decided", "staged", "site", "changed", "withdrawn", "rejected"}
	tokens := map[string]string{}
	for _, name := range names {
		tokens[name] = h.open(&ctxfsv1.OpenPanelRequest{PanelId: name}).GetToken()
	}
	for _, name := range []string{"submitted", "decided", "staged", "changed", "withdrawn", "rejected"} {
		h.edit("ctx_" + name)
	}
	for _, id := range []string{"ctx_submitted", "ctx_withdrawn"} {
		_, err := h.reviews().SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{ContextId: id, Title: "t"})
		must(t, err)
	}
	_, err := h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: "ctx_rejected", Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_REJECTED})
	must(t, err)
	for _, id := range []string{"ctx_withdrawn", "ctx_rejected"} { // a program takes back what was submitted, or rejected
		shell(t, filepath.Join(h.r.Info().ContextsDir, id, "app"), "rm run")
	}
	_, err = h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: "ctx_decided", Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_APPROVED})
	must(t, err)
	staged := h.mustStage(ctx, &ctxfsv1.StageRequest{ContextId: "ctx_staged", Repo: "app", Message: "m", Author: "a <a@example.com>"})
	sites := ctxfsv1.NewGatewayServiceClient(h.cc)
	site, err := sites.OpenSite(ctx, &ctxfsv1.OpenSiteRequest{ContextId: "ctx_site"})
	must(t, err)
	fs := ctxfsv1.NewFsServiceClient(h.cc)
	opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{ContextId: "ctx_handle", Path: "/app/app.txt"})
	must(t, err)
	session, end := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", bearerOf(tokens["session"]))))
	defer end()
	hold, err := fs.Hold(session, &ctxfsv1.HoldRequest{ClientInstance: "i"})
	must(t, err)
	_, err = hold.Recv()
	must(t, err)

	pass(2 * time.Hour)
	idle := &ctxfsv1.CollectGarbageRequest{DryRun: true, ContextIdleSeconds: 3600}
	want := map[string]string{
		"ctx_free": "REQUEST", "ctx_session": "SESSION", "ctx_handle": "HANDLE", "ctx_submitted": "SUBMITTED", "ctx_decided": "DECISIONS", "ctx_staged": "STAGED", "ctx_site": "SITE", "ctx_changed": "CHANGES",
		"ctx_withdrawn": "REQUEST", "ctx_rejected": "REQUEST",
	}
	check := func(what string, req *ctxfsv1.CollectGarbageRequest) {
		t.Helper()
		if got := h.verdicts(req); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("dry run", idle)
	idle.DiscardChanges, want["ctx_changed"] = true, "REQUEST"
	check("dry run with discard_changes", idle)
	idle.DiscardChanges, want["ctx_changed"] = false, "CHANGES"
	idle.DryRun = false
	check("collection", idle)
	for _, id := range []string{"ctx_free", "ctx_withdrawn", "ctx_rejected"} {
		delete(want, id)
	}
	h.audited(cfg.AuditLog, "ctx_free", "host", "request")

	// Each thing ends, but for the session's and the handle's, which a forced collection removes all the same.
	_, err = h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: "ctx_submitted", Approve: true, Selection: selectAll})
	must(t, err)
	_, err = h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: "ctx_decided", Selection: selectAll})
	must(t, err)
	_, err = h.gitService().DiscardStaged(ctx, &ctxfsv1.DiscardStagedRequest{Id: staged.GetId()})
	must(t, err)
	_, err = sites.CloseSite(ctx, &ctxfsv1.CloseSiteRequest{SiteId: site.GetSite().GetSiteId()})
	must(t, err)
	pass(2 * time.Hour)
	ended := []string{"ctx_submitted", "ctx_decided", "ctx_staged", "ctx_site"}
	for _, id := range ended {
		want[id] = "REQUEST"
	}
	want["ctx_decided"], want["ctx_staged"] = "CHANGES", "CHANGES"
	check("after each thing has ended", idle)
	delete(want, "ctx_submitted")
	delete(want, "ctx_site")
	want["ctx_session"], want["ctx_handle"] = "REQUEST", "REQUEST"
	idle.Force = true
	check("forced", idle)
	delete(want, "ctx_session")
	delete(want, "ctx_handle")
	idle.DiscardChanges = true
	for id := range want {
		want[id] = "REQUEST"
	}
	check("with discard_changes", idle)
	if _, err := fs.Fstat(ctx, &ctxfsv1.FstatRequest{Fd: opened.GetFd()}); err == nil {
		t.Error("a file of a removed context can be read")
	}
	if _, err := hold.Recv(); err == nil || err == io.EOF { //nolint:errorlint // gRPC returns it as it is
		t.Errorf("the client's stream ended with %v, want an error", err)
	}
}

// audited checks that the audit log has a line about a removed context.
func (h *house) audited(file, context, role, rule string) {
	h.t.Helper()
	data, err := os.ReadFile(file)
	must(h.t, err)
	for line := range strings.Lines(string(data)) {
		var e auditEntry
		must(h.t, json.Unmarshal([]byte(line), &e))
		if e.Op == "CollectGarbage" && e.Context == context {
			if e.Role != role || e.Name != rule || e.Result != "ok" || e.Bytes <= 0 {
				h.t.Errorf("the audit log has %s", line)
			}
			return
		}
	}
	h.t.Errorf("the audit log has no line about %s:\n%s", context, data)
}

// TestServerRulesRemoveContexts runs one timed collection with each of the server's rules. A label keeps ctx_kept.
func TestServerRulesRemoveContexts(t *testing.T) {
	t.Parallel()
	for rule, set := range map[contexts.Rule]func(*Config){
		contexts.RuleTTL:      func(c *Config) { c.ContextTTL = time.Hour },
		contexts.RuleIdleTTL:  func(c *Config) { c.ContextIdleTTL = time.Hour },
		contexts.RuleMaxBytes: func(c *Config) { c.ContextsMaxBytes = 1 },
	} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			cfg.Pool = 0 // filling it would hold up a collection
			cfg.AuditLog, cfg.GCInterval, cfg.GCLabel = filepath.Join(t.TempDir(), "audit"), time.Hour, []string{"!keep"}
			set(&cfg)
			h := newHouse(t, cfg)
			pass := h.setClock()
			h.serve()
			for id, set := range map[string]map[string]string{"ctx_a": nil, "ctx_b": nil, "ctx_kept": {"keep": ""}} {
				stream, err := h.contexts().EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{ContextId: id, Labels: set})
				for err == nil {
					_, err = stream.Recv()
				}
			}
			pass(2 * time.Hour)
			h.open(&ctxfsv1.OpenPanelRequest{PanelId: "b"})
			marker := recoveredMarker(h.r.claim.layout)
			must(t, markRecovered(h.r.claim.layout))
			h.r.collector.timed(t.Context())
			list, err := h.contexts().ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{})
			if err != nil || len(list.GetContexts()) != 3 {
				t.Errorf("after the records were rebuilt, a timed collection left %v, %v", list.GetContexts(), err)
			}
			before := time.Now().Add(-settleTime)
			must(t, os.Chtimes(marker, before, before))
			h.r.collector.timed(t.Context())
			list, err = h.contexts().ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{})
			must(t, err)
			var left []string
			for _, c := range list.GetContexts() {
				left = append(left, c.GetContextId())
			}
			if !slices.Equal(left, []string{"ctx_b", "ctx_kept"}) {
				t.Errorf("left are %v", list.GetContexts())
			}
			h.audited(cfg.AuditLog, "ctx_a", roleServer, string(rule))
			counts := gathered(t, h.r.Server)
			for name, want := range map[string]float64{
				"ctxfs_gc_runs_total timed ok": 1, "ctxfs_gc_runs_total timed skipped": 1, "ctxfs_gc_removed_total context": 1, "ctxfs_gc_duration_seconds": 1,
			} {
				if counts[name] != want {
					t.Errorf("%s is %v, want %v", name, counts[name], want)
				}
			}
			if counts["ctxfs_gc_removed_bytes_total context"] <= 0 {
				t.Error("no bytes were counted")
			}
		})
	}
}

// gathered returns the counts of a server's metrics, by name and labels' values in the order of the labels' declaration.
func gathered(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			words := []string{f.GetName()}
			values := map[string]string{}
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			for _, name := range []string{"trigger", "kind", "reason", "result"} {
				if v, ok := values[name]; ok {
					words = append(words, v)
				}
			}
			out[strings.Join(words, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// hanging are commands of which no answer comes.
type hanging struct{ commands }

// Running implements commands.
func (hanging) Running(ctx context.Context) (map[contexts.ID]int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestARunnerThatDoesNotAnswerEndsTheCollection: callers of a context wait while the collector looks at what holds it.
func TestARunnerThatDoesNotAnswerEndsTheCollection(t *testing.T) {
	t.Parallel()
	c := &collector{&Server{parts: &parts{commands: hanging{}}}, time.Millisecond}
	if _, err := c.look(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the look ended with %v", err)
	}
}
