package review

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	// parallelFrom is from how many items on inParallel uses several goroutines.
	parallelFrom = 64
	// parallelStep is how many items a goroutine takes at a time. Neighbours are mostly of one directory.
	parallelStep = 16
	// parallelMost bounds the goroutines of one call.
	parallelMost = 8
)

// inParallel calls do for each of n items. The calls for few items follow each other. After an error or the end of ctx it starts no
// further ones.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	return spread(ctx, n, parallelFrom, parallelStep, do)
}

// flushesAtOnce is how many files are written and flushed at a time: the journal of a file system commits once for all that wait for it together.
const flushesAtOnce = 16

// atOnce is inParallel for items that wait for the disk.
func atOnce(ctx context.Context, n int, do func(i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(flushesAtOnce)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(i)
		})
	}
	return g.Wait()
}

// spread is inParallel with several goroutines for from items on, each of which takes step items at a time.
func spread(ctx context.Context, n, from, step int, do func(i int) error) error {
	if n < from {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(parallelMost, max(2, runtime.GOMAXPROCS(0))) {
		g.Go(func() error {
			for {
				end := int(next.Add(int64(step)))
				for i := end - step; i < min(end, n); i++ {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := do(i); err != nil {
						return err
					}
				}
				if end >= n {
					return nil
				}
			}
		})
	}
	return g.Wait()
}
