package command

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/review"
	"github.com/ctxfs/ctxfs/server"
)

// large is a directory that somebody should know of before it is copied into every context, in bytes.
const large = 1 << 30

func (x *examination) workspace() {
	root, err := rootfs.Open(x.layout.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		x.say(markFail, "workspace", "%s cannot be opened: %v", x.layout.Workspace, err)
		return
	}
	defer func() { _ = root.Close() }()
	x.scan, err = seed.Walk(x.ctx, x.layout.Source(root), x.cfg.SeedOptions(), nil)
	if err != nil {
		x.say(markFail, "workspace", "%s cannot be read: %v", x.layout.Workspace, err)
		return
	}
	if len(x.scan.Repos) == 0 && x.cfg.SeedRoot == "" {
		part := ""
		if above := repositoryAbove(x.layout.Workspace); above != "" {
			part = "; it is part of the repository " + above + ": serve there to have all of it"
		}
		x.say(markWarn, "workspace", "%s has no git repositories: contexts start empty (--seed-root . copies the folder)%s", x.layout.Workspace, part)
		return
	}
	x.say(markOK, "workspace", "%s, %s files, %s to seed", repositories(x.scan.Repos), seed.Count(x.scan.Files), seed.Size(x.scan.Bytes))
}

func (x *examination) seed() {
	if x.scan == nil {
		return
	}
	if err := seed.Guard(x.scan, x.cfg.SeedOptions()); err != nil {
		x.say(markFail, "seed", "%v", err)
	}
	if dirs := x.scan.Unreadable; len(dirs) > 0 {
		x.say(markWarn, "seed", "the server may not read some folders, which are left out: %s; make them readable, or add them to .contextignore", strings.Join(dirs, ", "))
	}
	for i, d := range x.scan.Dirs {
		if i < 3 && d.Bytes >= large {
			x.say(markWarn, "seed", "%s %s would be copied: add it to .contextignore", d.Path, seed.Size(d.Bytes))
		}
	}
}

// git warns of the one command that deletes contexts from outside.
func (x *examination) git() {
	rel, err := filepath.Rel(x.layout.Workspace, x.layout.Dir)
	if err != nil || !filepath.IsLocal(rel) || x.scan == nil || len(x.scan.Repos) == 0 || x.scan.Repos[0] != "." {
		return
	}
	if n := x.countContexts(); n > 0 {
		x.say(markWarn, "git", "'git clean -fdx' in this workspace deletes %d contexts", n)
	}
}

// countContexts counts folders, and what drivers keep of contexts that were not mounted yet and have none.
func (x *examination) countContexts() int {
	found := map[string]bool{}
	for _, dir := range []string{x.layout.Dir, x.layout.DriverState(server.DriverOverlay, ""), x.layout.DriverState(server.DriverUserNS, "")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // nothing was made there
		}
		for _, e := range entries {
			if _, err := contexts.ParseID(e.Name()); err == nil && e.IsDir() {
				found[e.Name()] = true
			}
		}
	}
	return len(found)
}

func (x *examination) disk() {
	dir := x.tried()
	probe, err := os.MkdirTemp(dir, rootfs.ReservedPrefix+"check-")
	if err == nil {
		err = os.Remove(probe)
	}
	switch fserr.CodeOf(err) {
	case fserr.EROFS:
		x.say(markFail, "disk", "%s is on a read-only file system: make it writable (mount -o remount,rw, after a repair if its disk failed)", dir)
		return
	case fserr.EACCES, fserr.EPERM:
		x.say(markFail, "disk", "%s cannot be written: serve as its owner, or use --contexts-dir", dir)
		return
	}
	free, ok := freeBytes(dir)
	switch {
	case !ok:
	case contexts.IsFull(dir):
		x.say(markFail, "disk", "%s free: the disk is full, or has no inodes left; a server serves what is there: free some space, or delete contexts", seed.Size(free))
	case free < int64(x.cfg.DiskReserve):
		x.say(markFail, "disk", "%s free, less than the reserve of %s: nothing is seeded", seed.Size(free), seed.Size(int64(x.cfg.DiskReserve)))
	case x.scan != nil && free-int64(x.cfg.DiskReserve) < x.copies*x.scan.Bytes:
		x.say(markWarn, "disk", "%s free: a layer and a context, together %s, leave less than the reserve", seed.Size(free), seed.Size(x.copies*x.scan.Bytes))
	default:
		x.say(markOK, "disk", "%s free", seed.Size(free))
	}
}

