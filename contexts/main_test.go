package contexts

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}
