package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// journalName is the file of a context's journal, in a directory that the context has alone.
const journalName = "journal"

// Pending reports whether a batch left a journal in a directory: it runs now, or it was interrupted.
func Pending(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, journalName))
	return !errors.Is(err, fs.ErrNotExist)
}

// action is a change of names that can be undone.
type action struct {
	Kind actionKind `json:"kind"`
	From rawPath    `json:"from,omitempty"`
	To   rawPath    `json:"to"`
	// Ino is the inode at From before an exchange, or before the move of a directory.
	Ino uint64 `json:"ino,omitempty"`
	// Size and Mtime are those of the file or link at From.
	Size  int64 `json:"size,omitempty"`
	Mtime int64 `json:"mtime,omitempty"`
	// Dir says that From of a move is a directory.
	Dir bool `json:"dir,omitempty"`
	// Mode and Was are permission bits after and before.
	Mode uint32 `json:"mode,omitempty"`
	Was  uint32 `json:"was,omitempty"`
	// step is the index of the step that the action belongs to.
	step int
}

type actionKind string

const (
	actMove     actionKind = "move"     // From to To, where nothing is
	actPlace    actionKind = "place"    // is a move from the hidden directory
	actAway     actionKind = "away"     // is a move into the hidden directory
	actExchange actionKind = "exchange" // From, in the hidden directory, and To
	actMkdir    actionKind = "mkdir"
	actChmod    actionKind = "chmod"
)

// rawPath is a path whose bytes JSON keeps as they are.
type rawPath string

// MarshalJSON implements json.Marshaler.
func (p rawPath) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *rawPath) UnmarshalJSON(data []byte) error {
	var raw []byte
	err := json.Unmarshal(data, &raw)
	*p = rawPath(raw)
	return err
}

// record is a line of a journal, after the header.
type record struct {
	// Hidden are the hidden directories of the batch. It is in the first line, which is written before they are made.
	Hidden []rawPath `json:"hidden,omitempty"`
	// Actions are in the second line, which is written before the first of them is made.
	Actions []action `json:"actions,omitempty"`
	// begun is how many of the actions are begun: all of these are made but the last, of which that is not known. It is in the header.
	begun int
}

// finished in the header says that all actions are made: what is left to do is to remove the hidden directories.
const finished = -1

// headerForm is the form of the header, whose length never changes: to write it again takes no space on the disk.
const headerForm = "%08d\n"

// journal is the file that says what a batch is about to do.
type journal struct {
	file *os.File
	name string
}

// beginJournal makes a journal. The caller has recovered an earlier one.
func beginJournal(dir string, hidden []rawPath) (*journal, error) {
	name := filepath.Join(dir, journalName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a batch: %w", err)
	}
	j := &journal{f, name}
	_, err = fmt.Fprintf(f, headerForm, 0)
	if err == nil {
		err = j.add(record{Hidden: hidden})
	}
	if err != nil {
		return nil, errors.Join(err, j.end())
	}
	return j, nil
}

// add writes a line.
func (j *journal) add(r record) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record a batch: %w", err)
	}
	return nil
}

// note writes how many actions are begun, or finished.
func (j *journal) note(begun int) error {
	if _, err := j.file.WriteAt(fmt.Appendf(nil, headerForm, begun), 0); err != nil {
		return fmt.Errorf("record a batch: %w", err)
	}
	return nil
}

// end removes the journal.
func (j *journal) end() error {
	return errors.Join(j.file.Close(), os.Remove(j.name))
}

// keep leaves the journal to Recover.
func (j *journal) keep() { _ = j.file.Close() } // what was written is in the kernel

// openJournal opens the journal that a batch left, and returns what it says. A line that was not written whole counts as none. The journal
// is nil if there is none.
func openJournal(dir string) (*journal, record, error) {
	var r record
	name := filepath.Join(dir, journalName)
	f, err := statedir.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, r, nil
	}
	if err != nil {
		return nil, r, fmt.Errorf("read the journal of a batch: %w", err)
	}
	j, lines := &journal{f, name}, bufio.NewReader(f)
	if header, err := lines.ReadString('\n'); err == nil {
		r.begun, err = strconv.Atoi(strings.TrimSpace(header))
		if err != nil { // a power failure came before the first action
			r.begun = 0
		}
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &r) != nil {
			return j, r, nil
		}
	}
}
