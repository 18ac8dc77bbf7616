package mcp_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/client"
	ctxfsexec "github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/mcp"
	"github.com/ctxfs/ctxfs/server"
)

func TestMain(m *testing.M) {
	if code, is := ctxfsexec.Init(os.Args); is {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// The versions of the protocol that clients speak: with sessions, and without.
const withSessions, sessionless = "2025-11-25", "2026-07-28"

// model is a client of a session.
type model struct {
	t *testing.T
	*sdk.ClientSession
	// context is the ID of the panel's context, folder its folder.
	context, folder string
	updated         chan string
}

// world is a server with HTTP.
type world struct {
	*servertest.Running
	host *client.Client
}

func newWorld(t *testing.T, change func(*server.Config)) *world {
	t.Helper()
	r := servertest.Run(t, servertest.Workspace(t), func(cfg *server.Config) {
		cfg.HTTP = "127.0.0.1:0"
		if change != nil {
			change(cfg)
		}
	}, server.Deps{})
	host, err := client.Dial(t.Context(), client.WithAddress(r.Info().Addresses.Target()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return &world{r, host}
}

func (w *world) open(t *testing.T, panel string, opts ...client.PanelOption) *client.Panel {
	t.Helper()
	p, err := w.host.OpenPanel(t.Context(), panel, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bearer sends a token with each request.
type bearer struct {
	http.RoundTripper
	token func() string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token())
	return b.RoundTripper.RoundTrip(r)
}

// overHTTP returns the transport of a client with a token.
func (w *world) overHTTP(t *testing.T, token func() string) *sdk.StreamableClientTransport {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &sdk.StreamableClientTransport{Endpoint: "http://" + w.Info().Addresses.HTTP + "/v1/mcp", HTTPClient: &http.Client{Transport: bearer{transport, token}}, MaxRetries: -1}
}

// inMemory returns the transport of a client whose server calls ctxfs as 'ctxfs mcp' does.
func (w *world) inMemory(t *testing.T, panel string, change func(*mcp.Config)) sdk.Transport {
	t.Helper()
	c, err := client.Dial(t.Context(), client.WithAddress(w.Info().Addresses.Target()), client.WithPanel(panel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	cfg := mcp.Config{Conn: c.Conn(), Version: "0.0.0-test"}
	if change != nil {
		change(&cfg)
	}
	s, err := mcp.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ours, theirs := sdk.NewInMemoryTransports()
	if _, err := s.SDK.Connect(t.Context(), ours, nil); err != nil {
		t.Fatal(err)
	}
	return theirs
}

// connect begins a session.
func connect(t *testing.T, transport sdk.Transport, version string) *model {
	t.Helper()
	m := &model{t: t, updated: make(chan string, 100)}
	closing := make(chan struct{}) // Close waits for the handler
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			select {
			case m.updated <- r.Params.URI:
			case <-closing:
			}
		},
	})
	session, err := c.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(closing)
		_ = session.Close()
	})
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the session speaks %s, not %s", got, version)
	}
	m.ClientSession = session
	return m
}

// eachWay runs a test with each transport and version, each with a panel of its own.
func eachWay(t *testing.T, w *world, f func(m *model), opts ...client.PanelOption) {
	t.Helper()
	for _, way := range []string{"memory", "http"} {
		for _, version := range []string{withSessions, sessionless} {
			t.Run(way+"/"+version, func(t *testing.T) {
				t.Parallel()
				p := w.open(t, "panels/"+way+version, opts...)
				var transport sdk.Transport
				if way == "http" {
					transport = w.overHTTP(t, func() string { token, _ := p.Token(); return token })
				} else {
					transport = w.inMemory(t, "panels/"+way+version, nil)
				}
				m := connect(t, transport, version)
				m.context = p.ContextID()
				info, err := w.host.Info(t.Context(), p.ContextID())
				if err != nil {
					t.Fatal(err)
				}
				m.folder = info.GetFolder()
				f(m)
			})
		}
	}
}

type object = map[string]any

// call returns the text of a tool's result.
func (m *model) call(tool string, args object) (text string, failed bool) {
	m.t.Helper()
	r, err := m.CallTool(m.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		m.t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text += c.Text
		}
	}
	return text, r.IsError
}

// ok calls a tool that must succeed.
func (m *model) ok(tool string, args object) string {
	m.t.Helper()
	text, failed := m.call(tool, args)
	if failed {
		m.t.Fatalf("%s %v: %s", tool, args, text)
	}
	return text
}

// want calls a tool whose result must have these words.
func (m *model) want(words, tool string, args object) {
	m.t.Helper()
	if got := m.ok(tool, args); !strings.Contains(got, words) {
		m.t.Errorf("%s %v returned\n%s\nwithout %q", tool, args, got, words)
	}
}

// refuses calls a tool that must fail with these words.
func (m *model) refuses(words, tool string, args object) {
	m.t.Helper()
	if got, failed := m.call(tool, args); !failed || !strings.Contains(got, words) {
		m.t.Errorf("%s %v: failed is %v, %q, without %q", tool, args, failed, got, words)
	}
}

// is calls a tool whose result must be this.
func (m *model) is(want, tool string, args object) {
	m.t.Helper()
	if got := m.ok(tool, args); got != want {
		m.t.Errorf("%s %v returned\n%q, want\n%q", tool, args, got, want)
	}
}

// lacks calls a tool whose result must not have these words.
func (m *model) lacks(words, tool string, args object) {
	m.t.Helper()
	if got := m.ok(tool, args); strings.Contains(got, words) {
		m.t.Errorf("%s %v returned\n%s\nwith %q", tool, args, got, words)
	}
}
