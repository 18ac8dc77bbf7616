package ledger

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func archiveOperations() []operation {
	return []operation{{"import", importFile}, {"extract", extractFile}, {"editFile", editFile}}
}

// archiveOf makes a tar archive of one file.
func archiveOf(name, text string, perm fs.FileMode) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	_ = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: int64(perm)}) // memory takes it
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.Bytes()
}

// toImport is a path for a file of an archive: one where nothing stands, or else a file, which is overwritten.
func (l *lane) toImport() (at string, overwrite bool) {
	if at = l.free(fileSlots); at == "" {
		return l.one(isFile), true
	}
	return at, false
}

func importFile(l *lane) []step {
	at, overwrite := l.toImport()
	text, perm := l.content(), pick(l, filePerms)
	return single(step{
		name: "import", after: l.state.with(at, file(text, perm)),
		do: func() error {
			_, err := l.fsys.Import(bytes.NewReader(archiveOf(path.Base(at), text, perm)), l.at(path.Dir(at)), client.ImportOptions{Overwrite: overwrite})
			return err
		},
	}, at)
}

// extractFile imports an archive that was written through a handle. The handle's own file never appears.
func extractFile(l *lane) []step {
	at, overwrite := l.toImport()
	text, perm := l.content(), pick(l, filePerms)
	return single(step{
		name: "extract", after: l.state.with(at, file(text, perm)),
		do: func() error {
			open := &ctxfsv1.OpenRequest{Path: l.prefix + "/" + at, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w+"}, Atomic: true}
			handle, err := l.raw.Open(l.ctx, open)
			if err != nil {
				return err
			}
			archive := archiveOf(path.Base(at), text, perm)
			if _, err := l.raw.Write(l.ctx, &ctxfsv1.WriteRequest{Fd: handle.GetFd(), Content: &ctxfsv1.WriteRequest_Data{Data: archive}}); err != nil {
				return err
			}
			if _, err := l.raw.Extract(l.ctx, &ctxfsv1.ExtractRequest{Fd: handle.GetFd(), Path: l.prefix + "/" + path.Dir(at), Overwrite: overwrite}); err != nil {
				return err
			}
			_, err = l.raw.Close(l.ctx, &ctxfsv1.CloseRequest{Fd: handle.GetFd()})
			return err
		},
	}, at)
}

// editFile replaces the one line of a file.
func editFile(l *lane) []step {
	at, text := l.one(func(_ string, n node) bool {
		return n.kind == 0 && n.text != "" && !strings.ContainsAny(n.text, "\x00\n")
	}), l.content()
	return single(step{
		name: "editFile", after: l.replaced(at, text),
		do: func() error {
			_, err := l.fsys.EditFile(l.at(at), []client.Edit{{New: text, StartLine: 1, EndLine: 1}}, client.EditOptions{})
			return err
		},
	}, at)
}

// export reads a file from an archive.
func export(l *lane) []step {
	at := l.one(isFile)
	want := l.state[at].text
	return reading("export", func() error {
		var archive bytes.Buffer
		if _, err := l.fsys.Export(&archive, l.at(at), client.ExportOptions{}); err != nil {
			return err
		}
		r := tar.NewReader(&archive)
		_, err := r.Next()
		if err != nil {
			return &wrongRead{at + " is exported as no archive: " + err.Error()}
		}
		got, err := io.ReadAll(r)
		return equalText(at, want, got, err)
	}, at)
}
