package exec

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// Limits of a command. 0 means the default.
type Limits struct {
	// Wall bounds how long the command runs; 0 means no bound.
	Wall time.Duration
	// CPU bounds the CPU time of each process, in whole seconds rounded up; 0 means no bound.
	CPU time.Duration
	// Processes bounds the processes and threads in the sandbox. The kernel counts them for each user namespace (Linux 5.14 and later), so
	// other sandboxes and the server's user do not count.
	Processes int
	// Files bounds the files that each process has open.
	Files int
	// FileBytes bounds the size of a file that is written.
	FileBytes int64
}

// The defaults and maxima of limits.
const (
	maxWall                              = 7 * 24 * time.Hour
	defaultProcesses, maxProcesses       = 512, 32768
	defaultFiles, maxFiles               = 4096, 65536
	defaultFileBytes               int64 = 16 << 30
	// tmpBytes, homeBytes and shmBytes bound /tmp, the home and /dev/shm, which take memory.
	tmpBytes, homeBytes, shmBytes = 1 << 30, 256 << 20, 256 << 20
)

func (l Limits) check() error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"wall_ms", l.Wall.Milliseconds(), maxWall.Milliseconds()}, {"cpu_ms", l.CPU.Milliseconds(), maxWall.Milliseconds()},
		{"processes", int64(l.Processes), maxProcesses}, {"open_files", int64(l.Files), maxFiles}, {"file_bytes", l.FileBytes, 1 << 62},
	} {
		if f.value < 0 || f.value > f.max {
			return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("limit %s is %d", f.name, f.value), Hint: fmt.Sprintf("use 0 to %d", f.max)}
		}
	}
	return nil
}

// Bound fails with EINVAL if a limit exceeds that of most, where 0 is no bound. It sets a limit that is 0: the time limit to wall, the
// others to their default, as far as most permits.
func (l *Limits) Bound(most Limits, wall time.Duration) error {
	if most.Wall > 0 {
		if l.Wall > most.Wall {
			return beyond("wall_ms", l.Wall.Milliseconds(), most.Wall.Milliseconds())
		}
		wall = min(cmp.Or(wall, most.Wall), most.Wall)
	}
	l.Wall = cmp.Or(l.Wall, wall)
	if most.Processes > 0 {
		if l.Processes > most.Processes {
			return beyond("processes", int64(l.Processes), int64(most.Processes))
		}
		l.Processes = cmp.Or(l.Processes, min(defaultProcesses, most.Processes))
	}
	return nil
}

func beyond(name string, value, most int64) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("limit %s is %d", name, value), Hint: fmt.Sprintf("this server permits panels at most %d", most)}
}
