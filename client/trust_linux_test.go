package client_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/client"
)

// other is a user that is not the one of the tests.
const other = 1000

// stateDir is a state directory of the test's own user, whose server has ended. Each method changes one thing as another user could.
type stateDir struct {
	t *testing.T
	// ws is the workspace, secret a file of the user outside of it.
	ws, secret string
}

func newStateDir(t *testing.T) *stateDir {
	t.Helper()
	s := &stateDir{t: t, ws: t.TempDir()}
	s.secret = filepath.Join(t.TempDir(), "shadow")
	must(t, os.MkdirAll(s.at(".ctxfs"), 0o700))
	s.write(".ctxfs/server.json", `{"pid":1,"socket":"/nowhere/ctxfs.sock","token_file":"/elsewhere/host.token"}`)
	s.write(".ctxfs/host.token", "ctxfs_host_0123456789")
	must(t, os.WriteFile(s.secret, []byte("root:SECRET"), 0o600))
	return s
}

func (s *stateDir) at(name string) string { return filepath.Join(s.ws, ".contexts", name) }

func (s *stateDir) write(name, text string) {
	must(s.t, os.WriteFile(s.at(name), []byte(text), 0o600))
}

// give makes another user the owner of files.
func (s *stateDir) give(names ...string) {
	for _, name := range names {
		must(s.t, os.Lchown(s.at(name), other, other))
	}
}

// replace puts what make makes at the place of a file.
func (s *stateDir) replace(name string, make func(path string) error) {
	must(s.t, os.RemoveAll(s.at(name)))
	must(s.t, make(s.at(name)))
}

func (s *stateDir) link(name, target string) {
	s.replace(name, func(path string) error { return os.Symlink(target, path) })
}

func (s *stateDir) fifo(name string) {
	s.replace(name, func(path string) error { return unix.Mkfifo(path, 0o600) })
}

func (s *stateDir) giveAll() {
	s.give(".", ".ctxfs", ".ctxfs/server.json", ".ctxfs/host.token")
}

