package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/statedir"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// looks remembers, for one context of one server, the changes that diff, changes and review have shown to the user. approve and apply take these alone.
// It is a file in the user's state directory (XDG Base Directory Specification).
type looks struct {
	context string
	file    string
	// unknown says why there is no file, nil if there is one.
	unknown error
}

// maxLooks bounds the contexts that are remembered: those that were looked at last.
const maxLooks = 1000

// looksAt returns what is remembered of a context.
func (a *app) looksAt(c *client.Client, context string) looks {
	dir, err := a.stateDir()
	if err != nil {
		return looks{context: context, unknown: err}
	}
	sum := sha256.Sum256([]byte(cmp.Or(c.Server().Workspace, c.Address()) + "\x00" + context))
	return looks{context: context, file: filepath.Join(dir, hex.EncodeToString(sum[:16])+".json")}
}

// stateDir returns where the user's programs keep what they remember.
func (a *app) stateDir() (string, error) {
	if dir := a.env.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return ownDir(dir, "ctxfs", "seen")
	}
	if home := a.env.Getenv("HOME"); home != "" {
		return ownDir(home, ".local", "state", "ctxfs", "seen")
	}
	if dir := a.env.Getenv("LocalAppData"); dir != "" { // Windows
		return filepath.Join(dir, "ctxfs", "seen"), nil
	}
	return "", errors.New("HOME is not set")
}

// ownDir returns a path below base. It fails if a directory there, or a link to one, belongs to another user, who could lead this one's
// files elsewhere: under sudo HOME may be another user's. base may be root's, such as /tmp.
func ownDir(base string, names ...string) (string, error) {
	users := []int{os.Geteuid(), 0}
	for dir := base; ; users = users[:1] {
		if st, err := os.Lstat(dir); err == nil {
			if owner, ok := statedir.Owner(st); ok && !slices.Contains(users, owner) {
				return "", fmt.Errorf("%s belongs to uid %d, not to you (uid %d)", dir, owner, users[0])
			}
		}
		if len(names) == 0 {
			return dir, nil
		}
		dir, names = filepath.Join(dir, names[0]), names[1:]
	}
}

// seen has the IDs of the changes that were shown, by their quoted paths.
type seen map[string]string

// key returns the key of a change: JSON has no names that are not UTF-8.
func key(c *ctxfsv1.Change) string {
	return strconv.Quote(cmp.Or(string(c.GetRawPath()), c.GetPath()))
}

// shown remembers changes: all of the context, or those of some paths. It warns if it cannot.
func (l looks) shown(a *app, paths []string, changes []*ctxfsv1.Change) error {
	err := l.unknown
	if err == nil {
		err = l.add(paths, changes)
	}
	if err == nil {
		return nil
	}
	_, err = fmt.Fprintf(a.env.Stderr, "ctxfs: what was shown cannot be remembered (%s): approve and apply need --unseen or --revision\n", oneLine(err.Error()))
	return err
}

func (l looks) add(paths []string, changes []*ctxfsv1.Change) error {
	was, err := l.read()
	if err != nil || len(paths) == 0 {
		was = seen{} // a damaged file is replaced
	}
	for _, p := range paths {
		p = path.Clean("/" + p)
		maps.DeleteFunc(was, func(k, _ string) bool {
			name, err := strconv.Unquote(k)
			return err != nil || p == "/" || name == p || strings.HasPrefix(name, p+"/")
		})
	}
	for _, c := range changes {
		was[key(c)] = c.GetChangeId()
	}
	data, err := json.Marshal(was)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(l.file), ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return l.forgetOld()
}

// forgetOld removes the files of the contexts that were looked at longest ago.
func (l looks) forgetOld() error {
	entries, err := os.ReadDir(filepath.Dir(l.file))
	if err != nil || len(entries) <= maxLooks {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(x, y fs.FileInfo) int { return y.ModTime().Compare(x.ModTime()) })
	for _, old := range files[min(len(files), maxLooks):] {
		if err := os.Remove(filepath.Join(filepath.Dir(l.file), old.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (l looks) read() (seen, error) {
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return seen{}, nil
	}
	out := seen{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// ids returns the IDs of what was shown last of each path. It fails if nothing was.
func (l looks) ids() ([]string, error) {
	none := &client.ReviewError{Reason: client.ReasonStaleRevision, Hint: fmt.Sprintf("look at them with 'ctxfs diff %s', or give --unseen", l.context)}
	if l.unknown != nil {
		none.Detail = "ctxfs does not know which changes you have seen: " + l.unknown.Error()
		none.Hint = "give --unseen, or --revision with the revision that 'ctxfs changes --json' printed"
		return nil, none
	}
	all, err := l.read()
	if err != nil || len(all) == 0 {
		none.Detail = "ctxfs has not shown you these changes"
		return nil, none
	}
	return slices.Sorted(maps.Values(all)), nil
}

// viewing says which bytes a decision is about: those that were shown, those of a revision, or any.
type viewing struct {
	unseen   bool
	revision string
}

func (v *viewing) flags(cmd *cobra.Command, verb string) {
	cmd.Flags().BoolVar(&v.unseen, "unseen", false, verb+" changes too that diff, changes and review have not shown as they are now")
	v.revisionFlag(cmd)
}

func (v *viewing) revisionFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.revision, "revision", "", "fail unless the context is at this revision, which 'changes --json' and 'submit' print")
}

// bind makes a selection one of what the user has seen. Hunks and patches name that by themselves.
func (v *viewing) bind(l looks, sel *ctxfsv1.Selection) (err error) {
	switch what := sel.GetWhat().(type) {
	case *ctxfsv1.Selection_All:
	case *ctxfsv1.Selection_Changes:
		if len(what.Changes.GetChanges()[0].GetHunkIds()) > 0 {
			return nil
		}
	default:
		return nil
	}
	if v.unseen || v.revision != "" {
		return nil
	}
	sel.Seen, err = l.ids()
	return err
}
