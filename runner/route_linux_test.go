package runner

import (
	"slices"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestPagesOfRunnersMerge follows the pages of two runners as a client does: each process comes once, newest first.
func TestPagesOfRunnersMerge(t *testing.T) {
	t.Parallel()
	page := func(token string, started ...int64) *ctxfsv1.ListProcessesResponse {
		out := &ctxfsv1.ListProcessesResponse{NextPageToken: token}
		for _, at := range started {
			out.Processes = append(out.Processes, &ctxfsv1.Process{ProcessId: "p", StartedNs: at})
		}
		return out
	}
	for name, c := range map[string]struct {
		pages []*ctxfsv1.ListProcessesResponse
		want  []int64
		token string
	}{
		"all fits":          {[]*ctxfsv1.ListProcessesResponse{page("", 9, 5), page("", 7, 1)}, []int64{9, 7, 5, 1}, ""},
		"one has more":      {[]*ctxfsv1.ListProcessesResponse{page("5/p", 9, 5), page("", 7, 1)}, []int64{9, 7, 5}, "5/p"},
		"both have more":    {[]*ctxfsv1.ListProcessesResponse{page("5/p", 9, 5), page("7/p", 8, 7)}, []int64{9, 8, 7}, "7/p"},
		"one has no others": {[]*ctxfsv1.ListProcessesResponse{page("5/p", 9, 5), page("")}, []int64{9, 5}, "5/p"},
		"a single one":      {[]*ctxfsv1.ListProcessesResponse{page("5/p", 9, 5)}, []int64{9, 5}, "5/p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := &ctxfsv1.ListProcessesResponse{}
			if err := merge(list, c.pages); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, p := range list.GetProcesses() {
				got = append(got, p.GetStartedNs())
			}
			if !slices.Equal(got, c.want) || list.GetNextPageToken() != c.token {
				t.Errorf("%v, %q; want %v, %q", got, list.GetNextPageToken(), c.want, c.token)
			}
		})
	}
	if err := merge(&ctxfsv1.ListProcessesResponse{}, []*ctxfsv1.ListProcessesResponse{page("nonsense")}); err == nil {
		t.Error("a bad token was taken")
	}
}
