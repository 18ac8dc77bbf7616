package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// reviewedBase is what the context is seeded with. Apply takes app, which the agent changes: reviewedNew. Rebase takes lib, which the user changes
// as well: reviewedTheirs is the workspace's, reviewedOwn the context's. Discard takes app and lib/both.
var reviewedBase, reviewedNew, reviewedTheirs, reviewedOwn = func() (old, applied, theirs, own map[string]string) {
	long := strings.Repeat("line\n", 20)
	begin, end := "first\n"+long, "last\n"
	agent, user := "by the agent\n"+long, "by the user\n"+long
	old = map[string]string{
		"app/place": begin + end, "app/rename": begin + end, "app/text": begin + end, "app/gone/file": "gone\n", "app/dir/x": "x\n", "app/file": "f\n", "app/kept": "kept\n",
		"lib/place": begin + end, "lib/rename": begin + end, "lib/both/text": begin + end, "lib/both/clash": "old\n", "lib/both/theirs": "old\n", "lib/both/gone": "gone\n",
		"lib/both/deleted": "old\n", "lib/both/removed": "old\n", "lib/both/dir": "a file\n", "lib/both/kept": "kept\n",
	}
	applied = map[string]string{
		"app/place": agent + end, "app/rename": agent + end, "app/text": agent + end, "app/new/deep/file": "new\n", "app/dir": "a file\n", "app/file/x": "f\n", "app/kept": "kept\n",
	}
	theirs = map[string]string{
		"lib/place": user + end, "lib/rename": user + end, "lib/both/text": begin + "by the user\n", "lib/both/clash": "theirs\n", "lib/both/theirs": "theirs\n",
		"lib/both/removed": "theirs\n", "lib/both/dir/x": "x\n", "lib/both/added/deep": "added\n", "lib/both/kept": "kept\n",
	}
	own = map[string]string{
		"lib/place": begin + end, "lib/rename": begin + end, "lib/both/text": agent + end, "lib/both/clash": "own\n", "lib/both/theirs": "old\n", "lib/both/gone": "gone\n",
		"lib/both/deleted": "own\n", "lib/both/dir": "a file\n", "lib/both/kept": "kept\n", "lib/own": "decided on\n",
	}
	for i := range 8 {
		many, moved := fmt.Sprintf("app/many/%d", i), fmt.Sprintf("lib/both/many/%d", i)
		old[many], applied[many] = "old\n", "new\n"
		old[moved], theirs[moved], own[moved] = "old\n", "theirs\n", "old\n"
	}
	return old, applied, theirs, own
}()

// below returns the files of a tree below a directory.
func below(tree map[string]string, dir string) map[string]string {
	out := maps.Clone(tree)
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, dir+"/") })
	return out
}

// with returns a tree in which the files below a directory are others.
func with(tree map[string]string, dir string, others map[string]string) map[string]string {
	out := maps.Clone(tree)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, dir+"/") })
	maps.Copy(out, below(others, dir))
	return out
}

// clashing are the paths that no Rebase can merge.
var clashing = []string{"/lib/both/clash", "/lib/both/deleted", "/lib/both/removed"}

const clashMarked = "<<<<<<< context\nown\n||||||| base\nold\n=======\ntheirs\n>>>>>>> workspace\n"

// rebased is the context's lib/both after a Rebase.
func rebased(mode ctxfsv1.OnConflict) map[string]string {
	out := below(reviewedTheirs, "lib/both")
	out["lib/both/text"] = strings.Replace(out["lib/both/text"], "first\n", "by the agent\n", 1)
	switch mode {
	case ctxfsv1.OnConflict_ON_CONFLICT_TAKE_WORKSPACE:
		return out
	case ctxfsv1.OnConflict_ON_CONFLICT_MARKERS:
		out["lib/both/clash"] = clashMarked
	default:
		out["lib/both/clash"] = "own\n"
	}
	out["lib/both/deleted"] = "own\n"
	delete(out, "lib/both/removed")
	return out
}

// diverge makes the edits of the agent in the context, and those of the user in the workspace.
func (r *reviewed) diverge(ctx context.Context, c *client.Client) {
	r.t.Helper()
	_, err := c.EnsureContext(ctx, reviewedID, nil)
	must(r.t, err)
	r.clear(r.folder(), "app", "lib")
	r.write(r.folder(), reviewedNew)
	r.write(r.folder(), reviewedOwn)
	r.clear(r.dir, "lib")
	r.write(r.dir, reviewedTheirs)
}

