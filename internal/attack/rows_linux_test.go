package attack

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// row is one way to attack a path. Every RPC tries every path of it.
type row struct {
	name string
	// plant is what the attacker puts on disk, below d in his context.
	plant func(w *world)
	// planted names what plant itself makes with outside content.
	planted map[string]bool
	// through lead outside by something on the way: nothing may succeed.
	through []string
	// at end in a link that leads outside: what follows it must fail.
	at []string
	// special are FIFOs and the like: what opens them must fail.
	special []string
	// look may succeed; only what comes out counts.
	look []string
	// mode is what files are made with; 0 means 0777.
	mode uint32
}

// out leads from a context's directory d to the directory that holds all.
const out = "../../../.."

func (w *world) link(target, name string) { w.must(os.Symlink(target, filepath.Join(w.dir, name))) }

func (w *world) file(name, content string) {
	path := filepath.Join(w.dir, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(content), 0o644))
}

// replant restores the attacker's context to the content that the row requires.
func (w *world) replant(r row) {
	w.clear()
	w.file("d/plain", "inside")
	w.file("d/in/file", "inside")
	if r.plant != nil {
		r.plant(w)
	}
}

// clear empties the attacker's context, and keeps its zones.
func (w *world) clear() {
	for _, name := range w.listed(w.dir) {
		if w.cfg.zones == "" || name != "d" && name != "e" {
			w.remove(filepath.Join(w.dir, name))
			continue
		}
		for _, inner := range w.listed(filepath.Join(w.dir, name)) {
			w.remove(filepath.Join(w.dir, name, inner))
		}
	}
}

