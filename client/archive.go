package client

import (
	"context"
	"errors"
	"io"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ExportOptions of Export.
type ExportOptions struct {
	// Format is tar if it is not set.
	Format ctxfsv1.ArchiveFormat
	// Exclude are globs of what is left out; one without a slash is matched with the name.
	Exclude []string
	// Git exports .git too, which is left out otherwise.
	Git bool
}

// Export writes a directory with all below it, or one file, into an archive. What it writes is complete only if it returns no error. The
// summary says what could not be read.
func (f *FS) Export(w io.Writer, name string, o ExportOptions) (*ctxfsv1.ArchiveSummary, error) {
	ctx, cancel := f.streamContext()
	defer cancel()
	p, raw := f.wire(dirOrRoot(name))
	s, err := f.rpc.Export(ctx, &ctxfsv1.ExportRequest{ContextId: f.id, Path: p, RawPath: raw, Format: o.Format, Exclude: o.Exclude, Git: o.Git})
	for err == nil {
		var r *ctxfsv1.ExportResponse
		if r, err = s.Recv(); err != nil {
			break
		}
		if r.GetSummary() != nil {
			return r.GetSummary(), nil
		}
		if _, err := w.Write(r.GetChunk()); err != nil {
			return nil, err
		}
	}
	return nil, f.pathError("export", name, unlessEnded(err))
}

// ImportOptions of Import.
type ImportOptions struct {
	// Format is tar if it is not set.
	Format ctxfsv1.ArchiveFormat
	// Overwrite replaces existing files. Without it, a file that exists is an error, and nothing is changed.
	Overwrite bool
}

// Import extracts the archive that r returns into a directory, which is made if it is missing. If it fails, nothing has changed, unless the
// server was killed while it moved entries into a directory that exists: then some are new and others are not, and with Overwrite the old
// content of the files that were replaced by then is lost.
func (f *FS) Import(r io.Reader, name string, o ImportOptions) (*ctxfsv1.ArchiveSummary, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	p, raw := f.wire(dirOrRoot(name))
	s, err := f.rpc.Import(ctx)
	if err != nil {
		return nil, f.pathError("import", name, err)
	}
	open := &ctxfsv1.ImportOpen{ContextId: f.id, Path: p, RawPath: raw, Format: o.Format, Overwrite: o.Overwrite}
	sendErr := s.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: open}})
	buf := make([]byte, streamChunk)
	for done := false; sendErr == nil && !done; {
		n, err := io.ReadFull(r, buf)
		done = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !done {
			return nil, err // cancel ends the call
		}
		if n > 0 {
			sendErr = s.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: buf[:n]}})
		}
	}
	resp, err := s.CloseAndRecv() // it also says why sending failed
	if err != nil {
		return nil, f.pathError("import", name, err)
	}
	return resp.GetSummary(), nil
}
