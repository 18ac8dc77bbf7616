package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/server"
)

// banner prints what a server found, where it listens, and which commands come next.
func (e Env) banner(info server.Info, cfg server.Config, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{
			"version": info.Version, "pid": info.PID, "workspace": info.Workspace, "repositories": append([]string{}, info.Repositories...),
			"driver": info.Driver, "metadata": info.Metadata, "addresses": info.Addresses.All(), "http": info.Addresses.HTTP, "gateway": info.Addresses.Gateway, "sites": info.Addresses.Sites, "warnings": append([]string{}, info.Warnings...),
		})
	}
	return writeBanner(e.Stdout, info, cfg)
}

func writeBanner(w io.Writer, info server.Info, cfg server.Config) error {
	lines := []string{
		fmt.Sprintf("ctxfs %s   workspace %s (%s)", info.Version, tilde(info.Workspace), repositories(info.Repositories)),
	}
	if len(info.Repositories) == 0 && cfg.SeedRoot == "" {
		text := fmt.Sprintf("no git repositories under %s: contexts start empty (--seed-root . copies this folder)", tilde(info.Workspace))
		if above := repositoryAbove(info.Workspace); above != "" {
			text += "; it is part of the repository " + tilde(above) + ": serve there to have all of it"
		}
		lines = append(lines, text)
	}
	for _, w := range info.Warnings {
		lines = append(lines, "warning  "+w)
	}
	a := info.Addresses
	lines = append(lines, seedLines(info)...)
	if info.Metadata != "" && info.Metadata != server.InFile {
		lines = append(lines, "records  "+info.Metadata)
	}
	lines = append(lines,
		pad("driver   "+info.Driver)+"details: ctxfs doctor",
		"grpc     "+a.Target(),
		"tcp      "+listening(a.TCP, a.TLS, "--listen 127.0.0.1:7420"),
		"http     "+listening(nonEmpty(a.HTTP), a.TLS, "--http 127.0.0.1:7421 --origin http://localhost:5173"),
	)
	if a.HTTP != "" {
		lines = append(lines, pad("console  "+a.HTTP)+"review in the browser: ctxfs console")
	}
	if a.Gateway != "" {
		lines = append(lines, pad("gateway  "+a.Gateway+"   sites at "+a.Sites)+"show a panel's files: ctxfs open PANEL")
	}
	lines = append(lines, tryLine)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// repositoryAbove returns the repository that a folder is part of, "" if there is none.
func repositoryAbove(dir string) string {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, ".git")); err == nil {
			return parent
		}
	}
	return ""
}

// pad makes room for what stands at the right.
func pad(s string) string { return fmt.Sprintf("%-73s ", s) }

func seedLines(info server.Info) []string {
	if info.Plan == nil {
		return []string{pad("seed     not counted: "+info.PlanError) + "details: ctxfs seed plan"}
	}
	noun := "files"
	if info.Plan.Files == 1 {
		noun = "file"
	}
	text := fmt.Sprintf("seed     %s %s, %s", seed.Count(info.Plan.Files), noun, seed.Size(info.Plan.Bytes))
	if n, reasons := skipped(info); n > 0 {
		text += fmt.Sprintf("; skipped %s (%s)", seed.Count(n), strings.Join(reasons, ", "))
	}
	lines := []string{pad(text) + "details: ctxfs seed plan"}
	if info.Plan.TooLarge != "" {
		lines = append(lines, "refused  "+info.Plan.TooLarge)
	}
	return lines
}

// skipped counts the entries left out, a directory as one, and names at most three reasons.
func skipped(info server.Info) (n int64, reasons []string) {
	for i, s := range info.Plan.Skipped {
		n += s.Entries
		switch {
		case i < 3:
			reasons = append(reasons, s.Reason)
		case i == 3:
			reasons = append(reasons, "…")
		}
	}
	return n, reasons
}

func repositories(names []string) string {
	shown := names
	if len(shown) > 5 {
		shown = append(shown[:5:5], "…")
	}
	switch len(names) {
	case 0:
		return "no repositories"
	case 1:
		return "1 repository: " + shown[0]
	}
	return fmt.Sprintf("%d repositories: %s", len(names), strings.Join(shown, ", "))
}

func listening(addresses []string, tls bool, remedy string) string {
	if len(addresses) == 0 {
		return "off   (" + remedy + ")"
	}
	text := strings.Join(addresses, " ")
	if tls {
		text += "   TLS"
	}
	return text
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// tryLine ends the banner, so that a reader knows what to type next.
const tryLine = "try      ctxfs try    next: ctxfs panel open NAME    (grpcurl: ctxfs help grpcurl)"

// tilde shortens the home directory, for people only.
func tilde(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return path
}
