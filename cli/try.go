package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
)

// trial is one run of the demo: two panels, and steps that each say what they saw.
type trial struct {
	app    *app
	client *client.Client
	a, b   *client.Panel
	// file is an open handle of panel a.
	file    *client.File
	review  trialReview
	results []stepResult
}

// stepResult is a step's outcome.
type stepResult struct {
	Step string `json:"step"`
	OK   bool   `json:"ok"`
	// Saw is what happened, or went wrong.
	Saw string `json:"saw"`
}

// step does something and says what it saw; an error means that it was not as expected.
type step struct {
	name string
	do   func(context.Context) (string, error)
}

func (a *app) tryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "try", Short: "Try everything on the running server with two panels, then clean up", Args: usage(cobra.NoArgs),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			t := &trial{app: a, client: c}
			err := t.run(ctx)
			if cleanErr := t.clean(); err == nil {
				err = cleanErr
			}
			if a.json {
				err = errors.Join(a.printJSON(t.results), err)
			}
			return err
		}),
	}
}

// run takes the steps in order, up to the first that is not as expected.
func (t *trial) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, s := range t.steps() {
		saw, err := s.do(ctx)
		if err != nil {
			saw = describe(err)
		}
		if outErr := t.report(stepResult{Step: s.name, OK: err == nil, Saw: saw}); outErr != nil {
			return outErr
		}
		if err != nil {
			return fmt.Errorf("try: %s: not as expected", s.name)
		}
	}
	return nil
}

func (t *trial) report(r stepResult) error {
	t.results = append(t.results, r)
	if t.app.json {
		return nil
	}
	mark := "ok  "
	if !r.OK {
		mark = "FAIL"
	}
	return t.app.printf("%s  %-8s %s\n", mark, r.Step, printable(r.Saw))
}

