// Package search finds entries by name (Glob) and lines by content (Grep) below a directory of a context. It reads through the
// rootfs.Root that its caller gives, so it opens nothing outside of it. It knows neither contexts nor panels.
package search

import (
	"context"
	"errors"
	"io"
	"path"
	"runtime/debug"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/background"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// minThreads and maxThreads bound how many files all Greps of a server search at once. A server has a thread for each core,
	// and on a small machine a few more, since some wait for the disk.
	minThreads, maxThreads = 4, 16
	// grepBatch is how many files one goroutine passes to another at once. The first batches are smaller, so that one thread does
	// not get a few large files alone.
	grepBatch = 16
	// grepAhead bounds the batches of a Grep whose results wait for those of an earlier batch, or for the client.
	grepAhead = 4
	// grepMemory bounds the bytes of files that all Greps of a server hold at once.
	grepMemory = 128 << 20
	// defaultGrepFile is max_file_size when it is 0, in bytes.
	defaultGrepFile = 64 << 20
)

// Searcher has what all Greps of a server share: threads, and memory for the files that they read.
type Searcher struct {
	// memory counts the bytes of files that are being searched.
	memory  *semaphore.Weighted
	threads *background.Pool
	buffers mem.BufferPool
	log     *zap.Logger
}

// New returns a Searcher that reads files into buffers. Close it.
func New(buffers mem.BufferPool, log *zap.Logger) *Searcher {
	return &Searcher{
		memory: semaphore.NewWeighted(grepMemory), threads: background.New(minThreads, maxThreads), buffers: buffers, log: log,
	}
}

// Close ends the threads. All searches must have ended.
func (s *Searcher) Close() { s.threads.Close() }

// grepQuery is a Grep whose request was checked.
type grepQuery struct {
	*Searcher
	base             string
	lines            lineMatcher
	include, exclude *globSet
	maxSize, max     int64
}

// Grep calls found for each file that matches, in the order of a walk, with its virtual absolute path and its lines. base is a
// directory or a file. A bad expression or pattern is EINVAL. Files that cannot be read are counted in the summary.
func (s *Searcher) Grep(
	ctx context.Context, root rootfs.Root, base string, req *ctxfsv1.GrepRequest, found func(name string, lines []*ctxfsv1.GrepLine) error,
) (*ctxfsv1.GrepSummary, error) {
	q, err := s.newQuery(root, base, req)
	if err != nil {
		return nil, err
	}
	st, err := root.Stat(q.base)
	if err != nil {
		return nil, err
	}
	run := q.run
	if st.Type() != rootfs.TypeDirectory {
		run = q.runFile
	}
	return run(ctx, root, func(rel string, lines []*ctxfsv1.GrepLine) error { return found(path.Join(q.base, rel), lines) })
}

func (s *Searcher) newQuery(root rootfs.Root, base string, req *ctxfsv1.GrepRequest) (*grepQuery, error) {
	q := &grepQuery{Searcher: s}
	var err error
	if q.base, err = root.Realpath(base); err != nil {
		return nil, err
	}
	if q.lines, err = newLineMatcher(req); err != nil {
		return nil, err
	}
	if q.max, err = bound("max_matches", int64(req.GetMaxMatches()), defaultMatches); err != nil {
		return nil, err
	}
	if q.lines.maxCount == 0 || int64(q.lines.maxCount) > q.max {
		q.lines.maxCount = int(q.max) + 1 // one more shows that the result is truncated
	}
	if q.maxSize, err = bound("max_file_size", req.GetMaxFileSize(), defaultGrepFile); err != nil {
		return nil, err
	}
	q.maxSize = min(q.maxSize, grepMemory)
	if q.include, err = newGlobSet(q.base, req.GetInclude(), true); err != nil {
		return nil, err
	}
	q.exclude, err = newGlobSet(q.base, req.GetExclude(), true)
	return q, err
}

// grepFile is the result of one file.
type grepFile struct {
	rel     string
	lines   []*ctxfsv1.GrepLine
	matches int64
	// cut says that the file has more lines than were kept.
	binary, large, cut bool
	// later says that the file has not been searched yet, since the lines of the files before it take much memory.
	later bool
	err   error
}

// run searches the files below base and calls found for each that matches, in the order of the walk, from one goroutine.
func (q *grepQuery) run(ctx context.Context, root rootfs.Root, found func(rel string, lines []*ctxfsv1.GrepLine) error) (*ctxfsv1.GrepSummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sum := &ctxfsv1.GrepSummary{}
	queue := make(chan *grepFiles, grepAhead)
	var unreadable int64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(queue)
		return q.walk(ctx, root, queue, &unreadable)
	})
	group.Go(func() error { return q.collect(ctx, root, queue, sum, found) })
	err := group.Wait()
	sum.Unreadable += unreadable
	return sum, unlessEnough(err)
}

// runFile is run for a base that is a file; include and exclude do not apply.
func (q *grepQuery) runFile(ctx context.Context, root rootfs.Root, found func(rel string, lines []*ctxfsv1.GrepLine) error) (*ctxfsv1.GrepSummary, error) {
	sum := &ctxfsv1.GrepSummary{}
	b := newGrepFiles([]grepFile{{}})
	defer q.threads.Join()()
	if err := q.threads.Do(ctx, func() { q.searchAll(ctx, root, b) }); err != nil {
		return sum, err
	}
	<-b.done
	f := &b.files[0]
	if f.err != nil {
		return sum, f.err
	}
	if lines := q.add(sum, f); len(lines) > 0 {
		return sum, found("", lines)
	}
	return sum, nil
}

// grepFiles is a batch of files that follow each other. done is closed when all were searched.
type grepFiles struct {
	files []grepFile
	done  chan struct{}
}

