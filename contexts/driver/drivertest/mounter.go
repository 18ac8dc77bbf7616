package drivertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
)

// mounterCases are what only a Mounter promises.
func mounterCases() []testCase {
	of := func(test func(*testing.T, driver.Mounter)) func(*testing.T, driver.Driver) {
		return func(t *testing.T, d driver.Driver) {
			m, ok := d.(driver.Mounter)
			if !ok {
				t.Fatal("it mounts no more")
			}
			test(t, m)
		}
	}
	return []testCase{
		{"StartsEmpty", of(startsEmpty)}, {"UsesTheMountThatIsThere", of(usesTheMountThatIsThere)},
		{"MakesTheFolder", of(makesTheFolder)}, {"HealsWhatADeletedContextLeft", of(healsWhatADeletedContextLeft)},
		{"InUse", of(inUse)}, {"TellsItsMounts", of(tellsItsMounts)}, {"SaysWhatIsGone", of(saysWhatIsGone)},
		{"AnyName", of(anyName)}, {"RestoredFromABackup", of(restoredFromABackup)}, {"RestoredWithoutItsAttributes", of(restoredWithoutItsAttributes)},
	}
}

func startsEmpty(t *testing.T, d driver.Mounter) {
	m := create(t, d, "")
	if n := len(snapshot(t, m.Folder)); n != 0 {
		t.Errorf("%d entries came from nothing", n)
	}
	if st := lstat(t, m.Folder, "/"); st.Perm() != 0o755 {
		t.Errorf("the root has mode %o", st.Perm())
	}
	must(t, os.WriteFile(m.in("first"), []byte("1"), 0o600))
	m.again()
	if data, err := os.ReadFile(m.in("first")); err != nil || string(data) != "1" {
		t.Errorf("after a restart it holds %q, %v", data, err)
	}
}

