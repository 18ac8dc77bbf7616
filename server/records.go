package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/postgres"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// records is the store of the records that this process uses, and its lease if other machines can reach the store.
type records struct {
	metadata.Store
	// where is "sqlite", or a URL without a password.
	where string
	// cramped is sqlite.Store.Cramped.
	cramped bool
	// lease is nil with SQLite: the lock on the workspace is enough.
	lease *keptLease
	// ask and calls are of a database of another process: how to see that it serves, and how many calls may run.
	ask   identify
	calls int
}

// databaseEvents is what a server does about faults of its database. The functions may be nil.
type databaseEvents struct {
	// failed gets the error of a renewal of the lease, and nil when one succeeds again.
	failed func(err error)
	// lostCommits is called when the database has an older epoch than is known here.
	lostCommits func(had, known int64) error
	// renewed gets the identity of the database after each renewal of the lease.
	renewed func(identity string)
}

// openRecords opens the store that the settings name. The caller has the lock on the workspace.
func openRecords(ctx context.Context, cfg Config, l contexts.Layout, events databaseEvents) (*records, error) {
	at, err := cfg.database()
	if err != nil {
		return nil, &ConfigError{Key: "metadata", Problem: err.Error()}
	}
	if at != nil {
		return openShared(ctx, at, l, events)
	}
	store, err := openFile(ctx, l)
	if err != nil {
		return nil, err
	}
	return &records{Store: store, where: InFile, cramped: store.Cramped()}, nil
}

// InFile is Info.Metadata of a server whose records are in the SQLite file of the contexts directory.
const InFile = "sqlite"

// checkMoved refuses to begin with other records than those that the last server had: a server would not know its contexts.
func checkMoved(ctx context.Context, cfg Config, l contexts.Layout) error {
	at, err := cfg.database()
	if err != nil {
		return &ConfigError{Key: "metadata", Problem: err.Error()}
	}
	noted, err := statedir.ReadFile(l.Records, statedir.MaxRecord)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read where the records are: %w", err)
	case err == nil && at == nil:
		return &stateError{fmt.Errorf("the records of %s are in %s: give its URL by --metadata or CTXFS_METADATA; to take them into SQLite, use 'ctxfs metadata copy --from URL --to sqlite'; "+
			"if that database is lost, 'ctxfs doctor --repair' rebuilds them from the folders", l.Dir, strings.TrimSpace(string(noted))), ExitFormat}
	case err != nil && at != nil:
		return checkLeft(ctx, at, l)
	case err == nil:
		return checkSame(ctx, at, strings.TrimSpace(string(noted)), l)
	}
	return nil
}

// checkSame refuses a database without the directory's records, as when search_path was forgotten, while another one has them.
func checkSame(ctx context.Context, at *postgres.Address, noted string, l contexts.Layout) error {
	if at.String() == noted {
		return nil
	}
	r, err := postgres.Inspect(ctx, at)
	if err != nil {
		return coded(err)
	}
	if own, _ := statedir.ReadFile(l.Identity, statedir.MaxRecord); r.Directory != "" && r.Directory == strings.TrimSpace(string(own)) {
		return nil // the same database by another name
	}
	return &stateError{elsewhere(l, noted, at), ExitFormat}
}

func elsewhere(l contexts.Layout, noted string, at *postgres.Address) error {
	return fmt.Errorf("the records of %s are in %s, and not in %s: give the URL of the former, or take them along with 'ctxfs metadata copy --from URL --to URL'; "+
		"if that database is lost, 'ctxfs doctor --repair' rebuilds them in the latter from the folders", l.Dir, noted, at)
}

