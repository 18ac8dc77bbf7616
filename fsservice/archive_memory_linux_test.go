package fsservice_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc/metadata"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// withMemory returns a call's context of a panel that may hold so many bytes; a quarter of them are taken.
func (w *world) withMemory(bytes int64) context.Context {
	return metadata.AppendToOutgoingContext(w.as("a"), "memory", strconv.FormatInt(bytes, 10))
}

// noMemory is the error when the panel may not hold the memory of names.
const noMemory = "EAGAIN: no memory for the names of a directory: unread replies and requests under way take what this panel may hold; read the replies that were asked for, or ask for less at once"

// TestImportCountsEachNameOnce imports n directories, of which each takes about 150 bytes.
func TestImportCountsEachNameOnce(t *testing.T) {
	t.Parallel()
	const n = 2000
	var headers []*tar.Header
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w := newWorld(t)
	for i := range n {
		name := fmt.Sprintf("directory-%04d/", i)
		headers = append(headers, &tar.Header{Typeflag: tar.TypeDir, Name: name})
		_, err := z.Create(name)
		w.must(err)
	}
	w.must(z.Close())
	packed := tarOf(t, headers...)
	// directory is what the directory of the zip archive takes while it is read, with what a buffer reads beyond.
	const directory = 8 * (n*(46+15) + 5<<10)
	for _, c := range []struct {
		name    string
		format  ctxfsv1.ArchiveFormat
		archive []byte
		memory  int64
		want    string
	}{
		{"tar", asTar, packed, n * 150, ""},
		{"tar with too little memory", asTar, packed, n * 130, noMemory},
		{"zip", asZip, zipped.Bytes(), directory + n*150, ""},
		{"zip with too little memory", asZip, zipped.Bytes(), directory + n*100, noMemory},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.importsWith(w.withMemory(c.memory*4/3), &ctxfsv1.ImportOpen{Path: "/" + c.name, Format: c.format}, c.archive)
			w.wantError(err, c.want)
		})
	}
	w.nothingHidden()
}

// TestExportCountsTheNamesThatItKeeps exports 1,000 names of 500 files. An entry of a zip archive, and a file with two names, takes about
// 256 bytes.
func TestExportCountsTheNamesThatItKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 500 {
		name := fmt.Sprintf("d%d/%d", i/20, i)
		w.put(name, "")
		w.must(os.Link(filepath.Join(w.dir, name), filepath.Join(w.dir, name+"-again")))
	}
	for _, c := range []struct {
		name   string
		format ctxfsv1.ArchiveFormat
		memory int64
		want   string
	}{
		{"zip", asZip, 350_000, ""},
		{"zip with too little memory", asZip, 230_000, noMemory},
		{"tar", asTar, 200_000, ""},
		{"tar with too little memory", asTar, 110_000, noMemory},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream, err := w.client.Export(w.withMemory(c.memory*4/3), &ctxfsv1.ExportRequest{Format: c.format})
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.wantError(err, c.want)
		})
	}
}
