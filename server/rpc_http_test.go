package server

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ctxfs/ctxfs/internal/openapi"
)

// rpc calls an RPC by its name, such as FsService/Stat, with a body and further headers as pairs.
func (a *asker) rpc(name, body string, headers ...string) *http.Response {
	a.Helper()
	return a.rpcFrom(name, strings.NewReader(body), headers...)
}

func (a *asker) rpcFrom(name string, body io.Reader, headers ...string) *http.Response {
	a.Helper()
	r, err := http.NewRequestWithContext(a.Context(), http.MethodPost, a.base+"/v1/"+name, body)
	if err != nil {
		a.Fatal(err)
	}
	r.Header = a.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// answered returns an answer's body.
func answered(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("after %.200q: %v", body, err)
	}
	return string(body)
}

// document is what openapi.json says.
type document struct{ *openapi3.T }

func loadDocument(t *testing.T) document {
	t.Helper()
	text, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return document{d}
}

// check fails when a line of an answer is not what the document says that an RPC answers, or has a field that it does not know.
func (d document) check(t *testing.T, rpc string, status int, line string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(line), &value); err != nil {
		t.Errorf("a line is %.200q: %v", line, err)
		return
	}
	schema := d.Components.Schemas["Status"].Value
	if status == http.StatusOK {
		for _, media := range d.Paths.Value("/v1/" + rpc).Post.Responses.Status(status).Value.Content {
			schema = media.Schema.Value
		}
	}
	if err := schema.VisitJSON(value); err != nil {
		t.Errorf("%s answers %.300s: %v", rpc, line, err)
	}
	if len(schema.AnyOf) > 0 {
		schema = schema.AnyOf[0].Value
	}
	for field := range value.(map[string]any) {
		if schema.Properties[field] == nil {
			t.Errorf("%s answers %.300s: the document has no field %s", rpc, line, field)
		}
	}
}

// TestCallsInJSON makes calls of each kind, by each way.
func TestCallsInJSON(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	folder := r.folder("ctx_p")
	described := loadDocument(t)
	write(t, filepath.Join(folder, "a.txt"), "hello\n")
	write(t, filepath.Join(folder, "dir", "b"), "")
	large := strings.Repeat("0123456789abcdef", 1<<20/16)
	write(t, filepath.Join(folder, "large"), large)
	for _, c := range []struct {
		name, rpc, body string
		status          int
		// want is a part of the answer.
		want, errno string
	}{
		{"text", "FsService/ReadFile", `{"path":"/a.txt","encoding":"utf8"}`, 200, `"text":"hello\n"`, ""},
		{"bytes are base64", "FsService/ReadFile", `{"path":"/a.txt"}`, 200, `"data":"aGVsbG8K"`, ""},
		{"64 bits are strings", "FsService/Stat", `{"path":"/a.txt"}`, 200, `"size":"6"`, ""},
		{"names in lower camel case", "FsService/Readdir", `{"path":"/dir","withFileTypes":true}`, 200, `"name":"b"`, ""},
		{"names in snake case", "FsService/Readdir", `{"path":"/dir","with_file_types":true}`, 200, `"name":"b"`, ""},
		{"a stream", "FsService/Glob", `{"patterns":["**/*.txt"]}`, 200, "a.txt", ""},
		{"a stream that fails at once", "FsService/Glob", `{"patterns":["["]}`, 400, `"reason":"EINVAL"`, "EINVAL"},
		{"a stream of content", "FsService/ReadStream", `{"path":"/a.txt"}`, 200, `{"data":"aGVsbG8K"}`, ""},
		{"an empty reply", "FsService/Mkdir", `{"path":"/made","recursive":true}`, 200, "{", ""},
		{"no body", "FsService/ListHandles", "", 200, "{}", ""},
		{"an errno", "FsService/ReadFile", `{"path":"/nope"}`, 404, `{"code":5,"message":"ENOENT: no such file or directory, open '/nope'","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ENOENT"`, "ENOENT"},
		{"a host's call", "PanelService/ListPanels", `{}`, 403, "this call is for hosts", "EACCES"},
		{"an unknown field", "FsService/Stat", `{"pth":"/"}`, 400, `unknown field \"pth\"`, "EINVAL"},
		{"no JSON", "FsService/Stat", `{"path":`, 400, "the request is no StatRequest in JSON", "EINVAL"},
		{"a value of another type", "FsService/Stat", `{"path":7}`, 400, "invalid value for string field path", "EINVAL"},
		{"two values", "FsService/Stat", `{"path":"/"}{}`, 400, "EINVAL", "EINVAL"},
		{"deep nesting", "FsService/Glob", `{"patterns":` + strings.Repeat("[", 100_000), 400, "EINVAL", "EINVAL"},
		{"not UTF-8", "FsService/Stat", "{\"path\":\"\xff\"}", 400, "EINVAL", "EINVAL"},
		{"a reply of 1 MiB", "FsService/ReadFile", `{"path":"/large","encoding":"latin1"}`, 200, large, ""},
		{"above", "FsService/ReadFile", `{"path":"/../../etc/passwd"}`, 403, "EACCES", "EACCES"},
		{"another context", "FsService/ReadFile", `{"contextId":"ctx_q","path":"/a"}`, 403, "EACCES", "EACCES"},
		{"a stream of requests", "FsService/WriteStream", `{}`, 501, "PUT /v1/content", "EOPNOTSUPP"},
		{"an RPC that is not there", "FsService/ReadFiel", `{}`, 404, "did you mean POST /v1/FsService/ReadFile?", "ENOSYS"},
		{"an RPC of another service", "fs/readFile", `{}`, 404, "did you mean POST /v1/FsService/ReadFile?", "ENOSYS"},
		{"an RPC like none", "FsService/Nope", `{}`, 404, "; GET /v1/openapi.json", "ENOSYS"},
		{"an RPC of gRPC's own", "Health/Check", `{}`, 404, "no RPC is called", "ENOSYS"},
		{"an RPC of another package", "grpc.health.v1.Health/Check", `{}`, 404, "no RPC is called", "ENOSYS"},
	} {
		for by, a := range askBy(t, r, token) {
			t.Run(c.name+"/"+by, func(t *testing.T) {
				a.T = t
				resp := a.rpc(c.rpc, c.body)
				body := answered(t, resp)
				if resp.StatusCode != c.status || resp.Header.Get("Ctxfs-Error") != c.errno || !strings.Contains(body, c.want) {
					t.Fatalf("%d, errno %q: %.400s; want %d, %q, %.100s", resp.StatusCode, resp.Header.Get("Ctxfs-Error"), body, c.status, c.errno, c.want)
				}
				if strings.Contains(body, folder) || !strings.HasSuffix(body, "\n") {
					t.Errorf("it says %s", body)
				}
				for line := range strings.Lines(body) {
					described.check(t, c.rpc, resp.StatusCode, line)
				}
			})
		}
	}
}
