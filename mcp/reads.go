package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type pathArgs struct {
	Path string `json:"path" jsonschema:"a path from the root"`
}

// readArgs are the reference server's, with a range of lines.
type readArgs struct {
	Path  string `json:"path" jsonschema:"the file"`
	Head  int64  `json:"head,omitempty" jsonschema:"returns only the first N lines"`
	Tail  int64  `json:"tail,omitempty" jsonschema:"returns only the last N lines"`
	Start int64  `json:"startLine,omitempty" jsonschema:"the first line to return, from 1"`
	Count int64  `json:"lineCount,omitempty" jsonschema:"how many lines to return from startLine on"`
}

type manyArgs struct {
	Paths []string `json:"paths" jsonschema:"the files, 1 to 100"`
}

func (s *Server) addReads() {
	reads := hints{reads: true}
	add(s, "read_file", "Read file (deprecated)", "Reads a text file. Use read_text_file instead.", reads, s.readText)
	add(s, "read_text_file", "Read text file",
		"Reads a text file: whole, its first lines (head), its last lines (tail), or lineCount lines from startLine on. A result that is cut says with which startLine to read on.",
		reads, s.readText)
	add(s, "read_multiple_files", "Read files", "Reads several text files at once. A file that cannot be read does not fail the others.", reads, s.readMany)
	s.addMedia()
}

func (s *Server) readText(ctx context.Context, in readArgs) (string, error) {
	switch {
	case in.Head < 0 || in.Tail < 0 || in.Start < 0 || in.Count < 0:
		return "", errors.New("head, tail, startLine and lineCount are not negative")
	case in.Head > 0 && in.Tail > 0:
		return "", errors.New("head and tail exclude each other")
	case (in.Start > 0 || in.Count > 0) && (in.Head > 0 || in.Tail > 0):
		return "", errors.New("startLine and lineCount exclude head and tail")
	case in.Tail > 0:
		return s.tail(ctx, in.Path, in.Tail)
	case in.Head > 0:
		return s.part(ctx, in.Path, &ctxfsv1.LineRange{Start: 1, Count: in.Head, Uncounted: true}, s.limit)
	}
	return s.part(ctx, in.Path, &ctxfsv1.LineRange{Start: max(in.Start, 1), Count: in.Count}, s.limit)
}

// linesOf reads lines of a text file. total is the number of its lines, -1 if it is not known.
func (s *Server) linesOf(ctx context.Context, name string, lines *ctxfsv1.LineRange) (content []byte, total int64, err error) {
	r, err := s.fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{ContextId: s.context, Path: name, Lines: lines})
	if err != nil {
		return nil, 0, err
	}
	if !isText(r.GetData()) {
		return nil, 0, fmt.Errorf("%s is not a text file; use read_media_file", name)
	}
	total = -1
	if r.TotalLines != nil {
		total = r.GetTotalLines()
	}
	return r.GetData(), total, nil
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// probeLines is how many lines are read at a time from a file that may be long.
const probeLines = 2000

// part reads some lines, up to limit bytes.
func (s *Server) part(ctx context.Context, name string, lines *ctxfsv1.LineRange, limit int) (string, error) {
	var out strings.Builder
	start, count := lines.GetStart(), lines.GetCount()
	for next, step := start, int64(probeLines); ; {
		n := step
		if count > 0 {
			n = min(n, start+count-next)
		}
		content, total, err := s.linesOf(ctx, name, &ctxfsv1.LineRange{Start: next, Count: n, Uncounted: lines.GetUncounted()})
		if codeOf(err) == fserr.EFBIG && n > 1 {
			step = n / 2
			continue
		}
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(content) {
			if out.Len()+len(line) > limit {
				return out.String() + cut(start, next, total, string(line[:min(len(line), limit)])), nil
			}
			out.Write(line)
			next++
		}
		if len(content) == 0 || total >= 0 && next > total || count > 0 && next >= start+count {
			return out.String(), nil
		}
	}
}

