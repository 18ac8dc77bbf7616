package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// benchSizes are the files of the layers that benchmarks use, 1 KiB each, 50 in a directory.
var benchSizes = [...]int{100, 1_000, 10_000}

// Bench measures the first access to a context whose layer is there: making it, mounting it where
// the driver does, opening its root and asking for one file.
func Bench(b *testing.B, d driver.Driver) {
	for _, files := range benchSizes {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			src := benchLayer(b, files)
			for b.Loop() {
				firstAccess(b, d, src)
			}
		})
	}
}

// Compare measures the first access by d and by base in turns, and reports how many times d is as
// fast, by the medians.
func Compare(b *testing.B, d, base driver.Driver) {
	for _, files := range benchSizes {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			src := benchLayer(b, files)
			var took, baseTook []time.Duration
			for b.Loop() {
				baseTook = append(baseTook, firstAccess(b, base, src))
				took = append(took, firstAccess(b, d, src))
			}
			b.ReportMetric(float64(median(took).Microseconds())/1000, d.Name()+"-ms")
			b.ReportMetric(float64(median(baseTook).Microseconds())/1000, base.Name()+"-ms")
			b.ReportMetric(float64(median(baseTook))/float64(median(took)), "times")
		})
	}
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

func benchLayer(b *testing.B, files int) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "tree")
	content := make([]byte, 1<<10)
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("d%d", i/50), fmt.Sprintf("f%d", i))
		must(b, os.MkdirAll(filepath.Dir(name), 0o755))
		must(b, os.WriteFile(name, content, 0o644))
	}
	return dir
}

// firstAccess times what a panel waits for; making room for it and removing it are not counted.
func firstAccess(b *testing.B, d driver.Driver, src string) time.Duration {
	b.Helper()
	b.StopTimer()
	dir, err := os.MkdirTemp(filepath.Dir(src), "context")
	must(b, err)
	p := driver.Place{Layer: src, State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}
	mounter, mounts := d.(driver.Mounter)
	dst := p.Folder
	if mounts {
		dst = p.State
	}
	must(b, os.Mkdir(dst, 0o755))
	b.StartTimer()
	start := time.Now()
	must(b, d.Prepare(context.Background(), src, dst, nil))
	if mounts {
		must(b, mounter.Mount(context.Background(), p))
	}
	root, err := rootfs.Open(p.Folder, rootfs.Options{})
	must(b, err)
	_, err = root.Lstat("d0/f0")
	must(b, err)
	took := time.Since(start)
	b.StopTimer()
	must(b, root.Close())
	if mounts {
		must(b, mounter.Unmount(context.Background(), p.Folder, false))
	}
	must(b, os.RemoveAll(dir))
	b.StartTimer()
	return took
}
