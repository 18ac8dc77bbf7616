package catalog

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestParseID(t *testing.T) {
	good := map[string]IDParts{
		"ctx_x":                            {Mode: ModeSafe, InstanceID: "x"},
		"ctx_a~b.c-D_9":                    {Mode: ModeSafe, InstanceID: "a~b.c-D_9"},
		"safe_tpl_0123456789ab_panel~x":    {Mode: ModeSafe, TemplateHash: "0123456789ab", InstanceID: "panel~x"},
		"unsafe_noctx_tool":                {Mode: ModeUnsafe, InstanceID: "tool"},
		"ctx_" + strings.Repeat("x", 196):  {Mode: ModeSafe, InstanceID: strings.Repeat("x", 196)},
		"ctx_safe_tpl_0123456789ab_nested": {Mode: ModeSafe, InstanceID: "safe_tpl_0123456789ab_nested"},
	}
	for id, want := range good {
		got, err := ParseID(id)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", id, got, err, want)
		}
	}
	for _, id := range []string{
		"", "x", "ctx_", "ctx_.", "ctx_..", "ctx_a/b", `ctx_a\b`, "ctx_a b", "ctx_a\x00", "ctx_ä", "CTX_a", "unsafe_tpl_0123456789ab_x",
		"safe_tpl_0123456789a_x", "safe_tpl_0123456789AB_x", "safe_tpl_0123456789ab_", "unsafe_noctx_", "ctx_" + strings.Repeat("x", 197), "ctx_a\n",
	} {
		if _, err := ParseID(id); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%q: got %v, want EINVAL", id, err)
		}
	}
}

// A parsed ID is one name of a folder that cannot lead anywhere else.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"ctx_x", "safe_tpl_0123456789ab_x", "unsafe_noctx_y", "ctx_../..", "ctx_\x00", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseID(s)
		if err != nil {
			return
		}
		if len(s) > MaxID || filepath.Base(s) != s || strings.ContainsAny(s, "/\\\x00:") || strings.HasPrefix(s, ".") || p.InstanceID == "" {
			t.Errorf("%q was accepted as %+v", s, p)
		}
		if !strings.HasSuffix(s, p.InstanceID) {
			t.Errorf("%q has the instance %q", s, p.InstanceID)
		}
	})
}

func FuzzIDForPanel(f *testing.F) {
	for _, s := range []string{"panels/editor", "a:b", "..", "", "a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := IDForPanel(s)
		if err != nil {
			return
		}
		if p, err := ParseID(string(id)); err != nil || p.TemplateHash != "" || p.Mode != ModeSafe {
			t.Errorf("panel %q got %q: %+v, %v", s, id, p, err)
		}
	})
}
