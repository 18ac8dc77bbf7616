package server

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf asks the kernel who connected (SO_PEERCRED, unix(7)): identities are as
// mapped into this process's user namespace.
func peerOf(c *net.UnixConn) (peerCred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", err)
	}
	if sockErr != nil {
		return peerCred{}, fmt.Errorf("peer credentials: %w", sockErr)
	}
	return peerCred{known: true, uid: cred.Uid, pid: int(cred.Pid)}, nil
}
