package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// ErrCorrupt says that the file is no sound SQLite database. The records can be
// rebuilt from the folders, hence the remedy.
var ErrCorrupt = errors.New("the database is corrupt: run `ctxfs doctor --repair` to rebuild it from the folders")

// ErrNewer says that a later version of ctxfs wrote the database.
var ErrNewer = errors.New("the database was written by a newer ctxfs")

// mask takes the primary result code out of an extended one (sqlite3.h).
const mask = 0xff

// extended result codes that mean something of ours.
var meanings = map[int]error{
	lib.SQLITE_CONSTRAINT_UNIQUE:     metadata.ErrConflict,
	lib.SQLITE_CONSTRAINT_PRIMARYKEY: metadata.ErrConflict,
	lib.SQLITE_CONSTRAINT_FOREIGNKEY: metadata.ErrNotFound,
}

// primary result codes that a caller can act upon.
var codes = map[int]fserr.Error{
	lib.SQLITE_FULL:      {Code: fserr.ENOSPC, Detail: "no space left for the database", Hint: "free some space"},
	lib.SQLITE_READONLY:  {Code: fserr.EROFS, Detail: "the database cannot be written"},
	lib.SQLITE_BUSY:      {Code: fserr.EAGAIN, Detail: "the database is in use by another process", RetryAfter: busyTimeout},
	lib.SQLITE_INTERRUPT: {Code: fserr.ECANCELED},
}

// translate turns the driver's error into metadata's, ErrCorrupt or an *fserr.Error.
func translate(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	if meaning, ok := meanings[e.Code()]; ok {
		return meaning
	}
	switch e.Code() & mask {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	if known, ok := codes[e.Code()&mask]; ok {
		known.Err = err
		return &known
	}
	return err
}

// lacksSpace reports whether an Open failed for what a full disk refuses: SQLite says of the -shm file only that its size
// could not be set.
func lacksSpace(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code() == lib.SQLITE_IOERR_SHMSIZE || e.Code()&mask == lib.SQLITE_FULL)
}

// explain says what was being done to which record.
func (s *Store) explain(err error, doing, key string) error {
	if err == nil {
		return nil
	}
	err = translate(err)
	if s.turnedReadOnly(err) {
		err = &fserr.Error{Code: fserr.EROFS, Detail: "the database is on a read-only disk", Hint: "make the disk writable again, then restart ctxfs", Err: err}
	}
	return fmt.Errorf("%s %q: %w", doing, key, err)
}

// turnedReadOnly reports whether SQLite failed with an I/O error on a file system that takes no writes any more. Only a write shows
// that: access(2) and statfs(2) do not.
func (s *Store) turnedReadOnly(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) || e.Code()&mask != lib.SQLITE_IOERR {
		return false
	}
	return fserr.CodeOf(os.Chtimes(filepath.Dir(s.path), time.Now(), time.Time{})) == fserr.EROFS
}
