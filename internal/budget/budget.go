// Package budget counts the bytes that requests and replies hold in memory. A caller that would hold too many bytes waits.
//
// A server has one Budget. An Account is one panel's part of it, a Share is one connection's part of an account, and a Hold is
// what one call holds of a share. A reservation must fit at all three levels:
//
//   - A share and an account have a limit. A reservation that is larger than a limit fits when nothing else is held there.
//   - The last quarter of the budget is for accounts that hold little (least). Of the rest, an account never holds more than is
//     still free. So accounts that give nothing back cannot take everything: small requests and replies of others still fit.
//   - A reservation that is larger than the rest fits when nothing else is held. It counts as the rest, so that the last quarter
//     stays for others. Memory that the caller can do without is never that large (TrySpare, Most).
//   - While a reservation waits for the budget, connections that have given nothing back for long are cut.
//
// A Hold waits without holding anything, so that waiting holds cannot block each other. One that grows keeps what it has: it waits only for another that
// grows, and that does not wait. A share serves its reservations in order
// of arrival. The shares of an account take turns. Accounts have no order among them, so that one panel never waits behind another
// whose reservation does not fit yet.
//
// All types are safe for concurrent use, except Hold: only its Cancel is. Nothing waits while it holds the lock.
package budget

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
)

// Level says which limit a reservation does not fit.
type Level string

// The levels. Their texts are the labels of metrics.
const (
	LevelShare   Level = "memory_per_connection"
	LevelAccount Level = "memory_per_panel"
	LevelBudget  Level = "memory_total"

	fits Level = ""
)

// ClosedError says that the account or the share of a hold was closed.
type ClosedError struct{}

// Error implements error.
func (ClosedError) Error() string { return "the account was closed" }

// ShortError says that the caller's context ended while its reservation waited.
type ShortError struct {
	// Level is the limit that the reservation waited for.
	Level Level
	// Limit is that limit, in bytes.
	Limit int64
	// Err is the context's.
	Err error
}

// Error implements error.
func (e *ShortError) Error() string {
	return "no room within " + string(e.Level) + ": " + e.Err.Error()
}

// Unwrap returns the context's error.
func (e *ShortError) Unwrap() error { return e.Err }

// Budget is the memory of all accounts together.
type Budget struct {
	limit int64
	stall time.Duration
	waits func(Level)

	mu   sync.Mutex
	used int64
	// short holds the accounts whose first reservation waits for room in the budget, accounts those that have shares.
	short, accounts map[*Account]struct{}
}

// New returns a budget of limit bytes, which must be more than 0. A connection that has given nothing back for stall is cut when
// the budget is short. waits is called for each reservation that has to wait; it may be nil, and must not block.
func New(limit int64, stall time.Duration, waits func(Level)) *Budget {
	if waits == nil {
		waits = func(Level) {}
	}
	return &Budget{limit: limit, stall: stall, waits: waits, short: map[*Account]struct{}{}, accounts: map[*Account]struct{}{}}
}

// least is what an account may hold of the last quarter of the budget: 1,024 accounts may.
func (b *Budget) least() int64 { return max(b.limit/4096, 64<<10) }

// has reports whether the budget has room for n more bytes of an account that holds used bytes. The lock is held.
func (b *Budget) has(used, n int64) bool {
	free := b.limit - b.used
	return n <= free && (used+n <= b.least() || used+n <= free-b.limit/4)
}

// most is what one reservation counts at most: all but the last quarter.
func (b *Budget) most() int64 { return b.limit - b.limit/4 }

// cutStalled cuts the connections that have given nothing back for long.
func (b *Budget) cutStalled() {
	b.mu.Lock()
	var cuts []func()
	before := time.Now().Add(-b.stall)
	for a := range b.accounts {
		for s := range a.shares {
			if s.used > 0 && s.cut != nil && s.moved.Before(before) {
				cuts = append(cuts, s.cut)
			}
		}
	}
	b.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
}

// Limit returns how many bytes may be held.
func (b *Budget) Limit() int64 { return b.limit }

