package runner

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Which runner answers a call: usually there is one, and the newest takes what no other has.

// route returns the runner that answers a call, and the context for it.
func (r *Runners) route(ctx context.Context, req proto.Message) (context.Context, *remote, error) {
	newest, err := r.current(ctx)
	if err != nil {
		return ctx, nil, err
	}
	if cmd := commandOf(req); cmd != nil {
		return r.routeStart(ctx, cmd, newest)
	}
	m, err := r.owner(ctx, processOf(req), newest)
	return ctx, m, err
}

// commandOf returns the command that a request starts; nil if it starts none.
func commandOf(req proto.Message) *ctxfsv1.Command {
	switch req := req.(type) {
	case *ctxfsv1.RunRequest:
		return req.GetCommand()
	case *ctxfsv1.StartRequest:
		return req.GetCommand()
	}
	return nil
}

// owner returns the runner that has a process, newest if none has it.
func (r *Runners) owner(ctx context.Context, id string, newest *remote) (*remote, error) {
	if id == "" {
		return newest, nil
	}
	var ended []*remote
	for _, m := range r.all() {
		if m == newest {
			continue
		}
		switch err := m.find(ctx, id); {
		case err == nil:
			return m, nil
		case isBroken(err):
			ended = append(ended, m)
		}
	}
	if len(ended) == 0 || newest.find(ctx, id) == nil {
		return newest, nil
	}
	for _, m := range ended {
		if !m.awaitHandOver(ctx) {
			return nil, cmp.Or[error](ctx.Err(), errGone) // what it left is not known yet
		}
	}
	return newest, nil
}

// find fails if the runner has no such process, or not for the caller.
func (r *remote) find(ctx context.Context, id string) error {
	_, err := ctxfsv1.NewExecServiceClient(r.api).GetProcess(ctx, &ctxfsv1.GetProcessRequest{ProcessId: id})
	return err
}

// routeStart returns the runner that knows the request ID of a command, or newest. What the others have of the context goes with the call:
// names and bounds are those of all runners.
func (r *Runners) routeStart(ctx context.Context, cmd *ctxfsv1.Command, newest *remote) (context.Context, *remote, error) {
	want := hasRequest{Context: contexts.ID(cmd.GetContextId()), RequestID: cmd.GetRequestId()}
	if caller := panels.IdentityFrom(ctx); caller.Panel != "" {
		want.Context = caller.Context
	}
	var others exec.Elsewhere
	for _, m := range r.all() {
		if m == newest {
			continue
		}
		got, err := m.has(ctx, want)
		switch {
		case err != nil:
			return ctx, nil, err
		case got.Known:
			return ctx, m, nil
		}
		others.Running += got.Running
		others.Names = append(others.Names, got.Names...)
	}
	if others.Running > 0 {
		var err error
		if ctx, err = withElsewhere(ctx, others); err != nil {
			return ctx, nil, err
		}
	}
	return ctx, newest, nil
}

// has returns what the runner has of a context. If it has ended, and its records are handed over, it has nothing.
func (r *remote) has(ctx context.Context, want hasRequest) (got hasReply, err error) {
	if r.alive() {
		_, err = r.link.call(ctx, opHas, want, &got)
		switch {
		case err == nil || ctx.Err() != nil:
			return got, err
		case !errors.Is(err, errGone):
			return hasReply{}, nil //nolint:nilerr // it is of a version that does not know the call
		}
	}
	if r.isGone() {
		return hasReply{}, r.awaitHanded(ctx)
	}
	// Something of it still runs.
	got = hasReply{}
	if got.Elsewhere, got.Known, err = exec.Left(r.dir, want.Context, want.RequestID); err == nil && got.Known {
		got.Known, err = false, r.awaitHanded(ctx)
	}
	return got, err
}

// conn implements backend.
func (r *Runners) conn(ctx context.Context, req proto.Message) (context.Context, grpc.ClientConnInterface, error) {
	ctx, m, err := r.route(ctx, req)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, m.api, nil
}

