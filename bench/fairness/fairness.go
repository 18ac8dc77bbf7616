// Package fairness measures what a panel notices of another one that is hostile. The server runs in a control group with little memory. While each
// attack lasts, a panel reads attributes and writes files; afterwards the server must give back what the attack took.
package fairness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/client"
)

const (
	// memory is the limit of the server's control group, in bytes, with all commands.
	memory = 512 << 20
	// patience is how long a host waits for a list of processes and the deletion of a context.
	patience = 30 * time.Second
	// recovery is how long after an attack the server is looked at.
	recovery = 10 * time.Second
	// agent is the user that commands run as.
	agent = 1000
	// quota is the most that a context may hold, in bytes.
	quota = 64 << 20
)

// field is a server under attack.
type field struct {
	*stand.Process
	o         *stand.Options
	host      *client.Client
	victim    *client.Panel
	http      string
	workspace string
	group     string
}

// Run runs each attack beside a panel.
func Run(ctx context.Context, o *stand.Options) (*report.Page, error) {
	var rows []row
	group, err := makeGroup()
	if err != nil {
		return nil, fmt.Errorf("a control group for the server: %w", err)
	}
	defer func() { _ = os.Remove(group) }() // it is empty then
	for _, a := range append([]attack{{"nothing", func(context.Context, *field, *client.Panel) error { return nil }}}, attacks...) {
		if !o.Only.MatchString(a.name) {
			continue
		}
		o.Logf("%s", a.name)
		err := o.Scratch(func(dir string) error { // a server may not survive an attack
			f, end, err := start(ctx, o, dir, group)
			if err != nil {
				return err
			}
			defer end()
			r, err := f.suffer(ctx, a)
			if reason, ended := f.ended(); ended {
				r.notes, err = append(r.notes, "**the server ended: "+reason+"**"), nil
			}
			rows = append(rows, r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return &report.Page{
		Name: "fairness", Title: "Beside a hostile panel", Intro: "Written by `make bench-fairness`; [what bounds a panel](../explanation/security.md#memory-budget).",
		How:  fmt.Sprintf("The server and all commands share a control group of %d MiB. Each attack lasts %v.", memory>>20, o.Time),
		Text: text(rows),
	}, nil
}

// start starts the server as a user does, in the control group.
func start(ctx context.Context, o *stand.Options, dir, group string) (*field, func(), error) {
	program := o.Ctxfs
	if program == "" {
		program = filepath.Join(dir, "ctxfs")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/ctxfs")
		cmd.Dir, cmd.Env = filepath.Join(o.Source, ".."), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("build ctxfs: %w\n%s", err, out)
		}
	}
	f := &field{o: o, workspace: filepath.Join(dir, "w"), group: group}
	if err := errors.Join(os.MkdirAll(filepath.Join(f.workspace, "app"), 0o755), os.Chmod(dir, 0o755)); err != nil {
		return nil, nil, err
	}
	if err := stand.Fill(filepath.Join(f.workspace, "app"), 200, func(i int) []byte { return fmt.Appendf(nil, "file %d\n", i) }); err != nil {
		return nil, nil, err
	}
	if err := stand.Repository(ctx, filepath.Join(f.workspace, "app")); err != nil {
		return nil, nil, err
	}
	err := filepath.WalkDir(f.workspace, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, agent, agent)) //nolint:gosec // nobody else writes here yet
	})
	if err != nil {
		return nil, nil, err
	}
	ready := filepath.Join(dir, "ready")
	// A shell joins the control group, and becomes the server.
	f.Process, err = stand.Start(dir, "/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, program, "serve", "--workspace", f.workspace,
		"--ready-file", ready, "--exit-on-stdin-close", "--http", "127.0.0.1:0", "--log-level", "error", "--exec-user", fmt.Sprintf("%[1]d:%[1]d", agent),
		"--context-max-bytes", strconv.Itoa(quota), "--disk-reserve", "0")
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = f.Stop() }
	if err = f.Await(ctx, func() error { _, err := os.Stat(ready); return err }); err == nil {
		err = f.dial(ctx)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return f, func() { _ = f.host.Close(); end() }, nil
}

