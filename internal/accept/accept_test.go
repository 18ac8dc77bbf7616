package accept

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
)

// script is a listener that fails with each of its errors, and then returns a connection.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		return &net.TCPConn{}, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}

// failed is an error of Accept as package net makes it: of accept(2), or of epoll_ctl(2) for the new connection.
func failed(call string, errno syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError(call, errno)}
}

func TestErrorsThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, errno := range []syscall.Errno{
			syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC, syscall.ECONNABORTED, syscall.EPERM, syscall.EPROTO,
			syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EAGAIN, syscall.EINTR, syscall.EOPNOTSUPP,
		} {
			for _, call := range []string{"accept4", "epoll_ctl"} {
				var told, again int
				l := Listener{&script{errs: []error{failed(call, errno), failed(call, errno), failed(call, errno)}}, func(err error, more bool) {
					if !errors.Is(err, errno) {
						t.Errorf("%s %v is reported as %v", call, errno, err)
					}
					if told++; more {
						again++
					}
				}}
				if c, err := l.Accept(); err != nil || c == nil || told != 3 || again != 2 {
					t.Errorf("%s %v: %v, reported %d times, of which %d again", call, errno, err, told, again)
				}
			}
		}
	})
}

func TestErrorsThatStay(t *testing.T) {
	t.Parallel()
	for _, err := range []error{net.ErrClosed, errors.New("other"), failed("accept4", syscall.EBADF), failed("accept4", syscall.EINVAL), failed("accept4", syscall.ENOTSOCK)} {
		if _, got := (Listener{Listener: &script{errs: []error{err}}}).Accept(); !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestClosedListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (Listener{Listener: l}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