func (r *reviewed) write(dir string, tree map[string]string) {
	r.t.Helper()
	for name, text := range tree {
		must(r.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(r.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// clear removes what directories hold, but not their repositories.
func (r *reviewed) clear(dir string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		must(r.t, err)
		for _, e := range entries {
			if e.Name() != ".git" {
				must(r.t, os.RemoveAll(filepath.Join(dir, name, e.Name())))
			}
		}
	}
}

func (r *reviewed) git(repo string, args ...string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", filepath.Join(r.dir, repo)}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.t.Fatalf("git %v: %v: %s", args, err, exit.Stderr)
	}
	must(r.t, err)
	return strings.TrimSpace(string(out))
}

// once undoes what was done last, or does something.
func (r *reviewed) once(ctx context.Context, c *client.Client) (name string, err error) {
	review := c.Review(reviewedID)
	live, newest, err := r.live(ctx, c)
	if err != nil {
		return "listJournal", err
	}
	if len(live) > 0 {
		isNew := live[0].GetJournalId() == newest // a resolution that was undone is not tried again
		if live[0].GetKind() == ctxfsv1.JournalKind_JOURNAL_KIND_REBASE && isNew && r.records() && r.rng.IntN(2) == 0 {
			_, err = review.Resolve(ctx, clashing[0], ctxfsv1.Resolution_RESOLUTION_WORKSPACE)
			return "resolve", err
		}
		name, commit := "undo "+strings.ToLower(strings.TrimPrefix(live[0].GetKind().String(), "JOURNAL_KIND_")), (*ctxfsv1.CommitOptions)(nil)
		if made := live[0].GetCommits(); len(made) > 0 && made[0].GetRef() == "refs/heads/main" && r.rng.IntN(3) > 0 {
			name, commit = name+" with commits", &ctxfsv1.CommitOptions{}
		}
		_, err = c.UndoCommits(ctx, live[0].GetJournalId(), commit, false)
		return name, err
	}
	switch r.rng.IntN(6) {
	case 0:
		_, err = review.Discard(ctx, &ctxfsv1.DiscardRequest{Selection: client.SelectPaths("app", "lib/both")})
		return "discard", err
	case 1, 2:
		r.mode = ctxfsv1.OnConflict(r.rng.IntN(5))
		_, err = review.Rebase(ctx, &ctxfsv1.RebaseRequest{OnConflict: r.mode})
		return "rebase " + strings.ToLower(strings.TrimPrefix(r.mode.String(), "ON_CONFLICT_")), err
	}
	req := &ctxfsv1.ApplyRequest{Selection: client.SelectPaths("app"), Approve: true}
	switch r.rng.IntN(3) {
	case 0:
		req.Target, req.Commit = ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT, &ctxfsv1.CommitOptions{Message: "commit", Hooks: ctxfsv1.CommitHooks(r.rng.IntN(2))}
	case 1:
		req.Target, req.Commit = ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH, &ctxfsv1.CommitOptions{Message: "branch", Branch: fmt.Sprintf("side-%016x", r.rng.Uint64())}
	}
	_, err = review.Apply(ctx, req)
	return "apply " + strings.ToLower(strings.TrimPrefix(req.GetTarget().String(), "APPLY_TARGET_")), err
}

// records reports whether the latest Rebase recorded its conflicts.
func (r *reviewed) records() bool {
	return r.mode == ctxfsv1.OnConflict_ON_CONFLICT_RECORD || r.mode == ctxfsv1.OnConflict_ON_CONFLICT_MARKERS
}

// liveWithin is how many entries of the journal have all that was done and not undone.
const liveWithin = 8

// live returns what was done and not undone, the newest first, and the ID of the newest entry.
func (r *reviewed) live(ctx context.Context, c *client.Client) (live []*ctxfsv1.JournalEntry, newest int64, err error) {
	page, err := c.Review(reviewedID).Journal(ctx, "", liveWithin)
	if len(page) > 0 {
		newest = page[0].GetJournalId()
	}
	return slices.DeleteFunc(page, func(e *ctxfsv1.JournalEntry) bool {
		return e.GetKind() == ctxfsv1.JournalKind_JOURNAL_KIND_UNDO || e.GetUndoneBy() != 0
	}), newest, err
}

// settle checks that each path of the workspace, of the context and of the commits is as the journal says, or as an editor saved it last.
func (r *reviewed) settle(ctx context.Context, c *client.Client) error {
	live, _, err := r.live(ctx, c)
	if err != nil {
		return err
	}
	workspace := with(reviewedTheirs, "app", reviewedBase)
	folder := with(reviewedOwn, "app", reviewedNew)
	follows, commits, open := false, false, []string(nil)
	for _, e := range slices.Backward(live) {
		switch e.GetKind() {
		case ctxfsv1.JournalKind_JOURNAL_KIND_APPLY:
			made := e.GetCommits()
			commits = len(made) > 0 && made[0].GetRef() == "refs/heads/main"
			// An Apply to a branch that has the changes already makes no commit, and changes no file.
			if commits || (len(made) == 0 && slices.ContainsFunc(e.GetFiles(), func(f *ctxfsv1.AppliedFile) bool { return f.GetKind() != 0 })) {
				workspace = with(workspace, "app", reviewedNew)
			}
		case ctxfsv1.JournalKind_JOURNAL_KIND_DISCARD:
			folder = with(with(folder, "app", reviewedBase), "lib/both", reviewedBase)
		case ctxfsv1.JournalKind_JOURNAL_KIND_REBASE:
			folder, follows = with(folder, "lib/both", rebased(r.mode)), true
			if r.records() {
				open = clashing
			}
		case ctxfsv1.JournalKind_JOURNAL_KIND_RESOLVE:
			folder["lib/both/clash"], open = "theirs\n", clashing[1:]
		}
	}
	was := r.tree(r.dir)
	now := r.tree(r.folder())
	errs := []error{r.lost("workspace", was, r.users), r.lost("context", now, r.agents)}
	for _, e := range r.users { // a Rebase brings some save of each into the context
		if text := now[e.name]; follows && text != folder[e.name] && isSave(e, text) {
			folder[e.name] = text
		}
		workspace[e.name] = was[e.name]
	}
	for _, e := range r.agents {
		folder[e.name] = now[e.name]
	}
	errs = append(errs, sameTree("workspace", was, workspace), sameTree("context", now, folder), r.checkCommits(ctx, c, commits), r.checkConflicts(ctx, c, open), r.marked(ctx, c))
	return errors.Join(errs...)
}

// isSave reports whether a text is one of an editor's saves with the other side's change.
func isSave(e *editor, text string) bool {
	for n := range e.saves {
		if text == e.merged(n+1) {
			return true
		}
	}
	return false
}

// lost returns an error for each editor whose latest save is not there.
func (r *reviewed) lost(what string, got map[string]string, editors []*editor) error {
	var errs []error
	for _, e := range editors {
		if text := got[e.name]; text != e.saved(e.saves) && text != e.merged(e.saves) {
			errs = append(errs, fmt.Errorf("save %d of %s of the %s is lost: it is %q", e.saves, e.name, what, text))
		}
	}
	return errors.Join(errs...)
}

func sameTree(what string, got, want map[string]string) error {
	var errs []error
	for name, text := range want {
		if now, ok := got[name]; !ok || now != text {
			errs = append(errs, fmt.Errorf("%s of the %s is %q, want %q", name, what, now, text))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			errs = append(errs, fmt.Errorf("%s of the %s is there", name, what))
		}
	}
	return errors.Join(errs...)
}

// tree reads the files of app and lib, with names that only the server uses.
func (r *reviewed) tree(dir string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, repo := range []string{"app", "lib"} {
		must(r.t, filepath.WalkDir(filepath.Join(dir, repo), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == ".git" {
				return fs.SkipDir
			}
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			if d.IsDir() {
				if strings.Contains(d.Name(), rootfs.ReservedPrefix) {
					out[rel] = "a directory"
				}
				return nil
			}
			data, err := os.ReadFile(name)
			out[rel] = string(data)
			return err
		}))
	}
	return out
}

// checkCommits checks that each commit holds all that was applied or nothing of it, that the index follows, and that branches are those of
// the journal. Then the user takes the commits back, so that the next Apply has something to commit.
func (r *reviewed) checkCommits(ctx context.Context, c *client.Client, applied bool) error {
	entries, err := c.Review(reviewedID).Journal(ctx, "", 1000)
	if err != nil {
		return err
	}
	errs := []error{}
	logged := map[string]bool{}
	for _, e := range entries {
		for _, made := range e.GetCommits() {
			logged[made.GetRef()] = true
		}
	}
	for line := range strings.Lines(r.git("app", "for-each-ref", "--format=%(refname)", "refs/heads/side-*")) {
		ref := strings.TrimSpace(line)
		if !logged[ref] {
			errs = append(errs, fmt.Errorf("%s is there, and no entry of the journal has it", ref))
		}
		errs = append(errs, sameTree(ref, r.commit(ref), below(reviewedNew, "app")))
		r.branches[ref] = true
		r.git("app", "update-ref", "-d", ref)
	}
	for ref := range logged {
		if ref != "refs/heads/main" && !r.branches[ref] {
			errs = append(errs, fmt.Errorf("an entry of the journal has %s, which is not there", ref))
		}
	}
	head := r.commit("HEAD")
	if isNew := sameTree("HEAD", head, below(reviewedNew, "app")); isNew != nil {
		errs = append(errs, sameTree("HEAD", head, below(reviewedBase, "app")))
		if applied && r.git("app", "rev-parse", "HEAD") != r.git("app", "rev-parse", "first") {
			errs = append(errs, isNew)
		}
	}
	if out := r.git("app", "diff", "--cached", "--name-only"); out != "" {
		errs = append(errs, fmt.Errorf("the index does not follow HEAD: %s", out))
	}
	for _, pattern := range []string{"*.lock", "ctxfs-*", "refs/heads/*.lock"} {
		if left, _ := filepath.Glob(filepath.Join(r.dir, "app/.git", pattern)); len(left) > 0 {
			errs = append(errs, fmt.Errorf("left in the repository: %q", left))
		}
	}
	r.git("app", "reset", "-q", "first")
	return errors.Join(errs...)
}

// commit reads the files of a commit of app.
func (r *reviewed) commit(ref string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for name := range strings.Lines(r.git("app", "ls-tree", "-r", "--name-only", ref)) {
		name = strings.TrimSpace(name)
		out["app/"+name] = r.git("app", "show", ref+":"+name) + "\n"
	}
	return out
}

// contentHash matches a content that a record refers to.
var contentHash = regexp.MustCompile(`"sha256":"([0-9a-f]{64})"`)

// keptContents checks that each content is there, whole, which the records of reviews and staged commits refer to.
func (r *reviewed) keptContents() error {
	var errs []error
	state := filepath.Join(r.dir, ".contexts/.ctxfs")
	kinds := []string{"review/contexts/*.json", "review/journal/*.json", "review/revisions/*/*.json", "git/*/staged.json"}
	for _, kind := range kinds {
		records, err := filepath.Glob(filepath.Join(state, kind))
		errs = append(errs, err)
		for _, record := range records {
			text, err := os.ReadFile(record)
			errs = append(errs, err)
			for _, match := range contentHash.FindAllSubmatch(text, -1) {
				hash := string(match[1])
				content, err := os.ReadFile(filepath.Join(state, "review/blobs", hash[:2], hash))
				if sum := sha256.Sum256(content); err == nil && hex.EncodeToString(sum[:]) != hash {
					err = fmt.Errorf("it is %q", content)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("a content that %s refers to is lost: %w", record, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// checkConflicts checks which conflicts are recorded.
func (r *reviewed) checkConflicts(ctx context.Context, c *client.Client, want []string) error {
	list, err := c.Review(reviewedID).Conflicts(ctx)
	if err != nil {
		return err
	}
	var got []string
	for _, one := range list {
		got = append(got, one.GetPath())
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("conflicts are recorded for %q, want %q", got, want)
	}
	return nil
}

// marked checks that each entry that was undone names the one that did it.
func (r *reviewed) marked(ctx context.Context, c *client.Client) error {
	entries, err := c.Review(reviewedID).Journal(ctx, "", 1000)
	if err != nil {
		return err
	}
	byID := map[int64]*ctxfsv1.JournalEntry{}
	for _, e := range entries {
		byID[e.GetJournalId()] = e
	}
	for _, e := range entries {
		if of := byID[e.GetUndoes()]; of != nil && of.GetUndoneBy() != e.GetJournalId() {
			return fmt.Errorf("entry %d undoes %d, which names %d", e.GetJournalId(), e.GetUndoes(), of.GetUndoneBy())
		}
	}
	return nil
}
