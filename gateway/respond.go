package gateway

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

const (
	allowedMethods = "GET, HEAD, OPTIONS"
	// smallContent is the largest content that is sent with its head at once, and smallHead what a head usually has, in bytes.
	smallContent, smallHead = 16 << 10, 2 << 10
	// pagePart is how much of a file is sent at a time, in bytes.
	pagePart = 1 << 20
	// settled is how long after a change a validator is certain. Before Linux 6.13 a file system's times move in ticks, so that a
	// second change within a tick cannot be seen.
	settled = 20 * time.Millisecond
	// deniedFeatures are browser features that no site's page may use.
	deniedFeatures = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), hid=(), bluetooth=(), midi=(), display-capture=()"
	// sandbox gives every document an opaque origin.
	sandbox = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"
)

// mimeTypes are the types of files by extension. The system's table is never asked: it differs between machines.
var mimeTypes = map[string]string{
	".html": htmlType, ".htm": htmlType, ".xhtml": "application/xhtml+xml", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".cjs": "text/javascript; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".jsonld": "application/ld+json", ".webmanifest": "application/manifest+json",
	".wasm": "application/wasm", ".xml": "text/xml", ".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8",
	".csv": "text/csv; charset=utf-8", ".vtt": "text/vtt; charset=utf-8", ".ts": "text/plain; charset=utf-8", ".tsx": "text/plain; charset=utf-8",
	".jsx": "text/plain; charset=utf-8", ".log": "text/plain; charset=utf-8", ".yml": "text/plain; charset=utf-8", ".yaml": "text/plain; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".avif": "image/avif", ".ico": "image/x-icon", ".bmp": "image/bmp",
	".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf",
	".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/quicktime",
	".mp3": "audio/mpeg", ".m4a": "audio/mp4", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg", ".wav": "audio/wav", ".flac": "audio/flac",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar",
}

const (
	htmlType    = "text/html"
	unknownType = "application/octet-stream"
)

func mimeType(name string) string {
	if t, ok := mimeTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return unknownType
}

// plain are headers on every response of the address of sites. The responses share the values.
var plain = http.Header{
	"X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"}, "X-Robots-Tag": {"noindex"},
	"Permissions-Policy": {deniedFeatures}, "Origin-Agent-Cluster": {"?1"},
}

func plainHeaders(h http.Header) { maps.Copy(h, plain) }

// policyHeaders sets what keeps the site's pages apart from everything else. Every response has the policy, not only documents: a worker
// gets the policy of its script.
func (v *visit) policyHeaders(h http.Header) {
	plainHeaders(h)
	h.Set("Content-Security-Policy", v.policy())
	if v.site.Options.Policy != sites.PolicyOpen {
		// Content-Security-Policy leaves out navigations, speculation rules, preconnect, DNS and WebRTC.
		h.Set("Connection-Allowlist", `("`+v.base+`*"); redirects=allow`)
	}
	if v.site.Options.Isolate {
		h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	}
	if v.site.Options.Form == sites.FormPath {
		// Documents have an opaque origin: their modules, fonts and fetches are cross-origin requests with "Origin: null". Browsers
		// refuse a sandboxed document that has a Cross-Origin-Opener-Policy.
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "ETag, Accept-Ranges, Content-Range")
		return
	}
	h.Set("Cross-Origin-Resource-Policy", v.resourcePolicy())
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// resourcePolicy returns the Cross-Origin-Resource-Policy of the host form. A parent with Cross-Origin-Embedder-Policy shows only frames
// that permit it; frame-ancestors still names the parents.
func (v *visit) resourcePolicy() string {
	if v.site.Options.Isolate && len(v.site.Options.Parents) > 0 {
		return "cross-origin"
	}
	return "same-origin"
}

// policy returns the Content-Security-Policy. It names the site by its URL, since 'self' would include the other sites of the path form.
func (v *visit) policy() string {
	o := v.site.Options
	rules := []string{"frame-ancestors " + strings.Join(append([]string{"'self'"}, o.Parents...), " ")}
	switch o.Policy {
	case sites.PolicyNoNetwork:
		rules = append(rules, "default-src "+v.base+" 'unsafe-inline' 'unsafe-eval' data: blob:", "form-action "+v.base, "base-uri "+v.base)
	case sites.PolicyStrict:
		rules = append(rules, "default-src "+v.base+" data: blob:", "script-src "+v.base, "style-src "+v.base+" 'unsafe-inline'", "object-src 'none'",
			"form-action "+v.base, "base-uri "+v.base)
	}
	if o.Form == sites.FormPath {
		rules = append(rules, sandbox)
	}
	return strings.Join(rules, "; ")
}

