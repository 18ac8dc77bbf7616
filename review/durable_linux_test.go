package review

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Each name that appears in the journal is on the disk before a file of the workspace or of the context changes.
func TestJournalFlushesItsNames(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: the test reads which directories are flushed")
	}
	w := newWorld(t, killed.base)
	must(t, w.reviews.Close())
	defer w.open()
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), killed.changed)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-qq", "-o", trace, "-e", "trace=fsync,rename,renameat,renameat2", os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killAtEnv+"="+strconv.Itoa(1<<20))
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "PTRACE") {
			t.Skipf("processes cannot be traced here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(trace)
	must(t, err)
	journal := w.in("state/journal")
	flush := regexp.MustCompile(`fsync\(\d+<` + regexp.QuoteMeta(journal) + `>`)
	named, pending := 0, ""
	for line := range strings.Lines(string(data)) {
		switch {
		case flush.MatchString(line):
			pending = ""
		case !strings.Contains(line, "rename"), strings.Contains(line, " resumed>"): // a call that was listed when it began
		case pending != "":
			t.Fatalf("%s\nis followed, without an fsync of the journal, by\n%s", pending, line)
		case strings.Contains(line, journal+"/"):
			named++
			pending = line
		}
	}
	if named < 12 || pending != "" { // three for each of four entries
		t.Errorf("%d names appeared in the journal; not flushed: %q", named, pending)
	}
}

// An Apply of files in many directories has few of them open at once.
func TestManyDirectoriesNeedFewDescriptors(t *testing.T) {
	t.Parallel()
	const dirs, limit = 400, "320"
	base, changed := files{}, files{}
	for i := range dirs {
		name := "dir" + strconv.Itoa(i)
		base[name+"/file"], changed[name+"/file"] = "old\n", "new\n"
		if i%7 == 0 {
			delete(changed, name+"/file")
			changed[name] = "a file\n"
		}
	}
	w := newWorld(t, base)
	must(t, w.reviews.Close())
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), changed)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "ulimit -n "+limit+` && exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killAtEnv+"="+strconv.Itoa(1<<20))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if left := reserved(t, w.in("workspace")); len(left) > 0 {
		t.Errorf("temporary names are left: %q", left[:min(len(left), 3)])
	}
	w.open()
	same(t, "the workspace", read(t, w.in("workspace")), base)
	same(t, "the context", read(t, w.in(id)), changed)
	if done, err := w.reviews.journal.ids(doneSuffix); err != nil || len(done) != 4 {
		t.Errorf("the journal has the entries %v (%v), want those of an Apply, a Discard and two Undos", done, err)
	}
}

// TestDirectoryGoesAfterItsFiles applies a change that puts files in the places of directories. One of the goroutines that remove what was replaced
// waits until the others have removed all that they can: a directory must not go before the files that it had.
func TestDirectoryGoesAfterItsFiles(t *testing.T) {
	const dirs = 32
	base, changed := files{}, files{}
	for i := range dirs {
		name := "dir" + strconv.Itoa(i)
		base[name+"/file"], changed[name] = "old\n", "a file\n"
	}
	w := newWorld(t, base)
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), changed)
	var removed atomic.Int32
	others := make(chan struct{})
	w.reviews.point = func(phase string) {
		if phase != "removed" {
			return
		}
		switch removed.Add(1) {
		case 1:
			<-others
		case 2*dirs - parallelStep:
			close(others)
		}
	}
	w.decide(Approved, Selection{All: true})
	w.apply(ApplyRequest{})
	same(t, "the workspace", read(t, w.in("workspace")), changed)
	if left := reserved(t, w.in("workspace")); len(left) > 0 {
		t.Errorf("temporary names are left: %q", left)
	}
}
