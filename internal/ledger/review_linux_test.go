package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fewReviewKills are those of an ordinary run of the tests, over all drivers.
const fewReviewKills = 6

// reviewed is a workspace whose changes are applied, undone and discarded while servers are killed and editors save some of its files.
type reviewed struct {
	t       testing.TB
	dir     string
	driver  string
	rng     *rand.Rand
	editors []*editor
	// done counts answered calls by name, flight those that were not, refused those that met a save of an editor.
	done, flight map[string]int
	refused      int
}

const reviewedID = "ctx_a"

// reviewedBase is the workspace, reviewedNew the context: the same but for the agent's changes.
var reviewedBase, reviewedNew = func() (old, now map[string]string) {
	long := strings.Repeat("line\n", 20)
	begin, end := "first\n"+long, "last\n"
	old = map[string]string{
		"app/place": begin + end, "app/rename": begin + end, "app/text": begin + end, "app/gone/file": "gone\n", "app/dir/x": "x\n", "app/file": "f\n", "app/kept": "kept\n",
	}
	agent := "by the agent\n" + long
	now = map[string]string{
		"app/place": agent + end, "app/rename": agent + end, "app/text": agent + end, "app/new/deep/file": "new\n", "app/dir": "a file\n", "app/file/x": "f\n", "app/kept": "kept\n",
	}
	for i := range 8 {
		name := fmt.Sprintf("app/many/%d", i)
		old[name], now[name] = "old\n", "new\n"
	}
	return old, now
}()

func newReviewed(t testing.TB, driver string) *reviewed {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("driver %s, seed %d", driver, seed)
	w := newWorkspace(t, nil)
	r := &reviewed{t: t, dir: w.dir, driver: driver, rng: rand.New(rand.NewPCG(seed, 3)), done: map[string]int{}, flight: map[string]int{}}
	for name, text := range reviewedBase {
		w.write(t, name, text)
	}
	git := exec.CommandContext(t.Context(), "git", "init", "-q", filepath.Join(w.dir, "app"))
	must(t, git.Run())
	r.editors = []*editor{{name: "app/place", inPlace: true, dir: w.dir}, {name: "app/rename", dir: w.dir}}
	return r
}

// editor saves a file again and again, from a buffer that has not the agent's change. It writes in place, or beside the file and renames.
type editor struct {
	dir, name string
	inPlace   bool
	saves     int
}

// saved is what the n-th save holds.
func (e *editor) saved(n int) string {
	if n == 0 {
		return reviewedBase[e.name]
	}
	return strings.Replace(reviewedBase[e.name], "last\n", fmt.Sprintf("save %d\n", n), 1)
}

func (e *editor) work(stop *atomic.Bool, every time.Duration) error {
	pace := time.NewTicker(every)
	defer pace.Stop()
	for !stop.Load() {
		<-pace.C
		if err := e.save(); err != nil {
			return err
		}
		e.saves++
	}
	return nil
}

func (e *editor) save() error {
	name, text := filepath.Join(e.dir, e.name), []byte(e.saved(e.saves+1))
	if e.inPlace {
		return os.WriteFile(name, text, 0o600)
	}
	return errors.Join(os.WriteFile(name+"~", text, 0o600), os.Rename(name+"~", name))
}

// TestReviewKills kills servers at random moments while a host applies, undoes and discards what a context changed.
func TestReviewKills(t *testing.T) {
	t.Parallel()
	kills := fewReviewKills
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	all := drivers(t)
	for _, driver := range all {
		t.Run(driver, func(t *testing.T) {
			r := newReviewed(t, driver)
			count := (kills + len(all) - 1) / len(all)
			for n := 0; n < count && !t.Failed(); n++ {
				r.life(n)
			}
			fmt.Printf("ledger: reviews by %s: %d kills; answered %v, in flight %v, refused because of a save %d\n", driver, count, r.done, r.flight, r.refused)
		})
	}
}