// dial connects to the server, and opens the panel that is watched.
func (f *field) dial(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(f.workspace, ".contexts", ".ctxfs", "server.json"))
	if err != nil {
		return err
	}
	var record struct{ Socket, HTTP string }
	if err := json.Unmarshal(b, &record); err != nil {
		return err
	}
	f.http = record.HTTP
	if f.host, err = client.Dial(ctx, client.WithAddress("unix://"+record.Socket)); err != nil {
		return err
	}
	f.victim, err = f.host.OpenPanel(ctx, "panels/victim")
	return err
}

// latency is what the watched panel noticed.
type latency struct {
	stats, writes []time.Duration
	// failed counts calls that failed, why is the last error.
	failed int
	why    error
}

// watch has the panel read attributes and write files of 4 KiB in turns, with pauses, for so long.
func (f *field) watch(ctx context.Context, long time.Duration) (l latency, err error) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	content := []byte(strings.Repeat("x", 4<<10))
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for i := 0; ; i++ {
		call, over := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		files := f.victim.FS().With(call)
		begun := time.Now()
		if i%2 == 0 {
			_, err = files.Stat("app/" + stand.Name(0))
			l.stats = append(l.stats, time.Since(begun))
		} else {
			err = files.WriteFile(fmt.Sprintf("f%d", i%20), content, 0o644)
			l.writes = append(l.writes, time.Since(begun))
		}
		over()
		if err != nil {
			l.failed, l.why = l.failed+1, err
		}
		select {
		case <-ctx.Done():
			if len(l.stats) == l.failed {
				return l, fmt.Errorf("no call of the other panel succeeded: %w", l.why)
			}
			return l, nil
		case <-pause.C:
		}
	}
}

// row is what one attack did.
type row struct {
	name          string
	during, after latency
	// resident is the server's highest memory in bytes, left how much more it had at the end of the recovery than before the attack.
	resident, left int64
	held           held
	// grown is by how many bytes the state folder and the attacker's context grew, deleted how long the deletion of that context took.
	grown   int64
	deleted time.Duration
	notes   []string
}

// held is what the server's process holds.
type held struct{ descriptors, threads int }

// suffer runs one attack.
func (f *field) suffer(ctx context.Context, a attack) (r row, err error) {
	r.name = a.name
	panel, err := f.host.OpenPanel(ctx, "hostile/"+strings.NewReplacer(" ", "-", ",", "").Replace(a.name), client.CanExec())
	if err != nil {
		return r, err
	}
	if err := f.reset(); err != nil {
		return r, err
	}
	before, disk, kills := f.resident(), f.disk(), f.kills()
	attacking, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.run(attacking, f, panel) }()
	r.during, err = f.watch(ctx, f.o.Time)
	r.grown = f.disk() - disk
	stop()
	if attackErr := <-ended; err == nil && attackErr != nil && !errors.Is(attackErr, context.Canceled) {
		err = attackErr
	}
	if r.resident = f.peak(); err != nil {
		return r, err
	}
	waits, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := f.host.Exec.Processes(waits, "", false); err != nil {
		r.notes = append(r.notes, "the list of processes fails: "+err.Error())
	}
	begun := time.Now()
	_, err = f.host.ClosePanel(waits, panel.ID())
	if err == nil {
		_, err = f.host.DeleteContext(waits, panel.ContextID(), client.DiscardChanges)
	}
	if r.deleted = time.Since(begun); err != nil {
		r.notes = append(r.notes, "the context cannot be deleted: "+err.Error())
	}
	if r.after, err = f.watch(ctx, f.recovery()); err != nil {
		return r, err
	}
	r.left, r.held = f.resident()-before, f.held()
	if killed := f.kills() - kills; killed > 0 {
		r.notes = append(r.notes, fmt.Sprintf("the kernel killed %d processes for want of memory", killed))
	}
	return r, nil
}

