package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	limits "github.com/ctxfs/ctxfs/internal/cgroups"
)

// What enforces limits through cgroups.
const (
	byCgroup2 = "cgroup v2"
	byCgroup1 = "cgroup v1"
)

// controllers are those that limit commands.
var controllers = []string{"memory", "pids", "cpu"}

// cgroups are the directories below which the server makes a cgroup for each sandbox.
type cgroups struct {
	// v2 is "" if there is none; of says which controllers it has.
	v2 string
	of map[string]bool
	// v1 has the directory of each controller that is not one of v2.
	v1 map[string]string
}

// openCgroups looks at directories that an operator has named. Without any it takes the server's own cgroup v2, if that was delegated to it.
func openCgroups(named []string) (*cgroups, error) {
	c, err := findCgroups(named)
	if err == nil {
		c.sweep()
	}
	return c, err
}

// sweep removes the cgroups of sandboxes that ended with a server that was killed.
func (c *cgroups) sweep() {
	for _, dir := range append(slices.Collect(maps.Values(c.v1)), c.v2) {
		left, err := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
		if err != nil || dir == "" {
			continue
		}
		for _, name := range left {
			_ = unix.Rmdir(name) // one that has processes stays
		}
	}
}

// groupPrefix begins the names of the cgroups of sandboxes.
const groupPrefix = "ctxfs-p-"

func findCgroups(named []string) (*cgroups, error) {
	c := &cgroups{of: map[string]bool{}, v1: map[string]string{}}
	if len(named) == 0 {
		dir, err := delegated()
		if err != nil || dir == "" {
			return c, err
		}
		return c, c.open2(dir)
	}
	for _, dir := range named {
		if _, err := os.Lstat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			if err := c.open2(dir); err != nil {
				return nil, err
			}
			continue
		}
		controller, err := controllerOf(dir)
		if err != nil {
			return nil, err
		}
		c.v1[controller] = dir
	}
	return c, nil
}

// delegated returns the cgroup of this process if systemd has delegated it, "" otherwise.
func delegated() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", nil //nolint:nilerr // a kernel without cgroups
	}
	path := ""
	for line := range strings.Lines(string(own)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSpace(rest)
		}
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2"))
	if err != nil || len(mounts) == 0 || path == "" {
		return "", err
	}
	return delegatedAt(filepath.Join(mounts[0].Mountpoint, path)), nil
}

// delegatedAt returns the delegated cgroup that a process in dir uses, "" if there is none. An engine that was here before may have moved the
// process, or the one that started it, below the delegated cgroup.
func delegatedAt(dir string) string {
	switch {
	case isDelegated(dir):
		return dir
	case filepath.Base(dir) == ownGroup && isDelegated(filepath.Dir(dir)):
		return filepath.Dir(dir)
	}
	return ""
}

// ownGroup is the cgroup, below the delegated one, of the processes that are not in sandboxes.
const ownGroup = "server"

// isDelegated reports whether systemd has delegated a cgroup (https://systemd.io/CGROUP_DELEGATION).
func isDelegated(dir string) bool {
	mark := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, mark); err == nil && string(mark[:n]) == "1" {
			return true
		}
	}
	return false
}

// controllerOf returns the controller whose hierarchy of cgroup v1 a directory is in.
func controllerOf(dir string) (string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(dir))
	if err != nil {
		return "", err
	}
	at := &mountinfo.Info{}
	for _, m := range mounts {
		if len(m.Mountpoint) > len(at.Mountpoint) {
			at = m
		}
	}
	for _, option := range strings.Split(at.VFSOptions, ",") {
		for _, c := range controllers {
			if at.FSType == "cgroup" && option == c {
				return c, nil
			}
		}
	}
	return "", fmt.Errorf("%s is no cgroup with the controller memory, pids or cpu", dir)
}

