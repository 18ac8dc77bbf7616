package fsservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// grepWorkers is how many files one Grep reads at once.
	grepWorkers = 4
	// grepAhead bounds the files that wait for an earlier one's result.
	grepAhead = 64
	// grepMemory bounds the bytes that all Greps of a server hold at once.
	grepMemory = 128 << 20
	// defaultGrepFile is max_file_size when it is 0, in bytes.
	defaultGrepFile = 64 << 20
	// defaultMatches is max_matches when it is 0.
	defaultMatches = 100_000
)

// grepQuery is a Grep, checked.
type grepQuery struct {
	base             string
	lines            lineMatcher
	include, exclude *globSet
	maxSize, max     int64
	memory           *semaphore.Weighted
}

// compileGrep compiles an RE2 expression for searching many lines at once.
func compileGrep(pattern string, fixed, ignoreCase bool) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "pattern is empty", Hint: "give an RE2 expression"}
	}
	if fixed {
		pattern = regexp.QuoteMeta(pattern)
	}
	flags := "(?m)"
	if ignoreCase {
		flags = "(?mi)"
	}
	expr, err := regexp.Compile(flags + "(?:" + pattern + ")")
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Err: err,
			Detail: fmt.Sprintf("bad expression: %v", err), Hint: "the syntax is RE2's; fixed_strings searches for plain text"}
	}
	return expr, nil
}

// grepFile is what became of one file. done is closed when the rest is set.
type grepFile struct {
	rel     string
	done    chan struct{}
	lines   []*ctxfsv1.GrepLine
	matches int64
	binary  bool
	large   bool
	err     error
}

// run searches the files below base and calls found for each that matches, in
// the order of the walk, from one goroutine.
func (q *grepQuery) run(ctx context.Context, root rootfs.Root, found func(rel string, lines []*ctxfsv1.GrepLine) error) (*ctxfsv1.GrepSummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sum := &ctxfsv1.GrepSummary{}
	queue := make(chan *grepFile, grepAhead)
	var unreadable int64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(queue)
		return q.walk(ctx, root, queue, &unreadable)
	})
	group.Go(func() error { return q.collect(ctx, queue, sum, found) })
	err := group.Wait()
	sum.Unreadable += unreadable
	return sum, enough(err)
}

// runFile is run for a base that is a file; include and exclude do not apply.
func (q *grepQuery) runFile(ctx context.Context, root rootfs.Root, found func(rel string, lines []*ctxfsv1.GrepLine) error) (*ctxfsv1.GrepSummary, error) {
	sum := &ctxfsv1.GrepSummary{}
	f := &grepFile{}
	if q.search(ctx, root, q.base, f); f.err != nil {
		return sum, f.err
	}
	if lines := q.add(sum, f); len(lines) > 0 {
		return sum, found("", lines)
	}
	return sum, nil
}

// walk puts the files to search into queue, and searches them, several at once.
func (q *grepQuery) walk(ctx context.Context, root rootfs.Root, queue chan<- *grepFile, unreadable *int64) error {
	var workers errgroup.Group
	workers.SetLimit(grepWorkers)
	defer func() { _ = workers.Wait() }() // the workers' errors are in their files
	return root.Walk(ctx, q.base, rootfs.WalkOptions{}, func(rel string, e rootfs.Entry, err error) error {
		switch {
		case err != nil:
			*unreadable++
			return nil
		case q.exclude.match(rel):
			return rootfs.SkipDir
		case e.Type != rootfs.TypeFile || !q.wants(rel):
			return nil
		}
		f := &grepFile{rel: rel, done: make(chan struct{})}
		select {
		case queue <- f:
		case <-ctx.Done():
			return ctx.Err()
		}
		workers.Go(func() error {
			defer close(f.done)
			q.search(ctx, root, path.Join(q.base, rel), f)
			return nil
		})
		return nil
	})
}

func (q *grepQuery) wants(rel string) bool {
	return len(q.include.patterns) == 0 || q.include.match(rel)
}

// search reads one file whole, which grepMemory bounds, and looks for lines.
func (q *grepQuery) search(ctx context.Context, root rootfs.Root, name string, f *grepFile) {
	file, err := root.OpenNoFollow(name, rootfs.O_RDONLY)
	if err != nil {
		f.err = err
		return
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		f.err = err
		return
	}
	if f.large = st.Size > q.maxSize; f.large {
		return
	}
	if f.err = q.memory.Acquire(ctx, st.Size); f.err != nil {
		return
	}
	defer q.memory.Release(st.Size)
	text := make([]byte, st.Size)
	n, err := io.ReadFull(file, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		f.err = err
		return
	}
	if f.binary = isBinary(text[:n]); !f.binary {
		f.lines, f.matches = q.lines.find(text[:n])
	}
}

// collect reports the files' results in order and adds them up.
func (q *grepQuery) collect(ctx context.Context, queue <-chan *grepFile, sum *ctxfsv1.GrepSummary, found func(string, []*ctxfsv1.GrepLine) error) error {
	for f := range queue {
		select {
		case <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		lines := q.add(sum, f)
		if len(lines) > 0 {
			if err := found(f.rel, lines); err != nil {
				return err
			}
		}
		if sum.GetTruncated() {
			return errSearchEnough
		}
	}
	return nil
}

// add counts f and returns its lines, cut where max is reached.
func (q *grepQuery) add(sum *ctxfsv1.GrepSummary, f *grepFile) []*ctxfsv1.GrepLine {
	switch {
	case f.err != nil:
		sum.Unreadable++
		return nil
	case f.large:
		sum.LargeSkipped++
		return nil
	case f.binary:
		sum.BinarySkipped++
		return nil
	}
	sum.FilesSearched++
	if f.matches == 0 {
		return nil
	}
	if sum.Matches == q.max {
		sum.Truncated = true
		return nil
	}
	sum.FilesMatched++
	room := q.max - sum.Matches
	sum.Matches += min(f.matches, room)
	if f.matches <= room {
		return f.lines
	}
	sum.Truncated = true
	return firstMatches(f.lines, room)
}

// firstMatches returns the lines up to the n-th match.
func firstMatches(lines []*ctxfsv1.GrepLine, n int64) []*ctxfsv1.GrepLine {
	for i, line := range lines {
		if !line.GetContext() {
			n--
		}
		if n == 0 {
			return lines[:i+1]
		}
	}
	return lines
}
