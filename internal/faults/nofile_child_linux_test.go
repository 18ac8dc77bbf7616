package faults

import (
	"context"
	"fmt"
	"os"
	"strings"

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
	return serveChild(func(*server.Config) {})
}

// crowded is how many descriptors the child of serveCrowd may have.
const crowded = 512

// serveCrowd serves with TCP and HTTP, and with as many descriptors as a modest limit gives.
func serveCrowd() error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: crowded, Max: crowded}); err != nil {
		return err
	}
	return serveChild(func(cfg *server.Config) { cfg.Listen, cfg.HTTP = []string{"127.0.0.1:0"}, "127.0.0.1:0" })
}

// serveChild serves until its input ends, and writes its addresses: the socket, then those of TCP and HTTP.
func serveChild(change func(*server.Config)) error {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve, cfg.Pool, cfg.ExitOnStdinClose = os.Getenv(workspaceEnv), 0, 0, true
	change(&cfg)
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-test", Stdin: os.Stdin})
	if err != nil {
		return err
	}
	a := s.Info().Addresses
	fmt.Println(strings.TrimSpace(strings.Join(append(append([]string{a.Target()}, a.TCP...), a.HTTP), " ")))
	return s.Serve(context.Background())
}
