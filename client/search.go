package client

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// GlobOptions of GlobWalk.
type GlobOptions struct {
	// Dir is where the patterns count from; "" means the root.
	Dir string
	// Patterns of doublestar: **, *, ?, [class], {a,b}.
	Patterns []string
	// Exclude leaves out matches with what is below.
	Exclude []string
	// MaxMatches stops the search; 0 means 100,000.
	MaxMatches int32
}

// Glob returns the names that match a doublestar pattern, sorted; it implements fs.GlobFS.
// Unlike fs.Glob it does not enter links to directories. A bad pattern is path.ErrBadPattern.
func (f *FS) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	var names []string
	sum, err := f.GlobWalk(GlobOptions{Dir: ".", Patterns: []string{pattern}}, func(e Entry) error {
		names = append(names, e.inFS())
		return nil
	})
	if err == nil && sum.GetTruncated() {
		err = errors.New("glob: more matches than the server gives; use GlobWalk with MaxMatches")
	}
	slices.Sort(names)
	return names, err
}

// GlobWalk calls visit for each match, and ends at its first error.
func (f *FS) GlobWalk(o GlobOptions, visit func(Entry) error) (*ctxfsv1.GlobSummary, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	p, raw := f.wire(dirOrRoot(o.Dir))
	s, err := f.rpc.Glob(ctx, &ctxfsv1.GlobRequest{
		ContextId: f.id, Path: p, RawPath: raw, Patterns: o.Patterns, Exclude: o.Exclude, WithFileTypes: true, MaxMatches: o.MaxMatches,
	})
	for err == nil {
		var r *ctxfsv1.GlobResponse
		if r, err = s.Recv(); err != nil {
			break
		}
		if r.GetSummary() != nil {
			return r.GetSummary(), nil
		}
		if err := f.visitAll(r.GetMatches().GetEntries(), visit); err != nil {
			return nil, err
		}
	}
	return nil, f.pathError("glob", o.Dir, unlessEnded(err))
}

func (f *FS) visitAll(entries []*ctxfsv1.DirEntry, visit func(Entry) error) error {
	for _, e := range entries {
		if err := visit(f.newEntry(e)); err != nil {
			return err
		}
	}
	return nil
}

// unlessEnded makes a stream that ended without its summary an error.
func unlessEnded(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func dirOrRoot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// GrepOptions of Grep.
type GrepOptions struct {
	// Path is the file or directory to search; "" means the root.
	Path string
	// Pattern is an RE2 expression, or with Fixed a plain string.
	Pattern           string
	Fixed, IgnoreCase bool
	// Include and Exclude are globs of files; one without a slash is matched with the name.
	Include, Exclude []string
	// Before and After are lines of context, 0 to 100.
	Before, After int32
	// MaxCount bounds the matches in one file, MaxMatches those in all.
	MaxCount, MaxMatches int32
}

// Grep calls visit for each file with matches, or a part of them, and ends at its first error.
func (f *FS) Grep(o GrepOptions, visit func(GrepFile) error) (*ctxfsv1.GrepSummary, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	p, raw := f.wire(dirOrRoot(o.Path))
	s, err := f.rpc.Grep(ctx, &ctxfsv1.GrepRequest{
		ContextId: f.id, Path: p, RawPath: raw, Pattern: o.Pattern, FixedStrings: o.Fixed, IgnoreCase: o.IgnoreCase,
		Include: o.Include, Exclude: o.Exclude, BeforeContext: o.Before, AfterContext: o.After,
		MaxCount: o.MaxCount, MaxMatches: o.MaxMatches,
	})
	for err == nil {
		var r *ctxfsv1.GrepResponse
		if r, err = s.Recv(); err != nil {
			break
		}
		if r.GetSummary() != nil {
			return r.GetSummary(), nil
		}
		g := r.GetFile()
		if err := visit(GrepFile{Path: untwin(g.GetPath(), g.GetRawPath()), Lines: g.GetLines()}); err != nil {
			return nil, err
		}
	}
	return nil, f.pathError("grep", o.Path, unlessEnded(err))
}

// GrepFile is a file with matches.
type GrepFile struct {
	// Path is virtual, from the context's root.
	Path string
	// Lines are matching and context lines, in order.
	Lines []*ctxfsv1.GrepLine
}
