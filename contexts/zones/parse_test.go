package zones

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestLayoutIsRead(t *testing.T) {
	got, err := Parse("p/context-zones.yml", []byte(`mode: sandboxed
zones:
  /workspace: {from: repositories}
  /cache:     {commit: never, max_bytes: 2GiB, keep: 168h, shared: false}
  /docs:      {read_only: true}
  /drafts:
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Layout{Mode: Sandboxed, Zones: []Zone{
		{Path: "/workspace", From: []string{Repositories}}, {Path: "/cache", NeverCommit: true, MaxBytes: 2 << 30, Keep: 168 * time.Hour}, {Path: "/docs", ReadOnly: true}, {Path: "/drafts"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	single, err := Parse("p", []byte("mode: direct\nzones: {/workspace: {dir: .}}"))
	if err != nil || single.Zones[0].Dir != "." || len(single.Notes()) == 0 {
		t.Errorf("got %+v, %v, notes %q", single, err, single.Notes())
	}
}

func TestBadLayoutNamesThePlace(t *testing.T) {
	const sandboxed, direct = "mode: sandboxed\nzones:\n", "mode: direct\nzones:\n"
	for _, row := range []struct{ text, want string }{
		{"", "z.yml:1:1: this layout of zones is empty"},
		{"zones: {/a: {}}", "zones have no mode"},
		{"mode: both", "z.yml:1:7: mode must be sandboxed or direct"},
		{"mode: direct", "has no zones"},
		{"mode: sandboxed\nzone: {}", `z.yml:2:1: unknown key "zone"`},
		{"mode: [", "this is not YAML"},
		{sandboxed + "  a: {}", `z.yml:3:3: zone "a": it is not one name`},
		{sandboxed + "  /a/b: {}", "z.yml:3:3"}, {sandboxed + "  /..: {}", "not one name"}, {sandboxed + "  /: {}", "not one name"},
		{sandboxed + "  /.GIT: {}", "git keeps its own data"}, {sandboxed + "  /git~1: {}", "git keeps its own data"}, {sandboxed + "  /.contexts: {}", "ctxfs keeps its own data"},
		{sandboxed + "  /a: {}\n  /A: {}", "z.yml:4:3: zone /A: some file systems do not tell it from zone /a"},
		{sandboxed + "  /a: {}\n  /a: {}", "already at line 3"},
		{sandboxed + "  /a: {from: x}\n  /b: {from: y}", "z.yml:4:3: zone /b: zone /a is seeded already"},
		{sandboxed + "  /a: {dir: x}", "a sandboxed zone is in the context's own folder"},
		{direct + "  /a: {}", "a direct zone needs a directory"},
		{direct + "  /a: {dir: x, from: y}", "is not seeded"}, {direct + "  /a: {dir: x, max_bytes: 1}", "no bound of its own"},
		{sandboxed + "  /a: {from: repositories, commit: never}", "the changes of a seeded zone"},
		{sandboxed + "  /a: {keep: 1h}", "only those of a zone that is never committed"}, {sandboxed + "  /a: {keep: soon}", "z.yml:3:14: keep must be a time"},
		{sandboxed + "  /a: {max_bytes: many}", "max_bytes must be a size"}, {sandboxed + "  /a: {max_bytes: -1}", "max_bytes must be a size"},
		{sandboxed + "  /a: {commit: always}", "commit must be never"}, {sandboxed + "  /a: {read_only: 1}", "must be true or false, not a number"},
		{sandboxed + "  /a: {shared: true}", "cannot be shared"}, {sandboxed + "  /a: &x {}\n  /b: *x", "anchor"},
	} {
		_, err := Parse("z.yml", []byte(row.text))
		if fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "z.yml:") {
			t.Errorf("%q: %v, want %q", row.text, err, row.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("mode: sandboxed\nzones:\n  /a: {from: [x, y], max_bytes: 2GiB, commit: never, keep: 1h}\n"))
	f.Add([]byte("mode: direct\nzones: {/a: {dir: ., read_only: true}}"))
	for _, text := range []string{
		"", "mode: none", "mode: direct\nmode: sandboxed", "zones: {/: {}, /..: {}, /.git: {}, /a/b: {}}", "mode: direct\nzones: {/a: {dir: ../x}}", "zones: {/a: {max_bytes: -1, keep: 9e99h}}",
		"mode: sandboxed\nzones: {/a: {from: []}, /A: {}}", "x: &x [*x, *x]\nzones: *x", "zones:\n  /a: &a {commit: never}\n  /b: *a\n", "\xff\xfe", "zones: {/a\x00: {}}", "--- 1\n--- 2\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Parse("z.yml", data)
		switch {
		case err == nil && l.Check() != nil:
			t.Errorf("Parse admits what Check refuses: %v", l.Check())
		case err != nil && fserr.CodeOf(err) != fserr.EINVAL && fserr.CodeOf(err) != fserr.EFBIG:
			t.Errorf("%v", err)
		}
	})
}