// usesTheMountThatIsThere mounts again, as a server does after a kill: the old mount and open files stay usable.
func usesTheMountThatIsThere(t *testing.T, d driver.Mounter) {
	m := create(t, d, layer(t))
	f, err := os.OpenFile(m.in("a/plain"), os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	before := lstat(t, m.Folder, "/")
	m.mount()
	if after := lstat(t, m.Folder, "/"); after.Dev != before.Dev || after.Ino != before.Ino {
		t.Errorf("the root became %d:%d, it was %d:%d", after.Dev, after.Ino, before.Dev, before.Ino)
	}
	_, err = f.WriteAt([]byte("CONTENT"), 0)
	must(t, err)
	if data, err := os.ReadFile(m.in("a/plain")); err != nil || !strings.HasPrefix(string(data), "CONTENT") {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

func makesTheFolder(t *testing.T, d driver.Mounter) {
	m := create(t, d, layer(t))
	want := snapshot(t, m.Folder)
	m.unmount()
	st, err := os.Lstat(m.Folder)
	must(t, err)
	if st.Mode().Perm()&0o222 != 0 {
		t.Errorf("others may write under a context that is not mounted (mode %o)", st.Mode().Perm())
	}
	must(t, os.Remove(m.Folder))
	m.mount()
	compare(t, snapshot(t, m.Folder), want)
}

func healsWhatADeletedContextLeft(t *testing.T, d driver.Mounter) {
	m := create(t, d, layer(t))
	must(t, os.WriteFile(m.in("a/plain"), []byte("of the past"), 0o644))
	must(t, os.Rename(m.State, m.State+"-deleted"))
	must(t, os.Mkdir(m.State, 0o700))
	must(t, d.Prepare(context.Background(), m.Layer, m.State, nil))
	m.mount()
	compare(t, snapshot(t, m.Folder), snapshot(t, m.Layer))
}

func inUse(t *testing.T, d driver.Mounter) {
	ctx := context.Background()
	m := create(t, d, layer(t))
	f, err := os.OpenFile(m.in("a/plain"), os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	if err := d.Unmount(ctx, m.Folder, false); fserr.CodeOf(err) != fserr.EBUSY {
		t.Errorf("unmounting it in use gives %v, want EBUSY", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	must(t, d.Unmount(ended, m.Folder, true)) // without the wait for its users
	must(t, d.Unmount(ctx, m.Folder, false))  // there is none
	_, err = f.WriteAt([]byte("still"), 0)
	must(t, err)
	if err := d.Mount(ctx, m.Place); fserr.CodeOf(err) != fserr.EBUSY {
		t.Errorf("a second mount of one upper gives %v, want EBUSY", err)
	}
	must(t, f.Close())
	m.mount()
	if data, err := os.ReadFile(m.in("a/plain")); err != nil || !strings.HasPrefix(string(data), "still") {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

func tellsItsMounts(t *testing.T, d driver.Mounter) {
	m := create(t, d, layer(t))
	dir := filepath.Dir(m.Folder)
	for _, c := range []struct {
		name string
		do   func()
		want []string
	}{
		{"mounted", func() {}, []string{"folder"}},
		{"unmounted", m.unmount, nil},
	} {
		c.do()
		got, err := d.Mounts(dir)
		must(t, err)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func saysWhatIsGone(t *testing.T, d driver.Mounter) {
	for _, c := range []struct {
		name, words string
		remove      func(m *made) string
	}{
		{"layer", "layer", func(m *made) string { return m.Layer }},
		{"state", "what the context holds", func(m *made) string { return m.State }},
	} {
		m := prepare(t, d, layer(t))
		aside := c.remove(m) + "-aside"
		must(t, os.Rename(c.remove(m), aside))
		err := d.Mount(context.Background(), m.Place)
		if fserr.CodeOf(err) != fserr.EIO || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), aside) {
			t.Errorf("without its %s: %v", c.name, err)
		}
		must(t, os.Rename(aside, c.remove(m)))
		m.mount()
	}
}

// anyName has what mount options must not trip over, and paths longer than one option may be.
func anyName(t *testing.T, d driver.Mounter) {
	for _, name := range []string{"a,b", "a:b", `a\b`, `a\:b\,c`, "a b\tc\nd", "ünï", "a=b\"'", strings.Repeat("long", 60)} {
		base := filepath.Join(t.TempDir(), name)
		m := prepare(t, d, layer(t))
		place := driver.Place{Layer: filepath.Join(base, "layer"), State: filepath.Join(base, "state"), Folder: filepath.Join(base, "ctx_folder")}
		must(t, os.Mkdir(base, 0o755))
		must(t, os.Rename(m.Layer, place.Layer))
		must(t, os.Rename(m.State, place.State))
		m.Place = place
		m.mount()
		compare(t, snapshot(t, m.Folder), snapshot(t, m.Layer))
		if got, err := d.Mounts(base); err != nil || !slices.Equal(got, []string{"ctx_folder"}) {
			t.Errorf("mounts in %q: %v, %v", name, got, err)
		}
		m.mount() // it knows its mount again
		m.unmount()
		must(t, os.Chmod(filepath.Join(m.Layer, "readonly"), 0o755))
	}
}

// restore puts a copy of the layer and of each of the states elsewhere, as a backup does, and returns the first state as a context
// that stands on the new layer. The copy ends in work/work, which only root reads.
func (m *made) restore(how string, more ...string) (c *made, copies []string) {
	m.t.Helper()
	dir := m.t.TempDir()
	for i, src := range append([]string{m.Layer, m.State}, more...) {
		dst := filepath.Join(dir, strconv.Itoa(i))
		out, err := exec.CommandContext(m.t.Context(), "cp", how, "--", src, dst).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "work/work'") {
			m.t.Fatalf("cp %s: %v\n%s", how, err, out)
		}
		copies = append(copies, dst)
		for _, readonly := range []string{"readonly", "upper/readonly"} {
			m.t.Cleanup(func() { _ = os.Chmod(filepath.Join(dst, readonly), 0o755) }) // so that TempDir can go
		}
	}
	c = &made{t: m.t, d: m.d, Place: driver.Place{Layer: copies[0], State: copies[1], Folder: filepath.Join(dir, "folder")}}
	m.t.Cleanup(c.close)
	return c, copies
}

// restoredFromABackup mounts a copy whose files all have other inode numbers, which overlayfs refuses.
func restoredFromABackup(t *testing.T, d driver.Mounter) {
	for _, c := range []struct {
		name   string
		change func(m *made)
	}{
		{"changed", func(m *made) { change(t, m.Folder) }},
		{"mounted", func(*made) {}},
		{"written", func(m *made) { must(t, os.WriteFile(m.in("a/run.sh"), []byte("written"), 0o755)) }},
		{"one name of a file written", func(m *made) { must(t, os.WriteFile(m.in("many/hard1"), []byte("through one name"), 0o644)) }},
		{"one name written, one removed", func(m *made) {
			must(t, os.WriteFile(m.in("a/b/hard2"), []byte("through one name"), 0o644))
			must(t, os.Remove(m.in("many/hard1")))
		}},
		{"one name replaced", func(m *made) {
			must(t, os.WriteFile(m.in("new"), []byte("a file of its own"), 0o644))
			must(t, os.Rename(m.in("new"), m.in("many/hard1")))
		}},
		{"the directory of a name replaced", func(m *made) {
			must(t, os.WriteFile(m.in("many/hard1"), []byte("through one name"), 0o644))
			removeAll(t, m.in("a/b"))
			must(t, os.Mkdir(m.in("a/b"), 0o755))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := create(t, d, layer(t))
			c.change(m)
			before := snapshot(t, m.Folder)
			m.unmount()
			r, _ := m.restore("-a")
			r.mount()
			compare(t, snapshot(t, r.Folder), before)
			must(t, os.WriteFile(r.in("after"), []byte("after"), 0o644))
			before = snapshot(t, r.Folder)
			r.again()
			compare(t, snapshot(t, r.Folder), before)
			m.mount() // the first one minds nothing
			if d.Lost(r.State) || d.Lost(m.State) {
				t.Error("it counts as without its attributes")
			}
		})
	}
}

// restoredWithoutItsAttributes must not show a context that lacks what was renamed, or shows what was replaced.
func restoredWithoutItsAttributes(t *testing.T, d driver.Mounter) {
	ctx := context.Background()
	m := create(t, d, layer(t))
	change(t, m.Folder)
	// An earlier version's state has no mark before it is mounted.
	m.unmount()
	must(t, os.Remove(filepath.Join(m.State, "kept")))
	m.mount()
	fork := m.duplicate()
	fork.unmount()
	never := filepath.Join(t.TempDir(), "never mounted")
	_, err := d.Duplicate(ctx, m.State, never, nil)
	must(t, err)
	m.unmount()
	c, copies := m.restore("-dR", fork.State, never)
	for _, state := range copies[1:] {
		c.State = state
		if !d.Lost(state) {
			t.Errorf("%s does not count as without its attributes", state)
		}
		err := d.Mount(ctx, c.Place)
		if fserr.CodeOf(err) != fserr.EIO || !strings.Contains(err.Error(), "extended attributes") || !strings.Contains(err.Error(), "doctor --repair") {
			t.Errorf("mount says %v", err)
		}
		if _, err := d.Duplicate(ctx, state, filepath.Join(t.TempDir(), "copy"), nil); fserr.CodeOf(err) != fserr.EIO {
			t.Errorf("duplicate says %v", err)
		}
		must(t, d.Accept(ctx, state))
		must(t, d.Accept(ctx, state))
		if d.Lost(state) {
			t.Error("it was not accepted")
		}
		c.mount()
		if data, err := os.ReadFile(c.in("many/3")); err != nil || string(data) != "another 3" {
			t.Errorf("a file that was made holds %q, %v", data, err)
		}
		c.unmount()
	}
}
