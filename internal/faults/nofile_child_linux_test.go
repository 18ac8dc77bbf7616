package faults

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/server"
)

// few is how many descriptors the child may have; a server that does nothing has about thirty.
const few = 128

// workspaceEnv is what the child serves.
const workspaceEnv = "CTXFS_FAULTS_WORKSPACE"

// serveFew serves with few descriptors.
func serveFew() error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: few}); err != nil {
		return err
	}
	return serveChild()
}

// serveChild serves until its input ends, and writes where.
func serveChild() error {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve, cfg.Pool, cfg.ExitOnStdinClose = os.Getenv(workspaceEnv), 0, 0, true
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-test", Stdin: os.Stdin})
	if err != nil {
		return err
	}
	fmt.Println(s.Info().Addresses.Target())
	return s.Serve(context.Background())
}
