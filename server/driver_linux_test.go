package server

import (
	"testing"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
)

// TestInNamespaces runs the tests of servers with mounted contexts again in namespaces, as an ordinary user.
func TestInNamespaces(t *testing.T) {
	t.Parallel()
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	database, err := pgtest.Reachable()
	if err != nil {
		t.Fatal(err)
	}
	namespacestest.Run(t, "^(TestOverlayOverTheWire|TestStopWithHandlesOpenLeavesNoMount|TestDefaultChanges|TestReviewOfEveryOrigin|TestSiteOfASnapshot)$", database)
}
