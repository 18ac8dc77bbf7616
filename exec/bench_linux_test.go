package exec

import (
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/entry"
)

// bare starts argv by bwrap alone, with the options of a sandbox for ctx_a.
func (s *site) bare(b *testing.B, stdout *os.File, argv ...string) (wait func() error) {
	b.Helper()
	if err := s.sandbox.probe(b.Context(), s.starter); err != nil {
		b.Fatal(err)
	}
	user, err := s.sandbox.runAs()
	if err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(s.workspace, ".contexts", string(testContext)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	options, err := assemble(os.NewFile(uintptr(fd), "context"), home, nil, user, tmpBytes)
	if err != nil {
		b.Fatal(err)
	}
	defer options.close()
	argv, err = options.enter(Limits{}.step(0), argv...)
	if err != nil {
		b.Fatal(err)
	}
	cmd, err := options.command(*s.sandbox.bwrap.Load(), user, argv)
	if err != nil {
		b.Fatal(err)
	}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := s.starter.start(cmd); err != nil {
		b.Fatal(err)
	}
	return cmd.Wait
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkTrue runs true in a sandbox of its own, and by bwrap with the same options, in turns. x-bwrap is the ratio of the medians, at most
// 1.3.
func BenchmarkTrue(b *testing.B) {
	s := newSite(b, "copy")
	var ours, theirs []time.Duration
	for b.Loop() {
		begun := time.Now()
		if err := s.bare(b, nil, "true")(); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		p, err := s.Start(b.Context(), Command{Context: testContext, Argv: []string{"true"}})
		if err == nil {
			err = p.Wait(b.Context())
		}
		if err != nil || p.Ended().Code != 0 {
			b.Fatal(err)
		}
		theirs, ours = append(theirs, between.Sub(begun)), append(ours, time.Since(between))
	}
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-bwrap")
	b.ReportMetric(float64(median(theirs).Microseconds()), "bwrap-µs")
}

// BenchmarkTrueInSharedSandbox runs true in a shared sandbox that another command keeps, and by fork and exec, with a message to and fro
// through a pair of sockets, in turns. x-fork is the ratio of the medians, at most 1.5. x-step is that to the same with the first step of
// commands, which sets the limits and has Landlock restrict the command.
func BenchmarkTrueInSharedSandbox(b *testing.B) {
	s := newSite(b, "copy")
	s.begin(Command{Sandbox: "dev", Argv: []string{"sleep", "1000"}})
	here, there, err := socketPair()
	if err != nil {
		b.Fatal(err)
	}
	defer here.Close()
	go func() { // ends when the pair is closed
		defer there.Close()
		for message := make([]byte, maxMessage); ; {
			n, err := there.Read(message)
			if err == nil {
				_, err = there.Write(message[:n])
			}
			if err != nil || n == 0 {
				return
			}
		}
	}()
	step := Limits{}.step(0)
	step.Paths = []entry.Path{{Path: "/", Access: entry.All}}
	stepFile := &bundle{}
	defer stepFile.close()
	fd, err := stepFile.step(step)
	if err != nil {
		b.Fatal(err)
	}
	withStep := entry.Argv("/proc/self/exe", fd, "true")
	plain := func(argv ...string) time.Duration {
		if _, err := stepFile.files[0].Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		var reply order
		if err := send(here, order{ID: 1}); err != nil {
			b.Fatal(err)
		}
		if _, err := receive(here, &reply); err != nil {
			b.Fatal(err)
		}
		cmd := osexec.CommandContext(b.Context(), argv[0], argv[1:]...)
		cmd.ExtraFiles = stepFile.files
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	var ours, theirs, steps []time.Duration
	for b.Loop() {
		theirs, steps = append(theirs, plain("true")), append(steps, plain(withStep...))
		begun := time.Now()
		p, err := s.Start(b.Context(), Command{Context: testContext, Sandbox: "dev", Argv: []string{"true"}})
		if err == nil {
			err = p.Wait(b.Context())
		}
		if err != nil || p.Ended().Code != 0 {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(begun))
	}
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-fork")
	b.ReportMetric(float64(median(ours))/float64(median(steps)), "x-step")
	b.ReportMetric(float64(median(ours).Microseconds()), "shared-µs")
}

// BenchmarkFlood lets a command write 1 GiB, into its spool and into a pipe that is read, in turns. x-pipe is the ratio of the rates, at least
// 0.5; MiB is what the server allocates, at most 32.
func BenchmarkFlood(b *testing.B) {
	const flood = 1 << 30
	s := newSite(b, "copy")
	argv := []string{"head", "-c", fmt.Sprint(flood), "/dev/zero"}
	var ours, theirs []time.Duration
	var allocated uint64
	for b.Loop() {
		begun := time.Now()
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		wait := s.bare(b, w, argv...)
		_ = w.Close() // the command has it
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 64<<10)); err != nil || n != flood {
			b.Fatal(n, err)
		}
		if err := wait(); err != nil {
			b.Fatal(err)
		}
		_ = r.Close()
		theirs = append(theirs, time.Since(begun))

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun = time.Now()
		p, err := s.Start(b.Context(), Command{Context: testContext, Argv: argv})
		if err == nil {
			err = p.Wait(b.Context())
		}
		if err != nil || p.Written(Stdout) != flood {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(begun))
		runtime.ReadMemStats(&after)
		allocated = max(allocated, after.TotalAlloc-before.TotalAlloc)
	}
	b.ReportMetric(float64(median(theirs))/float64(median(ours)), "x-pipe")
	b.ReportMetric(float64(allocated)/(1<<20), "MiB")
}

// BenchmarkHundredIdleSandboxes keeps 100 sandboxes for a second. CPU-ms/s and heap-MiB are what they cost the server, processes-MiB is the
// memory of their processes.
func BenchmarkHundredIdleSandboxes(b *testing.B) {
	s := newSite(b, "copy")
	before := live()
	for i := range 100 {
		id := contexts.ID(fmt.Sprintf("ctx_idle%d", i%4))
		if _, err := s.contexts.Ensure(b.Context(), id, contexts.EnsureOptions{}, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Start(b.Context(), Command{Context: id, Argv: []string{"sleep", "1000"}}); err != nil {
			b.Fatal(err)
		}
	}
	var begun, ended unix.Rusage
	var elapsed time.Duration
	for b.Loop() {
		if err := unix.Getrusage(unix.RUSAGE_SELF, &begun); err != nil {
			b.Fatal(err)
		}
		since := time.Now()
		for time.Since(since) < time.Second {
			time.Sleep(100 * time.Millisecond) // it is the time that is measured
		}
		elapsed = time.Since(since)
		if err := unix.Getrusage(unix.RUSAGE_SELF, &ended); err != nil {
			b.Fatal(err)
		}
	}
	used := time.Duration(ended.Utime.Nano() + ended.Stime.Nano() - begun.Utime.Nano() - begun.Stime.Nano())
	b.ReportMetric(float64(used.Microseconds())/1000/elapsed.Seconds(), "CPU-ms/s")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	b.ReportMetric((live()-before)/(1<<20), "heap-MiB")
	processes, kib := descendants(b, os.Getpid())
	b.ReportMetric(float64(processes), "processes")
	b.ReportMetric(float64(kib)/1024, "processes-MiB")
}

// live returns the bytes of live objects and of stacks.
func live() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// descendants counts the processes that a process has started, and theirs, and sums their proportional set sizes in KiB
// (proc_pid_smaps(5)).
func descendants(b *testing.B, pid int) (processes, kib int) {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		children, err := os.ReadFile(thread)
		if err != nil {
			b.Fatal(err)
		}
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sizes, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", child))
			if err != nil {
				b.Fatal(err)
			}
			_, pss, _ := strings.Cut(string(sizes), "\nPss:")
			var own int
			if _, err := fmt.Sscan(pss, &own); err != nil {
				b.Fatal(err)
			}
			below, more := descendants(b, child)
			processes, kib = processes+1+below, kib+own+more
		}
	}
	return processes, kib
}
