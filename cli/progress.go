package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// redraw is the least time between two drawings of a bar, and how long a command may take before it has one.
const redraw = 100 * time.Millisecond

// bar is the progress bar of a command on standard error; none where that is no terminal. It is safe for concurrent use.
type bar struct {
	w     *os.File
	bytes bool

	mu    sync.Mutex
	shown *progressbar.ProgressBar
	drawn time.Time
	what  string
	total int64
	done  int64
}

// newBar returns a bar that counts files or other things, or, with bytes, bytes.
func (a *app) newBar(bytes bool) *bar {
	b := &bar{bytes: bytes, drawn: time.Now()}
	if f, ok := a.env.Stderr.(*os.File); ok && isTerminal(f) && !a.json {
		b.w = f
	}
	return b
}

// set shows that done of total is done of what; a total of 0 is not known.
func (b *bar) set(what string, done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil && (what != b.what || total != b.total) {
		b.clear()
		b.begin(what, total)
	}
	b.done = done
	b.draw()
}

// add counts n more of what set has named.
func (b *bar) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	b.draw()
}

// begin makes a bar of another thing; its rate counts from now.
func (b *bar) begin(what string, total int64) {
	b.what, b.total = what, total
	if total <= 0 {
		total = -1
	}
	b.shown = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(b.w), progressbar.OptionUseANSICodes(true), progressbar.OptionSetDescription(b.fit(printable(what))),
		progressbar.OptionShowBytes(b.bytes), progressbar.OptionUseIECUnits(true), progressbar.OptionShowCount(), progressbar.OptionSetWidth(24),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
		progressbar.OptionThrottle(0), progressbar.OptionSetSpinnerChangeInterval(0), // its own timer would draw over what follows
	)
	b.shown.StartWithoutRender()
}

func (b *bar) draw() {
	if b.shown == nil || time.Since(b.drawn) < redraw {
		return
	}
	b.drawn = time.Now()
	// A full bar would end; the command may still take a while.
	done := b.done
	if b.total > 0 {
		done = min(done, b.total-1)
	}
	_ = b.shown.Set64(max(done, 0))
}

// fit cuts a description so that the bar and its numbers have room on the line.
func (b *bar) fit(what string) string {
	width, _, err := term.GetSize(int(b.w.Fd()))
	if err != nil {
		width = 80
	}
	room := max(width-35, 8) // the library makes the bar smaller, but not the rest
	n := utf8.RuneCountInString(what)
	if n <= room {
		return what
	}
	return "…" + string([]rune(what)[n-room+1:])
}

func (b *bar) clear() {
	if b.shown != nil {
		_, _ = io.WriteString(b.w, "\r\x1b[2K") // the next output has the reason, if the terminal is gone
		b.shown = nil
	}
}

// end removes the bar. Call it before anything else is printed.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	b.w = nil
}

// Write counts bytes.
func (b *bar) Write(p []byte) (int, error) {
	b.add(int64(len(p)))
	return len(p), nil
}

// seed shows how far a seeding is.
func (b *bar) seed(p *ctxfsv1.SeedProgress) {
	b.set(phaseNames[p.GetPhase()], p.GetFilesDone(), p.GetFilesTotal())
}

var phaseNames = map[ctxfsv1.SeedPhase]string{
	ctxfsv1.SeedPhase_SEED_PHASE_WAITING:   "waiting for another process",
	ctxfsv1.SeedPhase_SEED_PHASE_SCANNING:  "looking at the workspace",
	ctxfsv1.SeedPhase_SEED_PHASE_LAYERING:  "copying the workspace",
	ctxfsv1.SeedPhase_SEED_PHASE_BUILDING:  "building the template",
	ctxfsv1.SeedPhase_SEED_PHASE_COPYING:   "making the folder",
	ctxfsv1.SeedPhase_SEED_PHASE_RECORDING: "recording",
}

// template shows how far the build of a template is.
func (b *bar) template(p *ctxfsv1.TemplateProgress) {
	b.set(fmt.Sprintf("writing %s (%d of %d)", p.GetDep(), p.GetDepsDone(), p.GetDepsTotal()), p.GetFiles(), 0)
}

// ensure makes a context ready with a bar.
func (a *app) ensure(ctx context.Context, c *client.Client, id string, seedFrom ...string) (*ctxfsv1.EnsureReady, error) {
	b := a.newBar(false)
	defer b.end()
	return c.EnsureContext(ctx, id, b.seed, seedFrom...)
}

// ready makes a panel's context ready, and says on standard error what it made: a misspelt name makes a panel too.
func (a *app) ready(ctx context.Context, c *client.Client, panel string) (id string, err error) {
	id, r, err := a.seedPanel(ctx, c, panel)
	if err != nil || !r.GetSeeded() {
		return id, err
	}
	return id, a.warn(fmt.Sprintf("panel %s is new: seeded %s with %s, %s, in %d ms", show(panel), id, files(r.GetContext().GetFiles()), size(r.GetContext().GetBytes()), r.GetDurationMs()))
}

// seedPanel seeds a panel's context, with a bar; r is nil if it is there. Only hosts may call it.
func (a *app) seedPanel(ctx context.Context, c *client.Client, panel string, seedFrom ...string) (id string, r *ctxfsv1.EnsureReady, err error) {
	if panel != a.acting {
		ctx = metadata.AppendToOutgoingContext(ctx, "ctxfs-panel", panel)
	}
	info, err := c.Info(ctx, "")
	if err != nil {
		return "", nil, err
	}
	id = info.GetContextId()
	x, err := c.GetContext(ctx, id)
	if err == nil && x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_READY {
		b := a.newBar(false)
		defer b.end()
		r, err = c.EnsurePanelContext(ctx, panel, b.seed, seedFrom...) // by the panel: a context-zones.yml is for its own context
	}
	return id, r, err
}

// isContextID reports whether a name has the form of a context's ID.
func isContextID(name string) bool {
	return strings.HasPrefix(name, "ctx_") || strings.HasPrefix(name, "safe_tpl_") || strings.HasPrefix(name, "unsafe_noctx_")
}

// contextNamed returns the ID of a context that is named by its ID or by a panel.
func (a *app) contextNamed(ctx context.Context, c *client.Client, name string) (string, error) {
	if name == "" || isContextID(name) {
		return name, nil
	}
	list, err := c.ListPanels(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range list {
		if p.GetPanelId() == name {
			return p.GetContextId(), nil
		}
		names = append(names, p.GetPanelId())
	}
	return "", fmt.Errorf("there is no panel %s%s; 'ctxfs panel list' lists the panels, and 'ctxfs context list' the contexts", show(name), didYouMean(name, names))
}
