package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

// The test binary is its own server: with serveEnv naming a workspace it serves that.
const (
	serveEnv  = "CTXFS_LEDGER_SERVE"
	driverEnv = "CTXFS_LEDGER_DRIVER"
	// metadataEnv is where the server keeps its records, "" for SQLite.
	metadataEnv = "CTXFS_LEDGER_METADATA"
	// readyPrefix begins the line with the address of the server and that of the metrics.
	readyPrefix = "ready "
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	powercut.Main()
	if os.Getenv(serveEnv) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(pgtest.Main(m))
}

// serve is the server's process. It answers each line on standard input with the number of its goroutines, and ends
// with that, so that it does not outlive the test.
func serve() error {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.Driver, cfg.DiskReserve, cfg.HTTP = os.Getenv(serveEnv), os.Getenv(driverEnv), 0, "127.0.0.1:0"
	cfg.Metadata = os.Getenv(metadataEnv)
	log, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel), zap.AddStacktrace(zap.FatalLevel))
	if err != nil {
		return err
	}
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-test", Log: log})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println(runtime.NumGoroutine())
		}
		stop()
	}()
	fmt.Println(readyPrefix+s.Info().Addresses.Target(), s.Info().Addresses.HTTP)
	return <-served
}

// process is a server that runs.
type process struct {
	cmd     *exec.Cmd
	address string
	// http is where the metrics are.
	http string
	in   *os.File
	out  *bufio.Reader
	log  string
}

// start runs a server until it accepts calls.
func start(workspace, driver string) (*process, error) {
	p, err := launch(workspace, driver)
	if err != nil {
		return nil, err
	}
	line, err := p.out.ReadString('\n')
	addresses, ok := strings.CutPrefix(strings.TrimSpace(line), readyPrefix)
	if err != nil || !ok {
		return nil, fmt.Errorf("the server did not start: %q, %w; its log: %s", line, errors.Join(err, p.end(os.Kill)), p.tail())
	}
	p.address, p.http, _ = strings.Cut(addresses, " ")
	return p, nil
}

// launch begins to start a server.
func launch(workspace, driver string) (*process, error) {
	metadata, err := pgtest.Setting(workspace)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(filepath.Dir(workspace), "server.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+workspace, driverEnv+"="+driver, metadataEnv+"="+metadata)
	if namespacestest.Inside() {
		namespacestest.Keep(cmd)
	}
	cmd.Stderr = log
	theirs, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	cmd.Stdin = theirs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out), log: log.Name()}, nil
}

// end sends a signal and waits until the server is gone; that a kill is no orderly exit is no error.
func (p *process) end(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	waited := p.cmd.Wait()
	if sig == os.Kill {
		waited = nil
	}
	return errors.Join(err, waited, p.in.Close())
}

// goroutines asks the server how many it has.
func (p *process) goroutines() (int, error) {
	if _, err := p.in.WriteString("?\n"); err != nil {
		return 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// tail is the end of what servers logged.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-3000):])
}

// lifeTime bounds the life of a server that a fixed amount of work, or a kill, ends.
const lifeTime = 5 * time.Minute

// dial connects as the host.
func (p *process) dial(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return client.Dial(ctx, client.WithAddress(p.address))
}
