package server

import (
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
	TokenFile string    `json:"token_file"`
	Start     time.Time `json:"start"`
}

// claim is the hold on a workspace. The lock is the kernel's: it ends with the
// process, however that ends, so that a killed server leaves nothing in the way.
type claim struct {
	layout contexts.Layout
	lock   *flock.Flock
	// recorded says that server.json is ours.
	recorded bool
}

// takeClaim locks the workspace; an *AlreadyServedError when another server has it.
func takeClaim(l contexts.Layout) (*claim, error) {
	lock := flock.New(filepath.Join(l.Locks, "server.lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", lock.Path(), err), lock.Close())
	}
	if !ok {
		return nil, errors.Join(servedBy(l), lock.Close())
	}
	// A killed server's record would send a client to nobody.
	if err := os.Remove(l.ServerJSON); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, lock.Close())
	}
	return &claim{layout: l, lock: lock}, nil
}

func servedBy(l contexts.Layout) error {
	r, err := readRecord(l.ServerJSON)
	if err != nil || r.PID == 0 {
		return &AlreadyServedError{}
	}
	return &AlreadyServedError{PID: r.PID, Since: r.Start, Address: "unix://" + r.Socket}
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

// record writes server.json, whole.
func (c *claim) record(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode server.json: %w", err)
	}
	if err := writeFileAtomic(c.layout.ServerJSON, append(data, '\n'), 0o600); err != nil {
		return err
	}
	c.recorded = true
	return nil
}

// release removes server.json before the lock, so that the next server's is never removed.
func (c *claim) release() error {
	var err error
	if c.recorded {
		err = os.Remove(c.layout.ServerJSON)
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
