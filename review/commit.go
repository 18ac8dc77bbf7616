package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// Target says where Apply puts what is approved.
type Target string

// The targets.
const (
	// ToWorkingTree changes files of the workspace only.
	ToWorkingTree Target = ""
	// ToCommit changes files of the workspace, and commits the same changes to what each repository has checked out.
	ToCommit Target = "commit"
	// ToBranch commits to a branch that is not checked out. Working tree, index and HEAD stay.
	ToBranch Target = "branch"
)

// CommitOptions say how the commits of an Apply are made.
type CommitOptions struct {
	Message string
	// Author, if it is the zero Identity, is the repository's.
	Author git.Identity
	// Trailers are lines "Key: value".
	Trailers []string
	// Branch is the branch of ToBranch, and "" otherwise.
	Branch string
	// RunHooks runs the hooks of the repositories, for ToCommit.
	RunHooks bool
	// reverts are the commits that are undone, by repository; nil if none are.
	reverts map[Path]Commit
}

// Commit is a commit that an entry made.
type Commit struct {
	// Repository is relative to the workspace, "" for the workspace's own.
	Repository Path `json:"repository"`
	// ID is "" in a dry run.
	ID string `json:"id"`
	// Ref is what it moved: a branch's full name, or HEAD if it was detached. Old is what Ref named before, "" for nothing. Parent is
	// Old or, for a new branch, the commit of HEAD; "" for the first commit.
	Ref       string       `json:"ref"`
	Old       string       `json:"old,omitempty"`
	Parent    string       `json:"parent,omitempty"`
	Author    git.Identity `json:"author"`
	Committer git.Identity `json:"committer"`
	// Index is the SHA-256 of the index that goes with it; "" if there is none.
	Index string `json:"index,omitempty"`
	// Hooks are the names of the hooks that ran, in their order.
	Hooks []string `json:"hooks,omitempty"`
}

// committed is what a commit does to a path.
type committed struct {
	Before Version `json:"before"`
	After  Version `json:"after"`
	Merged bool    `json:"merged,omitempty"`
}

// maxMessage bounds the message of a commit, in bytes, and maxTrailers the number of trailers.
const (
	maxMessage  = 64 << 10
	maxTrailers = 100
)

// The trailers that name the review in each commit.
const (
	contextTrailer = "Ctxfs-Context"
	reviewTrailer  = "Ctxfs-Review"
)

// check refuses options that make no commit.
func (o *CommitOptions) check(t Target) error {
	bad := func(detail, hint string) error { return &fserr.Error{Code: fserr.EINVAL, Detail: detail, Hint: hint} }
	switch {
	case t != ToCommit && t != ToBranch:
		return bad("unknown target", "apply to the working tree, a commit or a branch")
	case t == ToBranch && o.Branch == "":
		return bad("no branch is named", "name the branch to commit to")
	case t == ToBranch && o.RunHooks:
		return bad("hooks cannot run for a commit to a branch: they would look at files of another branch", "leave the hooks out, or commit to what is checked out")
	case t == ToCommit && o.Branch != "":
		return bad("a branch is named for a commit to what is checked out", "leave the branch out, or commit to the branch only")
	case len(o.Trailers) > maxTrailers:
		return bad("the commit's message is too long", fmt.Sprintf("at most %d trailers", maxTrailers))
	}
	if err := CheckMessage(o.Message); err != nil {
		return err
	}
	if o.Author != (git.Identity{}) {
		if err := o.Author.Check(); err != nil {
			return err
		}
	}
	for _, line := range o.Trailers {
		if err := git.CheckTrailer(line); err != nil {
			return err
		}
		if err := checkOwnTrailer(line); err != nil {
			return err
		}
	}
	return nil
}

// draft is the commit of one repository.
type draft struct {
	*git.Draft
	repo  *git.Local
	done  *Commit
	steps []*step
	// tree and message are those of the commit.
	tree    string
	message git.Message
	text    []byte
	// index holds what becomes of paths of the index.
	index map[Path]Version
	// given says that the commit is there already. Then files are what becomes of paths of the index.
	given bool
	files []git.File
}

// drafts are the commits of an entry: all are made or none.
type drafts struct {
	r       *Reviews
	context string
	opts    CommitOptions
	all     []*draft
	// merges knows the merges of the working tree's plan.
	merges merger
}

