package fsservice

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// paths has the RPCs that work on paths.
type paths struct{ *opener }

// Stat implements FsService.
func (s *paths) Stat(ctx context.Context, req *ctxfsv1.StatRequest) (*ctxfsv1.StatResponse, error) {
	return onPath(ctx, s.opener, "stat", reads, req, func(c *call) (*ctxfsv1.StatResponse, error) {
		st, err := c.attributes(true)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.StatResponse{Stat: wireStat(st), Etag: etagOf(c.generation, st)}, nil
	})
}

// Lstat implements FsService.
func (s *paths) Lstat(ctx context.Context, req *ctxfsv1.LstatRequest) (*ctxfsv1.LstatResponse, error) {
	return onPath(ctx, s.opener, "lstat", reads, req, func(c *call) (*ctxfsv1.LstatResponse, error) {
		st, err := c.attributes(false)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.LstatResponse{Stat: wireStat(st), Etag: etagOf(c.generation, st)}, nil
	})
}

// Statfs implements FsService.
func (s *paths) Statfs(ctx context.Context, req *ctxfsv1.StatfsRequest) (*ctxfsv1.StatfsResponse, error) {
	return onPath(ctx, s.opener, "statfs", reads, req, func(c *call) (*ctxfsv1.StatfsResponse, error) {
		st, err := c.root.Statfs(c.path)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.StatfsResponse{
			Type: st.Type, Bsize: st.Bsize, Blocks: st.Blocks, Bfree: st.Bfree, Bavail: st.Bavail, Files: st.Files, Ffree: st.Ffree,
		}, nil
	})
}

// Access implements FsService.
func (s *paths) Access(ctx context.Context, req *ctxfsv1.AccessRequest) (*ctxfsv1.AccessResponse, error) {
	const writeBit = 2
	return onPath(ctx, s.opener, "access", reads, req, func(c *call) (*ctxfsv1.AccessResponse, error) {
		if req.GetMode() < 0 || req.GetMode() > 7 {
			return nil, fserr.Invalid("access mode %d is none of 0 to 7", req.GetMode())
		}
		if err := c.root.Access(c.path, uint32(req.GetMode())); err != nil {
			return nil, err
		}
		if req.GetMode()&writeBit != 0 {
			if err := readOnly(c.id); err != nil {
				return nil, err
			}
		}
		return &ctxfsv1.AccessResponse{}, nil
	})
}

// Exists implements FsService.
func (s *paths) Exists(ctx context.Context, req *ctxfsv1.ExistsRequest) (*ctxfsv1.ExistsResponse, error) {
	return onPath(ctx, s.opener, "access", reads, req, func(c *call) (*ctxfsv1.ExistsResponse, error) {
		_, err := c.root.Stat(c.path)
		return &ctxfsv1.ExistsResponse{Exists: err == nil}, nil
	})
}

// Realpath implements FsService.
func (s *paths) Realpath(ctx context.Context, req *ctxfsv1.RealpathRequest) (*ctxfsv1.RealpathResponse, error) {
	return onPath(ctx, s.opener, "realpath", reads, req, func(c *call) (*ctxfsv1.RealpathResponse, error) {
		p, err := c.root.Realpath(c.path)
		if err != nil {
			return nil, err
		}
		text, raw := wirePath(p)
		return &ctxfsv1.RealpathResponse{Path: text, RawPath: raw}, nil
	})
}

// Readlink implements FsService.
func (s *paths) Readlink(ctx context.Context, req *ctxfsv1.ReadlinkRequest) (*ctxfsv1.ReadlinkResponse, error) {
	return onPath(ctx, s.opener, "readlink", reads, req, func(c *call) (*ctxfsv1.ReadlinkResponse, error) {
		target, err := c.root.Readlink(c.path)
		if err != nil {
			return nil, err
		}
		text, raw := wirePath(target)
		return &ctxfsv1.ReadlinkResponse{Target: text, RawTarget: raw}, nil
	})
}

