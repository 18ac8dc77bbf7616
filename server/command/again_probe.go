package command

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/internal/namespaces"
	"github.com/ctxfs/ctxfs/server"
)

const probeName = "probe-namespaces"

// probeCommand is what doctor runs in namespaces, to see whether the driver would work in them.
func (e Env) probeCommand() *cobra.Command {
	return &cobra.Command{
		Use: probeName + " DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Say why overlay-userns does not work in a directory; for doctor",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !namespaces.Inside() {
				return &usageError{errors.New("it is for 'ctxfs doctor'")}
			}
			if _, err := namespaces.Enter(); err != nil {
				return err
			}
			_, err := fmt.Fprint(e.Stdout, server.UserNSRefusal(cmd.Context(), args[0]))
			return err
		},
	}
}

// usernsRefusal says why overlay-userns does not work in dir, "" when it does.
func (e Env) usernsRefusal(ctx context.Context, dir string) string {
	if why := e.noNamespaces(); why != "" {
		return why
	}
	runtime.LockOSThread() // the kernel takes the thread for the parent
	defer runtime.UnlockOSThread()
	var out, errs strings.Builder
	child := namespaces.Command(ctx, probeName, dir)
	child.Stdout, child.Stderr = &out, &errs
	if err := namespaces.Start(child); err != nil {
		return err.Error()
	}
	if err := child.Wait(); err != nil {
		return strings.TrimSpace(fmt.Sprintf("%v: %s", err, errs.String()))
	}
	return out.String()
}