// clean removes what the trial made, also after an interrupt.
func (t *trial) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if t.review.entry != 0 {
		_, err := t.client.Undo(ctx, t.review.entry, false)
		errs = append(errs, err)
	}
	for _, p := range []*client.Panel{t.a, t.b} {
		if p == nil {
			continue
		}
		_, err := t.client.ClosePanel(ctx, p.ID())
		errs = append(errs, p.Close(), err)
		_, err = t.client.DeleteContext(ctx, p.ContextID(), client.DiscardChanges)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// open opens the two panels under names of their own.
func (t *trial) open(ctx context.Context) (string, error) {
	name := "try-" + rand.Text()[:10]
	var err error
	if t.a, err = t.app.open(ctx, t.client, name+"/a", panelFlags{}); err != nil {
		return "", err
	}
	if t.b, err = t.app.open(ctx, t.client, name+"/b", panelFlags{}); err != nil {
		return "", err
	}
	o := t.a.Opened()
	return fmt.Sprintf("panels %s and %s; %s, %s, seeded in %d ms and %d ms", t.a.ID(), t.b.ID(),
		files(o.GetFiles()), size(o.GetBytes()), o.GetDurationMs(), t.b.Opened().GetDurationMs()), nil
}

// tryDir holds all that the trial makes in its panels' folders.
const tryDir = "ctxfs-try"

func (t *trial) steps() []step {
	return []step{
		{"open", t.open}, {"list", t.list}, {"write", t.write}, {"edit", t.edit}, {"watch", t.watch}, {"rename", t.rename},
		{"grep", t.grep}, {"handle", t.handle}, {"foreign", t.foreignHandle}, {"folder", t.foreignFolder},
		{"dotdot", t.dotdot}, {"symlink", t.symlink}, {"git", t.git}, {"close", t.closed},
		{"change", t.change}, {"approve", t.approve}, {"apply", t.apply}, {"undo", t.undo},
	}
}

// refused expects an error with one of these codes, and shows it.
func refused(what string, err error, want ...fserr.Code) (string, error) {
	if err == nil {
		return "", fmt.Errorf("%s was allowed", what)
	}
	for _, code := range want {
		if errors.Is(err, code) {
			return what + " refused: " + describe(err), nil
		}
	}
	return "", fmt.Errorf("%s: %w", what, err)
}

func (t *trial) list(ctx context.Context) (string, error) {
	entries, err := t.a.FS().With(ctx).List("/", client.ListOptions{Stats: true})
	if err != nil {
		return "", err
	}
	var names []string
	for i, e := range entries {
		if i == 6 {
			names = append(names, "…")
			break
		}
		names = append(names, show(e.Name()))
	}
	return fmt.Sprintf("at the root are %s", strings.Join(names, " ")), nil
}

func (t *trial) write(ctx context.Context) (string, error) {
	f := t.a.FS().With(ctx)
	if err := f.MkdirAll(tryDir+"/sub", 0o755); err != nil {
		return "", err
	}
	if err := f.WriteFile(tryDir+"/notes.md", []byte("first line\n"), 0o644); err != nil {
		return "", err
	}
	return expectContent(f, tryDir+"/notes.md", "first line\n")
}

func expectContent(f *client.FS, name, want string) (string, error) {
	got, err := f.ReadFile(name)
	if err != nil {
		return "", err
	}
	if string(got) != want {
		return "", fmt.Errorf("%s holds %q, not %q", name, got, want)
	}
	return fmt.Sprintf("/%s holds %q", name, got), nil
}

func (t *trial) edit(ctx context.Context) (string, error) {
	f := t.a.FS().With(ctx)
	if err := f.AppendFile(tryDir+"/notes.md", []byte("needle in line two\n"), 0o644); err != nil {
		return "", err
	}
	if _, err := expectContent(f, tryDir+"/notes.md", "first line\nneedle in line two\n"); err != nil {
		return "", err
	}
	_, err := t.b.FS().With(ctx).Stat(tryDir + "/notes.md")
	if !errors.Is(err, fserr.ENOENT) {
		return "", fmt.Errorf("the other panel sees the edit: %w", err)
	}
	return "appended a line; the other panel has no such file", nil
}

func (t *trial) watch(ctx context.Context) (saw string, err error) {
	f := t.a.FS().With(ctx)
	w, err := f.Watch(tryDir, true)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := f.WriteFile(tryDir+"/sub/new.txt", []byte("x"), 0o644); err != nil {
		return "", err
	}
	for ev, err := range w.All() {
		if err != nil {
			return "", err
		}
		if ev.Name == "sub/new.txt" {
			return fmt.Sprintf("event %s %s", ev.Kind, ev.Name), nil
		}
	}
	return "", errors.New("the watch ended without an event")
}

func (t *trial) rename(ctx context.Context) (string, error) {
	f := t.a.FS().With(ctx)
	if err := f.Rename(tryDir+"/notes.md", tryDir+"/sub/renamed.md"); err != nil {
		return "", err
	}
	if ok, err := f.Exists(tryDir + "/notes.md"); ok || err != nil {
		return "", errors.Join(errors.New("the old name is still there"), err)
	}
	return "/" + tryDir + "/notes.md -> /" + tryDir + "/sub/renamed.md", nil
}

func (t *trial) grep(ctx context.Context) (string, error) {
	var at string
	sum, err := t.a.FS().With(ctx).Grep(client.GrepOptions{Path: tryDir, Pattern: "need.e"}, func(g client.GrepFile) error {
		at = fmt.Sprintf("%s:%d", g.Path, g.Lines[0].GetLineNumber())
		return nil
	})
	if err != nil {
		return "", err
	}
	if want := "/" + tryDir + "/sub/renamed.md:2"; at != want || sum.GetMatches() != 1 {
		return "", fmt.Errorf("found %q, not %q", at, want)
	}
	return fmt.Sprintf("%s, %s searched", at, files(sum.GetFilesSearched())), nil
}

func (t *trial) handle(ctx context.Context) (string, error) {
	file, err := t.a.FS().With(ctx).OpenFile(tryDir+"/sub/renamed.md", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	t.file = file
	if _, err := file.Seek(6, io.SeekStart); err != nil {
		return "", err
	}
	var buf [4]byte
	if _, err := io.ReadFull(file, buf[:]); err != nil {
		return "", err
	}
	if !bytes.Equal(buf[:], []byte("line")) {
		return "", fmt.Errorf("read %q at 6, not %q", buf, "line")
	}
	return fmt.Sprintf("fd %d, 4 bytes at 6: %q", file.Fd(), buf[:]), nil
}

func (t *trial) foreignHandle(ctx context.Context) (string, error) {
	_, err := t.b.FS().With(ctx).FileOf(t.file.Fd(), "handle of the other panel").Stat()
	if _, own := t.file.Stat(); own != nil {
		return "", own
	}
	return refused("the other panel's handle is", err, fserr.EBADF)
}

func (t *trial) foreignFolder(ctx context.Context) (string, error) {
	_, err := t.b.Context(t.a.ContextID()).With(ctx).List("/", client.ListOptions{})
	return refused("the other panel's folder is", err, fserr.EACCES, fserr.EPERM)
}

func (t *trial) dotdot(ctx context.Context) (string, error) {
	_, err := t.a.FS().With(ctx).ReadStream("../../etc/passwd", client.ReadOptions{})
	return refused("../../etc/passwd is", err, fserr.EACCES)
}

func (t *trial) symlink(ctx context.Context) (string, error) {
	f := t.a.FS().With(ctx)
	if err := f.Symlink("../../../../../../../../etc/passwd", tryDir+"/escape"); err != nil {
		return "", err
	}
	_, err := f.ReadFile(tryDir + "/escape")
	return refused("a link that leads outside is", err, fserr.EACCES)
}

// git must not find the workspace's repository from inside a context: a reset there would destroy edits.
func (t *trial) git(ctx context.Context) (string, error) {
	info, err := t.client.Info(ctx, t.a.ContextID())
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(info.GetFolder()); err != nil || !st.IsDir() {
		return "not tried: the context's folder is not on this machine", nil
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return "not tried: there is no git command here", nil
	}
	cmd := exec.CommandContext(ctx, git, "rev-parse", "--show-toplevel")
	cmd.Dir = info.GetFolder()
	cmd.Env = withoutGit(os.Environ())
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", fmt.Errorf("git inside the context finds %s", strings.TrimSpace(string(out)))
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return "inside the context git finds no repository: " + first, nil
}

// withoutGit drops variables such as GIT_DIR, which would lead git elsewhere.
func withoutGit(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "GIT_") {
			out = append(out, e)
		}
	}
	return out
}

func (t *trial) closed(ctx context.Context) (string, error) {
	if err := t.file.Close(); err != nil {
		return "", err
	}
	if _, err := t.client.ClosePanel(ctx, t.b.ID()); err != nil {
		return "", err
	}
	_, err := t.b.FS().With(ctx).Stat("/")
	return refused("the token of a closed panel is", err, fserr.EACCES)
}