// isDirectory returns EISDIR for a directory.
func isDirectory(st rootfs.Stat) error {
	if st.IsDir() {
		return fserr.EISDIR
	}
	return nil
}

// Lookups is shared by the calls of a session. Calls that came in one message and ask about a directory walk there once.
type Lookups struct {
	// message is the number of the present message; 0 while calls come alone.
	message atomic.Uint64
	// last is the number of the last message.
	last uint64
	// free is the run of lookups of the present message, while no call uses it.
	free atomic.Pointer[lookupsRun]
}

type lookupsRun struct {
	rootfs.Lookups
	root    rootfs.Root
	message uint64
}

type lookupsKey struct{}

// WithLookups returns a context for calls that share the Lookups.
func WithLookups(ctx context.Context) (context.Context, *Lookups) {
	l := &Lookups{}
	return context.WithValue(ctx, lookupsKey{}, l), l
}

// Begin says that the calls that start from now on came in one message. Begin and End are called by one goroutine at a time.
func (l *Lookups) Begin() {
	l.last++
	l.message.Store(l.last)
}

// End says that they did not.
func (l *Lookups) End() {
	l.message.Store(0)
	if run := l.free.Swap(nil); run != nil {
		run.Close()
	}
}

// attributes returns the attributes of the call's path. It follows a final link only if follow is set.
func (c *call) attributes(follow bool) (rootfs.Stat, error) {
	if l, ok := c.Value(lookupsKey{}).(*Lookups); ok {
		if run := l.take(c.root); run != nil {
			defer l.give(run)
			return attributesIn(run, c.path, follow)
		}
	}
	return attributesIn(c.root, c.path, follow)
}

func attributesIn(in interface {
	Stat(path string) (rootfs.Stat, error)
	Lstat(path string) (rootfs.Stat, error)
}, path string, follow bool,
) (rootfs.Stat, error) {
	if follow {
		return in.Stat(path)
	}
	return in.Lstat(path)
}

// take returns the run of the present message; nil when calls come alone.
func (l *Lookups) take(root rootfs.Root) *lookupsRun {
	message := l.message.Load()
	run := l.free.Swap(nil)
	if run != nil && (run.message != message || run.root != root) {
		run.Close()
		run = nil
	}
	if run == nil && message != 0 {
		run = &lookupsRun{root.Lookups(), root, message}
	}
	return run
}

// give takes a run back, or closes it when there is another one or its message is over.
func (l *Lookups) give(run *lookupsRun) {
	if run.message != l.message.Load() || !l.free.CompareAndSwap(nil, run) {
		run.Close()
	}
}

// Chmod implements FsService.
func (s *paths) Chmod(ctx context.Context, req *ctxfsv1.ChmodRequest) (*ctxfsv1.ChmodResponse, error) {
	return onPath(ctx, s.opener, "chmod", writes, req, func(c *call) (*ctxfsv1.ChmodResponse, error) {
		mode, err := wantMode(req.GetModeForm())
		if err != nil {
			return nil, err
		}
		tag, err := c.changeAttributes(req.GetIfMatch(), true, func() error { return c.root.Chmod(c.path, mode) })
		return &ctxfsv1.ChmodResponse{Etag: tag}, err
	})
}

// changeAttributes runs change, which changes the attributes of the call's path, if the path has the etag match. It returns the new etag.
func (c *call) changeAttributes(match string, follow bool, change func() error) (etag string, err error) {
	return guarded(c, func() (string, error) {
		if err := change(); err != nil {
			return "", err
		}
		return c.etag(c.path, follow), nil
	}, target{c.path, follow, condition{match: match}})
}