func (d *drafts) close() {
	for _, c := range d.all {
		if err := c.Close(); err != nil {
			d.r.cfg.Log.Warn("what a commit needed could not be removed", zap.String("repository", string(c.done.Repository)), zap.Error(err))
		}
	}
}

// source is the workspace as git reads it.
func (r *Reviews) source() (seed.Source, error) {
	dir, err := filepath.EvalSymlinks(r.cfg.Workspace)
	return seed.Source{Root: r.ws.root, Dir: dir, Avoid: string(r.cfg.ContextsDir), Excluder: &r.excluder}, err
}

func (r *Reviews) repository(p Path) (*git.Local, error) {
	src, err := r.source()
	if err != nil {
		return nil, err
	}
	return r.git.Open(src.GitFS(), path.Join(".", string(p)), path.Join("/", string(p)))
}

// repositoryOf returns the innermost repository of the workspace that a path lies in. No link is followed.
func (w *workspace) repositoryOf(p Path) (repo Path, ok bool) {
	dir := ""
	for {
		if _, err := w.root.Lstat(path.Join("/", dir, ".git")); err == nil {
			repo, ok = Path(dir), true
		}
		name, _, more := strings.Cut(strings.TrimPrefix(string(p)[len(dir):], "/"), "/")
		if dir = path.Join(dir, name); !more {
			return repo, ok
		}
		if st, err := w.root.Lstat("/" + dir); err != nil || !st.IsDir() {
			return repo, ok
		}
	}
}

// planCommits finds what the commits of an entry hold, and changes nothing but the store. The caller closes the result.
func (r *Reviews) planCommits(ctx context.Context, e *Entry, opts *CommitOptions, merges merger) (_ *drafts, err error) {
	d := &drafts{r: r, context: e.Context, merges: merges}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if opts == nil {
		return d, nil
	}
	d.opts = *opts
	if r.cfg.Owner != nil {
		return d, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "the server runs as root, and would leave files of root in the repository of another user",
			Hint: "run the server as the owner of the workspace, or apply without --commit and --branch",
		}
	}
	byRepo := map[Path][]*step{}
	var outside []Path
	for i := range e.Steps {
		s := &e.Steps[i]
		repo, ok := r.ws.repositoryOf(s.Path)
		if !ok {
			outside = append(outside, s.Path)
		}
		byRepo[repo] = append(byRepo[repo], s)
	}
	if len(outside) > 0 {
		return d, refuse(NoRepository, outside, "nothing was applied: these files belong to no repository, and cannot be committed", "leave them out, or apply them without --commit and --branch")
	}
	for _, p := range slices.Sorted(maps.Keys(byRepo)) {
		if err := d.plan(ctx, p, byRepo[p]); err != nil {
			return d, asRefusal(err)
		}
	}
	e.Commits = d.commits()
	return d, nil
}

func (d *drafts) commits() []Commit {
	var out []Commit
	for _, c := range d.all {
		out = append(out, *c.done)
	}
	return out
}

// asRefusal makes a refusal of git's EBUSY and ErrMoved.
func asRefusal(err error) error {
	_, detail, hint := fserr.Parts(err)
	var hook *git.HookError
	switch {
	case errors.As(err, &hook) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return err
	case errors.As(err, &hook) && hook.Err == nil:
		return refuse(HookFailed, nil, "nothing was applied: hook "+hook.Hook+" changed the content of the commit", "change the context to what the hook wants, or apply without --hooks")
	case errors.As(err, &hook):
		return refuse(HookFailed, nil, fmt.Sprintf("nothing was applied: hook %s failed: %s", hook.Hook, cmp.Or(hook.Output, hook.Err.Error())), "do what the hook asks for, or apply without --hooks")
	case errors.Is(err, git.ErrMoved):
		return refuse(Conflicting, nil, "nothing was applied: a program changed the branch, the index or HEAD of a repository meanwhile", "apply again")
	case fserr.CodeOf(err) == fserr.EBUSY:
		return refuse(RepositoryBusy, nil, "nothing was applied: "+detail, hint)
	}
	return err
}

