package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestNothingOutsideIsReached tries to leave the context by each tool that takes a path.
func TestNothingOutsideIsReached(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		secret := filepath.Join(m.t.TempDir(), "secret.txt")
		put(m.t, filepath.Dir(secret), "secret.txt", "the secret")
		for name, target := range map[string]string{"up": "../../../../../../../.." + secret, "abs": secret, "dir": "../../../../../../../../etc"} {
			if err := os.Symlink(target, filepath.Join(m.folder, name)); err != nil {
				m.t.Fatal(err)
			}
		}
		for _, path := range []string{"../../../../../../../../etc/passwd", "/../../etc/passwd", secret, "up", "abs", "dir/passwd", "/proc/self/environ", "a\x00b", "file:///etc/passwd"} {
			for tool, args := range map[string]object{
				"read_text_file": {"path": path}, "read_file": {"path": path}, "read_media_file": {"path": path}, "get_file_info": {"path": path},
				"list_directory": {"path": path}, "edit_file": {"path": path, "edits": []object{{"oldText": "the", "newText": "a"}}},
				"grep": {"pattern": "secret|root", "path": path}, "move_file": {"source": path + "/x", "destination": "/stolen"},
				"delete_file": {"path": path + "/x", "recursive": true},
			} {
				if text, failed := m.call(tool, args); !failed && !strings.Contains(text, "No matches") {
					m.t.Errorf("%s of %q returned %q", tool, path, text)
				}
			}
			if got := m.ok("read_multiple_files", object{"paths": []string{path}}); !strings.Contains(got, ": Error - ") {
				m.t.Errorf("%q was read: %q", path, got)
			}
		}
		m.refuses("EACCES", "create_directory", object{"path": "../made"})
		m.call("write_file", object{"path": "abs", "content": "changed"})
		m.call("batch", object{"steps": []object{{"write": "up", "content": "changed"}}})
		if data, err := os.ReadFile(secret); err != nil || string(data) != "the secret" {
			m.t.Errorf("the file outside is %q, %v", data, err)
		}
	})
}

// TestBadCallsAreRefused calls tools that do not exist, or with wrong arguments. The session goes on.
func TestBadCallsAreRefused(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		for _, tool := range []string{"push", "apply", "exec", "READ_FILE", "", strings.Repeat("x", 1<<12)} {
			if r, err := m.CallTool(m.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: object{}}); err == nil && !r.IsError {
				m.t.Errorf("the tool %.20q answered %v", tool, r)
			}
		}
		for _, args := range []any{object{}, object{"path": 7}, object{"path": nil}, object{"path": "/README.md", "head": "x"}, object{"path": "/README.md", "other": 1},
			object{"path": "/README.md", "head": -1}, json.RawMessage(`[]`), json.RawMessage(`"/README.md"`)} {
			if r, err := m.CallTool(m.t.Context(), &sdk.CallToolParams{Name: "read_text_file", Arguments: args}); err == nil && !r.IsError {
				m.t.Errorf("read_text_file of %v answered %v", args, r)
			}
		}
		for _, uri := range []string{"file:///etc/passwd", "ctxfs://ctx_other/README.md", "ctxfs:///README.md", "ctxfs://" + m.context + "/none", "ctxfs://" + m.context + "/%ff",
			"ctxfs://" + m.context + "/../../etc/passwd", "ctxfs://" + m.context + "/%2e%2e/%2e%2e/etc/passwd", "%", ""} {
			if r, err := m.ReadResource(m.t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				m.t.Errorf("the resource %q is %v", uri, r.Contents)
			}
		}
		m.want("# A workspace", "read_text_file", object{"path": "/README.md"})
	})
}

