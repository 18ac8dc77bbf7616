package catalog

import (
	"errors"
	"hash/maphash"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
)

const (
	// namesAtOnce is how many names of a directory are read at a time.
	namesAtOnce = 1024
	// lookEvery bounds how often the directories are listed to compare names: each new context would cost more, the more there are. A folder
	// that somebody makes by hand may be overlooked for as long. That of a context is not, since it has a record.
	lookEvery = time.Second
)

// folders compares the name of a new context with those of the folders, which may have no record.
type folders struct {
	seed maphash.Seed

	mu sync.Mutex
	// folded has a hash of each name without its case, as of the time at.
	folded map[uint64]bool
	at     time.Time
}

// distinct fails with EEXIST if a folder has a name that differs from id only by case.
func (f *folders) distinct(c *Catalog, id ID) error {
	f.mu.Lock()
	fresh, found := f.folded != nil && time.Since(f.at) < lookEvery, f.folded[f.hash(string(id))]
	f.mu.Unlock()
	if fresh && !found {
		return nil
	}
	at, folded := time.Now(), map[uint64]bool{}
	var twin string
	err := c.eachFolder(func(name string) {
		folded[f.hash(name)] = true
		if name != string(id) && strings.EqualFold(name, string(id)) {
			twin = name
		}
	})
	if err != nil {
		return NotListed("the contexts directory", err)
	}
	f.mu.Lock()
	f.folded, f.at = folded, at
	f.mu.Unlock()
	if twin != "" {
		return Collides(id, ID(twin))
	}
	return nil
}

func (f *folders) hash(name string) uint64 { return maphash.String(f.seed, metadata.Fold(name)) }

// eachFolder calls see with the names in the contexts directory, and those of the states of drivers, in no order. Some come twice.
func (c *Catalog) eachFolder(see func(name string)) error {
	if err := eachName(c.Layout.Dir, see); err != nil {
		return err
	}
	for _, m := range c.Drivers.Mounters() {
		if err := eachName(c.Layout.DriverState(m.Name(), ""), see); err != nil && !isGone(err) { // the driver has made none yet
			return err
		}
	}
	return nil
}

func eachName(path string, see func(name string)) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|statedir.Flags, 0)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			see(name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