func (x *examination) state() {
	data, err := statedir.ReadFile(x.layout.Format, statedir.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		x.say(markOK, "state", "none yet; 'ctxfs serve' makes %s", x.layout.Dir)
		return
	}
	var format struct {
		Format int    `json:"format"`
		By     string `json:"written_by"`
	}
	if err == nil {
		err = json.Unmarshal(data, &format)
	}
	switch {
	case err != nil:
		x.say(markFail, "state", "%s cannot be read: %v", x.layout.Format, err)
		return
	case format.Format > contexts.StateFormat:
		x.say(markFail, "state", "format %d was written by ctxfs %s; this version reads format %d", format.Format, format.By, contexts.StateFormat)
		return
	}
	x.made = true
	staged := entries(x.layout.Staging)
	text := "empty"
	if staged > 0 {
		text = seed.Count(int64(staged)) + " unfinished, swept at the next start"
	}
	x.say(markOK, "state", "format %d, %d contexts, %d layers; staging %s", format.Format, x.countContexts(), entries(x.layout.Layers), text)
	x.private()
	if !x.layout.HasReserve() {
		x.say(markWarn, "state", "the space for deletions on a full disk is not kept: the next start keeps it, if there is room")
	}
}

// records looks at a database other than the file in the state directory.
func (x *examination) records() {
	f := server.ExamineRecords(x.ctx, x.cfg, x.layout)
	switch {
	case f == nil:
	case f.Bad:
		x.say(markFail, "records", "%s", f.Text)
	case f.Doubtful:
		x.say(markWarn, "records", "%s", f.Text)
	default:
		x.say(markOK, "records", "%s", f.Text)
	}
}

func (x *examination) reviews() {
	if !x.made {
		return
	}
	k, err := review.Measure(x.ctx, x.layout.Review)
	if err != nil {
		x.say(markWarn, "review", "%s cannot be read: %v", x.layout.Review, err)
		return
	}
	if lack := contexts.WithoutLayers(x.layout); len(lack) > 0 {
		x.say(markFail, "review", "the layers that these contexts were seeded with are missing: %s; they cannot be reviewed, and those of the overlay drivers not be read: "+
			"restore %s from the backup", strings.Join(lack, ", "), x.layout.Layers)
	}
	x.say(markOK, "review", "%s: %s contents, %s log entries, %s submitted revisions", seed.Size(k.Bytes), seed.Count(k.Contents), seed.Count(k.Entries), seed.Count(k.Revisions))
}

// entries counts what a directory holds, but for the mark that keeps it out of backups.
func entries(dir string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range list {
		if e.Name() != "CACHEDIR.TAG" && !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}

func (x *examination) private() {
	for _, p := range []string{x.layout.State, x.layout.HostToken} {
		st, err := os.Lstat(p)
		if err == nil && openToOthers(st) {
			x.say(markFail, "state", "%s is open to others (%04o): chmod go-rwx it", p, st.Mode().Perm())
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if st, err := os.Lstat(x.layout.DB + suffix); err == nil && !st.Mode().IsRegular() {
			x.say(markFail, "state", "%s is not a regular file (%s): remove it, or put the file itself in its place", x.layout.DB+suffix, st.Mode().Type())
		}
	}
}

func (x *examination) socket() {
	data, err := statedir.ReadFile(x.layout.ServerJSON, statedir.MaxRecord)
	if _, other := errors.AsType[*statedir.NotPlainError](err); other {
		x.say(markFail, "socket", "%v", err)
		return
	}
	if err != nil {
		x.say(markOK, "socket", "no server runs here")
		return
	}
	var r server.Record
	if err := json.Unmarshal(data, &r); err != nil {
		x.say(markFail, "socket", "%s cannot be read: %v", x.layout.ServerJSON, err)
		return
	}
	st, err := os.Lstat(r.Socket)
	switch {
	case r.Workspace != x.layout.Workspace:
		x.say(markWarn, "socket", "pid %d was started for %s: if that was moved here, stop it, and serve here", r.PID, r.Workspace)
	case err != nil:
		x.say(markWarn, "socket", "pid %d left %s behind; the next start removes it", r.PID, x.layout.ServerJSON)
	case openToOthers(st):
		x.say(markFail, "socket", "unix://%s is open to others (%04o)", r.Socket, st.Mode().Perm())
	default:
		x.say(markOK, "socket", "unix://%s, pid %d, mine, %04o", r.Socket, r.PID, st.Mode().Perm())
	}
}

// directories counts those that a recursive watch of one context needs.
func (x *examination) directories() int64 {
	var n int64
	for _, e := range x.scan.Entries {
		if e.Type == rootfs.TypeDirectory {
			n++
		}
	}
	return n
}