func (v *visit) options() {
	h := v.w.Header()
	h.Set("Allow", allowedMethods)
	if v.site.Options.Form == sites.FormPath {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Range, If-Range, If-Match, If-None-Match, Cache-Control")
		h.Set("Access-Control-Max-Age", "600")
	}
	h.Set("Cache-Control", "no-store")
	v.w.WriteHeader(http.StatusNoContent)
}

// send sends a file, or the part of it that the request asks for, and closes content, which was opened at a time or later.
func (v *visit) send(ctx context.Context, t *transfer, content *fsservice.Content, name string, at time.Time) error {
	file := &contentReader{ctx: ctx, content: content, size: content.Stat.GetSize(), t: t}
	defer file.close()
	if err := file.load(); err != nil {
		return err
	}
	kind, tag := mimeType(name), v.etag(content, at)
	v.w.Header().Set("Cache-Control", v.caching(name))
	if kind != htmlType {
		return v.respond(ctx, t, kind, tag, file, file.size)
	}
	doc, err := v.document(file, file.size)
	if err != nil {
		return err
	}
	if kind += doc.charset; doc.spliced != nil {
		return v.respond(ctx, t, kind, withSuffix(tag, doc.mark), doc.spliced, doc.spliced.length())
	}
	return v.respond(ctx, t, kind, tag, file, file.size)
}

// respond sends a body of a type, a validator and a size as the request's conditions, ranges and codings ask for it.
func (v *visit) respond(ctx context.Context, t *transfer, kind, tag string, body io.ReadSeeker, size int64) error {
	out := &contentWriter{ResponseWriter: v.w, ctx: ctx, t: t, coding: v.coding(kind, size)}
	ranges, only := rangesFor(v.r.Header.Get("Range"), size), v.r.Header.Get("If-Range")
	if tag == "" || only != "" && only != tag {
		ranges = ""
	}
	if ranges != "" {
		out.coding = "" // a range is one of the file as it is
	}
	if out.coding != "" {
		tag = withSuffix(tag, out.coding)
	}
	v.r.Header.Set("Range", ranges)
	h := v.w.Header()
	h.Set("Content-Type", kind)
	if tag != "" {
		h.Set("Etag", tag)
	}
	// Without a time of modification ServeContent compares validators only: a time in seconds would make a file that is changed twice
	// in a second look unchanged.
	v.atOnce(size <= smallContent && out.coding == "", out, func() { http.ServeContent(out, v.r, "", time.Time{}, body) })
	return out.end()
}

// coding returns the content coding for a text of a type and size; "" means none. It adds what the choice depends on to Vary.
func (v *visit) coding(kind string, size int64) string {
	if !v.g.cfg.Compress || size < minCompressed || !isText(kind) {
		return ""
	}
	v.w.Header().Add("Vary", "Accept-Encoding")
	return codingFor(v.r.Header.Values("Accept-Encoding"))
}

// caching returns the Cache-Control of a file. What stands for a path that is missing depends on more than the URL.
func (v *visit) caching(name string) string {
	if v.site.Options.Snapshot != "" && (v.dir || name == v.path()) {
		return "private, max-age=31536000, immutable"
	}
	return "no-cache"
}

// atOnce runs send. If small, it sends what send writes at once. A connection of HTTP/2 has several responses.
func (v *visit) atOnce(small bool, out *contentWriter, send func()) {
	conn, ok := v.r.Context().Value(tailKey{}).(*tailConn)
	if !small || !ok || v.r.ProtoMajor != 1 {
		send()
		return
	}
	conn.hold()
	defer func() { out.keep(conn.release()) }()
	send()
	out.keep(out.t.control.Flush())
}

// etag returns the validator of a file whose attributes were read at a time or later: "" if it was just changed, since a further change may
// leave the attributes as they are. A weak validator would not do: If-None-Match takes it for the strong one. Nothing in a snapshot changes.
func (v *visit) etag(content *fsservice.Content, at time.Time) string {
	snapshot := v.site.Options.Snapshot != ""
	if !snapshot && at.Sub(time.Unix(0, content.Stat.GetCtimeNs())) < settled {
		return ""
	}
	return `"` + content.ETag(snapshot) + `"`
}