// wantOwner checks the owner and group that a request must have: -1 to 2^32-2.
func wantOwner(uid, gid *int64) (int64, int64, error) {
	if uid == nil || gid == nil {
		return 0, 0, fserr.Invalid("uid and gid are required; -1 leaves one as it is")
	}
	if outOfRange(*uid) || outOfRange(*gid) {
		return 0, 0, fserr.Invalid("uid %d, gid %d: out of range", *uid, *gid)
	}
	return *uid, *gid, nil
}

func outOfRange(id int64) bool { return id < -1 || id >= math.MaxUint32 }

// Chown implements FsService.
func (s *paths) Chown(ctx context.Context, req *ctxfsv1.ChownRequest) (*ctxfsv1.ChownResponse, error) {
	return onPath(ctx, s.opener, "chown", writes, req, func(c *call) (*ctxfsv1.ChownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		tag, err := c.changeAttributes(req.GetIfMatch(), true, func() error { return c.root.Chown(c.path, uid, gid, true) })
		return &ctxfsv1.ChownResponse{Etag: tag}, err
	})
}

// Lchown implements FsService.
func (s *paths) Lchown(ctx context.Context, req *ctxfsv1.LchownRequest) (*ctxfsv1.LchownResponse, error) {
	return onPath(ctx, s.opener, "lchown", writes, req, func(c *call) (*ctxfsv1.LchownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		tag, err := c.changeAttributes(req.GetIfMatch(), false, func() error { return c.root.Chown(c.path, uid, gid, false) })
		return &ctxfsv1.LchownResponse{Etag: tag}, err
	})
}

// wantTimes checks the times that a request must have.
func wantTimes(atime, mtime *int64) (int64, int64, error) {
	if atime == nil || mtime == nil {
		return 0, 0, fserr.Invalid("atime_ns and mtime_ns are required, in ns since the epoch")
	}
	return *atime, *mtime, nil
}

// Utimes implements FsService.
func (s *paths) Utimes(ctx context.Context, req *ctxfsv1.UtimesRequest) (*ctxfsv1.UtimesResponse, error) {
	return onPath(ctx, s.opener, "utime", writes, req, func(c *call) (*ctxfsv1.UtimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		tag, err := c.changeAttributes(req.GetIfMatch(), true, func() error { return c.root.Utimes(c.path, atime, mtime, true) })
		return &ctxfsv1.UtimesResponse{Etag: tag}, err
	})
}

// Lutimes implements FsService.
func (s *paths) Lutimes(ctx context.Context, req *ctxfsv1.LutimesRequest) (*ctxfsv1.LutimesResponse, error) {
	return onPath(ctx, s.opener, "lutime", writes, req, func(c *call) (*ctxfsv1.LutimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		tag, err := c.changeAttributes(req.GetIfMatch(), false, func() error { return c.root.Utimes(c.path, atime, mtime, false) })
		return &ctxfsv1.LutimesResponse{Etag: tag}, err
	})
}

// Rename implements FsService.
func (s *paths) Rename(ctx context.Context, req *ctxfsv1.RenameRequest) (*ctxfsv1.RenameResponse, error) {
	return onTwoPaths(ctx, s.opener, "rename", req, func(c *call) (*ctxfsv1.RenameResponse, error) {
		tag, err := c.toDest(req, func() error { return c.root.Rename(c.path, c.dest) })
		return &ctxfsv1.RenameResponse{Etag: tag}, err
	})
}

// toDest runs change, which puts the file of the call's path at its dest, if the conditions of a request hold. It returns dest's new
// etag.
func (c *call) toDest(req destCondition, change func() error) (etag string, err error) {
	want, err := destConditionOf(req)
	if err != nil {
		return "", err
	}
	return guarded(c, func() (string, error) {
		if err := change(); err != nil {
			return "", err
		}
		return c.etag(c.dest, false), nil
	}, target{path: c.path, want: condition{match: req.GetIfMatch()}}, target{path: c.dest, want: want})
}

