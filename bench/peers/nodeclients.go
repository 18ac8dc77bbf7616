package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/child"
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

// Driver is a connection whose client is a process of its own, which does work and measures
// it: what is between that process and this one must not be measured.
type Driver interface {
	Drive(ctx context.Context, w Work) (Done, error)
}

// NodeClients are clients in Node: the npm package of ctxfs, and one of the JSON service.
type NodeClients struct {
	Product *Ctxfs
	JSON    *JSONWS
	started []*child.Process
}

// Name implements Family.
func (*NodeClients) Name() string { return "ctxfs-node" }

// Start implements Family; the servers are running.
func (n *NodeClients) Start(_ context.Context, env Env) ([]*Peer, error) {
	if n.JSON.address == "" {
		return nil, &MissingError{What: "what json-ws needs"}
	}
	module := filepath.Join(env.Source, "..", "client", "ts", "dist", "esm", "index.js")
	if readable(module) != nil {
		return nil, &MissingError{What: "the npm client: npm ci and npm run build in client/ts, which make bench does"}
	}
	module, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	token, _ := n.Product.panel.Token()
	ctxfs := func(address string) func(int) map[string]any {
		return func(int) map[string]any {
			return map[string]any{"kind": "ctxfs", "module": module, "address": address, "token": token}
		}
	}
	var out []*Peer
	for _, c := range []struct {
		name, what string
		role       Role
		server     int
		dial       func(concurrency int) map[string]any
	}{
		{"ctxfs-node", "ctxfs, npm client in Node, unix socket", Product, n.Product.PID(), ctxfs(n.Product.socket)},
		{"ctxfs-node-tcp", "ctxfs, npm client in Node, TCP", Product, n.Product.PID(), ctxfs(n.Product.tcp)},
		{"json-ws-node", "the JSON service with a client in Node", Rival, n.JSON.process.PID(), func(concurrency int) map[string]any {
			return map[string]any{"kind": "json", "url": "ws://" + n.JSON.address, "connections": min(concurrency, jsonConns)}
		}},
	} {
		process, err := n.load(env)
		if err != nil {
			return nil, err
		}
		out = append(out, &Peer{
			Name: c.name, What: c.what, Role: c.role, PIDs: []int{c.server, process.PID()},
			Dial: func(ctx context.Context, concurrency int) (Conn, error) {
				return nodeConn{process}, nodeConn{process}.task(ctx, "dial", c.dial(concurrency), &struct{}{})
			},
		})
	}
	return out, nil
}

func (n *NodeClients) load(env Env) (*child.Process, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	p, err := child.Start(filepath.Join(env.Source, "peers", "node"), node, "load.mjs")
	if err == nil {
		n.started = append(n.started, p)
	}
	return p, err
}

// Close implements Family.
func (n *NodeClients) Close() error {
	var errs []error
	for _, p := range n.started {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// nodeConn is a client in a process, which lives on for the next connection.
type nodeConn struct{ process *child.Process }

// Close implements Conn.
func (nodeConn) Close() error { return nil }

// Drive implements Driver.
func (c nodeConn) Drive(ctx context.Context, w Work) (Done, error) {
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
func (c nodeConn) task(ctx context.Context, name string, options, outcome any) error {
	question, err := json.Marshal(map[string]any{name: options})
	if err != nil {
		return err
	}
	answer, err := c.process.Ask(ctx, string(question), "did ")
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
