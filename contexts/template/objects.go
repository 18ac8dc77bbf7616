package template

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// What a question for an object may be answered.
var (
	errMissing   = errors.New("the object is missing")
	errAmbiguous = errors.New("more than one object is meant")
)

// objects reads a repository's objects through one "git cat-file --batch", which
// applies no filter and starts nothing. It is for one goroutine.
type objects struct {
	ctx     context.Context
	cancel  context.CancelFunc
	scratch *scratch
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bounded
}

// openObjects starts it, and takes the runner's scratch over.
func openObjects(ctx context.Context, g gitRunner) (*objects, error) {
	o := &objects{scratch: g.scratch, stderr: &bounded{max: 4 << 10, cut: true}}
	o.ctx, o.cancel = context.WithCancel(ctx)
	o.cmd = g.command(o.ctx, "cat-file", "--batch")
	o.cmd.Stderr = o.stderr
	if err := o.start(); err != nil {
		o.cancel()
		return nil, errors.Join(err, g.scratch.remove())
	}
	return o, nil
}

func (o *objects) start() error {
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	o.out = bufio.NewReaderSize(out, 64<<10)
	if err := o.cmd.Start(); err != nil {
		return notStarted(err)
	}
	return nil
}

// close ends it, whatever it is doing: it only reads.
func (o *objects) close() error {
	o.cancel()
	_ = o.in.Close()
	_ = o.cmd.Wait() // it was killed
	return o.scratch.remove()
}

// header is what is told of an object before its content.
type header struct {
	id, kind string
	size     int64
}

// ask looks for what rev means. The content must be read next: see body.
func (o *objects) ask(rev string) (header, error) {
	if _, err := io.WriteString(o.in, rev+"\n"); err != nil {
		return header{}, o.died(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return header{}, o.died(err)
	}
	line = strings.TrimSuffix(line, "\n")
	switch {
	case strings.HasSuffix(line, " missing"):
		return header{}, errMissing
	case strings.HasSuffix(line, " ambiguous"):
		return header{}, errAmbiguous
	}
	f := strings.Fields(line)
	if len(f) != 3 || !isObjectID(f[0]) {
		return header{}, errMissing
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return header{}, errMissing
	}
	return header{id: f[0], kind: f[1], size: size}, nil
}

func (o *objects) died(err error) error {
	if o.ctx.Err() != nil {
		return o.ctx.Err()
	}
	_ = o.cmd.Wait() // stderr is complete then
	return gitError(o.ctx, "cat-file", err, o.stderr)
}

// copyBody hands the content on. A w that fails leaves the objects useless but to close.
func (o *objects) copyBody(w io.Writer, size int64) error {
	if _, err := io.CopyN(w, o.out, size); err != nil {
		return err
	}
	_, err := o.out.Discard(1)
	return err
}

// read returns the content of an object that is to be of a kind and at most max bytes long.
func (o *objects) read(rev, kind string, limit int64) (header, []byte, error) {
	h, err := o.ask(rev)
	if err != nil {
		return h, nil, err
	}
	if h.kind != kind || h.size > limit {
		return h, nil, errors.Join(o.copyBody(io.Discard, h.size), errMissing)
	}
	buf := &bounded{max: int(limit)}
	err = o.copyBody(buf, h.size)
	return h, buf.Bytes(), err
}

// maxCommit bounds a commit's object, in bytes.
const maxCommit = 16 << 20

// commit returns the full ID of the commit that an ID, which may be abbreviated or a tag's, leads to.
func (o *objects) commit(rev string) (string, error) {
	h, _, err := o.read(rev+"^{commit}", "commit", maxCommit)
	if errors.Is(err, errMissing) && isAbbreviated(rev) {
		return "", o.whyMissing(rev)
	}
	return h.id, err
}

// whyMissing tells an abbreviation of several commits from one of none: with
// "^{commit}" git says missing for both.
func (o *objects) whyMissing(rev string) error {
	h, err := o.ask(rev)
	if err != nil {
		return err
	}
	return errors.Join(o.copyBody(io.Discard, h.size), errMissing)
}

// treeOf returns the tree of a commit. Nothing but a commit will do.
func (o *objects) treeOf(commit string) (string, error) {
	_, data, err := o.read(commit, "commit", maxCommit)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	id, ok := strings.CutPrefix(line, "tree ")
	if !ok || !isObjectID(id) {
		return "", errMissing
	}
	return id, nil
}
