package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/statedir"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// auditPage is how many entries a page has unless the request says otherwise, and maxAuditPage the most.
	auditPage, maxAuditPage = 100, 1000
	// auditChunk is how much of the log is read at once, in bytes. maxAuditLine bounds a line: paths and steps are bounded, and longer
	// lines, which something else wrote, are left out.
	auditChunk, maxAuditLine = 64 << 10, 1 << 20
)

// Read implements services.Audit. It reads the files, so entries from before the start are found. A reader delays a writer
// only while it opens a file.
func (a *auditLog) Read(ctx context.Context, req *ctxfsv1.ReadAuditRequest, send func(*ctxfsv1.ReadAuditResponse) error) error {
	limit := int(req.GetLimit())
	switch {
	case limit < 0 || limit > maxAuditPage:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "bad limit", Hint: fmt.Sprintf("use 1 to %d, or 0 for %d", maxAuditPage, auditPage)}
	case limit == 0:
		limit = auditPage
	}
	if req.GetFollow() && req.GetBefore() != "" {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "follow and before", Hint: "set one of them: follow continues at the end of the log"}
	}
	at, err := a.place(req.GetBefore())
	if err != nil {
		return err
	}
	defer at.close()
	back, err := at.clone()
	if err != nil {
		return err
	}
	defer back.close()
	ready := &ctxfsv1.AuditReady{}
	for sent := 0; sent < limit; {
		e, err := back.previous(ctx)
		if errors.Is(err, io.EOF) {
			ready.Complete = true
			break
		}
		if err != nil {
			return err
		}
		if !matches(e, req) {
			continue
		}
		if err := send(&ctxfsv1.ReadAuditResponse{Event: &ctxfsv1.ReadAuditResponse_Entry{Entry: e}}); err != nil {
			return err
		}
		ready.Before, sent = e.GetCursor(), sent+1
	}
	if ready.GetComplete() {
		ready.Before = ""
	}
	if err := send(&ctxfsv1.ReadAuditResponse{Event: &ctxfsv1.ReadAuditResponse_Ready{Ready: ready}}); err != nil || !req.GetFollow() {
		return err
	}
	return a.follow(ctx, at, req, send)
}

// follow sends the entries after a place as they come.
func (a *auditLog) follow(ctx context.Context, at *auditPlace, req *ctxfsv1.ReadAuditRequest, send func(*ctxfsv1.ReadAuditResponse) error) error {
	for {
		more := a.file.changed()
		for {
			e, err := at.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if !matches(e, req) {
				continue
			}
			if err := send(&ctxfsv1.ReadAuditResponse{Event: &ctxfsv1.ReadAuditResponse_Entry{Entry: e}}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fserrpb.FromContext(ctx)
		case <-more:
		}
	}
}

func matches(e *ctxfsv1.AuditEntry, req *ctxfsv1.ReadAuditRequest) bool {
	has := func(want, got string) bool { return want == "" || want == got }
	return e != nil && has(req.GetContextId(), e.GetContextId()) && has(req.GetPanelId(), e.GetPanelId()) && has(req.GetOp(), e.GetOp())
}

// auditPlace is a place in the files of an audit log, between two lines.
type auditPlace struct {
	log  *rotatedFile
	file *os.File
	// id identifies the file, and stays the same when it is renamed: a hash of its first line.
	id string
	// offset is where the next line begins, and buffer what was read beyond (next) or before (previous).
	offset int64
	buffer []byte
}

// place returns a cursor's place; "" means the end.
func (a *auditLog) place(cursor string) (*auditPlace, error) {
	if cursor == "" {
		return a.file.end()
	}
	id, text, ok := strings.Cut(cursor, "-")
	offset, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || offset < 0 {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "bad cursor", Hint: "use the cursor of an entry, or none"}
	}
	for i := range a.file.keep + 1 {
		f, err := a.file.reading(i)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := &auditPlace{log: a.file, file: f, offset: offset}
		if p.id, err = idOf(f); err == nil && p.id == id {
			return p, nil
		}
		p.close()
	}
	return nil, &fserr.Error{Code: fserr.ENOENT, Detail: "the part of the audit log that the cursor is in was removed", Hint: "read from the end"}
}

// idOf returns the ID of a file of the log; "" of an empty one.
func idOf(f *os.File) (string, error) {
	head := make([]byte, 4<<10)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the audit log: %w", err)
	}
	line, _, whole := bytes.Cut(head[:n], []byte("\n"))
	if n == 0 || !whole && n < len(head) {
		return "", nil // its first line is not complete
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:8]), nil
}

func (p *auditPlace) close() { _ = p.file.Close() }

// clone returns the same place, which moves on its own.
func (p *auditPlace) clone() (*auditPlace, error) {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	i, err := p.number()
	if err != nil {
		return nil, err
	}
	f, err := p.log.reading(i)
	if err != nil {
		return nil, err
	}
	return &auditPlace{log: p.log, file: f, id: p.id, offset: p.offset}, nil
}

