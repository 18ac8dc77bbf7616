package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	first := newMachine(t, url, "first", 0)
	lease := first.take(t)
	keep(t, lease)
	second := newMachine(t, url, "second", 0)
	_, err := second.Take(t.Context(), second.claim)
	var held *postgres.HeldError
	if !errors.As(err, &held) || held.Host != "first" || held.PID != 5 || time.Since(held.Since).Abs() > time.Hour {
		t.Fatalf("got %v, want a *HeldError that names the first server", err)
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

// TestSchemaInUseIsNotMigrated: a newer program brings neither the schema of a running server up to date, nor that of another directory.
func TestSchemaInUseIsNotMigrated(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	server := newMachine(t, url, "server", 0)
	lease := server.take(t)
	keep(t, lease)
	pg := pgtest.Shared(t)
	pg.Exec(t, url, in(url, "ALTER TABLE @.contexts DROP COLUMN labels"), in(url, "ALTER TABLE @.panels DROP COLUMN labels"),
		in(url, "DELETE FROM @.ctxfs_version WHERE version_id = 3"))
	const version = "SELECT max(version_id)::text FROM @.ctxfs_version"
	next := server.claim
	next.Holder, next.Host = "next", "next"
	foreign := next
	foreign.Directory = strings.Repeat("e", 32)
	var held *postgres.HeldError
	if _, err := postgres.Open(t.Context(), parse(t, url), next); !errors.As(err, &held) || held.Host != "server" {
		t.Errorf("beside a running server: %v, want a *HeldError that names it", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), parse(t, url), foreign); !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), "/srv/contexts") {
		t.Errorf("for another directory: %v, want ErrRefused, and where the records belong", err)
	}
	if got := pg.Query(t, url, in(url, version)); got[0] != "2" {
		t.Errorf("the schema has version %s, although both were refused", got)
	}
	store, err := postgres.Open(t.Context(), parse(t, url), next)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if got := pg.Query(t, url, in(url, version)); got[0] != "3" {
		t.Errorf("the schema has version %s after the release, want 3", got)
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
	keep(t, lease)
	pgtest.Shared(t).Exec(t, url, in(url, "UPDATE @.directory SET epoch = 7, holder = 'older', expires_at = clock_timestamp() + interval '1 h'"))
	if got := <-m.lost; got != [2]int64{7, 42} {
		t.Errorf("lost %v, want epoch 7 of 42", got)
	}
	pgtest.Shared(t).Exec(t, url, in(url, "DELETE FROM @.directory"))
	if got := <-m.lost; got != [2]int64{0, 43} {
		t.Errorf("lost %v, want all of 43", got)
	}
	if err := lease.Renew(t.Context()); err != nil || lease.Epoch() != 44 {
		t.Errorf("epoch %d, %v, want 44", lease.Epoch(), err)
	}
	if fmt.Sprint(m.noted) != "[42 43 44]" {
		t.Errorf("noted %v", m.noted)
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
