package server

import (
	"errors"
	"io"
	"syscall"

	"github.com/ctxfs/ctxfs/fsservice"
)

// ReadFrom implements io.ReaderFrom: the kernel sends what can be sent so, without a copy.
func (c *sharedConn) ReadFrom(src io.Reader) (int64, error) {
	part, ok := src.(*fsservice.Part)
	raw, plain := c.Conn.(syscall.Conn)
	if !ok || !plain || !part.Sends() {
		return io.Copy(c.Conn, src)
	}
	socket, err := raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	before := part.Left
	waiting := socket.Write(func(fd uintptr) bool {
		err = part.SendTo(fd)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if before == part.Left && cannotSend(err) {
		return io.Copy(c.Conn, src)
	}
	return before - part.Left, errors.Join(waiting, err)
}

// cannotSend says that sendfile is not for such a file (sendfile(2)): it has to be read.
func cannotSend(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)
}
