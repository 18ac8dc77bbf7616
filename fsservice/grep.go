package fsservice

import (
	"path"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// grepMessage is about how many bytes of lines travel in one message.
const grepMessage = 256 << 10

// Grep serves FsService.Grep.
func (s *Service) Grep(req *ctxfsv1.GrepRequest, stream grpc.ServerStreamingServer[ctxfsv1.GrepResponse]) error {
	if req.GetPath() == "" && len(req.GetRawPath()) == 0 {
		req.Path = "/"
	}
	return streamPath(s, "grep", req, stream, func(c *call, send func(*ctxfsv1.GrepResponse) error) error {
		q, err := s.newGrepQuery(c.root, c.path, req)
		if err != nil {
			return err
		}
		return q.serve(c, send)
	})
}

func (s *Service) newGrepQuery(root rootfs.Root, base string, req *ctxfsv1.GrepRequest) (*grepQuery, error) {
	q := &grepQuery{memory: s.grepMemory, threads: s.grepThreads, buffers: s.buffers, log: s.log}
	var err error
	if q.base, err = root.Realpath(base); err != nil {
		return nil, err
	}
	if q.lines, err = newLineMatcher(req); err != nil {
		return nil, err
	}
	if q.max, err = searchBound("max_matches", int64(req.GetMaxMatches()), defaultMatches); err != nil {
		return nil, err
	}
	if q.lines.maxCount == 0 || int64(q.lines.maxCount) > q.max {
		q.lines.maxCount = int(q.max) + 1 // which tells that there are more
	}
	if q.maxSize, err = searchBound("max_file_size", req.GetMaxFileSize(), defaultGrepFile); err != nil {
		return nil, err
	}
	q.maxSize = min(q.maxSize, grepMemory)
	if q.include, err = newGlobSet(q.base, req.GetInclude(), true); err != nil {
		return nil, err
	}
	q.exclude, err = newGlobSet(q.base, req.GetExclude(), true)
	return q, err
}

func newLineMatcher(req *ctxfsv1.GrepRequest) (m lineMatcher, err error) {
	m.before, m.after, m.maxCount = int(req.GetBeforeContext()), int(req.GetAfterContext()), int(req.GetMaxCount())
	for field, n := range map[string]int{"before_context": m.before, "after_context": m.after} {
		if n < 0 || n > maxGrepContext {
			return m, invalid("%s is %d; give 0 to %d", field, n, maxGrepContext)
		}
	}
	if m.maxCount < 0 {
		return m, invalid("max_count is %d; give 0 or more", m.maxCount)
	}
	m.grepExpr, err = compileGrep(req.GetPattern(), req.GetFixedStrings(), req.GetIgnoreCase())
	return m, err
}

func (q *grepQuery) serve(c *call, send func(*ctxfsv1.GrepResponse) error) error {
	found := func(rel string, lines []*ctxfsv1.GrepLine) error {
		return sendGrepFile(send, path.Join(q.base, rel), lines)
	}
	st, err := c.root.Stat(q.base)
	if err != nil {
		return err
	}
	run := q.run
	if st.Type() != rootfs.TypeDirectory {
		run = q.runFile
	}
	sum, err := run(c, c.root, found)
	if err != nil {
		return err
	}
	return send(&ctxfsv1.GrepResponse{Event: &ctxfsv1.GrepResponse_Summary{Summary: sum}})
}

// sendGrepFile sends a file's lines in as many messages as they need.
func sendGrepFile(send func(*ctxfsv1.GrepResponse) error, name string, lines []*ctxfsv1.GrepLine) error {
	for len(lines) > 0 {
		n, size := 0, 0
		for n < len(lines) && size < grepMessage {
			size += len(lines[n].GetText()) + len(lines[n].GetRawText()) + 16
			n++
		}
		file := &ctxfsv1.GrepFile{Lines: lines[:n]}
		file.Path, file.RawPath = wirePath(name)
		if err := send(&ctxfsv1.GrepResponse{Event: &ctxfsv1.GrepResponse_File{File: file}}); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}
