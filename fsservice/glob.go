package fsservice

import (
	"path"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// searchBatch is how many entries travel in one message of a search.
const searchBatch = 256

// Glob serves FsService.Glob.
func (s *Service) Glob(req *ctxfsv1.GlobRequest, stream grpc.ServerStreamingServer[ctxfsv1.GlobResponse]) error {
	if req.GetPath() == "" && len(req.GetRawPath()) == 0 {
		req.Path = "/"
	}
	return streamPath(s, "glob", req, stream, func(c *call, send func(*ctxfsv1.GlobResponse) error) error {
		q, err := newGlobQuery(c.root, c.path, req)
		if err != nil {
			return err
		}
		return q.serve(c, req.GetWithFileTypes(), send)
	})
}

func newGlobQuery(root rootfs.Root, base string, req *ctxfsv1.GlobRequest) (*globQuery, error) {
	base, err := root.Realpath(base)
	if err != nil {
		return nil, err
	}
	if len(req.GetPatterns()) == 0 {
		return nil, invalid("no patterns: give at least one, such as **/*.go")
	}
	max, err := searchBound("max_matches", int64(req.GetMaxMatches()), defaultMatches)
	if err != nil {
		return nil, err
	}
	q := &globQuery{base: base, max: max}
	if q.patterns, err = newGlobSet(base, req.GetPatterns(), false); err != nil {
		return nil, err
	}
	q.exclude, err = newGlobSet(base, req.GetExclude(), false)
	return q, err
}

// searchBound returns a request's bound: 0 means the default, less is EINVAL.
func searchBound(field string, n, standard int64) (int64, error) {
	switch {
	case n < 0:
		return 0, invalid("%s is %d; give 1 or more, or 0 for %d", field, n, standard)
	case n == 0:
		return standard, nil
	}
	return n, nil
}

func (q *globQuery) serve(c *call, types bool, send func(*ctxfsv1.GlobResponse) error) error {
	var batch []*ctxfsv1.DirEntry
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		event := &ctxfsv1.GlobResponse_Matches{Matches: &ctxfsv1.DirEntryBatch{Entries: batch}}
		batch = nil
		return send(&ctxfsv1.GlobResponse{Event: event})
	}
	res, err := q.run(c, c.root, func(rel string, e rootfs.Entry) error {
		batch = append(batch, globEntry(q.base, rel, e, types))
		if len(batch) < searchBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return send(&ctxfsv1.GlobResponse{Event: &ctxfsv1.GlobResponse_Summary{Summary: &ctxfsv1.GlobSummary{
		Matches: res.matches, Truncated: res.truncated, Unreadable: res.unreadable,
	}}})
}

func globEntry(base, rel string, e rootfs.Entry, types bool) *ctxfsv1.DirEntry {
	entry := &ctxfsv1.DirEntry{}
	entry.Name, entry.RawName = wirePath(e.Name)
	entry.ParentPath, entry.RawParentPath = wirePath(path.Join(base, path.Dir(rel)))
	if types {
		entry.Type = fileType(e.Type)
	}
	return entry
}
