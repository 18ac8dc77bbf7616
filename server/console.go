package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/server/services"
)

// consoleRights are what a console may do, in the words of OpenPanel.
var consoleRights = []string{"review", "exec", "git_push"}

// newConsoles returns the consoles of the server, whose streams end with them.
func (s *Server) newConsoles() *console.Registry {
	return console.NewRegistry(console.Config{
		Now: s.deps.Now, Busy: s.streams.has,
		Ended: func(c console.Console) { s.streams.endToken(c.Hash, unauthenticated(errConsole)) },
	})
}

// consolePage returns what serves the files of the console; nil if the server has no HTTP address, or no such files.
func (s *Server) consolePage() (http.Handler, error) {
	if s.ls.http == nil || s.deps.Console == nil {
		return nil, nil //nolint:nilnil // a server may have none
	}
	frames := ""
	if s.ls.pages != nil {
		frames = s.ls.pagesAt.String()
	}
	return console.NewPage(s.deps.Console, frames)
}

// consoleService returns ConsoleService.
func (s *Server) consoleService() *services.Console {
	svc := &services.Console{Consoles: s.auth.consoles, Samples: s.sampler}
	if s.parts.audit != nil {
		svc.Audit = s.parts.audit
	}
	if s.ls.http != nil && s.deps.Console != nil {
		svc.URL = s.consoleURL()
	}
	return svc
}

// consoleURL returns the address of the console. With TLS it has a name that the certificate is for.
func (s *Server) consoleURL() string {
	if s.ls.tls == nil {
		return "http://" + s.info.Addresses.HTTP + console.Path
	}
	host, port, err := net.SplitHostPort(s.info.Addresses.HTTP)
	if err != nil {
		return "https://" + s.info.Addresses.HTTP + console.Path
	}
	leaf := s.ls.tls.Certificates[0].Leaf
	if leaf.VerifyHostname(host) != nil {
		for _, ip := range leaf.IPAddresses {
			host = ip.String()
		}
		for _, name := range leaf.DNSNames {
			if !strings.HasPrefix(name, "*") {
				host = name
				break
			}
		}
	}
	return "https://" + net.JoinHostPort(host, port) + console.Path
}

// ExchangeConsole implements gateway.Calls. The audit log has a line of it.
func (h httpCalls) ExchangeConsole(ctx context.Context, code, peer string) (gateway.ConsoleToken, error) {
	begun := time.Now()
	token, c, err := h.s.auth.consoles.Exchange(code)
	if err == nil {
		err = acceptedConnOf(ctx).authenticated("")
	}
	h.s.recordExchange(begun, err, peer)
	if err != nil {
		return gateway.ConsoleToken{}, err
	}
	return gateway.ConsoleToken{
		Token: token, ExpiresAt: c.ExpiresAt.UTC(), IdleSeconds: int(console.IdleLife.Seconds()), Version: h.s.deps.Version, Rights: consoleRights, Gateway: h.s.info.Addresses.Sites,
	}, nil
}

// recordExchange logs an exchange, and writes it to the audit log.
func (s *Server) recordExchange(begun time.Time, err error, peer string) {
	e := auditEntry{Time: begun.UTC(), Role: "console", Op: "ExchangeConsole", Result: "ok", Millis: millis(time.Since(begun)), Peer: peer, RequestID: s.calls.newRequestID(context.Background())}
	switch {
	case err == nil:
		s.log.Info("a console was opened", zap.String("peer", peer))
	case errors.Is(err, console.ErrUsed):
		s.log.Warn("the link of a console was used twice; the console was ended", zap.String("peer", peer))
	default:
		s.log.Info("a console was refused", zap.String("peer", peer), zap.Error(err))
	}
	if err != nil {
		e.Role, e.Result = "none", fserr.CodeOf(err).String()
	}
	if s.calls.audit != nil && (err == nil || s.calls.audit.strangers.Allow()) {
		s.calls.audit.write(e)
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
