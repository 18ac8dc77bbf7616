package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
)

// accountOf returns the context of a call of a panel that may hold so many bytes, and its account.
func accountOf(t *testing.T, limit int64) (context.Context, *budget.Account) {
	a := budget.New(1<<30, time.Minute, nil).Account(limit)
	s := a.Share(0, nil)
	t.Cleanup(s.Close)
	return budget.With(t.Context(), s.Hold()), a
}

// TestListsCountForTheirPanel lists and shows texts of a panel that may hold 4 MiB.
func TestListsCountForTheirPanel(t *testing.T) {
	t.Parallel()
	ctx, account := accountOf(t, 4<<20)
	base, changed := files{}, files{}
	for i := range 40 {
		p := fmt.Sprintf("f%02d", i)
		base[p] = strings.Repeat(p+" is a line\n", 4000)
		changed[p] = "begin\n" + base[p]
	}
	w := newWorld(t, base)
	write(t, w.in(id), changed)
	l, err := w.reviews.Changes(ctx, Query{Context: id})
	must(t, err)
	shed := 0
	for _, c := range l.Changes {
		if c.Text.isShed {
			shed++
		}
		d, err := w.reviews.Text(ctx, l, c)
		must(t, err)
		if len(d.Hunks) != 1 || account.Held() > 4<<20 {
			t.Errorf("%s has %d hunks, and the panel holds %d bytes", c.Path, len(d.Hunks), account.Held())
		}
	}
	if held := account.Held(); shed < 20 || shed == 40 || held < 512<<10 {
		t.Errorf("%d of 40 texts were dropped, and the panel holds %d bytes", shed, held)
	}
	must(t, l.Close())
	if held := account.Held(); held != 0 {
		t.Errorf("%d bytes are held after the end of the list", held)
	}
}

func TestTextWaitsForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := accountOf(t, 4<<20)
		full, free := budget.Of(ctx).Aside() // as unread replies
		if !full.Try(4 << 20) {
			t.Fatal("the account is not empty")
		}
		m := newRoom(ctx)
		if err := m.show(ctx, 2<<20); !errors.Is(err, fserr.EAGAIN) {
			t.Errorf("without memory it ended with %v", err)
		}
		begun := time.Now()
		large := bytes.Repeat([]byte("\n"), smallText/lineMemory+1)
		if err := m.compare(ctx, large, nil, func() {}); !errors.Is(err, fserr.EAGAIN) || time.Since(begun) > 0 {
			t.Errorf("a comparison without memory ended after %v with %v", time.Since(begun), err)
		}
		var waited sync.WaitGroup
		waited.Go(func() { must(t, m.show(ctx, 2<<20)) })
		synctest.Wait()
		free()
		waited.Wait()
		must(t, newRoom(t.Context()).show(t.Context(), 1<<40)) // a host has no account
		m.close()
	})
}

// TestMergesCountForTheirPanel merges texts in each way for a panel whose memory is full, and then for one that holds nothing.
func TestMergesCountForTheirPanel(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("\n", smallText/mergeLineMemory)
	w := newWorld(t, files{})
	put := func(text string) Version {
		hash, size, err := w.reviews.store.Put(t.Context(), strings.NewReader(text))
		must(t, err)
		return Version{Type: rootfs.TypeFile, Mode: 0o644, Hash: hash, Size: size}
	}
	small := merge3{base: put("a\n\n\nb\n"), now: put("1\n\n\nb\n"), want: put("a\n\n\n2\n")}
	large := merge3{base: put("a\n" + lines + "b\n"), now: put("1\n" + lines + "b\n"), want: put("a\n" + lines + "2\n")}
	for name, merge := range map[string]func(ctx context.Context, m merge3) error{
		"lines of both": func(ctx context.Context, m merge3) error {
			_, merged, _, err := w.reviews.ws.merge(ctx, m)
			if err == nil && !merged {
				t.Error("nothing was merged")
			}
			return err
		},
		"with markers": func(ctx context.Context, m merge3) error {
			_, err := w.reviews.ws.marked(ctx, &Unresolved{Base: m.base, Context: m.now, Workspace: m.want}, "workspace")
			return err
		},
		"lines of one side": func(ctx context.Context, m merge3) error {
			return w.reviews.ws.favour(ctx, &step{from: m.base, Before: m.now, to: m.want}, KeepContext)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, account := accountOf(t, 4<<20)
			full, free := budget.Of(ctx).Aside()
			if !full.Try(4 << 20) {
				t.Fatal("the account is not empty")
			}
			must(t, merge(ctx, small))
			late, cancel := context.WithDeadline(ctx, time.Unix(0, 0)) // no wait is left
			defer cancel()
			if err := merge(late, large); !errors.Is(err, fserr.EAGAIN) {
				t.Errorf("without memory it ended with %v", err)
			}
			free()
			must(t, merge(ctx, large))
			if account.Held() != 0 {
				t.Errorf("%d bytes are held after the merge", account.Held())
			}
			must(t, merge(t.Context(), large)) // a host has no account
		})
	}
}

