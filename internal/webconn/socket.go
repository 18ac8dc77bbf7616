package webconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// The opcodes of RFC 6455 that a session uses, and what its frames may have at most, in bytes.
const (
	opContinuation = 0
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10

	maxControl = 125
	maxHeader  = 14
)

// readBuffer is how much a Socket reads ahead, in bytes. A reply with a small file fits.
const readBuffer = 8 << 10

// errFrame is the cause of all errors about the other end's frames.
var errFrame = errors.New("the other end breaks the WebSocket protocol")

// Socket is the client's end of a WebSocket of binary messages, once HTTP has switched to it. One goroutine at a time receives, and
// one sends. A Receive that was interrupted loses nothing: the next one goes on where it stopped.
type Socket struct {
	// conn is a Conn, or TLS over one.
	conn    io.ReadWriteCloser
	limit   int
	buffers *Buffers

	// buffer holds what was read, of which unread was not used yet.
	buffer, unread []byte
	// message is what has come of a message that is in several frames, or larger than the buffer. partial says that there is one.
	message []byte
	partial bool
	// frame is the one whose content comes, of which left bytes have not come yet.
	frame header
	left  int

	writing sync.Mutex
	// answering is set while a pong is sent.
	answering atomic.Bool
}

// NewSocket returns a Socket on conn. A message of more than limit bytes is an error.
func NewSocket(conn io.ReadWriteCloser, limit int, buffers *Buffers) *Socket {
	return &Socket{conn: conn, limit: limit, buffers: buffers, buffer: make([]byte, readBuffer)}
}

// header is the head of a frame.
type header struct {
	op     byte
	final  bool
	length uint64
}

// parseHeader returns the header at the start of b and its size, 0 when it has not come in full.
func parseHeader(b []byte) (h header, size int, err error) {
	if len(b) < 2 {
		return header{}, 0, nil
	}
	if b[0]&0x70 != 0 || b[1]&0x80 != 0 {
		return header{}, 0, fmt.Errorf("%w: a frame of an extension, or masked", errFrame)
	}
	h = header{op: b[0] & 0x0f, final: b[0]&0x80 != 0, length: uint64(b[1])}
	size = 2
	switch h.length {
	case 126:
		if size = 4; len(b) >= size {
			h.length = uint64(binary.BigEndian.Uint16(b[2:]))
		}
	case 127:
		if size = 10; len(b) >= size {
			h.length = binary.BigEndian.Uint64(b[2:])
		}
	}
	if len(b) < size {
		return header{}, 0, nil
	}
	if h.op >= opClose && (h.length > maxControl || !h.final) {
		return header{}, 0, fmt.Errorf("%w: a control frame of %d bytes, or in parts", errFrame, h.length)
	}
	return h, size, nil
}

// Receive returns the next message. owned says that the caller may keep it; else it is valid until the next Receive. Errors: io.EOF when
// the other end has closed the WebSocket, os.ErrDeadlineExceeded after an Interrupt, the connection's.
func (s *Socket) Receive() (message []byte, owned bool, err error) {
	for {
		if s.left == 0 {
			if err := s.begin(); err != nil {
				return nil, false, err
			}
		}
		if s.frame.op >= opClose {
			if err := s.control(); err != nil {
				return nil, false, err
			}
			continue
		}
		if !s.partial && s.frame.final && s.left <= len(s.buffer) { // as a rule
			if err := s.fill(s.left); err != nil {
				return nil, false, err
			}
			return s.use(s.left), false, nil
		}
		if err := s.gather(); err != nil {
			return nil, false, err
		}
		if s.frame.final {
			message = s.message
			s.message, s.partial = nil, false
			return message, true, nil
		}
	}
}

