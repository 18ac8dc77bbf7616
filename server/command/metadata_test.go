package command_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestRecordsInPostgres takes a workspace through the commands with the records in a database that wants a password, and looks for the
// password in all that they print and leave.
func TestRecordsInPostgres(t *testing.T) {
	t.Parallel()
	pg, ws, secret := pgtest.Shared(t), servertest.Workspace(t), rand.Text()+"/%@"
	base, user := pg.Schema(t), "u"+strings.ToLower(rand.Text())
	schema := base[strings.LastIndex(base, "=")+1:]
	pg.Exec(t, base, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", user, secret), fmt.Sprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %s", schema, user))
	at := strings.Replace(base, "ctxfs@", url.UserPassword(user, secret).String()+"@", 1)
	env := append(os.Environ(), "CTXFS_METADATA="+at)
	args := []string{"--workspace", ws, "--disk-reserve", "0"}
	var said strings.Builder
	say := func(env []string, wantCode int, words string, command ...string) {
		t.Helper()
		code, out, errs, err := run(t, env, command...)
		all := fmt.Sprint(out, errs, err)
		said.WriteString(all)
		if code != wantCode || !strings.Contains(all, words) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", command, code, wantCode, words, all)
		}
	}
	with := func(command ...string) []string { return append(command, args...) }

	say(env, 0, "no tables yet", with("doctor")...)
	say(env, 0, "", append(with("run"), "--", "true")...)
	say(env, 0, "1 contexts, 1 panels, epoch 2", with("doctor")...)
	withPasswords := append(slices.Clone(env), "PGPASSWORD="+secret, "PGPASSFILE=/dev/"+secret)
	say(withPasswords, 0, "CTXFS_TOKEN=", append(with("run"), "--", "env")...)
	say(env, 0, user+"@", with("config")...)
	say(env, 0, user+"@", with("config", "--json")...)
	say(os.Environ(), 78, "CTXFS_METADATA", append(with("run"), "--", "true")...)
	say(os.Environ(), 2, "--from", with("metadata", "copy")...)
	say(os.Environ(), 64, "special characters", with("metadata", "copy", "--from", "postgres://"+user+":"+secret+"@h/db", "--to", "sqlite")...)

	pg.Exec(t, base, fmt.Sprintf("TRUNCATE %[1]s.contexts, %[1]s.panels, %[1]s.tokens, %[1]s.layers, %[1]s.sites, %[1]s.directory", schema))
	say(env, 0, "it has lost commits", with("doctor")...)
	say(env, 0, "made a record of ctx_run", with("doctor", "--repair")...)
	say(env, 0, "1 contexts, 0 panels, epoch 6", with("doctor")...)
	say(env, 0, "", append(with("run"), "--", "true")...)

	other := append([]string{"doctor"}, "--workspace", servertest.Workspace(t), "--disk-reserve", "0")
	say(env, 1, "search_path=NAME", other...)
	say(os.Environ(), 0, "contexts 1, panels 1", with("metadata", "copy", "--from", at, "--to", "sqlite")...)
	say(os.Environ(), 0, "", append(with("run"), "--", "true")...)
	pg.Exec(t, base, fmt.Sprintf("ALTER ROLE %s PASSWORD 'another one'", user))
	say(env, 1, "PGPASSFILE", with("doctor")...)
	say(env, 78, "PGPASSFILE", with("serve")...)

	err := filepath.WalkDir(filepath.Join(ws, ".contexts"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			said.Write(data)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, form := range []string{secret, url.QueryEscape(secret), secret[:26]} {
		if at := strings.Index(said.String(), form); at >= 0 {
			t.Errorf("the password is shown: %q", said.String()[max(0, at-200):at+20])
		}
	}
}
