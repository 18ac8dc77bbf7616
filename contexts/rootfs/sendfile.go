package rootfs

// Sender is a File whose content the kernel sends by itself.
type Sender interface {
	// SendTo sends up to n bytes from off to a socket, as sendfile(2) does; 0 at the end of
	// the file. Errors: those of the system call, EAGAIN when the socket takes nothing now.
	SendTo(socket uintptr, off int64, n int) (int, error)
}