// Held returns how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Account is a panel's part of a Budget. A nil Account has shares without limits, which count nothing.
type Account struct {
	budget *Budget
	limit  int64

	// All below is guarded by budget.mu.
	used   int64
	closed bool
	shares map[*Share]struct{}
	// waiting holds the shares in which reservations wait; the first has its turn. blocked says that not even the first one fits
	// in the account.
	waiting []*Share
	blocked bool
	// grower is what grows beyond the limits of its share and of the account; one at a time. grown is closed when that has ended.
	grower *rest
	grown  chan struct{}
}

// Account returns a new account, of limit bytes; 0 means no limit but the budget's.
func (b *Budget) Account(limit int64) *Account {
	return &Account{budget: b, limit: limit, shares: map[*Share]struct{}{}}
}

// Held returns how many bytes the account holds.
func (a *Account) Held() int64 {
	if a == nil {
		return 0
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.used
}

// Close ends all waits with ClosedError, and lets nothing more be held. What is held still counts until it is released.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.closed = true
	for s := range a.shares {
		s.end(ClosedError{})
	}
	a.shrunk()
	a.next()
}

// Cut calls the cut of every share that holds bytes.
func (a *Account) Cut() {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	var cuts []func()
	for s := range a.shares {
		if s.used > 0 && s.cut != nil {
			cuts = append(cuts, s.cut)
		}
	}
	a.budget.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
}

// Share is what one connection has of an account. A nil Share counts nothing.
type Share struct {
	account *Account
	limit   int64
	cut     func()

	// All below is guarded by the budget's mu.
	used   int64
	closed bool
	queue  []*waiter
	// moved is when the share last gave something back, or took something when it held nothing.
	moved time.Time
}

// Share returns a new share, of limit bytes; 0 means no limit but the account's. cut ends the connection that carries what the
// share holds; nil when there is none. A nil account has a nil share.
func (a *Account) Share(limit int64, cut func()) *Share {
	if a == nil {
		return nil
	}
	s := &Share{account: a, limit: limit, cut: cut}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.shares[s] = struct{}{}
	a.budget.accounts[a] = struct{}{}
	return s
}

// Close gives back all that the share holds, and ends all waits with ClosedError. Whatever its holds release later counts nothing.
func (s *Share) Close() {
	if s == nil {
		return
	}
	b := s.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	delete(s.account.shares, s)
	if len(s.account.shares) == 0 {
		delete(b.accounts, s.account)
	}
	s.end(ClosedError{})
	s.account.used -= s.used
	b.used -= s.used
	s.used = 0
	b.freed(s.account)
}

// IsOver reports whether the share holds nothing and never will again, because its account was closed.
func (s *Share) IsOver() bool {
	mu := &s.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	return s.account.closed && s.used == 0
}

// Hold returns a hold of nothing.
func (s *Share) Hold() *Hold {
	if s == nil {
		return nil
	}
	return &Hold{share: s}
}

// end ends all waits with err. The lock is held.
func (s *Share) end(err error) {
	for _, w := range s.queue {
		w.done <- err
	}
	s.queue = nil
}

// queued returns the level for which others wait that go before a new reservation. The lock is held.
func (s *Share) queued() Level {
	a := s.account
	if _, short := a.budget.short[a]; short {
		return LevelBudget
	}
	if len(s.queue) > 0 && !a.blocked {
		return LevelShare
	}
	return LevelAccount
}

// room returns the level at which n bytes do not fit, or fits. The lock is held.
func (s *Share) room(n int64) Level {
	a := s.account
	b := a.budget
	switch {
	case s.limit > 0 && s.used > 0 && s.used+n > s.limit:
		return LevelShare
	case a.limit > 0 && a.used > 0 && a.used+n > a.limit:
		return LevelAccount
	case !b.has(a.used, n):
		return LevelBudget
	}
	return fits
}

// take counts n bytes, which may be less than 0. The lock is held.
func (s *Share) take(n int64) {
	if n < 0 || s.used == 0 {
		s.moved = time.Now()
	}
	s.used += n
	s.account.used += n
	s.account.budget.used += n
}

// freed grants the waiting reservations that fit after bytes of a were freed. The lock is held.
func (b *Budget) freed(a *Account) {
	a.shrunk()
	a.next()
	for other := range b.short {
		other.next()
	}
}

