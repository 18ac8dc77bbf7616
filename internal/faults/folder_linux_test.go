package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
)

// secret is what lies outside of all contexts.
const secret = "outside of all contexts\n"

// TestAFolderReplacedUnderneath has somebody remove or replace the folder of a context that has a handle open.
func TestAFolderReplacedUnderneath(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "kept"), []byte(secret), 0o644))
	for _, c := range []struct {
		name string
		// put is what is done with the folder, which was moved to aside.
		put func(folder, aside string) error
		// refused says that the next access is EEXIST; else it finds a file kept with this content, none for "".
		refused bool
		content string
	}{
		{"deleted", func(_, aside string) error { return os.RemoveAll(aside) }, false, ""},
		{"another folder", func(folder, _ string) error { return another(folder) }, false, "another's\n"},
		{"a link to outside", func(folder, _ string) error { return os.Symlink(outside, folder) }, true, ""},
		{"a link to another context", func(folder, _ string) error { return os.Symlink("ctx_panels~bystander", folder) }, true, ""},
		{"a dangling link", func(folder, _ string) error { return os.Symlink("/nowhere", folder) }, true, ""},
		{"a file", func(folder, _ string) error { return os.WriteFile(folder, []byte(secret), 0o644) }, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each waits for the server to look
			p := begin(t, nil)
			f := p.panel("panels/victim")
			must(t, f.WriteFile("kept", []byte(kept), 0o644))
			h, err := f.OpenFile("kept", os.O_RDWR, 0)
			must(t, err)
			folder, aside := p.folderOf("panels/victim"), filepath.Join(p.Info().Workspace, "aside")
			must(t, os.Rename(folder, aside))
			must(t, c.put(folder, aside))
			p.noticed(h)
			if c.refused {
				p.refuses(f)
				must(t, os.Remove(folder))
				p.panel("panels/victim")
				wantNone(t, f, "kept")
			} else {
				p.serves(f, c.content)
			}
			wantCode(t, "write to the handle of before", writes(h), fserr.ESTALE)
			must(t, f.WriteFile("kept", []byte(kept), 0o644))
			wantFile(t, f, "kept", kept)
			p.othersGoOn()
			p.clean()
			if data, err := os.ReadFile(filepath.Join(outside, "kept")); err != nil || string(data) != secret {
				t.Errorf("what lies outside became %q, %v", data, err)
			}
		})
	}
}

func another(folder string) error {
	return errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "kept"), []byte("another's\n"), 0o644))
}

func writes(h *client.File) error {
	_, err := h.WriteAt([]byte("x"), 0)
	return err
}

// noticed waits until the server has looked at the folder again, which it does each second.
func (p *play) noticed(h *client.File) {
	p.Helper()
	eventually(p, "the server notices", func() bool {
		_, err := h.Stat()
		return fserr.CodeOf(err) != 0
	})
}

// refuses checks that a context answers nothing but what stands there, whoever asks and for whatever.
func (p *play) refuses(f *client.FS) {
	p.Helper()
	_, read := f.ReadFile("kept")
	_, list := f.ReadDir(".")
	_, open := p.host.OpenPanel(p.Context(), "panels/victim")
	_, ensure := p.host.EnsureContext(p.Context(), "ctx_panels~victim", nil)
	_, gone := p.host.DeleteContext(p.Context(), "ctx_panels~victim", client.DiscardChanges)
	_, fork := p.host.Fork(p.Context(), "ctx_panels~victim", "ctx_fork")
	for what, err := range map[string]error{
		"read": read, "list": list, "write": f.WriteFile("new", nil, 0o644), "open a panel": open, "ensure": ensure, "delete": gone, "fork": fork,
	} {
		wantCode(p, what, err, fserr.EEXIST)
		if err != nil && strings.Contains(err.Error(), strings.TrimSpace(secret)) {
			p.Errorf("%s tells %v", what, err)
		}
	}
}

// serves checks what a context that is there again holds.
func (p *play) serves(f *client.FS, content string) {
	p.Helper()
	if content != "" {
		wantFile(p, f, "kept", content)
		return
	}
	wantNone(p, f, "kept")
	if _, err := f.Stat("app/src/main.go"); err != nil {
		p.Errorf("it was not seeded anew: %v", err)
	}
}

// TestAFolderMovedAndPutBack is the same folder all the time: nothing becomes stale.
func TestAFolderMovedAndPutBack(t *testing.T) {
	p := begin(t, nil)
	f := p.panel("panels/victim")
	h, err := f.OpenFile("kept", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	folder, aside := p.folderOf("panels/victim"), filepath.Join(p.Info().Workspace, "aside")
	must(t, os.Rename(folder, aside))
	must(t, os.Rename(aside, folder))
	_, err = h.WriteString(kept)
	must(t, err)
	wantFile(t, f, "kept", kept)
}