// checkLeft refuses a database without records while there are some in SQLite.
func checkLeft(ctx context.Context, at *postgres.Address, l contexts.Layout) error {
	if st, err := os.Stat(l.DB); err != nil || st.Size() == 0 {
		return nil //nolint:nilerr // there is nothing to leave behind
	}
	file, err := openFile(ctx, l)
	if err != nil {
		return err
	}
	left, err := file.Contexts().List(ctx)
	if err = errors.Join(err, file.Close()); err != nil || len(left) == 0 {
		return err
	}
	claim, err := claimOf(l)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, at, claim)
	if err != nil {
		return coded(err)
	}
	there, err := store.Contexts().List(ctx)
	if err = errors.Join(err, store.Close()); err != nil || len(there) > 0 {
		return err
	}
	return &stateError{fmt.Errorf("%s has no records, and %s has those of %d contexts: take them along with 'ctxfs metadata copy --from sqlite --to URL', or remove the file to leave them", at, l.DB, len(left)), ExitFormat}
}

// openFile opens the SQLite database. Where that reports an I/O error because the disk is full, the error says so.
func openFile(ctx context.Context, l contexts.Layout) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, l.DB)
	if err != nil && contexts.IsFull(l.State) {
		return nil, fmt.Errorf("open the database %s: the disk is full: free 1 MiB and some inodes, and start again (%w)", l.DB, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return store, nil
}

// openShared opens a database, and takes the lease on the contexts directory in it.
func openShared(ctx context.Context, at *postgres.Address, l contexts.Layout, events databaseEvents) (*records, error) {
	claim, err := claimOf(l)
	if err != nil {
		return nil, err
	}
	claim.Failed, claim.LostCommits, claim.Renewed = events.failed, events.lostCommits, events.renewed
	store, err := postgres.Open(ctx, at, claim)
	if err != nil {
		return nil, coded(err)
	}
	lease, err := store.Take(ctx, claim)
	if err != nil {
		return nil, errors.Join(coded(err), store.Close())
	}
	r := &records{Store: store, where: at.String(), lease: keepLease(lease), ask: store.Identity, calls: max(1, store.Conns()-1)}
	if err := durable.WriteFile(l.Records, []byte(r.where+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// coded gives a refusal of a database its exit code.
func coded(err error) error {
	var held *postgres.HeldError
	switch {
	case errors.As(err, &held):
		return &stateError{err, ExitBusy}
	case errors.Is(err, postgres.ErrRefused):
		return &stateError{err, ExitFormat}
	case errors.Is(err, metadata.ErrUnavailable):
		return &stateError{err, ExitNoDatabase}
	}
	return err
}

// keptLease is a lease that is renewed from when it was taken.
type keptLease struct {
	*postgres.Lease
	stop  context.CancelFunc
	ended chan struct{}
	// err is why the lease was lost, once ended is closed.
	err error
}

func keepLease(lease *postgres.Lease) *keptLease {
	ctx, stop := context.WithCancel(context.Background())
	k := &keptLease{Lease: lease, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		k.err = lease.Keep(ctx)
	}()
	return k
}

// release ends the renewals and the lease. A lease that cannot be released ends by itself.
func (k *keptLease) release() {
	k.stop()
	<-k.ended
	ctx, cancel := context.WithTimeout(context.Background(), stopTime/2)
	defer cancel()
	_ = k.Release(ctx)
}

// keep waits until ctx ends. It returns an error as soon as this server must stop.
func (r *records) keep(ctx context.Context) error {
	if r.lease == nil {
		return nil
	}
	select {
	case <-r.lease.ended:
		return r.lease.err
	case <-ctx.Done():
		return nil
	}
}

// held returns an error if another server has taken the lease.
func (r *records) held() error {
	if r.lease == nil {
		return nil
	}
	select {
	case <-r.lease.ended:
		return r.lease.err
	default:
		return nil
	}
}

// Close releases the lease and closes the store.
func (r *records) Close() error {
	if r.lease != nil {
		r.lease.release()
	}
	return r.Store.Close()
}

// claimOf describes this process to other machines.
func claimOf(l contexts.Layout) (c postgres.Claim, err error) {
	if c.Directory, err = identityOf(l); err != nil {
		return c, err
	}
	if c.Seen, err = epochOf(l); err != nil {
		return c, err
	}
	if c.Host, err = os.Hostname(); err != nil {
		c.Host = "unknown"
	}
	c.Holder, c.PID, c.Path = rand.Text(), os.Getpid(), l.Dir
	c.Place = placeOf(filepath.Join(l.Locks, serverLock))
	c.Note = func(epoch int64) error {
		return durable.WriteFile(l.Epoch, []byte(strconv.FormatInt(epoch, 10)+"\n"), 0o600)
	}
	return c, nil
}

var identity = regexp.MustCompile(`^[0-9a-f]{32}$`)

// identityOf returns the ID of the contexts directory, and makes one if there is none.
func identityOf(l contexts.Layout) (string, error) {
	data, err := statedir.ReadFile(l.Identity, statedir.MaxRecord)
	id := strings.TrimSpace(string(data))
	switch {
	case err == nil && !identity.MatchString(id):
		return "", fmt.Errorf("%s is damaged: it should have 32 hexadecimal digits, which are in the column id of the table directory in the database", l.Identity)
	case err == nil:
		return id, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the ID of the contexts directory: %w", err)
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails (crypto/rand)
	id = hex.EncodeToString(random[:])
	return id, durable.WriteFile(l.Identity, []byte(id+"\n"), 0o600)
}

// epochOf returns the highest epoch that a server of the directory has noted, 0 if none has.
func epochOf(l contexts.Layout) (int64, error) {
	data, err := statedir.ReadFile(l.Epoch, statedir.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the epoch of the contexts directory: %w", err)
	}
	epoch, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || epoch < 0 {
		return 0, fmt.Errorf("%s is damaged: it should have the number in the column epoch of the table directory in the database", l.Epoch)
	}
	return epoch, nil
}

// RecordsFinding is what doctor says of a database: with Bad that a server would not start, with Doubtful that it has lost commits.
type RecordsFinding struct {
	Bad, Doubtful bool
	Text          string
}

// ExamineRecords looks at the database that the settings name, and changes nothing. nil means that the records are in SQLite.
func ExamineRecords(ctx context.Context, cfg Config, l contexts.Layout) *RecordsFinding {
	at, err := cfg.database()
	if err == nil && at == nil {
		return nil
	}
	bad := func(format string, args ...any) *RecordsFinding {
		return &RecordsFinding{Bad: true, Text: fmt.Sprintf(format, args...)}
	}
	if err != nil {
		return bad("%v", err)
	}
	r, err := postgres.Inspect(ctx, at)
	if err != nil {
		return bad("%v", err)
	}
	if noted, err := statedir.ReadFile(l.Records, statedir.MaxRecord); err == nil && r.Directory == "" && strings.TrimSpace(string(noted)) != at.String() {
		return bad("%v", elsewhere(l, strings.TrimSpace(string(noted)), at))
	}
	text := fmt.Sprintf("%s, PostgreSQL %s: ", at, r.Version)
	if !r.Made {
		return &RecordsFinding{Text: text + "no tables yet; 'ctxfs serve' makes them"}
	}
	id, _ := statedir.ReadFile(l.Identity, statedir.MaxRecord) // without one, no server has used a database yet
	if own := strings.TrimSpace(string(id)); r.Directory != "" && own != r.Directory {
		return bad("%shas the records of the contexts directory %s of host %s: give this one a schema of its own (search_path=NAME in --metadata)", text, r.Path, r.Host)
	}
	text += fmt.Sprintf("%d contexts, %d panels, epoch %d", r.Contexts, r.Panels, r.Epoch)
	if r.Held != nil {
		text += fmt.Sprintf("; host %s, pid %d, serves it since %s", r.Held.Host, r.Held.PID, r.Held.Since.UTC().Format(time.RFC3339))
	}
	seen, err := epochOf(l)
	if err != nil {
		return bad("%v", err)
	}
	if seen > r.Epoch {
		return &RecordsFinding{Doubtful: true, Text: fmt.Sprintf("%s, but epoch %d was there before: it has lost commits; the next start, or --repair, rebuilds the records from the folders and revokes all tokens", text, seen)}
	}
	return &RecordsFinding{Text: text}
}
