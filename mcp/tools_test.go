package mcp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ctxfs/ctxfs/client"
)

func put(t *testing.T, folder, name, content string) {
	t.Helper()
	full := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestToolsOfTheReferenceServer calls the tools of the reference file-system server, with its arguments.
func TestToolsOfTheReferenceServer(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		m.is("# A workspace\n", "read_text_file", object{"path": "/README.md"})
		m.is("Successfully wrote to /a.txt", "write_file", object{"path": "/a.txt", "content": "one\ntwo\nthree\n"})
		edits := []object{{"oldText": "two", "newText": "2"}}
		diff := m.ok("edit_file", object{"path": "/a.txt", "edits": edits, "dryRun": true})
		if !strings.HasPrefix(diff, "```diff\n") || !strings.HasSuffix(diff, "\n-two\n+2\n three\n```\n\n") {
			m.t.Errorf("a dry run returned %q", diff)
		}
		m.is(diff, "edit_file", object{"path": "/a.txt", "edits": edits})
		m.refuses("oldText is not in the file", "edit_file", object{"path": "/a.txt", "edits": edits})
		m.is("one\n2\n", "read_file", object{"path": "a.txt", "head": 2})
		m.is("2\nthree\n", "read_text_file", object{"path": "a.txt", "tail": 2})
		m.is("2\n", "read_text_file", object{"path": "a.txt", "startLine": 2, "lineCount": 1})
		m.refuses("head and tail", "read_text_file", object{"path": "a.txt", "tail": 2, "head": 1})
		m.is("/a.txt:\none\n2\nthree\n\n\n---\n/none: Error - ENOENT: no such file or directory, open '/none'", "read_multiple_files", object{"paths": []string{"/a.txt", "/none"}})
		m.is("Successfully created directory /d/e", "create_directory", object{"path": "/d/e"})
		m.is("Successfully created directory /d/e", "create_directory", object{"path": "/d/e"})
		m.is("Successfully moved /a.txt to /d/b.txt", "move_file", object{"source": "/a.txt", "destination": "/d/b.txt"})
		m.refuses("EEXIST", "move_file", object{"source": "/README.md", "destination": "/d/b.txt"})
		m.is("[FILE] README.md\n[DIR] d\n[DIR] src", "list_directory", object{"path": "/"})
		m.is("[DIR] e                                        \n[FILE] b.txt                                12 B\n\nTotal: 1 files, 1 directories\nCombined size: 12 B",
			"list_directory_with_sizes", object{"path": "/d", "sortBy": "size"})
		m.is(`[
  {
    "name": "b.txt",
    "type": "file"
  },
  {
    "name": "e",
    "type": "directory",
    "children": []
  }
]`, "directory_tree", object{"path": "/d"})
		m.lacks("src", "directory_tree", object{"path": "/", "excludePatterns": []string{"src", "*.md"}})
		put(m.t, m.folder, ".hidden/x.ts", "")
		m.is("/.hidden/x.ts", "search_files", object{"path": "/", "pattern": "**/*.ts"})
		m.is("/d/b.txt", "search_files", object{"path": "/", "pattern": "**/*.txt", "excludePatterns": []string{"src"}})
		m.is("No matches found", "search_files", object{"path": "/", "pattern": "**/*.txt", "excludePatterns": []string{"d/**"}})
		m.want("size: 12\n", "get_file_info", object{"path": "/d/b.txt"})
		m.want("isDirectory: true\n", "get_file_info", object{"path": "/d"})
		m.is("Allowed directories:\n/", "list_allowed_directories", object{})
	})
}

