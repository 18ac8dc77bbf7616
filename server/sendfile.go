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
	return before - part.Left, errors.Join(waiting, err)
}