// open2 takes a directory of cgroup v2, with the controllers that it can have. The processes in it move to a cgroup below it: a cgroup that
// hands controllers on may have none.
func (c *cgroups) open2(dir string) error {
	c.v2 = dir
	for _, controller := range controllers {
		control := filepath.Join(dir, "cgroup.subtree_control")
		err := write(control, "+"+controller)
		if errors.Is(err, unix.EBUSY) {
			if err := moveBelow(dir, ownGroup); err != nil {
				return err
			}
			err = write(control, "+"+controller)
		}
		c.of[controller] = err == nil // a controller that is not delegated is ENOENT
	}
	return nil
}

// moveBelow moves the processes of a cgroup to one below it.
func moveBelow(dir, name string) error {
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(pids)) {
		if err := write(filepath.Join(dir, name, "cgroup.procs"), pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// write writes a control file.
func write(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // os.WriteFile would create it
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// by says what enforces each controller's limit.
func (c *cgroups) by() map[string]string {
	out := map[string]string{}
	for _, controller := range controllers {
		switch {
		case c.of[controller]:
			out[controller] = byCgroup2
		case c.v1[controller] != "":
			out[controller] = byCgroup1
		}
	}
	return out
}

// memoryAbove is the lowest memory limit of the cgroups that those of sandboxes are in; math.MaxInt64 without one.
func (c *cgroups) memoryAbove() int64 {
	if c.of["memory"] {
		return limits.Lowest("/", c.v2, "memory.max")
	}
	return limits.Lowest("/", c.v1["memory"], "memory.limit_in_bytes")
}

// processesAbove is the same for processes and threads.
func (c *cgroups) processesAbove() int64 {
	if c.of["pids"] {
		return limits.Lowest("/", c.v2, "pids.max")
	}
	return limits.Lowest("/", c.v1["pids"], "pids.max")
}

// cgroup has the directories of one sandbox.
type cgroup struct {
	v2 string
	of map[string]bool
	v1 map[string]string
}

// processesBeside is how many processes and threads of a sandbox may belong to bwrap and init, whose Go runtime has 4 to 10 threads.
const processesBeside = 16

// make makes the cgroups of a sandbox, with its limits.
func (c *cgroups) make(name string, l Limits) (g *cgroup, err error) {
	g = &cgroup{of: c.of, v1: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove())
		}
	}()
	if c.v2 != "" {
		g.v2 = filepath.Join(c.v2, name)
		if err := os.Mkdir(g.v2, 0o755); err != nil {
			g.v2 = ""
			return g, err
		}
	}
	for controller, dir := range c.v1 {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return g, err
		}
		g.v1[controller] = path
	}
	return g, g.limit(l)
}

// limit sets the limits of a cgroup.
func (g *cgroup) limit(l Limits) error {
	memory := strconv.FormatInt(cmp.Or(l.MemoryBytes, defaultMemory), 10)
	pids := strconv.Itoa(cmp.Or(l.Processes, defaultProcesses) + processesBeside)
	const period = 100_000 // µs
	quota := strconv.Itoa(l.CPUPercent * period / 100)
	var errs []error
	set := func(dir, file, value string) { errs = append(errs, write(filepath.Join(dir, file), value)) }
	if g.of["memory"] {
		set(g.v2, "memory.max", memory)
		set(g.v2, "memory.oom.group", "1")
		if err := write(filepath.Join(g.v2, "memory.swap.max"), "0"); !errors.Is(err, os.ErrNotExist) { // a kernel without swap
			errs = append(errs, err)
		}
	} else if dir := g.v1["memory"]; dir != "" {
		set(dir, "memory.limit_in_bytes", memory)
		if err := write(filepath.Join(dir, "memory.kmem.tcp.limit_in_bytes"), memory); !errors.Is(err, os.ErrNotExist) { // cgroup v2 counts it as memory
			errs = append(errs, err)
		}
	}
	if g.of["pids"] {
		set(g.v2, "pids.max", pids)
	} else if dir := g.v1["pids"]; dir != "" {
		set(dir, "pids.max", pids)
	}
	if l.CPUPercent > 0 {
		if g.of["cpu"] {
			set(g.v2, "cpu.max", quota+" "+strconv.Itoa(period))
		} else if dir := g.v1["cpu"]; dir != "" {
			set(dir, "cpu.cfs_period_us", strconv.Itoa(period))
			set(dir, "cpu.cfs_quota_us", quota)
		}
	}
	return errors.Join(errs...)
}

