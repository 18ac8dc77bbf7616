package command_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestContextsOfAnotherUser has root use a workspace in which another user has made the contexts directory or the state, and put links and
// FIFOs there. Nothing outside is read or changed, and no command waits.
func TestContextsOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	const foreign = "belongs to uid 1000, not to you (uid 0), so it is not believed unless --trust-dir or CTXFS_TRUST_DIR names"
	for _, where := range []string{"contexts", "state", "all"} {
		for _, args := range [][]string{{"serve"}, {"doctor"}, {"doctor", "--repair"}, {"run", "--", "true"}} {
			t.Run(where+"/"+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				ws := t.TempDir()
				contexts := filepath.Join(ws, ".contexts")
				state := filepath.Join(contexts, ".ctxfs")
				secret := filepath.Join(t.TempDir(), "passwd")
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				must(os.WriteFile(secret, []byte("root:SECRET"), 0o600))
				must(os.MkdirAll(filepath.Join(state, "locks"), 0o700))
				must(unix.Mkfifo(filepath.Join(state, "FORMAT"), 0o600))
				must(unix.Mkfifo(filepath.Join(state, "server.json"), 0o600))
				for _, name := range []string{"server.log", "host.token", "ctxfs.db", "locks/server.lock"} {
					must(os.Symlink(secret, filepath.Join(state, name)))
				}
				for _, dir := range map[string][]string{"contexts": {contexts}, "state": {state}, "all": {ws, contexts, state}}[where] {
					must(os.Chown(dir, 1000, 1000))
				}
				code, out, errs, err := run(t, os.Environ(), slices.Concat(args[:1], []string{"--workspace", ws, "--disk-reserve", "0"}, args[1:])...)
				if text := out + errs + err.Error(); code == 0 || !strings.Contains(text, foreign) || strings.Contains(text, "SECRET") {
					t.Errorf("exit %d: %s", code, text)
				}
				if data, err := os.ReadFile(secret); err != nil || string(data) != "root:SECRET" {
					t.Errorf("the file outside: %q, %v", data, err)
				}
			})
		}
	}
}

// TestRootServesAnothersWorkspace serves a workspace of another user with state of root's, and with state that was named as trusted.
func TestRootServesAnothersWorkspace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	ws := t.TempDir()
	if err := os.Chown(ws, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	once := func(environ ...string) (int, error) {
		code, _, _, err := run(t, append(os.Environ(), environ...), "run", "--workspace", ws, "--disk-reserve", "0", "--", "true")
		return code, err
	}
	if code, err := once(); code != 0 {
		t.Errorf("with state of root: exit %d, %v", code, err)
	}
	contexts := filepath.Join(ws, ".contexts")
	if err := os.Chown(filepath.Join(contexts, ".ctxfs"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if code, _ := once(); code != 73 {
		t.Errorf("with state of the other user: exit %d", code)
	}
	if code, err := once("CTXFS_TRUST_DIR=/elsewhere," + contexts); code != 0 {
		t.Errorf("with state that is trusted: exit %d, %v", code, err)
	}
}

// TestStateOfAnotherKind serves a contexts directory that was named as trusted, in which something else is in the place of a file. No command
// waits for it, or reads or changes a file that a link leads to. The test starts servers, so it takes more than two seconds.
func TestStateOfAnotherKind(t *testing.T) {
	t.Parallel()
	const secret = "SECRET-of-another-user-with-more-than-32-characters"
	kinds := map[string]func(path, victim string) error{
		"FIFO": func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"link": func(path, victim string) error { return os.Symlink(victim, path) },
	}
	for _, name := range []string{
		".gitignore", "FORMAT", "server.json", "host.token", "directory.id", "epoch", "records", "ctxfs.db", "server.log", "locks/server.lock", "reserve/0", "copy", "overlay",
	} {
		for kind, put := range kinds {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				t.Parallel()
				ws := t.TempDir()
				contexts := filepath.Join(ws, ".contexts")
				path := filepath.Join(contexts, ".ctxfs", name)
				if name == ".gitignore" {
					path = filepath.Join(contexts, name)
				}
				victim := filepath.Join(t.TempDir(), "victim")
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				must(os.WriteFile(victim, []byte(secret), 0o600))
				must(os.MkdirAll(filepath.Join(contexts, ".ctxfs"), 0o700))
				must(os.MkdirAll(filepath.Dir(path), 0o700))
				must(put(path, victim))
				if os.Geteuid() == 0 {
					for _, p := range []string{contexts, filepath.Join(contexts, ".ctxfs"), path} {
						must(os.Lchown(p, 1000, 1000))
					}
				}
				for _, args := range [][]string{{"doctor"}, {"run", "--", "true"}} {
					ended := make(chan string, 1)
					go func() {
						_, out, errs, err := run(t, append(os.Environ(), "CTXFS_TRUST_DIR="+contexts),
							slices.Concat(args[:1], []string{"--workspace", ws, "--disk-reserve", "0"}, args[1:])...)
						if err != nil {
							errs += err.Error()
						}
						ended <- out + errs
					}()
					select {
					case text := <-ended:
						if strings.Contains(text, "SECRET") {
							t.Errorf("%s printed the file outside: %s", args[0], text)
						}
					case <-time.After(patience):
						t.Fatalf("%s waits", args[0])
					}
				}
				if data, err := os.ReadFile(victim); err != nil || string(data) != secret {
					t.Errorf("the file outside: %q, %v", data, err)
				}
			})
		}
	}
}
