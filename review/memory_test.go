package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		if c.Text.shed != nil {
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