// plan finds what one repository's commit holds. A repository that holds all of it already gets no commit.
func (d *drafts) plan(ctx context.Context, p Path, steps []*step) error {
	repo, err := d.r.repository(p)
	if err != nil {
		return err
	}
	g, err := repo.Draft(ctx, d.opts.Branch)
	if err != nil {
		return err
	}
	c := &draft{Draft: g, repo: repo, done: &Commit{Repository: p, Ref: g.Ref, Old: g.Old, Parent: g.Parent}, index: map[Path]Version{}}
	d.all = append(d.all, c)
	if d.opts.reverts != nil {
		steps, err = c.reverting(d.opts.reverts[p], steps)
	} else {
		err = d.convert(ctx, c, steps)
	}
	if err != nil {
		return err
	}
	conflicts, err := c.merge(ctx, d.merges, steps)
	if err == nil && len(conflicts) > 0 {
		err = dirty("%s of %s does not have the lines that were changed in these files", c, conflicts)
	}
	if err == nil && d.opts.Branch == "" {
		conflicts, err = c.mergeIndex(ctx, d.merges)
		if err == nil && len(conflicts) > 0 {
			err = dirty("the index, on top of %s of %s, has other changes of the same lines of these files", c, conflicts)
		}
	}
	var refused *Error
	if d.opts.reverts != nil && errors.As(err, &refused) {
		refused.Hint = "undo without --commit, and revert the commit by hand"
	}
	if err != nil {
		return err
	}
	if len(c.steps) == 0 {
		d.all = d.all[:len(d.all)-1]
		return g.Close()
	}
	return d.identify(ctx, c)
}

// convert makes the steps of a repository differences between what git stores. It refuses files that a filter program converts: the commit would have
// their content as it is in the folder, in plain text for one.
func (d *drafts) convert(ctx context.Context, c *draft, steps []*step) error {
	changes := make([]PickedChange, len(steps))
	for i, s := range steps {
		changes[i] = PickedChange{s.Path, s.from, s.to}
	}
	attributes, err := d.r.attributesOf(ctx, d.context, c.done.Repository, changes)
	if err != nil {
		return err
	}
	changes, refused, err := d.r.InBlobs(ctx, c.Draft, c.done.Repository, changes, attributes)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return refuse(NeedsFilter, refused, "nothing was applied: the attributes of these files name a filter program, such as Git LFS or git-crypt, which ctxfs does not run",
			"leave them out, or apply without --commit and --branch, and commit them with git")
	}
	for i, s := range steps {
		s.from, s.to = changes[i].Before, changes[i].After
	}
	return nil
}

// reverting returns the steps of those paths that the commit to be undone has changed: from what it made of them to what they were.
func (c *draft) reverting(undone Commit, steps []*step) (reverts []*step, err error) {
	for _, s := range steps {
		if s.revert != nil {
			s.from, s.to = s.revert.After, s.revert.Before
			reverts = append(reverts, s)
		}
	}
	if len(reverts) > 0 && undone.Ref != c.Ref {
		err = &fserr.Error{
			Code: fserr.EINVAL, Detail: fmt.Sprintf("nothing was undone: the commit is on %s, and %s of %s is checked out", undone.Ref, c.Ref, shownRepository(c.done.Repository)),
			Hint: "check that branch out, or undo without --commit",
		}
	}
	return reverts, err
}

// dirty refuses what a commit cannot hold without changes of the user's.
func dirty(why string, c *draft, conflicts []Conflict) error {
	e := conflicting("nothing was applied: "+fmt.Sprintf(why, strings.TrimPrefix(c.Ref, "refs/heads/"), shownRepository(c.done.Repository)), conflicts)
	e.Reason, e.Hint = DirtyCommit, "commit your own changes of them first, leave them out, or apply without --commit and --branch"
	return e
}

func shownRepository(p Path) string {
	if p == "" {
		return "the workspace's repository"
	}
	return "repository " + string(p)
}

// identify sets author and committer.
func (d *drafts) identify(ctx context.Context, c *draft) error {
	own, ok := c.Identity(ctx)
	c.done.Author, c.done.Committer = d.opts.Author, own
	if c.done.Author == (git.Identity{}) {
		c.done.Author = own
	}
	if !ok {
		c.done.Committer = d.opts.Author
	}
	if c.done.Author.Check() != nil || c.done.Committer.Check() != nil {
		return &fserr.Error{
			Code: fserr.EINVAL, Detail: "nothing was applied: no author is named, and " + shownRepository(c.done.Repository) + " has no user.name and user.email",
			Hint: "name an author (--author), or set them with git config; included files do not count",
		}
	}
	return nil
}

