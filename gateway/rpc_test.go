package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// FuzzRPCRequest looks for a request that is accepted though it is no JSON object, or that does not come back as it was read, and for a
// refusal that quotes too much.
func FuzzRPCRequest(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"path":"/a"}`, `{"path":"/a","path":"/b"}`, `{"rawPath":"L/8="}`, `{"raw_path":"L/8"}`, `{"path":null}`, `[]`, `null`, `{"position":"9223372036854775808"}`,
		`{"position":1e3}`, `{"data":"AA==","text":"x"}`, `{"withFileTypes":"true"}`, `{"path":"\ud800"}`, "{\"path\":\"\x00\"}", `{"patterns":[[[[`, `{"a":{"a":{"a":1}}}`, `{"path":"/a"} {}`,
		`{"decisions":[{"path":"/a","hunks":[1,2]}]}`, "\xef\xbb\xbf{}", `{"fd":3.0}`, `{"fd":-0}`, `{"mode":4294967296}`, `{"modeOctal":"0644","mode":1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range []proto.Message{
			&ctxfsv1.StatRequest{}, &ctxfsv1.WriteFileRequest{}, &ctxfsv1.WriteRequest{}, &ctxfsv1.GlobRequest{}, &ctxfsv1.DecideRequest{}, &ctxfsv1.OpenPanelRequest{}, &ctxfsv1.RunRequest{},
		} {
			err := decodeRequest(body, m)
			if err != nil {
				if fserr.CodeOf(err) != fserr.EINVAL || len(err.Error()) > 2*maxComplaint+200 || !utf8.ValidString(err.Error()) {
					t.Errorf("%q is refused with %v", body, err)
				}
				continue
			}
			if len(body) > 0 && (!json.Valid(body) || bytes.TrimSpace(body)[0] != '{') {
				t.Errorf("%q is accepted", body)
			}
			text, err := protojson.Marshal(m)
			if err != nil {
				t.Fatalf("%q is read as %v, which cannot be written: %v", body, m, err)
			}
			var want bytes.Buffer
			if err := json.Compact(&want, text); err != nil {
				t.Fatal(err)
			}
			again := m.ProtoReflect().New().Interface()
			if text = compact(text); !bytes.Equal(text, want.Bytes()) {
				t.Errorf("%s: compacted to %s", want.Bytes(), text)
			}
			if err := decodeRequest(text, again); err != nil || !proto.Equal(m, again) {
				t.Errorf("%q is read as %v, and its JSON %s as %v, %v", body, m, text, again, err)
			}
		}
	})
}

// TestLongNamesOfRPCsAreNotCompared counts allocations, of which a comparison makes one for each RPC.
func TestLongNamesOfRPCsAreNotCompared(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocations := func(length int) float64 {
		name := "FsService/" + strings.Repeat("r", length)
		return testing.AllocsPerRun(10, func() { _ = unknownRPC(name) })
	}
	if short, long := allocations(80), allocations(16<<10); long > short-20 {
		t.Errorf("a name of 16 KiB takes %v allocations, one of 90 bytes %v", long, short)
	}
}

func TestCompactKeepsTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "{}": "{}", `{"a": "b  c",  "d": [1, 2]}`: `{"a":"b  c","d":[1,2]}`, `{"a\" b": "\\", "c": " \" "}`: `{"a\" b":"\\","c":" \" "}`,
	} {
		if got := string(compact([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
