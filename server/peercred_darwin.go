package server

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf returns the user that connected, from the kernel (LOCAL_PEERCRED, unix(4)).
func peerOf(c *net.UnixConn) (peerCred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Xucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", err)
	}
	if sockErr != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", sockErr)
	}
	return peerCred{known: true, uid: cred.Uid}, nil
}
