package exec

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// oldRules are for the calls that newer architectures do not have.
func oldRules() []rule {
	return []rule{
		denySetidFile(unix.SYS_OPEN, 1, 2), denyBits(unix.SYS_CREAT, 1, setidBits, unix.EPERM), denyBits(unix.SYS_CHMOD, 1, setidBits, unix.EPERM),
		denyBits(unix.SYS_MKNOD, 1, setidBits, unix.EPERM), deny(unix.SYS_IOPL, unix.EPERM), deny(unix.SYS_IOPERM, unix.EPERM),
	}
}
