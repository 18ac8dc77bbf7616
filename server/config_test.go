package server

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func load(t *testing.T, args, environ []string, yaml string) (Config, Origins, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := ""
	if yaml != "" {
		path = write(t, filepath.Join(t.TempDir(), "ctxfs.yml"), yaml)
	}
	return LoadConfig(fs, environ, path)
}

func TestConfigPrecedence(t *testing.T) {
	t.Parallel()
	cfg, origins, err := load(t,
		[]string{"--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2", "--disk-reserve=2GiB"},
		[]string{"CTXFS_LISTEN=127.0.0.1:3", "CTXFS_IDLE_TIMEOUT=1m", "CTXFS_SEED_EXCLUDE=*.log, build/", "CTXFS_ALLOW_CHOWN=true", "CTXFS_TOKEN=x"},
		"idle_timeout: 2m\ntoken_ttl: 1h\nseed_max_bytes: 10MiB\nhandles_per_panel: 7\nworkspace: /w\nhttp: localhost:9\n")
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Listen, want.DiskReserve = []string{"127.0.0.1:1", "127.0.0.1:2"}, 2<<30
	want.IdleTimeout, want.SeedExclude, want.AllowChown = time.Minute, []string{"*.log", "build/"}, true
	want.TokenTTL, want.SeedMaxBytes, want.HandlesPerPanel, want.Workspace, want.HTTP = time.Hour, 10<<20, 7, "/w", "localhost:9"
	if d := cmp.Diff(want, cfg); d != "" {
		t.Error(d)
	}
	for key, origin := range map[string]string{
		"listen": "flag --listen", "idle_timeout": "env CTXFS_IDLE_TIMEOUT", "log_level": "default",
	} {
		if origins[key] != origin {
			t.Errorf("%s comes from %q, want %q", key, origins[key], origin)
		}
	}
	if !strings.HasPrefix(origins["token_ttl"], "file /") || len(cfg.Settings(origins)) != len(configKeys()) {
		t.Errorf("token_ttl comes from %q", origins["token_ttl"])
	}
}

func TestSettingsTellNoPassword(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.GitBase = "https://user:secret@example.com/git"
	for _, s := range cfg.Settings(Origins{}) {
		if s.Key == "git_base" && s.Value != "https://user:xxxxx@example.com/git" {
			t.Errorf("told as %v", s.Value)
		}
	}
	if cfg.GitBase != "https://user:secret@example.com/git" {
		t.Error("the setting itself was changed")
	}
}

func TestEverySettingHasAFlag(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(fs)
	n := 0
	fs.VisitAll(func(*pflag.Flag) { n++ })
	for _, key := range configKeys() {
		if fs.Lookup(flagOf(key)) == nil {
			t.Errorf("%s has no flag", key)
		}
	}
	if n != len(configKeys()) {
		t.Errorf("%d flags for %d settings", n, len(configKeys()))
	}
	cfg, _, err := LoadConfig(nil, nil, "")
	if err != nil || !cmp.Equal(cfg, DefaultConfig()) {
		t.Errorf("nothing said: %s, %v", cmp.Diff(DefaultConfig(), cfg), err)
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		yaml    string
		words   []string
	}{
		{name: "unknown key", yaml: "idle_timout: 5m\n", words: []string{"ctxfs.yml", "idle_timout", "idle_timeout"}},
		{name: "no YAML", yaml: "a: [", words: []string{"ctxfs.yml"}},
		{name: "value in the file", yaml: "idle_timeout: soon\n", words: []string{"ctxfs.yml", "idle_timeout", "soon"}},
		{name: "value in the environment", environ: []string{"CTXFS_DISK_RESERVE=-1"}, words: []string{"env CTXFS_DISK_RESERVE", "-1", "512MiB"}},
		{name: "NaN", environ: []string{"CTXFS_DISK_RESERVE=nan"}, words: []string{"512MiB"}},
		{name: "choice", args: []string{"--host-auth=maybe"}, words: []string{"flag --host-auth", "peer, token"}},
		{name: "zero", args: []string{"--idle-timeout=0s"}, words: []string{"more than zero"}},
		{name: "open to the network", args: []string{"--listen=0.0.0.0:7420"}, words: []string{"flag --listen", "--tls-cert", "127.0.0.1"}},
		{name: "every interface", args: []string{"--http=:7420"}, words: []string{"flag --http", "--tls-cert"}},
		{name: "no port", args: []string{"--listen=localhost"}, words: []string{"127.0.0.1:7420"}},
		{name: "half a certificate", args: []string{"--tls-cert=x"}, words: []string{"tls_key"}},
		{name: "git without time", environ: []string{"CTXFS_GIT_FETCH_TIMEOUT=0s"}, words: []string{"env CTXFS_GIT_FETCH_TIMEOUT", "more than zero"}},
		{name: "git base", yaml: "git_base: ext::sh\n", words: []string{"ctxfs.yml", "git_base", "https://host/path"}},
		{name: "git remote", yaml: "git_remote: [\"ext::sh\"]\n", words: []string{"ctxfs.yml", "git_remote", "prefix 1"}},
		{name: "git remote with a password", yaml: "git_remote: [\"https://user:pw@example.com\"]\n", words: []string{"git_remote", "has a password"}},
		{name: "small requests", args: []string{"--max-request=512KiB"}, words: []string{"flag --max-request", "512KiB", "1MiB and 64MiB"}},
		{name: "little memory", args: []string{"--memory-total=1MiB"}, words: []string{"flag --memory-total", "1MiB", "16MiB"}},
		{name: "memory below nothing", yaml: "memory_per_panel: -1\n", words: []string{"ctxfs.yml", "memory_per_panel"}},
		{name: "client CA alone", args: []string{"--client-ca=x"}, words: []string{"client_ca", "tls_cert"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := load(t, c.args, c.environ, c.yaml)
			var bad *ConfigError
			if !errors.As(err, &bad) || exitCode(err) != ExitUsage {
				t.Fatalf("got %v", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	if _, _, err := LoadConfig(nil, nil, "/nowhere/ctxfs.yml"); err == nil || !strings.Contains(err.Error(), "/nowhere/ctxfs.yml") {
		t.Errorf("missing file: %v", err)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{"0": 0, "1000": 1000, "1KiB": 1024, "1.5M": 3 << 19, "5 GiB": 5 << 30, "2tb": 2 << 40} {
		var s, back Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q: %d, %v", text, s, err)
		}
		if err := back.Set(s.String()); err != nil || back != s {
			t.Errorf("%q became %q", text, s)
		}
	}
}