// begin takes the header of the next frame.
func (s *Socket) begin() error {
	h, size, err := parseHeader(s.unread)
	for ; size == 0 && err == nil; h, size, err = parseHeader(s.unread) {
		if err := s.fill(len(s.unread) + 1); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	switch h.op {
	case opBinary, opContinuation:
		if s.partial != (h.op == opContinuation) {
			return fmt.Errorf("%w: a message begins within another, or goes on without one", errFrame)
		}
		if h.length > uint64(s.limit-len(s.message)) {
			return fmt.Errorf("%w: a message of more than %d bytes", errFrame, s.limit)
		}
	case opClose, opPing, opPong:
	default:
		return fmt.Errorf("%w: a frame of type %d", errFrame, h.op)
	}
	s.use(size)
	s.frame, s.left = h, int(h.length)
	return nil
}

// fill reads until n bytes are unread, which the buffer has room for.
func (s *Socket) fill(n int) error {
	if len(s.unread) >= n {
		return nil
	}
	s.unread = s.buffer[:copy(s.buffer, s.unread)]
	for len(s.unread) < n {
		m, err := s.conn.Read(s.buffer[len(s.unread):])
		s.unread = s.buffer[:len(s.unread)+m]
		if err != nil && len(s.unread) < n {
			return unexpected(err)
		}
	}
	return nil
}

// unexpected is err where the end of the connection is none: io.EOF is the WebSocket's.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// use takes n bytes that are unread.
func (s *Socket) use(n int) []byte {
	taken := s.unread[:n:n]
	s.unread = s.unread[n:]
	s.left = 0
	return taken
}

// gather reads the rest of a frame into message.
func (s *Socket) gather() error {
	if !s.partial {
		s.partial, s.message = true, make([]byte, 0, s.left)
	}
	s.message = slices.Grow(s.message, s.left)
	n := copy(s.message[len(s.message):][:s.left], s.unread)
	s.message, s.unread, s.left = s.message[:len(s.message)+n], s.unread[n:], s.left-n
	for s.left > 0 {
		n, err := s.conn.Read(s.message[len(s.message):][:s.left])
		s.message, s.left = s.message[:len(s.message)+n], s.left-n
		if err != nil && s.left > 0 {
			return unexpected(err)
		}
	}
	return nil
}

// control does what a control frame asks.
func (s *Socket) control() error {
	if err := s.fill(s.left); err != nil {
		return err
	}
	content := s.use(s.left)
	switch s.frame.op {
	case opPing:
		if s.answering.CompareAndSwap(false, true) { // of pings that wait one is answered
			pong := slices.Clone(content)
			go func() { // the other end may take nothing
				defer s.answering.Store(false)
				_ = s.write(opPong, pong)
			}()
		}
	case opClose:
		go func() {
			_ = s.write(opClose, nil)
			_ = s.conn.Close()
		}()
		return io.EOF
	}
	return nil
}

// Send sends a message whose parts follow one another.
func (s *Socket) Send(parts ...[]byte) error { return s.write(opBinary, parts...) }

// Ping asks the other end for a sign of life.
func (s *Socket) Ping() error { return s.write(opPing) }

// Close ends the connection without a word.
func (s *Socket) Close() error { return s.conn.Close() }

// write sends a frame by one write.
func (s *Socket) write(op byte, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	buf := s.buffers.Get()
	defer s.buffers.Put(buf)
	buf.Grow(maxHeader + size)
	b := append(buf.AvailableBuffer(), 0x80|op)
	switch {
	case size < 126:
		b = append(b, 0x80|byte(size))
	case size <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(size))
	}
	key := rand.Uint32()
	b = binary.LittleEndian.AppendUint32(b, key)
	content := len(b)
	for _, p := range parts {
		b = append(b, p...)
	}
	mask(b[content:], key)
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.conn.Write(b)
	return err
}

// mask masks b, or unmasks it.
func mask(b []byte, key uint32) {
	for both := uint64(key)<<32 | uint64(key); len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^both)
	}
	for i := range b {
		b[i] ^= byte(key >> (8 * (i % 4)))
	}
}