// cut says how to read the lines from next on, which exceed the limit. start is the first line that was asked for. If not even one line
// was within the limit, begins is the part of it that is.
func cut(start, next, total int64, begins string) string {
	of := "more"
	if total >= 0 {
		of = fmt.Sprint(total)
	}
	if next > start {
		return fmt.Sprintf("[lines %d to %d of %s are shown; read on with startLine %d]", start, next-1, of, next)
	}
	shown := strings.ToValidUTF8(begins, "")
	return fmt.Sprintf("%s\n[only the first %d bytes of line %d are shown, of %s lines; search it with grep, or read on with startLine %d]", shown, len(shown), next, of, next+1)
}

func (s *Server) tail(ctx context.Context, name string, count int64) (string, error) {
	_, total, err := s.linesOf(ctx, name, &ctxfsv1.LineRange{Start: 1, Count: 1})
	if err != nil {
		return "", err
	}
	if total < 0 {
		return "", fmt.Errorf("%s is too large to count its lines; read it with startLine, or search it with grep", name)
	}
	return s.part(ctx, name, &ctxfsv1.LineRange{Start: max(1, total-count+1), Count: count}, s.limit)
}

// maxPaths bounds the files of one read.
const maxPaths = 100

func (s *Server) readMany(ctx context.Context, in manyArgs) (string, error) {
	if len(in.Paths) == 0 || len(in.Paths) > maxPaths {
		return "", fmt.Errorf("paths names %d files; name 1 to %d", len(in.Paths), maxPaths)
	}
	share := s.limit / len(in.Paths)
	parts := make([]string, 0, len(in.Paths))
	for _, p := range in.Paths {
		content, err := s.part(ctx, p, &ctxfsv1.LineRange{Start: 1}, share)
		if err != nil {
			parts = append(parts, fmt.Sprintf("%s: Error - %v", p, explained(err)))
			continue
		}
		parts = append(parts, p+":\n"+content+"\n")
	}
	return strings.Join(parts, "\n---\n"), nil
}

// mediaTypes are the types that models take as images and sound.
var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".bmp": "image/bmp", ".svg": "image/svg+xml",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac",
}

// mediaResult is the structured result of read_media_file: the content once more, as in the reference server's results.
type mediaResult struct {
	Content []sdk.Content `json:"content"`
}

// mediaSchema is the reference server's.
const mediaSchema = `{"type": "object", "required": ["content"], "properties": {"content": {"type": "array", "items": {"anyOf": [
	{"type": "object", "required": ["type", "data", "mimeType"], "properties": {
		"type": {"type": "string", "enum": ["image", "audio"]}, "data": {"type": "string"}, "mimeType": {"type": "string"}}},
	{"type": "object", "required": ["type", "resource"], "properties": {
		"type": {"type": "string", "const": "resource"},
		"resource": {"type": "object", "required": ["uri", "blob"], "properties": {
			"uri": {"type": "string"}, "mimeType": {"type": "string"}, "blob": {"type": "string"}}}}}
]}}}}`

// maxMedia bounds the files that read_media_file returns, in bytes.
const maxMedia = 3 << 20

func (s *Server) addMedia() {
	const title = "Read media file"
	tool := &sdk.Tool{
		Name: "read_media_file", Title: title, Annotations: hints{reads: true}.annotations(title), OutputSchema: json.RawMessage(mediaSchema),
		Description: "Reads an image or audio file of up to 3 MiB, as base64 with its MIME type. Any other file is returned as an embedded resource.",
	}
	sdk.AddTool(s.SDK, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in pathArgs) (*sdk.CallToolResult, mediaResult, error) {
		r, err := s.fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{ContextId: s.context, Path: in.Path})
		if codeOf(err) == fserr.EFBIG || len(r.GetData()) > maxMedia {
			return nil, mediaResult{}, fmt.Errorf("%s has more than 3 MiB; a result has at most that much", in.Path)
		}
		if err != nil {
			return nil, mediaResult{}, explained(err)
		}
		content := []sdk.Content{s.media(in.Path, r.GetData())}
		return &sdk.CallToolResult{Content: content}, mediaResult{content}, nil
	})
}

func (s *Server) media(name string, data []byte) sdk.Content {
	switch kind := mediaTypes[strings.ToLower(path.Ext(name))]; {
	case strings.HasPrefix(kind, "image/"):
		return &sdk.ImageContent{MIMEType: kind, Data: data}
	case kind != "":
		return &sdk.AudioContent{MIMEType: kind, Data: data}
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: s.uriOf(name), MIMEType: "application/octet-stream", Blob: data}}
}
