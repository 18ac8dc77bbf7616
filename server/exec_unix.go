//go:build unix

package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// commandOwner returns the user that runs commands, and that files in contexts belong to; nil means the server's own. Under root that is
// exec_user, else the workspace's owner unless it is root.
func commandOwner(setting, workspace string) (*rootfs.Owner, error) {
	if setting == "" {
		return fileOwner(workspace), nil
	}
	if os.Geteuid() != 0 {
		return nil, &ConfigError{Key: "exec_user", Problem: "only a server that runs as root can run commands as another user"}
	}
	owner, err := parseUser(setting)
	if err != nil {
		return nil, &ConfigError{Key: "exec_user", Problem: err.Error()}
	}
	if owner.UID == 0 || owner.GID == 0 {
		return nil, &ConfigError{Key: "exec_user", Problem: "commands never run as root or in its group"}
	}
	return owner, nil
}

// parseUser reads NAME or UID:GID.
func parseUser(text string) (*rootfs.Owner, error) {
	uid, gid, numbers := strings.Cut(text, ":")
	if !numbers {
		u, err := user.Lookup(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither UID:GID nor a user of this machine", text)
		}
		uid, gid = u.Uid, u.Gid
	}
	owner := &rootfs.Owner{}
	for _, n := range []struct {
		text string
		to   *int
	}{{uid, &owner.UID}, {gid, &owner.GID}} {
		value, err := strconv.ParseUint(n.text, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is neither UID:GID nor a user of this machine", text)
		}
		*n.to = int(value)
	}
	return owner, nil
}
