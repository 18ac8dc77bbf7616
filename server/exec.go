package server

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts"
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

// commandProfiles reads exec_profiles. Commands see no folder in, or around, the workspace, the contexts and the state.
func commandProfiles(file string, l contexts.Layout) (*exec.Profiles, error) {
	profiles, err := exec.LoadProfiles(file, l.Workspace, l.Dir, l.State)
	if err != nil {
		return nil, &ConfigError{Key: "exec_profiles", Problem: err.Error()}
	}
	return profiles, nil
}

// ExecRefusal runs a command as a server with these settings would, and returns why commands cannot run here; nil when they can.
func ExecRefusal(ctx context.Context, cfg Config, workspace string) error {
	owner, err := commandOwner(cfg.ExecUser, workspace)
	if err != nil {
		return err
	}
	return exec.Check(ctx, commandUser(owner))
}
