package drivertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
)

// made is a context that a driver made.
type made struct {
	driver.Place
	t testing.TB
	d driver.Driver
}

// in returns the path of a name in the context.
func (m *made) in(name string) string { return filepath.Join(m.Folder, filepath.FromSlash(name)) }

// prepare makes a context that is not mounted yet; src may be "" for a Mounter.
func prepare(t testing.TB, d driver.Driver, src string) *made {
	t.Helper()
	dir := t.TempDir()
	m := &made{t: t, d: d, Place: driver.Place{Layer: src, State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}}
	dst := m.Folder
	if _, ok := d.(driver.Mounter); ok {
		dst = m.State
	}
	must(t, os.Mkdir(dst, 0o755))
	must(t, d.Prepare(context.Background(), src, dst, nil))
	t.Cleanup(m.close)
	return m
}

// create makes a context and shows it.
func create(t testing.TB, d driver.Driver, src string) *made {
	t.Helper()
	m := prepare(t, d, src)
	m.mount()
	return m
}

func (m *made) mount() {
	m.t.Helper()
	if d, ok := m.d.(driver.Mounter); ok {
		must(m.t, d.Mount(context.Background(), m.Place))
	}
}

func (m *made) unmount() {
	m.t.Helper()
	if d, ok := m.d.(driver.Mounter); ok {
		must(m.t, d.Unmount(context.Background(), m.Folder, false))
	}
}

// again is what a restart does to a context.
func (m *made) again() {
	m.t.Helper()
	m.unmount()
	m.mount()
}

// close takes the mount away, and makes what is there removable.
func (m *made) close() {
	if d, ok := m.d.(driver.Mounter); ok {
		if err := d.Unmount(context.Background(), m.Folder, true); err != nil {
			m.t.Error(err)
		}
	}
	for _, dir := range []string{filepath.Join(m.Folder, "readonly"), filepath.Join(m.State, "upper", "readonly"), filepath.Join(m.State, "work", "work")} {
		if err := os.Chmod(dir, 0o755); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.t.Error(err)
		}
	}
}
