package peercred

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// HasPID says that the system reports PIDs.
const HasPID = true

// Of asks the kernel (SO_PEERCRED, unix(7)).
func Of(c *net.UnixConn) (Cred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	if sockErr != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", sockErr)
	}
	return Cred{Known: true, UID: cred.Uid, PID: int(cred.Pid)}, nil
}
