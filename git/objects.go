package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// Why an object cannot be had.
var (
	errMissing   = errors.New("the object is missing")
	errAmbiguous = errors.New("more than one object is meant")
)

// Bounds of one object, in bytes.
const (
	maxCommit = 16 << 20
	maxTree   = 64 << 20
)

// Objects reads a repository's objects through one "git cat-file --batch", which
// applies no filter and starts no program. It is for one goroutine.
type Objects struct {
	ctx     context.Context
	cancel  context.CancelFunc
	scratch *scratch
	runner  runner
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bounded
	// unread is how many bytes of the last object's content, with the line end after it, are still in out.
	unread int64
}

// openObjects starts git, and takes over its scratch.
func openObjects(ctx context.Context, s *scratch, r runner) (*Objects, error) {
	o := &Objects{scratch: s, runner: r, stderr: &bounded{max: 4 << 10, cut: true}}
	o.ctx, o.cancel = context.WithCancel(ctx)
	o.cmd = r.command(o.ctx, "cat-file", "--batch")
	o.cmd.Stderr = o.stderr
	if err := o.start(); err != nil {
		o.cancel()
		return nil, errors.Join(err, s.remove())
	}
	return o, nil
}

func (o *Objects) start() error {
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

// Close kills git, which only reads, and removes its scratch.
func (o *Objects) Close() error {
	o.cancel()
	_ = o.in.Close()
	_ = o.cmd.Wait() // it was killed
	return o.scratch.remove()
}

// header is what git reports of an object before its content.
type header struct {
	id, kind string
	size     int64
}

// ask looks for the object that rev means. Its content is next in out.
func (o *Objects) ask(rev string) (header, error) {
	if _, err := io.CopyN(io.Discard, o.out, o.unread); err != nil {
		return header{}, o.died(err)
	}
	o.unread = 0
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
	o.unread = size + 1
	return header{id: f[0], kind: f[1], size: size}, nil
}

func (o *Objects) died(err error) error {
	if o.ctx.Err() != nil {
		return o.ctx.Err()
	}
	_ = o.cmd.Wait() // stderr is complete then
	return gitError(o.ctx, "cat-file", err, o.stderr)
}

// read returns the content of an object. An object of another kind, or of more than limit bytes, counts as missing.
func (o *Objects) read(rev, kind string, limit int64) (header, []byte, error) {
	h, err := o.ask(rev)
	if err != nil {
		return h, nil, err
	}
	if h.kind != kind || h.size > limit {
		return h, nil, errMissing
	}
	var buf bytes.Buffer
	err = o.CopyTo(&buf)
	return h, buf.Bytes(), err
}

// commit returns the full ID of the commit that an ID, which may be abbreviated or a tag's, leads to.
func (o *Objects) commit(rev string) (string, error) {
	h, _, err := o.read(rev+"^{commit}", "commit", maxCommit)
	if errors.Is(err, errMissing) && isAbbreviated(rev) {
		// With "^{commit}" git reports missing also for an abbreviation of several commits.
		if _, err := o.ask(rev); err != nil {
			return "", err
		}
	}
	return h.id, err
}

// lost explains an object that is missing, or not what it should be.
func lost(kind, id string, err error) error {
	if !errors.Is(err, errMissing) {
		return err
	}
	return &fserr.Error{
		Code: fserr.EIO, Err: err, Detail: fmt.Sprintf("its %s %.12s is missing or damaged", kind, id),
		Hint: "is it a shallow or partial clone? git fetch --unshallow, or git fsck",
	}
}

// TreeOf returns the ID of a commit's tree. Nothing but a commit's own ID will do.
func (o *Objects) TreeOf(commit string) (string, error) {
	_, data, err := o.read(commit, "commit", maxCommit)
	if err != nil {
		return "", lost("commit", commit, err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	id, ok := strings.CutPrefix(line, "tree ")
	if !ok || !isObjectID(id) {
		return "", lost("commit", commit, errMissing)
	}
	return id, nil
}

// Blob returns the size of a file's content, in bytes. CopyTo then returns the content.
func (o *Objects) Blob(id string) (size int64, err error) {
	h, err := o.ask(id)
	if err == nil && h.kind != "blob" {
		err = errMissing
	}
	if err != nil {
		return 0, lost("file", id, err)
	}
	return h.size, nil
}

// Content returns the content of the object asked for last. Read it before the next call.
func (o *Objects) Content() io.Reader { return (*blob)(o) }

// blob reads the object that was asked for last.
type blob Objects

// Read is io.Reader's.
func (b *blob) Read(p []byte) (int, error) {
	if b.unread <= 1 {
		return 0, io.EOF
	}
	n, err := b.out.Read(p[:min(int64(len(p)), b.unread-1)])
	b.unread -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// CopyTo writes the content of the object asked for last to w. If it fails, only Close remains.
func (o *Objects) CopyTo(w io.Writer) error {
	n, err := io.CopyN(w, o.out, o.unread-1)
	o.unread -= n
	return err
}

// TreeEntry is one line of a tree object.
type TreeEntry struct {
	// Mode is as stored: 0o100644, 0o100755, 0o120000, 0o40000 or 0o160000, but a hostile tree may have any.
	Mode uint32
	// Name is one component, never "", ".", ".." or a form of ".git"; no other entry of the tree has it.
	Name string
	ID   string
}

// Tree returns the entries of a tree object. p is the tree's path in the repository, for messages.
func (o *Objects) Tree(id, p string) ([]TreeEntry, error) {
	_, data, err := o.read(id, "tree", maxTree)
	if err != nil {
		return nil, lost("tree", id, err)
	}
	return parseTree(data, len(id)/2, p)
}

// parseTree reads a tree object: "mode SP name NUL id" for each entry, the id in hashLen bytes.
func parseTree(data []byte, hashLen int, p string) ([]TreeEntry, error) {
	var out []TreeEntry
	seen := map[string]bool{}
	for len(data) > 0 {
		mode, rest, ok1 := bytes.Cut(data, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte("\x00"))
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if !ok1 || !ok2 || err != nil || len(rest) < hashLen {
			return nil, RefuseEntry(p, "its directory is damaged")
		}
		e := TreeEntry{Mode: uint32(m), Name: string(name), ID: hex.EncodeToString(rest[:hashLen])}
		switch {
		case e.Name == "" || e.Name == "." || e.Name == ".." || strings.Contains(e.Name, "/"):
			return nil, RefuseEntry(p+"/"+e.Name, "it is no name")
		case IsDotGit(e.Name):
			return nil, RefuseEntry(p+"/"+e.Name, "git keeps its own data under this name")
		case seen[e.Name]:
			return nil, RefuseEntry(path.Join(p, e.Name), "it is there twice")
		}
		seen[e.Name] = true
		out, data = append(out, e), rest[hashLen:]
	}
	return out, nil
}

// RefuseEntry returns the error (EINVAL) that the entry at p of a repository may not be checked out.
func RefuseEntry(p, why string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("entry %.300q is refused: %s", p, why)}
}
