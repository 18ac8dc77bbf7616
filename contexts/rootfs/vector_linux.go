package rootfs

import (
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxPieces is IOV_MAX of writev(2).
const maxPieces = 1024

func (f *linuxFile) writev(pieces [][]byte) (int, error) {
	return f.transferv(pieces, func(fd int, rest [][]byte, _ int) (int, error) { return unix.Writev(fd, rest) })
}

func (f *linuxFile) pwritev(pieces [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, fserr.New("write", "", fserr.EINVAL)
	}
	return f.transferv(pieces, func(fd int, rest [][]byte, done int) (int, error) {
		return unix.Pwritev(fd, rest, off+int64(done))
	})
}

// transferv is transfer for pieces.
func (f *linuxFile) transferv(pieces [][]byte, call func(fd int, rest [][]byte, done int) (int, error)) (int, error) {
	want := 0
	for _, p := range pieces {
		want += len(p)
	}
	for done := 0; done < want; {
		var n int
		err := f.do("write", func(fd int) (err error) {
			if err := f.dropSetid(fd); err != nil {
				return err
			}
			n, err = call(fd, pieces[:min(len(pieces), maxPieces)], done)
			return err
		})
		if err != nil || n == 0 && len(pieces) <= maxPieces {
			return written(done, want, err)
		}
		done += n
		pieces = after(pieces, n)
	}
	return want, nil
}

// after is what is left of pieces when n bytes are written.
func after(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces = append([][]byte{pieces[0][n:]}, pieces[1:]...)
	}
	return pieces
}
