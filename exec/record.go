package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// record is what Config.Dir keeps of a process, beside its output, for the engine that finds the directory after this one was killed.
type record struct {
	ID string `json:"id"`
	// Command has neither the environment nor the input, which may hold secrets.
	Command Command `json:"command"`
	// Asked is Process.asked.
	Asked   string    `json:"asked,omitempty"`
	Started time.Time `json:"started"`
	// Sandbox is process 1 of the sandbox.
	Sandbox identity `json:"sandbox"`
	// Exit and Sizes, the lengths of the streams, are set when the process has ended.
	Exit  *Exit    `json:"exit,omitempty"`
	Sizes [2]int64 `json:"sizes"`
	// Unkept is how many bytes at the end of each stream were not kept.
	Unkept [2]int64 `json:"unkept"`
}

// identity names a process of this machine, also after its PID was used again.
type identity struct {
	PID int `json:"pid"`
	// Start is when the process was started, in clock ticks since the boot that Boot names.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// recordSuffix ends the names of records, spoolSuffixes those of the streams of a process.
const recordSuffix = ".json"

var spoolSuffixes = [2]string{Stdout: ".out", Stderr: ".err"}

// save writes the record of the process. exit is nil while it runs.
func (p *Process) save(sandbox identity, exit *Exit) error {
	r := record{ID: p.ID, Command: p.cmd, Asked: p.asked, Started: p.started, Sandbox: sandbox, Exit: exit}
	r.Command.Env, r.Command.Stdin = nil, nil
	for i, s := range p.spools {
		kept, _ := s.failure()
		r.Sizes[i] = s.length()
		r.Unkept[i] = r.Sizes[i] - kept
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of a command: %w", err)
	}
	path := filepath.Join(p.table.cfg.Dir, p.ID+recordSuffix)
	if err := statedir.WriteFile(path+"~", data, 0o600); err != nil {
		_ = os.Remove(path + "~") // a disk without room has a part of it
		return err
	}
	return os.Rename(path+"~", path)
}

// records reads the records of a directory. It skips what is not one, such as a record that was half written when its writer was killed.
func records(dir string) ([]record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []record
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), recordSuffix)
		if !isRecord {
			continue
		}
		data, err := statedir.ReadFile(filepath.Join(dir, e.Name()), statedir.MaxList)
		if err != nil {
			return nil, err
		}
		var r record
		if json.Unmarshal(data, &r) == nil && r.ID == id {
			list = append(list, r)
		}
	}
	return list, nil
}

// Reap kills what still runs of the processes of an engine that was killed, and returns when nothing of them runs. dir is its Config.Dir.
// The sandboxes end with the engine that started them: Reap waits for that, and ends those that did not.
func Reap(ctx context.Context, dir string) error {
	list, err := records(dir)
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.Exit != nil {
			continue
		}
		if err := r.Sandbox.end(ctx); err != nil {
			return fmt.Errorf("end the sandbox of process %s: %w", r.ID, err)
		}
	}
	return nil
}

// Adopt takes over the processes of an engine that has ended, with their output, and removes its directory unless it is Config.Dir. A
// process without an exit ended for Config.Unfinished, at a time that is not known: now. Nothing of it runs when Adopt returns.
func (t *Processes) Adopt(ctx context.Context, dir string) error {
	if err := Reap(ctx, dir); err != nil {
		return err
	}
	list, err := records(dir)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		if err := os.MkdirAll(t.cfg.Dir, 0o700); err != nil {
			return err
		}
	}
	kept := map[string]bool{}
	for _, r := range list {
		p, err := t.revive(dir, r)
		if err != nil {
			return err
		}
		for _, suffix := range append(spoolSuffixes[:], recordSuffix) {
			kept[p.ID+suffix] = true
		}
	}
	if dir != t.cfg.Dir {
		return os.RemoveAll(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it is made for the first command
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "p-") && !kept[e.Name()] { // of a process whose start was cut off
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// revive adds the process of a record, which has ended. A start with its request ID returns it. Its name is free: names are of processes that run.
func (t *Processes) revive(dir string, r record) (*Process, error) {
	p := &Process{ID: r.ID, table: t, cmd: r.Command, asked: r.Asked, started: r.Started, done: make(chan struct{}), kills: make(chan kill, 1), input: make(chan struct{}, 1)}
	for i, suffix := range spoolSuffixes {
		path := filepath.Join(t.cfg.Dir, p.ID+suffix)
		if err := moved(filepath.Join(dir, p.ID+suffix), path); err != nil {
			return nil, err
		}
		var err error
		if p.spools[i], err = endedSpool(path, r.Exit != nil, r.Sizes[i], r.Unkept[i]); err != nil {
			return nil, err
		}
	}
	exit := r.Exit
	if exit == nil {
		exit = &Exit{Reason: t.cfg.Unfinished, At: time.Now()}
	}
	if err := p.save(r.Sandbox, exit); err != nil {
		return nil, err
	}
	p.terminal.Store(r.Command.Pty)
	p.exit.Store(exit)
	close(p.done)
	p.callers.ended()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[p.ID] = p
	if key := p.cmd.requestKey(); key.name != "" && t.requests[key] == nil {
		t.requests[key] = &request{decided: p.done, process: p}
	}
	return p, nil
}

// moved renames a file, unless it was renamed before.
func moved(from, to string) error {
	if from == to {
		return nil
	}
	if err := os.Rename(from, to); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// endedSpool returns the spool of a stream that has ended. known says that size is its length. The length of another is that of the file, if
// the writer had not begun to overwrite the tail: after that only the head is known.
func endedSpool(path string, known bool, size, unkept int64) (*spool, error) {
	st, err := os.Lstat(path)
	missing := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !missing:
		return nil, err
	case known:
	case missing:
		size = 0
	case st.Size() < headSize+tailSize:
		size = st.Size()
	default:
		size = headSize
	}
	return &spool{path: path, size: size, kept: size - unkept, reserved: size - unkept, ended: true, dropped: missing}, nil
}

// Left is Processes.Has for the directory of an engine that has ended, before another adopts it.
func Left(dir string, id contexts.ID, requestID string) (e Elsewhere, known bool, err error) {
	list, err := records(dir)
	for _, r := range list {
		if r.Command.Context != id {
			continue
		}
		known = known || requestID != "" && r.Command.RequestID == requestID
		if r.Exit == nil {
			e.Running++
			e.Names = append(e.Names, r.Command.Name)
		}
	}
	return e, known, err
}

// Running returns how many processes start or run.
func (t *Processes) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, active := range t.active {
		n += active
	}
	return n
}
