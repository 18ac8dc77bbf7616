// Package mcp offers the files of a context to models, over the Model Context Protocol.
//
// The tools have the names, arguments and results of the reference file-system server, so that prompts that were written for it work
// unchanged. Further tools search, edit, show changes, submit them and run commands. Every tool calls the server's services with the
// identity of the connection: the server decides what the caller may do. No tool approves, applies or pushes anything.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// DefaultLimit is the most text that a result has, in bytes, unless Config says otherwise.
const DefaultLimit = 64 << 10

// Config of New.
type Config struct {
	// Conn calls the services with the identity of a panel, or of a host.
	Conn grpc.ClientConnInterface
	// Context is the ID of the context; "" means the panel's own.
	Context string
	// Version of the program.
	Version string
	// Limit bounds the text of a result, in bytes; 0 means DefaultLimit.
	Limit int
	// SessionID returns the IDs of sessions over HTTP; nil for random ones.
	SessionID func() string
	// Schemas saves the servers of a process from deriving the schemas of the tools again; it may be nil.
	Schemas *sdk.SchemaCache
}

// Server serves one session. Pass SDK to a transport, and call Close after the session.
type Server struct {
	// SDK is the server for the transports of the Go SDK.
	SDK *sdk.Server

	context string
	limit   int
	// panel is the caller's ID; "" is a host that acts for none.
	panel string

	fs     ctxfsv1.FsServiceClient
	review ctxfsv1.ReviewServiceClient
	git    ctxfsv1.GitServiceClient
	exec   ctxfsv1.ExecServiceClient

	subscriptions subscriptions
}

// private says that a result is the panel's own: no cache may give it to anyone else.
const private = "private"

// instructions tell a model how this server differs from a disk.
const instructions = `Paths begin at "/", the root of a private copy of the user's repositories. Nothing outside of it can be reached. ` +
	`The user's own files change only after the user has reviewed the changes: call submit_changes when the work is done.`

// New asks the ctxfs server who the caller is, and returns a Server with the tools that this caller may use.
func New(ctx context.Context, cfg Config) (*Server, error) {
	info, err := ctxfsv1.NewContextServiceClient(cfg.Conn).GetInfo(ctx, &ctxfsv1.GetInfoRequest{ContextId: cfg.Context})
	if err != nil {
		return nil, err
	}
	s := &Server{
		context: info.GetContextId(), limit: cfg.Limit, panel: info.GetPanelId(),
		fs: ctxfsv1.NewFsServiceClient(cfg.Conn), review: ctxfsv1.NewReviewServiceClient(cfg.Conn),
		git: ctxfsv1.NewGitServiceClient(cfg.Conn), exec: ctxfsv1.NewExecServiceClient(cfg.Conn),
	}
	if s.limit == 0 {
		s.limit = DefaultLimit
	}
	s.subscriptions.init()
	s.SDK = sdk.NewServer(&sdk.Implementation{Name: "ctxfs", Title: "ctxfs", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions, SubscribeHandler: s.subscribe, UnsubscribeHandler: s.unsubscribe, GetSessionID: cfg.SessionID, SchemaCache: cfg.Schemas,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = private },
		Capabilities: &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{Subscribe: true}, Tools: &sdk.ToolCapabilities{}},
	})
	s.SDK.AddReceivingMiddleware(simplify)
	s.addReads()
	s.addDirectories()
	s.addSearches()
	s.addDiff()
	s.addResources()
	if !info.GetReadOnly() {
		s.addChanges()
		s.addReviews()
	}
	if s.panel != "" && slices.Contains(info.GetRights(), ctxfsv1.PanelRight_PANEL_RIGHT_EXEC) {
		s.addCommands()
	}
	return s, nil
}

// Panel returns the ID of the panel that calls; "" for a host that acts for none.
func (s *Server) Panel() string { return s.panel }

// Context returns the ID of the context.
func (s *Server) Context() string { return s.context }

// Close ends the subscriptions and waits for them.
func (s *Server) Close() { s.subscriptions.close() }

// text is the structured result of the tools that return a text. It has the text once more, as the reference server's results do.
type text struct {
	Content string `json:"content"`
}

// hints are the annotations of a tool.
type hints struct{ reads, repeatable, additive, open bool }

func (h hints) annotations(title string) *sdk.ToolAnnotations {
	destructive := !h.reads && !h.additive
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: h.reads, IdempotentHint: h.repeatable || h.reads, OpenWorldHint: &h.open, DestructiveHint: &destructive}
}

// add adds a tool that returns a text.
func add[In any](s *Server, name, title, description string, h hints, do func(context.Context, In) (string, error)) {
	tool := &sdk.Tool{Name: name, Title: title, Description: description, Annotations: h.annotations(title)}
	sdk.AddTool(s.SDK, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, text, error) {
		content, err := do(ctx, in)
		if err != nil {
			return nil, text{}, explained(err)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: content}}}, text{content}, nil
	})
}

// lines joins lines up to the limit, and says how many it leaves out. more says that the list is itself incomplete.
func (s *Server) lines(list []string, more bool, remedy string) string {
	size := 0
	for i, l := range list {
		if size += len(l) + 1; size > s.limit {
			return strings.Join(list[:i], "\n") + s.rest(i, len(list), more, remedy)
		}
	}
	out := strings.Join(list, "\n")
	if more {
		out += s.rest(len(list), len(list), more, remedy)
	}
	return out
}

func (s *Server) rest(shown, all int, more bool, remedy string) string {
	of := fmt.Sprintf("%d", all)
	if more {
		of = "more than " + of
	}
	return fmt.Sprintf("\n[%d of %s lines are shown; %s]", shown, of, remedy)
}

// each calls f with the messages of a stream until its end. f ends the stream with io.EOF.
func each[M any](stream grpc.ServerStreamingClient[M], err error, f func(*M) error) error {
	for err == nil {
		var m *M
		if m, err = stream.Recv(); err == nil {
			err = f(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
