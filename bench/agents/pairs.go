package agents

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/client"
)

// batched is how many files a batch writes.
const batched = 100

// pairs are all rows.
func (s *stand) pairs() []pair {
	out := []pair{{
		"EditFile: a line of 4 KiB", side{"EditFile", s.edit}, side{"ReadFile and WriteFile", s.readAndWrite},
	}, {
		"Batch: 100 files of 1 KiB", side{"Batch", s.batch}, side{"100 calls, one after the other", s.calls(1)},
	}, {
		"Batch: 100 files of 1 KiB", side{"Batch", s.batch}, side{"100 calls at once", s.calls(batched)},
	}, {
		"WatchChanges: a new file until its notice", side{"WatchChanges", s.told(s.feed)}, side{"Watch (inotify)", s.told(s.watch)},
	}}
	for _, size := range sizes {
		out = append(out, s.overMCP("MCP read_text_file: "+report.Bytes(float64(size)), "read_text_file", sized(size), nil, wantBytes(size)))
	}
	out = append(out,
		s.overMCP("MCP read_text_file: the first 10 lines of 64 MiB", "read_text_file", large, map[string]any{"head": 10}, wantLines(10)),
		s.overMCP("MCP edit_file: a line of 4 KiB, dry run", "edit_file", edited, map[string]any{
			"dryRun": true, "edits": []any{map[string]any{"oldText": "\n7 ", "newText": "\n7 changed "}},
		}, func(text string) bool { return strings.Contains(text, "+7 changed") }),
		s.overMCP(fmt.Sprintf("MCP list_directory: %s files", report.Thousands(int64(s.files))), "list_directory", many, nil, wantLines(s.files)),
		s.overMCP(fmt.Sprintf("MCP search_files: 10 of %s files", report.Thousands(int64(s.files))), "search_files", many, map[string]any{"pattern": "**/f000?.txt"}, wantLines(10)),
	)
	return append(out,
		s.exported(fmt.Sprintf("Export: %s files of 4 KiB", report.Thousands(int64(s.files))), many, int64(s.files)*4<<10),
		s.exported("Export: a file of 64 MiB", large, largeSize))
}

// edit changes a line by EditFile. Each turn writes another text.
func (s *stand) edit(_ context.Context, i int) error {
	_, err := s.fs.EditFile(edited, []client.Edit{{StartLine: 8, EndLine: 8, New: changed(i)}}, client.EditOptions{})
	return err
}

// readAndWrite changes a line by reading the file and writing it.
func (s *stand) readAndWrite(_ context.Context, i int) error {
	content, err := s.fs.ReadFile(edited)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(content), "\n")
	lines[7] = changed(i)
	return s.fs.WriteFileAtomic(edited, []byte(strings.Join(lines, "")), 0o644)
}

func changed(i int) string { return fmt.Sprintf("7 %-*d\n", lineSize-3, i) }

func batchName(i int) string { return fmt.Sprintf("batch-%d.txt", i) }

// batch writes files by one call.
func (s *stand) batch(_ context.Context, i int) error {
	content := textOf(1<<10 - i%2) // other contents than before
	steps := make([]client.BatchStep, batched)
	for n := range steps {
		steps[n] = client.StepWrite(batchName(n), content, 0o644)
	}
	_, err := s.fs.Batch(steps, client.BatchOptions{})
	return err
}

// calls writes the files by calls of their own, each whole or not at all as in a batch, so many at once.
func (s *stand) calls(atOnce int) func(context.Context, int) error {
	return func(_ context.Context, i int) error {
		content := textOf(1<<10 - i%2)
		var g errgroup.Group
		g.SetLimit(atOnce)
		for n := range batched {
			g.Go(func() error { return s.fs.WriteFileAtomic(batchName(n), content, 0o644) })
		}
		return g.Wait()
	}
}

// told writes a new file, and waits until names has its name.
func (s *stand) told(names <-chan string) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		s.written++
		name := fmt.Sprintf("n%d", s.written)
		if err := s.fs.WriteFileAtomic(told+"/"+name, []byte("x"), 0o644); err != nil {
			return err
		}
		for {
			select {
			case got, ok := <-names:
				if !ok || got == name {
					return s.toldErr(ok)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func wantBytes(size int) func(string) bool {
	return func(text string) bool { return len(text) == size }
}

func wantLines(n int) func(string) bool {
	return func(text string) bool { return len(strings.Split(strings.TrimSuffix(text, "\n"), "\n")) == n }
}

// overMCP is a tool of ctxfs beside the same of the reference server. An answer that ok rejects is an error.
func (s *stand) overMCP(what, tool, path string, args map[string]any, ok func(string) bool) pair {
	by := func(a *agent) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			text, err := a.call(ctx, tool, path, args)
			if err == nil && !ok(text) {
				err = fmt.Errorf("%s of %s returned another text: %.200q", tool, path, text)
			}
			return err
		}
	}
	return pair{what, side{"ctxfs", by(s.ctxfs)}, side{"reference server", by(s.referred)}}
}

// counter counts what is written to it.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// exported is Export of a file or directory with at least so many bytes, beside tar.
func (s *stand) exported(what, path string, least int64) pair {
	by := func(write func(context.Context, io.Writer) error) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			var n counter
			err := write(ctx, &n)
			if err == nil && int64(n) < least {
				err = fmt.Errorf("the archive of %s has %d bytes, but the files have %d", path, n, least)
			}
			return err
		}
	}
	return pair{what, side{"Export", by(func(_ context.Context, w io.Writer) error {
		_, err := s.fs.Export(w, path, client.ExportOptions{})
		return err
	})}, side{"tar -c", by(func(ctx context.Context, w io.Writer) error {
		cmd := exec.CommandContext(ctx, "tar", "-C", s.folder, "-cf", "-", path)
		cmd.Stdout = w
		return cmd.Run()
	})}}
}
