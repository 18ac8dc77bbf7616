package server

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec"
)

// commandUser converts the owner of files in contexts to the user that runs commands.
func commandUser(owner *rootfs.Owner) *exec.User {
	if owner == nil {
		return nil
	}
	return &exec.User{UID: owner.UID, GID: owner.GID}
}

// ExecRefusal runs a command as a server with these settings would, and returns why commands cannot run here; nil when they can.
func ExecRefusal(ctx context.Context, cfg Config, workspace string) error {
	owner, err := commandOwner(cfg.ExecUser, workspace)
	if err != nil {
		return err
	}
	return exec.Check(ctx, commandUser(owner))
}
