package fsservice

import (
	"testing"

	"github.com/ctxfs/ctxfs/panels"
)

func TestSitesOfAPanelShareItsWatchBudget(t *testing.T) {
	t.Parallel()
	var budgets watchBudgets
	of := func(id panels.Identity) *ownerBudget {
		budget, release := budgets.of(payer(panels.WithIdentity(t.Context(), id)))
		t.Cleanup(release)
		return budget
	}
	panel := of(panels.Identity{Role: panels.RolePanel, Panel: "p", Owner: "p"})
	for name, c := range map[string]struct {
		id   panels.Identity
		same bool
	}{
		"a site of the panel":     {panels.Identity{Role: panels.RolePanel, Panel: "p", Owner: "site_a"}, true},
		"another one":             {panels.Identity{Role: panels.RolePanel, Panel: "p", Owner: "site_b"}, true},
		"a host for the panel":    {panels.Identity{Role: panels.RoleHost, Panel: "p", Owner: "p"}, true},
		"a site without a panel":  {panels.Identity{Role: panels.RolePanel, Owner: "site_c"}, false},
		"a site of another panel": {panels.Identity{Role: panels.RolePanel, Panel: "q", Owner: "site_d"}, false},
		"a host without a panel":  {panels.Identity{Role: panels.RoleHost, Owner: "host/1"}, false},
	} {
		if same := of(c.id) == panel; same != c.same {
			t.Errorf("%s has the panel's budget: %v", name, same)
		}
	}
}
