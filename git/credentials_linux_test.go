package git_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ctxfs/ctxfs/git"
)

// Every user of the machine can read /proc/PID/cmdline, so that no program that git starts may have the password there. The server looks whenever
// it is asked, while git waits.
func TestUserAndPasswordAreOnNoCommandLine(t *testing.T) {
	t.Parallel()
	const user, password = "user-unseen", `pw-unseen '"$(exit)` + "`@%:/"
	p := newPushing(t)
	var requests, seen atomic.Int32
	server := p.remote.ServePrivate(user, password, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			for _, line := range commandLines(t) {
				if strings.Contains(line, "unseen") {
					seen.Add(1)
					t.Errorf("a command line has the credentials: %q", line)
				}
			}
			next.ServeHTTP(out, r)
		})
	})
	raw := strings.Replace(server.URL, "://", "://"+url.UserPassword(user, password).String()+"@", 1) + "/team/tools.git"
	a, reader := parse(t, raw), p.reader
	steps := map[string]func() error{
		"push": func() error { return p.push(a, p.first) },
		"ask":  func() error { _, err := p.bare.RemoteRef(t.Context(), a, mainRef); return err },
		"fetch": func() error {
			return p.bare.Fetch(t.Context(), a, mainRef, p.first)
		},
		"pull": func() error {
			commit, err := reader.ResolveRemote(t.Context(), a, "tools", "main")
			if err != nil {
				return err
			}
			f, err := reader.Fetch(t.Context(), a, commit, 1<<20)
			if err != nil {
				return err
			}
			return f.Close()
		},
		"template": func() error { _, _, err := p.read(reader.Remote(raw, "tools"), "main"); return err },
	}
	for _, name := range []string{"push", "ask", "fetch", "pull", "template"} {
		before := requests.Load()
		if err := steps[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if requests.Load() == before {
			t.Errorf("%s did not ask the server", name)
		}
	}
	if p.at(mainRef) != p.staged {
		t.Error("the push did not arrive")
	}
}

// commandLines returns those of all processes.
func commandLines(t *testing.T) (lines []string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Errorf("no command lines: %v", err)
	}
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil { // others have ended meanwhile
			lines = append(lines, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return lines
}

// The operator's configuration does not decide what becomes of a password that an address has.
func TestPasswordOfAnAddressIsForItsHostAlone(t *testing.T) {
	p := newPushing(t)
	var elsewhere atomic.Int32
	other := p.remote.ServePrivate("user", "s3cret", func(http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			elsewhere.Add(1)
			http.Error(out, "elsewhere", http.StatusNotFound)
		})
	})
	server := p.remote.ServePrivate("user", "s3cret", nil)
	told := filepath.Join(p.State, "told")
	config := filepath.Join(p.State, "gitconfig")
	must(t, os.WriteFile(config, []byte("[credential]\n\thelper = \"!f() { cat >>'"+told+"'; }; f\"\n[url \""+other.URL+"/\"]\n\tinsteadOf = "+server.URL+"/\n"), 0o600))
	t.Setenv("HOME", p.State)
	t.Setenv("XDG_CONFIG_HOME", p.State)
	must(t, os.Rename(config, filepath.Join(p.State, ".gitconfig")))
	must(t, p.push(p.address(server.URL), p.first))
	if elsewhere.Load() > 0 {
		t.Error("the push was sent elsewhere")
	}
	if data, err := os.ReadFile(told); err == nil {
		t.Errorf("the operator's helper was told %q", data)
	}
	// A user alone is passed to the operator's helper.
	a := parse(t, strings.Replace(server.URL, "://", "://user@", 1)+"/team/tools.git")
	_, err := p.bare.RemoteRef(t.Context(), a, mainRef)
	wantKind(t, err, git.ErrAuth)
	if data, err := os.ReadFile(told); err != nil || !strings.Contains(string(data), "username=user\n") {
		t.Errorf("the operator's helper was told %q (%v), want the user", data, err)
	}
}
