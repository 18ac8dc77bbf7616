package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// auditLog keeps who changed what, a line of JSON for each call that may have: never content. Each line is with the
// kernel before its call is answered. One that cannot be written is told in the server's log and by a metric; the call stays done.
type auditLog struct {
	file    *rotatedFile
	metrics *metrics
	log     *zap.Logger
	// strangers bounds the lines about callers that are not known: they must not push the others out.
	strangers *rate.Limiter
	// pathOf returns the path that an open handle was opened by, "" when it is none of the owner's.
	pathOf func(owner string, fd int32) string
}

// openAudit opens the audit log; nil when there is to be none.
func (s *Server) openAudit() (*auditLog, error) {
	if s.cfg.AuditLog == "" {
		return nil, nil //nolint:nilnil // none is what was asked for
	}
	file, err := openRotated(s.cfg.AuditLog, int64(s.cfg.AuditMaxSize), s.cfg.AuditKeep)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return &auditLog{file: file, metrics: s.metrics, log: s.log, strangers: rate.NewLimiter(strangerLines, 10*strangerLines), pathOf: s.parts.handles.PathOf}, nil
}

// strangerLines is how many refusals of callers that are not known are kept of a second; the server's log and metrics have all.
const strangerLines = 10

// auditEntry is a line of the audit log. Paths are virtual; bytes that are not UTF-8 are escaped.
type auditEntry struct {
	Time time.Time `json:"ts"`
	// Role is panel, host or none, who was refused.
	Role    string `json:"role"`
	Panel   string `json:"panel,omitempty"`
	Context string `json:"context,omitempty"`
	// Op is the RPC's name: "WriteFile".
	Op   string `json:"op"`
	Path string `json:"path,omitempty"`
	Dest string `json:"dest,omitempty"`
	FD   int32  `json:"fd,omitempty"`
	// Name is what host calls name: a snapshot, a further context or panel.
	Name string `json:"name,omitempty"`
	// Result is "ok" or the errno.
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

// note keeps what can only be known before the call.
func (a *auditLog) note(c *call, req any) {
	if path := a.handlePath(c, req); path != "" {
		c.about.Store(&about{handlePath: path})
	}
}

// handlePath returns the path of the handle that a call is about, which may be closed by it; "" when it is not audited.
func (a *auditLog) handlePath(c *call, req any) string {
	if a == nil || !audited(c.method, req) {
		return ""
	}
	if r, ok := req.(interface{ GetFd() int32 }); ok {
		return a.pathOf(c.id.Owner, r.GetFd())
	}
	return ""
}

// record writes the line of a call that has ended.
func (a *auditLog) record(c *call, req, resp any, err error, took time.Duration, peer, requestID string) {
	if a == nil || !audited(c.method, req) || (c.id.Role == panels.RoleNone && !a.strangers.Allow()) {
		return
	}
	e := auditEntry{
		Time: c.start.UTC(), Role: roleName(c.id.Role), Panel: c.id.Panel, Context: string(c.id.Context), Op: string(c.method.Desc.Name()),
		Result: "ok", Millis: float64(took.Microseconds()) / 1000, Peer: peer, RequestID: requestID,
	}
	e.describe(c, req, resp)
	if err != nil {
		if e.Result = errnoOf(err); e.Result == "" {
			e.Result = fserrpb.CodeOf(err).String()
		}
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.file.Write(append(line, '\n'))
	}
	if err != nil {
		a.metrics.auditErrors.Inc()
		a.log.Error("the audit log could not be written", zap.Error(err))
	}
}

func roleName(r panels.Role) string {
	switch r {
	case panels.RoleHost:
		return "host"
	case panels.RolePanel:
		return "panel"
	}
	return "none"
}

// describe takes from a request what it is about.
func (e *auditEntry) describe(c *call, req, resp any) {
	if r, ok := req.(*ctxfsv1.WriteStreamRequest); ok {
		req = r.GetOpen()
	}
	if m, ok := req.(proto.Message); ok {
		e.Path, e.Dest = textOf(m, "path", "raw_path", "prefix", "raw_prefix"), textOf(m, "dest", "raw_dest", "target", "raw_target")
		e.Name = textOf(m, "new_context_id", "new_panel_id", "panel_id", "name", "template")
		if id := textOf(m, "context_id"); id != "" {
			e.Context = id
		}
	}
	if r, ok := req.(interface{ GetFd() int32 }); ok && e.Path == "" {
		e.FD = r.GetFd()
		if a := c.about.Load(); a != nil {
			e.Path = a.handlePath
		}
	}
	e.Bytes = max(written(resp), c.wrote.Load())
}

// written returns how much content a call has written, as its response says.
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
