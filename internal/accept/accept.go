// Package accept keeps listeners alive through errors that pass.
package accept

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

// leastPause is how long a listener waits after the first error of a row. Each further error doubles the wait, up to mostPause, which is also the
// longest that a closed listener takes to say so.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// Listener accepts again after every error that can pass. accept(2) fails when the process, its user or the kernel is short of descriptors,
// epoll watches or memory, and with errors of the connection that it would have returned. net/http and gRPC retry after some of these, and
// end the server after the others: ENOSPC, ENOMEM and ENOBUFS among them.
type Listener struct {
	net.Listener
	// Failed, if not nil, is told each error before the pause that follows; again says that the attempt before failed too.
	Failed func(err error, again bool)
}

// Accept implements net.Listener. It fails once the listener is closed, or if it is none.
func (l Listener) Accept() (net.Conn, error) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		conn, err := l.Listener.Accept()
		if err == nil || !passes(err) {
			return conn, err
		}
		if l.Failed != nil {
			l.Failed(err, pause > leastPause)
		}
		time.Sleep(pause)
	}
}

// passes reports whether the same call may succeed later.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && !slices.Contains([]syscall.Errno{syscall.EBADF, syscall.EFAULT, syscall.EINVAL, syscall.ENOTSOCK}, errno)
}
