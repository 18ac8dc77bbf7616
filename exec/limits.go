package exec

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// Limits of a command. 0 means the default.
type Limits struct {
	// Wall bounds how long the command runs; 0 means no bound.
	Wall time.Duration `yaml:"wall"`
	// CPU bounds the CPU time of all processes together; 0 means no bound. No process uses more than a second beyond it. In a shared sandbox it
	// bounds that of each process.
	CPU time.Duration `yaml:"cpu"`
	// Processes bounds the processes and threads in the sandbox. The kernel counts them for each user namespace (Linux 5.14 and later), so
	// other sandboxes and the server's user do not count. In a shared sandbox, and by a cgroup, it is exact but for processesBeside.
	Processes int `yaml:"processes"`
	// Files bounds the files that each process has open.
	Files int `yaml:"open_files"`
	// FileBytes bounds the size of a file that is written.
	FileBytes int64 `yaml:"file_bytes"`
	// MemoryBytes bounds the memory of the sandbox, where there is a memory cgroup. Commands of a shared sandbox share it, Processes, CPUPercent
	// and TmpBytes, as the first of them has set them.
	MemoryBytes int64 `yaml:"memory_bytes"`
	// CPUPercent bounds the CPU time per time, in percent of one core; 0 means no bound. It needs a CPU cgroup.
	CPUPercent int `yaml:"cpu_percent"`
	// OutputBytes bounds what is written to both streams; 0 means no bound.
	OutputBytes int64 `yaml:"output_bytes"`
	// TmpBytes is the size of /tmp.
	TmpBytes int64 `yaml:"tmp_bytes"`
}

// Enforced is a limit, and what enforces it.
type Enforced struct {
	// Name is that of the field of the contract.
	Name  string
	Value int64
	// By is "" if nothing enforces the limit here.
	By string
}

// What enforces limits.
const (
	byRlimit = "rlimit"
	byTmpfs  = "tmpfs"
	byServer = "server"
	byProxy  = "proxy"
)

// Enforced lists the limits of the process. Those without a bound are not in it.
func (p *Process) Enforced() []Enforced { return p.table.enforced(p.cmd.Limits, p.shared()) }

// enforced lists limits with what enforces them here. Those without a bound are not in it. In a shared sandbox nothing adds up the CPU time of
// a command's processes: each has the limit for itself.
func (t *Processes) enforced(l Limits, shared bool) []Enforced {
	groups := t.cgroups.by()
	cpuBy := byServer
	if shared {
		cpuBy = byRlimit
	}
	all := []Enforced{
		{"wall_ms", l.Wall.Milliseconds(), byServer},
		{"cpu_ms", l.CPU.Milliseconds(), cpuBy},
		{"processes", int64(l.Processes), cmp.Or(groups["pids"], byRlimit)},
		{"open_files", int64(l.Files), byRlimit},
		{"file_bytes", l.FileBytes, byRlimit},
		{"memory_bytes", l.MemoryBytes, groups["memory"]},
		{"cpu_percent", int64(l.CPUPercent), groups["cpu"]},
		{"output_bytes", l.OutputBytes, byServer},
		{"tmp_bytes", l.TmpBytes, byTmpfs},
	}
	return slices.DeleteFunc(all, func(e Enforced) bool { return e.Value == 0 })
}

// The defaults and maxima of limits.
const (
	maxWall                              = 7 * 24 * time.Hour
	defaultProcesses, maxProcesses       = 512, 32768
	defaultFiles, maxFiles               = 4096, 65536
	defaultFileBytes               int64 = 16 << 30
	defaultMemory                  int64 = 4 << 30
	// leastMemory is what a sandbox needs to begin.
	leastMemory   = 4 << 20
	maxCPUPercent = 100 * 1024
	// tmpBytes, homeBytes and shmBytes bound /tmp, the home and /dev/shm, which take memory.
	tmpBytes            int64 = 1 << 30
	homeBytes, shmBytes       = 256 << 20, 256 << 20
)

func (l Limits) check() error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"wall_ms", l.Wall.Milliseconds(), maxWall.Milliseconds()}, {"cpu_ms", l.CPU.Milliseconds(), maxWall.Milliseconds()},
		{"processes", int64(l.Processes), maxProcesses}, {"open_files", int64(l.Files), maxFiles}, {"file_bytes", l.FileBytes, 1 << 62},
		{"memory_bytes", l.MemoryBytes, 1 << 62}, {"cpu_percent", int64(l.CPUPercent), maxCPUPercent}, {"output_bytes", l.OutputBytes, 1 << 62},
		{"tmp_bytes", l.TmpBytes, 1 << 40},
	} {
		if f.value < 0 || f.value > f.max {
			return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("limit %s is %d", f.name, f.value), Hint: fmt.Sprintf("use 0 to %d", f.max)}
		}
	}
	if l.MemoryBytes > 0 && l.MemoryBytes < leastMemory {
		return fserr.Invalid("limit memory_bytes is %d; use at least %d", l.MemoryBytes, leastMemory)
	}
	return nil
}
