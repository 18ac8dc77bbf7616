package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	metadatatest.Run(t, func(*testing.T) metadata.Store { return memory.New() })
}
