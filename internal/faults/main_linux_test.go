package faults

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary be something else than the tests: what its value names.
const childEnv = "CTXFS_FAULTS_CHILD"

func TestMain(m *testing.M) {
	if as := os.Getenv(childEnv); as != "" {
		os.Exit(child(as))
	}
	goleak.VerifyTestMain(m)
}
