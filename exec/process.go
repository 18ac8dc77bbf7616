package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Reason says why a process ended.
type Reason int

// The reasons, in the order of the proto's.
const (
	Exited Reason = iota + 1
	TimedOut
	Killed
	ContextClosed
	ServerStopped
	SandboxFailed
	// Lost: the engine that ran it was killed.
	Lost
	CPUExceeded
	OutOfMemory
	_
	QuotaExceeded
	OutputExceeded
)

// Exit is the end of a process.
type Exit struct {
	// Code is the exit code, or 128 and the number of a signal. It means something for Exited only.
	Code   int
	Reason Reason
	// Detail says what went wrong, for SandboxFailed. Otherwise it says why the quota was exceeded if the context does not show that, or why not
	// all output was kept.
	Detail string
	At     time.Time
	// CPU is the time that the command used, PeakMemory the most bytes at once; 0 if that is not known.
	CPU        time.Duration
	PeakMemory int64
	// Recorded is what the command changed, if it had a checkpoint.
	Recorded Recorded
}

// Stream is one of the output streams of a process.
type Stream int

// The streams.
const (
	Stdout Stream = iota
	Stderr
	// Terminal is everything that was written to the terminal. It takes the place of Stdout.
	Terminal
)

// drainTime is the default of Processes.drainTime.
const drainTime = time.Second

// mostLeft bounds what is read of a pipe after drainTime, in bytes. It is the most that a pipe holds (/proc/sys/fs/pipe-max-size).
const mostLeft = 1 << 20

// drained reads from one end of a pipe or a terminal. When the deadline of the file has passed, it does not wait, and still returns what
// the other end has written before: a machine under load may need longer than the deadline to read it.
type drained struct {
	*os.File
	late int
}

// Read implements io.Reader.
func (d *drained) Read(p []byte) (int, error) {
	n, err := d.File.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) || d.late >= mostLeft {
		return n, err
	}
	if n = readPresent(d.File, p); n == 0 {
		return 0, err
	}
	d.late += n
	return n, nil
}

// kill asks to end a process. With alone its callers have left: its pipes break first.
type kill struct {
	grace time.Duration
	alone bool
}

// execution is a command that runs, in a sandbox of its own or in a shared one.
type execution interface {
	// wait waits until nothing of the command runs and all output is in the spools.
	wait() Exit
	// signal signals the command's process group.
	signal(sig syscall.Signal) error
	// terminate asks the command to end.
	terminate() error
	// kill ends the command and what it started.
	kill() error
}

// Process is a command that was started.
type Process struct {
	// ID is unique among the processes of a server.
	ID    string
	table *Processes
	cmd   Command
	// asked is the digest of the command as its caller gave it; "" if an earlier version started it.
	asked string
	// plan is nil if an earlier engine started the process.
	plan *plan
	// dir is the working directory within the sandbox.
	dir     string
	started time.Time
	spools  [2]*spool
	// pipes are where the spools are filled from: those of standard output and error, or a terminal and nil.
	pipes [2]*os.File
	flow  flow
	// box is the sandbox, which is shared if the command names one; run is the command in it.
	box *box
	run execution
	// refusals are those of the proxy.
	refusals refusals
	// uses are those of the network, if the sandbox is the process's own.
	uses useLog
	// exit is nil until the process has ended; done is closed then.
	exit atomic.Pointer[Exit]
	done chan struct{}
	// kills takes one request at a time to end the process.
	kills chan kill
	// input is a lock for stdin, held while a caller writes.
	input chan struct{}
	// stdin is nil if it was not left open; it is used with input.
	stdin *os.File
	once  sync.Once
	// terminal is nil if the process has none.
	terminal atomic.Pointer[Pty]
	// tty is this end of the terminal; nil if there is none, or if an earlier engine started the process.
	tty      *os.File
	resizing sync.Mutex
	callers  callers
	pauses   pauses
	// before is what the context took before the command began.
	before contexts.Usage
	// free is what the context's file system had free then, in bytes.
	free int64
	// guessed is that of the gauge that ended the command. It is read once the gauge has ended.
	guessed bool
	// checkpoint is nil if there is none.
	checkpoint Checkpoint
}

