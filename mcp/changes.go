package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type writeArgs struct {
	Path    string `json:"path" jsonschema:"the file"`
	Content string `json:"content" jsonschema:"the whole content"`
}

type replacement struct {
	Old string `json:"oldText" jsonschema:"the text to replace, with its white space; it must occur exactly once"`
	New string `json:"newText" jsonschema:"the text that takes its place"`
}

// editFileArgs are the reference server's.
type editFileArgs struct {
	Path   string        `json:"path" jsonschema:"the file"`
	Edits  []replacement `json:"edits" jsonschema:"the replacements, in order; all are made, or none"`
	DryRun bool          `json:"dryRun,omitempty" jsonschema:"changes nothing, and shows the diff"`
}

type anyEdit struct {
	Old   string `json:"oldText,omitempty" jsonschema:"the text to replace, with its white space; it must occur exactly once, unless all is set"`
	New   string `json:"newText" jsonschema:"the text that takes its place"`
	All   bool   `json:"all,omitempty" jsonschema:"replaces every occurrence of oldText"`
	Start int64  `json:"startLine,omitempty" jsonschema:"instead of oldText: the first line to replace, from 1"`
	End   int64  `json:"endLine,omitempty" jsonschema:"the last line to replace; startLine - 1 inserts before startLine"`
}

type editArgs struct {
	Path    string    `json:"path" jsonschema:"the file"`
	Edits   []anyEdit `json:"edits" jsonschema:"the edits, in order: each sees what those before it have made; all are made, or none"`
	DryRun  bool      `json:"dryRun,omitempty" jsonschema:"changes nothing, and shows the diff"`
	IfMatch string    `json:"ifMatch,omitempty" jsonschema:"edits only if the file has this etag, which get_file_info shows"`
}

type moveArgs struct {
	Source      string `json:"source" jsonschema:"the file or directory"`
	Destination string `json:"destination" jsonschema:"its new path"`
}

type deleteArgs struct {
	Path      string `json:"path" jsonschema:"the file or directory"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"removes a directory with what is below it"`
}

type batchStep struct {
	Write       string    `json:"write,omitempty" jsonschema:"the file to write, with content"`
	Content     string    `json:"content,omitempty" jsonschema:"of write: the whole content"`
	Edit        string    `json:"edit,omitempty" jsonschema:"the file to edit, with edits"`
	Edits       []anyEdit `json:"edits,omitempty" jsonschema:"of edit: the edits, in order"`
	Move        string    `json:"move,omitempty" jsonschema:"the path to move, with destination"`
	Destination string    `json:"destination,omitempty" jsonschema:"of move: the new path, which must not exist"`
	Delete      string    `json:"delete,omitempty" jsonschema:"the path to remove, with what is below it"`
	Mkdir       string    `json:"mkdir,omitempty" jsonschema:"the directory to make, with those above it"`
	IfMatch     string    `json:"ifMatch,omitempty" jsonschema:"of write, edit, move and delete: fails unless the path has this etag"`
}

type batchArgs struct {
	Steps  []batchStep `json:"steps" jsonschema:"the changes, in order; each step has one of write, edit, move, delete and mkdir"`
	DryRun bool        `json:"dryRun,omitempty" jsonschema:"changes nothing, and shows the diff"`
}

func (s *Server) addChanges() {
	add(s, "write_file", "Write file", "Creates a file, or replaces the whole content of one. Use edit to change a part.", hints{repeatable: true}, s.write)
	add(s, "edit_file", "Edit file",
		"Replaces exact texts in a file, and returns the diff. Fails and changes nothing if a text is missing or occurs more than once.", hints{},
		func(ctx context.Context, in editFileArgs) (string, error) {
			all := make([]anyEdit, 0, len(in.Edits))
			for _, e := range in.Edits {
				all = append(all, anyEdit{Old: e.Old, New: e.New})
			}
			return s.edit(ctx, editArgs{Path: in.Path, Edits: all, DryRun: in.DryRun})
		})
	add(s, "edit", "Edit text or lines", "Replaces exact texts, or ranges of lines, in a file, and returns the diff. All edits are made, or none.", hints{}, s.edit)
	add(s, "batch", "Change several files", "Makes several changes as one: all of them, or none. With dryRun it returns the diff.", hints{}, s.batch)
	add(s, "create_directory", "Create directory", "Makes a directory and those above it. A directory that exists is no error.",
		hints{repeatable: true, additive: true}, s.mkdir)
	add(s, "move_file", "Move file", "Moves or renames a file or directory. Fails if the destination exists.", hints{}, s.move)
	add(s, "delete_file", "Delete file", "Removes a file or, with recursive, a directory with what is below it.", hints{}, s.remove)
}