// invoke implements backend. If the runner ends during the call, and the call may be repeated, the next runner answers it.
func (r *Runners) invoke(ctx context.Context, name string, req, resp proto.Message) error {
	at, m, err := r.route(ctx, req)
	if err != nil {
		return err
	}
	err = r.invokeAt(at, m, name, req, resp)
	if !isBroken(err) || !method.Of(name).Repeatable(req) || !m.hasEnded(ctx) {
		return err
	}
	proto.Reset(resp)
	if at, m, err = r.route(ctx, req); err != nil {
		return err
	}
	return r.invokeAt(at, m, name, req, resp)
}

// invokeAt makes a call to a runner. A list has the processes of the others too, but not those of one that has ended while something of it
// cannot be ended.
func (r *Runners) invokeAt(ctx context.Context, m *remote, name string, req, resp proto.Message) error {
	if err := m.api.Invoke(ctx, name, req, resp); err != nil {
		return err
	}
	list, ok := resp.(*ctxfsv1.ListProcessesResponse)
	if !ok {
		return nil
	}
	pages := []*ctxfsv1.ListProcessesResponse{{Processes: list.GetProcesses(), NextPageToken: list.GetNextPageToken()}}
	for _, other := range r.all() {
		if other == m {
			continue
		}
		more := &ctxfsv1.ListProcessesResponse{}
		err := other.api.Invoke(ctx, name, req, more)
		switch {
		case isBroken(err) && other.awaitHandOver(ctx):
			proto.Reset(resp)
			return r.invoke(ctx, name, req, resp)
		case err != nil && !isBroken(err):
			return err
		}
		pages = append(pages, more)
	}
	return merge(list, pages)
}

// merge sets list to the page that the same page of each runner makes. It leaves out what stands behind the end of one that has more: a
// process of that runner's next page may come before it.
func merge(list *ctxfsv1.ListProcessesResponse, pages []*ctxfsv1.ListProcessesResponse) error {
	placeOf := func(p *ctxfsv1.Process) exec.Place {
		return exec.Place{Started: p.GetStartedNs(), ID: p.GetProcessId()}
	}
	list.Processes, list.NextPageToken = nil, ""
	var end exec.Place
	for _, page := range pages {
		list.Processes = append(list.Processes, page.GetProcesses()...)
		at, err := exec.ParsePlace(page.GetNextPageToken())
		if err != nil {
			return err
		}
		if at != (exec.Place{}) && (end == exec.Place{} || at.Compare(end) < 0) {
			end, list.NextPageToken = at, page.GetNextPageToken()
		}
	}
	slices.SortFunc(list.GetProcesses(), func(a, b *ctxfsv1.Process) int { return placeOf(a).Compare(placeOf(b)) })
	if list.GetNextPageToken() != "" {
		list.Processes = slices.DeleteFunc(list.GetProcesses(), func(p *ctxfsv1.Process) bool { return placeOf(p).Compare(end) > 0 })
	}
	return nil
}

// Running returns how many commands run in each context. It starts no runner; one that ends meanwhile has none.
func (r *Runners) Running(ctx context.Context) (map[contexts.ID]int, error) {
	ctx, n := withCaller(panels.WithIdentity(ctx, panels.Identity{Role: panels.RoleHost})), map[contexts.ID]int{}
	for _, m := range r.all() {
		if err := m.count(ctx, n); err != nil && !isBroken(err) {
			return nil, passed(ctx, err)
		}
	}
	return n, nil
}

// count adds how many commands of the runner run in each context.
func (r *remote) count(ctx context.Context, n map[contexts.ID]int) error {
	req := &ctxfsv1.ListProcessesRequest{Running: true}
	for {
		page, err := ctxfsv1.NewExecServiceClient(r.api).ListProcesses(ctx, req)
		if err != nil {
			return err
		}
		for _, p := range page.GetProcesses() {
			n[contexts.ID(p.GetContextId())]++
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// Run runs a command, and calls send with what ExecService.Run reports.
func (r *Runners) Run(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error {
	req := &ctxfsv1.RunRequest{Command: cmd}
	ctx, cancel := context.WithCancel(withCaller(ctx))
	defer cancel()
	at, m, err := r.route(ctx, req)
	if err != nil {
		return passed(ctx, err)
	}
	stream, err := ctxfsv1.NewExecServiceClient(m.api).Run(at, req)
	for err == nil {
		var event *ctxfsv1.RunResponse
		if event, err = stream.Recv(); err == nil {
			err = send(event)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return passed(ctx, err)
}