// Link implements FsService.
func (s *paths) Link(ctx context.Context, req *ctxfsv1.LinkRequest) (*ctxfsv1.LinkResponse, error) {
	return onTwoPaths(ctx, s.opener, "link", req, func(c *call) (*ctxfsv1.LinkResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		tag, err := c.toDest(linkRequest{req}, func() error { return c.root.Link(c.path, c.dest) })
		return &ctxfsv1.LinkResponse{Etag: tag}, err
	})
}

// linkRequest is a request whose dest is never replaced.
type linkRequest struct{ *ctxfsv1.LinkRequest }

func (linkRequest) GetDestIfMatch() string { return "" }

// symlinkRequest names the fields as Node's errors do: path is the target, dest the link.
type symlinkRequest struct{ *ctxfsv1.SymlinkRequest }

func (r symlinkRequest) GetPath() string    { return r.GetTarget() }
func (r symlinkRequest) GetRawPath() []byte { return r.GetRawTarget() }
func (r symlinkRequest) GetDest() string    { return r.SymlinkRequest.GetPath() }
func (r symlinkRequest) GetRawDest() []byte { return r.SymlinkRequest.GetRawPath() }

// Symlink implements FsService.
func (s *paths) Symlink(ctx context.Context, req *ctxfsv1.SymlinkRequest) (*ctxfsv1.SymlinkResponse, error) {
	_, targetErr := oneOf("target", req.GetTarget(), req.GetRawTarget())
	_, pathErr := oneOf("path", req.GetPath(), req.GetRawPath())
	if err := errors.Join(targetErr, pathErr); err != nil {
		return nil, fail(err, "symlink", "", "")
	}
	return onTwoPaths(ctx, s.opener, "symlink", symlinkRequest{req}, func(c *call) (*ctxfsv1.SymlinkResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		tag, err := c.makeNew(c.dest, req.GetIfNoneMatch(), func() error { return c.root.Symlink(c.path, c.dest) })
		return &ctxfsv1.SymlinkResponse{Etag: tag}, err
	})
}

// makeNew runs change, which makes path, if nothing has that name or noneMatch does not require it. It returns the new etag.
func (c *call) makeNew(path, noneMatch string, change func() error) (etag string, err error) {
	want, err := conditionOf("", noneMatch)
	if err != nil {
		return "", err
	}
	return guarded(c, func() (string, error) {
		if err := change(); err != nil {
			return "", err
		}
		return c.etag(path, false), nil
	}, target{path: path, want: want})
}

// Unlink implements FsService.
func (s *paths) Unlink(ctx context.Context, req *ctxfsv1.UnlinkRequest) (*ctxfsv1.UnlinkResponse, error) {
	return onPath(ctx, s.opener, "unlink", writes, req, func(c *call) (*ctxfsv1.UnlinkResponse, error) {
		return &ctxfsv1.UnlinkResponse{}, c.removeName(req.GetIfMatch(), c.root.Unlink)
	})
}

// Rmdir implements FsService.
func (s *paths) Rmdir(ctx context.Context, req *ctxfsv1.RmdirRequest) (*ctxfsv1.RmdirResponse, error) {
	return onPath(ctx, s.opener, "rmdir", writes, req, func(c *call) (*ctxfsv1.RmdirResponse, error) {
		return &ctxfsv1.RmdirResponse{}, c.removeName(req.GetIfMatch(), c.root.Rmdir)
	})
}

// Rm implements FsService.
func (s *paths) Rm(ctx context.Context, req *ctxfsv1.RmRequest) (*ctxfsv1.RmResponse, error) {
	return onPath(ctx, s.opener, "rm", writes, req, func(c *call) (*ctxfsv1.RmResponse, error) {
		removed, err := c.remove(req)
		if req.GetForce() && fserr.CodeOf(err) == fserr.ENOENT {
			err = nil
		}
		return &ctxfsv1.RmResponse{Removed: removed}, err
	})
}

