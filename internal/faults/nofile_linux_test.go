package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestNoDescriptorsLeft takes all descriptors of a server: a panel opens as many handles as it may, a crowd connects, and the
// limit falls to what is open then.
func TestNoDescriptorsLeft(t *testing.T) {
	ws := workspace(t)
	c := startChild(t, "few descriptors", workspaceEnv+"="+ws)
	host, err := client.Dial(t.Context(), client.WithAddress(c.first))
	must(t, err)
	defer func() { must(t, host.Close()) }()
	greedy, other := openPanel(t, host, "panels/greedy"), openPanel(t, host, "panels/other")
	must(t, greedy.WriteFile("kept", []byte(kept), 0o644))
	must(t, other.WriteFile("kept", []byte(kept), 0o644))
	before := c.descriptors(t)
	handles := openAll(t, greedy)
	wantFile(t, other, "kept", kept) // a quarter is for panels that have less than their share
	crowd := dialMany(t, strings.TrimPrefix(c.first, "unix:"), few)
	wantFile(t, other, "kept", kept) // the crowd leaves a reserve
	c.limitDescriptors(t, 0)
	wantCode(t, "read", second(other.ReadFile("kept")), fserr.EMFILE)
	_, stat := other.Stat("kept")
	_, list := other.ReadDir("app")
	_, seed := host.EnsureContext(t.Context(), "ctx_seeded", nil)
	for what, err := range map[string]error{
		"stat": stat, "list": list, "write": other.WriteFile("new", []byte(kept), 0o644),
		"watch": watched(other), "cp": cp(other), "rm": other.RemoveAll("app"), "seed": seed,
	} {
		wantCode(t, what, err, fserr.EMFILE)
	}
	for _, h := range handles {
		b := make([]byte, len(kept))
		if n, err := h.ReadAt(b, 0); n != len(kept) || string(b) != kept {
			t.Errorf("a handle was lost: %q, %v", b[:n], err)
		}
	}
	for _, conn := range crowd {
		must(t, conn.Close())
	}
	c.limitDescriptors(t, few)
	eventually(t, "it goes on", func() bool { return other.WriteFile("new", []byte(kept), 0o644) == nil })
	again, err := client.Dial(t.Context(), client.WithAddress(c.first)) // the listener has not given up
	must(t, err)
	wantFile(t, openPanel(t, again, "panels/later"), "app/README.md", "# A workspace\n")
	must(t, again.Close())
	_, err = host.EnsureContext(t.Context(), "ctx_seeded", nil)
	must(t, err)
	for _, h := range handles {
		must(t, h.Close())
	}
	eventually(t, "descriptors return", func() bool { return c.descriptors(t) <= before+2 }) // two roots of contexts
}

// TestSilentConnectionsTakeNoDescriptors connects 1,500 times to each TCP address of a server that has 512 descriptors, and
// says nothing, or too little for a call.
func TestSilentConnectionsTakeNoDescriptors(t *testing.T) {
	c := startChild(t, "a crowd", workspaceEnv+"="+workspace(t))
	addresses := strings.Fields(c.first)
	host, err := client.Dial(t.Context(), client.WithAddress(addresses[0]))
	must(t, err)
	defer func() { must(t, host.Close()) }()
	opened, err := host.OpenPanel(t.Context(), "panels/other")
	must(t, err)
	token, _ := opened.Token()
	other := opened.FS()
	must(t, other.WriteFile("kept", []byte(kept), 0o644))
	before := c.descriptors(t)
	var crowd []net.Conn
	for _, address := range addresses[1:] {
		for i := range 500 {
			for _, text := range []string{"", preface, "GET /livez HTTP/1.1\r\nHost: localhost\r\nA: "} {
				conn, err := net.Dial("tcp", address)
				must(t, err)
				_, _ = conn.Write([]byte(text)) // it may be closed already
				crowd = append(crowd, conn)
			}
			if i%50 == 0 {
				wantFile(t, other, "kept", kept)
			}
		}
	}
	for range 20 {
		wantFile(t, other, "kept", kept)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, options := range [][]client.Option{
		{client.WithAddress(addresses[0]), client.WithPanel("panels/other")},
		{client.WithAddress(addresses[1]), client.WithToken(token)},
	} {
		again, err := client.Dial(ctx, options...)
		must(t, err)
		wantFile(t, again.FS().With(ctx), "kept", kept)
		must(t, again.Close())
	}
	if n := c.descriptors(t); n > crowded*5/8 {
		t.Errorf("%d descriptors are open, want the reserve and those of handles free", n)
	}
	for _, conn := range crowd {
		must(t, conn.Close())
	}
	eventually(t, "descriptors return", func() bool { return c.descriptors(t) <= before+2 })
}

func openPanel(t *testing.T, c *client.Client, id string) *client.FS {
	t.Helper()
	p, err := c.OpenPanel(t.Context(), id)
	must(t, err)
	return p.FS()
}

// openAll opens handles until the server has no more for this panel.
func openAll(t *testing.T, f *client.FS) (handles []*client.File) {
	t.Helper()
	for range few {
		h, err := f.OpenFile("kept", os.O_RDONLY, 0)
		if err != nil {
			wantCode(t, "open", err, fserr.EMFILE)
			return handles
		}
		handles = append(handles, h)
	}
	t.Fatal("there is no bound")
	return nil
}

// preface is how a gRPC client begins, which the server lets be for its keepalive (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// dialMany makes connections that say nothing more than that they are gRPC's.
func dialMany(t *testing.T, socket string, n int) (conns []net.Conn) {
	t.Helper()
	var d net.Dialer
	for range n {
		conn, err := d.DialContext(t.Context(), "unix", strings.TrimPrefix(socket, "//"))
		must(t, err)
		_, err = conn.Write([]byte(preface))
		must(t, err)
		conns = append(conns, conn)
	}
	return conns
}

func watched(f *client.FS) error {
	w, err := f.Watch(".", false)
	if err != nil {
		return err
	}
	return w.Close()
}

func cp(f *client.FS) error {
	return second(f.Cp("app", "copy", client.CopyOptions{Recursive: true}))
}

// limitDescriptors lets a child open no descriptor whose number is n or more.
func (c *program) limitDescriptors(t *testing.T, n uint64) {
	t.Helper()
	must(t, unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: few}, nil))
}

// descriptors counts those of a child.
func (c *program) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	must(t, err)
	return len(entries)
}