func newGrepFiles(files []grepFile) *grepFiles {
	return &grepFiles{files: files, done: make(chan struct{})}
}

// grepSearch collects the files to search into batches.
type grepSearch struct {
	q     *grepQuery
	ctx   context.Context //nolint:containedctx // it lives as long as the walk
	root  rootfs.Root
	queue chan<- *grepFiles
	// started counts the batches that threads have or that wait for one.
	started sync.WaitGroup
	next    []grepFile
	size    int
}

// walk searches the files below base, several at once, and puts them into queue.
func (q *grepQuery) walk(ctx context.Context, root rootfs.Root, queue chan<- *grepFiles, unreadable *int64) error {
	s := grepSearch{q: q, ctx: ctx, root: root, queue: queue, size: 1}
	defer q.threads.Join()()
	defer s.started.Wait()
	reserve, done := budget.Names(ctx)
	defer done()
	err := root.Walk(ctx, q.base, tree.WalkOptions{Sorted: true, Reserve: reserve}, func(rel string, e rootfs.Entry, err error) error {
		switch {
		case err != nil:
			*unreadable++
			return nil
		case q.exclude.match(rel):
			return tree.SkipDir
		case e.Type != rootfs.TypeFile || !q.wants(rel):
			return nil
		}
		return s.add(rel)
	})
	if err != nil || len(s.next) == 0 {
		return err
	}
	return s.start()
}

func (s *grepSearch) add(rel string) error {
	if s.next == nil {
		s.next = make([]grepFile, 0, s.size)
	}
	s.next = append(s.next, grepFile{rel: rel})
	if len(s.next) < s.size {
		return nil
	}
	s.size = min(2*s.size, grepBatch)
	return s.start()
}

// start gives the batch to a thread.
func (s *grepSearch) start() error {
	b := newGrepFiles(s.next)
	s.next = nil
	select {
	case s.queue <- b:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.started.Add(1)
	err := s.q.threads.Do(s.ctx, func() {
		defer s.started.Done()
		s.q.searchAll(s.ctx, s.root, b)
	})
	if err != nil {
		s.started.Done()
	}
	return err
}

// searchAll searches files until ctx ends.
func (q *grepQuery) searchAll(ctx context.Context, root rootfs.Root, b *grepFiles) {
	defer close(b.done)
	size := 0
	for i := range b.files {
		f := &b.files[i]
		if f.err = ctx.Err(); f.err != nil {
			break
		}
		if f.later = size >= grepBatchSize; !f.later {
			size += q.searchOne(ctx, root, f)
		}
	}
}

// searchOne searches a file of the walk and returns about how much memory its lines take. It recovers panics, which would end the
// server on a background thread.
func (q *grepQuery) searchOne(ctx context.Context, root rootfs.Root, f *grepFile) (size int) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("the search of a file panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			f.err = &fserr.Error{Code: fserr.EIO, Detail: "internal error", Hint: "the server's log has the cause"}
		}
	}()
	return q.search(ctx, root, path.Join(q.base, f.rel), f)
}

// searchLater searches a file that was left for later, and waits for the result.
func (q *grepQuery) searchLater(ctx context.Context, root rootfs.Root, f *grepFile) error {
	f.later = false
	one := newGrepFiles([]grepFile{*f})
	defer q.threads.Join()()
	if err := q.threads.Do(ctx, func() { q.searchAll(ctx, root, one) }); err != nil {
		return err
	}
	<-one.done // closed soon after ctx ends
	*f = one.files[0]
	return nil
}

func (q *grepQuery) wants(rel string) bool {
	return len(q.include.patterns) == 0 || q.include.match(rel)
}

// search reads a whole file, which grepMemory bounds, and looks for lines. It returns about how much memory the lines take, in
// bytes.
func (q *grepQuery) search(ctx context.Context, root rootfs.Root, name string, f *grepFile) (size int) {
	file, st, err := root.OpenNoFollow(name, rootfs.O_RDONLY)
	if err != nil {
		f.err = err
		return 0
	}
	defer file.Close()
	if f.large = st.Size > q.maxSize; f.large {
		return 0
	}
	if f.err = q.memory.Acquire(ctx, st.Size); f.err != nil {
		return 0
	}
	defer q.memory.Release(st.Size)
	buf := q.buffers.Get(int(st.Size)) // it may hold another file's text behind what is read
	defer q.buffers.Put(buf)
	text := *buf
	n, err := io.ReadFull(file, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		f.err = err
		return 0
	}
	if f.binary = isBinary(text[:n]); !f.binary {
		f.lines, f.matches, size, f.cut = q.lines.find(ctx, text[:n])
		f.err = ctx.Err()
	}
	return size
}

// collect passes the files' results to found, in order, and adds them up.
func (q *grepQuery) collect(ctx context.Context, root rootfs.Root, queue <-chan *grepFiles, sum *ctxfsv1.GrepSummary, found func(string, []*ctxfsv1.GrepLine) error) error {
	for b := range queue {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		for i := range b.files {
			f := &b.files[i]
			if f.later {
				if err := q.searchLater(ctx, root, f); err != nil {
					return err
				}
			}
			if err := q.report(f, sum, found); err != nil {
				return err
			}
			f.lines = nil // they were sent
		}
	}
	return nil
}

// report passes one file's lines to found. It returns errEnough once max matches were found.
func (q *grepQuery) report(f *grepFile, sum *ctxfsv1.GrepSummary, found func(string, []*ctxfsv1.GrepLine) error) error {
	if lines := q.add(sum, f); len(lines) > 0 {
		if err := found(f.rel, lines); err != nil {
			return err
		}
	}
	if sum.GetTruncated() {
		return errEnough
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
	sum.Truncated = f.cut
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
