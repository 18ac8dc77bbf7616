package gateway

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/near"
	"github.com/ctxfs/ctxfs/internal/openapi"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// timeoutHeader bounds a call, as "5s" or "500ms".
const timeoutHeader = "Ctxfs-Timeout"

// serveRPC answers POST /v1/SERVICE/METHOD with a call of an RPC. The body is its request in JSON, and the answer its response, or a line
// for each message of a stream.
func (g *Gateway) serveRPC(w http.ResponseWriter, r *http.Request) {
	twoLengths := oneLength(w, r) // before any other answer, since it may close the connection
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	allowOrigin(w, r)
	service, name := r.PathValue("service"), r.PathValue("method")
	m := method.Of("/" + string(ctxfsv1.File_ctxfs_v1_fs_proto.Package()) + "." + service + "/" + name)
	switch {
	case twoLengths != nil:
		refuseRPC(w, 0, twoLengths)
	case m.Desc == nil:
		refuseRPC(w, http.StatusNotFound, unknownRPC(service+"/"+name))
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST, OPTIONS")
		refuseRPC(w, http.StatusMethodNotAllowed, &fserr.Error{Code: fserr.EINVAL, Detail: "calls are requests with the method POST", Hint: "send the call's request as JSON in the body"})
	case m.Desc.IsStreamingClient():
		refuseRPC(w, 0, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: name + " receives a stream of requests, and here a call has one request",
			Hint: "write a file of any size with PUT /v1/content; otherwise use gRPC, or a session at /v1/session",
		})
	case !isJSON(r):
		refuseRPC(w, http.StatusUnsupportedMediaType, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is not declared as JSON", Hint: "send Content-Type: application/json, as curl --json does"})
	default:
		g.callRPC(w, r, m)
	}
}

// allowOrigin lets the page that sent the request read the answer. The origin was checked. A page that asks first may then send the call.
func allowOrigin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", errorHeader+", Retry-After, X-Request-Id")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Ctxfs-Panel, "+timeoutHeader+", X-Request-Id")
		h.Set("Access-Control-Max-Age", "600")
	}
}

// isJSON reports whether the body of a request is JSON, or empty. A page can send no JSON to another origin without asking first.
func isJSON(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	if kind == "" {
		return r.ContentLength == 0
	}
	kind, params, err := mime.ParseMediaType(kind)
	charset := params["charset"]
	return err == nil && kind == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// unknownRPC refuses a call of an RPC that does not exist, and names one that is much like it, or has the same method.
func unknownRPC(name string) error {
	var all []string
	protoregistry.GlobalFiles.RangeFilesByPackage(ctxfsv1.File_ctxfs_v1_fs_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, string(f.Services().Get(i).Name())+"/"+string(methods.Get(j).Name()))
			}
		}
		return true
	})
	err := &fserr.Error{Code: fserr.ENOSYS, Detail: fmt.Sprintf("no RPC is called %.100q", name), Hint: "GET /v1/openapi.json lists them all"}
	best := ""
	const most = 100 // longer names are like none, and to compare them takes long
	if len(name) <= most {
		best = near.Best(name, slices.DeleteFunc(slices.Clone(all), func(full string) bool { return !likeMethod(name, full) }))
	}
	for _, full := range all {
		if best == "" && strings.EqualFold(path.Base(full), path.Base(name)) {
			best = full
		}
	}
	if best != "" {
		err.Hint = "did you mean POST /v1/" + best + "? " + err.Hint
	}
	return err
}

// likeMethod reports whether the methods of two names differ in a third of their letters at most: the service makes names long that have
// nothing in common otherwise.
func likeMethod(name, other string) bool {
	method := strings.ToLower(path.Base(name))
	return near.Distance(method, strings.ToLower(path.Base(other))) <= max(len(method), 3)/3
}

// callRPC serves a call.
func (g *Gateway) callRPC(w http.ResponseWriter, r *http.Request, m *method.Method) {
	s := newRPCStream(g, w, r, m)
	if r.ContentLength == 0 {
		_ = s.control.SetReadDeadline(time.Time{}) // as after a body
	}
	ctx, cancel, err := withTimeout(r)
	defer cancel()
	if err == nil {
		err = g.serveStream(ctx, r, s)
	}
	s.end(err)
}

func (g *Gateway) serveStream(ctx context.Context, r *http.Request, s *rpcStream) error {
	md, err := g.headersOf(r)
	if err != nil {
		return err
	}
	conn, done := g.cfg.Calls.Conn(r.Context(), false)
	defer done()
	s.ctx = grpc.NewContextWithServerTransportStream(callContext(ctx, r, md, conn), transportOf{s})
	return g.cfg.Calls.Serve(s.method.Name, s)
}

// withTimeout returns a request's context, with the deadline that its header sets.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	given := r.Header.Values(timeoutHeader)
	if len(given) == 0 {
		return r.Context(), func() {}, nil
	}
	d, err := time.ParseDuration(given[0])
	if err != nil || len(given) > 1 || d <= 0 {
		return nil, func() {}, &fserr.Error{Code: fserr.EINVAL, Detail: "bad " + timeoutHeader, Hint: "send it once, as 5s or 500ms"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, nil
}

// refuseRPC answers with an error. code is the HTTP status; 0 means the one of the error's gRPC code.
func refuseRPC(w http.ResponseWriter, code int, err error) {
	st := status.Convert(fserrpb.ToStatus(err))
	body, h, reason := statusJSON(st), w.Header(), fserrpb.ReasonOf(st.Err())
	if e, ok := fserrpb.FromStatus(st.Err()); ok {
		h.Set(errorHeader, reason)
		if e.RetryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
		}
	}
	if code == 0 {
		code = httpStatus(st.Code(), reason)
	}
	if code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	jsonHeaders(h, "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
}

// statusJSON returns a google.rpc.Status in JSON, as a line.
func statusJSON(st *status.Status) []byte {
	body, err := protojson.Marshal(st.Proto())
	if err != nil { // a detail that another program put there
		body, _ = protojson.Marshal(status.New(st.Code(), strings.ToValidUTF8(st.Message(), "\uFFFD")).Proto())
	}
	return append(compact(body), '\n')
}

func jsonHeaders(h http.Header, kind string) {
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// serveOpenAPI answers GET /v1/openapi.json with the description of all RPCs. It is open to all.
func (g *Gateway) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	allowOrigin(w, r)
	document, err := openapi.Document()
	if err != nil {
		refuseRPC(w, 0, err)
		return
	}
	jsonHeaders(w.Header(), "application/json")
	_, _ = w.Write(document) // the client may be gone
}

// transportOf is what gRPC's functions find in the context of a call.
type transportOf struct{ *rpcStream }

var _ grpc.ServerTransportStream = transportOf{}

// Method implements grpc.ServerTransportStream.
func (t transportOf) Method() string { return t.method.Name }

// SetTrailer implements grpc.ServerTransportStream.
func (t transportOf) SetTrailer(md metadata.MD) error {
	t.rpcStream.SetTrailer(md)
	return nil
}