func (g *cgroup) dirs() []string {
	var out []string
	if g.v2 != "" {
		out = append(out, g.v2)
	}
	for _, dir := range g.v1 {
		out = append(out, dir)
	}
	return out
}

// add moves processes into the cgroup, before they start others.
func (g *cgroup) add(pids ...int) error {
	for _, dir := range g.dirs() {
		for _, pid := range pids {
			if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
				return fmt.Errorf("move the sandbox into its cgroup: %w", err)
			}
		}
	}
	return nil
}

// remove removes a cgroup without processes. The kernel counts a process that was just reaped for a moment longer.
func (g *cgroup) remove() error {
	var errs []error
	for _, dir := range g.dirs() {
		err := unix.Rmdir(dir)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		for try := 0; errors.Is(err, unix.EBUSY) && try < 100; try++ {
			time.Sleep(time.Millisecond)
			err = unix.Rmdir(dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// freeze stops everything in the cgroup until thaw; ok is false if there is no cgroup v2.
func (g *cgroup) freeze(ctx context.Context) (thaw func(), ok bool, err error) {
	if thaw, ok, err = g.beginFreeze(); !ok || err != nil {
		return nil, ok, err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			thaw()
			return nil, true, errors.New("its cgroup did not freeze in time")
		}
		if g.counter(g.v2, "cgroup.events", "frozen") == 1 {
			return thaw, true, nil
		}
		timer.Reset(stopPoll)
	}
}

// beginFreeze is freeze, and does not wait until everything is stopped.
func (g *cgroup) beginFreeze() (thaw func(), ok bool, err error) {
	if g.v2 == "" {
		return nil, false, nil
	}
	control, err := os.OpenFile(filepath.Join(g.v2, "cgroup.freeze"), os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) { // before Linux 5.2
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	if _, err := control.WriteString("1"); err != nil {
		return nil, true, errors.Join(err, control.Close())
	}
	return func() { // it needs no other descriptor, which may not be free
		_, _ = control.WriteString("0") // the cgroup is gone if everything in it has ended
		_ = control.Close()             // see above
	}, true, nil
}

// kill ends what is in the cgroup, also while it is frozen: bwrap itself would wait for the thaw.
func (g *cgroup) kill() {
	if g.v2 != "" {
		_ = write(filepath.Join(g.v2, "cgroup.kill"), "1") // Linux 5.14; process 1 was killed before
	}
}

// memoryKills is how many processes the kernel has killed for the memory limit.
func (g *cgroup) memoryKills() int64 {
	switch {
	case g.of["memory"]:
		return g.counter(g.v2, "memory.events", "oom_kill")
	case g.v1["memory"] != "":
		return g.counter(g.v1["memory"], "memory.oom_control", "oom_kill")
	}
	return 0
}

// peak is the most memory that the sandbox used at once, 0 if it is not known.
func (g *cgroup) peak() int64 {
	dir, file := g.v1["memory"], "memory.max_usage_in_bytes"
	if g.of["memory"] {
		dir, file = g.v2, "memory.peak" // Linux 5.19
	}
	if dir == "" {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // the kernel's
	return n
}

// counter reads a line "key value" of a file; 0 if there is none.
func (*cgroup) counter(dir, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+" "); ok {
			n, _ := strconv.ParseInt(value, 10, 64) // the kernel's
			return n
		}
	}
	return 0
}

// LimitsMemory says what limits the memory of commands if these directories are named, "" if nothing does. It changes nothing.
func LimitsMemory(named []string) (by string, err error) {
	for _, dir := range named {
		if data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil {
			if slices.Contains(strings.Fields(string(data)), "memory") {
				return byCgroup2, nil
			}
			continue
		}
		controller, err := controllerOf(dir)
		if err != nil {
			return "", err
		}
		if controller == "memory" {
			return byCgroup1, nil
		}
	}
	return "", nil
}
