package command

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// notifyEnv names the socket on which a service reports its state to systemd (sd_notify(3)).
const notifyEnv = "NOTIFY_SOCKET"

// relayNotify gives a child a socket for its reports to systemd, and forwards them: systemd accepts reports only from the process that
// it started. Call the returned function when the child has ended.
func relayNotify(ctx context.Context, child *exec.Cmd) (stop func(), err error) {
	to := os.Getenv(notifyEnv)
	if to == "" {
		return func() {}, nil
	}
	var d net.Dialer
	out, err := d.DialContext(ctx, "unixgram", notifyAddress(to))
	if err != nil {
		return func() {}, nil //nolint:nilerr // the server would fail in the same way, and continue
	}
	dir, err := os.MkdirTemp("", "ctxfs-notify-")
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	own := filepath.Join(dir, "socket")
	in, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: own, Net: "unixgram"})
	if err != nil {
		return nil, errors.Join(err, out.Close(), os.RemoveAll(dir))
	}
	child.Env = append(child.Env, notifyEnv+"="+own)
	var wg sync.WaitGroup
	wg.Go(func() { relay(in, out) })
	return func() {
		endRelay(ctx, own, in)
		wg.Wait()
		_ = errors.Join(in.Close(), out.Close(), os.RemoveAll(dir))
	}, nil
}

// notifyAddress is a socket's: a leading "@" is a name in the abstract namespace, whose first byte is NUL.
func notifyAddress(name string) string {
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		return "\x00" + rest
	}
	return name
}

// relay passes messages on until an empty one comes.
func relay(in, out net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if err != nil || n == 0 {
			return
		}
		_, _ = out.Write(buf[:n]) // systemd may be gone
	}
}

// endRelay sends an empty message, behind all that the child has sent.
func endRelay(ctx context.Context, to string, in net.Conn) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixgram", to)
	if err == nil {
		_, err = c.Write(nil)
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		_ = in.Close()
	}
}
