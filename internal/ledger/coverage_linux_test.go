package ledger

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// notInLoad are the methods that the load need not call, with the reason.
var notInLoad = map[string]string{
	"Session": "it carries the others: each client has one, which is counted when it ends, and that is when its server is gone",
}

// services are the services whose methods must all occur in the load.
var services = []struct {
	name protoreflect.Name
	file protoreflect.FileDescriptor
}{
	{"FsService", ctxfsv1.File_ctxfs_v1_fs_proto},
	{"ContextService", ctxfsv1.File_ctxfs_v1_context_proto},
	{"PanelService", ctxfsv1.File_ctxfs_v1_panel_proto},
	{"TemplateService", ctxfsv1.File_ctxfs_v1_template_proto},
}

// An operation needs a state that the load reaches by chance. Each has rounds turns, those of the host hostRounds, and all have further ones,
// up to mostRounds, as long as a method was not called. A method of the load is missed in all of them less than once in 10^20 runs.
const rounds, hostRounds, mostRounds = 15, 3, 150

// TestEveryOperation does each operation of the load some times, looks at the disk after each, and asks the server what was called: that is
// each method, and each changes what it should, or nothing.
func TestEveryOperation(t *testing.T) {
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			for _, name := range uncalled(newLoad(t, driver, 1, 1).serially()) {
				t.Errorf("%s is not in the load", name)
			}
		})
	}
}

// uncalled returns the methods that the load must call and has not.
func uncalled(called map[string]bool) (out []string) {
	for _, s := range services {
		list := s.file.Services().ByName(s.name).Methods()
		for i := range list.Len() {
			name := string(list.Get(i).Name())
			if notInLoad[name] == "" && !called[fmt.Sprintf("/ctxfs.v1.%s/%s", s.name, name)] {
				out = append(out, name)
			}
		}
	}
	return out
}

// serially does each operation several times, where it is possible, with a look at the disk after each. It returns the methods that were called.
func (l *load) serially() map[string]bool {
	t := l.t
	t.Helper()
	p, err := start(l.w.dir, l.driver)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := p.dial(ctx)
	must(t, err)
	l.host.round = "round 0\n"
	must(t, l.settle(ctx, c))
	called := map[string]bool{}
	for i := range mostRounds {
		if i >= rounds {
			_, err := l.host.settle(ctx, c)
			must(t, err)
			if called = l.methods(p); len(uncalled(called)) == 0 {
				break
			}
		}
		l.laneRound()
		if i < hostRounds || i >= rounds {
			l.hostRound()
		}
	}
	must(t, c.Close())
	must(t, p.end(syscall.SIGTERM))
	return called
}

// laneRound does each operation of a lane that is possible, with a look at the disk after each.
func (l *load) laneRound() {
	t := l.t
	t.Helper()
	lane := l.panels[0].lanes[0]
	for _, o := range slices.Concat(operations(), readOperations()) {
		steps := o.plan(lane)
		if len(steps) == 0 {
			continue
		}
		before := lane.state
		lane.run(steps)
		if lane.err != nil {
			t.Fatalf("%s: %v", lane.flight.name, lane.err)
		}
		got, err := l.w.folder(l.panels[0].contextID())
		must(t, err)
		if d := differ(lane.state, got.below(lane.name)); d != "" {
			t.Fatalf("%s: %s; before it was %v", o.name, d, before)
		}
	}
}

// hostRound does each operation of the host that is possible.
func (l *load) hostRound() {
	l.t.Helper()
	for _, o := range l.host.operations() {
		l.host.once(o)
		must(l.t, l.host.err)
	}
}

// methodLine is a line of the metrics that counts calls of a method with an outcome.
var methodLine = regexp.MustCompile(`(?m)^ctxfs_rpc_duration_seconds_count\{code="(\w+)",method="([^"]+)"`)

// methods asks a server which were called, and succeeded; streams that only their caller ends are cancelled.
func (l *load) methods(p *process) map[string]bool {
	t := l.t
	t.Helper()
	token, err := os.ReadFile(l.w.layout.HostToken)
	must(t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.http+"/metrics", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	must(t, err)
	defer func() { must(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	out := map[string]bool{}
	for _, m := range methodLine.FindAllStringSubmatch(string(body), -1) {
		if m[1] == "OK" || m[1] == "Canceled" {
			out[m[2]] = true
		}
	}
	if len(out) == 0 {
		t.Fatalf("the metrics tell of no method: %s", body)
	}
	return out
}
