package rootfs

import (
	"io"
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
)

// linuxDir lists by getdents64(2), a page at a time.
type linuxDir struct {
	fd   descriptor
	mu   sync.Mutex
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
	n = min(n, len(d.rest))
	page := d.rest[:n:n]
	d.rest = d.rest[n:]
	if !stats {
		return page, nil
	}
	return statAll(fd, page)
}

// fill reads pages until there is an entry to give out; io.EOF at the end.
func (d *linuxDir) fill(fd int) (err error) {
	for len(d.rest) == 0 && err == nil {
		d.rest, err = appendPage(nil, fd, visible)
	}
	return err
}

func visible(name string) bool { return !Reserved(name) }
