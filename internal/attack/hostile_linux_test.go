package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// The hostile clients of this file do not try to get out of their context. They try to take so much
// that another panel is not served any more: memory, connections, descriptors, processors.
// The server is a separate process, so that the test can measure its memory apart from that of its clients. The hostile client
// is a separate process too. It has the lowest priority, because the server cannot bound the processor time that a client uses.

// siegeEnv names the workspace that the test binary serves instead of testing; siegeDriver the driver. hostileEnv names the
// hostile client that it is, at the server that targetEnv describes.
const (
	siegeEnv    = "CTXFS_ATTACK_SERVE"
	siegeDriver = "CTXFS_ATTACK_DRIVER"
	hostileEnv  = "CTXFS_ATTACK_HOSTILE"
	targetEnv   = "CTXFS_ATTACK_TARGET"
)

const (
	// bigFile is the size of the file that replies are made of, in bytes: the largest for a unary reply is 3.5 MiB.
	bigFile = 3 << 20
)

// serveSiege serves until standard input ends. It answers each line there with what the process holds.
func serveSiege() error {
	defer server.Ballast()()
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.Driver, cfg.DiskReserve, cfg.Pool = os.Getenv(siegeEnv), os.Getenv(siegeDriver), 0, 0
	cfg.HTTP, cfg.Listen = "127.0.0.1:0", []string{"127.0.0.1:0"}
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-test"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fds, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			fmt.Println(len(fds), runtime.NumGoroutine(), m.HeapAlloc)
		}
	}()
	a := s.Info().Addresses
	fmt.Println(a.Target(), a.TCP[0], a.HTTP)
	return s.Serve(ctx)
}

// beHostile is a hostile client until standard input ends.
func beHostile() error {
	var at target
	if err := json.Unmarshal([]byte(os.Getenv(targetEnv)), &at); err != nil {
		return err
	}
	all := hostilities()
	i := slices.IndexFunc(all, func(h hostility) bool { return h.name == os.Getenv(hostileEnv) })
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends
	}()
	return all[i].attack(ctx, &at)
}

// target is what a client knows of a server: its addresses, and the token of the hostile panel.
type target struct{ Unix, TCP, HTTP, Hostile string }

// siege is a server in a process of its own, a hostile panel and another panel beside it.
type siege struct {
	testing.TB
	target
	// other is the other panel's token.
	other string
	cc    *grpc.ClientConn
	in    *os.File
	out   *bufio.Reader
}

func newSiege(t testing.TB, driver string) *siege {
	t.Helper()
	a := &siege{TB: t}
	ws := servertest.Workspace(t)
	a.serve(ws, driver)
	var err error
	a.cc, err = dial(a.Unix)
	a.must(err)
	a.Cleanup(func() { _ = a.cc.Close() })
	a.Hostile, a.other = a.open("hostile"), a.open("other")
	many := filepath.Join(ws, ".contexts", "ctx_hostile", "many")
	a.must(os.Mkdir(many, 0o755))
	for i := range 9000 {
		a.must(os.WriteFile(filepath.Join(many, fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	fs := ctxfsv1.NewFsServiceClient(a.cc)
	for _, name := range []string{"/big", "/line"} {
		_, err := fs.WriteFile(as(t.Context(), a.Hostile), &ctxfsv1.WriteFileRequest{
			Path: name, Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte(strings.Repeat("a", bigFile))},
		})
		a.must(err)
	}
	return a
}

// serve starts the server's process, which ends with the test.
func (a *siege) serve(ws, driver string) {
	a.Helper()
	cmd := exec.CommandContext(a.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), siegeEnv+"="+ws, siegeDriver+"="+driver)
	cmd.Stderr = os.Stderr
	theirs, in, err := os.Pipe()
	a.must(err)
	cmd.Stdin, cmd.Cancel = theirs, func() error {
		_ = in.Close() // the server ends by itself then; the cleanup may have closed it
		return os.ErrProcessDone
	}
	out, err := cmd.StdoutPipe()
	a.must(err)
	a.must(cmd.Start())
	a.must(theirs.Close())
	a.in, a.out = in, bufio.NewReader(out)
	a.Cleanup(func() {
		_ = in.Close() // the test's context may have closed it
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			a.Errorf("the server ended with %v", err)
		}
	})
	line, err := a.out.ReadString('\n')
	a.must(err)
	if n, err := fmt.Sscan(line, &a.Unix, &a.TCP, &a.HTTP); n != 3 || err != nil {
		a.Fatalf("the server's first line is %q", line)
	}
}

func (a *siege) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func (a *siege) open(panel string) (token string) {
	a.Helper()
	resp, err := ctxfsv1.NewPanelServiceClient(a.cc).OpenPanel(a.Context(), &ctxfsv1.OpenPanelRequest{PanelId: panel})
	a.must(err)
	return resp.GetToken()
}

// as is ctx with a panel's token.
func as(ctx context.Context, token string) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
}