// TestLargeResultsAreBounded reads what is larger than a result may be, and goes on from where the result says.
func TestLargeResultsAreBounded(t *testing.T) {
	t.Parallel()
	const most, maxMedia = 80 << 10, 3 << 20
	eachWay(t, newWorld(t, nil), func(m *model) {
		var lines strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&lines, "this is line %07d\n", i+1)
		}
		put(m.t, m.folder, "long.txt", lines.String())
		put(m.t, m.folder, "wide.txt", strings.Repeat("x", 15<<18)+"\nend\n")
		put(m.t, m.folder, "big.bin", strings.Repeat("\x00", maxMedia+1))
		for i := range 900 {
			put(m.t, m.folder, fmt.Sprintf("many/a-file-with-a-long-name-%080d.txt", i), "")
		}
		for tool, args := range map[string]object{
			"read_text_file": {"path": "/long.txt"}, "read_multiple_files": {"paths": []string{"/long.txt", "/long.txt"}}, "list_directory": {"path": "/many"},
			"search_files": {"path": "/", "pattern": "**"}, "glob": {"pattern": "many/*"}, "grep": {"pattern": "line"}, "diff": {"paths": []string{"/long.txt"}},
			"list_directory_with_sizes": {"path": "/many"},
		} {
			if got := m.ok(tool, args); len(got) > most || !strings.Contains(got, " are shown; ") {
				m.t.Errorf("%s returned %d bytes, ending in %q", tool, len(got), got[max(0, len(got)-100):])
			}
		}
		m.refuses("too much to show", "directory_tree", object{"path": "/"})
		m.refuses("3 MiB", "read_media_file", object{"path": "/big.bin"})
		m.refuses("3.5 MiB", "read_text_file", object{"path": "/wide.txt"})
		m.is("end\n", "read_text_file", object{"path": "/wide.txt", "startLine": 2})
		m.is("this is line 0020000\n", "read_text_file", object{"path": "/long.txt", "tail": 1})
		first := m.ok("read_text_file", object{"path": "/long.txt"})
		var from, to, all, next int
		if _, err := fmt.Sscanf(first[strings.LastIndexByte(first, '[')+1:], "lines %d to %d of %d are shown; read on with startLine %d]", &from, &to, &all, &next); err != nil || all != 20_000 {
			m.t.Fatalf("the result ends in %q: %v", first[len(first)-100:], err)
		}
		if got := m.ok("read_text_file", object{"path": "/long.txt", "startLine": next}); !strings.HasPrefix(got, fmt.Sprintf("this is line %07d\n", next)) {
			m.t.Errorf("from line %d on there is %.60q", next, got)
		}
		if r, err := m.ReadResource(m.t.Context(), &sdk.ReadResourceParams{URI: "ctxfs://" + m.context + "/wide.txt"}); err == nil {
			m.t.Errorf("a resource has %d contents", len(r.Contents))
		}
	})
}

func TestResources(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		put(m.t, m.folder, "a b.bin", "\x00\xff")
		uri := func(name string) string { return "ctxfs://" + m.context + "/" + name }
		var listed []string
		for r, err := range m.Resources(m.t.Context(), nil) {
			if err != nil {
				m.t.Fatal(err)
			}
			listed = append(listed, r.URI)
		}
		if got, want := fmt.Sprint(listed), fmt.Sprint([]string{uri("README.md"), uri("a%20b.bin"), uri("src")}); got != want {
			m.t.Errorf("the resources are %v, want %v", got, want)
		}
		for name, want := range map[string]string{"README.md": "# A workspace\n", "src/main.go": "package main\n", "a%20b.bin": "\x00\xff", "src": "[FILE] main.go", "": "[FILE] README.md\n[FILE] a b.bin\n[DIR] src"} {
			r, err := m.ReadResource(m.t.Context(), &sdk.ReadResourceParams{URI: uri(name)})
			if err != nil || len(r.Contents) != 1 || r.Contents[0].Text+string(r.Contents[0].Blob) != want {
				m.t.Errorf("the resource %q is %v, %v", name, r, err)
			}
		}
		for r, err := range m.ResourceTemplates(m.t.Context(), nil) {
			if err != nil || r.URITemplate != uri("{+path}") {
				m.t.Errorf("a template is %v, %v", r, err)
			}
		}
	})
}

