package exec

import (
	"sync"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

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
	p.uses.write(p.logger(), use)
	if use.Refusal != "" {
		p.refusals.add(use)
	}
}

// logger is for what the process's own sandbox does.
func (p *Process) logger() *zap.Logger {
	return p.table.cfg.Log.With(zap.String("context", string(p.cmd.Context)), zap.String("process", p.ID))
}

// useLines is how many uses of the network the log has of a sandbox in a second, for each outcome: refusals cannot push out the lines of
// connections. useBurst is how many it has at once.
const (
	useLines = 5
	useBurst = 100
)

// useLog writes the uses of the network by one sandbox to the log. The zero value is ready.
type useLog struct {
	mu sync.Mutex
	// lines bounds those of each outcome, and leftOut counts the uses that have no line.
	lines   map[string]*rate.Limiter
	leftOut map[string]int64
}

// write writes a line, with how many of its outcome have none since the line before, unless there are too many.
func (l *useLog) write(log *zap.Logger, use egress.Use) {
	fields := []zap.Field{zap.String("name", use.Name), zap.Uint16("port", use.Port)}
	outcome := "network: connected"
	switch {
	case use.Refusal != "":
		outcome, fields = "network: refused", append(fields, zap.String("reason", use.Refusal))
	case use.Err != nil:
		outcome, fields = "network: failed", append(fields, zap.Error(use.Err))
	default:
		fields = append(fields, zap.Stringer("address", use.Address))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines, l.leftOut = map[string]*rate.Limiter{}, map[string]int64{}
	}
	if l.lines[outcome] == nil {
		l.lines[outcome] = rate.NewLimiter(useLines, useBurst)
	}
	if !l.lines[outcome].Allow() {
		l.leftOut[outcome]++
		return
	}
	if n := l.leftOut[outcome]; n > 0 {
		fields = append(fields, zap.Int64("left_out", n))
		delete(l.leftOut, outcome)
	}
	log.Info(outcome, fields...)
}

// end writes how many uses have no line. The sandbox has ended.
func (l *useLog) end(log *zap.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for outcome, n := range l.leftOut {
		log.Info(outcome, zap.Int64("left_out", n))
	}
}
