package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// Work describes the work of a client that runs in a process of its own.
type Work struct {
	// Op is "stat", "read", "walk" or "stream".
	Op    string   `json:"op"`
	Names []string `json:"names"`
	// Size is how many bytes a read or a stream brings, and how many ask at once in a walk.
	Size int64 `json:"size"`
	// Workers is how many workers run, each with one operation at a time. Millis is how long they run.
	Workers int   `json:"workers"`
	Millis  int64 `json:"ms"`
}

// Done is what came of it.
type Done struct {
	// Durations of operations; those of work that was cut are scaled up.
	Durations []time.Duration
	// Ops were done in Took.
	Ops  float64
	Took time.Duration
}

// startNode starts clients in Node: the npm package of ctxfs, and one of a file service in Node that speaks JSON over WebSocket, with content
// in base64, as panels write it themselves. The service's source is in node/.
func startNode(ctx context.Context, e *Env) ([]*Peer, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, &MissingError{What: "node (Debian: nodejs)"}
	}
	dir := filepath.Join(e.Source, "peers", "node")
	if exists(filepath.Join(dir, "node_modules", "ws")) != nil {
		return nil, &MissingError{What: "the package ws: npm install --prefix bench/peers/node, which make bench does"}
	}
	module := filepath.Join(e.Source, "..", "client", "ts", "dist", "esm", "index.js")
	if exists(module) != nil {
		return nil, &MissingError{What: "the npm client: npm ci and npm run build in client/ts, which make bench does"}
	}
	service, err := e.Start(dir, node, "json-server.mjs", e.Root)
	if err != nil {
		return nil, err
	}
	address, err := service.Line(ctx, readyPrefix)
	if err != nil {
		return nil, err
	}
	token, _ := e.Ctxfs.Panel.Token()
	ctxfs := func(address string) map[string]any {
		return map[string]any{"kind": "ctxfs", "module": module, "address": address, "token": token}
	}
	var out []*Peer
	for _, c := range []struct {
		name, what, role string
		server           int
		options          map[string]any
	}{
		{"ctxfs-node", "ctxfs, npm client in Node, unix socket", Product, e.Ctxfs.PID(), ctxfs(e.Ctxfs.socket)},
		{"ctxfs-node-tcp", "ctxfs, npm client in Node, TCP", Product, e.Ctxfs.PID(), ctxfs(e.Ctxfs.tcp)},
		{"json-ws-node", "JSON over WebSocket with base64, Node and ws, up to four connections, TCP", Rival, service.PID(), map[string]any{"kind": "json", "url": "ws://" + address}},
	} {
		p, err := e.Start(dir, node, "load.mjs")
		if err != nil {
			return nil, err
		}
		n := nodeClient{p}
		out = append(out, &Peer{Name: c.name, What: c.what, Role: c.role, PIDs: []int{c.server, p.PID()}, Dial: func(ctx context.Context, concurrency int) (*Conn, error) {
			c.options["connections"] = min(concurrency, 4)
			return &Conn{Drive: n.drive, Close: func() error { return nil }}, n.task(ctx, "dial", c.options, &struct{}{})
		}})
	}
	return out, nil
}

// nodeClient is a client in a process, which lives on for the next connection.
type nodeClient struct{ *stand.Process }

func (c nodeClient) drive(ctx context.Context, w Work) (Done, error) {
	var outcome struct {
		Micros []int64 `json:"took"`
		Ops    float64 `json:"ops"`
		Millis float64 `json:"ms"`
	}
	if err := c.task(ctx, "work", w, &outcome); err != nil {
		return Done{}, err
	}
	done := Done{Ops: outcome.Ops, Took: time.Duration(outcome.Millis * float64(time.Millisecond))}
	for _, us := range outcome.Micros {
		done.Durations = append(done.Durations, time.Duration(us)*time.Microsecond)
	}
	return done, nil
}

// task has the process do something, and reads what it says of it.
func (c nodeClient) task(ctx context.Context, name string, options, outcome any) error {
	question, err := json.Marshal(map[string]any{name: options})
	if err != nil {
		return err
	}
	answer, err := c.Ask(ctx, string(question), "did ")
	if err != nil {
		return err
	}
	var failed struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(answer), &failed); err != nil {
		return fmt.Errorf("what the Node client said: %w", err)
	}
	if failed.Error != "" {
		return errors.New("the Node client: " + failed.Error)
	}
	return json.Unmarshal([]byte(answer), outcome)
}