func (s *Server) write(ctx context.Context, in writeArgs) (string, error) {
	_, err := s.fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{
		ContextId: s.context, Path: in.Path, Atomic: true, Content: &ctxfsv1.WriteFileRequest_Text{Text: in.Content},
	})
	return "Successfully wrote to " + in.Path, err
}

func editsOf(list []anyEdit) []*ctxfsv1.TextEdit {
	out := make([]*ctxfsv1.TextEdit, 0, len(list))
	for _, e := range list {
		out = append(out, &ctxfsv1.TextEdit{OldText: e.Old, NewText: e.New, All: e.All, StartLine: e.Start, EndLine: e.End})
	}
	return out
}

func (s *Server) edit(ctx context.Context, in editArgs) (string, error) {
	r, err := s.fs.EditFile(ctx, &ctxfsv1.EditFileRequest{
		ContextId: s.context, Path: in.Path, Edits: editsOf(in.Edits), DryRun: in.DryRun, IfMatch: in.IfMatch,
	})
	if err != nil {
		return "", err
	}
	return s.fenced(r.GetDiff(), r.GetDiffTruncated()), nil
}

// fenced returns a diff as a block of code. Its fence is longer than those in what is shown of the diff. more says that the diff is itself incomplete.
func (s *Server) fenced(diff string, more bool) string {
	if diff == "" {
		return "Nothing changed"
	}
	shown := s.lines(strings.Split(strings.TrimSuffix(diff, "\n"), "\n"), more, "read the file for the others")
	fence := strings.Repeat("`", max(3, longestRun(shown, '`')+1))
	return fence + "diff\n" + shown + "\n" + fence + "\n\n"
}

// longestRun returns how often b occurs in a row at most.
func longestRun(text string, b byte) int {
	longest, run := 0, 0
	for i := range len(text) {
		run++
		if text[i] != b {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

func (s *Server) batch(ctx context.Context, in batchArgs) (string, error) {
	req := &ctxfsv1.BatchRequest{ContextId: s.context, DryRun: in.DryRun}
	for i, b := range in.Steps {
		step, err := b.wire()
		if err != nil {
			return "", fmt.Errorf("steps[%d] %w", i, err)
		}
		req.Steps = append(req.Steps, step)
	}
	r, err := s.fs.Batch(ctx, req)
	if err != nil {
		return "", err
	}
	if in.DryRun {
		return s.fenced(r.GetDiff(), r.GetDiffTruncated()), nil
	}
	return fmt.Sprintf("Made all %d changes", len(in.Steps)), nil
}

// wire returns the step as the server takes it.
func (b batchStep) wire() (*ctxfsv1.BatchStep, error) {
	var all []*ctxfsv1.BatchStep
	if b.Write != "" {
		all = append(all, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
			Path: b.Write, Content: &ctxfsv1.WriteFileRequest_Text{Text: b.Content}, IfMatch: b.IfMatch,
		}}})
	}
	if b.Edit != "" {
		all = append(all, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_EditFile{EditFile: &ctxfsv1.EditFileRequest{Path: b.Edit, Edits: editsOf(b.Edits), IfMatch: b.IfMatch}}})
	}
	if b.Move != "" {
		all = append(all, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rename{Rename: &ctxfsv1.RenameRequest{Path: b.Move, Dest: b.Destination, DestIfNoneMatch: "*", IfMatch: b.IfMatch}}})
	}
	if b.Delete != "" {
		all = append(all, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rm{Rm: &ctxfsv1.RmRequest{Path: b.Delete, Recursive: true, IfMatch: b.IfMatch}}})
	}
	if b.Mkdir != "" {
		all = append(all, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Mkdir{Mkdir: &ctxfsv1.MkdirRequest{Path: b.Mkdir, Recursive: true}}})
	}
	switch {
	case len(all) != 1:
		return nil, errors.New("must have exactly one of write, edit, move, delete and mkdir")
	case b.Mkdir != "" && b.IfMatch != "":
		return nil, errors.New("has ifMatch, which mkdir does not take")
	}
	return all[0], nil
}

func (s *Server) mkdir(ctx context.Context, in pathArgs) (string, error) {
	_, err := s.fs.Mkdir(ctx, &ctxfsv1.MkdirRequest{ContextId: s.context, Path: in.Path, Recursive: true})
	return "Successfully created directory " + in.Path, err
}

func (s *Server) move(ctx context.Context, in moveArgs) (string, error) {
	_, err := s.fs.Rename(ctx, &ctxfsv1.RenameRequest{ContextId: s.context, Path: in.Source, Dest: in.Destination, DestIfNoneMatch: "*"})
	return fmt.Sprintf("Successfully moved %s to %s", in.Source, in.Destination), err
}

func (s *Server) remove(ctx context.Context, in deleteArgs) (string, error) {
	_, err := s.fs.Rm(ctx, &ctxfsv1.RmRequest{ContextId: s.context, Path: in.Path, Recursive: in.Recursive})
	return "Successfully deleted " + in.Path, err
}
