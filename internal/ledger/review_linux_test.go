package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fewReviewKills are those of an ordinary run of the tests, over all drivers.
const fewReviewKills = 6

// reviewed is a workspace whose changes are applied, rebased, discarded and undone while servers are killed and editors save some of the files.
type reviewed struct {
	t      testing.TB
	dir    string
	driver string
	rng    *rand.Rand
	// users save files of the workspace, agents files of the context.
	users, agents []*editor
	// mode is how the latest Rebase was asked to treat conflicts.
	mode ctxfsv1.OnConflict
	// branches are those that were found, checked and removed.
	branches map[string]bool
	// done counts answered calls by name, flight those that were not, refused those that met a save of an editor.
	done, flight map[string]int
	refused      int
	// newest is the latest entry of the journal that was acknowledged, decided the remark of the latest decision, deciding that of the next.
	newest            int64
	decided, deciding string
	// submitted is the title of the latest submission that was acknowledged, submitting that of the next.
	submitted, submitting string
	// staged are the staged commits that were acknowledged, by their IDs. discarding is the one that is discarded.
	staged     map[string]string
	discarding string
}

const reviewedID = "ctx_a"

func (r *reviewed) folder() string { return filepath.Join(r.dir, ".contexts", reviewedID) }

func newReviewed(t testing.TB, driver string, w *workspace) *reviewed {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("driver %s, seed %d", driver, seed)
	r := &reviewed{t: t, dir: w.dir, driver: driver, rng: rand.New(rand.NewPCG(seed, 3)), branches: map[string]bool{}, done: map[string]int{}, flight: map[string]int{}, staged: map[string]string{}}
	r.write(w.dir, reviewedBase)
	for _, repo := range []string{"app", "lib"} {
		r.git(repo, "init", "-q", "-b", "main")
		r.git(repo, "config", "user.name", "user")
		r.git(repo, "config", "user.email", "user@localhost")
		r.git(repo, "add", "-A")
		r.git(repo, "commit", "-q", "-m", "first")
		r.git(repo, "tag", "first")
	}
	hook := filepath.Join(w.dir, "app/.git/hooks/commit-msg") // it makes another commit than the journal was begun with
	must(t, os.WriteFile(hook, []byte("#!/bin/sh\necho checked >>\"$1\"\n"), 0o700))
	r.users = []*editor{{name: "app/place", inPlace: true, dir: w.dir, other: "by the agent\n"}, {name: "app/rename", dir: w.dir, other: "by the agent\n"}}
	r.agents = []*editor{{name: "lib/place", inPlace: true, dir: r.folder(), other: "by the user\n"}, {name: "lib/rename", dir: r.folder(), other: "by the user\n"}}
	return r
}

// editor saves a file again and again, from a buffer that holds the file as it was at first. It writes in place, or beside the file and renames.
type editor struct {
	dir, name string
	inPlace   bool
	// other is the first line of the file after the other side's change of it.
	other string
	saves int
}

// saved is what the n-th save holds.
func (e *editor) saved(n int) string {
	if n == 0 {
		return reviewedBase[e.name]
	}
	return strings.Replace(reviewedBase[e.name], "last\n", fmt.Sprintf("save %d\n", n), 1)
}

// merged is the n-th save with the other side's change.
func (e *editor) merged(n int) string { return strings.Replace(e.saved(n), "first\n", e.other, 1) }

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

// TestReviewKills kills servers at random moments while a host applies, rebases, resolves, undoes and discards what a context changed.
func TestReviewKills(t *testing.T) {
	t.Parallel()
	kills := fewReviewKills
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	all := drivers(t)
	for _, driver := range all {
		t.Run(driver, func(t *testing.T) {
			r := newReviewed(t, driver, newWorkspace(t, nil))
			count := (kills + len(all) - 1) / len(all)
			for n := 0; n < count && !t.Failed(); n++ {
				r.life(n)
			}
			fmt.Printf("ledger: reviews by %s: %d kills; answered %v, in flight %v, refused because of a save %d, saved %d times\n",
				driver, count, r.done, r.flight, r.refused, r.saves())
		})
	}
}

func (r *reviewed) saves() (n int) {
	for _, e := range slices.Concat(r.users, r.agents) {
		n += e.saves
	}
	return n
}

// edit runs editors until stop is called.
func (r *reviewed) edit(editors []*editor, least, most time.Duration) (stop func() error) {
	var stopped atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, len(editors))
	for i, e := range editors {
		every := least + time.Duration(r.rng.Int64N(int64(most-least)))
		wg.Go(func() { errs[i] = e.work(&stopped, every) })
	}
	return func() error {
		stopped.Store(true)
		wg.Wait()
		return errors.Join(errs...)
	}
}

// life starts a server, checks what the one before left, works, and kills it.
func (r *reviewed) life(n int) {
	r.t.Helper()
	users := r.users
	if n == 0 { // the context is seeded with the files as they are at first
		users = nil
	}
	stop := r.edit(users, 5*time.Millisecond, 55*time.Millisecond)
	p, err := start(r.dir, r.driver) // beside the editors
	must(r.t, errors.Join(stop(), err))
	ctx, cancel := context.WithTimeout(r.t.Context(), lifeTime)
	defer cancel()
	c, err := p.dial(ctx)
	must(r.t, err)
	defer func() { must(r.t, c.Close()) }()
	if n == 0 {
		r.diverge(ctx, c)
	}
	if err := r.settle(ctx, c); err != nil {
		r.t.Errorf("after %d kills: %v\nthe server's log: %s", n, err, p.tail())
		must(r.t, p.end(os.Kill))
		return
	}
	most := 70 * time.Millisecond
	if r.rng.IntN(2) == 0 {
		most = time.Second // an Apply that commits takes longer than a fast editor's pause
	}
	stop = r.edit(slices.Concat(r.users, r.agents), 10*time.Millisecond, most)
	killed := make(chan error, 1)
	timer := time.AfterFunc(time.Duration(r.rng.Int64N(int64(500*time.Millisecond))), func() { killed <- p.end(os.Kill) })
	defer timer.Stop()
	worked := r.work(ctx, c)
	must(r.t, <-killed)
	must(r.t, errors.Join(worked, stop()))
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
