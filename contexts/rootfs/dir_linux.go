package rootfs

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// linuxDir lists by getdents64(2), a page at a time.
type linuxDir struct {
	fd   descriptor
	mu   sync.Mutex
	buf  []byte
	rest []Entry // of the page read last, what is not yet given out
}

func (d *linuxDir) Next(n int, stats bool) (out []Entry, err error) {
	if n <= 0 {
		return nil, fserr.New("scandir", "", fserr.EINVAL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.fd.use(func(fd int) error {
		for len(out) == 0 {
			if err := d.fill(fd); err != nil {
				return err
			}
			var err error
			if out, err = d.take(fd, n, stats); err != nil {
				return err
			}
		}
		return nil
	})
	if err == io.EOF {
		return nil, io.EOF
	}
	return out, failed(err, "scandir", "")
}

func (d *linuxDir) Close() error { return failed(d.fd.close(), "close", "") }

// take gives out up to n entries of the page; with stats, those that are still there.
func (d *linuxDir) take(fd, n int, stats bool) ([]Entry, error) {
	page := d.rest[:min(n, len(d.rest))]
	d.rest = d.rest[len(page):]
	if !stats {
		return page, nil
	}
	kept := make([]Entry, 0, len(page))
	for _, e := range page {
		st, err := statAt(fd, e.Name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return nil, err
		}
		e.Stat, e.Type = &st, st.Type()
		kept = append(kept, e)
	}
	return kept, nil
}

// fill reads pages until there is an entry to give out; io.EOF at the end, also
// when the directory itself was removed (ENOENT).
func (d *linuxDir) fill(fd int) error {
	if d.buf == nil {
		d.buf = make([]byte, direntBuffer)
	}
	for len(d.rest) == 0 {
		n := 0
		err := uninterrupted(func() (err error) {
			n, err = unix.Getdents(fd, d.buf)
			return err
		})
		if errors.Is(err, unix.ENOENT) || (err == nil && n == 0) {
			return io.EOF
		}
		if err != nil {
			return err
		}
		d.rest = appendDirents(nil, d.buf[:n], func(name string) bool { return !Reserved(name) })
	}
	return nil
}
