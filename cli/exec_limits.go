package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// limitFlags has the limits of 'ctxfs exec' besides its time.
func limitFlags(f *pflag.FlagSet, l *ctxfsv1.ExecLimits) {
	f.Var((*byteCount)(&l.MemoryBytes), "memory", "kill the command when it needs more memory, such as 2G (default 4G; needs a memory cgroup)")
	f.Var((*byteCount)(&l.OutputBytes), "output", "kill the command when it writes more to both streams, such as 100M")
	f.Var((*byteCount)(&l.TmpBytes), "tmp", "size of /tmp (default 1G)")
	f.Int32Var(&l.CpuPercent, "cpu", 0, "how much of the CPUs the command may use, in percent of one (needs a CPU cgroup)")
}

// byteCount is a flag with a number of bytes: 64M.
type byteCount int64

// Set implements pflag.Value.
func (b *byteCount) Set(text string) error {
	digits := strings.TrimRight(strings.ToUpper(text), "KMGTIB")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := map[string]int64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}[strings.TrimRight(strings.ToUpper(text)[len(digits):], "IB")]
	if err != nil || !ok || n <= 0 || n > math.MaxInt64/unit {
		return errors.New("not a size such as 64M")
	}
	*b = byteCount(n * unit)
	return nil
}

// String implements pflag.Value.
func (b *byteCount) String() string {
	if *b == 0 {
		return ""
	}
	return size(int64(*b))
}

// Type implements pflag.Value.
func (*byteCount) Type() string { return "size" }

// checkpointFlag has 'ctxfs exec --checkpoint'.
func checkpointFlag(f *pflag.FlagSet, spec *ctxfsv1.Command) {
	f.BoolVar(&spec.Checkpoint, "checkpoint", false, "record what the command changes, for 'ctxfs diff --entry' and 'ctxfs undo'")
}

// printRecorded says where to find what a command changed.
func (a *app) printRecorded(p *ctxfsv1.Process) error {
	e := p.GetExit()
	text := ""
	if n := e.GetJournalId(); n != 0 {
		text = fmt.Sprintf("ctxfs: to see what it changed: ctxfs diff --entry %d %s; to take it back: ctxfs undo %[1]d\n", n, show(p.GetContextId()))
	}
	if len(e.GetLeftOut()) > 0 {
		more := ""
		if n := e.GetMoreLeftOut(); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		text += "ctxfs: a panel changed these files too, and they are not recorded: " + show(strings.Join(e.GetLeftOut(), " ")) + more + "\n"
	}
	if len(e.GetUnrecorded()) > 0 {
		text += "ctxfs: these directories are ignored, and their content is not recorded: undo leaves them alone: " + show(strings.Join(e.GetUnrecorded(), " ")) + "\n"
	}
	if e.GetCheckpointError() != "" {
		text += "ctxfs: what it changed could not be recorded: " + show(e.GetCheckpointError()) + "\n"
	}
	_, err := fmt.Fprint(a.env.Stderr, text)
	return err
}