// Command returns what was started.
func (p *Process) Command() Command { return p.cmd }

// Started is when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Ended returns the exit; nil while the process runs.
func (p *Process) Ended() *Exit { return p.exit.Load() }

// Written is how many bytes the process wrote to a stream.
func (p *Process) Written(s Stream) int64 { return p.spools[s].length() }

// Wait waits until the process has ended.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// workingDirectory returns the path of a working directory within the sandbox.
func workingDirectory(root rootfs.Root, cwd string) (string, error) {
	st, err := root.Stat(cmp.Or(cwd, "/"))
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fserr.New("chdir", cwd, fserr.ENOTDIR)
	}
	real, err := root.Realpath(cmp.Or(cwd, "/"))
	if err != nil {
		return "", err
	}
	return path.Join(home, real), nil
}

// supervise ends the process when it is time to, and notes how it ended. It releases access when nothing in the sandbox runs.
func (p *Process) supervise(access *contexts.Access) {
	defer p.table.leave(&p.cmd)
	defer access.Release()
	exited := make(chan Exit, 1)
	go func() { exited <- p.run.wait() }()
	var reason Reason
	var late, limit, broken <-chan time.Time
	if wall := p.cmd.Limits.Wall; wall > 0 {
		timer := time.NewTimer(wall)
		defer timer.Stop()
		limit = timer.C
	}
	holding, release := context.WithCancel(p.table.stopped)
	defer release()
	end := func(why Reason, grace time.Duration) {
		broken = nil
		release() // a command that is paused to be measured can end
		if reason == 0 {
			reason = why
		}
		if err := p.run.terminate(); err != nil {
			grace = 0 // the command has not begun
		}
		late = time.After(grace)
	}
	closing, stopped := access.Closing().Done(), p.table.stopped.Done()
	watching, unwatch := context.WithCancel(p.table.stopped)
	over := make(chan Reason, 2)
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watch(watching, over) })
	watcher.Go(func() { p.watchQuota(watching, holding, access, over) })
	defer watcher.Wait()
	defer unwatch()
	for {
		select {
		case <-limit:
			if left := p.remaining(p.cmd.Limits.Wall); left > 0 {
				limit = time.After(max(left, pausePoll))
				continue
			}
			end(TimedOut, stopGrace)
		case k := <-p.kills:
			if k.alone && (broken != nil || reason != 0) {
				continue // it is ending already
			}
			if k.alone && p.breakPipes() {
				broken = time.After(p.table.breakTime)
			} else {
				end(Killed, k.grace)
			}
		case <-broken:
			end(Killed, abandonGrace)
		case <-closing:
			closing = nil
			end(ContextClosed, stopGrace)
		case <-stopped:
			stopped = nil
			end(ServerStopped, stopGrace)
		case why := <-over:
			end(why, 0)
		case <-late:
			p.table.logged("a command could not be killed", p.run.kill())
		case exit := <-exited:
			release()
			unwatch()
			watcher.Wait()
			p.table.logged("what is left of a command could not be removed", p.account(&exit, &reason))
			if reason != 0 {
				exit.Reason, exit.Detail = reason, ""
			}
			p.finish(exit, access)
			p.table.prune()
			return
		}
	}
}

// shared reports whether other commands may run in the sandbox. What it uses is then not the command's alone.
func (p *Process) shared() bool { return p.cmd.Sandbox != "" }

// account notes what a command used, and the limit that ended it, unless it was ended for another reason.
func (p *Process) account(exit *Exit, reason *Reason) error {
	if p.shared() {
		return nil
	}
	outOfMemory := p.box.outOfMemory()
	err := p.box.account(exit)
	switch {
	case *reason != 0:
	case outOfMemory && (exit.Reason == SandboxFailed || exit.Code != 0):
		*reason = OutOfMemory
	}
	return err
}

