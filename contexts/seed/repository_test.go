package seed_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/seed"
)

// TestManifestWithNamesThatAreNotUTF8 reads what was written: a manifest with other names is taken for another layer's.
func TestManifestWithNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	for name, repo := range map[string]seed.Repository{
		"text": {Path: "é", Head: "1", Branch: "main", Dirty: true}, "path": {Path: "r\xe9", Branch: "main"}, "branch": {Path: ".", Branch: "b\xe9"},
	} {
		file := filepath.Join(t.TempDir(), "manifest")
		written, err := (&seed.Manifest{Repos: []seed.Repository{repo}}).Write(file)
		if err != nil {
			t.Fatal(err)
		}
		m, digest, err := seed.Inspect(file)
		if err != nil || digest != written || !reflect.DeepEqual(m.Repos, []seed.Repository{repo}) {
			t.Errorf("%s: read %+v of digest %s, %v; want %+v of %s", name, m.Repos, digest, err, repo, written)
		}
	}
}
