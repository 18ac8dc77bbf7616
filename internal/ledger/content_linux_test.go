package ledger

import (
	"io"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The options of recursive calls.
var (
	rmOne = client.RmOptions{}
	cpAll = client.CopyOptions{Recursive: true, VerbatimSymlinks: true}
)

func contentOperations() []operation {
	return []operation{
		{"writeFile", writeNew}, {"writeFile over", writeOver}, {"writeFile atomic", atomicNew}, {"writeFile atomic over", atomicOver},
		{"appendFile new", appendNew}, {"appendFile", appendTo}, {"truncate", truncate},
		{"copyFile", copyFile}, {"copyFile over", copyOver},
		{"writeStream", streamNew}, {"writeStream over", streamOver}, {"writeStream in place", streamInto}, {"writeStream by gRPC", streamRaw},
	}
}

func writeNew(l *lane) []step {
	at, text, perm := l.free(fileSlots), l.content(), pick(l, filePerms)
	return single(step{
		name: "writeFile", after: l.state.with(at, file(text, perm)),
		do: func() error { return l.fsys.WriteFile(l.at(at), []byte(text), perm) },
	}, at)
}

func writeOver(l *lane) []step {
	at, text := l.one(isFile), l.content()
	return single(step{
		name: "writeFile over", after: l.rewritten(at, text), partly: inPlace(at, text, 0),
		do: func() error { return l.fsys.WriteFile(l.at(at), []byte(text), 0o600) },
	}, at)
}

// rewritten is the lane with other content in a file, if there is one.
func (l *lane) rewritten(at, text string) tree {
	if at == "" {
		return l.state
	}
	return l.state.rewritten(at, text)
}

func atomicNew(l *lane) []step {
	at, text, perm := l.free(fileSlots), l.content(), pick(l, filePerms)
	return single(step{
		name: "writeFile atomic", after: l.state.with(at, file(text, perm)),
		do: func() error { return l.fsys.WriteFileAtomic(l.at(at), []byte(text), perm) },
	}, at)
}

// replaced is the lane with a new file in place of one: other names keep the old, the mode stays.
func (l *lane) replaced(at, text string) tree { return l.state.with(at, file(text, l.state[at].perm)) }

func atomicOver(l *lane) []step {
	at, text := l.one(isFile), l.content()
	return single(step{
		name: "writeFile atomic over", after: l.replaced(at, text),
		do: func() error { return l.fsys.WriteFileAtomic(l.at(at), []byte(text), 0o600) },
	}, at)
}

func appendNew(l *lane) []step {
	at, text, perm := l.free(fileSlots), l.content(), pick(l, filePerms)
	return single(step{
		name: "appendFile new", after: l.state.with(at, file(text, perm)),
		do: func() error { return l.fsys.AppendFile(l.at(at), []byte(text), perm) },
	}, at)
}

// small is a file that may grow: appended to for ever, checking would take all the time.
func (l *lane) small() string {
	return l.one(func(p string, n node) bool { return isFile(p, n) && len(n.text) < 500<<10 })
}

func appendTo(l *lane) []step {
	at, text := l.small(), l.content()
	old := l.state[at].text
	return single(step{
		name: "appendFile", after: l.rewritten(at, old+text), partly: inPlace(at, text, len(old)),
		do: func() error { return l.fsys.AppendFile(l.at(at), []byte(text), 0o600) },
	}, at)
}

func truncate(l *lane) []step {
	at := l.small()
	size := l.rng.IntN(2*len(l.state[at].text) + 100)
	return single(step{
		name: "truncate", after: l.rewritten(at, sized(l.state[at].text, size)),
		do: func() error { return l.fsys.Truncate(l.at(at), int64(size)) },
	}, at)
}

func sized(text string, size int) string {
	if size <= len(text) {
		return text[:size]
	}
	return text + strings.Repeat("\x00", size-len(text))
}

func copyFile(l *lane) []step {
	from, to := l.one(isFile), l.free(fileSlots)
	n := copied(l.state[from])
	return single(step{
		name: "copyFile", after: l.state.with(to, n), partly: newFile(to, n.text, n.perm),
		do: func() error {
			_, err := l.fsys.CopyFile(l.at(from), l.at(to), 0)
			return err
		},
	}, from, to)
}

func cp(l *lane) []step {
	from, to := l.one(isFile), l.free(fileSlots)
	n := copied(l.state[from])
	return single(step{
		name: "cp", after: l.state.with(to, n), partly: newFile(to, n.text, n.perm),
		do: func() error {
			_, err := l.fsys.Cp(l.at(from), l.at(to), client.CopyOptions{})
			return err
		},
	}, from, to)
}

func copyOver(l *lane) []step {
	from := l.one(isFile)
	to := l.one(func(p string, n node) bool {
		return isFile(p, n) && p != from && (n.id == 0 || n.id != l.state[from].id)
	})
	if from == "" || to == "" {
		return nil
	}
	src := l.state[from]
	content := l.state.rewritten(to, src.text) // the mode comes last
	return single(step{
		name: "copyFile over", partly: either(inPlace(to, src.text, 0, src.perm), exactly(content)),
		after: l.state.changed(to, func(n *node) { n.text, n.perm, n.mtime = src.text, src.perm, 0 }),
		do: func() error {
			_, err := l.fsys.CopyFile(l.at(from), l.at(to), 0)
			return err
		},
	})
}

// streamed is more than a request takes.
func (l *lane) streamed() string {
	return l.text(100<<10) + strings.Repeat("-", 1<<20)
}

func (l *lane) stream(at, text string, o client.WriteOptions) error {
	w, err := l.fsys.WriteStream(l.at(at), o)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, strings.NewReader(text)); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// rarely is for what takes much longer than other operations, and would leave no time to them.
func rarely(l *lane, s step, names ...string) []step {
	if l.rng.IntN(3) > 0 {
		return nil
	}
	return single(s, names...)
}

func streamNew(l *lane) []step {
	at, text, perm := l.free(fileSlots), l.streamed(), pick(l, filePerms)
	return rarely(l, step{
		name: "writeStream", after: l.state.with(at, file(text, perm)),
		do: func() error { return l.stream(at, text, client.WriteOptions{Perm: perm}) },
	}, at)
}

func streamOver(l *lane) []step {
	at, text := l.one(isFile), l.streamed()
	return rarely(l, step{
		name: "writeStream over", after: l.replaced(at, text),
		do: func() error { return l.stream(at, text, client.WriteOptions{}) },
	}, at)
}

func streamInto(l *lane) []step {
	at, text := l.small(), l.content()
	old := l.state[at].text
	off := l.rng.IntN(len(old) + 10)
	at64 := int64(off)
	return single(step{
		name: "writeStream in place", after: l.rewritten(at, overlaid(old, text, off)), partly: inPlace(at, text, off),
		do: func() error { return l.stream(at, text, client.WriteOptions{Flag: "r+", Offset: &at64}) },
	}, at)
}

// overlaid is old with text written at off.
func overlaid(old, text string, off int) string {
	if len(old) < off {
		old = sized(old, off)
	}
	out := old[:off] + text
	if len(old) > len(out) {
		out += old[len(out):]
	}
	return out
}

// streamRaw streams by gRPC: the client's own streams go by HTTP PUT where they can.
func streamRaw(l *lane) []step {
	at, text, perm := l.free(fileSlots), l.streamed(), pick(l, filePerms)
	return rarely(l, step{
		name: "writeStream by gRPC", after: l.state.with(at, file(text, perm)),
		do: func() error {
			w, err := l.raw.WriteStream(l.ctx)
			if err != nil {
				return err
			}
			open := &ctxfsv1.WriteStreamOpen{Path: l.prefix + "/" + at, ModeForm: &ctxfsv1.WriteStreamOpen_Mode{Mode: uint32(perm)}}
			err = w.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}})
			for chunk := range slices.Chunk([]byte(text), 200<<10) {
				if err == nil {
					err = w.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: chunk}})
				}
			}
			_, answer := w.CloseAndRecv() // it says why sending failed
			return answer
		},
	}, at)
}
