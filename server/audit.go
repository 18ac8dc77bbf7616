package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server/services"
)

// auditLog records changes: a line of JSON, without content, for each call that may change something. The kernel has the line before
// the call is answered. A line that cannot be written is reported in the server's log and by a metric; the call stays done.
type auditLog struct {
	file    *rotatedFile
	metrics *metrics
	log     *zap.Logger
	// strangers bounds the lines about unknown callers, which must not push the others out.
	strangers *rate.Limiter
}

// openAudit opens the audit log; nil when none is configured.
func (s *Server) openAudit() (*auditLog, error) {
	if s.cfg.AuditLog == "" {
		return nil, nil //nolint:nilnil // a nil log records nothing
	}
	file, err := openRotated(s.cfg.AuditLog, int64(s.cfg.AuditMaxSize), s.cfg.AuditKeep)
	if err != nil {
		return nil, fmt.Errorf("open the audit log (--audit-log): %w", err)
	}
	return &auditLog{file: file, metrics: s.metrics, log: s.log, strangers: rate.NewLimiter(strangerLines, 10*strangerLines)}, nil
}

// strangerLines is how many refusals of unknown callers are recorded in a second; the server's log and metrics have all.
const strangerLines = 10

// auditEntry is a line of the audit log. Paths are virtual; bytes that are not UTF-8 are escaped.
type auditEntry struct {
	Time time.Time `json:"ts"`
	// Role is panel, host, console, server for a timed collection, or none for a caller that was refused.
	Role    string `json:"role"`
	Panel   string `json:"panel,omitempty"`
	Context string `json:"context,omitempty"`
	// Op is the RPC's name: "WriteFile".
	Op string `json:"op"`
	// Right is the right of OpenPanel that a panel used: "review", "exec".
	Right string `json:"right,omitempty"`
	Path  string `json:"path,omitempty"`
	Dest  string `json:"dest,omitempty"`
	FD    int32  `json:"fd,omitempty"`
	// Name is the snapshot, further context or panel that a host's call names, or the rule by which a collection deleted the context.
	Name string `json:"name,omitempty"`
	// Steps are those of a batch, up to maxAuditSteps: "rename /a /b".
	Steps []string `json:"steps,omitempty"`
	// Result is "ok", the errno, or the reason of a refusal.
	Result string `json:"result"`
	// Bytes is how much content was written.
	Bytes     int64   `json:"bytes,omitempty"`
	Millis    float64 `json:"dur_ms"`
	Peer      string  `json:"peer,omitempty"`
	RequestID string  `json:"request_id"`
}

// audited reports whether a call is recorded: one of ours that may change something.
func audited(m *method.Method, req any) bool {
	if m.Reads() || !strings.HasPrefix(m.Name, "/ctxfs.") {
		return false
	}
	message, _ := req.(proto.Message)
	return m.Changes(message)
}

// record writes the line of a call that has ended.
func (a *auditLog) record(c *call, req, resp any, err error, took time.Duration, peer, requestID string) {
	if a == nil || !audited(c.method, req) || (c.id.Role == panels.RoleNone && !a.strangers.Allow()) {
		return
	}
	e := auditEntry{
		Time: c.start.UTC(), Role: roleName(c.id), Panel: c.id.Panel, Context: string(c.id.Context), Op: string(c.method.Desc.Name()),
		Result: "ok", Millis: millis(took), Peer: peer, RequestID: requestID,
	}
	if c.id.Rights&panels.RightReview != 0 && accessOf(c.method) == forReviewer {
		e.Right, e.Context = "review", "" // the request names the context
	}
	if c.id.Rights&panels.RightExec != 0 && accessOf(c.method) == forExec {
		e.Right = "exec"
	}
	if c.id.Rights&panels.RightGitPush != 0 && accessOf(c.method) == forPush {
		e.Right = "git_push"
	}
	e.describe(c, req, resp)
	if err != nil {
		e.Result = cmp.Or(fserrpb.ReasonOf(err), fserrpb.CodeOf(err).String())
	}
	a.write(e)
}

func (a *auditLog) write(e auditEntry) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.file.Write(append(line, '\n'))
	}
	if err != nil {
		a.metrics.auditErrors.Inc()
		a.log.Error("the audit log could not be written", zap.Error(err))
	}
}

func roleName(id panels.Identity) string {
	switch {
	case id.Console:
		return "console"
	case id.Role == panels.RoleHost:
		return "host"
	case id.Role == panels.RolePanel:
		return "panel"
	}
	return "none"
}

