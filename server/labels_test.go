package server

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type set = map[string]string

// labelling is a host that labels contexts and panels of a server.
type labelling struct {
	t        *testing.T
	contexts ctxfsv1.ContextServiceClient
	panels   ctxfsv1.PanelServiceClient
}

func (l labelling) open(req *ctxfsv1.OpenPanelRequest) *ctxfsv1.OpenPanelResponse {
	l.t.Helper()
	resp, err := l.panels.OpenPanel(l.t.Context(), req)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp
}

// listed returns the labels of the contexts that a list has.
func (l labelling) listed(selectors ...string) map[string]set {
	l.t.Helper()
	resp, err := l.contexts.ListContexts(l.t.Context(), &ctxfsv1.ListContextsRequest{LabelSelectors: selectors})
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[string]set{}
	for _, c := range resp.GetContexts() {
		out[c.GetContextId()] = c.GetLabels()
	}
	return out
}

// panelsListed returns the labels of the panels that a list has.
func (l labelling) panelsListed(selectors ...string) map[string]set {
	l.t.Helper()
	resp, err := l.panels.ListPanels(l.t.Context(), &ctxfsv1.ListPanelsRequest{LabelSelectors: selectors})
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[string]set{}
	for _, p := range resp.GetPanels() {
		out[p.GetPanelId()] = p.GetLabels()
	}
	return out
}

func (l labelling) want(what string, got map[string]set, want map[string]set) {
	l.t.Helper()
	if !maps.EqualFunc(got, want, maps.Equal[set, set]) {
		l.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestHostsLabelPanelsAndContexts(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	write(t, filepath.Join(cfg.Workspace, ".git", "HEAD"), "ref: refs/heads/main\n")
	r := start(t, cfg)
	l := labelling{t, ctxfsv1.NewContextServiceClient(r.host(t)), ctxfsv1.NewPanelServiceClient(r.host(t))}
	ctx := t.Context()

	// A panel's own context gets its labels, and a shared one only if the opening made it.
	l.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Labels: set{"owner": "ada"}})
	opened := l.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Labels: set{"task": "1"}})
	l.open(&ctxfsv1.OpenPanelRequest{PanelId: "b", ContextId: "ctx_shared", Labels: set{"team": "x"}})
	l.open(&ctxfsv1.OpenPanelRequest{PanelId: "c", ContextId: "ctx_shared", Labels: set{"later": ""}})
	l.want("contexts", l.listed(), map[string]set{"ctx_a": {"owner": "ada", "task": "1"}, "ctx_shared": {"team": "x"}})
	l.want("panels", l.panelsListed(), map[string]set{"a": {"owner": "ada", "task": "1"}, "b": {"team": "x"}, "c": {"later": ""}})

	// Forks keep labels, but for those that the request replaces.
	if _, err := l.contexts.Fork(ctx, &ctxfsv1.ForkRequest{ContextId: "ctx_a", NewContextId: "ctx_fork", Labels: set{"task": "2"}}); err != nil {
		t.Fatal(err)
	}
	ensured, err := l.contexts.EnsureContext(ctx, &ctxfsv1.EnsureContextRequest{ContextId: "ctx_shared", Labels: set{"task": "3"}})
	for err == nil {
		_, err = ensured.Recv()
	}
	got, err := l.contexts.SetLabels(ctx, &ctxfsv1.SetLabelsRequest{ContextId: "ctx_shared", Put: set{"owner": "bob"}, Remove: []string{"team", "absent"}})
	if err != nil || !maps.Equal(got.GetLabels(), set{"owner": "bob", "task": "3"}) {
		t.Errorf("set to %v, %v", got, err)
	}
	if _, err := l.panels.SetPanelLabels(ctx, &ctxfsv1.SetPanelLabelsRequest{PanelId: "c", Put: set{"owner": "bob"}, Remove: []string{"later"}}); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		selectors []string
		contexts  []string
		panels    []string
	}{
		{[]string{"owner"}, []string{"ctx_a", "ctx_fork", "ctx_shared"}, []string{"a", "c"}},
		{[]string{"owner=ada"}, []string{"ctx_a", "ctx_fork"}, []string{"a"}},
		{[]string{"owner=ada", "task=2"}, []string{"ctx_fork"}, nil},
		{[]string{"!owner"}, nil, []string{"b"}},
	} {
		contexts, panels := slices.Sorted(maps.Keys(l.listed(test.selectors...))), slices.Sorted(maps.Keys(l.panelsListed(test.selectors...)))
		if !slices.Equal(contexts, test.contexts) || !slices.Equal(panels, test.panels) {
			t.Errorf("%q selects %v and %v, want %v and %v", test.selectors, contexts, panels, test.contexts, test.panels)
		}
	}
	l.refusals(ctxfsv1.NewReviewServiceClient(r.host(t)))

	// A panel neither changes nor reads labels.
	panel := with(t, "authorization", bearerOf(opened.GetToken()))
	_, err = l.contexts.SetLabels(panel, &ctxfsv1.SetLabelsRequest{ContextId: "ctx_a", Put: set{"owner": "me"}})
	wantError(t, err, codes.PermissionDenied, "EACCES", "")
	_, err = l.panels.SetPanelLabels(panel, &ctxfsv1.SetPanelLabelsRequest{PanelId: "a", Put: set{"owner": "me"}})
	wantError(t, err, codes.PermissionDenied, "EACCES", "")
	l.want("contexts", l.listed("owner=me"), map[string]set{})
}

// refusals makes calls that are refused, and change nothing.
func (l labelling) refusals(reviews ctxfsv1.ReviewServiceClient) {
	l.t.Helper()
	ctx, before := l.t.Context(), l.listed()
	_, err := l.contexts.SetLabels(ctx, &ctxfsv1.SetLabelsRequest{ContextId: "ctx_a", Put: set{"Owner": ""}, Remove: []string{"owner"}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", `bad label key "Owner"`)
	_, err = l.contexts.SetLabels(ctx, &ctxfsv1.SetLabelsRequest{ContextId: "ctx_absent", Put: set{"owner": ""}})
	wantError(l.t, err, codes.NotFound, "ESTALE", "ctx_absent")
	_, err = l.panels.SetPanelLabels(ctx, &ctxfsv1.SetPanelLabelsRequest{PanelId: "absent", Put: set{"owner": ""}})
	wantError(l.t, err, codes.NotFound, "ENOENT", "absent")
	_, err = l.panels.OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: "new", Labels: set{"Owner": ""}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", "Owner")
	_, err = l.contexts.Fork(ctx, &ctxfsv1.ForkRequest{ContextId: "ctx_a", NewContextId: "ctx_new", Labels: set{"Owner": ""}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", "Owner")
	_, err = l.contexts.ListContexts(ctx, &ctxfsv1.ListContextsRequest{LabelSelectors: []string{"!"}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", "bad label key")
	_, err = l.panels.ListPanels(ctx, &ctxfsv1.ListPanelsRequest{LabelSelectors: []string{""}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", "bad label key")
	_, err = reviews.ListJournal(ctx, &ctxfsv1.ListJournalRequest{LabelSelectors: []string{"A"}})
	wantError(l.t, err, codes.InvalidArgument, "EINVAL", "bad label key")
	l.want("after refused calls", l.listed(), before)
}
