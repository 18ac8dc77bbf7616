package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entriesKept is how many entries the journal keeps. Older ones can be undone no more.
const entriesKept = 1000

// keepTime is how long a content stays that nothing refers to: a Decide that runs has put it there, and has not recorded it yet.
const keepTime = time.Hour

// collect removes the oldest entries of the journal, and contents that no state, revision or entry refers to. The caller has the workspace's lock.
func (r *Reviews) collect() error {
	used := map[string]bool{}
	if err := r.collectJournal(used); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.states.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		st, err := r.states.read(id)
		if err != nil {
			return err // what it refers to is not known
		}
		st.use(used)
	}
	if err := r.revisions.use(used); err != nil {
		return err
	}
	if r.cfg.Used != nil {
		further, err := r.cfg.Used()
		if err != nil {
			return err
		}
		for _, hash := range further {
			used[hash] = true
		}
	}
	return r.store.retain(used, time.Now().Add(-keepTime))
}

func (r *Reviews) collectJournal(used map[string]bool) error {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if len(ids)-i > entriesKept {
			if err := os.Remove(r.journal.file(id, doneSuffix)); err != nil {
				return err
			}
			continue
		}
		e, err := r.journal.read(id, doneSuffix)
		if err != nil {
			return err
		}
		for _, s := range e.Steps {
			for _, v := range []Version{s.Before, s.After, s.BaseBefore, s.BaseAfter} {
				used[v.Hash] = true
			}
			s.Unresolved.use(used)
			s.WasUnresolved.use(used)
			s.Pulled.use(used)
			s.WasPulled.use(used)
			for _, v := range []*Version{s.Behind, s.WasBehind} {
				if v != nil {
					used[v.Hash] = true
				}
			}
			if c := s.Commit; c != nil {
				used[c.Before.Hash], used[c.After.Hash] = true, true
			}
		}
	}
	return nil
}

// use adds the contents that the state refers to.
func (st *state) use(used map[string]bool) {
	for _, v := range st.Overrides {
		used[v.Hash] = true
	}
	for _, v := range st.Behind {
		used[v.Hash] = true
	}
	for _, d := range st.Decided {
		used[d.Before.Hash], used[d.After.Hash] = true, true
	}
	for _, u := range st.Conflicts {
		u.use(used)
	}
	for _, p := range st.Pulled {
		p.use(used)
	}
}

// retain removes what is not used and older than a time.
func (s *Store) retain(used map[string]bool, before time.Time) error {
	dirs, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if !dir.IsDir() {
			errs = append(errs, removeOlder(filepath.Join(s.dir, dir.Name()), before)) // of a Put that was interrupted
			continue
		}
		contents, err := os.ReadDir(filepath.Join(s.dir, dir.Name()))
		errs = append(errs, err)
		for _, c := range contents {
			if !used[c.Name()] {
				errs = append(errs, removeOlder(s.path(c.Name()), before))
			}
		}
	}
	return errors.Join(errs...)
}

// removeOlder removes a file that was made before a time.
func removeOlder(name string, before time.Time) error {
	st, err := os.Lstat(name)
	if err == nil && st.ModTime().Before(before) {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
