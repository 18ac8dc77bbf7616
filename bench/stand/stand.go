// Package stand has what the benchmarks have in common: their options, servers, processes, trees of files, and git.
package stand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/server"
)

// Options of a benchmark.
type Options struct {
	// Dir is the directory for temporary files, on the disk to measure. Source is that of bench's source.
	Dir, Source string
	// Ctxfs is the program to measure; "" builds it. Self is this program.
	Ctxfs, Self string
	// Rounds is how often each is measured, in turns, and Time how long; the medians are reported.
	Rounds int
	Time   time.Duration
	// Sizes are numbers of files or contexts, ascending.
	Sizes []int
	// Quick does less: it shows that all works, not how fast.
	Quick bool
	// Only and Peers choose cells and peers of the comparison.
	Only, Peers *regexp.Regexp
	// Log gets a line for each step.
	Log io.Writer
}

// Logf writes a line to Log.
func (o *Options) Logf(format string, args ...any) { _, _ = fmt.Fprintf(o.Log, format+"\n", args...) }

// Scratch calls do with a temporary directory, which it removes.
func (o *Options) Scratch(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "cb") // short, for a socket's path
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}

// Drivers calls do with each driver that works here.
func (o *Options) Drivers(ctx context.Context, do func(driver string) error) error {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		if why := server.OverlayRefusal(ctx, o.Dir); driver == server.DriverOverlay && why != "" {
			o.Logf("overlay is left out: %s", why)
		} else if err := do(driver); err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	return nil
}

// Server is a server in this process, with a connection of a host.
type Server struct {
	*client.Client
	// Address is where it listens.
	Address string
}

// Serve runs a server while do is at work. set changes its settings.
func Serve(ctx context.Context, set func(*server.Config), do func(Server) error) (err error) {
	cfg := server.DefaultConfig()
	cfg.Pool, cfg.LogLevel, cfg.DiskReserve, cfg.SeedMaxFiles = 0, "error", 0, 1<<20
	set(&cfg)
	srv, err := server.New(ctx, cfg, server.Deps{Version: "0.0.0-bench"})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(serving) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	address := srv.Info().Addresses.Target()
	c, err := client.Dial(ctx, client.WithAddress(address))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return do(Server{c, address})
}

// Git runs git in a directory.
func Git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	}, args...)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, &out)
	}
	return nil
}

// Repository makes a repository and commits all files of dir.
func Repository(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "all"}} {
		if err := Git(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// perDirectory is how many files are in a directory.
const perDirectory = 50

// Name is the path of file number i of a tree.
func Name(i int) string {
	return filepath.Join(fmt.Sprintf("d%d", i/perDirectory), fmt.Sprintf("f%d", i))
}

// Fill makes a tree of files.
func Fill(dir string, files int, content func(i int) []byte) error {
	for i := range files {
		if err := Write(filepath.Join(dir, Name(i)), content(i)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes a file, and its directory if that does not exist.
func Write(name string, content []byte) error {
	err := os.WriteFile(name, content, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			err = os.WriteFile(name, content, 0o644)
		}
	}
	return err
}