// describe fills in what a request is about.
func (e *auditEntry) describe(c *call, req, resp any) {
	if r, ok := req.(*ctxfsv1.WriteStreamRequest); ok {
		req = r.GetOpen()
	}
	if r, ok := req.(*ctxfsv1.ImportRequest); ok {
		req = r.GetOpen()
	}
	if r, ok := req.(*ctxfsv1.AttachRequest); ok {
		req = r.GetOpen()
	}
	if r, ok := req.(interface{ GetCommand() *ctxfsv1.Command }); ok {
		req = r.GetCommand()
		defer func() { e.Name = fserrpb.Printable(strings.Join(services.Argv(r.GetCommand()), " ")) }()
	}
	if m, ok := req.(proto.Message); ok {
		e.Path, e.Dest = textOf(m, "path", "raw_path", "prefix", "raw_prefix"), textOf(m, "dest", "raw_dest", "target", "raw_target")
		e.Name = textOf(m, "new_context_id", "new_panel_id", "panel_id", "name", "template", "process_id")
		if id := textOf(m, "context_id"); id != "" {
			e.Context = id
		}
	}
	if r, ok := req.(*ctxfsv1.BatchRequest); ok {
		e.Steps = auditedSteps(r.GetSteps())
	}
	if r, ok := req.(*ctxfsv1.PushRequest); ok {
		e.Name, e.Dest = r.GetId(), fserrpb.Printable(strings.Join([]string{r.GetTarget().String(), r.GetRemote(), r.GetBranch(), r.GetExpectedCommit()}, " "))
	}
	if r, ok := req.(interface{ GetFd() int32 }); ok && e.Path == "" {
		e.FD = r.GetFd()
		if h := c.handle(); h != nil {
			e.Path = h.Path
		}
	}
	e.Bytes = max(written(resp), c.wrote.Load())
}

// maxAuditSteps is how many steps of a batch a line has, and maxAuditBytes how many bytes of them: a line does not push out many others. The
// next entry counts the rest.
const (
	maxAuditSteps = 100
	maxAuditBytes = 16 << 10
)

// auditedSteps returns the methods and paths of a batch's steps.
func auditedSteps(steps []*ctxfsv1.BatchStep) []string {
	var out []string
	size := 0
	for i, s := range steps {
		if i == maxAuditSteps || size > maxAuditBytes {
			return append(out, fmt.Sprintf("and %d more", len(steps)-i))
		}
		m := s.ProtoReflect()
		field := m.WhichOneof(m.Descriptor().Oneofs().ByName("change"))
		if field == nil {
			out = append(out, "")
			continue
		}
		change := m.Get(field).Message().Interface()
		words := []string{field.JSONName(), textOf(change, "path", "raw_path"), textOf(change, "dest", "raw_dest")}
		out = append(out, strings.TrimRight(strings.Join(words, " "), " "))
		size += len(out[i])
	}
	return out
}

// written returns how much content a call has written according to its response.
func written(resp any) int64 {
	if r, ok := resp.(interface{ GetBytesWritten() int64 }); ok {
		return r.GetBytesWritten()
	}
	return 0
}

// textOf returns the first of the named fields that a message has and that is set, at most 1 KiB of it.
func textOf(m proto.Message, names ...protoreflect.Name) string {
	r := m.ProtoReflect()
	for _, name := range names {
		field := r.Descriptor().Fields().ByName(name)
		if field == nil || !r.Has(field) {
			continue
		}
		if field.Kind() == protoreflect.BytesKind {
			return fserrpb.Printable(string(r.Get(field).Bytes()))
		}
		return fserrpb.Printable(r.Get(field).String())
	}
	return ""
}

// rotatedFile is a file that lines are appended to. When it has become too large, path is renamed to path.1, path.1 to path.2, and so
// on; the last one is removed. It continues the file of an earlier process.
type rotatedFile struct {
	path    string
	maxSize int64
	keep    int

	mu   sync.Mutex
	file *os.File
	size int64
	// torn says that the file does not end with a newline.
	torn bool
	// more is closed at the next line; nil if nobody waits.
	more chan struct{}
}

func openRotated(path string, maxSize int64, keep int) (*rotatedFile, error) {
	r := &rotatedFile{path: path, maxSize: maxSize, keep: keep}
	return r, r.open()
}

// open opens the file, which only its owner may read.
func (r *rotatedFile) open() error {
	f, err := statedir.OpenFile(r.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		_, err = f.ReadAt(last, st.Size()-1)
		r.torn = last[0] != '\n'
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, st.Size()
	return nil
}

// Write appends a line with one system call, so that lines of several processes are not mixed. If a full disk or a crash has left part
// of a line, Write ends that line first.
func (r *rotatedFile) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return 0, fs.ErrClosed
	}
	var turned error
	if r.size > 0 && r.size+int64(len(line)) > r.maxSize {
		turned = r.turn()
	}
	text, ended := line, 0
	if r.torn {
		text, ended = append([]byte{'\n'}, line...), 1
	}
	n, err := r.file.Write(text)
	r.size += int64(n)
	r.torn = err != nil && (n > 0 || r.torn)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
	return max(0, n-ended), errors.Join(err, turned)
}

// turn begins a new file; if that fails, the old one stays. It makes the new file first. Otherwise the old files would be renamed, and
// finally lost, each time that a full disk or a lack of descriptors prevents the new one.
func (r *rotatedFile) turn() error {
	next := r.path + ".new"
	f, err := statedir.OpenFile(next, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := r.moveUp(next); err != nil {
		return errors.Join(err, f.Close())
	}
	old := r.file
	r.file, r.size, r.torn = f, 0, false
	return old.Close()
}

// moveUp gives each file the next number, and renames next to path.
func (r *rotatedFile) moveUp(next string) error {
	for i := r.keep - 1; i >= 0; i-- {
		if err := os.Rename(r.numbered(i), r.numbered(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(next, r.path)
}

func (r *rotatedFile) numbered(i int) string {
	if i == 0 {
		return r.path
	}
	return fmt.Sprintf("%s.%d", r.path, i)
}

// Close closes the file; later writes fail.
func (r *rotatedFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
