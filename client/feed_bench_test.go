package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
)

// BenchmarkFeed overwrites a file of 4 KiB in contexts without a feed, with one, and with one that a reader follows. The times are those of a
// write; "event-us" is the median time from the answer of a write until its change has arrived. Compare the rows within one run.
func BenchmarkFeed(b *testing.B) {
	c := dial(b)
	for _, name := range []string{"none", "kept", "followed"} {
		b.Run(name, func(b *testing.B) {
			_, err := c.EnsureContext(b.Context(), "ctx_"+name, nil)
			if err != nil {
				b.Fatal(err)
			}
			f := c.Context("ctx_" + name).With(b.Context())
			arrived := make(chan time.Time, 1)
			switch name {
			case "kept":
				follow(b, f, client.FeedOptions{Once: true}, nil)
			case "followed":
				ready := make(chan struct{})
				go follow(b, f, client.FeedOptions{}, func(n client.Notice) {
					if n.Kind == client.NoticeReady {
						close(ready)
					} else {
						arrived <- time.Now()
					}
				})
				<-ready
			}
			writeOver(b, f, name == "followed", arrived)
		})
	}
}

func writeOver(b *testing.B, f *client.FS, followed bool, arrived <-chan time.Time) {
	b.Helper()
	data := make([]byte, 4096)
	var after []time.Duration
	for b.Loop() {
		if err := f.WriteFile("file", data, 0o644); err != nil {
			b.Fatal(err)
		}
		if followed {
			answered := time.Now()
			b.StopTimer()
			after = append(after, (<-arrived).Sub(answered))
			b.StartTimer()
		}
	}
	if followed {
		slices.Sort(after)
		b.ReportMetric(float64(after[len(after)/2].Nanoseconds())/1000, "event-us")
	}
}

// follow reads a feed until it ends.
func follow(b *testing.B, f *client.FS, o client.FeedOptions, do func(client.Notice)) {
	b.Helper()
	for n, err := range f.Feed(o) {
		if err != nil {
			b.Error(err)
			return
		}
		if do != nil {
			do(n)
		}
	}
}
