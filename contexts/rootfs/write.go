package rootfs

import (
	"errors"

	"github.com/ctxfs/ctxfs/fserr"
)

// Sender is a File whose content the kernel sends by itself.
type Sender interface {
	// SendTo sends up to n bytes from off to a socket, as sendfile(2) does; 0 at the end of
	// the file. Errors: those of the system call, EAGAIN when the socket takes nothing now.
	SendTo(socket uintptr, off int64, n int) (int, error)
}

// vectored is a File that writes pieces by one system call.
type vectored interface {
	writev(pieces [][]byte) (int, error)
	pwritev(pieces [][]byte, off int64) (int, error)
}

// Writev does what f.Write does with the pieces joined, without joining them; where the
// system can, by one call. n counts the bytes of all pieces, as Written of an error does.
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
