package rootfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

var _ Sender = (*linuxFile)(nil)

// SendTo implements Sender.
func (f *linuxFile) SendTo(socket uintptr, off int64, n int) (sent int, err error) {
	fd, err := f.fd.acquire()
	if err != nil {
		return 0, err
	}
	defer f.fd.release()
	for {
		sent, err = unix.Sendfile(int(socket), fd, &off, n)
		if !errors.Is(err, unix.EINTR) {
			return max(sent, 0), err
		}
	}
}
