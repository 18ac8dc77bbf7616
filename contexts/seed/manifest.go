package seed

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Entry is one file, directory or link as it was in the workspace.
type Entry struct {
	// Path is relative, slash-separated, and may hold bytes that are not UTF-8.
	Path string
	Type rootfs.Type
	// Mode is the permission bits.
	Mode uint32
	Size int64
	// MtimeNs and CtimeNs are ns since the epoch. CtimeNs is the smallest int64 when the entry is doubtful (see Doubtful).
	MtimeNs, CtimeNs int64
	Ino, Dev         uint64
	// Target is a link's, byte for byte.
	Target string
}

func entryOf(p string, st rootfs.Stat, target string) Entry {
	e := Entry{
		Path: p, Type: st.Type(), Mode: st.Perm(), MtimeNs: st.MtimeNs, CtimeNs: st.CtimeNs,
		Ino: st.Ino, Dev: st.Dev, Target: target,
	}
	if e.Type == rootfs.TypeFile {
		e.Size = st.Size
	}
	return e
}

// NewEntry describes what was copied from p.
func NewEntry(p string, st rootfs.Stat, target string) Entry { return entryOf(p, st, target) }

func sortEntries(es []Entry) {
	slices.SortFunc(es, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
}

func sortByFiles(dirs []DirSize) {
	slices.SortFunc(dirs, func(a, b DirSize) int { return cmp.Compare(b.Files, a.Files) })
}

// Same reports whether e and o are the same, unchanged file. It returns false if one of them is doubtful. Of directories
// only the mode counts: an entry that appears or disappears shows as an entry of its own, unless it is excluded.
func (e Entry) Same(o Entry) bool {
	if e.Type == rootfs.TypeDirectory {
		return e.Path == o.Path && e.Type == o.Type && e.Mode == o.Mode
	}
	return e == o && e.CtimeNs != doubtful
}

// doubtful replaces a ctime that does not show whether the file changed after it was read.
const doubtful = math.MinInt64

// TickTime exceeds the granularity of a kernel's clock for ctimes, at most 10 ms, and secondsTime that of file systems
// that keep whole seconds, at most 2 s.
const (
	TickTime    = 20 * time.Millisecond
	secondsTime = 2*time.Second + TickTime
)

// Doubtful returns the entry of a file whose content was read from begun until now. If a later change could leave it with the
// same ctime, the entry is doubtful. This is git's rule for racily clean files.
func (e Entry) Doubtful(begun, now time.Time) Entry {
	granularity := TickTime
	if e.CtimeNs%int64(time.Second) == 0 {
		granularity = secondsTime
	}
	// A ctime far in the future, as after the clock was set back, is not given to a change now.
	ctime := time.Unix(0, e.CtimeNs)
	if e.Type == rootfs.TypeFile && ctime.After(begun.Add(-granularity)) && ctime.Before(now.Add(granularity)) {
		e.CtimeNs = doubtful
	}
	return e
}

// Manifest lists what was copied from the workspace: the base with which a context's content is compared.
type Manifest struct {
	Repos []Repository
	// Template is the hash of the template that was built, "" when the workspace was copied.
	Template string
	// Scope says which part of the workspace was copied, and to where. Repos have the paths of the workspace, Entries those of the context.
	Scope Scope
	// Entries are by path.
	Entries      []Entry
	Files, Bytes int64
}

// NewManifest sorts and counts what was copied. Its scope is the zero Scope.
func NewManifest(repos []Repository, entries []Entry) *Manifest {
	m := &Manifest{Repos: repos, Entries: entries}
	sortEntries(m.Entries)
	for _, e := range m.Entries {
		if e.Type != rootfs.TypeDirectory {
			m.Files++
		}
		m.Bytes += e.Size
	}
	return m
}

// Holds reports whether the workspace is still as the manifest says. The scan is of the manifest's scope.
func (m *Manifest) Holds(s *Scan) bool {
	return slices.EqualFunc(m.Entries, m.Scope.place(s.Entries), Entry.Same)
}

// Seeded returns the manifest of the directory that was seeded (Scope.Into) alone, with the paths of the workspace. It is m itself if that is
// the context's root.
func (m *Manifest) Seeded() *Manifest {
	if m.Scope.Into == "" {
		return m
	}
	out := &Manifest{Repos: m.Repos, Template: m.Template, Scope: m.Scope, Files: m.Files, Bytes: m.Bytes}
	out.Scope.Into, out.Scope.Beside = "", nil
	for _, e := range m.Entries {
		var below bool
		if e.Path, below = strings.CutPrefix(e.Path, m.Scope.Into+"/"); below {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

// Find returns the entry of a path.
func (m *Manifest) Find(p string) (Entry, bool) {
	i, ok := m.find(p)
	if !ok {
		return Entry{}, false
	}
	return m.Entries[i], true
}

// manifestFormat is the format that Write writes.
const manifestFormat = 1

type header struct {
	Format   int          `json:"format"`
	Repos    []Repository `json:"repos,omitempty"`
	Template string       `json:"template,omitempty"`
	Scope    Scope        `json:"scope,omitzero"`
	Files    int64        `json:"files"`
	Bytes    int64        `json:"bytes"`
}

// line is an Entry on disk. A path or target that is not UTF-8 is base64 in its second field.
type line struct {
	Path    string `json:"p,omitempty"`
	PathB   string `json:"pb,omitempty"`
	Type    uint8  `json:"t"`
	Mode    uint32 `json:"m"`
	Size    int64  `json:"s,omitempty"`
	Mtime   int64  `json:"mt"`
	Ctime   int64  `json:"ct"`
	Ino     uint64 `json:"i"`
	Dev     uint64 `json:"d"`
	Target  string `json:"l,omitempty"`
	TargetB string `json:"lb,omitempty"`
}

// repositoryLine is a Repository on disk. A path or branch that is not UTF-8 is base64 in its second field. Others are as without these fields:
// the digest of a layer is one of its manifest.
type repositoryLine struct {
	plainRepository
	PathB   string `json:"pb,omitempty"`
	BranchB string `json:"bb,omitempty"`
}

// plainRepository is a Repository without methods.
type plainRepository Repository

// MarshalJSON implements json.Marshaler.
func (r Repository) MarshalJSON() ([]byte, error) {
	out := repositoryLine{plainRepository: plainRepository(r)}
	out.Path, out.PathB = split(r.Path)
	out.Branch, out.BranchB = split(r.Branch)
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Repository) UnmarshalJSON(data []byte) (err error) {
	var in repositoryLine
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Path, err = join(in.Path, in.PathB); err != nil {
		return err
	}
	in.Branch, err = join(in.Branch, in.BranchB)
	*r = Repository(in.plainRepository)
	return err
}

func split(s string) (text, b64 string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(s))
}

func join(text, b64 string) (string, error) {
	if b64 == "" {
		return text, nil
	}
	raw, err := base64.StdEncoding.DecodeString(b64)
	return string(raw), err
}

// encode writes the manifest as JSON lines: a header, then the entries.
func (m *Manifest) encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{Format: manifestFormat, Repos: m.Repos, Template: m.Template, Scope: m.Scope, Files: m.Files, Bytes: m.Bytes}); err != nil {
		return err
	}
	for _, e := range m.Entries {
		l := line{Type: uint8(e.Type), Mode: e.Mode, Size: e.Size, Mtime: e.MtimeNs, Ctime: e.CtimeNs, Ino: e.Ino, Dev: e.Dev}
		l.Path, l.PathB = split(e.Path)
		l.Target, l.TargetB = split(e.Target)
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// Write stores the manifest, gzipped, in a new file and returns the digest of its
// content: SHA-256 in hex.
func (m *Manifest) Write(file string) (digest string, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := bufio.NewWriterSize(f, 64<<10)
	zip, err := gzip.NewWriterLevel(buf, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if err := m.encode(io.MultiWriter(sum, zip)); err != nil {
		return "", err
	}
	if err := errors.Join(zip.Close(), buf.Flush()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ReadManifest reads what Write wrote. A file that is cut short or of a newer format is an error.
func ReadManifest(file string) (*Manifest, error) {
	return readManifest(file, (*Manifest).decodeEntries)
}

// ReadManifestHead reads a manifest without its entries.
func ReadManifestHead(file string) (*Manifest, error) {
	return readManifest(file, func(*Manifest, *json.Decoder) error { return nil })
}

func readManifest(file string, rest func(*Manifest, *json.Decoder) error) (*Manifest, error) {
	f, err := statedir.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	zip, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	dec := json.NewDecoder(zip)
	m, err := decodeHead(dec)
	if err == nil {
		err = rest(m, dec)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return m, nil
}

func decodeHead(dec *json.Decoder) (*Manifest, error) {
	var h header
	if err := dec.Decode(&h); err != nil {
		return nil, err
	}
	if h.Format != manifestFormat {
		return nil, fmt.Errorf("its format is %d, this version reads %d", h.Format, manifestFormat)
	}
	return &Manifest{Repos: h.Repos, Template: h.Template, Scope: h.Scope, Files: h.Files, Bytes: h.Bytes}, nil
}

func (m *Manifest) decodeEntries(dec *json.Decoder) error {
	for {
		var l line
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := l.entry()
		if err != nil {
			return err
		}
		m.Entries = append(m.Entries, e)
	}
}

func (l line) entry() (Entry, error) {
	e := Entry{Type: rootfs.Type(l.Type), Mode: l.Mode, Size: l.Size, MtimeNs: l.Mtime, CtimeNs: l.Ctime, Ino: l.Ino, Dev: l.Dev}
	var err1, err2 error
	e.Path, err1 = join(l.Path, l.PathB)
	e.Target, err2 = join(l.Target, l.TargetB)
	return e, errors.Join(err1, err2)
}

// Inspect reads a manifest and the digest of its layer: a template's hash, and otherwise that of the manifest itself.
func Inspect(file string) (*Manifest, string, error) {
	m, err := ReadManifest(file)
	if err != nil {
		return nil, "", err
	}
	if m.Template != "" {
		return m, m.Template, nil
	}
	sum := sha256.New()
	if err := m.encode(sum); err != nil {
		return nil, "", fmt.Errorf("read manifest: %w", err)
	}
	return m, hex.EncodeToString(sum.Sum(nil)), nil
}
