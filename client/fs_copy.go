package client

import ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"

// CopyMode is CopyFile's mode, as Node's constants.
type CopyMode int32

// The bits of CopyMode.
const (
	// CopyExclusive refuses an existing destination (COPYFILE_EXCL).
	CopyExclusive CopyMode = 1
	// CopyClone shares the content where the file system can (COPYFILE_FICLONE).
	CopyClone CopyMode = 2
	// CopyCloneForce fails where it cannot (COPYFILE_FICLONE_FORCE).
	CopyCloneForce CopyMode = 4
)

// CopyFile copies one file on the server, following a link at from, and returns its size.
func (f *FS) CopyFile(from, to string, mode CopyMode) (int64, error) {
	p, raw := f.wire(from)
	d, rawDest := f.wire(to)
	r, err := f.rpc.CopyFile(f.ctx, &ctxfsv1.CopyFileRequest{
		ContextId: f.id, Path: p, RawPath: raw, Dest: d, RawDest: rawDest, Mode: int32(mode),
		IfMatch: f.conditions.IfMatch, DestIfMatch: f.conditions.DestIfMatch, DestIfNoneMatch: f.conditions.destNone(),
	})
	return r.GetBytesCopied(), f.linkError("copyfile", from, to, err)
}

// CopyOptions of Cp, named as in fs.cp of Node.
type CopyOptions struct {
	Recursive bool
	// Dereference copies what links point to instead of links.
	Dereference bool
	// NoForce keeps existing files; with ErrorOnExist they are EEXIST.
	NoForce, ErrorOnExist bool
	PreserveTimestamps    bool
	// VerbatimSymlinks keeps link targets byte for byte; otherwise relative ones become absolute.
	VerbatimSymlinks bool
	Mode             CopyMode
}

// Copied says what Cp did.
type Copied struct {
	// Files and links made, and bytes of content.
	Files, Bytes int64
	// SpecialSkipped counts FIFOs, sockets and devices.
	SpecialSkipped int64
	// Unstable names files that kept changing while they were copied.
	Unstable []string
}

// Cp copies a file or, with Recursive, a tree on the server.
func (f *FS) Cp(from, to string, o CopyOptions) (Copied, error) {
	p, raw := f.wire(from)
	d, rawDest := f.wire(to)
	force := !o.NoForce
	r, err := f.rpc.Cp(f.ctx, &ctxfsv1.CpRequest{
		ContextId: f.id, Path: p, RawPath: raw, Dest: d, RawDest: rawDest,
		Recursive: o.Recursive, Dereference: o.Dereference, Force: &force, ErrorOnExist: o.ErrorOnExist,
		PreserveTimestamps: o.PreserveTimestamps, VerbatimSymlinks: o.VerbatimSymlinks, Mode: int32(o.Mode),
	})
	done := Copied{Files: r.GetFilesCopied(), Bytes: r.GetBytesCopied(), SpecialSkipped: r.GetSpecialSkipped(), Unstable: r.GetUnstable()}
	return done, f.linkError("cp", from, to, err)
}
