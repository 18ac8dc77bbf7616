package server

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
)

// notify tells systemd the server's state (sd_notify(3)); without systemd it does nothing.
func (s *Server) notify(state string) {
	if err := sdNotify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		s.log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}

func sdNotify(socket, state string) error {
	if socket == "" {
		return nil
	}
	// A leading "@" is a name in the abstract namespace, whose first byte is NUL.
	if rest, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + rest
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	if closeErr := c.Close(); err == nil {
		err = closeErr
	}
	return err
}

// watchStdin calls stop when standard input ends. The returned function ends the
// watch where the input can be interrupted; a terminal or a plain file cannot, and
// the watch then ends with the process.
func (s *Server) watchStdin(stop context.CancelFunc) func() {
	if !s.cfg.ExitOnStdinClose || s.deps.Stdin == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(io.Discard, s.deps.Stdin)
		s.log.Info("standard input ended", zap.Error(err))
		stop()
	}()
	return func() {
		d, ok := s.deps.Stdin.(interface{ SetReadDeadline(t time.Time) error })
		if ok && d.SetReadDeadline(time.Now()) == nil {
			<-done
		}
	}
}
