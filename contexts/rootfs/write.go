package rootfs

import (
	"errors"

	"github.com/ctxfs/ctxfs/fserr"
)

// Sender is a File whose content the kernel can send to a socket.
type Sender interface {
	// SendTo sends up to n bytes from off to a socket, as sendfile(2) does. It returns 0 at the end of the file. Errors are those of the
	// system call, such as EAGAIN if the socket is full.
	SendTo(socket uintptr, off int64, n int) (int, error)
}

// vectored is a File that writes pieces in one system call.
type vectored interface {
	writev(pieces [][]byte) (int, error)
	pwritev(pieces [][]byte, off int64) (int, error)
}

// Writev writes the pieces as f.Write would write them joined, in one system call where possible. n counts the bytes of all pieces, as
// does Written of an error.
func Writev(f File, pieces [][]byte) (n int, err error) {
	if v, ok := f.(vectored); ok {
		return v.writev(pieces)
	}
	return eachPiece(pieces, func(p []byte, _ int) (int, error) { return f.Write(p) })
}

// WritevAt is to f.WriteAt as Writev is to f.Write.
func WritevAt(f File, pieces [][]byte, off int64) (n int, err error) {
	if v, ok := f.(vectored); ok {
		return v.pwritev(pieces, off)
	}
	return eachPiece(pieces, func(p []byte, done int) (int, error) { return f.WriteAt(p, off+int64(done)) })
}

func eachPiece(pieces [][]byte, write func(p []byte, done int) (int, error)) (done int, err error) {
	for _, p := range pieces {
		n, err := write(p, done)
		done += n
		if e, ok := errors.AsType[*fserr.Error](err); ok {
			e.Written = int64(done)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