// life starts a server, looks at what the one before left, works, and kills it.
func (r *reviewed) life(n int) {
	r.t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, len(r.editors))
	for i, e := range r.editors {
		if n == 0 { // the context is seeded with the files as they are at first
			break
		}
		every := 5*time.Millisecond + time.Duration(r.rng.Int64N(int64(50*time.Millisecond)))
		wg.Go(func() { errs[i] = e.work(&stop, every) })
	}
	p, err := start(r.dir, r.driver) // beside the editors
	stop.Store(true)
	wg.Wait()
	must(r.t, errors.Join(errors.Join(errs...), err))
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	c, err := p.dial(ctx)
	must(r.t, err)
	defer func() { must(r.t, c.Close()) }()
	if n == 0 {
		r.edit(ctx, c)
	}
	if err := r.settle(ctx, c); err != nil {
		r.t.Errorf("after %d kills: %v\nthe server's log: %s", n, err, p.tail())
		must(r.t, p.end(os.Kill))
		return
	}
	stop.Store(false)
	for i, e := range r.editors {
		every := 10*time.Millisecond + time.Duration(r.rng.Int64N(int64(60*time.Millisecond)))
		wg.Go(func() { errs[i] = e.work(&stop, every) })
	}
	killed := make(chan error, 1)
	timer := time.AfterFunc(time.Duration(r.rng.Int64N(int64(250*time.Millisecond))), func() { killed <- p.end(os.Kill) })
	defer timer.Stop()
	must(r.t, r.work(ctx, c))
	must(r.t, <-killed)
	stop.Store(true)
	wg.Wait()
	must(r.t, errors.Join(errs...))
}

// edit is the agent: it edits the context.
func (r *reviewed) edit(ctx context.Context, c *client.Client) {
	r.t.Helper()
	_, err := c.EnsureContext(ctx, reviewedID, nil)
	must(r.t, err)
	folder := filepath.Join(r.dir, ".contexts", reviewedID)
	for name := range reviewedBase {
		must(r.t, os.RemoveAll(filepath.Join(folder, name)))
	}
	for _, dir := range []string{"gone", "dir"} {
		must(r.t, os.RemoveAll(filepath.Join(folder, "app", dir)))
	}
	for name, text := range reviewedNew {
		must(r.t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755))
		must(r.t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
}

// work reviews until the server is gone.
func (r *reviewed) work(ctx context.Context, c *client.Client) error {
	for {
		name, err := r.once(ctx, c)
		var refused *client.ReviewError
		var broken *client.TransportError
		switch {
		case err == nil:
			r.done[name]++
		case errors.As(err, &refused) && refused.Reason == client.ReasonConflict:
			r.refused++
		case errors.As(err, &broken):
			r.flight[name]++
			return nil
		default:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// once undoes what was done last, or does something. A further operation on whole reviews, such as a rebase, belongs here.
func (r *reviewed) once(ctx context.Context, c *client.Client) (name string, err error) {
	last, err := r.last(ctx, c)
	switch {
	case err != nil:
		return "listJournal", err
	case last != nil && last.GetKind() != ctxfsv1.JournalKind_JOURNAL_KIND_UNDO:
		_, err = c.Undo(ctx, last.GetJournalId(), false)
		return "undo", err
	case r.rng.IntN(3) == 0:
		_, err = c.Review(reviewedID).Discard(ctx, client.SelectAll())
		return "discard", err
	}
	_, err = c.Review(reviewedID).Apply(ctx, &ctxfsv1.ApplyRequest{Selection: client.SelectAll(), Approve: true})
	return "apply", err
}

// last returns the newest entry of the journal, nil if it is empty.
func (r *reviewed) last(ctx context.Context, c *client.Client) (*ctxfsv1.JournalEntry, error) {
	entries, err := c.Review(reviewedID).Journal(ctx, "", 1)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return entries[0], nil
}

// settle checks that each path of the workspace and of the context is as the journal says, or as an editor saved it last.
func (r *reviewed) settle(ctx context.Context, c *client.Client) error {
	last, err := r.last(ctx, c)
	if err != nil {
		return err
	}
	workspace, folder := reviewedBase, reviewedNew
	switch last.GetKind() {
	case ctxfsv1.JournalKind_JOURNAL_KIND_APPLY:
		workspace = reviewedNew
	case ctxfsv1.JournalKind_JOURNAL_KIND_DISCARD:
		folder = reviewedBase
	}
	return errors.Join(r.same("workspace", r.dir, workspace, r.editors), r.same("context", filepath.Join(r.dir, ".contexts", reviewedID), folder, nil), r.marked(ctx, c))
}

func (r *reviewed) same(what, dir string, want map[string]string, editors []*editor) error {
	got, err := contents(dir, "app")
	errs := []error{err}
	for _, e := range editors {
		text := e.saved(e.saves)
		if merged := strings.Replace(text, "first\n", "by the agent\n", 1); got[e.name] != text && got[e.name] != merged {
			errs = append(errs, fmt.Errorf("save %d of %s is lost: it is %q", e.saves, e.name, got[e.name]))
		}
		got[e.name] = want[e.name]
	}
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

// contents reads the files below a directory of dir; with names that only the server uses.
func contents(dir, below string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, below), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.IsDir() && !strings.Contains(d.Name(), rootfs.ReservedPrefix) {
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		out[rel] = string(data)
		return err
	})
	return out, err
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
