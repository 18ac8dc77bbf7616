package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// Document is a whole run.
type Document struct {
	Results Results
	Peers   []*peers.Peer
	// Missing are peers that could not run, each with what must be installed.
	Missing []string
	Rounds  int
	// Time is what a peer ran in a round, Took what the run did.
	Time, Took time.Duration
	Machine    string
	// Quick marks a run whose figures mean nothing.
	Quick bool
}

// Text is the tables with what a reader needs to judge them.
func (d Document) Text() string {
	var b strings.Builder
	if d.Quick {
		b.WriteString("This was a quick run on a smaller tree: the figures mean nothing.\n\n")
	}
	fmt.Fprintf(&b, "%s. Median of %d rounds of %s, all peers interleaved; %s in all.\n\n", d.Machine, d.Rounds, d.Time, d.Took.Round(time.Second))
	b.WriteString(d.missing())
	b.WriteString(d.Results.Table().String())
	b.WriteString("\n`rate/s` is operations (bytes for 256 MiB), `CPU/op` of client and server together, `ctxfs is` its rate over unix socket\n" +
		"divided by the peer's.\n\n## Required\n\n")
	b.WriteString(d.Results.Required().String())
	return b.String()
}

func (d Document) missing() string {
	if len(d.Missing) == 0 {
		return ""
	}
	return "**Missing here, and not measured:**\n\n- " + strings.Join(d.Missing, "\n- ") + "\n\n"
}

// Write writes bench.md and bench.svg into dir.
func (d Document) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	md := "# ctxfs beside its peers\n\nWritten by `make bench`; [how to read it](../explanation/performance.md).\n\n![Rates of ctxfs and its peers](bench.svg)\n\n" +
		d.Text() + "\n## Peers\n\n" + d.legend()
	if err := os.WriteFile(filepath.Join(dir, "bench.md"), []byte(md), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.svg"), []byte(d.Results.Chart()), 0o644)
}

func (d Document) legend() string {
	t := &Table{Head: []string{"peer", "what it is"}}
	for _, p := range d.Peers {
		t.Add(p.Name, p.What)
	}
	return t.String()
}
