package peercred

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// HasPID says that the system reports PIDs.
const HasPID = false

// Of asks the kernel (LOCAL_PEERCRED, unix(4)).
func Of(c *net.UnixConn) (Cred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Xucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	if sockErr != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", sockErr)
	}
	return Cred{Known: true, UID: cred.Uid}, nil
}