// within returns a path of the workspace relative to the repository.
func (c *draft) within(p Path) string {
	return strings.TrimPrefix(strings.TrimPrefix(string(p), string(c.done.Repository)), "/")
}

// merge finds what becomes of each path in the commit: the three-way merge of from, what the parent holds, and to. It never looks at the
// working tree, so that lines that the user did not commit stay out.
func (c *draft) merge(ctx context.Context, g merger, steps []*step) (conflicts []Conflict, err error) {
	removed := map[string]bool{}
	// What is removed makes room for what is created.
	slices.SortStableFunc(steps, func(a, b *step) int { return removalFirst(a.to, b.to) })
	for _, s := range steps {
		p := c.within(s.Path)
		before, err := c.before(ctx, g.store, p, !s.to.Exists(), removed)
		if err != nil {
			return nil, err
		}
		after, merged, kind, err := g.merge(ctx, merge3{base: s.from, now: before, want: s.to})
		switch {
		case err != nil:
			return nil, err
		case kind != 0:
			conflicts = append(conflicts, Conflict{s.Path, kind})
		case !after.Same(before):
			s.Commit = &committed{before, after, merged}
			c.steps = append(c.steps, s)
			removed[p] = !after.Exists()
		}
	}
	return conflicts, nil
}

func removalFirst(a, b Version) int {
	switch {
	case a.Exists() == b.Exists():
		return 0
	case b.Exists():
		return -1
	}
	return 1
}

// before reads what the parent has at a path. What is in the way of the path is a directory, as is a repository within it. If the path is to
// be removed, a file above it and files below it are not in the way: the parent does not have the path.
func (c *draft) before(ctx context.Context, store *Store, p string, removal bool, removed map[string]bool) (Version, error) {
	at, e, err := c.Entry(p)
	if err != nil || e.Mode == 0 || removed[at] {
		return Version{}, err
	}
	if removal && (at != p || e.Mode == git.ModeTree) && e.Mode != git.ModeRepository {
		return Version{}, nil
	}
	if at == p && e.Mode == git.ModeTree {
		emptied := true
		if err := c.Below(at, e.ID, func(q string) { emptied = emptied && removed[q] }); err != nil || emptied {
			return Version{}, err
		}
	}
	if at != p {
		return Version{Type: rootfs.TypeDirectory}, nil
	}
	return c.version(ctx, store, git.File{Path: p, Mode: e.Mode, ID: e.ID})
}

// version reads a file's content into the store.
func (c *draft) version(ctx context.Context, store *Store, f git.File) (v Version, err error) {
	return versionOf(ctx, store, f, c.Blob)
}

// versionOf reads a file's content, which blob opens by its ID, into the store.
func versionOf(ctx context.Context, store *Store, f git.File, blob func(id string) (io.Reader, error)) (v Version, err error) {
	switch f.Mode {
	case git.ModeFile:
		v = Version{Type: rootfs.TypeFile, Mode: 0o644}
	case git.ModeExecutable:
		v = Version{Type: rootfs.TypeFile, Mode: 0o755}
	case git.ModeLink:
		v = Version{Type: rootfs.TypeSymlink, Mode: 0o777}
	case 0:
		return Version{}, nil
	default:
		return Version{Type: rootfs.TypeDirectory}, nil
	}
	content, err := blob(f.ID)
	if err == nil {
		v.Hash, v.Size, err = store.Put(ctx, content)
	}
	return v, err
}

// mergeIndex finds what becomes of the index. A path that it holds as the parent does becomes what the commit holds. What is staged of a
// path stays staged, on top of the commit.
func (c *draft) mergeIndex(ctx context.Context, g merger) (conflicts []Conflict, err error) {
	index, err := c.Index(ctx)
	if err != nil {
		return nil, err
	}
	staged := slices.Sorted(maps.Keys(index))
	for _, s := range c.steps {
		p := c.within(s.Path)
		now, err := c.version(ctx, g.store, index[p])
		if err != nil {
			return nil, err
		}
		after, _, kind, err := g.merge(ctx, merge3{base: s.Commit.Before, now: now, want: s.Commit.After})
		if err != nil {
			return nil, err
		}
		if kind == 0 && after.Exists() && inTheWayOf(p, staged, c.removed()) {
			kind = ConflictDirectoryInTheWay
		}
		if kind != 0 {
			conflicts = append(conflicts, Conflict{s.Path, kind})
		} else if !after.Same(now) {
			c.index[s.Path] = after
		}
	}
	return conflicts, nil
}

