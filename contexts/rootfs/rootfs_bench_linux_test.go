package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// BenchmarkRead reads a file of 4 KiB through the Root, and as a program does that trusts
// its paths: open, attributes, content, close. The two take turns, so that both
// have the same share of whatever else the machine does; "ratio" is their times'.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	r, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	top, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer node.CloseFD(top)
	for _, depth := range []int{1, 7} {
		path := strings.Repeat("dir/", depth-1) + "file"
		makeFile(b, filepath.Join(dir, path))
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			buf := make([]byte, benchSize+1)
			takeTurns(b, func() error { return readPlain(top, path, buf) }, func() error { return readConfined(r, path, buf) })
		})
	}
}

// takeTurns reports how long a read takes each way, and how many times the plain one's
// time the confined one takes: medians, which other load does not change.
func takeTurns(b *testing.B, plain, confined func() error) {
	const turn = 32
	var took [2][]float64
	var ratios []float64
	for b.Loop() {
		p, c := timed(b, turn, plain), timed(b, turn, confined)
		took[0], took[1] = append(took[0], p), append(took[1], c)
		ratios = append(ratios, c/p)
	}
	b.ReportMetric(median(took[0]), "plain-ns/read")
	b.ReportMetric(median(took[1]), "rootfs-ns/read")
	b.ReportMetric(median(ratios), "ratio")
}

// timed is the time of one call, in ns, when n follow each other.
func timed(b *testing.B, n int, call func() error) float64 {
	start := time.Now()
	for range n {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

const benchSize = 4 << 10

func makeFile(b *testing.B, path string) {
	b.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, make([]byte, benchSize), 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func readPlain(top int, path string, buf []byte) error {
	fd, err := unix.Openat(top, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	n, err := unix.Read(fd, buf)
	if err == nil && (n != benchSize || st.Size != benchSize) {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, unix.Close(fd))
}

func readConfined(r Root, path string, buf []byte) error {
	f, st, err := r.OpenStat(path, O_RDONLY)
	if err != nil {
		return err
	}
	n, err := f.Read(buf)
	if err == nil && (n != benchSize || st.Size != benchSize) {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}
