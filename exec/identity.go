package exec

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
)

// Identity is how clients recognize a process. All of it is optional.
type Identity struct {
	// RequestID makes a start repeatable: up to 128 bytes.
	RequestID string `json:",omitzero"`
	// Name is for people: up to 64 of A-Z a-z 0-9 . _ -, and not "p-" first, as IDs have it. One process of a context that runs has it.
	Name string `json:",omitzero"`
	// Labels are the client's: up to 16, with keys of 1 to 64 bytes and values of up to 256.
	Labels map[string]string `json:",omitzero"`
}

// Bounds of an Identity.
const (
	maxRequestID                              = 128
	maxLabels, maxLabelKey, maxLabelValue int = 16, 64, 256
)

var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (i *Identity) check() error {
	if len(i.RequestID) > maxRequestID {
		return fserr.Invalid("request_id has %d bytes, more than %d", len(i.RequestID), maxRequestID)
	}
	if i.Name != "" && (!names.MatchString(i.Name) || len(i.Name) > 1 && i.Name[:2] == "p-") {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad name %q", i.Name), Hint: `use up to 64 of A-Z a-z 0-9 . _ - and not "p-" first`}
	}
	if len(i.Labels) > maxLabels {
		return fserr.Invalid("%d labels, more than %d", len(i.Labels), maxLabels)
	}
	for key, value := range i.Labels {
		if key == "" || len(key) > maxLabelKey || len(value) > maxLabelValue {
			return &fserr.Error{
				Code: fserr.EINVAL, Detail: fmt.Sprintf("bad label %.80q", key),
				Hint: fmt.Sprintf("use keys of 1 to %d bytes and values of up to %d", maxLabelKey, maxLabelValue),
			}
		}
	}
	return nil
}

// nameKey is a name or a request ID within a context.
type nameKey struct {
	context contexts.ID
	name    string
}

func (c *Command) nameKey() nameKey    { return nameKey{c.Context, c.Name} }
func (c *Command) requestKey() nameKey { return nameKey{c.Context, c.RequestID} }

// takeName reserves the name of a command that is about to start. others are names that processes of other engines have. t.mu is held.
func (t *Processes) takeName(cmd *Command, others []string) error {
	if cmd.Name == "" {
		return nil
	}
	if _, taken := t.names[cmd.nameKey()]; taken || slices.Contains(others, cmd.Name) {
		return &fserr.Error{Code: fserr.EEXIST, Detail: fmt.Sprintf("a process %q runs in context '%s'", cmd.Name, cmd.Context), Hint: "use another name, or end that process"}
	}
	t.names[cmd.nameKey()] = struct{}{}
	return nil
}

// request is a start with a request ID.
type request struct {
	// decided is closed when the start has succeeded or failed.
	decided chan struct{}
	// process is nil until the start has succeeded. The table's mu guards it.
	process *Process
}

// startOnce starts a command unless its request ID did so before.
func (t *Processes) startOnce(ctx context.Context, cmd Command) (*Process, error) {
	for {
		t.mu.Lock()
		r := t.requests[cmd.requestKey()]
		if r == nil {
			r = &request{decided: make(chan struct{})}
			t.requests[cmd.requestKey()] = r
			t.mu.Unlock()
			return t.decide(ctx, cmd, r)
		}
		p := r.process
		t.mu.Unlock()
		if p != nil {
			return p, sameCommand(p, &cmd)
		}
		select {
		case <-r.decided: // if it failed, this start tries
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *Processes) decide(ctx context.Context, cmd Command, r *request) (*Process, error) {
	defer close(r.decided)
	p, err := t.startNew(ctx, cmd)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || t.byID[p.ID] == nil { // it failed, or has ended and was forgotten
		delete(t.requests, cmd.requestKey())
		return p, err
	}
	r.process = p
	return p, nil
}

// sameCommand fails if a process was started with another command. What an earlier version started is not compared.
func sameCommand(p *Process, cmd *Command) error {
	asked, err := cmd.digest(p.ID)
	if err != nil || p.asked == "" || p.asked == asked {
		return err
	}
	return &fserr.Error{
		Code: fserr.EEXIST, Detail: fmt.Sprintf("request_id %q started process %s with another command", cmd.RequestID, p.ID), Hint: "use a new request_id for a new command",
	}
}

// MarshalJSON has the bytes of arguments and of a working directory that are not UTF-8, which the text of JSON is. Others are as without it.
func (c Command) MarshalJSON() ([]byte, error) {
	out := rawCommand{command: command(c)}
	if slices.ContainsFunc(c.Argv, func(a string) bool { return !utf8.ValidString(a) }) {
		out.Argv = nil
		for _, a := range c.Argv {
			out.RawArgv = append(out.RawArgv, []byte(a))
		}
	}
	if !utf8.ValidString(c.Cwd) {
		out.Cwd, out.RawCwd = "", []byte(c.Cwd)
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *Command) UnmarshalJSON(data []byte) error {
	var in rawCommand
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for _, a := range in.RawArgv {
		in.Argv = append(in.Argv, string(a))
	}
	if len(in.RawCwd) > 0 {
		in.Cwd = string(in.RawCwd)
	}
	*c = Command(in.command)
	return nil
}

// command is a Command without methods.
type command Command

// rawCommand is a Command as JSON has it.
type rawCommand struct {
	command
	RawArgv [][]byte `json:",omitzero"`
	RawCwd  []byte   `json:",omitzero"`
}

// digest returns a text that only equal commands have, for a record: it shows neither the environment nor the input, which may hold secrets.
// The process ID makes the digests of equal commands differ.
func (c *Command) digest(process string) (string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode a command: %w", err)
	}
	sum := hmac.New(sha256.New, []byte(process))
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// forgetRequest forgets the request ID of a process. t.mu is held.
func (t *Processes) forgetRequest(p *Process) {
	if r := t.requests[p.cmd.requestKey()]; r != nil && r.process == p {
		delete(t.requests, p.cmd.requestKey())
	}
}

// attachTime is the default of Processes.attachTime.
const attachTime = 30 * time.Second

// Elsewhere is what other engines have of a context: those of earlier versions, which run their processes to the end and start no other. It
// counts with what this engine has.
type Elsewhere struct {
	// Running is how many processes start or run.
	Running int
	// Names are the names of these.
	Names []string
}

type elsewhereKey struct{}

// WithElsewhere returns a context for Start.
func WithElsewhere(ctx context.Context, e Elsewhere) context.Context {
	return context.WithValue(ctx, elsewhereKey{}, e)
}

func elsewhereOf(ctx context.Context) Elsewhere {
	e, _ := ctx.Value(elsewhereKey{}).(Elsewhere) // usually there is one engine
	return e
}

// Has returns what the engine has of a context, for the Start of another engine, and whether it knows a process that was started with a
// request ID. It waits for a start with that ID that is under way.
func (t *Processes) Has(ctx context.Context, id contexts.ID, requestID string) (e Elsewhere, known bool, err error) {
	t.mu.Lock()
	e.Running = t.active[id]
	for key := range t.names {
		if key.context == id {
			e.Names = append(e.Names, key.name)
		}
	}
	r := t.requests[nameKey{id, requestID}]
	t.mu.Unlock()
	if r == nil {
		return e, false, nil
	}
	select {
	case <-r.decided:
	case <-ctx.Done():
		return e, false, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return e, r.process != nil, nil
}
