package session

import (
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxTogether bounds the messages that travel as one.
	maxTogether = 128
	// maxWaiting is how much may wait to be sent, in bytes, before goroutines that send more block. Large replies count as the
	// session's memory as well.
	maxWaiting = 256 << 10
)

// replies sends a session's messages. A goroutine that has a message while no other sends becomes the sender, and also sends what
// others add meanwhile, as one message if the client takes batches. When the client does not read, too much waits, and goroutines
// that have more block.
type replies struct {
	link Link
	// sent is called with each message that the link has sent.
	sent func(*ctxfsv1.SessionResponse)
	// together says that the client takes batches.
	together bool

	mu      sync.Mutex
	waiting []outgoing
	// spare is the list that was sent last, for the next messages.
	spare   []outgoing
	weight  int
	sending bool
	// corked holds back the sender while the receiver has more to answer at once.
	corked bool
	// over is set with the last message, and broken when the link is.
	over   bool
	broken error
	// room is signalled when less waits.
	room sync.Cond
}

// outgoing is a message and its hold on the session's memory, which may be nil.
type outgoing struct {
	*ctxfsv1.SessionResponse
	hold *budget.Hold
}

func newReplies(link Link, together bool, sent func(*ctxfsv1.SessionResponse)) *replies {
	r := &replies{link: link, together: together, sent: sent}
	r.room.L = &r.mu
	return r
}

// send sends m, or leaves it to the goroutine that is sending. h is released when m was sent. It returns the link's error.
func (r *replies) send(m *ctxfsv1.SessionResponse, h *budget.Hold) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.add(outgoing{m, h}, false)
	if err != nil {
		h.Release()
	}
	return err
}

// last sends m as the last message.
func (r *replies) last(m *ctxfsv1.SessionResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.corked = false
	_ = r.add(outgoing{m, nil}, true) // a broken link has no last message
	for r.sending {
		r.room.Wait()
	}
}

// add adds a message, which may be the last one. r.mu is held, but not while it waits or sends.
func (r *replies) add(m outgoing, last bool) error {
	for r.sending && r.weight > maxWaiting && r.broken == nil {
		r.room.Wait()
	}
	switch {
	case r.broken != nil:
		return r.broken
	case r.over:
		return fserr.ECANCELED
	}
	r.over = last
	r.waiting = append(r.waiting, m)
	r.weight += weightOf(m.SessionResponse)
	if r.sending || (r.corked && r.weight <= maxWaiting && len(r.waiting) < maxTogether) {
		return nil
	}
	return r.flush()
}

// cork holds messages back until uncork, as long as there is room.
func (r *replies) cork() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.corked = r.together
}

func (r *replies) uncork() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.corked = false
	if r.sending {
		return r.broken
	}
	return r.flush()
}

// flush sends all that waits. r.mu is held, but not while it sends.
func (r *replies) flush() error {
	r.sending = true
	for len(r.waiting) > 0 && r.broken == nil {
		batch := r.waiting
		r.waiting, r.spare, r.weight = r.spare, nil, 0
		r.mu.Unlock()
		err := r.sendBatch(batch)
		clear(batch)
		r.mu.Lock()
		r.broken, r.spare = err, batch[:0]
		r.room.Broadcast()
	}
	r.sending = false
	r.room.Broadcast()
	return r.broken
}

func (r *replies) sendBatch(batch []outgoing) error {
	for len(batch) > 0 {
		n := 1
		if r.together {
			n = together(batch)
		}
		first := batch[0]
		for _, m := range batch[1:n] {
			first.Also = append(first.Also, m.SessionResponse)
			if first.hold == nil {
				first.hold = m.hold
				continue
			}
			first.hold.Absorb(m.hold)
		}
		clear(batch[:n]) // the link may free a message once it is encoded
		if err := r.link.Send(first.SessionResponse, first.hold); err != nil {
			return err
		}
		r.sent(first.SessionResponse)
		for _, m := range first.GetAlso() {
			r.sent(m)
		}
		batch = batch[n:]
	}
	return nil
}

// together returns how many of the messages, at least one, travel as one.
func together(batch []outgoing) int {
	weight := 0
	for n, m := range batch {
		if weight += weightOf(m.SessionResponse); n > 0 && (n >= maxTogether || weight > maxWaiting) {
			return n
		}
	}
	return len(batch)
}

// weightOf estimates the size of a message, in bytes.
func weightOf(m *ctxfsv1.SessionResponse) int {
	const small = 256
	return small + len(m.GetReply().GetData())
}