// finish notes the exit, releases access, and wakes those that wait for the process: nobody who gets the context sees the process run. A
// checkpoint is recorded without access, so that its exit is noted after that.
func (p *Process) finish(exit Exit, access *contexts.Access) {
	if p.checkpoint == nil || exit.Reason == ContextClosed {
		p.note(exit)
		access.Release()
	} else {
		access.Release()
		p.note(exit)
	}
	close(p.done)
	p.callers.ended()
}

// note notes the exit, here and in the record.
func (p *Process) note(exit Exit) {
	exit.Detail = p.detail(exit)
	if p.cmd.Pty == nil {
		p.closeStdin()
	}
	p.uses.end(p.logger())
	exit.At = time.Now()
	p.record(&exit)
	p.table.logged("the end of a command could not be recorded", p.save(p.box.first, &exit))
	p.exit.Store(&exit)
}

// detail returns that of an exit; "" if there is nothing to say.
func (p *Process) detail(exit Exit) string {
	switch {
	case exit.Reason == SandboxFailed:
		return cmp.Or(exit.Detail, p.complaint())
	case exit.Reason == QuotaExceeded && p.guessed:
		return cmp.Or(p.unkept(), unmeasured)
	}
	return p.unkept()
}

// unmeasured is the detail of a command that exceeded the quota by what is hidden.
const unmeasured = "a command of the context kept what ctxfs cannot measure: descriptors that wait in a socket, or more of them than it looks at. " +
	"What the file system lost meanwhile counted as the context's, whoever wrote it"

// unkept says why output could not be kept, "" if it was.
func (p *Process) unkept() string {
	for _, s := range p.spools {
		if from, err := s.failure(); err != nil {
			return fmt.Sprintf("the server could not keep the output from byte %d on, and dropped it: %v", from, err)
		}
	}
	return ""
}

// complaint is what bwrap wrote before it failed.
func (p *Process) complaint() string {
	spool := p.spools[Stderr]
	if p.cmd.Pty != nil {
		spool = p.spools[Stdout]
	}
	if r, err := spool.open(); err == nil {
		defer r.Close()
		buf := make([]byte, 4<<10)
		if _, n, err := r.read(buf, 0); err == nil && strings.HasPrefix(string(buf[:n]), "bwrap: ") {
			return explain(string(buf[:n]))
		}
	}
	return "the sandbox was ended from outside"
}