// TestLargeTextsLeaveMemoryToOtherPanels merges and compares texts that take more than three quarters of the budget.
func TestLargeTextsLeaveMemoryToOtherPanels(t *testing.T) {
	t.Parallel()
	b := budget.New(4<<20, time.Minute, nil)
	account := b.Account(0)
	s := account.Share(0, nil)
	defer s.Close()
	ctx := budget.With(t.Context(), s.Hold())
	lines := strings.Repeat("\n", 3<<20/mergeLineMemory)
	base := files{"f": "a\n" + lines + "b\n"}
	w := newWorld(t, base)
	write(t, w.in("workspace"), files{"f": "1\n" + lines + "b\n"})
	write(t, w.in(id), files{"f": "a\n" + lines + "2\n"})
	out, err := w.reviews.Rebase(ctx, RebaseRequest{Context: id, OnConflict: WriteMarkers})
	must(t, err)
	if len(out.Conflicts) != 1 || out.Conflicts[0].Kind != ConflictBinary {
		t.Errorf("the conflicts are %+v", out.Conflicts)
	}
	same(t, "the context", read(t, w.in(id)), files{"f": "a\n" + lines + "2\n"})
	nothing := func(context.Context, Version, io.Reader) error { return nil }
	must(t, w.reviews.readConflict(t.Context(), id, "f", OfMerged, nothing)) // a host has no account
	if err := w.reviews.readConflict(ctx, id, "f", OfMerged, nothing); !errors.Is(err, fserr.EINVAL) {
		t.Errorf("the merge for a panel ended with %v", err)
	}
	l, err := w.reviews.Changes(ctx, Query{Context: id})
	must(t, err)
	if len(l.Changes) != 1 || l.Changes[0].Content != TooLarge {
		t.Errorf("the changes are %+v", l.Changes)
	}
	must(t, l.Close())
}

// TestMergeDoesNotWaitForMemory merges for a panel whose memory is full. The caller has the workspace's lock, and other panels would wait with it.
func TestMergeDoesNotWaitForMemory(t *testing.T) {
	t.Parallel()
	ctx, account := accountOf(t, 4<<20)
	full, free := budget.Of(ctx).Aside()
	if !full.Try(4 << 20) {
		t.Fatal("the account is not empty")
	}
	texts := [3][]byte{bytes.Repeat([]byte("\n"), smallText/mergeLineMemory+1)}
	if _, err := forMerge(ctx, texts); !errors.Is(err, fserr.EAGAIN) {
		t.Errorf("without memory it ended with %v", err)
	}
	free()
	done, err := forMerge(ctx, texts)
	must(t, err)
	if account.Held() < smallText {
		t.Errorf("%d bytes are held during the merge", account.Held())
	}
	done()
	if account.Held() != 0 {
		t.Errorf("%d bytes are held after the merge", account.Held())
	}
}