// removed returns the paths that the commit removes.
func (c *draft) removed() map[string]bool {
	out := map[string]bool{}
	for _, s := range c.steps {
		out[c.within(s.Path)] = !s.Commit.After.Exists()
	}
	return out
}

// inTheWayOf reports whether one of the sorted paths is above or below p, and stays.
func inTheWayOf(p string, paths []string, removed map[string]bool) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if _, ok := slices.BinarySearch(paths, dir); ok && !removed[dir] {
			return true
		}
	}
	i, _ := slices.BinarySearch(paths, p+"/")
	for ; i < len(paths) && strings.HasPrefix(paths[i], p+"/"); i++ {
		if !removed[paths[i]] {
			return true
		}
	}
	return false
}

// build stores the objects of the commits, and prepares the indexes. Nothing refers to them yet.
func (d *drafts) build(ctx context.Context, e *Entry) error {
	trailers := append(slices.Clone(d.opts.Trailers), contextTrailer+": "+e.Context, reviewTrailer+": "+strconv.FormatInt(e.ID, 10))
	for _, c := range d.all {
		if c.given {
			if err := c.stageGiven(ctx); err != nil {
				return err
			}
			continue
		}
		ids, err := c.write(ctx, d.r.store)
		if err != nil {
			return err
		}
		var files, index []git.File
		for _, s := range c.steps {
			files = append(files, fileOf(c.within(s.Path), s.Commit.After, ids))
		}
		for _, p := range slices.Sorted(maps.Keys(c.index)) {
			index = append(index, fileOf(c.within(p), c.index[p], ids))
		}
		tree, err := c.Tree(ctx, files)
		if err == nil {
			c.tree = tree
			c.message = git.Message{Text: d.opts.Message, Trailers: trailers, Author: c.done.Author, Committer: c.done.Committer, At: e.At}
			if undone, ok := d.opts.reverts[c.done.Repository]; ok {
				c.message.Text += "\n\nThis reverts commit " + undone.ID + "."
			}
			c.text = c.message.Full()
			c.done.ID, err = c.Commit(ctx, tree, c.text, c.message)
		}
		if err == nil && len(index) > 0 {
			c.done.Index, err = c.Stage(ctx, index)
		}
		if err != nil {
			return err
		}
	}
	e.Commits = d.commits()
	return d.flush(e.At)
}

// flush puts the objects of the commits, which were made since a time, on the disk.
func (d *drafts) flush(since time.Time) error {
	var g errgroup.Group
	for _, c := range d.all {
		g.Go(func() error { return c.repo.FlushObjects(since) })
	}
	return g.Wait()
}

// write stores the contents of the commit and of the index, and returns their IDs by SHA-256.
func (c *draft) write(ctx context.Context, store *Store) (map[string]string, error) {
	ids := map[string]string{}
	for _, s := range c.steps {
		ids[s.Commit.After.Hash] = ""
	}
	for _, v := range c.index {
		ids[v.Hash] = ""
	}
	delete(ids, "")
	hashes := slices.Sorted(maps.Keys(ids))
	names := make([]string, len(hashes))
	for i, hash := range hashes {
		names[i] = store.path(hash)
	}
	written, err := c.Write(ctx, names)
	for i, id := range written {
		ids[hashes[i]] = id
	}
	return ids, err
}

func fileOf(p string, v Version, ids map[string]string) git.File {
	f := git.File{Path: p, ID: ids[v.Hash]}
	switch {
	case v.Type == rootfs.TypeSymlink:
		f.Mode = git.ModeLink
	case v.Type == rootfs.TypeFile && v.Mode&executable != 0:
		f.Mode = git.ModeExecutable
	case v.Type == rootfs.TypeFile:
		f.Mode = git.ModeFile
	}
	return f
}

// lock keeps other git commands from indexes and HEADs.
func (d *drafts) lock() error {
	for _, c := range d.all {
		if c.done.Index == "" {
			continue
		}
		if err := c.Lock(); err != nil {
			return asRefusal(err)
		}
	}
	return nil
}