// ended reports whether the server has ended, and why.
func (f *field) ended() (reason string, ended bool) {
	if f.peak() > 0 {
		return "", false
	}
	if err := f.Stop(); err != nil {
		reason = strings.NewReplacer("\n", " ", "|", "/").Replace(err.Error())
	}
	return reason, true
}

func (f *field) recovery() time.Duration {
	if f.o.Quick {
		return f.o.Time
	}
	return recovery
}

// reset forgets the highest memory (clear_refs of proc(5)).
func (f *field) reset() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", f.PID()), []byte("5"), 0)
}

// status returns a value of /proc/PID/status in bytes or as a number, 0 if it is not there.
func (f *field) status(key string) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.PID())) // the next call fails if the server has ended
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if strings.Contains(value, "kB") {
				n <<= 10
			}
			return n
		}
	}
	return 0
}

func (f *field) peak() int64     { return f.status("VmHWM") }
func (f *field) resident() int64 { return f.status("VmRSS") }

func (f *field) held() held {
	names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", f.PID())) // as status
	return held{len(names), int(f.status("Threads"))}
}

// disk returns how much the contexts directory takes, in bytes.
func (f *field) disk() (sum int64) {
	_ = filepath.WalkDir(filepath.Join(f.workspace, ".contexts"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

// text is the table.
func text(rows []row) string {
	t := &report.Table{Head: []string{"attack", ">stat p50", ">p99", ">write p50", ">p99", ">failed", ">10 s later: stat p99", ">write p99", ">server's memory", ">left", ">descriptors", ">disk", ">delete", "notes"}}
	for _, r := range rows {
		t.Add(r.name, at(r.during.stats, 50), at(r.during.stats, 99), at(r.during.writes, 50), at(r.during.writes, 99), strconv.Itoa(r.during.failed+r.after.failed),
			at(r.after.stats, 99), at(r.after.writes, 99), mib(r.resident), mib(max(r.left, 0)), strconv.Itoa(r.held.descriptors), mib(r.grown), report.Duration(r.deleted),
			strings.Join(r.notes, "; "))
	}
	return "## A panel that stats and writes beside a hostile one\n\n" + t.String() +
		"\nThe first columns are of the time of the attack. *Failed* counts the calls of the panel that failed. The server's memory is the highest that was resident; " +
		"*left* is how much more it had ten seconds after the attack than before, *disk* by how much the contexts directory grew meanwhile, and *delete* how long it " +
		"took to close the hostile panel and to delete its context.\n"
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// at returns a percentile.
func at(took []time.Duration, percent int) string {
	if len(took) == 0 {
		return "–"
	}
	took = slices.Sorted(slices.Values(took))
	return report.Duration(took[min(len(took)*percent/100, len(took)-1)])
}

// The control groups, of version 1 and 2.
const groupName = "ctxfs-bench-fairness"

// makeGroup makes a control group with the limit.
func makeGroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	dir, file := "", ""
	for line := range strings.Lines(string(own)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			dir, file = filepath.Join("/sys/fs/cgroup/memory", path), "memory.limit_in_bytes"
		case controllers == "" && dir == "":
			dir, file = filepath.Join("/sys/fs/cgroup", path), "memory.max"
		}
	}
	dir = filepath.Join(dir, groupName)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(memory)), 0)
}

// kills returns how many processes of the control group the kernel has killed.
func (f *field) kills() int {
	for _, file := range []string{"memory.events", "memory.oom_control"} {
		b, _ := os.ReadFile(filepath.Join(f.group, file)) // one of them exists
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				count, _ := strconv.Atoi(strings.TrimSpace(n))
				return count
			}
		}
	}
	return 0
}
