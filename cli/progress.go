package cli

import (
	"io"

	"github.com/schollz/progressbar/v3"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// bar is a progress bar on standard error, or nothing when that is no terminal.
type bar struct{ b *progressbar.ProgressBar }

func (a *app) newBar(what string, total int64, bytes bool) bar {
	if !isTerminal(a.env.Stderr) || a.json {
		return bar{}
	}
	return bar{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.env.Stderr), progressbar.OptionSetDescription(printable(what)),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionSetWidth(24),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
	)}
}

// Write counts bytes.
func (b bar) Write(p []byte) (int, error) {
	if b.b != nil {
		_ = b.b.Add(len(p))
	}
	return len(p), nil
}

// seed shows how far a seeding is.
func (b bar) seed(p *ctxfsv1.SeedProgress) {
	if b.b == nil {
		return
	}
	b.b.Describe(phaseNames[p.GetPhase()])
	if p.GetFilesTotal() > 0 {
		b.b.ChangeMax64(p.GetFilesTotal())
	}
	_ = b.b.Set64(p.GetFilesDone())
}

var phaseNames = map[ctxfsv1.SeedPhase]string{
	ctxfsv1.SeedPhase_SEED_PHASE_WAITING:   "waiting for another process",
	ctxfsv1.SeedPhase_SEED_PHASE_SCANNING:  "looking at the workspace",
	ctxfsv1.SeedPhase_SEED_PHASE_LAYERING:  "copying the workspace",
	ctxfsv1.SeedPhase_SEED_PHASE_BUILDING:  "building the template",
	ctxfsv1.SeedPhase_SEED_PHASE_COPYING:   "making the folder",
	ctxfsv1.SeedPhase_SEED_PHASE_RECORDING: "recording",
}

func (b bar) done() {
	if b.b != nil {
		_ = b.b.Finish()
	}
}

// counting shows what passes through r.
func (b bar) counting(r io.Reader) io.Reader {
	if b.b == nil {
		return r
	}
	return io.TeeReader(r, b)
}