// next grants the account's waiting reservations as long as they fit. The lock is held.
func (a *Account) next() {
	a.blocked = false
	delete(a.budget.short, a)
	for granted := true; granted; {
		granted = false
		for i := 0; i < len(a.waiting); i++ {
			s := a.waiting[i]
			if len(s.queue) == 0 {
				a.waiting = slices.Delete(a.waiting, i, i+1)
				i--
				continue
			}
			w := s.queue[0]
			switch level := s.room(w.n); level {
			case LevelShare:
				continue
			case fits:
				s.queue = s.queue[1:]
				s.take(w.n)
				w.done <- nil
				a.waiting = append(slices.Delete(a.waiting, i, i+1), s)
				granted = true
			default:
				a.blocked = true
				if level == LevelBudget {
					a.budget.short[a] = struct{}{}
				}
				return
			}
			break
		}
	}
}

// waiter is a reservation that waits.
type waiter struct {
	n int64
	// done has room for the end of the wait.
	done chan error
}

// Small is the size up to which a hold does not count what it is asked for, in bytes: small replies are many, and bounded by the
// number of calls.
const Small = 4 << 10

// Hold is what one call holds of a share. A nil Hold counts nothing.
//
// It is a mem.BufferPool that gives the hold back with its buffer, so that a reply counts until the transport has freed it.
type Hold struct {
	share *Share
	// rest is nil as long as nothing was held.
	rest *rest
	// wanted is what the last Try did not get, and lacked the level at which it did not fit.
	wanted int64
	lacked Level
	// times is how often each byte counts; 0 means once.
	times int64
	// pool is where the buffer is from.
	pool mem.BufferPool

	// mu guards what Cancel uses.
	mu       sync.Mutex
	canceled bool
	stop     context.CancelFunc
}

// rest is what a hold has to give back. It does not refer to the hold, so that the hold can be collected.
type rest struct {
	share *Share
	// n is guarded by the budget's mu.
	n int64
}

// Times makes each byte count so many times in Try, Wait and Keep, for something that takes more memory than its size. Call it
// before the hold holds anything.
func (h *Hold) Times(n int64) {
	if h != nil {
		h.times = n
	}
}

// cost returns how much n bytes count.
func (h *Hold) cost(n int64) int64 { return min(n*max(h.times, 1), h.share.account.budget.most()) }

// Most returns how many bytes a call may take for something that it can do without: it leaves the last quarter of the budget to
// others.
func (h *Hold) Most() int64 {
	if h == nil {
		return math.MaxInt64
	}
	return h.share.account.budget.most() / max(h.times, 1)
}

// Held returns how much is held.
func (h *Hold) Held() int64 {
	if h == nil || h.rest == nil {
		return 0
	}
	mu := &h.share.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	return h.rest.n
}

// Try holds at least n bytes, if that can be done at once: it never waits. On failure the hold keeps what it has.
func (h *Hold) Try(n int64) bool { return h.try(n, false) }

// TrySpare is Try for memory that the caller can do without. It leaves half of the account to others, and never takes more than Most.
func (h *Hold) TrySpare(n int64) bool { return h.try(n, true) }

func (h *Hold) try(n int64, spare bool) bool {
	if h == nil || n <= Small {
		return true
	}
	if h.rest == nil {
		h.rest = &rest{share: h.share}
	}
	s, r := h.share, h.rest
	s.account.budget.mu.Lock()
	defer s.account.budget.mu.Unlock()
	cost := h.cost(n)
	if cost <= r.n {
		return true
	}
	h.lacked = s.queued()
	if !s.closed && !s.account.closed && len(s.queue) == 0 && !s.account.blocked {
		s.take(-r.n)
		a := s.account
		h.lacked = s.room(cost)
		if spare && h.lacked == fits {
			h.lacked = a.spares(cost, n > h.Most())
		}
		if h.lacked == fits {
			s.take(cost)
			r.n = cost
			return true
		}
		s.take(r.n)
	}
	h.wanted = n
	return false
}

// spares returns the level that has no n bytes to spare, or fits. isHuge says that they are more than Most. The lock is held.
func (a *Account) spares(n int64, isHuge bool) Level {
	switch {
	case isHuge:
		return LevelBudget
	case a.limit > 0 && a.used+n > a.limit/2:
		return LevelAccount
	}
	return fits
}

