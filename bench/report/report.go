// Package report writes down what was measured: figures, tables in Markdown, and charts. It measures nothing.
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Page is the result of a benchmark.
type Page struct {
	// Name is that of the files that are written, without their endings. Intro says which target writes them.
	Name, Title, Intro string
	// How says in a sentence how it was measured; Text is all tables.
	How, Text string
	// Chart, if it has plots, is drawn beside the page.
	Chart Chart
	// Keep begins the part of an earlier page that stays: figures that something else measures. "" keeps nothing.
	Keep string
}

// String is the text under a line that says on which machine it was measured.
func (p *Page) String(machine string) string {
	return strings.TrimSpace(machine+". "+p.How) + "\n\n" + p.Text
}

// Write writes the page, and its chart, into dir.
func (p *Page) Write(dir, machine string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, p.Name+".md")
	md := "# " + p.Title + "\n\n" + p.Intro + "\n\n"
	if len(p.Chart.Plots) > 0 {
		md += fmt.Sprintf("![%s](%s.svg)\n\n", p.Chart.Title, p.Name)
		if err := os.WriteFile(filepath.Join(dir, p.Name+".svg"), []byte(p.Chart.SVG()), 0o644); err != nil {
			return err
		}
	}
	md += p.String(machine)
	if earlier, err := os.ReadFile(name); err == nil && p.Keep != "" {
		if _, kept, found := strings.Cut(string(earlier), p.Keep); found {
			md += p.Keep + kept
		}
	}
	return os.WriteFile(name, []byte(md), 0o644)
}

// Met says whether a requirement is met.
func Met(ok bool) string {
	if ok {
		return "yes"
	}
	return "**no**"
}

// Machine says in a line on what is measured. dir is where the files lie.
func Machine(dir string) string {
	read := func(name string) string {
		b, _ := os.ReadFile(name) // what is not there is left out
		return string(b)
	}
	parts := []string{fmt.Sprintf("%d CPUs", runtime.NumCPU())}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			parts = append(parts, strings.TrimSpace(value))
			break
		}
	}
	parts = append(parts, strings.TrimSpace(runtime.GOOS+"/"+runtime.GOARCH+" "+read("/proc/sys/kernel/osrelease")))
	var at, kind string
	for line := range strings.Lines(read("/proc/self/mounts")) { // the longest mount that is a prefix has dir
		m := strings.Fields(line)
		if len(m) > 2 && len(m[1]) >= len(at) && strings.HasPrefix(dir+"/", strings.TrimSuffix(m[1], "/")+"/") {
			at, kind = m[1], m[2]
		}
	}
	if kind != "" {
		parts = append(parts, kind)
	}
	load, _, _ := strings.Cut(read("/proc/loadavg"), " ")
	return strings.Join(append(parts, runtime.Version(), "load "+load+" before"), ", ")
}
