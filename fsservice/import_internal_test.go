package fsservice

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestArchiveInAFileIsNotReadAfterTheCall reads an archive whose call was cancelled.
func TestArchiveInAFileIsNotReadAfterTheCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range []ctxfsv1.ArchiveFormat{ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR, ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP} {
		x := &importer{reserve: func(int64) error { return nil }}
		r, err := x.reader(format, &archiveFile{ctx, io.NewSectionReader(strings.NewReader(strings.Repeat("\x00", 4096)), 0, 4096)})
		if err == nil {
			_, _, err = r.Next()
		}
		if fserr.CodeOf(err) != fserr.ECANCELED {
			t.Errorf("%v: %v, want ECANCELED", format, err)
		}
	}
}
