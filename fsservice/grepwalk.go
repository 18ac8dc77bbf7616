package fsservice

import (
	"context"
	"errors"
	"io"
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
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// minGrepThreads and maxGrepThreads bound how many files all Greps of a server search at once. It is
	// as many as there are cores, and where there are few, more: some wait for the disk.
	minGrepThreads, maxGrepThreads = 4, 16
	// grepBatch is how many files go from one goroutine to another at once. The first
	// batches are smaller, so that a few large files are not left to one thread.
	grepBatch = 16
	// grepAhead bounds the batches of a Grep whose results wait for an earlier one's, or for the client.
	grepAhead = 4
	// grepMemory bounds the bytes of files that all Greps of a server hold at once.
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
	buffers          mem.BufferPool
	threads          *background.Pool
	log              *zap.Logger
}

// newGrepThreads returns the threads that search for all Greps of a server.
func newGrepThreads() *background.Pool {
	return background.New(minGrepThreads, maxGrepThreads)
}

// grepFile is what became of one file.
type grepFile struct {
	rel     string
	lines   []*ctxfsv1.GrepLine
	matches int64
	// cut says that the file has more lines than were kept.
	binary, large, cut bool
	// later says that the file has not been searched yet: the lines of those before it take much memory.
	later bool
	err   error
}

// run searches the files below base and calls found for each that matches, in
// the order of the walk, from one goroutine.
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
	return sum, enough(err)
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

// grepFiles are files that follow each other. done is closed when all were searched.
type grepFiles struct {
	files []grepFile
	done  chan struct{}
}

func newGrepFiles(files []grepFile) *grepFiles {
	return &grepFiles{files: files, done: make(chan struct{})}
}

// grepSearch gathers the files to search into batches.
type grepSearch struct {
	q     *grepQuery
	ctx   context.Context //nolint:containedctx // it lives as long as the walk
	root  rootfs.Root
	queue chan<- *grepFiles
	// started counts the batches that threads have or wait for.
	started sync.WaitGroup
	next    []grepFile
	size    int
}

// walk puts the files to search into queue, and searches them, several at once.
func (q *grepQuery) walk(ctx context.Context, root rootfs.Root, queue chan<- *grepFiles, unreadable *int64) error {
	s := grepSearch{q: q, ctx: ctx, root: root, queue: queue, size: 1}
	defer q.threads.Join()()
	defer s.started.Wait()
	reserve, done := walkMemory(ctx)
	defer done()
	err := root.Walk(ctx, q.base, tree.WalkOptions{Reserve: reserve}, func(rel string, e rootfs.Entry, err error) error {
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

// start has the batch searched.
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

// searchOne searches a file of the walk and returns about how much memory its lines take. On a background thread a panic would end
// the server.
func (q *grepQuery) searchOne(ctx context.Context, root rootfs.Root, f *grepFile) (size int) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("the search of a file panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			f.err = &fserr.Error{Code: fserr.EIO, Detail: "internal error", Hint: "the server's log has the cause"}
		}
	}()
	return q.search(ctx, root, under(q.base, f.rel), f)
}

// searchLater searches a file whose turn has come. Only its caller waits.
func (q *grepQuery) searchLater(ctx context.Context, root rootfs.Root, f *grepFile) error {
	f.later = false
	one := newGrepFiles([]grepFile{*f})
	defer q.threads.Join()()
	if err := q.threads.Do(ctx, func() { q.searchAll(ctx, root, one) }); err != nil {
		return err
	}
	<-one.done // which ends with ctx
	*f = one.files[0]
	return nil
}

func (q *grepQuery) wants(rel string) bool {
	return len(q.include.patterns) == 0 || q.include.match(rel)
}

// search reads one file whole, which grepMemory bounds, and looks for lines. It returns about how much memory those
// take, in bytes.
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
	buf := q.buffers.Get(int(st.Size)) // it may hold another file's text: only what is read is looked at
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

// collect reports the files' results in order and adds them up.
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
			if err := q.tell(f, sum, found); err != nil {
				return err
			}
			f.lines = nil // they were sent
		}
	}
	return nil
}

// tell reports one file's lines; errSearchEnough when there may be no more.
func (q *grepQuery) tell(f *grepFile, sum *ctxfsv1.GrepSummary, found func(string, []*ctxfsv1.GrepLine) error) error {
	if lines := q.add(sum, f); len(lines) > 0 {
		if err := found(f.rel, lines); err != nil {
			return err
		}
	}
	if sum.GetTruncated() {
		return errSearchEnough
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
