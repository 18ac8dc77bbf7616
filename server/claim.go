package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/contexts"
)

// Record is server.json: how clients find a server by walking up from where they are.
type Record struct {
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Workspace string `json:"workspace"`
	// Socket is the unix socket's path.
	Socket string `json:"socket"`
	// Addresses are the gRPC addresses, "unix://…" first, then host:port.
	Addresses []string `json:"addresses"`
	// HTTP is host:port, "" when there is no such listener.
	HTTP string `json:"http,omitempty"`
	// TLS says that host:port addresses speak it.
	TLS bool `json:"tls,omitempty"`
	// TokenFile holds the host token, for TCP and for host-auth=token.
	TokenFile string `json:"token_file"`
	// AuditLog is the absolute path of the audit log, "" when there is none.
	AuditLog string    `json:"audit_log,omitempty"`
	Start    time.Time `json:"start"`
}

// claim is the hold on a workspace. The lock is the kernel's: it ends with the
// process, however that ends, so that a killed server leaves nothing in the way.
type claim struct {
	layout contexts.Layout
	lock   *flock.Flock
	// record is what server.json says; nil before it is written.
	record *Record
}

// claimWait bounds how long a start waits for a server that is ending, or that has not written server.json yet.
const claimWait = 2 * time.Second

// claimPoll is how often it tries again.
const claimPoll = 10 * time.Millisecond

// takeClaim locks the workspace. It returns an *AlreadyServedError when another server has it.
func takeClaim(ctx context.Context, l contexts.Layout) (*claim, error) {
	lock := flock.New(filepath.Join(l.Locks, "server.lock"), flock.SetPermissions(0o600))
	if err := lockOrRefuse(ctx, lock, l); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// A killed server's record would send a client to nobody.
	if err := os.Remove(l.ServerJSON); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, lock.Close())
	}
	return &claim{layout: l, lock: lock}, nil
}

// lockOrRefuse takes the lock. A server that lives has written server.json and is named at once. The lock of one that was killed
// stays for as long as the kernel closes its files, and as a process that it was just starting has them open too.
func lockOrRefuse(ctx context.Context, lock *flock.Flock, l contexts.Layout) error {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	// A process counts as alive when it was so twice: between taking up a SIGKILL and ending it looks like any other.
	for seen := 0; ; {
		ok, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock %s: %w", lock.Path(), err)
		}
		if ok {
			return nil
		}
		if r, err := readRecord(l.ServerJSON); err == nil && alive(r.PID) {
			seen++
		}
		timer := time.NewTimer(claimPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			seen = 2
		}
		timer.Stop()
		if seen == 2 {
			return servedBy(l)
		}
	}
}

func servedBy(l contexts.Layout) error {
	r, err := readRecord(l.ServerJSON)
	if err != nil || r.PID == 0 {
		return &AlreadyServedError{}
	}
	served := &AlreadyServedError{PID: r.PID, Since: r.Start, Address: "unix://" + r.Socket}
	if r.Workspace != l.Workspace {
		served.Workspace = r.Workspace
	}
	return served
}

func readRecord(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = json.Unmarshal(data, &r)
	return r, err
}

// announce writes server.json, whole.
func (c *claim) announce(r Record) error {
	c.record = &r
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode server.json: %w", err)
	}
	return writeFileAtomic(c.layout.ServerJSON, append(data, '\n'), 0o600)
}

// restore writes server.json again if it is missing, and reports whether it did.
func (c *claim) restore() (restored bool, err error) {
	if _, err := os.Lstat(c.layout.ServerJSON); !errors.Is(err, fs.ErrNotExist) {
		return false, nil //nolint:nilerr // it is there, or cannot be looked at
	}
	err = c.announce(*c.record)
	return err == nil, err
}

// release removes server.json, which may be gone already. Then it gives up the lock: the next server's file is never removed.
func (c *claim) release() error {
	var err error
	if c.record != nil {
		err = os.Remove(c.layout.ServerJSON)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.lock.Close())
}

// writeFileAtomic puts a new file in the place of path.
func writeFileAtomic(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