// TestSubscriptionsTellOfChanges changes files in several ways while a client subscribes to them.
func TestSubscriptionsTellOfChanges(t *testing.T) {
	t.Parallel()
	eachWay(t, newWorld(t, nil), func(m *model) {
		m.ok("create_directory", object{"path": "/directory"})
		told := map[string]int{}
		uri := func(name string) string { return "ctxfs://" + m.context + "/" + name }
		changes := map[string]func(){
			"replaced": func() { m.ok("write_file", object{"path": "/replaced", "content": "x"}) },
			"edited": func() {
				m.ok("edit", object{"path": "/edited", "edits": []object{{"startLine": 1, "endLine": 0, "newText": "x\n"}}})
			},
			"written": func() { put(m.t, m.folder, "written", "x") },
			"removed": func() {
				if told[uri("removed")] > 0 { // a subscription fails for a file that is missing when it begins
					m.ok("delete_file", object{"path": "/removed"})
				}
				put(m.t, m.folder, "removed", "x")
			},
			"directory": func() {
				put(m.t, m.folder, "directory/new", "x")
				m.ok("delete_file", object{"path": "/directory/new"})
			},
		}
		for name := range changes {
			if name != "directory" {
				put(m.t, m.folder, name, "first\n")
			}
			if err := m.Subscribe(m.t.Context(), &sdk.SubscribeParams{URI: uri(name)}); err != nil {
				m.t.Fatal(err)
			}
		}
		// Changes are repeated, since without sessions the client does not wait until a subscription has begun. The third notification
		// shows that a watch goes on.
		for changed := true; changed; {
			changed = false
			for name, change := range changes {
				if told[uri(name)] < 3 {
					change()
					changed = true
				}
			}
			select {
			case got := <-m.updated:
				told[got]++
			// clock: how soon the changes are repeated
			case <-time.After(50 * time.Millisecond):
			}
		}
		if len(told) != len(changes) {
			m.t.Errorf("the notifications are of %v", told)
		}
		for name := range changes {
			if err := m.Unsubscribe(m.t.Context(), &sdk.UnsubscribeParams{URI: uri(name)}); err != nil {
				m.t.Fatal(err)
			}
		}
	})
}

