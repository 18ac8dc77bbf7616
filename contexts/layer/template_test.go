package layer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
)

// templateLayer makes what a build of a template leaves, newer than any other layer; one that was killed lacks the mark.
func (b *bench) templateLayer(digit string, ready bool) string {
	b.t.Helper()
	hash := strings.Repeat(digit, digestLength)
	dir := filepath.Join(b.layers, hash)
	must(b.t, os.MkdirAll(filepath.Join(dir, treeName), 0o755))
	_, err := (&seed.Manifest{Template: hash}).Write(filepath.Join(dir, ManifestName))
	must(b.t, err)
	later := time.Now().Add(time.Hour)
	must(b.t, os.Chtimes(filepath.Join(dir, ManifestName), later, later))
	if ready {
		must(b.t, os.WriteFile(filepath.Join(dir, ".template-ready"), nil, 0o600))
	}
	if template.IsLayer(dir) != ready {
		b.t.Fatal("the fixture is not what package template makes")
	}
	return dir
}

func TestTemplateLayersAreNotOurs(t *testing.T) {
	b := newBench(t)
	ours := b.build(nil)
	ready, killed := b.templateLayer("a", true), b.templateLayer("b", false)
	s := New(b.layers, nil)
	current, err := s.Current(seed.Scope{})
	must(t, err)
	if current == nil || current.Digest != ours.Digest {
		t.Errorf("current is %+v, want %s", current, ours.Digest)
	}
	unused, err := s.Unused(nil)
	must(t, err)
	if len(unused) != 1 || unused[0] != filepath.Base(killed) {
		t.Errorf("unused are %v; %s is a template", unused, filepath.Base(ready))
	}
}
