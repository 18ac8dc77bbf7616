package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/cgrouptest"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// count returns how many names a directory of /proc has.
func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// mounts counts those that have to do with a workspace: other programs mount too.
func mounts(t *testing.T, workspace string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), filepath.Base(workspace))
}

// TestManyCommandsLeaveNothing runs 200 commands, eight at a time. It does not run beside other tests, whose descriptors would count.
func TestManyCommandsLeaveNothing(t *testing.T) { //nolint:paralleltest // see above
	groups := cgrouptest.All(t)
	s := cgroupSite(t, groups...)
	s.result(s.start("true")) // opens what stays open
	descriptors, mounted := count(t, "/proc/self/fd"), mounts(t, s.workspace)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 25 {
				p, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"echo", fmt.Sprint(worker, i)}})
				if err == nil {
					err = p.Wait(t.Context())
				}
				if err != nil || p.Ended().Code != 0 {
					t.Errorf("command %d of worker %d: %v", i, worker, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.List(testContext)); n != maxKept {
		t.Errorf("%d processes are kept, want %d", n, maxKept)
	}
	for _, p := range s.List("") {
		if err := s.Remove(p.ID); err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.workspace, ".contexts", ".ctxfs", "exec", "*"))
	if err != nil || len(files) > 0 {
		t.Errorf("files left: %v, %v", files, err)
	}
	if left := sandboxed(t, s.workspace); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left := cgrouptest.Left(groups); len(left) > 0 {
		t.Errorf("cgroups left: %v", left)
	}
	if now := count(t, "/proc/self/fd"); now > descriptors {
		t.Errorf("%d descriptors, before %d", now, descriptors)
	}
	if now := mounts(t, s.workspace); now != mounted {
		t.Errorf("%d mounts, before %d", now, mounted)
	}
}

// TestEndedCommandsAreForgotten lets more commands end than are kept, and asks for none of them.
func TestEndedCommandsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range maxKept/8 + 2 {
				if p, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}}); err != nil || p.Wait(t.Context()) != nil {
					t.Error("start: ", err)
				}
			}
		})
	}
	wg.Wait()
	s.Retire() // waits until nothing is done about them any longer
	files, err := filepath.Glob(filepath.Join(s.workspace, ".contexts", ".ctxfs", "exec", "*"))
	if err != nil || len(files) != 3*maxKept {
		t.Errorf("%d files are left of %d commands, want %d; %v", len(files), 8*(maxKept/8+2), 3*maxKept, err)
	}
}

// TestInputIsNotKept starts a command with an input, once more with the same, and with another.
func TestInputIsNotKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	cmd := Command{Context: testContext, Argv: []string{"wc", "-c"}, Stdin: make([]byte, maxStdin), Identity: Identity{RequestID: "r"}}
	p := s.begin(cmd)
	if kept := len(p.cmd.Stdin) + len(p.plan.asked.Stdin); kept > 100 {
		t.Errorf("%d bytes of the input are kept", kept)
	}
	if _, out, _ := s.result(p); out != "1048576\n" {
		t.Errorf("the command read %q", out)
	}
	if again := s.begin(cmd); again != p {
		t.Error("the same start returned another process")
	}
	cmd.Stdin = make([]byte, maxStdin-1)
	if _, err := s.Start(t.Context(), cmd); fserr.CodeOf(err) != fserr.EEXIST {
		t.Errorf("with another input: %v", err)
	}
}

// TestFullDiskKeepsWhatWasWritten runs a command that writes more than the disk takes.
func TestFullDiskKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a disk that is small")
	}
	namespacestest.Mounting(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no tmpfs can be mounted: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil { // a sandbox that is being made may hold it for a moment
			t.Error(err)
		}
	})
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Dir = filepath.Join(disk, "exec") })
	p := s.start("i=0; while [ $i -lt 40 ]; do i=$((i+1)); head -c 50000 /dev/zero; done; exit 3")
	var got, dropped int64
	err := p.Output(t.Context(), [2]int64{}, Watching, func(o Output) error {
		got, dropped = got+int64(len(o.Data)), dropped+o.Dropped
		return nil
	})
	if err != nil || got < 500_000 || got > 1<<20 || got+dropped != 2_000_000 {
		t.Errorf("read %d, dropped %d of 2000000; %v", got, dropped, err)
	}
	if exit := p.Ended(); exit.Reason != Exited || exit.Code != 3 || !strings.Contains(exit.Detail, fmt.Sprintf("from byte %d on", got)) || !strings.Contains(exit.Detail, "no space left") {
		t.Errorf("the command ended with %+v", exit)
	}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a start on the full disk: %v", err)
	}
	if err := s.Remove(p.ID); err != nil {
		t.Fatal(err)
	}
	if exit, out, _ := s.result(s.start("echo again")); exit.Code != 0 || exit.Detail != "" || out != "again\n" {
		t.Errorf("with room again: %+v, %q", exit, out)
	}
}