// TestFurtherTools calls the tools that the reference server does not have.
func TestFurtherTools(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		m.ok("write_file", object{"path": "/a.txt", "content": "one\ntwo\nthree\n"})
		m.want("+ONE\n", "edit", object{"path": "/a.txt", "edits": []object{{"startLine": 1, "endLine": 1, "newText": "ONE\n"}, {"oldText": "t", "newText": "T", "all": true}}})
		m.is("ONE\nTwo\nThree\n", "read_text_file", object{"path": "/a.txt"})
		m.refuses("ESTALE", "edit", object{"path": "/a.txt", "ifMatch": `"0-0-0-0"`, "edits": []object{{"oldText": "ONE", "newText": "1"}}})
		_, etag, _ := strings.Cut(m.ok("get_file_info", object{"path": "/a.txt"}), "etag: ")
		m.ok("edit", object{"path": "/a.txt", "ifMatch": etag, "edits": []object{{"oldText": "ONE", "newText": "1"}}})
		steps := []object{{"write": "/b.txt", "content": "b\n"}, {"mkdir": "/dir"}, {"move": "/a.txt", "destination": "/dir/a.txt"}, {"edit": "/dir/a.txt", "edits": []object{{"oldText": "1", "newText": "uno"}}}}
		m.want("+b\n", "batch", object{"steps": steps, "dryRun": true})
		m.is("Made all 4 changes", "batch", object{"steps": steps})
		m.refuses("steps[1]", "batch", object{"steps": []object{{"write": "/c.txt", "content": "c"}, {"edit": "/none", "edits": []object{{"oldText": "1", "newText": "2"}}}}})
		m.refuses("steps[1] has ifMatch, which mkdir does not take", "batch", object{"steps": []object{{"write": "/c.txt", "content": "c"}, {"mkdir": "/m", "ifMatch": etag}}})
		m.refuses("ESTALE", "batch", object{"steps": []object{{"move": "/b.txt", "destination": "/moved.txt", "ifMatch": "other"}}})
		m.refuses("steps[0] must have exactly one of", "batch", object{"steps": []object{{"write": "/c.txt", "delete": "/b.txt"}}})
		m.is("/b.txt\n/dir/a.txt", "glob", object{"pattern": "**/*.txt"})
		m.is("/dir/a.txt:2:Two\n/dir/a.txt:3:Three", "grep", object{"pattern": "^T", "path": "/dir"})
		m.want("/dir/a.txt-1-uno\n/dir/a.txt:2:Two", "grep", object{"pattern": "two", "ignoreCase": true, "literal": true, "contextLines": 1, "include": "*.txt"})
		m.want("+++ b/dir/a.txt", "diff", object{})
		m.lacks("dir", "diff", object{"paths": []string{"/b.txt"}})
		m.want("Submitted revision ", "submit_changes", object{"title": "Two files", "message": "for you"})
		m.want("; the user pushes it with: ctxfs git push ", "stage", object{"message": "Add b", "files": []string{"/b.txt"}})
		m.is("Successfully deleted /b.txt", "delete_file", object{"path": "/b.txt"})
		m.refuses("dir", "delete_file", object{"path": "/dir"})
		m.ok("delete_file", object{"path": "/dir", "recursive": true})
		m.is("No changes", "diff", object{})
	})
}

func TestMediaFilesAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		data := []byte("\x89PNG\r\n\x1a\n\x00\xff")
		for _, name := range []string{"a.png", "a.wav", "a.bin"} {
			put(m.t, m.folder, name, string(data))
			r, err := m.CallTool(m.t.Context(), &sdk.CallToolParams{Name: "read_media_file", Arguments: object{"path": "/" + name}})
			if err != nil || r.IsError || len(r.Content) != 1 {
				m.t.Fatalf("%s: %v, %v", name, r, err)
			}
			var got []byte
			switch c := r.Content[0].(type) {
			case *sdk.ImageContent:
				got = c.Data
			case *sdk.AudioContent:
				got = c.Data
			case *sdk.EmbeddedResource:
				got = c.Resource.Blob
			}
			if !bytes.Equal(got, data) {
				m.t.Errorf("%s is %q", name, got)
			}
			text, err := json.Marshal(r.StructuredContent)
			want := `"data":"iVBORw0KGgoA/w=="`
			if name == "a.bin" {
				want = `"blob":"iVBORw0KGgoA/w=="` // of an embedded resource, as in the content
			}
			if err != nil || !strings.Contains(string(text), want) {
				m.t.Errorf("the structured content of %s is %s, %v", name, text, err)
			}
		}
		m.refuses("is not a text file", "read_text_file", object{"path": "/a.bin"})
	})
}

// TestToolsFollowTheRightsOfThePanel lists the tools of panels with and without rights.
func TestToolsFollowTheRightsOfThePanel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	names := func(m *model) (names []string) {
		for tool, err := range m.Tools(m.t.Context(), nil) {
			if err != nil {
				m.t.Fatal(err)
			}
			names = append(names, tool.Name)
			a := tool.Annotations
			if tool.Title == "" || tool.Description == "" || a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil || a.ReadOnlyHint && *a.DestructiveHint {
				m.t.Errorf("the tool %s has title %q, description %q and annotations %+v", tool.Name, tool.Title, tool.Description, a)
			}
			for _, word := range []string{"push", "approve", "apply", "decide"} {
				if strings.Contains(tool.Name, word) {
					m.t.Errorf("there is a tool %s", tool.Name)
				}
			}
		}
		return names
	}
	for name, c := range map[string]struct {
		opts        []client.PanelOption
		write, exec bool
	}{
		"plain": {nil, true, false}, "reader": {[]client.PanelOption{client.ReadOnly()}, false, false},
		"all": {[]client.PanelOption{client.CanExec(), client.CanReview(), client.CanPush()}, true, true},
	} {
		p := w.open(t, "panels/"+name, c.opts...)
		for _, transport := range []sdk.Transport{w.inMemory(t, "panels/"+name, nil), w.overHTTP(t, func() string { token, _ := p.Token(); return token })} {
			got := names(connect(t, transport, sessionless))
			if slices.Contains(got, "write_file") != c.write || slices.Contains(got, "exec") != c.exec || !slices.Contains(got, "read_text_file") {
				t.Errorf("the tools of panel %s are %v", name, got)
			}
		}
	}
}
