package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// BenchmarkEdit changes a line of a file of 4 KiB: by EditFile, and by reading and writing the file.
func BenchmarkEdit(b *testing.B) {
	c := dial(b)
	ensure(b, c, "ctx_edit")
	f := c.Context("ctx_edit").With(b.Context())
	lines := strings.SplitAfter(strings.Repeat(strings.Repeat("x", 63)+"\n", 64), "\n")
	if err := f.WriteFile("f", []byte(strings.Join(lines, "")), 0o644); err != nil {
		b.Fatal(err)
	}
	i := 0
	changed := func() string { i++; return fmt.Sprintf("%-63d\n", i) }
	b.Run("edit", func(b *testing.B) {
		callers(b, 1, func() error {
			_, err := f.EditFile("f", []client.Edit{{StartLine: 8, EndLine: 8, New: changed()}}, client.EditOptions{})
			return err
		})
	})
	b.Run("read-write", func(b *testing.B) {
		callers(b, 1, func() error {
			content, err := f.ReadFile("f")
			if err != nil {
				return err
			}
			lines := strings.SplitAfter(string(content), "\n")
			lines[7] = changed()
			return f.WriteFileAtomic("f", []byte(strings.Join(lines, "")), 0o644)
		})
	})
}

// BenchmarkBatch writes 100 files of 1 KiB, each whole or not at all: by a batch, and by calls of their own, one after the other and at once.
func BenchmarkBatch(b *testing.B) {
	c := dial(b)
	ensure(b, c, "ctx_batch")
	f := c.Context("ctx_batch").With(b.Context())
	if err := f.MkdirAll("d", 0o755); err != nil {
		b.Fatal(err)
	}
	const files = 100
	content, steps := []byte(strings.Repeat("x", 1<<10)), make([]client.BatchStep, files)
	for i := range steps {
		steps[i] = client.StepWrite(fmt.Sprintf("d/%d", i), content, 0o644)
	}
	b.Run("batch", func(b *testing.B) {
		callers(b, 1, func() error { _, err := f.Batch(steps, client.BatchOptions{}); return err })
	})
	for _, atOnce := range []int{1, files} {
		b.Run(fmt.Sprintf("calls/%d", atOnce), func(b *testing.B) {
			callers(b, 1, func() error {
				var g errgroup.Group
				g.SetLimit(atOnce)
				for i := range files {
					g.Go(func() error { return f.WriteFileAtomic(fmt.Sprintf("d/%d", i), content, 0o644) })
				}
				return g.Wait()
			})
		})
	}
}

// BenchmarkStage stages a commit of 10 and of 100 changed files. What is discarded again is not measured.
func BenchmarkStage(b *testing.B) {
	c := dial(b)
	for _, files := range []int{10, 100} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			id := fmt.Sprintf("ctx_stage%d", files)
			folder := ensure(b, c, id)
			for i := range files {
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("new%d", i)), []byte(strings.Repeat("x", 1<<10)), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			g := c.Git(id)
			for b.Loop() {
				staged, err := g.Stage(b.Context(), &ctxfsv1.StageRequest{Repo: "/", Branch: "bench", Message: "change", Author: "b <b@example.com>"})
				if err != nil || int(staged.GetFileCount()) != files {
					b.Fatal(staged.GetFileCount(), err)
				}
				b.StopTimer()
				if err := g.Discard(b.Context(), staged.GetId()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStatBesideGreps sends one stat at a time, alone and while another context has two greps of 1,000 files under way. Compare the p99.
func BenchmarkStatBesideGreps(b *testing.B) {
	c := dial(b)
	ensure(b, c, "ctx_quiet")
	folder := ensure(b, c, "ctx_greedy")
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%d.go", i)), []byte(strings.Repeat("func step(in []byte) (out int)\n", 128)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	f := c.Context("ctx_quiet").With(b.Context())
	stat := func() error { _, err := f.Stat("README.md"); return err }
	b.Run("alone", func(b *testing.B) { callers(b, 1, stat) })
	b.Run("greps", func(b *testing.B) {
		ctx, stop := context.WithCancel(b.Context())
		var greps sync.WaitGroup
		for range 2 {
			greedy := c.Context("ctx_greedy").With(ctx)
			greps.Go(func() {
				for ctx.Err() == nil {
					_, err := greedy.Grep(client.GrepOptions{Path: ".", Pattern: "quetzalcoatlus", Fixed: true}, func(client.GrepFile) error { return nil })
					if err != nil && ctx.Err() == nil {
						b.Error(err)
						return
					}
				}
			})
		}
		callers(b, 1, stat)
		stop()
		greps.Wait()
	})
}

// ensure makes a context, and returns its folder.
func ensure(b *testing.B, c *client.Client, id string) string {
	b.Helper()
	ready, err := c.EnsureContext(b.Context(), id, nil)
	if err != nil {
		b.Fatal(err)
	}
	return ready.GetContext().GetFolder()
}
