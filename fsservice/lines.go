package fsservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxLineScan is how far into a file its lines are looked for, and maxLineCount how far behind them the others are counted, in bytes.
	maxLineScan, maxLineCount = 256 << 20, 64 << 20
	// lineStep is how much is read at a time, in bytes.
	lineStep = 256 << 10
)

// lineScan reads some lines of a text in one pass, and counts all, unless it is to end with those.
type lineScan struct {
	uncounted bool
	// first and last are the lines that are kept, from 1.
	first, last int64
	// line is the one that the next byte belongs to, open whether it has bytes already.
	line int64
	open bool
	kept []byte
	// keep is called before bytes are added to kept.
	keep func(n int) error
}

// linesOf checks a request for lines. It returns nil for one without.
func linesOf(req *ctxfsv1.ReadFileRequest, enc encoding) (*lineScan, error) {
	r := req.GetLines()
	switch {
	case r == nil:
		return nil, nil
	case r.GetStart() < 0 || r.GetCount() < 0:
		return nil, fserr.Invalid("lines from %d, %d of them: neither may be negative", r.GetStart(), r.GetCount())
	case enc == "utf16le":
		return nil, fserr.Invalid("lines cannot be read in the encoding utf16le; read the file whole")
	}
	s := &lineScan{uncounted: r.GetUncounted(), first: max(r.GetStart(), 1), last: math.MaxInt64, line: 1}
	if n := r.GetCount(); n > 0 && s.first <= math.MaxInt64-n {
		s.last = s.first + n - 1
	}
	return s, nil
}

// read reads the lines from r. It reserves memory for them and for their text in enc.
func (s *lineScan) read(ctx context.Context, r io.Reader, enc encoding) (total *int64, err error) {
	s.keep = func(n int) error {
		if len(s.kept)+n > maxReply {
			return &fserr.Error{Code: fserr.EFBIG, Detail: "the lines exceed 3.5 MiB", Hint: "read fewer lines at a time, or use FsService/ReadStream"}
		}
		return reserve(ctx, enc.memory(int64(n)))
	}
	buf := make([]byte, lineStep)
	for done, behind := 0, 0; ; {
		if err := fserrpb.FromContext(ctx); err != nil {
			return nil, err
		}
		n, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			return s.total(), nil
		}
		if err == nil {
			err = s.feed(buf[:n])
		}
		if err != nil {
			return nil, err
		}
		if done += n; s.line > s.last {
			behind += n
		}
		switch {
		case behind > maxLineCount, s.uncounted && s.line > s.last:
			return nil, nil
		case behind == 0 && done > maxLineScan:
			return nil, &fserr.Error{
				Code: fserr.EFBIG, Detail: fmt.Sprintf("line %d is not within the first 256 MiB", s.first),
				Hint: "use FsService/ReadStream with a range of bytes, or FsService/Grep",
			}
		}
	}
}

// feed takes the next bytes.
func (s *lineScan) feed(b []byte) error {
	if s.line < s.first {
		b = b[s.pass(b, s.first-s.line):]
	}
	if len(b) > 0 && s.line >= s.first && s.line <= s.last {
		n := s.pass(b, s.last-s.line+1)
		if err := s.keep(n); err != nil {
			return err
		}
		s.kept = append(s.kept, b[:n]...)
		b = b[n:]
	}
	s.pass(b, math.MaxInt64)
	return nil
}

// pass goes to the end of up to n lines, and returns how many bytes they have.
func (s *lineScan) pass(b []byte, n int64) int {
	if len(b) == 0 {
		return 0
	}
	if ends := int64(bytes.Count(b, []byte("\n"))); ends < n {
		s.line += ends
		s.open = b[len(b)-1] != '\n'
		return len(b)
	}
	at := 0
	for range n {
		at += bytes.IndexByte(b[at:], '\n') + 1
	}
	s.line += n
	s.open = false
	return at
}

// total returns how many lines the text has; nil if they were not to be counted.
func (s *lineScan) total() *int64 {
	if s.uncounted {
		return nil
	}
	n := s.line
	if !s.open {
		n--
	}
	return &n
}