// TestOnlyStateOfTheUsersOwnIsBelieved looks for a server in directories in which another user has put something. The user of the tests
// is root, which may read everything.
func TestOnlyStateOfTheUsersOwnIsBelieved(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	const server, token = ".ctxfs/server.json", ".ctxfs/host.token"
	large := strings.Repeat(" ", 65<<10)
	for _, c := range []struct {
		name   string
		change func(s *stateDir)
		// trust has the contexts directory trusted.
		trust bool
		// want is in the error, "" if the server is found.
		want string
	}{
		{"the user's own", func(*stateDir) {}, false, ""},
		{"no token", func(s *stateDir) { must(s.t, os.Remove(s.at(token))) }, false, ""},
		{"the user's own link to the contexts", func(s *stateDir) {
			must(s.t, errors.Join(os.Rename(s.at("."), filepath.Join(s.ws, "real")), os.Symlink("real", s.at("."))))
		}, false, ""},
		{"another's state", (*stateDir).giveAll, false, "belongs to uid 1000, not to you (uid 0), so it is not believed unless --trust-dir or CTXFS_TRUST_DIR names"},
		{"another's state directory", func(s *stateDir) { s.give(".ctxfs") }, false, "belongs to uid 1000"},
		{"another's contexts directory", func(s *stateDir) { s.give(".") }, false, "belongs to uid 1000"},
		{"another's link to the contexts", func(s *stateDir) {
			must(s.t, errors.Join(os.Rename(s.at("."), filepath.Join(s.ws, "real")), os.Symlink("real", s.at("."))))
			s.give("")
		}, false, "belongs to uid 1000"},
		{"a link to the state", func(s *stateDir) {
			must(s.t, errors.Join(os.Rename(s.at(".ctxfs"), s.at("real")), os.Symlink("real", s.at(".ctxfs"))))
		}, false, "is not a directory with mode 0700"},
		{"a file in the place of the state directory", func(s *stateDir) {
			s.replace(".ctxfs", func(p string) error { return os.WriteFile(p, nil, 0o600) })
		}, false, "is not a directory with mode 0700"},
		{"a state directory that others may read", func(s *stateDir) { must(s.t, os.Chmod(s.at(".ctxfs"), 0o750)) }, false, "is not a directory with mode 0700"},
		{"another's server.json", func(s *stateDir) { s.give(server) }, false, "is not the file of its directory's owner"},
		{"server.json is a link", func(s *stateDir) { s.link(server, s.secret) }, false, "is not a regular file"},
		{"server.json is a FIFO", func(s *stateDir) { s.fifo(server) }, false, "is not a regular file"},
		{"server.json is a directory", func(s *stateDir) { s.replace(server, func(p string) error { return os.Mkdir(p, 0o700) }) }, false, "is not a regular file"},
		{"server.json is huge", func(s *stateDir) { s.write(server, large) }, false, "is not of at most 65536 bytes"},
		{"server.json that others may change", func(s *stateDir) { must(s.t, os.Chmod(s.at(server), 0o620)) }, false, "is not closed to others"},
		{"server.json without a socket", func(s *stateDir) { s.write(server, `{"addresses":["127.0.0.1:1"]}`) }, false, "names no socket"},
		{"another's token", func(s *stateDir) { s.give(token) }, false, "is not the file of its directory's owner"},
		{"the token is a link", func(s *stateDir) { s.link(token, s.secret) }, false, "is not a regular file"},
		{"the token is a link to nothing", func(s *stateDir) { s.link(token, "nothing") }, false, "is not a regular file"},
		{"the token is a FIFO", func(s *stateDir) { s.fifo(token) }, false, "is not a regular file"},
		{"the token is huge", func(s *stateDir) { s.write(token, large) }, false, "is not of at most 4096 bytes"},
		{"a token that others may read", func(s *stateDir) { must(s.t, os.Chmod(s.at(token), 0o640)) }, false, "is not closed to others"},

		{"trusted: another's state", (*stateDir).giveAll, true, ""},
		{"trusted: the token is a link to the user's file", func(s *stateDir) { s.link(token, s.secret); s.giveAll() }, true, "is not a regular file"},
		{"trusted: the token is the user's file, by a hard link", func(s *stateDir) {
			s.replace(token, func(p string) error { return os.Link(s.secret, p) })
			s.give(".", ".ctxfs", server)
		}, true, "is not the file of its directory's owner"},
		{"trusted: server.json is a link", func(s *stateDir) { s.link(server, s.secret); s.giveAll() }, true, "is not a regular file"},
		{"trusted: a state directory that others may read", func(s *stateDir) { s.giveAll(); must(s.t, os.Chmod(s.at(".ctxfs"), 0o755)) }, true, "is not a directory with mode 0700"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStateDir(t)
			c.change(s)
			for _, start := range []string{s.ws, s.at(".ctxfs")} {
				opts := []client.Option{client.WithDir(start), client.WithGetenv(noEnv)}
				if c.trust {
					opts = append(opts, client.WithTrustDir("/elsewhere", s.at(".")))
				}
				found, err := client.Find(opts...)
				var none *client.NoServerError
				switch {
				case c.want == "" && (err != nil || found.PID != 1):
					t.Errorf("%v, %v", found.PID, err)
				case c.want != "" && (!errors.As(err, &none) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET")):
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

func TestTrustDirOfTheEnvironment(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	s := newStateDir(t)
	s.giveAll()
	for value, trusted := range map[string]bool{s.at("."): true, "/elsewhere," + s.at("") + "/": true, s.ws: false, "": false, ",": false, "/": false} {
		_, err := client.Find(client.WithDir(s.ws), client.WithGetenv(func(key string) string {
			return map[string]string{"CTXFS_TRUST_DIR": value}[key]
		}))
		if (err == nil) != trusted {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// TestAnotherUsersServerIsRefused has another user listen at the socket of a server that has ended, as in a temporary directory that was
// emptied.
func TestAnotherUsersServerIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	s := newStateDir(t)
	for _, c := range []struct {
		name string
		uid  int
		want string
	}{{"own", 0, "no ctxfs server answers"}, {"another's", other, "a process of uid 1000 listens there"}} {
		path := filepath.Join(s.ws, c.name+".sock")
		s.write(".ctxfs/server.json", `{"pid":1,"socket":"`+path+`","token_file":"host.token"}`)
		l := listenAs(t, c.uid, path)
		heard := make(chan string, 1)
		go func() {
			var got []byte
			if conn, err := l.Accept(); err == nil {
				buf := make([]byte, 24) // HTTP/2's preface
				n, _ := conn.Read(buf)
				got = buf[:n]
				_ = conn.Close()
			}
			heard <- string(got)
		}()
		_, err := client.Dial(t.Context(), client.WithDir(s.ws), client.WithGetenv(noEnv))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if got := <-heard; (got == "") != (c.uid == other) {
			t.Errorf("%s: the server got %q", c.name, got)
		}
		must(t, l.Close())
	}
}

// listenAs listens as another user: the kernel keeps whose thread called listen.
func listenAs(t *testing.T, uid int, path string) net.Listener {
	t.Helper()
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine
		l, err := net.Listen("unix", path+".new")
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err == nil {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				err = errno
			}
		}
		if err == nil {
			var raw interface{ Control(func(uintptr)) error }
			if raw, err = l.(*net.UnixListener).SyscallConn(); err == nil {
				err = errors.Join(err, raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 8) })) // again, as this user
			}
		}
		done <- result{l, err}
	}()
	r := <-done
	must(t, r.err)
	return r.l
}
