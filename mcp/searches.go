package mcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type searchArgs struct {
	Path    string   `json:"path" jsonschema:"the directory to search"`
	Pattern string   `json:"pattern" jsonschema:"a glob, from path on: *.ts for its own files, **/*.ts for those below as well"`
	Exclude []string `json:"excludePatterns,omitempty" jsonschema:"globs, from path on, that are left out with what is below them"`
}

type globArgs struct {
	Pattern string `json:"pattern" jsonschema:"a glob from path on, such as src/**/*.go"`
	Path    string `json:"path,omitempty" jsonschema:"the directory; the root without it"`
}

type grepArgs struct {
	Pattern    string `json:"pattern" jsonschema:"a regular expression in RE2's syntax"`
	Path       string `json:"path,omitempty" jsonschema:"the file or directory to search; the root without it"`
	Include    string `json:"include,omitempty" jsonschema:"a glob of the files to search, such as *.ts"`
	IgnoreCase bool   `json:"ignoreCase,omitempty" jsonschema:"upper and lower case are the same"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"the pattern is plain text"`
	Context    int32  `json:"contextLines,omitempty" jsonschema:"how many lines around each match to show, up to 20"`
}

const (
	// maxFound bounds what a search returns, and maxFoundSize its paths, in bytes.
	maxFound, maxFoundSize = 10_000, 4 << 20
	// maxAround bounds the lines around a match.
	maxAround = 20
)

func (s *Server) addSearches() {
	reads := hints{reads: true}
	add(s, "search_files", "Search files", "Finds the files and directories below a directory whose paths match a glob, and returns their full paths.", reads,
		func(ctx context.Context, in searchArgs) (string, error) {
			return s.find(ctx, &ctxfsv1.GlobRequest{Path: in.Path, Patterns: []string{in.Pattern}, Exclude: in.Exclude})
		})
	add(s, "glob", "Glob", "Finds files and directories by a glob of their paths, and returns their full paths.", reads,
		func(ctx context.Context, in globArgs) (string, error) {
			return s.find(ctx, &ctxfsv1.GlobRequest{Path: in.Path, Patterns: []string{in.Pattern}})
		})
	add(s, "grep", "Grep", "Searches files line by line, and returns the matches as path:line:text.", reads, s.grep)
}

// glob returns what a request finds. more says that there is more.
func (s *Server) glob(ctx context.Context, req *ctxfsv1.GlobRequest) (found []*ctxfsv1.DirEntry, more bool, err error) {
	req.ContextId = s.context
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.fs.Glob(ctx, req)
	size := 0
	err = each(stream, err, func(r *ctxfsv1.GlobResponse) error {
		found = append(found, r.GetMatches().GetEntries()...)
		size += proto.Size(r)
		if more = more || r.GetSummary().GetTruncated(); size > maxFoundSize {
			more = true
			return io.EOF
		}
		return nil
	})
	return found, more, err
}

// sortByPath sorts entries by path: a directory, what is below it, and then the names that come after its own.
func sortByPath(found []*ctxfsv1.DirEntry) {
	key := func(e *ctxfsv1.DirEntry) string {
		return strings.ReplaceAll(path.Join(parentOf(e), nameOf(e)), "/", "\x00")
	}
	slices.SortFunc(found, func(a, b *ctxfsv1.DirEntry) int { return cmp.Compare(key(a), key(b)) })
}

func (s *Server) find(ctx context.Context, req *ctxfsv1.GlobRequest) (string, error) {
	req.MaxMatches = maxFound
	found, more, err := s.glob(ctx, req)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "No matches found", nil
	}
	sortByPath(found)
	list := make([]string, 0, len(found))
	for _, e := range found {
		list = append(list, path.Join(parentOf(e), nameOf(e)))
	}
	return s.lines(list, more, "use a narrower pattern for the others"), nil
}

func (s *Server) grep(ctx context.Context, in grepArgs) (string, error) {
	around := max(0, min(in.Context, maxAround))
	req := &ctxfsv1.GrepRequest{
		ContextId: s.context, Path: in.Path, Pattern: in.Pattern, FixedStrings: in.Literal, IgnoreCase: in.IgnoreCase,
		BeforeContext: around, AfterContext: around, MaxMatches: maxFound,
	}
	if in.Include != "" {
		req.Include = []string{in.Include}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.fs.Grep(ctx, req)
	var found []string
	size, more := 0, false
	err = each(stream, err, func(r *ctxfsv1.GrepResponse) error {
		for _, l := range r.GetFile().GetLines() {
			found = append(found, matched(r.GetFile(), l))
			size += len(found[len(found)-1])
		}
		if more = r.GetSummary().GetTruncated(); size > s.limit {
			more = true
			return io.EOF
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "No matches found", nil
	}
	return s.lines(found, more, "use a narrower pattern, path or include for the others"), nil
}

func matched(f *ctxfsv1.GrepFile, l *ctxfsv1.GrepLine) string {
	name, sign := f.GetPath(), ":"
	if raw := f.GetRawPath(); len(raw) > 0 {
		name = fmt.Sprintf("%+q", raw)
	}
	if l.GetContext() {
		sign = "-"
	}
	return fmt.Sprintf("%s%s%d%s%s", name, sign, l.GetLineNumber(), sign, l.GetText())
}