// contentReader reads a file for http.ServeContent, which may read several ranges from a goroutine of its own.
type contentReader struct {
	ctx     context.Context //nolint:containedctx // it belongs to the request
	t       *transfer
	size    int64
	mu      sync.Mutex
	content *fsservice.Content
	off     int64
	closed  bool
	// whole is all of a small file, and buffer what it is in; nil for a larger one.
	whole  []byte
	buffer *[]byte
}

// load reads a small file. It fails with EAGAIN if the file has become shorter since it was opened.
func (c *contentReader) load() error {
	if c.size == 0 || c.size > smallContent {
		return nil
	}
	part, err := c.part(c.size)
	if err != nil {
		return err
	}
	c.buffer = smallBuffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in it
	whole := (*c.buffer)[:c.size]
	if _, err := io.ReadFull(part, whole); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = &fserr.Error{Code: fserr.EAGAIN, Detail: "the file became shorter while it was read", Err: err}
		}
		return err
	}
	c.whole = whole
	return nil
}

// Seek implements io.Seeker.
func (c *contentReader) Seek(off int64, whence int) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		off += c.off
	case io.SeekEnd:
		off += c.size
	}
	c.off = off
	return off, nil
}

// Read implements io.Reader. A file that has become shorter ends early.
func (c *contentReader) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil && !c.closed && c.off < c.size {
		n := copy(p, c.whole[c.off:])
		c.off += int64(n)
		return n, nil
	}
	part, err := c.part(int64(len(p)))
	if err != nil {
		return 0, err
	}
	n, err := part.Read(p)
	c.off += int64(n)
	return n, err
}

// part returns up to n bytes from the offset on. c.mu is held.
func (c *contentReader) part(n int64) (*fsservice.Part, error) {
	if c.closed || c.off >= c.size {
		return nil, io.EOF
	}
	c.content.Range(c.off, c.size-c.off)
	return c.content.Part(c.ctx, min(n, pagePart))
}