// number returns the number that the place's file has now. It fails with ENOENT once the file was removed.
func (p *auditPlace) number() (int, error) {
	mine, err := p.file.Stat()
	if err != nil {
		return 0, err
	}
	for i := range p.log.keep + 1 {
		if st, err := os.Stat(p.log.numbered(i)); err == nil && os.SameFile(st, mine) {
			return i, nil
		}
	}
	return 0, &fserr.Error{Code: fserr.ENOENT, Detail: "this part of the audit log was removed", Hint: "read from the end"}
}

// move goes to a file whose number is by more than the present one's. It fails with io.EOF if there is none. No file is renamed between
// its look at the number and its opening of the neighbour: it would skip or repeat a file.
func (p *auditPlace) move(by int) error {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	i, err := p.number()
	if err != nil {
		return err
	}
	if i+by < 0 || i+by > p.log.keep {
		return io.EOF
	}
	f, err := p.log.reading(i + by)
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	p.close()
	p.file, p.buffer, p.offset = f, nil, 0
	p.id, err = idOf(f)
	return err
}

// previous returns the entry before the place, and moves there; nil for a line that is no entry. It fails with io.EOF at the beginning.
func (p *auditPlace) previous(ctx context.Context) (*ctxfsv1.AuditEntry, error) {
	for {
		body := bytes.TrimSuffix(p.buffer, []byte("\n"))
		if i := bytes.LastIndexByte(body, '\n'); i >= 0 || p.offset == int64(len(p.buffer)) && len(p.buffer) > 0 {
			line := body[i+1:]
			p.offset -= int64(len(p.buffer) - i - 1)
			p.buffer = p.buffer[:i+1]
			return p.entry(line, p.offset), nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fserrpb.FromContext(ctx)
		}
		start := p.offset - int64(len(p.buffer))
		if start == 0 {
			if err := p.back(); err != nil {
				return nil, err
			}
			continue
		}
		if len(p.buffer) > maxAuditLine {
			p.offset, p.buffer = start, nil // no line of ours
		}
		n := min(start, auditChunk)
		chunk := make([]byte, n, n+int64(len(p.buffer)))
		if _, err := p.file.ReadAt(chunk, start-n); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		p.buffer = append(chunk, p.buffer...)
	}
}

// back moves to the end of the file before.
func (p *auditPlace) back() error {
	if err := p.move(1); err != nil {
		return err
	}
	st, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.offset = st.Size()
	return nil
}

// next returns the entry after the place, and moves behind it; nil for a line that is no entry. It fails with io.EOF at the end.
func (p *auditPlace) next() (*ctxfsv1.AuditEntry, error) {
	for renamed := false; ; {
		if i := bytes.IndexByte(p.buffer, '\n'); i >= 0 {
			at := p.offset
			line := p.buffer[:i]
			p.offset, p.buffer = p.offset+int64(i)+1, p.buffer[i+1:]
			if p.id == "" {
				id, err := idOf(p.file)
				if err != nil {
					return nil, err
				}
				p.id = id
			}
			return p.entry(line, at), nil
		}
		if len(p.buffer) > maxAuditLine {
			p.offset, p.buffer = p.offset+int64(len(p.buffer)), nil
		}
		chunk := make([]byte, auditChunk)
		n, err := p.file.ReadAt(chunk, p.offset+int64(len(p.buffer)))
		p.buffer = append(p.buffer, chunk[:n]...)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if n > 0 {
			continue
		}
		if renamed { // it was read to its end after it had got its last line
			if err := p.move(-1); err != nil {
				return nil, err
			}
			renamed = false
			continue
		}
		i, err := p.number()
		if err != nil {
			return nil, err
		}
		if renamed = i > 0; !renamed {
			return nil, io.EOF
		}
	}
}

// entry returns the entry of a line; nil if it is none.
func (p *auditPlace) entry(line []byte, offset int64) *ctxfsv1.AuditEntry {
	var e auditEntry
	if json.Unmarshal(line, &e) != nil {
		return nil
	}
	return &ctxfsv1.AuditEntry{
		Cursor: p.id + "-" + strconv.FormatInt(offset, 10), TimeNs: e.Time.UnixNano(), Role: e.Role, PanelId: e.Panel, ContextId: e.Context, Op: e.Op, Right: e.Right,
		Path: e.Path, Dest: e.Dest, Fd: e.FD, Name: e.Name, Steps: e.Steps, Result: e.Result, Bytes: e.Bytes, DurationMs: e.Millis, Peer: e.Peer, RequestId: e.RequestID,
	}
}

// reading opens a file of the log for a reader.
func (r *rotatedFile) reading(i int) (*os.File, error) {
	f, err := statedir.OpenFile(r.numbered(i), os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return f, nil
}

// end returns the place behind the last line.
func (r *rotatedFile) end() (*auditPlace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.reading(0)
	if err != nil {
		return nil, err
	}
	p := &auditPlace{log: r, file: f}
	st, err := f.Stat()
	if err == nil {
		p.offset = st.Size()
		p.id, err = idOf(f)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// changed returns a channel that is closed when a line is written.
func (r *rotatedFile) changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return r.more
}