// Kill asks the process to end, by SIGTERM and, after the grace, by SIGKILL for everything in the sandbox. It waits until that is done.
func (p *Process) Kill(ctx context.Context, grace time.Duration) error {
	select {
	case p.kills <- kill{grace: grace}:
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.Wait(ctx)
}

// Signal sends a signal to the command's process group. It fails with EINVAL if there is no such signal or the process has ended.
func (p *Process) Signal(number int) error {
	if number < 1 || number > 64 {
		return fserr.Invalid("no signal %d; use 1 to 64", number)
	}
	if p.Ended() != nil {
		return fserr.Invalid("process %s has ended", p.ID)
	}
	if sig := syscall.Signal(number); sig == sigcont && p.pauses.delay() {
		return nil
	}
	if err := p.run.signal(syscall.Signal(number)); err != nil {
		return fmt.Errorf("send signal %d: %w", number, err)
	}
	return nil
}

// Write writes to the standard input, and waits until the process has read enough of it. It fails with EBADF if the input is closed or was
// not left open. If ctx ends, a part of the data may have been written.
func (p *Process) Write(ctx context.Context, data []byte) error {
	return p.withStdin(ctx, func() error {
		in := cmp.Or(p.tty, p.stdin)
		if in == nil {
			return p.noInput()
		}
		stop := context.AfterFunc(ctx, func() { _ = in.SetWriteDeadline(time.Now()) }) // pipes and terminals take deadlines
		_, err := in.Write(data)
		if !stop() && ctx.Err() != nil {
			return errors.Join(ctx.Err(), in.SetWriteDeadline(time.Time{}))
		}
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || p.tty != nil && errors.Is(err, syscall.EIO) {
			return p.noInput()
		}
		return err
	})
}

func (p *Process) noInput() error {
	switch {
	case !p.TakesInput():
		return &fserr.Error{Code: fserr.EBADF, Detail: "process " + p.ID + " was started without input", Hint: "set open_stdin"}
	case p.Ended() != nil:
		return &fserr.Error{Code: fserr.EBADF, Detail: "process " + p.ID + " has ended"}
	}
	return &fserr.Error{Code: fserr.EBADF, Detail: "the input of process " + p.ID + " is closed"}
}

// TakesInput reports whether the process was started with an input that Write can write to.
func (p *Process) TakesInput() bool { return p.cmd.OpenStdin || p.cmd.Pty != nil }

// CloseInput closes the standard input. It types the end-of-file character into a terminal, which stays open.
func (p *Process) CloseInput(ctx context.Context) error {
	if p.tty != nil && p.Ended() == nil {
		return p.Write(ctx, []byte(endOfFile))
	}
	return p.withStdin(ctx, func() error {
		if p.stdin == nil {
			return nil
		}
		err := p.stdin.Close()
		p.stdin = nil
		return err
	})
}

// closeStdin closes the input of a process that has ended. A caller that writes gets EPIPE from the kernel, and gives the lock back.
func (p *Process) closeStdin() {
	p.table.logged("the input of a command could not be closed", p.CloseInput(context.Background()))
}

func (p *Process) withStdin(ctx context.Context, f func() error) error {
	select {
	case p.input <- struct{}{}:
		defer func() { <-p.input }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropOutput removes the output of a process that has ended, and leaves the rest of its record.
func (p *Process) dropOutput() {
	for _, s := range p.spools {
		p.table.logged("the output of a command could not be removed", s.drop())
	}
}

// outputSize is how many bytes the output takes on disk.
func (p *Process) outputSize() (n int64) {
	for _, s := range p.spools {
		n += s.disk()
	}
	return n
}

// gone says why there is no output to read.
func (p *Process) gone() error {
	p.table.mu.Lock()
	known := p.table.byID[p.ID] == p
	p.table.mu.Unlock()
	if !known {
		return &fserr.Error{Code: fserr.ENOENT, Detail: "process " + p.ID + " was removed"}
	}
	return &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf(
		"the output of process %s is not kept any more: the server keeps up to %d MiB of a context's ended commands, the newest", p.ID, p.table.maxOutput>>20)}
}

// discard removes the output.
func (p *Process) discard() {
	p.once.Do(func() {
		p.flow.end()
		for _, s := range p.spools {
			if s == nil {
				continue
			}
			s.mu.Lock()
			ended := s.ended
			s.mu.Unlock()
			if !ended {
				s.end() // the process did not start
			}
			p.table.logged("the output of a command could not be removed", s.drop())
		}
		p.table.logged("the record of a command could not be removed", os.Remove(filepath.Join(p.table.cfg.Dir, p.ID+recordSuffix)))
	})
}

// Output is a part of a stream.
type Output struct {
	Stream Stream
	// Offset is that of Data in the stream. Dropped bytes before it are lost. Data is empty if those are all that there is.
	Offset, Dropped int64
	Data            []byte
}

// outputSize bounds Output.Data, in bytes.
const outputSize = 64 << 10

// Output calls send with what the process wrote, from an offset of each stream on. It fails with EINVAL for an offset beyond the end.
// Output.Data is valid until send returns.
//
// If Blocking ends early, the process continues to wait for this reader, for awayTime: the reader may come back. It does not if the cause of
// ctx is ErrDetached, or if the process ends with its callers.
func (p *Process) Output(ctx context.Context, offsets [2]int64, how Reading, send func(Output) error) (err error) {
	var readers [2]*reader
	for i, s := range p.spools {
		if at, size := offsets[i], s.length(); at < 0 || at > size {
			return fserr.Invalid("offset %d is not within the %d bytes of the stream", at, size)
		}
		r, err := s.open()
		if errors.Is(err, errDropped) {
			return p.gone()
		}
		if err != nil {
			return err
		}
		defer r.Close()
		readers[i] = r
	}
	got := func(Stream, int64) {}
	if how == Blocking {
		at := p.flow.enter(offsets)
		got = func(s Stream, offset int64) { p.flow.advance(at, s, offset) }
		defer func() {
			if err != nil && !p.cmd.KillAlone && !errors.Is(context.Cause(ctx), ErrDetached) {
				p.flow.lose(at, p.table.awayTime)
			} else {
				p.flow.leave(at)
			}
		}()
	}
	buf := make([]byte, outputSize)
	for {
		sent := false
		for i, r := range readers {
			from, n, err := r.read(buf, offsets[i])
			if errors.Is(err, errDropped) {
				return p.gone()
			}
			if err != nil {
				return err
			}
			if from+int64(n) == offsets[i] {
				continue
			}
			sent = true
			if err := send(Output{p.shown(i), from, from - offsets[i], buf[:n]}); err != nil {
				return err
			}
			offsets[i] = from + int64(n)
			got(Stream(i), offsets[i])
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if sent {
			continue
		}
		switch more, err := p.awaitOutput(ctx, offsets, how != Present); {
		case err == nil && !more && how == Present:
			return p.sendUnkept(offsets, send)
		case !more:
			return err
		}
	}
}

// shown is the stream of a spool for callers.
func (p *Process) shown(i int) Stream {
	if p.cmd.Pty != nil {
		return Terminal
	}
	return Stream(i)
}

// sendUnkept sends how much of the output so far could not be kept. A reader that waits for the end gets that there.
func (p *Process) sendUnkept(offsets [2]int64, send func(Output) error) error {
	for i, s := range p.spools {
		if n := s.unkept(offsets[i]); n > 0 {
			if err := send(Output{p.shown(i), offsets[i] + n, n, nil}); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitOutput waits until a stream has more. more is false when there will be nothing more to send.
func (p *Process) awaitOutput(ctx context.Context, offsets [2]int64, follow bool) (more bool, err error) {
	var grown [2]<-chan struct{}
	var ended int
	for i, s := range p.spools {
		wait, end := s.growth(offsets[i])
		switch {
		case end:
			ended++
		case wait == nil:
			return true, nil
		}
		grown[i] = wait
	}
	if ended == 2 {
		return false, p.awaitEnd(ctx, follow)
	}
	if !follow {
		return false, nil
	}
	select {
	case <-grown[0]:
	case <-grown[1]:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return true, nil
}

func (p *Process) awaitEnd(ctx context.Context, follow bool) error {
	if !follow {
		return nil
	}
	return p.Wait(ctx)
}

// collect fills the spools from the pipes until these end. Nothing of the command runs when wait is called: the output that is left does not
// wait for readers. wait gives up after drainTime: a descriptor may have been passed out of the sandbox.
func (p *Process) collect(pipes [2]*os.File) (wait func()) {
	p.pipes = pipes
	var wg sync.WaitGroup
	for i, pipe := range pipes {
		if pipe == nil {
			p.spools[i].end()
			continue
		}
		wg.Go(func() {
			p.spools[i].fill(&drained{File: pipe}, func(size int64) <-chan struct{} { return p.flow.full(Stream(i), size) })
			_ = pipe.Close() // it was only read
		})
	}
	return func() {
		p.flow.end() // first: the deadline is for what the pipes hold, and not for readers
		deadline := time.Now().Add(p.table.drainTime)
		for _, pipe := range pipes {
			if pipe != nil {
				_ = pipe.SetReadDeadline(deadline) // one that was read to its end is closed
			}
		}
		wg.Wait()
	}
}

// breakPipes closes the ends that this process reads: the command gets SIGPIPE when it writes. It returns false for a terminal.
func (p *Process) breakPipes() bool {
	if p.cmd.Pty != nil {
		return false
	}
	p.flow.end()
	for _, pipe := range p.pipes {
		_ = pipe.Close() // it was only read
	}
	return true
}
