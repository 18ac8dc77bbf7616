package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// maxSocketPath is the longest path that is used, in bytes: sun_path has 108 on
// Linux and 104 on macOS.
const maxSocketPath = 100

// socketPath returns where the socket goes: in the state directory or, when that
// path is too long, in a directory of this user's alone whose name says which
// workspace it is of.
func socketPath(inState string) (string, error) {
	if len(inState) <= maxSocketPath {
		return inState, nil
	}
	sum := sha256.Sum256([]byte(inState))
	var errs []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if base == "" {
			continue
		}
		dir := filepath.Join(base, "ctxfs-"+strconv.Itoa(os.Geteuid()))
		path := filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
		if len(path) > maxSocketPath {
			errs = append(errs, fmt.Errorf("%s is too long", path))
			continue
		}
		err := privateDir(dir)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("the path of the socket %s has %d bytes, the limit is %d, and there is no other place: %w; set TMPDIR to a short path",
		inState, len(inState), maxSocketPath, errors.Join(errs...))
}

// privateDir makes dir, or checks that the one there is nobody else's.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return verifyPrivate(dir)
}

// listenUnix listens at path. What is there is a killed server's, since the caller
// holds the workspace's lock; it is removed when it is a socket.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	st, err := os.Lstat(path)
	switch {
	case err == nil && st.Mode()&fs.ModeSocket == 0 && st.Mode().Type() != fs.ModeIrregular:
		return nil, fmt.Errorf("%s is in the way of the socket and is none; remove it", path)
	case err == nil:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove a socket that a killed server left: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// The directory is 0700 already, so that nobody comes in between.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
