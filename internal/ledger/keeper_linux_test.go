package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// keeper writes files of a directory in ways that promise them to be on the disk. Its fields are the worker's until that has ended.
type keeper struct {
	dir  string
	rng  *rand.Rand
	fsys *client.FS
	raw  ctxfsv1.FsServiceClient
	ctx  context.Context
	// kept is what was acknowledged, by name.
	kept map[string]string
	// ways are how that was written.
	ways map[string]string
	// flight is the name that the call without an answer writes, with what; whole says that it must not leave a part.
	flight, text string
	whole        bool
	name         string
	acknowledged map[string]int
	inFlight     map[string]int
	err          error
	serial       int
}

func newKeeper(dir string, rng *rand.Rand) *keeper {
	return &keeper{dir: dir, rng: rng, kept: map[string]string{}, ways: map[string]string{}, acknowledged: map[string]int{}, inFlight: map[string]int{}}
}

// attach gives the keeper a panel on a server that has just started.
func (k *keeper) attach(ctx context.Context, c *client.Client, p *client.Panel) {
	token, _ := p.Token()
	k.ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	k.fsys, k.raw, k.err = p.FS().With(ctx), ctxfsv1.NewFsServiceClient(tokenConn{c.Conn()}), nil
}

// work writes until a call fails, or stop is set.
func (k *keeper) work(stop *atomic.Bool) {
	for !stop.Load() && k.err == nil {
		k.once()
	}
}

// flushes are the ways to write that promise the file to be on the disk. whole says that none leaves a part of the text.
var flushes = []struct {
	name  string
	whole bool
	do    func(k *keeper, at, text string) error
}{
	{"writeFile atomic", true, func(k *keeper, at, text string) error { return k.fsys.WriteFileAtomic(at, []byte(text), 0o644) }},
	{"writeFile flush", false, func(k *keeper, at, text string) error {
		_, err := k.raw.WriteFile(k.ctx, &ctxfsv1.WriteFileRequest{Path: at, Content: &ctxfsv1.WriteFileRequest_Text{Text: text}, Flush: true})
		return err
	}},
	{"writeStream flush", true, func(k *keeper, at, text string) error {
		w, err := k.fsys.WriteStream(at, client.WriteOptions{Flush: true})
		if err != nil {
			return err
		}
		_, err = w.Write([]byte(text))
		return errors.Join(err, w.Close())
	}},
	{"fsync of a handle", false, func(k *keeper, at, text string) error { return k.handle(at, text, false) }},
	{"close with flush", false, func(k *keeper, at, text string) error { return k.handle(at, text, true) }},
	{"commit of a handle", true, func(k *keeper, at, text string) error {
		r, err := k.raw.Open(k.ctx, &ctxfsv1.OpenRequest{Path: at, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}, Atomic: true})
		if err != nil {
			return err
		}
		if _, err = k.raw.Write(k.ctx, &ctxfsv1.WriteRequest{Fd: r.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: text}}); err != nil {
			return err
		}
		_, err = k.raw.Close(k.ctx, &ctxfsv1.CloseRequest{Fd: r.GetFd(), Commit: true})
		return err
	}},
	{"rename and fsync", false, func(k *keeper, at, text string) error {
		if err := k.fsys.WriteFile(at+"~", []byte(text), 0o644); err != nil {
			return err
		}
		r, err := k.raw.Open(k.ctx, &ctxfsv1.OpenRequest{Path: at + "~"})
		if err != nil {
			return err
		}
		if err := k.fsys.Rename(at+"~", at); err != nil {
			return err
		}
		_, err = k.raw.Fsync(k.ctx, &ctxfsv1.FsyncRequest{Fd: r.GetFd()})
		_, cerr := k.raw.Close(k.ctx, &ctxfsv1.CloseRequest{Fd: r.GetFd()})
		return errors.Join(err, cerr)
	}},
	{"batch flush", true, func(k *keeper, at, text string) error {
		_, err := k.raw.Batch(k.ctx, &ctxfsv1.BatchRequest{Flush: true, Steps: []*ctxfsv1.BatchStep{{Change: &ctxfsv1.BatchStep_WriteFile{
			WriteFile: &ctxfsv1.WriteFileRequest{Path: at, Content: &ctxfsv1.WriteFileRequest_Text{Text: text}},
		}}}})
		return err
	}},
}

// handle writes through a handle.
func (k *keeper) handle(at, text string, flush bool) error {
	r, err := k.raw.Open(k.ctx, &ctxfsv1.OpenRequest{Path: at, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}})
	if err != nil {
		return err
	}
	if _, err = k.raw.Write(k.ctx, &ctxfsv1.WriteRequest{Fd: r.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: text}}); err != nil {
		return err
	}
	if !flush {
		if _, err := k.raw.Fsync(k.ctx, &ctxfsv1.FsyncRequest{Fd: r.GetFd()}); err != nil {
			return err
		}
	}
	_, err = k.raw.Close(k.ctx, &ctxfsv1.CloseRequest{Fd: r.GetFd(), Flush: flush})
	return err
}

// once writes a file that is there or a new one, some in directories that are new too.
func (k *keeper) once() {
	k.serial++
	at := fmt.Sprintf("%s/kept%d", k.dir, k.rng.IntN(4))
	if k.rng.IntN(4) == 0 {
		top := fmt.Sprintf("%s/new%d/deep", k.dir, k.serial)
		if k.err = k.fsys.MkdirAll(top, 0o755); k.err != nil {
			return
		}
		at = top + "/file"
	}
	way := flushes[k.rng.IntN(len(flushes))]
	unit := fmt.Sprintf("%s %d;", at, k.serial)
	k.flight, k.text, k.whole, k.name = at, strings.Repeat(unit, 1+k.rng.IntN(20<<10)/len(unit)), way.whole, way.name
	if k.err = way.do(k, at, k.text); k.err != nil {
		k.err = fmt.Errorf("%s %s: %w", way.name, at, k.err)
		return
	}
	k.kept[at], k.ways[at], k.flight = k.text, way.name, ""
	k.acknowledged[way.name]++
}

// settle compares what is there with what was acknowledged.
func (k *keeper) settle() error {
	var errs []error
	for _, at := range slices.Sorted(k.names()) {
		data, err := k.fsys.ReadFile(at)
		there, got := err == nil, string(data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		old, had := k.kept[at]
		if k.flight == at {
			k.inFlight[k.name]++
		}
		switch {
		case there == had && got == old:
		case k.flight == at && (there && got == k.text || !k.whole):
		case k.flight == at:
			errs = append(errs, fmt.Errorf("%s in flight left of %s %s; before there was %s, by %s", k.name, at, briefly(got), briefly(old), k.ways[at]))
		default:
			errs = append(errs, fmt.Errorf("%s is %s (there: %v); %s had written %s", at, briefly(got), there, k.ways[at], briefly(old)))
		}
		if there {
			k.kept[at] = got
		} else {
			delete(k.kept, at)
		}
	}
	k.flight = ""
	return errors.Join(errs...)
}

// briefly is the length of a text, and which text it is.
func briefly(text string) string { return fmt.Sprintf("%d bytes: %.40q", len(text), text) }

func (k *keeper) names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for at := range k.kept {
			if at != k.flight && !yield(at) {
				return
			}
		}
		if k.flight != "" {
			yield(k.flight)
		}
	}
}
