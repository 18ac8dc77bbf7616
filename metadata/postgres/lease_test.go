package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata/postgres"
)

// machine is a server of a contexts directory, on a machine of its own.
type machine struct {
	*postgres.Store
	noted []int64
	lost  chan [2]int64
	claim postgres.Claim
}

func newMachine(t *testing.T, url, name string, seen int64) *machine {
	t.Helper()
	m := &machine{Store: open(t, url), lost: make(chan [2]int64, 1)}
	m.claim = postgres.Claim{
		Directory: strings.Repeat("d", 32), Path: "/srv/contexts", Holder: name, Host: name, PID: len(name), Seen: seen,
		Note:        func(epoch int64) error { m.noted = append(m.noted, epoch); return nil },
		LostCommits: func(had, known int64) error { m.lost <- [2]int64{had, known}; return nil },
	}
	return m
}

func (m *machine) take(t *testing.T) *postgres.Lease {
	t.Helper()
	l, err := m.Take(t.Context(), m.claim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l
}

// keep renews a lease until the test ends; the channel gets what Keep returns.
func keep(t *testing.T, l *postgres.Lease) <-chan error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done, all := make(chan error, 1), make(chan struct{})
	go func() {
		done <- l.Keep(ctx)
		close(all)
	}()
	t.Cleanup(func() { stop(); <-all })
	return done
}

// in is a statement on the schema of a URL.
func in(url, statement string) string {
	return strings.ReplaceAll(statement, "@.", url[strings.LastIndex(url, "=")+1:]+".")
}

func TestLeaseThatIsRenewedIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := newMachine(t, url, "first", 0), newMachine(t, url, "second", 0)
	pgtest.Shared(t).LongLeases(t, url)
	lease := first.take(t)
	keep(t, lease)
	_, err := second.Take(t.Context(), second.claim)
	var held *postgres.HeldError
	if !errors.As(err, &held) || held.Host != "first" || held.PID != 5 {
		t.Fatalf("got %v, want a *HeldError that names the first server", err)
	}
	since := pgtest.Shared(t).Query(t, url, in(url, "SELECT to_char(held_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') FROM @.directory"))
	if got := held.Since.UTC().Format("2006-01-02 15:04:05"); !slices.Equal(since, []string{got}) {
		t.Errorf("the first has had the lease since %s, want %s", got, since)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first.noted, []int64{1, 2}) {
		t.Errorf("the first noted the epochs %v, want that of its lease, and a later one for its end", first.noted)
	}
	if got := second.take(t).Epoch(); got != 3 || !slices.Equal(second.noted, []int64{3}) {
		t.Errorf("after the release the second has epoch %d, noted %v, want 3", got, second.noted)
	}
}

func TestLeaseOfADeadServerIsTakenAfterItsEnd(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	newMachine(t, url, "dead", 0).take(t)
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET expires_at = clock_timestamp() + interval '1 s'"))
	if got := newMachine(t, url, "next", 0).take(t).Epoch(); got != 2 {
		t.Errorf("the next server has epoch %d", got)
	}
}

func TestLeaseOfALockThatTheCallerHasIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	dead, next := newMachine(t, url, "dead", 0), newMachine(t, url, "next", 0)
	dead.claim.Place, next.claim.Place = "boot 1 2", "boot 1 2"
	dead.take(t)
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET expires_at = clock_timestamp() + interval '1 h'"))
	if got := next.take(t).Epoch(); got != 2 {
		t.Errorf("the next server has epoch %d", got)
	}
}

func TestServerWhoseLeaseWasTakenStops(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	lease := newMachine(t, url, "first", 0).take(t)
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET expires_at = NULL"))
	newMachine(t, url, "second", 0).take(t)
	if err := <-keep(t, lease); !errors.Is(err, postgres.ErrLeaseLost) || !strings.Contains(err.Error(), "host second") {
		t.Errorf("got %v, want ErrLeaseLost with the other's name", err)
	}
}

