package openapi_test

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/manual"
	"github.com/ctxfs/ctxfs/internal/openapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDocumentIsValid has a library that others validate with read the document, and checks that each RPC and each field is described.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	files, err := manual.Load()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range files.Services() {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			path := "/v1/" + string(s.Name()) + "/" + string(m.Name())
			item := doc.Paths.Value(path)
			if (item != nil) == m.IsStreamingClient() {
				t.Errorf("%s: described %v, though its requests are a stream is %v", path, item != nil, m.IsStreamingClient())
			}
			if item == nil {
				continue
			}
			n++
			if op := item.Post; op.Summary == "" || strings.Contains(op.Summary, "\n") || !strings.Contains(op.Description, manual.Comment(m)) {
				t.Errorf("%s: summary %q, description %q", path, op.Summary, op.Description)
			}
		}
	}
	if n != doc.Paths.Len() || n < 100 {
		t.Errorf("%d RPCs, and %d paths", n, doc.Paths.Len())
	}
	for name, schema := range doc.Components.Schemas {
		for field, property := range schema.Value.Properties {
			if property.Ref == "" && property.Value.Description == "" && name != "Any" && name != "StreamError" {
				t.Errorf("the field %s of %s is not described", field, name)
			}
		}
	}
}

// TestNoStreamedMessageLooksLikeAnError keeps the last line of a stream that fails apart from messages.
func TestNoStreamedMessageLooksLikeAnError(t *testing.T) {
	t.Parallel()
	files, err := manual.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range files.Services() {
		for i := range s.Methods().Len() {
			if m := s.Methods().Get(i); m.IsStreamingServer() && !m.IsStreamingClient() && m.Output().Fields().ByJSONName("error") != nil {
				t.Errorf("%s has a field error: a reader of its lines takes it for the end of the stream", m.Output().FullName())
			}
		}
	}
}
