package server

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func metricsConfig(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.HTTP, cfg.Listen = "127.0.0.1:0", []string{"127.0.0.1:0"}
	return cfg
}

func tokenIn(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// status of a GET at the HTTP address.
func (r *running) status(t *testing.T, path, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Info().Addresses.HTTP+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", bearerOf(token))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestMetricsTokenReadsMetricsOnly(t *testing.T) {
	t.Parallel()
	r := start(t, metricsConfig(t))
	path := filepath.Join(r.claim.layout.State, "metrics.token")
	token := tokenIn(t, path)
	if st, err := os.Stat(path); err != nil || tooOpen(st, 0) || !strings.HasPrefix(token, metricsTokenPrefix) {
		t.Errorf("%s: %v, %v", path, st.Mode(), err)
	}
	if got := r.status(t, "/metrics", token); got != http.StatusOK {
		t.Errorf("/metrics: %d", got)
	}
	for _, path := range []string{"/v1/content?path=/a&context_id=ctx_a", "/v1/session"} {
		if got := r.status(t, path, token); got == http.StatusOK || got == http.StatusSwitchingProtocols {
			t.Errorf("%s: %d", path, got)
		}
	}
	for _, target := range []string{r.Info().Addresses.Target(), r.Info().Addresses.TCP[0]} {
		_, err := ctxfsv1.NewContextServiceClient(dial(t, target, nil)).ListContexts(with(t, "authorization", bearerOf(token)), &ctxfsv1.ListContextsRequest{})
		wantError(t, err, codes.Unauthenticated, "EACCES", "token")
	}
}

func TestMetricsTokenFile(t *testing.T) {
	t.Parallel()
	cfg := metricsConfig(t)
	cfg.MetricsTokenFile = filepath.Join(t.TempDir(), "token")
	r := start(t, cfg)
	first := tokenIn(t, cfg.MetricsTokenFile)
	if got := r.status(t, "/metrics", first); got != http.StatusOK {
		t.Errorf("with a token that the server created: %d", got)
	}
	r.stop()
	_ = r.wait()
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		refused       string
	}{
		{"the group may read it", strings.Repeat("m", 40), 0o640, ""},
		{"others may read it", strings.Repeat("m", 40), 0o644, "is open to others"},
		{"the group may write it", strings.Repeat("m", 40), 0o660, "is open to others"},
		{"it is short", "short", 0o600, "damaged"},
	} {
		if err := os.WriteFile(cfg.MetricsTokenFile, []byte(c.content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(cfg.MetricsTokenFile, c.mode); err != nil {
			t.Fatal(err)
		}
		s, err := New(context.Background(), cfg, Deps{Version: "1.2.3"})
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !s.auth.metrics.matches(c.content) || s.auth.metrics.matches(first) {
			t.Errorf("%s: its token is not taken", c.name)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = s.Serve(ctx)
	}
}

func TestNoMetricsTokenWithoutMetrics(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	r := start(t, cfg)
	if _, err := os.Stat(filepath.Join(r.claim.layout.State, "metrics.token")); !os.IsNotExist(err) {
		t.Errorf("a token was created: %v", err)
	}
	if r.auth.metrics.matches("") {
		t.Error("the empty token matches")
	}
}