// unlock gives up what lock has taken.
func (d *drafts) unlock() error {
	var errs []error
	for _, c := range d.all {
		errs = append(errs, c.Unlock())
	}
	return errors.Join(errs...)
}

// move moves all refs, or none: each is locked and compared before the first moves.
func (d *drafts) move(ctx context.Context) (err error) {
	var moves []*git.RefMove
	defer func() {
		for _, m := range moves {
			m.Abort()
		}
	}()
	for _, c := range d.all {
		m, err := c.repo.Move(ctx, c.Ref, c.Old, c.done.ID, c.done.Committer, d.opts.Message)
		if err != nil {
			return asRefusal(err)
		}
		moves = append(moves, m)
	}
	for i, c := range d.all {
		err := moves[0].Commit()
		moves = moves[1:]
		if err != nil {
			return errors.Join(fmt.Errorf("commit to %s: %w", shownRepository(c.done.Repository), err), d.moveBack(ctx, d.all[:i]))
		}
	}
	for _, c := range d.all {
		if err := c.repo.FlushRef(c.Ref); err != nil {
			return errors.Join(err, d.moveBack(ctx, d.all))
		}
	}
	return nil
}

// moveBack takes commits back that nothing follows yet.
func (d *drafts) moveBack(ctx context.Context, done []*draft) error {
	var errs []error
	for _, c := range done {
		m, err := c.repo.Move(ctx, c.Ref, c.done.ID, c.Old, c.done.Committer, "taken back")
		if err == nil {
			err = m.Commit()
		}
		if err == nil {
			err = c.repo.FlushRef(c.Ref)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// install makes the indexes follow the commits.
func (d *drafts) install() {
	for _, c := range d.all {
		if err := c.Install(); err != nil {
			d.r.cfg.Log.Warn("the index could not be made to follow a commit: 'git reset' does it", zap.String("repository", string(c.done.Repository)), zap.Error(err))
		}
	}
}

// recoverCommits settles the commits of an entry that a killed server had begun. If one of them was made, it makes the others, and
// reports that the entry is done. Otherwise it gives them up.
func (r *Reviews) recoverCommits(ctx context.Context, e *Entry) (done bool, err error) {
	repos := make([]*git.Local, len(e.Commits))
	made := make([]bool, len(e.Commits))
	for i, c := range e.Commits {
		if repos[i], err = r.repository(c.Repository); err != nil {
			r.lostCommit(e, c, err)
			continue
		}
		if err := repos[i].SettleRef(ctx, c.Ref, e.At); err != nil {
			r.cfg.Log.Warn("the locks of a commit could not be looked after", zap.Int64("entry", e.ID), zap.String("repository", string(c.Repository)), zap.Error(err))
		}
		if made[i], err = repos[i].Contains(ctx, c.Ref, c.ID); err != nil {
			return false, err
		}
		done = done || made[i]
	}
	if done {
		var kept []Commit
		for i, c := range e.Commits {
			if repos[i] == nil {
				continue
			}
			if !made[i] {
				m, err := repos[i].Move(ctx, c.Ref, c.Old, c.ID, c.Committer, "recovered")
				if err == nil {
					err = m.Commit()
				}
				if err == nil {
					err = repos[i].FlushRef(c.Ref)
				}
				if err != nil {
					r.lostCommit(e, c, err)
					continue
				}
			}
			kept = append(kept, c)
		}
		e.Commits = kept
	}
	r.settleIndexes(e, done)
	return done, nil
}

func (r *Reviews) lostCommit(e *Entry, c Commit, err error) {
	r.cfg.Log.Warn("a commit of an interrupted apply cannot be made any more", zap.Int64("entry", e.ID), zap.String("repository", string(c.Repository)), zap.Error(err))
}

// settleIndexes completes or gives up the indexes of an entry's commits. One that cannot be is no reason not to start.
func (r *Reviews) settleIndexes(e *Entry, install bool) {
	for _, c := range e.Commits {
		if c.Index == "" {
			continue
		}
		repo, err := r.repository(c.Repository)
		if err == nil {
			err = repo.SettleIndex(c.Index, install)
		}
		if err != nil {
			r.cfg.Log.Warn("the index of a commit could not be looked after", zap.Int64("entry", e.ID), zap.String("repository", string(c.Repository)), zap.Error(err))
		}
	}
}
