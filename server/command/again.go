package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/internal/namespaces"
	"github.com/ctxfs/ctxfs/server"
)

// again has a server whose driver needs namespaces of its own run in a second process, and waits for that; in the
// second process it reports false. The second process is the server: its PID stands in server.json. This one passes signals
// on to it and ends as it does; when this one is killed, the server stops.
func (e Env) again(ctx context.Context, cfg server.Config, log *zap.Logger) (done bool, err error) {
	switch {
	case cfg.Driver != server.DriverUserNS:
		return false, nil
	case !namespaces.Inside():
		return true, e.inNamespaces(context.WithoutCancel(ctx))
	}
	aside, err := namespaces.Enter()
	if err == nil && !aside {
		log.Warn("capabilities stay in use, since ctxfs was built with cgo: the modes of the own user's files do not bind it")
	}
	return false, err
}

func (e Env) inNamespaces(ctx context.Context) error {
	if why := e.noNamespaces(); why != "" {
		return usernsError(why)
	}
	runtime.LockOSThread() // the kernel takes the thread for the parent
	defer runtime.UnlockOSThread()
	child := namespaces.Command(ctx, e.Args...)
	child.Stdin, child.Stdout, child.Stderr = e.Stdin, e.Stdout, e.Stderr
	relayed, err := relayNotify(ctx, child)
	if err != nil {
		return err
	}
	defer relayed()
	forward, stop := forwardSignals(isTerminalReader(e.Stdin))
	defer stop()
	var refused *namespaces.StartError
	if err := namespaces.Start(child); errors.As(err, &refused) {
		return usernsError(refused.Why)
	} else if err != nil {
		return err
	}
	forward(child.Process)
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &exitError{exitCode(exit.ProcessState)}
	}
	return err
}

func usernsError(why string) error {
	return fmt.Errorf("driver %s: %s; use --driver copy", server.DriverUserNS, why)
}

// noNamespaces says why this process does not try, "" when it may.
func (e Env) noNamespaces() string {
	switch {
	case runtime.GOOS != "linux":
		return "it needs Linux"
	case os.Geteuid() == 0:
		return "it is for ordinary users; ctxfs runs as root, who has --driver overlay"
	case e.Args == nil:
		return "this program cannot run itself again"
	}
	return ""
}