// TestOutputFloodIsBounded lets a command write 1 GiB, or the GiB that CTXFS_FLOOD says, without a reader.
func TestOutputFloodIsBounded(t *testing.T) { // not beside other tests: it counts what the process allocates
	flood := int64(1 << 30)
	if text := os.Getenv("CTXFS_FLOOD"); text != "" {
		n, err := strconv.ParseInt(text, 10, 16)
		if err != nil {
			t.Fatal("CTXFS_FLOOD: ", err)
		}
		flood = n << 30
	}
	s := newSite(t, "copy")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := s.start(fmt.Sprintf("echo first; head -c %d /dev/zero; echo last", flood))
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MiB were allocated", allocated>>20)
	}
	t.Logf("%d GiB, for which %d MiB were allocated", flood>>30, (after.TotalAlloc-before.TotalAlloc)>>20)
	if n := p.Written(Stdout); n != flood+int64(len("first\nlast\n")) || p.Ended().Code != 0 {
		t.Errorf("it wrote %d bytes, and ended with %+v", n, p.Ended())
	}
	st, err := os.Stat(p.spools[Stdout].path)
	if err != nil || st.Size() > headSize+tailSize {
		t.Errorf("the file of the output: %v, %v", st, err)
	}
	var got, dropped int64
	var begin, end string
	err = p.Output(t.Context(), [2]int64{}, Watching, func(o Output) error {
		if got == 0 {
			begin = string(o.Data[:6])
		}
		end = string(o.Data[max(0, len(o.Data)-5):])
		got, dropped = got+int64(len(o.Data)), dropped+o.Dropped
		return nil
	})
	if err != nil || got != headSize+tailSize || got+dropped != p.Written(Stdout) || begin != "first\n" || end != "last\n" {
		t.Errorf("read %d, dropped %d, %q...%q, %v", got, dropped, begin, end, err)
	}
}

// TestReaderReturnsAtItsOffset leaves a reader, and begins another where that one was.
func TestReaderReturnsAtItsOffset(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.begin(Command{Argv: []string{"cat"}, OpenStdin: true})
	if err := p.Write(t.Context(), []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	s.awaitOutput(p, "one\n")
	if err := p.Write(t.Context(), []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	err := p.Output(t.Context(), [2]int64{4, 0}, Watching, func(o Output) error {
		rest.Write(o.Data)
		return nil
	})
	if err != nil || rest.String() != "two\n" {
		t.Errorf("got %q, %v", rest.String(), err)
	}
	if err := p.Output(t.Context(), [2]int64{9, 0}, Watching, nil); err == nil || !strings.Contains(err.Error(), "offset 9") {
		t.Errorf("beyond the end: %v", err)
	}
}

// TestForkBombIsBounded lets a command start more processes than it may have, while another context's command runs.
func TestForkBombIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	bomb := s.begin(Command{Argv: []string{"sh", "-c", "for i in $(seq 100); do sleep 1000 & done; wait"}, Limits: Limits{Processes: 20}})
	other := s.begin(Command{Context: "ctx_b", Argv: []string{"sh", "-c", "for i in 1 2 3; do true & done; wait; echo fine"}, Limits: Limits{Processes: 20}})
	if _, out, _ := s.result(other); out != "fine\n" {
		t.Errorf("the other context: %q", out)
	}
	_, _, stderr := s.result(bomb) // it gives up long before its children would end
	if !strings.Contains(strings.ToLower(stderr), "fork") {
		t.Errorf("got %q", stderr)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	exit, out, stderr := s.result(s.begin(Command{
		Argv:   []string{"bash", "-c", "ulimit -n; ulimit -u; ulimit -c; head -c 100000 /dev/zero >large; echo $?; stat -c %s large"},
		Limits: Limits{Files: 100, Processes: 50, FileBytes: 4096},
	}))
	if want := "100\n50\n0\n153\n4096\n"; out != want { // 153: SIGXFSZ
		t.Errorf("got %+v, %q, %q; want %q", exit, out, stderr, want)
	}
}
