package fairness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/ctxfs/ctxfs/client"
)

// startedPrefix begins the line by which a process says that it has begun.
const startedPrefix = "started "

// Serve is a process that does jobs, the greedy panel's or another program's: each line of in names the load until the next.
func Serve(ctx context.Context, address, token string, in io.Reader, out io.Writer) error {
	c, err := client.Dial(ctx, client.WithAddress(address), client.WithToken(token))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stop := func() error { return nil }
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := stop(); err != nil {
			return err
		}
		all := append([]load{another}, loads...)
		i := slices.IndexFunc(all, func(l load) bool { return l.name == lines.Text() })
		if i < 0 {
			return fmt.Errorf("no load is called %q", lines.Text())
		}
		stop = all[i].begin(ctx, c)
		if _, err := fmt.Fprintln(out, startedPrefix+lines.Text()); err != nil {
			return err
		}
	}
	return stop()
}

// begin repeats the load's jobs until stop is called. stop returns the first error.
func (l load) begin(ctx context.Context, c *client.Client) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	fs := c.FS().With(ctx)
	var wg sync.WaitGroup
	failed := make(chan error, 1)
	for _, j := range l.jobs {
		for i := range j.atOnce {
			wg.Go(func() {
				for ; ctx.Err() == nil; i++ {
					if err := j.do(fs, i); err != nil && ctx.Err() == nil {
						select {
						case failed <- err:
						default:
						}
						return
					}
				}
			})
		}
	}
	return func() error {
		cancel()
		wg.Wait()
		select {
		case err := <-failed:
			return fmt.Errorf("%s: %w", l.name, err)
		default:
			return nil
		}
	}
}

func readFile(fs *client.FS, i int) error {
	_, err := fs.ReadFile(fileName(i % smallFiles))
	return err
}

func readStream(fs *client.FS, _ int) error {
	r, err := fs.ReadStream(largeName, client.ReadOptions{})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	_ = r.Close()
	return err
}

func grep(fs *client.FS, _ int) error {
	_, err := fs.Grep(client.GrepOptions{Path: "/", Pattern: "no such [a-z]+ here"}, func(client.GrepFile) error { return nil })
	return err
}

func list(fs *client.FS, _ int) error {
	_, err := fs.List("/", client.ListOptions{Recursive: true, Stats: true})
	return err
}

// copyTree copies a directory, and removes the copy.
func copyTree(fs *client.FS, i int) error {
	to := fmt.Sprintf("/copy%d", i)
	if _, err := fs.Cp(directory(0), to, client.CopyOptions{Recursive: true}); err != nil {
		return err
	}
	return fs.RemoveAll(to)
}

func spin(*client.FS, int) error { return nil }
