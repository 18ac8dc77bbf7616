package exec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/egress"
)

// socketPair returns this process's end of a pair of sockets for messages, and the other end.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "init")
	near := os.NewFile(uintptr(pair[0]), "engine")
	conn, err := net.FileConn(near)
	_ = near.Close() // conn has a duplicate
	if err != nil {
		_ = theirs.Close() // it was not used
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// inner adds this program, or a copy of it, to a sandbox, as the one that does a job inside, and returns its arguments. The caller reads and closes conn.
func (b *bundle) inner(program, job string) (conn *net.UnixConn, argv []string, err error) {
	path, err := b.program(program)
	if err != nil {
		return nil, nil, err
	}
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	return conn, []string{path, initName, job, b.pass(theirs)}, nil
}

// greeting receives the first message of init, which it sends before any command runs.
func greeting(ctx context.Context, conn *net.UnixConn) ([]*os.File, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) }) // a socket takes deadlines
	files, err := receive(conn, &struct{}{})
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		closeAll(files)
		return nil, fmt.Errorf("receive the first message of a sandbox: %w", err)
	}
	return files, nil
}

// takeListeners receives the listeners that init passes out.
func takeListeners(ctx context.Context, conn *net.UnixConn) (web, socks net.Listener, err error) {
	files, err := greeting(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(files)
	if len(files) != 2 {
		return nil, nil, fmt.Errorf("a sandbox passed %d files instead of 2", len(files))
	}
	if web, err = listener(files[0]); err != nil {
		return nil, nil, err
	}
	if socks, err = listener(files[1]); err != nil {
		return nil, nil, errors.Join(err, web.Close())
	}
	return web, socks, nil
}

// listener checks that a file is a socket of TCP that listens.
func listener(f *os.File) (net.Listener, error) {
	for _, want := range []struct{ option, value int }{{unix.SO_DOMAIN, unix.AF_INET}, {unix.SO_TYPE, unix.SOCK_STREAM}, {unix.SO_ACCEPTCONN, 1}} {
		value, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, want.option)
		if err != nil || value != want.value {
			return nil, fmt.Errorf("a sandbox passed a file that is no listener: option %d is %d, %w", want.option, value, err)
		}
	}
	return net.FileListener(f)
}

// proxy serves a sandbox by the rules of a plan.
func (t *Processes) proxy(web, socks net.Listener, plan *plan, report func(egress.Use)) *egress.Proxy {
	return egress.Serve(web, socks, egress.Config{Rules: plan.rules, Bytes: plan.profile.Bytes, Report: report, Upstream: t.cfg.Upstream})
}

// additions are what the plan's profile adds to a sandbox.
func (p *plan) additions() []addition {
	list := []addition{p.folders}
	if p.mode == NetworkHost {
		list = append(list, hostNetwork)
	}
	return list
}

// folders shows the folders of the profile. A link that was put on the way since is not followed.
func (p *plan) folders(b *bundle) error {
	for _, f := range p.profile.Folders {
		fd, err := unix.Openat2(unix.AT_FDCWD, f.From, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return fmt.Errorf("profile %q: open folder %s: %w", p.profile.Name, f.From, err)
		}
		option := "--ro-bind-fd"
		if f.Writable {
			option = "--bind-fd"
		}
		b.add(option, b.pass(os.NewFile(uintptr(fd), f.From)), f.To)
	}
	return nil
}

// hostNetwork gives a sandbox the network and the resolver of the machine.
func hostNetwork(b *bundle) error {
	i := slices.Index(b.args, "--unshare-net")
	b.args = slices.Delete(b.args, i, i+1)
	fd, err := b.data([]byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	if err != nil {
		return err
	}
	b.replaceData("/etc/nsswitch.conf", "--ro-bind-data", fd, "/etc/nsswitch.conf")
	b.replaceData("/etc/resolv.conf", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")
	return nil
}

// replaceData replaces the option that shows a file with content, and keeps the rest.
func (b *bundle) replaceData(path string, option ...string) {
	for i := range b.args[:len(b.args)-2] {
		if b.args[i] == "--ro-bind-data" && b.args[i+2] == path {
			b.args = slices.Replace(b.args, i-2, i+3, option...) // with its --perms
			return
		}
	}
}
