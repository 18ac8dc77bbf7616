package exec

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// execOnly is the mode of a sealed program: everybody may execute it, and its owner may not even read it.
const execOnly = 0o111

// sealed copies a program to memory and returns a descriptor to execute the copy by. Nobody can change the content of the copy, and its owner cannot
// read it without a capability. A process that executes a program which its user may not read is not dumpable from its first instruction (execve(2),
// and PR_SET_DUMPABLE in prctl(2)): other processes of that user reach neither its memory nor its descriptors nor its program. A program that makes
// itself not dumpable takes milliseconds until then. It depends on the setting fs.suid_dumpable, which must not be 1.
func sealed(program string) (*os.File, error) {
	from, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	copied, err := executableMemory()
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	if _, err := io.Copy(copied, from); err != nil {
		return nil, fmt.Errorf("copy the program: %w", err)
	}
	if err := copied.Chmod(execOnly); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err = unix.FcntlInt(copied.Fd(), unix.F_ADD_SEALS, seals|unix.F_SEAL_EXEC); errors.Is(err, unix.EINVAL) { // before Linux 6.3
		_, err = unix.FcntlInt(copied.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return nil, fmt.Errorf("seal the program: %w", err)
	}
	return reference(fmt.Sprintf("/proc/self/fd/%d", copied.Fd()))
}

// executableMemory returns an empty file without a name, from which programs may be executed.
func executableMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("ctxfs", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("ctxfs", flags)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, &Unavailable{
			"a shared sandbox needs a program in memory, and the kernel executes none",
			"sysctl vm.memfd_noexec=1, or run the command in a sandbox of its own",
		}
	}
	return os.NewFile(uintptr(fd), "program"), err
}

// reference returns a descriptor that a program can be executed by, and that can neither be read nor written.
func reference(program string) (*os.File, error) {
	fd, err := unix.Open(program, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: program, Err: err}
	}
	return os.NewFile(uintptr(fd), program), nil
}
