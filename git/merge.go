package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// mergeTimeout bounds one merge of three texts.
const mergeTimeout = 30 * time.Second

// MergeFile merges what ours and theirs changed of base, line by line, as git merge-file does. clean is false if both changed the same
// lines; merged is nil then. It writes its input into a directory of its own in parent. No configuration counts.
func MergeFile(ctx context.Context, parent string, base, ours, theirs []byte) (merged []byte, clean bool, err error) {
	merged, clean, err = mergeFile(ctx, parent, base, ours, theirs)
	if !clean {
		merged = nil
	}
	return merged, clean, err
}

// Favour says whose lines win a merge where both sides changed the same lines.
type Favour string

// The sides of a merge.
const (
	FavourOurs   Favour = "--ours"
	FavourTheirs Favour = "--theirs"
)

// MergeFavouring is MergeFile, but the lines of one side win where both changed the same lines.
func MergeFavouring(ctx context.Context, parent string, base, ours, theirs []byte, side Favour) ([]byte, error) {
	merged, _, err := mergeFile(ctx, parent, base, ours, theirs, string(side))
	return merged, err
}

// MergeMarked is MergeFile, but writes lines that conflict between markers, in git's style zdiff3. The labels name ours, base and theirs. The markers
// are longer than those that the texts have.
func MergeMarked(ctx context.Context, parent string, base, ours, theirs []byte, labels [3]string) ([]byte, error) {
	args := []string{"--zdiff3", "--marker-size=" + strconv.Itoa(markerSize(base, ours, theirs))}
	for _, label := range labels {
		args = append(args, "-L", label)
	}
	merged, _, err := mergeFile(ctx, parent, base, ours, theirs, args...)
	return merged, err
}

// usualMarkerSize is how many characters of a kind a marker has in git.
const usualMarkerSize = 7

// maxMarkerSize bounds the markers. Longer runs of a marker's character are rules, and no markers.
const maxMarkerSize = 128

// markerSize returns a length of markers that no line of the texts begins with.
func markerSize(texts ...[]byte) int {
	size := usualMarkerSize
	for _, text := range texts {
		for line := range bytes.Lines(text) {
			run := len(line) - len(bytes.TrimLeft(line, string(line[:1])))
			if run < maxMarkerSize && bytes.ContainsAny(line[:1], "<|=>") {
				size = max(size, run+1)
			}
		}
	}
	return size
}

func mergeFile(ctx context.Context, parent string, base, ours, theirs []byte, options ...string) (merged []byte, clean bool, err error) {
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
	merged, err = r.run(ctx, mergeTimeout, slices.Concat([]string{"merge-file", "-p", "-q"}, options, []string{"ours", "base", "theirs"})...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return merged, true, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128: // the number of conflicts, at most 127
		return merged, false, nil
	}
	return nil, false, fmt.Errorf("merge: %w", err)
}
