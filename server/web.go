package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// webServer answers /v1/session and /v1/content to panels and hosts on all addresses; on the HTTP address
// also /livez and /readyz to all, and /metrics to hosts and to programs with the metrics token.
type webServer struct {
	// open serves the HTTP address; shared what the gRPC addresses hand over.
	open, shared *http.Server
	handed       *handedConns
	sockets      *sockets
}

func newWebServer(s *Server, handed *handedConns) *webServer {
	sockets := newSockets(s)
	mux, all := http.NewServeMux(), http.NewServeMux()
	for _, m := range []*http.ServeMux{mux, all} {
		m.Handle("GET /v1/session", sockets)
		m.HandleFunc("GET /v1/content", sockets.getContent)
		m.HandleFunc("PUT /v1/content", sockets.putContent)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "this address speaks gRPC, and HTTP at /v1/session and /v1/content")
	})
	all.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	all.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := s.notReady(); why != "" {
			say(w, http.StatusServiceUnavailable, why)
			return
		}
		say(w, http.StatusOK, "ok\ndriver "+s.info.Driver)
	})
	if s.cfg.Metrics {
		all.Handle("GET /metrics", metricsOnly(s.auth, promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	}
	return &webServer{open: httpServer(s, all), shared: httpServer(s, mux), handed: handed, sockets: sockets}
}

// maxHeaderBytes bounds the head of a request, in bytes.
const maxHeaderBytes = 16 << 10

func httpServer(s *Server, handler http.Handler) *http.Server {
	if s.ls.tls == nil {
		handler = localNamesOnly(handler)
	}
	return &http.Server{
		Handler: handler, ConnContext: withConn, ConnState: followState,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(s.log),
	}
}

// stop lets running requests end, for a while. Sessions are ended by the stream table; stop waits for them.
func (w *webServer) stop(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, server := range []*http.Server{w.open, w.shared} {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
	_ = w.handed.Close()
	w.sockets.stop()
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

// metricsOnly requires the metrics token or the host token.
func metricsOnly(auth *authenticator, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		secret = strings.TrimSpace(secret)
		if !strings.EqualFold(scheme, "bearer") || !auth.metrics.matches(secret) && !auth.host.matches(secret) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "send 'Authorization: Bearer TOKEN' with the metrics token or the host token")
			return
		}
		_ = acceptedConnOf(r.Context()).authenticated("") // a host has no share to exceed
		next.ServeHTTP(w, r)
	})
}

// localNamesOnly refuses requests by other names than this machine's own: a web page
// could point a name of its site at 127.0.0.1 and so read from here (DNS rebinding).
func localNamesOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !isLoopback(strings.Trim(host, "[]")) {
			say(w, http.StatusForbidden, "use 127.0.0.1, [::1] or localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}
