package exec

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// wrapper returns the programs that set the limits and then run the command. nice(1) exits with 127 if there is no such program, and with
// 126 if it cannot be executed; it also leaves the server the first turn. The limits are set within the sandbox: a server has no right to
// set them from outside, even as root, without CAP_SYS_RESOURCE.
func (l Limits) wrapper() []string {
	argv := []string{"prlimit"}
	for _, limit := range []struct {
		flag     string
		resource int
		value    int64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"nproc", unix.RLIMIT_NPROC, int64(cmp.Or(l.Processes, defaultProcesses))},
		{"nofile", unix.RLIMIT_NOFILE, int64(cmp.Or(l.Files, defaultFiles))},
		{"fsize", unix.RLIMIT_FSIZE, cmp.Or(l.FileBytes, defaultFileBytes)},
	} {
		argv = append(argv, limitFlag(limit.flag, limit.resource, limit.value))
	}
	if l.CPU > 0 {
		argv = append(argv, limitFlag("cpu", unix.RLIMIT_CPU, int64(l.CPU/time.Second)+1))
	}
	return append(argv, "--", "nice", "-n", "5", "--")
}

// limitFlag sets both limits of a resource, at most to what this process may have itself.
func limitFlag(flag string, resource int, value int64) string {
	var own unix.Rlimit
	if err := unix.Getrlimit(resource, &own); err == nil && own.Max < uint64(value) {
		value = int64(own.Max)
	}
	return fmt.Sprintf("--%s=%s:%[2]s", flag, strconv.FormatInt(value, 10))
}
