package server

import "github.com/ctxfs/ctxfs/contexts/rootfs"

func commandOwner(setting, _ string) (*rootfs.Owner, error) {
	if setting != "" {
		return nil, &ConfigError{Key: "exec_user", Problem: "commands run on Linux only"}
	}
	return nil, nil //nolint:nilnil // no owner is no error
}
