package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mergeTimeout bounds one merge of three texts.
const mergeTimeout = 30 * time.Second

// MergeFile merges what ours and theirs changed of base, line by line, as git merge-file does. clean is false if both changed the same
// lines; merged is nil then. It writes its input into a directory of its own in parent. No configuration counts.
func MergeFile(ctx context.Context, parent string, base, ours, theirs []byte) (merged []byte, clean bool, err error) {
	dir, err := os.MkdirTemp(parent, "merge-")
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, content := range map[string][]byte{"ours": ours, "base": base, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, false, err
		}
	}
	// git finds no repository and no configuration, so it runs nothing that one names.
	r := runner{dir, noPrograms, environ(nil, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)}
	merged, err = r.run(ctx, mergeTimeout, "merge-file", "-p", "-q", "ours", "base", "theirs")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return merged, true, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128: // the number of conflicts, at most 127
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("merge: %w", err)
}
