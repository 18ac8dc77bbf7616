package review

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// largeContent is from which size on, in bytes, a file is not read while a call keeps others out of its context. The call
// leaves the context, reads the file, and begins again: it then knows the hash of the file, unless the file was changed
// meanwhile.
const largeContent = 1 << 20

// besideRounds is how often a call leaves its context to read large files. A program may make new ones each time.
const besideRounds = 8

// besideTries is how often a call reads a large file that keeps changing, before the file counts as unstable.
const besideTries = 3

// identity names what a file held at one time. No program can set the ctime.
type identity struct {
	dev, ino               uint64
	size, mtimeNs, ctimeNs int64
}

func identityOf(st rootfs.Stat) identity {
	return identity{st.Dev, st.Ino, st.Size, st.MtimeNs, st.CtimeNs}
}

// maxHashes bounds the hashes of large files that stay in memory, of about 200 bytes each.
const maxHashes = 4096

// hashes remembers the hashes of large files that were read last, so that the next call need not read them. The zero
// hashes is ready for use.
type hashes struct {
	mu  sync.Mutex
	of  map[identity]string
	old []identity
}

func (h *hashes) find(id identity) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[id]
}

func (h *hashes) put(id identity, hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[identity]string{}
	}
	if h.of[id] == "" {
		h.old = append(h.old, id)
	}
	h.of[id] = hash
	if len(h.old) > maxHashes {
		delete(h.of, h.old[0])
		h.old = h.old[1:]
	}
}

// reader reads a content.
type reader struct {
	// read returns the hash and the size of a content.
	read func(ctx context.Context, content io.Reader) (hash string, size int64, err error)
	// hashes are those of large files that were read before; nil says that each file is read.
	hashes *hashes
	// keeps says that the content of a file is needed, not its hash alone. It reports whether the store has the content.
	keeps func(ctx context.Context, hash string) bool
}

// hashing returns a reader that hashes contents.
func (s *Store) hashing() reader { return reader{read: hashOf, hashes: &s.hashes} }

// keeping returns a reader that puts contents into the store.
func (s *Store) keeping() reader { return reader{read: s.Put, hashes: &s.hashes, keeps: s.has} }

// known returns the hash of a file whose attributes are st, "" if it must be read. It fails with errLater if the call
// reads it beside the context first.
func (u reader) known(ctx context.Context, root rootfs.Root, p Path, st rootfs.Stat) (hash string, err error) {
	if u.hashes == nil || st.Size < largeContent {
		return "", nil
	}
	b, _ := ctx.Value(besideKey{}).(*beside)
	if u.keeps == nil { // a file that is mapped can change without its ctime: what is overwritten was read by this call
		hash = u.hashes.find(identityOf(st))
	}
	if hash == "" && b != nil {
		hash = b.find(identityOf(st))
	}
	if hash != "" && (u.keeps == nil || u.keeps(ctx, hash)) {
		return hash, nil
	}
	if b == nil {
		return "", nil
	}
	return "", b.want(root, p, u)
}

// file reads a file whose attributes are st.
func (u reader) file(ctx context.Context, f rootfs.File, st rootfs.Stat) (v Version, err error) {
	v = Version{Type: rootfs.TypeFile, Mode: st.Perm()}
	large := u.hashes != nil && st.Size >= largeContent
	var b *beside
	if large {
		b, _ = ctx.Value(learnKey{}).(*beside)
	}
	if b != nil && !seed.Settled(st.CtimeNs, time.Now()) { // until then the file can change without its ctime
		select {
		case <-time.After(seed.TickTime):
		case <-ctx.Done():
		}
	}
	begun := time.Now()
	if v.Hash, v.Size, err = u.read(ctx, f); err != nil {
		return v, err
	}
	after, err := f.Stat()
	if err == nil && (st.Changed(after) || after.Size != v.Size) {
		err = errUnstable
	}
	if err == nil && b != nil {
		b.learn(identityOf(st), v.Hash)
	}
	if err == nil && large && seed.Settled(st.CtimeNs, begun) {
		u.hashes.put(identityOf(st), v.Hash)
	}
	return v, err
}

// errLater says that a large file is read beside the context before the call goes on.
var errLater = errors.New("review: a large file is read first")

// beside is what a call reads beside a context.
type beside struct {
	// frozen is the root of the context, while the call is in it.
	frozen rootfs.Root

	mu     sync.Mutex
	wanted map[besideFile]reader
	// tries has how often a file was read. It is most at most.
	tries  map[besideFile]int
	most   int
	rounds int
	hashes map[identity]string
}

