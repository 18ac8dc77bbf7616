package ledger

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// readOperations change nothing: what they return is compared with the model, and what they take of the server is seen in
// the soak.
func readOperations() []operation {
	return []operation{
		{"readFile", readFile}, {"readStream", readStream}, {"readStream by gRPC", readRaw}, {"handle to read", readHandle},
		{"readdir", readDir}, {"readdir -r", readTree}, {"opendir", openDir}, {"glob", glob}, {"grep", grep},
		{"stat", stats}, {"links", links}, {"watch", watchOnly}, {"watch a write", watchWrite}, {"feed", feedEnd}, {"hold", hold}, {"export", export},
	}
}

// wrongRead is an answer that is not what the model knows to be there. Unlike a call that failed, no end of a server excuses it.
type wrongRead struct{ what string }

func (w *wrongRead) Error() string { return "read wrongly: " + w.what }

// reading plans a step that changes nothing, of names that may be "" (then there is nothing to do).
func reading(name string, do func() error, names ...string) []step {
	return single(step{name: name, reads: true, do: do}, names...)
}

// equalText compares content that was read with what the model holds.
func equalText(at, want string, got []byte, err error) error {
	if err == nil && want != string(got) {
		err = &wrongRead{fmt.Sprintf("%s holds %s, not %s", at, brief(want), brief(string(got)))}
	}
	return err
}

// equal compares an answer with what the model says.
func equal[T comparable](what string, want, got T, err error) error {
	if err == nil && want != got {
		err = &wrongRead{fmt.Sprintf("%s is %v, not %v", what, want, got)}
	}
	return err
}

// equalNames compares names, in any order.
func equalNames(what string, want, got []string, err error) error {
	slices.Sort(want)
	slices.Sort(got)
	if err == nil && !slices.Equal(want, got) {
		err = &wrongRead{fmt.Sprintf("%s: there is %v, not %v", what, want, got)}
	}
	return err
}

func readFile(l *lane) []step {
	at := l.one(isFile)
	return reading("readFile", func() error {
		got, err := l.fsys.ReadFile(l.at(at))
		return equalText(at, l.state[at].text, got, err)
	}, at)
}

// part is a range of text: from off on, length bytes, 0 for all that follow.
func (l *lane) part(text string) (off, length int) {
	off = l.rng.IntN(len(text) + 1)
	return off, l.rng.IntN(len(text) - off + 1)
}

// cut is what of text such a range holds.
func cut(text string, off, length int) string {
	if length == 0 {
		return text[off:]
	}
	return text[off : off+length]
}

func readStream(l *lane) []step {
	at := l.one(isFile)
	off, length := l.part(l.state[at].text)
	return reading("readStream", func() error {
		r, err := l.fsys.ReadStream(l.at(at), client.ReadOptions{Offset: int64(off), Length: int64(length)})
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		got, err := io.ReadAll(r)
		return equalText(at, cut(l.state[at].text, off, length), got, err)
	}, at)
}

// readRaw streams by gRPC, and now and then leaves off after the first message.
func readRaw(l *lane) []step {
	at, leave := l.one(isFile), l.rng.IntN(4) == 0
	return reading("readStream by gRPC", func() error {
		ctx, cancel := l.within()
		defer cancel()
		s, err := l.raw.ReadStream(ctx, &ctxfsv1.ReadStreamRequest{Path: l.prefix + "/" + at, ChunkSize: 16 << 10})
		var got bytes.Buffer
		for err == nil {
			var r *ctxfsv1.ReadStreamResponse
			if r, err = s.Recv(); err == nil && leave {
				return nil
			}
			got.Write(r.GetData())
		}
		return equalText(at, l.state[at].text, got.Bytes(), unlessEnd(err))
	}, at)
}

// unlessEnd is nil at a stream's end.
func unlessEnd(err error) error {
	if err == io.EOF { //nolint:errorlint // gRPC gives it as it is
		return nil
	}
	return err
}

// glob looks for files of one name, at times without a directory.
func glob(l *lane) []step {
	name, without := pick(l, []string{"x", "z", "f*", "l[01]"}), pick(l, []string{"d0", "d1", "nowhere"})
	return reading("glob", func() error {
		var got []string
		o := client.GlobOptions{Dir: l.name, Patterns: []string{"**/" + name}, Exclude: []string{without}}
		_, err := l.fsys.GlobWalk(o, func(e client.Entry) error {
			got = append(got, strings.TrimPrefix(e.Path(), l.prefix+"/"))
			return nil
		})
		want := l.state.paths(func(p string, _ node) bool {
			ok, err := path.Match(name, path.Base(p))
			return ok && err == nil && !within(p, without)
		})
		return equalNames("glob "+name, want, got, err)
	})
}

// probed is how much of a file the server looks at to know that it is binary.
const probed = 8 << 10

// grep looks for what the lane's own content holds.
func grep(l *lane) []step {
	pattern := pick(l, []string{l.name + ".", l.name + ".1", "seeded", "nowhere"})
	return reading("grep", func() error {
		var want, got []string
		lines := int64(0)
		for p, n := range l.state {
			if isFile(p, n) && strings.Contains(n.text, pattern) && !strings.Contains(n.text[:min(len(n.text), probed)], "\x00") {
				want = append(want, p)
				for line := range strings.Lines(n.text) {
					lines += int64(min(strings.Count(line, pattern), 1))
				}
			}
		}
		sum, err := l.fsys.Grep(client.GrepOptions{Path: l.name, Pattern: pattern, Fixed: true}, func(f client.GrepFile) error {
			got = append(got, strings.TrimPrefix(f.Path, l.prefix+"/"))
			return nil
		})
		got = slices.Compact(got) // a file may come in parts
		err = equalNames("grep "+pattern, want, got, err)
		return equal("the number of lines with "+pattern, lines, sum.GetMatches(), err)
	})
}
