package exec

import (
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// Limits of a command. 0 means the default.
type Limits struct {
	// Wall bounds how long the command runs; 0 means no bound.
	Wall time.Duration `yaml:"wall"`
	// CPU bounds the CPU time of each process, in whole seconds rounded up; 0 means no bound.
	CPU time.Duration `yaml:"cpu"`
	// Processes bounds the processes and threads in the sandbox. The kernel counts them for each user namespace (Linux 5.14 and later), so
	// other sandboxes and the server's user do not count.
	Processes int `yaml:"processes"`
	// Files bounds the files that each process has open.
	Files int `yaml:"open_files"`
	// FileBytes bounds the size of a file that is written.
	FileBytes int64 `yaml:"file_bytes"`
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