// TestDoneEntryNeedsNoMemory completes an entry whose base another entry moved, for a panel whose memory is full.
func TestDoneEntryNeedsNoMemory(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("\n", smallText/mergeLineMemory)
	w := newWorld(t, files{"f": "a\n" + lines + "b\n"})
	put := func(text string) Version {
		hash, size, err := w.reviews.store.Put(t.Context(), strings.NewReader(text))
		must(t, err)
		return Version{Type: rootfs.TypeFile, Mode: 0o644, Hash: hash, Size: size}
	}
	st, err := w.reviews.states.read(id)
	must(t, err)
	st.Overrides = map[Path]Version{"f": put("1\n" + lines + "b\n")}
	must(t, w.reviews.states.write(id, st))
	ctx, _ := accountOf(t, 4<<20)
	full, free := budget.Of(ctx).Aside()
	defer free()
	if !full.Try(4 << 20) {
		t.Fatal("the account is not empty")
	}
	s := step{Path: "f", BaseBefore: put("a\n" + lines + "b\n"), BaseAfter: put("a\n" + lines + "2\n")}
	must(t, w.reviews.complete(ctx, &Entry{ID: 1, Context: id, Steps: []step{s}}))
	st, err = w.reviews.states.read(id)
	must(t, err)
	if want := put("1\n" + lines + "2\n"); !st.Overrides["f"].Same(want) {
		t.Errorf("the base became %v, want %v", st.Overrides["f"], want)
	}
}

func TestLargeTextsOfAListAreComparedOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newRoom(t.Context())
		large, small := bytes.Repeat([]byte("\n"), smallText/lineMemory+1), []byte("a\n")
		running, compared := 0, 0
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				must(t, m.compare(t.Context(), large, nil, func() {
					if running++; running > 1 {
						t.Error("two large texts are compared at once")
					}
					must(t, m.compare(t.Context(), small, small, func() {})) // it does not wait
					time.Sleep(time.Millisecond)                             // others begin
					running--
					compared++
				}))
			})
		}
		group.Wait()
		if compared != 8 {
			t.Errorf("%d texts were compared", compared)
		}
		m.turn <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.compare(ctx, large, nil, func() {}); !errors.Is(err, context.Canceled) {
			t.Errorf("the wait of a cancelled call ended with %v", err)
		}
	})
}

func TestFilesOfManyHunksAreDecidedAsAWhole(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	for i := range MaxHunks + 1 {
		fmt.Fprintf(&before, "%d\nold\n", i)
		fmt.Fprintf(&after, "%d\nnew\n", i)
	}
	w := newWorld(t, files{"f": before.String()})
	write(t, w.in(id), files{"f": after.String()})
	c := w.changes(Query{}).Changes[0]
	if c.Content != TooLarge || c.Text != nil || len(c.HunkIDs()) != 0 {
		t.Fatalf("the content is %v with %d hunks", c.Content, len(c.HunkIDs()))
	}
	w.decide(Approved, Selection{All: true})
	w.apply(ApplyRequest{})
	same(t, "applied", read(t, w.in("workspace")), files{"f": after.String()})

	write(t, w.in(id), files{"f": strings.Replace(after.String(), "\n7\nnew\n", "\n7\nold\n", 1)})
	if c := w.changes(Query{}).Changes[0]; c.Content != Text || len(c.HunkIDs()) != 1 {
		t.Errorf("a change of one line has the content %v with %d hunks", c.Content, len(c.HunkIDs()))
	}
}

// A list keeps the texts of many small changes, so that to show them reads no file again.
func TestListKeepsTextsOfManyChanges(t *testing.T) {
	t.Parallel()
	m := newRoom(t.Context())
	defer m.close()
	before := strings.Repeat("a line of some words, as a file of 1 KiB has it\n", 20)
	after := strings.Replace(before, "a line", "one line", 1)
	for i := range 10_000 {
		d := DiffText("f", []byte(before), []byte(after))
		if must(t, m.keepText(d)); d.isShed {
			t.Fatalf("the text of change %d is dropped", i)
		}
	}
}
