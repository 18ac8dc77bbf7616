package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/figure"
	"github.com/ctxfs/ctxfs/client"
)

// atOnce is how many calls prepare things.
const atOnce = 16

// panels opens more and more panels: first without sessions, then with one each on a
// connection that they share, then on a connection each.
func (b *bench) panels(ctx context.Context, f *Figures) error {
	var tokens []string
	if err := b.warm(ctx); err != nil {
		return err
	}
	for _, n := range []int{1, 10, 100, 1000} {
		for i := len(tokens); i < n; i++ {
			p, err := b.host.OpenPanel(ctx, fmt.Sprintf("panels/scale%d", i))
			if err != nil {
				return err
			}
			token, _ := p.Token()
			tokens = append(tokens, token)
			if err := p.Close(); err != nil {
				return err
			}
		}
		row := PanelRow{Panels: n}
		var err error
		if row.None, row.Resident, err = b.Memory(ctx); err != nil {
			return err
		}
		if err := b.withSessions(ctx, tokens, false, &row.Shared, &row); err != nil {
			return err
		}
		if err := b.withSessions(ctx, tokens, true, &row.Own, nil); err != nil {
			return err
		}
		f.Panels = append(f.Panels, row)
	}
	return nil
}

// warm has the server make what the first session and the first listing make, which would
// be counted as the cost of one.
func (b *bench) warm(ctx context.Context) error {
	p, err := b.host.OpenPanel(ctx, "panels/warm")
	if err != nil {
		return err
	}
	token, _ := p.Token()
	return errors.Join(p.Close(), b.withSessions(ctx, []string{token}, false, new(Memory), nil))
}

// withSessions opens a session for each token and measures; row, if any, gets what a server
// with sessions uses while they are idle.
func (b *bench) withSessions(ctx context.Context, tokens []string, connEach bool, m *Memory, row *PanelRow) (err error) {
	s := &sessions{address: b.address}
	defer s.close()
	if err := s.dial(); err != nil {
		return err
	}
	for i, t := range tokens {
		if connEach && i > 0 {
			if err := s.dial(); err != nil {
				return err
			}
		}
		if err := s.open(ctx, t); err != nil {
			return err
		}
	}
	resident := new(int64)
	if row != nil {
		resident = &row.Resident
		if row.Idle, err = b.idle(ctx); err != nil {
			return err
		}
	}
	*m, *resident, err = b.Memory(ctx)
	return err
}

// handles opens many, and looks at the heap before and after.
func (b *bench) handles(ctx context.Context, f *Figures) error {
	if err := os.WriteFile(filepath.Join(b.folder, "open.txt"), []byte("x"), 0o644); err != nil {
		return err
	}
	if err := b.opened(ctx, 1, nil); err != nil { // what the first one makes is not counted
		return err
	}
	before, _, err := b.Memory(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	return b.opened(ctx, handles, func() error {
		f.OpenEach = time.Since(begin) / handles
		after, _, err := b.Memory(ctx)
		f.HandleHeap = float64(after.Heap-before.Heap) / handles
		return err
	})
}

// opened opens n handles, calls while, and closes them.
func (b *bench) opened(ctx context.Context, n int, while func() error) error {
	files := make([]*client.File, n)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range files {
		g.Go(func() (err error) {
			files[i], err = b.fs.With(ctx).OpenFile("open.txt", os.O_RDONLY, 0)
			return err
		})
	}
	err := g.Wait()
	if err == nil && while != nil {
		err = while()
	}
	var closing errgroup.Group
	closing.SetLimit(atOnce)
	for _, file := range files {
		if file != nil {
			closing.Go(file.Close)
		}
	}
	return errors.Join(err, closing.Wait())
}

// directories lists larger and larger ones, with attributes.
func (b *bench) directories(ctx context.Context, f *Figures) error {
	made := 0
	if err := os.Mkdir(filepath.Join(b.folder, "many"), 0o755); err != nil {
		return err
	}
	for _, n := range []int{1000, 10_000, entries} {
		for ; made < n; made++ {
			if err := os.WriteFile(filepath.Join(b.folder, "many", fmt.Sprintf("entry-%06d", made)), nil, 0o644); err != nil {
				return err
			}
		}
		took, err := median(5, func() error {
			list, err := b.fs.With(ctx).List("many", client.ListOptions{Stats: true})
			if err == nil && len(list) != n {
				err = fmt.Errorf("listed %d entries of %d", len(list), n)
			}
			return err
		})
		if err != nil {
			return err
		}
		f.Directories = append(f.Directories, DirectoryRow{Entries: n, Took: took})
	}
	return nil
}

// median times what is done several times.
func median(times int, do func() error) (time.Duration, error) {
	var all []time.Duration
	for range times {
		begin := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	return figure.Median(all), nil
}

// ranges reads parts of a sparse file of 4 GiB and a little, whose parts say where they are.
func (b *bench) ranges(ctx context.Context, f *Figures) error {
	const size, piece = 4<<30 + 1<<20, 256 << 10
	offsets := []int64{0, 1 << 30, 2<<30 - piece/2, 4<<30 - piece/2, size - piece}
	if err := sparse(filepath.Join(b.folder, "sparse.bin"), size, offsets); err != nil {
		return err
	}
	file, err := b.fs.With(ctx).OpenFile("sparse.bin", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	buf := make([]byte, piece)
	for _, off := range offsets {
		took, err := median(25, func() error {
			if _, err := file.ReadAt(buf, off); err != nil {
				return err
			}
			return checkMark(buf, off)
		})
		if err != nil {
			return err
		}
		f.Ranges = append(f.Ranges, RangeRow{Offset: off, Took: took})
	}
	return nil
}

func sparse(path string, size int64, marks []int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	for _, off := range marks {
		if err == nil {
			_, err = f.WriteAt(mark(off), off)
		}
	}
	return errors.Join(err, f.Close())
}

func mark(off int64) []byte { return fmt.Appendf(nil, "at %020d", off) }

func checkMark(b []byte, off int64) error {
	want := string(mark(off))
	if got := string(b[:len(want)]); got != want {
		return fmt.Errorf("read %q instead of %q", got, want)
	}
	return nil
}