// sendTo sends n bytes from the offset on, which the kernel copies where it can.
func (c *contentReader) sendTo(w io.Writer, n int64) (sent int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil {
		if err := c.t.extend(c.ctx, c.t.control.SetWriteDeadline); err != nil {
			return 0, err
		}
		moved, err := w.Write(c.whole[c.off:][:n])
		c.off += int64(moved)
		return int64(moved), err
	}
	for sent < n {
		part, err := c.part(n - sent)
		if err == nil {
			err = c.t.extend(c.ctx, c.t.control.SetWriteDeadline)
		}
		if err != nil {
			return sent, err
		}
		want := part.Left
		moved, err := io.Copy(w, &steadyPart{part, func() error { return c.t.extend(c.ctx, c.t.control.SetWriteDeadline) }})
		c.off += moved
		sent += moved
		if err == nil && moved < want {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func (c *contentReader) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.content.Close()
	if c.buffer != nil {
		smallBuffers.Put(c.buffer)
		c.whole, c.buffer = nil, nil
	}
}

// contentWriter sends what http.ServeContent copies, and keeps its error.
type contentWriter struct {
	http.ResponseWriter
	ctx context.Context //nolint:containedctx // it belongs to the request
	t   *transfer
	// coding is the content coding of a whole file; "" means none. encoder applies it; it is nil before the first byte.
	coding  string
	encoder io.WriteCloser
	err     error
}

// WriteHeader implements http.ResponseWriter. ServeContent says in the head what it would send without the coding.
func (c *contentWriter) WriteHeader(code int) {
	c.t.begun = true
	if code != http.StatusOK {
		c.coding = ""
	}
	if h := c.Header(); c.coding != "" {
		h.Set("Content-Encoding", c.coding)
		h.Del("Content-Length")
		h.Del("Accept-Ranges")
	}
	c.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (c *contentWriter) Write(p []byte) (int, error) {
	if c.coding == "" {
		return c.send(p)
	}
	if c.encoder == nil {
		c.encoder = newEncoder(c.coding, plainWriter{c})
	}
	n, err := c.encoder.Write(p)
	c.keep(err)
	return n, err
}

// end sends what the encoder still has. It returns the first error of the response; after one the content gets no end.
func (c *contentWriter) end() error {
	if c.encoder != nil && c.err == nil {
		c.keep(c.encoder.Close())
	}
	return c.err
}

// plainWriter writes to the client without a coding.
type plainWriter struct{ c *contentWriter }

// Write implements io.Writer.
func (w plainWriter) Write(p []byte) (int, error) { return w.c.send(p) }

// send sends bytes as they are.
func (c *contentWriter) send(p []byte) (int, error) {
	err := c.t.extend(c.ctx, c.t.control.SetWriteDeadline)
	n := 0
	if err == nil {
		n, err = c.ResponseWriter.Write(p)
	}
	c.keep(err)
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (c *contentWriter) ReadFrom(src io.Reader) (n int64, err error) {
	limited, isLimited := src.(*io.LimitedReader)
	var file *contentReader
	if isLimited {
		file, _ = limited.R.(*contentReader)
	}
	switch {
	case file == nil:
		n, err = io.Copy(struct{ io.Writer }{c}, src)
		if isLimited && err == nil && limited.N > 0 {
			err = io.ErrUnexpectedEOF
		}
	case c.coding != "":
		n, err = file.sendTo(struct{ io.Writer }{c}, limited.N)
		limited.N -= n
	default:
		n, err = file.sendTo(c.ResponseWriter, limited.N)
		limited.N -= n
	}
	c.keep(err)
	return n, err
}

func (c *contentWriter) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// fail answers with the reason why there is no content. It does not show what the server's disk has.
func (v *visit) fail(err error) {
	status, text := http.StatusInternalServerError, "the server could not read the file"
	switch codeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.EISDIR, fserr.ELOOP, fserr.ESTALE, fserr.EOPNOTSUPP:
		status, text = http.StatusNotFound, "not found"
	case fserr.EACCES, fserr.EPERM:
		status, text = http.StatusForbidden, "this path leads outside of the site's context, or may not be read"
	case fserr.EINVAL, fserr.ENAMETOOLONG:
		status, text = http.StatusBadRequest, "no file can have this path"
	case fserr.EFBIG:
		status, text = http.StatusInsufficientStorage, "the directory is too large to be listed"
	case fserr.EAGAIN, fserr.EMFILE, fserr.ENFILE:
		status, text = http.StatusServiceUnavailable, "the site has too many requests, or its files are being made; retry in a second"
		v.w.Header().Set("Retry-After", "1")
	}
	if _, open := v.g.cfg.Sites.Live(v.site.Hash); !open {
		v.g.gone(v.w, v.site.Options.Form)
		return
	}
	if !v.navigates() {
		say(v.w, status, text)
		return
	}
	name := fmt.Sprintf("/%s", strings.Join(v.names, "/"))
	page := "<!doctype html><meta charset=utf-8>" + v.snippet(true) + "<title>" + http.StatusText(status) + "</title><h1>" + html.EscapeString(http.StatusText(status)) +
		"</h1><p><code>" + html.EscapeString(strings.ToValidUTF8(name, "\uFFFD")) + "</code>: " + html.EscapeString(text) + ".</p>\n"
	v.page(status, "text/html; charset=utf-8", page)
}

// page sends a text that is not a file's.
func (v *visit) page(status int, kind, text string) {
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	coding := v.coding(kind, int64(len(text)))
	if coding == "" {
		v.w.WriteHeader(status)
		_, _ = io.WriteString(v.w, text) // the client may be gone
		return
	}
	h.Set("Content-Encoding", coding)
	v.w.WriteHeader(status)
	encoder := newEncoder(coding, v.w)
	_, _ = io.WriteString(encoder, text)
	_ = encoder.Close()
}

// list sends the names in the directory of the path, as HTML or as JSON.
func (v *visit) list(ctx context.Context, t *transfer) error {
	if !v.showsDirectory(ctx, v.path()) {
		return fserr.ENOENT
	}
	req := &ctxfsv1.ReaddirRequest{WithFileTypes: true, WithStats: v.takesJSON()} // HTML shows names only
	read := v.read(v.path())
	req.Path, req.RawPath = read.GetPath(), read.GetRawPath()
	encoded, err := v.g.cfg.Files.Readdir(ctx, req)
	if err != nil {
		return err
	}
	var entries ctxfsv1.ReaddirResponse
	if err := proto.Unmarshal(encoded.ProtoReflect().GetUnknown(), &entries); err != nil { // Readdir has encoded them already
		return err
	}
	text, kind, err := v.listing(entries.GetEntries())
	if err == nil {
		err = t.extend(ctx, t.control.SetWriteDeadline)
	}
	if err != nil {
		return err
	}
	v.w.Header().Add("Vary", "Accept")
	v.page(http.StatusOK, kind, text)
	return nil
}
