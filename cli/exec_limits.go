package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

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
		text += "ctxfs: a panel changed these files too, and they are not recorded: " + show(strings.Join(e.GetLeftOut(), " ")) + "\n"
	}
	if e.GetCheckpointError() != "" {
		text += "ctxfs: what it changed could not be recorded: " + show(e.GetCheckpointError()) + "\n"
	}
	_, err := fmt.Fprint(a.env.Stderr, text)
	return err
}
