package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// settle compares what a new server shows with the ledger, as a lane's does.
func (h *host) settle(ctx context.Context, c *client.Client) (verdict, error) {
	h.ctx, h.c, h.err = ctx, c, nil
	defer h.forgetTokens()
	s := h.flight
	h.flight = nil
	seen, err := h.look()
	if err != nil {
		return "", err
	}
	d := h.state.differs(seen)
	switch {
	case d == "" && s == nil:
		return "", nil
	case s != nil:
		h.flights[s.name]++
	}
	switch {
	case d == "" && h.state.differs(s.after) == "":
		return unseen, nil
	case d == "":
		return nothing, nil
	case s == nil:
		return "", errors.New("lost of what the host did: " + d)
	}
	after := s.after.differs(seen)
	if after != "" && s.partly != nil {
		if some := s.partly(seen); some.differs(seen) == "" {
			h.state = some
			return partly, nil
		}
	}
	if after != "" {
		return "", fmt.Errorf("%s in flight left what it must not: beside before, %s; beside after, %s", s.name, d, after)
	}
	h.state = s.after
	if s.name == "closePanel" {
		maps.DeleteFunc(h.panels, func(_ string, tokens []string) bool { return !h.state.tokens[tokens[0]] })
	}
	return happened, nil
}

// maxTokens bounds the closed panels' tokens that are tried after each start.
const maxTokens = 30

func (h *host) forgetTokens() {
	if len(h.state.tokens) > maxTokens {
		maps.DeleteFunc(h.state.tokens, func(_ string, holds bool) bool { return !holds })
	}
}

// look asks the server what there is.
func (h *host) look() (world, error) {
	seen := newWorld()
	list, err := h.c.ListContexts(h.ctx)
	if err != nil {
		return seen, err
	}
	for _, c := range list {
		if id := c.GetContextId(); c.GetState() == ctxfsv1.ContextState_CONTEXT_STATE_READY && ofHost(id) {
			in, err := h.lookInto(id)
			if err != nil {
				return seen, err
			}
			in.label = c.GetLabels()[labelKey]
			seen.contexts[id] = in
		}
	}
	panels, err := h.c.ListPanels(h.ctx, labelKey)
	if err != nil {
		return seen, err
	}
	for _, p := range panels {
		seen.labels[p.GetPanelId()] = p.GetLabels()[labelKey]
	}
	for token := range h.state.tokens {
		ctx := metadata.AppendToOutgoingContext(h.ctx, "authorization", "Bearer "+token)
		_, err := ctxfsv1.NewFsServiceClient(h.c.Conn()).Stat(ctx, &ctxfsv1.StatRequest{Path: "/"})
		if err != nil && status.Code(err) != codes.Unauthenticated {
			return seen, err
		}
		seen.tokens[token] = err == nil
	}
	built, err := h.c.ListTemplates(h.ctx)
	for _, b := range built {
		seen.templates[path.Dir(b.GetTemplate().GetChain()[0])] = true
	}
	return seen, err
}

func ofHost(id string) bool {
	return strings.HasPrefix(id, "ctx_h") || strings.HasPrefix(id, "ctx_panels~h")
}

func (h *host) lookInto(id string) (held, error) {
	fsys, out := h.c.Context(id).With(h.ctx), held{snapshots: map[string]held{}}
	round, err := fsys.ReadFile(roundFile)
	if err != nil {
		return out, err
	}
	out.round = string(round)
	there, err := fsys.Exists(marker)
	if err == nil && there {
		var mark []byte
		mark, err = fsys.ReadFile(marker)
		out.mark = string(mark)
	}
	if err != nil {
		return out, err
	}
	list, err := h.c.ListSnapshots(h.ctx, id)
	for _, s := range list {
		out.snapshots[s.GetName()] = held{}
	}
	return out, err
}

// differs says in what seen is not w; "" when it is. What a snapshot holds is seen when it is restored.
func (w world) differs(seen world) string {
	for _, id := range w.ids(nil) {
		want := w.contexts[id]
		got, ok := seen.contexts[id]
		switch {
		case !ok:
			return id + " is missing"
		case want.label != got.label:
			return fmt.Sprintf("%s has the label %q, not %q", id, got.label, want.label)
		case want.round != got.round || want.mark != got.mark:
			return fmt.Sprintf("%s holds %q and %q, not %q and %q", id, got.round, got.mark, want.round, want.mark)
		case !slices.Equal(slices.Sorted(maps.Keys(want.snapshots)), slices.Sorted(maps.Keys(got.snapshots))):
			return fmt.Sprintf("%s has the snapshots %v, not %v", id, slices.Sorted(maps.Keys(got.snapshots)), slices.Sorted(maps.Keys(want.snapshots)))
		}
	}
	for _, id := range seen.ids(nil) {
		if _, ok := w.contexts[id]; !ok {
			return id + " is there, which should not be"
		}
	}
	if !maps.Equal(w.labels, seen.labels) {
		return fmt.Sprintf("the labels of panels are %v, not %v", seen.labels, w.labels)
	}
	if !maps.Equal(w.templates, seen.templates) {
		return fmt.Sprintf("the templates %v are built, not %v", slices.Sorted(maps.Keys(seen.templates)), slices.Sorted(maps.Keys(w.templates)))
	}
	for token, holds := range w.tokens {
		if seen.tokens[token] != holds {
			return fmt.Sprintf("a panel's token holds: %v, it should be %v", seen.tokens[token], holds)
		}
	}
	return ""
}

// want is what a context's folder must hold.
func (c held) want(content tree) tree {
	out := content.with(roundFile, file(c.round, 0o644))
	if c.mark != "" {
		out[marker] = file(c.mark, 0o644)
	}
	return out
}
