package server

import (
	"testing"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// TestInNamespaces runs the tests of servers with mounted contexts again in namespaces, as an ordinary user.
func TestInNamespaces(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	namespacestest.Run(t, "^(TestOverlayOverTheWire|TestStopWithHandlesOpenLeavesNoMount|TestDefaultChanges|TestReviewOfEveryOrigin)$")
}