// holds asks the server's process what it holds after a garbage collection.
func (a *siege) holds() (r resources) {
	a.Helper()
	_, err := a.in.WriteString("?\n")
	a.must(err)
	line, err := a.out.ReadString('\n')
	a.must(err)
	if n, err := fmt.Sscan(line, &r.descriptors, &r.goroutines, &r.heap); n != 3 || err != nil {
		a.Fatalf("the server answered %q", line)
	}
	return r
}

// stats asks for the other panel's stat for a while, and returns how often.
func (a *siege) stats(long time.Duration) (asked int) {
	a.Helper()
	a.must(repeat(a.Context(), long, func() error {
		asked++
		return a.stat()
	}))
	return asked
}

// stat asks for the other panel's stat.
func (a *siege) stat() error {
	ctx, cancel := context.WithTimeout(as(a.Context(), a.other), patience)
	defer cancel()
	if _, err := ctxfsv1.NewFsServiceClient(a.cc).Stat(ctx, &ctxfsv1.StatRequest{Path: "/README.md"}); err != nil {
		return fmt.Errorf("another panel's stat: %w", err)
	}
	return nil
}

// unleash starts a hostile client, waits until it has connected, and returns what ends it.
func (a *siege) unleash(h hostility) (end func()) {
	a.Helper()
	before := a.holds().descriptors
	at, err := json.Marshal(a.target)
	a.must(err)
	var said strings.Builder
	cmd := exec.CommandContext(a.Context(), "nice", "-n", "19", os.Args[0])
	cmd.Env = append(os.Environ(), hostileEnv+"="+h.name, targetEnv+"="+string(at))
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	a.must(err)
	a.must(cmd.Start())
	a.until("the hostile client has connected", func() bool { return a.holds().descriptors > before })
	return func() {
		a.Helper()
		a.must(in.Close())
		if err := cmd.Wait(); err != nil {
			a.Errorf("the hostile client had an error of its own: %v: %s", err, said.String())
		}
	}
}

// settled returns what the server holds under attack once its heap is within budget. A reply that is being made is there twice, as
// a message and encoded, so the heap may be larger for a moment, but never twice as large.
func (a *siege) settled(base resources, budget int64) resources {
	a.Helper()
	deadline := time.Now().Add(patience)
	for {
		held := a.holds()
		grown := int64(held.heap) - int64(base.heap)
		switch {
		case grown <= budget:
			return held
		case grown > 2*budget || time.Now().After(deadline): // clock: it bounds a hang
			a.Errorf("the server's heap grew by %d MiB, want at most %d MiB", grown>>20, budget>>20)
			return held
		}
		<-time.After(50 * time.Millisecond) // clock: the other process has no event to wait for
	}
}

// suffer runs a hostile client for a while, and checks what others notice and what the server holds.
func (a *siege) suffer(h hostility) {
	a.Helper()
	base := a.holds()
	end := a.unleash(h)
	asked := a.stats(max(time.Second, attackTime()))
	held := a.settled(base, h.budget)
	end()
	a.Logf("%d stats of another panel; heap %d KiB before, %d KiB under attack", asked, base.heap>>10, held.heap>>10)
	var now resources
	defer func() {
		if !now.within(base) {
			a.Logf("before %+v, after %+v", base, now)
		}
	}()
	a.until("everything is given back", func() bool {
		now = a.holds()
		return now.within(base)
	})
}

// until waits for what the server's process shows.
func (a *siege) until(what string, is func() bool) {
	a.Helper()
	clocktest.Await(a, what, is)
}

// TestHostileClients has each hostile client at a server of each driver. While there is no time for all, one driver suffices: these
// clients harm by what the server holds for connections, calls and replies, which no driver sees.
func TestHostileClients(t *testing.T) {
	drivers := []string{"copy", "overlay"}
	if os.Geteuid() != 0 {
		drivers = drivers[:1]
		t.Log("the overlay driver is left out: it needs root")
	}
	if attackTime() == quick {
		drivers = drivers[len(drivers)-1:]
	}
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			a := newSiege(t, driver)
			for _, h := range hostilities() {
				t.Run(h.name, func(t *testing.T) {
					one := *a
					one.TB = t
					one.suffer(h)
				})
			}
		})
	}
}