// removeName removes the name of the call's path if it has the etag match.
func (c *call) removeName(match string, remove func(path string) error) error {
	_, err := guarded(c, func() (struct{}, error) { return struct{}{}, remove(c.path) }, target{path: c.path, want: condition{match: match}})
	return err
}

// remove removes what the call's path names. What is below a directory is removed without the lock of its name, since that takes long.
func (c *call) remove(req *ctxfsv1.RmRequest) (removed int64, err error) {
	err = c.removeName(req.GetIfMatch(), c.root.Unlink)
	if req.GetRecursive() && err != nil && !isCondition(err) {
		return c.root.RemoveAll(c, c.path)
	}
	if fserr.CodeOf(err) == fserr.EISDIR {
		return 0, &fserr.Error{Code: fserr.EISDIR, Hint: "set recursive to remove a directory", Err: err}
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// Mkdir implements FsService.
func (s *paths) Mkdir(ctx context.Context, req *ctxfsv1.MkdirRequest) (*ctxfsv1.MkdirResponse, error) {
	return onPath(ctx, s.opener, "mkdir", writes, req, func(c *call) (*ctxfsv1.MkdirResponse, error) {
		mode, err := newMode(req.GetModeForm(), 0o777)
		if err == nil {
			err = c.access.Charge(0, c.missing(req.GetRecursive()))
		}
		if err != nil {
			return nil, err
		}
		resp := &ctxfsv1.MkdirResponse{}
		resp.Etag, err = c.makeNew(c.path, req.GetIfNoneMatch(), func() error {
			if !req.GetRecursive() {
				return c.root.Mkdir(c.path, mode)
			}
			first, err := c.root.MkdirAll(c.path, mode)
			if first != "" {
				text, raw := wirePath(first)
				resp.Path, resp.RawPath = &text, raw
			}
			return err
		})
		return resp, err
	})
}

// missing estimates how many directories a mkdir of the call's path makes. It is 0 for a path that is too long.
func (c *call) missing(recursive bool) (n int64) {
	if !recursive {
		return 1
	}
	if len(c.path) > rootfs.MaxPath {
		return 0
	}
	for path := strings.TrimRight(c.path, "/"); path != ""; n++ {
		if st, err := c.root.Stat(path); err == nil && st.IsDir() {
			break
		}
		path = strings.TrimRight(path[:strings.LastIndexByte(path, '/')+1], "/")
	}
	return n
}

// prefixRequest calls Mkdtemp's prefix its path.
type prefixRequest struct{ *ctxfsv1.MkdtempRequest }

func (r prefixRequest) GetPath() string    { return r.GetPrefix() }
func (r prefixRequest) GetRawPath() []byte { return r.GetRawPrefix() }

// Mkdtemp implements FsService.
func (s *paths) Mkdtemp(ctx context.Context, req *ctxfsv1.MkdtempRequest) (*ctxfsv1.MkdtempResponse, error) {
	if _, err := oneOf("prefix", req.GetPrefix(), req.GetRawPrefix()); err != nil {
		return nil, fail(err, "mkdtemp", "", "")
	}
	return onPath(ctx, s.opener, "mkdtemp", writes, prefixRequest{req}, func(c *call) (*ctxfsv1.MkdtempResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		made, err := c.makeTemp()
		if err != nil {
			return nil, at(err, "mkdtemp", c.path+"XXXXXX")
		}
		text, raw := wirePath(made)
		return &ctxfsv1.MkdtempResponse{Path: text, RawPath: raw, Etag: c.etag(made, false)}, nil
	})
}

// makeTemp makes a directory with a name that is free.
func (c *call) makeTemp() (string, error) {
	const tries = 100
	var err error
	for range tries {
		name := c.path + rand.Text()[:6]
		if err = c.root.Mkdir(name, 0o700); err == nil {
			return name, nil
		}
		if fserr.CodeOf(err) != fserr.EEXIST {
			break
		}
	}
	return "", err
}