// TestSubscriptionsAreBounded subscribes to more files than a session may.
func TestSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(t, "panels/flood")
	token := func() string { token, _ := p.Token(); return token }
	for _, transport := range []sdk.Transport{w.inMemory(t, "panels/flood", nil), w.overHTTP(t, token)} {
		m := connect(t, transport, withSessions)
		refused := 0
		for i := range 200 {
			name := fmt.Sprintf("/f%d", i)
			m.ok("write_file", object{"path": name, "content": ""})
			if err := m.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "ctxfs://" + p.ContextID() + name}); err != nil {
				refused++
			}
		}
		if refused != 200-64 {
			t.Errorf("%d subscriptions of 200 were refused", refused)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// raw sends a request to /v1/mcp with headers, which are pairs.
func (w *world) raw(t *testing.T, method, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.Info().Addresses.HTTP+"/v1/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// TestSessionsBelongToTheirPanel uses the session of a panel with the tokens of others, and without one.
func TestSessionsBelongToTheirPanel(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	w := newWorld(t, nil)
	mine, other := w.open(t, "panels/mine"), w.open(t, "panels/other")
	auth := func(token string) string { return "Bearer " + token }
	mineToken, _ := mine.Token()
	otherToken, _ := other.Token()
	resp, answer := w.raw(t, "POST", initialize, "Authorization", auth(mineToken))
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" || resp.Header.Get("Cache-Control") == "" {
		t.Fatalf("initialize: %s, %s", resp.Status, answer)
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for name, c := range map[string]struct {
		method, body string
		status       int
		headers      []string
	}{
		"no token":               {"POST", list, 401, []string{"Mcp-Session-Id", id}},
		"no token, no session":   {"POST", initialize, 401, nil},
		"wrong token":            {"POST", list, 401, []string{"Mcp-Session-Id", id, "Authorization", auth("wrong")}},
		"another panel's POST":   {"POST", list, 404, []string{"Mcp-Session-Id", id, "Authorization", auth(otherToken)}},
		"another panel's GET":    {"GET", "", 404, []string{"Mcp-Session-Id", id, "Authorization", auth(otherToken)}},
		"another panel's DELETE": {"DELETE", "", 404, []string{"Mcp-Session-Id", id, "Authorization", auth(otherToken)}},
		"unknown session":        {"POST", list, 404, []string{"Mcp-Session-Id", "x", "Authorization", auth(mineToken)}},
		"foreign origin":         {"POST", list, 403, []string{"Mcp-Session-Id", id, "Authorization", auth(mineToken), "Origin", "http://evil.example"}},
		"too large":              {"POST", strings.Repeat(" ", 5<<20), 413, []string{"Mcp-Session-Id", id, "Authorization", auth(mineToken)}},
		"an array of messages":   {"POST", "[" + list + "," + list + "]", 400, []string{"Mcp-Session-Id", id, "Authorization", auth(mineToken)}},
		"no JSON":                {"POST", "{", 400, []string{"Mcp-Session-Id", id, "Authorization", auth(mineToken)}},
		"a method":               {"PUT", "", 405, []string{"Mcp-Session-Id", id, "Authorization", auth(mineToken)}},
	} {
		if resp, answer := w.raw(t, c.method, c.body, c.headers...); resp.StatusCode != c.status {
			t.Errorf("%s: %s, %s", name, resp.Status, answer)
		}
	}
	if resp, answer := w.raw(t, "POST", list, "Mcp-Session-Id", id, "Authorization", auth(mineToken)); resp.StatusCode != http.StatusOK || !strings.Contains(answer, "read_text_file") {
		t.Errorf("the session of the panel: %s, %s", resp.Status, answer)
	}
	again := w.open(t, "panels/mine")
	renewed, _ := again.Token()
	if resp, answer := w.raw(t, "POST", list, "Mcp-Session-Id", id, "Authorization", auth(renewed)); resp.StatusCode != http.StatusOK {
		t.Errorf("the session with another token of the panel: %s, %s", resp.Status, answer)
	}
	if resp, _ := w.raw(t, "DELETE", "", "Mcp-Session-Id", id, "Authorization", auth(mineToken)); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	if resp, _ := w.raw(t, "POST", list, "Mcp-Session-Id", id, "Authorization", auth(mineToken)); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the session after DELETE: %s", resp.Status)
	}
}

// TestClosingThePanelEndsItsSessions closes a panel while its clients wait for notifications.
func TestClosingThePanelEndsItsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(t, "panels/closed")
	token, _ := p.Token()
	m := connect(t, w.overHTTP(t, func() string { return token }), withSessions)
	if err := m.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "ctxfs://" + p.ContextID() + "/README.md"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.host.ClosePanel(t.Context(), "panels/closed"); err != nil {
		t.Fatal(err)
	}
	_ = m.Wait() // the stream of notifications ends
	if _, err := m.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_directory", Arguments: object{"path": "/"}}); err == nil {
		t.Error("the tools work after the panel was closed")
	}
}

// TestSessionsAreBounded begins more sessions than a panel may have.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	w := newWorld(t, nil)
	token, _ := w.open(t, "panels/many").Token()
	other, _ := w.open(t, "panels/other").Token()
	refused := 0
	for range 40 {
		if resp, _ := w.raw(t, "POST", initialize, "Authorization", "Bearer "+token); resp.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("%d sessions of 40 were refused", refused)
	}
	if resp, answer := w.raw(t, "POST", initialize, "Authorization", "Bearer "+other); resp.StatusCode != http.StatusOK {
		t.Errorf("another panel's session: %s, %s", resp.Status, answer)
	}
}