// newBeside returns a beside that reads each file up to tries times.
func newBeside(tries int) *beside {
	return &beside{most: tries, tries: map[besideFile]int{}, hashes: map[identity]string{}}
}

// only makes later calls use what was read already.
func (b *beside) only() *beside {
	b.most = 0
	return b
}

// besideFile is a file to read. root is nil for the context's: its root is opened anew.
type besideFile struct {
	root  rootfs.Root
	path  Path
	keeps bool
}

// besideKey is the key of the *beside of a call that is in the context, learnKey of one that reads beside it.
type (
	besideKey struct{}
	learnKey  struct{}
)

func (b *beside) find(id identity) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hashes[id]
}

func (b *beside) learn(id identity, hash string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hashes[id] = hash
}

// want notes a file to read, and returns errLater. If the file was read often enough, and each time was another one
// afterwards, or if the call has left its context often enough, want returns errUnstable.
func (b *beside) want(root rootfs.Root, p Path, u reader) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := besideFile{root, p, u.keeps != nil}
	if root == b.frozen {
		f.root = nil
	}
	if b.tries[f] >= b.most || b.rounds >= besideRounds {
		return errUnstable
	}
	b.wanted[f] = u
	return errLater
}

// entering returns the context of a call that is in a context, with its root.
type entering func(ctx context.Context, root rootfs.Root) context.Context

// beside calls f, which enters a context by enter, until f needs no large file that was not read. f must have changed nothing when it fails with errLater.
func (r *Reviews) beside(ctx context.Context, id string, b *beside, f func(enter entering) error) error {
	for ; ; b.rounds++ {
		b.wanted = map[besideFile]reader{}
		err := f(func(ctx context.Context, root rootfs.Root) context.Context {
			b.frozen = root
			return context.WithValue(ctx, besideKey{}, b)
		})
		if !errors.Is(err, errLater) {
			return err
		}
		r.point("beside")
		if err := r.readBeside(context.WithValue(ctx, learnKey{}, b), id, b); err != nil {
			return err
		}
	}
}

// readBeside reads the files that a call wants.
func (r *Reviews) readBeside(ctx context.Context, id string, b *beside) error {
	for f, u := range b.wanted {
		b.tries[f]++
		read := func(ctx context.Context, root rootfs.Root) error {
			_, _, err := readVersion(ctx, root, f.path, u)
			if isAbsent(err) || errors.Is(err, errUnstable) { // the next attempt finds out
				err = nil
			}
			return err
		}
		var err error
		if f.root != nil {
			err = read(ctx, f.root)
		} else {
			err = r.cfg.Contexts.Beside(ctx, id, read)
		}
		if err != nil {
			return fserr.Wrap(err, "review", "/"+string(f.path), "")
		}
	}
	return nil
}

// reading is Contexts.Reading, as frozen. It leaves in b what it has read.
func (r *Reviews) reading(ctx context.Context, id string, b *beside, f func(ctx context.Context, root rootfs.Root) error) error {
	return r.beside(ctx, id, b, func(enter entering) error {
		return r.cfg.Contexts.Reading(ctx, id, func(ctx context.Context, root rootfs.Root) error { return f(enter(ctx, root), root) })
	})
}

// changing is Contexts.Changing, as frozen, with what was read before. f passes its context to what it plans, and not to what it changes.
func (r *Reviews) changing(ctx context.Context, id string, b *beside, f func(ctx context.Context, root rootfs.Root, charge Charge) error) error {
	return r.beside(ctx, id, b, func(enter entering) error {
		return r.cfg.Contexts.Changing(ctx, id, func(root rootfs.Root, charge Charge) error { return f(enter(ctx, root), root, charge) })
	})
}

// replacing is Contexts.Replacing, as changing.
func (r *Reviews) replacing(ctx context.Context, id string, b *beside, f func(ctx context.Context, root rootfs.Root, charge Charge) error) error {
	return r.beside(ctx, id, b, func(enter entering) error {
		return r.cfg.Contexts.Replacing(ctx, id, func(root rootfs.Root, charge Charge) error { return f(enter(ctx, root), root, charge) })
	})
}

// frozen calls f with the context's root while no call through the server changes the context. f may be called several times.
func (r *Reviews) frozen(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error {
	return r.beside(ctx, id, newBeside(besideTries), func(enter entering) error {
		return r.cfg.Contexts.Frozen(ctx, id, func(ctx context.Context, root rootfs.Root) error { return f(enter(ctx, root), root) })
	})
}
