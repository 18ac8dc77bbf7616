package exec

import (
	"sync"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/exec/egress"
)

// Refusal is a connection that the proxy refused.
type Refusal struct {
	Name   string
	Port   uint16
	Reason string
	Count  int64
}

// maxRefusals bounds the different refusals that are kept for a process.
const maxRefusals = 32

// refusals are those of one process.
type refusals struct {
	mu   sync.Mutex
	list []Refusal
}

func (r *refusals) add(use egress.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if known := &r.list[i]; known.Name == use.Name && known.Port == use.Port && known.Reason == use.Refusal {
			known.Count++
			return
		}
	}
	if len(r.list) < maxRefusals {
		r.list = append(r.list, Refusal{use.Name, use.Port, use.Refusal, 1})
	}
}

// Refusals returns what the proxy refused to the process's sandbox while the process ran: the first different requests.
func (p *Process) Refusals() []Refusal {
	p.refusals.mu.Lock()
	defer p.refusals.mu.Unlock()
	return append([]Refusal(nil), p.refusals.list...)
}

// reportUse logs a use of the network by this process's own sandbox.
func (p *Process) reportUse(use egress.Use) {
	p.table.logUse([]zap.Field{zap.String("context", string(p.cmd.Context)), zap.String("process", p.ID)}, use)
	if use.Refusal != "" {
		p.refusals.add(use)
	}
}

// logUse logs what a sandbox did with the network.
func (t *Processes) logUse(sandbox []zap.Field, use egress.Use) {
	fields := append(sandbox[:len(sandbox):len(sandbox)], zap.String("name", use.Name), zap.Uint16("port", use.Port))
	switch {
	case use.Refusal != "":
		t.cfg.Log.Info("network: refused", append(fields, zap.String("reason", use.Refusal))...)
	case use.Err != nil:
		t.cfg.Log.Info("network: failed", append(fields, zap.Error(use.Err))...)
	default:
		t.cfg.Log.Info("network: connected", append(fields, zap.Stringer("address", use.Address))...)
	}
}