// Wanted returns how many bytes the last Try did not get, and forgets it; 0 when it got all.
func (h *Hold) Wanted() int64 {
	if h == nil {
		return 0
	}
	n := h.wanted
	h.wanted = 0
	return n
}

// Wait gives back what is held, then waits until n bytes are. Errors: a *ShortError when ctx ended first, context.Canceled after
// Cancel, and ClosedError. With an error nothing is held.
func (h *Hold) Wait(ctx context.Context, n int64) error {
	h.Release()
	if h.Try(n) {
		return nil
	}
	h.wanted = 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !h.stopWith(cancel) {
		return context.Canceled
	}
	cost := h.cost(n)
	w, level := h.share.enqueue(cost)
	if w == nil {
		return ClosedError{}
	}
	h.share.account.budget.waits(level)
	ended, err := h.share.await(ctx, w, level)
	switch {
	case !ended && h.isCanceled():
		return context.Canceled
	case !ended:
		return &ShortError{Level: level, Limit: h.share.limitOf(level), Err: ctx.Err()}
	case err == nil:
		h.rest.set(cost)
	}
	return err
}

// Reserve is Wait for a hold that has nothing, and Grow for one that has something.
func (h *Hold) Reserve(ctx context.Context, n int64) error {
	if h.Held() > 0 {
		return h.Grow(ctx, n)
	}
	return h.Wait(ctx, n)
}

// Grow holds n bytes instead of the fewer that it holds, and never gives that back: it is for what is in memory already. Who holds something goes before
// those who wait for room, and one hold of an account at a time may grow beyond the limits of its share and account; another waits for that to
// end. None of them waits for room that the others hold, so each ends. Errors: a *ShortError when there is no room in the budget, or ctx ended
// first, and ClosedError. With an error the hold keeps what it has.
func (h *Hold) Grow(ctx context.Context, n int64) error {
	if h == nil || h.rest == nil {
		return nil
	}
	for {
		other, err := h.rest.grow(h.cost(n))
		if errors.As(err, new(*ShortError)) {
			h.share.account.budget.cutStalled()
		}
		if err != nil || other == nil {
			return err
		}
		h.share.account.budget.waits(LevelAccount)
		select {
		case <-other:
		case <-ctx.Done():
			return &ShortError{Level: LevelAccount, Limit: h.share.account.limit, Err: ctx.Err()}
		}
	}
}

// grow takes n bytes in place of those that r has, or returns what is closed when another hold grows no more.
func (r *rest) grow(n int64) (other <-chan struct{}, err error) {
	s, a := r.share, r.share.account
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if s.closed || a.closed {
		return nil, ClosedError{}
	}
	more := n - r.n
	if more <= 0 {
		return nil, nil
	}
	s.take(-r.n)
	fit, has := s.room(n) == fits, a.budget.has(a.used, n)
	s.take(r.n)
	switch {
	case !has:
		return nil, &ShortError{Level: LevelBudget, Limit: a.budget.limit, Err: context.DeadlineExceeded}
	case !fit && a.grower != nil && a.grower != r:
		return a.grown, nil
	case !fit && a.grower == nil:
		a.grower, a.grown = r, make(chan struct{})
	}
	s.take(more)
	r.n = n
	return nil, nil
}

// shrunk ends the growth of the account's grower if that is within the limits again. The lock is held.
func (a *Account) shrunk() {
	r := a.grower
	if r == nil {
		return
	}
	s := r.share
	isWithin := (s.limit <= 0 || s.used <= s.limit) && (a.limit <= 0 || a.used <= a.limit)
	if r.n == 0 || s.closed || a.closed || isWithin {
		close(a.grown)
		a.grower = nil
	}
}

// await waits until w has its turn or ctx has ended. ended says that the former came first, with err.
func (s *Share) await(ctx context.Context, w *waiter, level Level) (ended bool, err error) {
	var tick <-chan time.Time
	if level == LevelBudget {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
		s.account.budget.cutStalled()
	}
	for {
		select {
		case err = <-w.done:
			return true, err
		case <-ctx.Done():
			return s.leave(w)
		case <-tick:
			s.account.budget.cutStalled()
		}
	}
}