func TestEpochNeverGoesBack(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	m := newMachine(t, url, "m", 41)
	lease := m.take(t)
	if got := <-m.lost; lease.Epoch() != 42 || got != [2]int64{0, 41} {
		t.Fatalf("epoch %d, lost %v, want 42, which is above what the directory has seen", lease.Epoch(), got)
	}
	for _, c := range []struct {
		lose string
		had  int64
	}{
		{"UPDATE @.directory SET epoch = 7, holder = 'older', expires_at = clock_timestamp() + interval '1 h'", 7},
		{"DELETE FROM @.directory", 0},
	} {
		known := lease.Epoch()
		pgtest.Shared(t).Exec(t, url, in(url, c.lose))
		if err := lease.Renew(t.Context()); err != nil || lease.Epoch() != known+1 {
			t.Errorf("%s: epoch %d, %v, want %d", c.lose, lease.Epoch(), err, known+1)
		}
		if got := <-m.lost; got != [2]int64{c.had, known} {
			t.Errorf("%s: lost %v, want epoch %d of %d", c.lose, got, c.had, known)
		}
	}
	if fmt.Sprint(m.noted) != "[42 43 44]" {
		t.Errorf("noted %v", m.noted)
	}
}

// TestCommitsLostDuringARestoreAreRestored: the database loses the lease again before it has committed the next epoch.
func TestCommitsLostDuringARestoreAreRestored(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pg, m := pgtest.Shared(t), newMachine(t, url, "m", 0)
	var lost [][2]int64
	m.claim.LostCommits = func(had, known int64) error {
		if lost = append(lost, [2]int64{had, known}); len(lost) == 1 {
			pg.Exec(t, url, in(url, "DELETE FROM @.directory"))
		}
		return nil
	}
	lease := m.take(t)
	pg.Exec(t, url, in(url, "UPDATE @.directory SET epoch = 0"))
	if err := lease.Renew(t.Context()); err != nil || lease.Epoch() != 2 {
		t.Errorf("epoch %d, %v, want 2", lease.Epoch(), err)
	}
	if fmt.Sprint(lost, m.noted) != "[[0 1] [0 1]] [1 2 2]" {
		t.Errorf("lost %v, noted %v; the lease with epoch 1 was lost twice, and 2 is the next one", lost, m.noted)
	}
	if got := pg.Query(t, url, in(url, "SELECT epoch || holder FROM @.directory")); !slices.Equal(got, []string{"2m"}) {
		t.Errorf("the database has the lease %v, want 2m", got)
	}
}

func TestLeaseNeedsItsNote(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	m, full := newMachine(t, url, "m", 0), errors.New("disk full")
	m.claim.Note = func(int64) error { return full }
	if _, err := m.Take(t.Context(), m.claim); !errors.Is(err, full) {
		t.Errorf("got %v, want the error of the disk", err)
	}
	newMachine(t, url, "other", 0).take(t) // at once
}

// TestLossIsNotedBeforeItIsHidden: a new epoch hides that commits were lost, so the database gets none before the loss is noted.
func TestLossIsNotedBeforeItIsHidden(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	full := errors.New("disk full")
	m := newMachine(t, url, "m", 41)
	note := m.claim.LostCommits
	m.claim.LostCommits = func(int64, int64) error { return full }
	if _, err := m.Take(t.Context(), m.claim); !errors.Is(err, full) || len(m.noted) > 0 {
		t.Fatalf("got %v, noted %v, want the error of the disk", err, m.noted)
	}
	fail := false
	m.claim.LostCommits = func(had, known int64) error {
		if fail {
			return full
		}
		return note(had, known)
	}
	lease := m.take(t)
	if got := <-m.lost; got != [2]int64{0, 41} {
		t.Errorf("lost %v, want epoch 0 of 41", got)
	}
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET epoch = 7"))
	fail = true
	if err := lease.Renew(t.Context()); !errors.Is(err, full) {
		t.Errorf("a renewal got %v, want the error of the disk", err)
	}
	fail = false
	if err := lease.Renew(t.Context()); err != nil || lease.Epoch() != 43 {
		t.Errorf("epoch %d, %v, want 43", lease.Epoch(), err)
	}
	if got := <-m.lost; got != [2]int64{7, 42} {
		t.Errorf("lost %v, want epoch 7 of 42", got)
	}
}

// TestRestoredLeaseIsKeptWithoutAnAnswer has the database commit the lease's next epoch, whose answer got lost.
func TestRestoredLeaseIsKeptWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	m := newMachine(t, url, "m", 0)
	var seen []string
	m.claim.Renewed = func(identity string) { seen = append(seen, identity) }
	lease := m.take(t)
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET epoch = epoch + 1"))
	for range 2 {
		if err := lease.Renew(t.Context()); err != nil || lease.Epoch() != 2 {
			t.Errorf("epoch %d, %v, want 2", lease.Epoch(), err)
		}
	}
	if identity, err := m.Identity(t.Context()); err != nil || len(seen) != 2 || seen[0] != identity || seen[1] != identity {
		t.Errorf("the renewals saw the identities %q, want %q (%v)", seen, identity, err)
	}
}