func (w *world) listed(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	w.must(err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// remove is rm -r. The server may still be at a call whose caller has gone.
func (w *world) remove(path string) {
	deadline := time.After(patience)
	for err := os.RemoveAll(path); err != nil; err = os.RemoveAll(path) {
		select {
		case <-deadline:
			w.must(err)
		case <-time.After(10 * time.Millisecond): // clock: a mount has no event to wait for
		}
	}
}

func rows(w *world) []row {
	return append(append(lexicalRows(w), linkRows(w)...), append(movedRows(), append(nameRows(), specialRows()...)...)...)
}

// lexicalRows are attacks by the words of a path alone.
func lexicalRows(w *world) []row {
	return []row{
		{name: "dotdot", through: []string{
			"..", "/..", "../target", "/../../outside/target", "d/../../target", "d/./.././../target", "d//..//..//target",
			"d/in/../../../target", "../", "d/../..", "../../../..", "d/../../../../../../../../target",
		}},
		{name: "dotdot through what is no directory", through: []string{"d/plain/../../../target", "d/missing/../../../target", "d/plain/../..", "d/missing/../../../"}},
		{name: "look-alikes of dotdot", look: []string{
			`..\target`, "%2e%2e/target", "%2e%2e%2ftarget", "\u2024\u2024/target", "\uff0e\uff0e/target", "\u2025/target", "..\u2215target", ".../target", ".. /target", "..;/target",
			"\xc0\xae\xc0\xae/target", "\xe0\x80\xae\xe0\x80\xae/target",
		}},
		{name: "absolute host path", look: []string{w.alias + "/outside/target", "//" + w.alias + "/outside/target", "/etc/passwd", "/proc/self/environ", "file://" + w.alias + "/outside/target"}},
		{name: "ID that another's begins with", through: []string{"../ctx_ab/target", "/../ctx_ab/sub", "d/../../ctx_ab/target", "../ctx_ab/new/x"}},
		{name: "own ID again", through: []string{"../ctx_a/d/plain", "../ctx_a", "d/../../ctx_a/d/plain"}},
		{name: "state of the service", through: []string{"../.ctxfs/host.token", "../.ctxfs/target"}, look: []string{"/.ctxfs", "/.ctxfs/host.token"}},
	}
}

// linkRows are attacks by links that lead outside.
func linkRows(w *world) []row {
	to := func(name, target string) row {
		return row{
			name: name, plant: func(w *world) { w.link(target, "d/l") }, at: []string{"d/l"},
			through: []string{"d/l/target", "d/l/sub/target", "d/l/sub", "d/l/new", "d/l/new/x"}, look: []string{"d"},
		}
	}
	file := func(name, target string) row {
		return row{name: name, plant: func(w *world) { w.link(target, "d/l") }, at: []string{"d/l"}, look: []string{"d"}}
	}
	chain := func(w *world) {
		w.link("l2", "d/l")
		w.link("in/l3", "d/l2")
		w.link("../../../../../outside", "d/in/l3")
	}
	return []row{
		to("relative link to a directory", out+"/outside"), to("absolute link to a directory", w.alias+"/outside"),
		file("relative link to a file", out+"/outside/target"), file("absolute link to a file", w.alias+"/outside/target"),
		to("link to the workspace", "../../.."), to("link to .git", "../../../.git"), to("link to the contexts directory", "../.."),
		to("link to another context", "../../ctx_ab"), to("link to the service's state", "../../.ctxfs"), to("link to the parent of all", out),
		file("dangling relative link", out+"/outside/fresh"), file("dangling absolute link", w.alias+"/outside/fresh"),
		file("dangling link into a missing directory", out+"/outside/none/fresh"),
		{
			name: "chain of links", plant: chain, at: []string{"d/l", "d/l2", "d/in/l3"},
			through: []string{"d/l/target", "d/l2/sub/target", "d/l/new/x"}, look: []string{"d"},
		},
		{name: "long chain of links", plant: longChain, at: []string{"d/l0", "d/l20"}, through: []string{"d/l0/target"}},
		{name: "loop of links", plant: func(w *world) { w.link("m", "d/l"); w.link("l", "d/m") }, at: []string{"d/l"}, through: []string{"d/l/target"}},
		{
			name: "trailing slashes and dots", plant: func(w *world) { w.link(out+"/outside", "d/l"); w.link(out+"/outside/target", "d/f") },
			through: []string{"d/l/", "d/l/.", "d/l//", "d/l/./target", "d/l//target", "d/l/..", "d/l/../target", "d/f/", "d/f/."},
		},
		{
			name: "out and in again", plant: func(w *world) { w.link("../../ctx_a/d/in", "d/l") }, at: []string{"d/l"},
			through: []string{"d/l/file", "d/l/../../../target"},
		},
		{name: "magic links", plant: magicLinks, at: []string{"d/fd", "d/root", "d/cwd", "d/exe"}, through: []string{
			"d/root/target", "d/root/new/x", "d/fd/target", "d/fd/sub/target",
		}, look: []string{"proc/self/root/etc/passwd", "/proc/self/fd/0"}},
	}
}

func longChain(w *world) {
	names := strings.Split("l0 l1 l2 l3 l4 l5 l6 l7 l8 l9 l10 l11 l12 l13 l14 l15 l16 l17 l18 l19 l20", " ")
	for i, name := range names[:20] {
		w.link(names[i+1], "d/"+name)
	}
	w.link(out+"/outside", "d/l20")
}

// magicLinks lead to links of the kernel's, one of them to a descriptor that leads outside.
func magicLinks(w *world) {
	w.link("/proc/self/root"+w.alias+"/outside", "d/root")
	w.link("/proc/self/cwd", "d/cwd")
	w.link("/proc/self/fd/"+w.outsideFD(), "d/fd")
	w.link("/proc/self/exe", "d/exe")
}

// movedRows are links that lead outside only after something was moved, by a program in the
// context or by the panel itself.
func movedRows() []row {
	return append(rowsMovedBy("", renameOnDisk), rowsMovedBy(", by the panel", renameByPanel)...)
}

func renameOnDisk(w *world, from, to string) {
	w.must(os.Rename(filepath.Join(w.dir, from), filepath.Join(w.dir, to)))
}

func renameByPanel(w *world, from, to string) {
	_, err := ctxfsv1.NewFsServiceClient(w.cc).Rename(w.attacker.ctx, &ctxfsv1.RenameRequest{Path: from, Dest: to})
	if w.cfg.zones != "" && !strings.Contains(to, "/") {
		if err == nil {
			w.leak("%s was moved beside the zones", from)
		}
		return
	}
	w.must(err)
}

func rowsMovedBy(by string, rename func(w *world, from, to string)) []row {
	move := func(from, to string) func(*world) {
		return func(w *world) {
			w.file("target", "inside")
			w.file("d/a/b/c/file", "inside")
			w.link("../../../../target", "d/a/b/c/l")
			w.link("../../../..", "d/a/b/c/up")
			w.link("../../..", "d/a/b/top")
			rename(w, from, to)
		}
	}
	return []row{
		{name: "link moved up" + by, plant: move("d/a/b/c/l", "d/l"), at: []string{"d/l"}},
		{name: "link to a directory moved up" + by, plant: move("d/a/b/c/up", "d/up"), at: []string{"d/up"}, through: []string{"d/up/target", "d/up/outside/sub", "d/up/new/x"}},
		{name: "directory with a link moved up" + by, plant: move("d/a/b/c", "c"), at: []string{"c/l", "c/up"}, through: []string{"c/up/target", "c/up/new/x"}, look: []string{"c"}},
		{name: "link moved to the top" + by, plant: move("d/a/b/top", "top"), at: []string{"top"}, through: []string{"top/outside/target", "top/outside/new/x"}, look: []string{"/"}},
	}
}

// nameRows are attacks by what a name is made of.
func nameRows() []row {
	long := strings.Repeat("n", 256)
	deep := strings.Repeat("deep/", 1000) + "x"
	return []row{
		{name: "NUL", through: []string{"d/plain\x00", "\x00", "d/pl\x00ain", "../target\x00.txt"}},
		{name: "overlong", through: []string{"d/" + long, long + "/x", deep}, look: []string{strings.Repeat("/", 5000) + "d/plain", strings.Repeat("./", 1500) + "d/plain"}},
		{
			name: "not UTF-8", plant: func(w *world) { w.link(out+"/outside", "d/\xff\xfe"); w.file("d/\x80file", "inside") },
			at: []string{"d/\xff\xfe"}, through: []string{"d/\xff\xfe/target", "d/\xff\xfe/new/x", "d/\xff\xfe/../../../target"}, look: []string{"d/\x80file", "d"},
		},
		{
			name: "forms of Unicode and case", plant: func(w *world) { w.link(out+"/outside", "d/e\u0301"); w.link(out+"/outside", "d/L") },
			through: []string{"d/e\u0301/target", "d/L/target"}, at: []string{"d/L", "d/e\u0301"}, look: []string{"d/\u00e9/target", "d/l/target", "D/L/target"},
		},
		{name: "empty and own names", look: []string{"", ".", "/", "./", "//", "/./.", "d/.", "d/in/..", "d/in/../plain"}},
		{name: "control characters", look: []string{"d/a\nb", "d/\x1b[2J", "d/\r\n", "d/' -> '", "d/\u202egpj.exe", "-rf", "d/*", "d/{a,b}", "d/[", "~", "$HOME", "d/`id`"}},
		{
			name: "names of the service", plant: func(w *world) {
				w.file("d/.ctxfs-tmp-0123", "content "+w.secret)
				w.file("d/.ctxfs-tmp-dir/target", "content "+w.secret)
				w.link("d", ".ctxfs-tmp-link")
			},
			planted: names("d/.ctxfs-tmp-0123 d/.ctxfs-tmp-dir/target"),
			through: []string{"d/.ctxfs-tmp-0123", "d/.ctxfs-tmp-dir", "d/.ctxfs-tmp-dir/target", ".ctxfs-tmp-link", ".ctxfs-tmp-link/plain", "d/.ctxfs-tmp-new"},
			look:    []string{"d"},
		},
		{name: "setuid bits", look: []string{"d/plain", "d/new", "d/in", "d/new/x"}, mode: 0o6777},
	}
}

// specialRows are what is neither file nor directory nor link.
func specialRows() []row {
	node := func(name string, mode uint32, dev int) func(*world) {
		return func(w *world) {
			if os.Geteuid() != 0 && mode&unix.S_IFMT != unix.S_IFIFO {
				return // only root creates devices; the row then asks for a missing file
			}
			w.must(unix.Mknod(filepath.Join(w.dir, name), mode|0o666, dev))
		}
	}
	return []row{
		{name: "FIFO", plant: node("d/s", unix.S_IFIFO, 0), special: []string{"d/s"}, through: []string{"d/s/x"}, look: []string{"d"}},
		{name: "character device", plant: node("d/s", unix.S_IFCHR, int(unix.Mkdev(1, 3))), special: []string{"d/s"}, through: []string{"d/s/x"}, look: []string{"d"}},
		{name: "block device", plant: node("d/s", unix.S_IFBLK, int(unix.Mkdev(7, 250))), special: []string{"d/s"}, look: []string{"d"}},
		{name: "socket", plant: plantSocket, special: []string{"d/s"}, through: []string{"d/s/x"}, look: []string{"d"}},
		{
			name: "link to a FIFO", plant: func(w *world) { node("d/f", unix.S_IFIFO, 0)(w); w.link("f", "d/s") },
			special: []string{"d/s"},
		},
	}
}

func plantSocket(w *world) {
	here, err := os.Open(filepath.Join(w.dir, "d"))
	w.must(err)
	defer here.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "/proc/self/fd/" + fdName(here) + "/s", Net: "unix"})
	w.must(err)
	l.SetUnlinkOnClose(false)
	w.must(l.Close())
}