// enqueue lets n bytes wait; nil when the share is closed. level is what they wait for.
func (s *Share) enqueue(n int64) (w *waiter, level Level) {
	mu := &s.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	if s.closed || s.account.closed {
		return nil, fits
	}
	if level = s.room(n); level == fits {
		level = s.queued()
	}
	w = &waiter{n: n, done: make(chan error, 1)}
	s.queue = append(s.queue, w)
	if !slices.Contains(s.account.waiting, s) {
		s.account.waiting = append(s.account.waiting, s)
	}
	s.account.next()
	return w, level
}

// leave takes a reservation out of the queue. ended says that its wait ended before that, with err.
func (s *Share) leave(w *waiter) (ended bool, err error) {
	mu := &s.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	i := slices.Index(s.queue, w)
	if i < 0 {
		return true, <-w.done
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	s.account.next()
	return false, nil
}

func (s *Share) limitOf(level Level) int64 {
	switch level {
	case LevelShare:
		return s.limit
	case LevelAccount:
		return s.account.limit
	}
	return s.account.budget.limit
}

// stopWith makes stop what Cancel calls; false when that was called already.
func (h *Hold) stopWith(stop context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = stop
	return !h.canceled
}

func (h *Hold) isCanceled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.canceled
}

// Cancel ends the hold's wait, and every later one.
func (h *Hold) Cancel() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.canceled = true
	if h.stop != nil {
		h.stop()
	}
}

// Keep gives back all but n bytes. It never takes more.
func (h *Hold) Keep(n int64) {
	if h != nil && h.rest != nil {
		h.rest.keep(h.cost(n))
	}
}

// Release gives back all. It may be called more than once.
func (h *Hold) Release() { h.Keep(0) }

func (r *rest) keep(n int64) {
	b := r.share.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	back := r.n - n
	if back <= 0 {
		return
	}
	r.n = n
	if !r.share.closed {
		r.share.take(-back)
		b.freed(r.share.account)
	}
}

// set notes n bytes that were taken for r.
func (r *rest) set(n int64) {
	mu := &r.share.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	r.n = n
}

// Absorb moves what other holds to h. Both must be of one share.
func (h *Hold) Absorb(other *Hold) {
	if other == nil || other.rest == nil {
		return
	}
	if h.rest == nil {
		h.rest = &rest{share: h.share}
	}
	mu := &h.share.account.budget.mu
	mu.Lock()
	defer mu.Unlock()
	h.rest.n += other.rest.n
	other.rest.n = 0
}

// More returns another hold of the same share.
func (h *Hold) More() *Hold {
	if h == nil {
		return nil
	}
	more := h.share.Hold()
	more.times = h.times
	return more
}

// Aside returns a hold that counts for the account alone, not for the connection, and the function that gives it back.
func (h *Hold) Aside() (aside *Hold, done func()) {
	if h == nil {
		return nil, func() {}
	}
	s := h.share.account.Share(0, h.share.cut)
	return s.Hold(), s.Close
}

// From makes pool the one that Get and Put use, and returns h as a pool.
func (h *Hold) From(pool mem.BufferPool) mem.BufferPool {
	if h == nil {
		return pool
	}
	h.pool = pool
	return h
}

// Get implements mem.BufferPool.
func (h *Hold) Get(length int) *[]byte { return h.pool.Get(length) }

// Put implements mem.BufferPool: it takes the one buffer back that the hold is for, and gives the hold back.
func (h *Hold) Put(buf *[]byte) {
	h.pool.Put(buf)
	h.Release()
}

// ReleaseWhenLost gives the hold back when the garbage collector finds that nothing refers to it. It is for a buffer that the
// transport may have dropped without freeing it. The hold may be released before that.
func (h *Hold) ReleaseWhenLost() {
	if h != nil && h.rest != nil {
		runtime.AddCleanup(h, func(r *rest) { r.keep(0) }, h.rest)
	}
}

type holdKey struct{}

// With returns ctx with the hold of a call.
func With(ctx context.Context, h *Hold) context.Context {
	if h == nil {
		return ctx
	}
	return context.WithValue(ctx, holdKey{}, h)
}

// Uncounted returns ctx without the hold of its call, for a step that must not fail for lack of memory.
func Uncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, holdKey{}, (*Hold)(nil))
}

// Of returns the hold of a call; nil when it has none.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}
