// Reference writes what the code knows about itself: the pages of docs/reference, or the manual pages and completions of a release.
//
//	go run ./scripts/reference docs/reference
//	go run ./scripts/reference -release DIR
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/server/command"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("reference: ")
	var err error
	switch {
	case len(os.Args) == 2:
		err = pages(os.Args[1])
	case len(os.Args) == 3 && os.Args[1] == "-release":
		err = release(os.Args[2])
	default:
		log.Fatal("usage: reference DIR, or reference -release DIR")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// program returns the command ctxfs with all commands below it.
func program() *cobra.Command {
	return cli.Root(cli.Env{Stdin: bytes.NewReader(nil), Stdout: io.Discard, Stderr: io.Discard}, command.Commands(command.Env{Stdin: bytes.NewReader(nil), Stdout: io.Discard, Stderr: io.Discard})...)
}

// pages writes the generated pages of docs/reference.
func pages(dir string) error {
	for name, page := range map[string]func(io.Writer) error{"cli.md": commands, "settings.md": settings, "errors.md": errnos, "methods.md": methods, "sensitive.md": sensitive, "openapi.json": openAPI} {
		var text bytes.Buffer
		if err := page(&text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPages writes a compressed page for each command that users see.
func manPages(cmd *cobra.Command, header *doc.GenManHeader, dir string) error {
	var page bytes.Buffer
	own := *header // GenMan adds the title
	if err := doc.GenMan(cmd, &own, &page); err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := page.WriteTo(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + header.Section + ".gz"
	if err := os.WriteFile(filepath.Join(dir, name), packed.Bytes(), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := manPages(c, header, dir); err != nil {
			return err
		}
	}
	return nil
}

// release writes the manual pages and the completions of the shells. Pages have the date SOURCE_DATE_EPOCH, so that two builds of a commit
// are the same.
func release(dir string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(epoch, 0).UTC()
	for _, sub := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	root := program()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "ctxfs", Manual: "ctxfs", Date: &date}
	if err := manPages(root, header, filepath.Join(dir, "man")); err != nil {
		return err
	}
	for file, write := range map[string]func(string) error{
		"ctxfs.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"ctxfs.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"_ctxfs":     root.GenZshCompletionFile,
	} {
		if err := write(filepath.Join(dir, "completions", file)); err != nil {
			return err
		}
	}
	return nil
}
