package webconn

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 requires it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// The opcodes of RFC 6455 that a session uses, and what its frames may have at most, in bytes.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10

	maxControl = 125
	maxHeader  = 14
)

// readBuffer is how much a Socket reads ahead, in bytes. At a client a reply with a small file fits; a server has many sockets.
const readBuffer, serverReadBuffer = 8 << 10, 4 << 10

// The status codes of RFC 6455 that a Socket knows.
const (
	statusNormal        = 1000
	statusGoingAway     = 1001
	statusProtocolError = 1002
	statusNone          = 1005
)

// Errors of Receive about what the other end sent.
var (
	ErrText     = errors.New("a text message")
	ErrTooLarge = errors.New("the message is too large")
	errFrame    = errors.New("the other end breaks the WebSocket protocol")
)

// CloseError says that the other end has closed the WebSocket.
type CloseError struct{ Code int }

// Error implements error.
func (e *CloseError) Error() string {
	return "the other end closed the WebSocket with status " + strconv.Itoa(e.Code)
}

// InPeace reports whether the status is none, normal or going away.
func (e *CloseError) InPeace() bool {
	return e.Code == statusNormal || e.Code == statusGoingAway || e.Code == statusNone
}

// Config of a Socket.
type Config struct {
	// Conn is a Conn, or TLS over one, once HTTP has switched to WebSocket. Early is what was read from it already.
	Conn  io.ReadWriter
	Early []byte
	// Close closes the connection.
	Close func() error
	// Server says that this is the server's end.
	Server bool
	// Buffers are what messages are written from.
	Buffers *Buffers
}

// Socket is one end of a WebSocket of binary messages. One goroutine at a time receives. A Receive that was interrupted loses nothing:
// the next one continues where it stopped.
type Socket struct {
	Config
	limit atomic.Int64

	receiving sync.Mutex
	// buffer holds what was read. unread is the part that was not used yet.
	buffer, unread []byte
	// message is what has come of a message that is in several frames, or larger than the buffer. partial says that there is one.
	message []byte
	partial bool
	// frame is the one whose content comes. left bytes of it have not come yet.
	frame header
	left  int
	// closed is set when the other end has closed the WebSocket.
	closed *CloseError

	writing sync.Mutex
	// farewell is set when a close was sent.
	farewell bool
	// answers is what a client's end sends in the background. next is the newest frame that waits; sending says that sendAnswers runs.
	answers struct {
		sync.Mutex
		next    *answer
		sending bool
	}
}

// answer is a control frame that answers one of the other end.
type answer struct {
	op      byte
	content []byte
}

// NewSocket returns a Socket that takes messages of up to limit bytes.
func NewSocket(c Config, limit int) *Socket {
	size := readBuffer
	if c.Server {
		size = serverReadBuffer
	}
	s := &Socket{Config: c, buffer: make([]byte, max(size, len(c.Early)))}
	s.unread = s.buffer[:copy(s.buffer, c.Early)]
	s.Config.Early = nil
	s.SetLimit(limit)
	return s
}

// SetLimit sets how many bytes a message has at most, from the next one on.
func (s *Socket) SetLimit(limit int) { s.limit.Store(int64(limit)) }

// header is the head of a frame.
type header struct {
	op            byte
	final, masked bool
	length        uint64
	key           uint32
}

// parseHeader returns the header at the start of b and its size, 0 when it has not come in full.
func parseHeader(b []byte) (h header, size int, err error) {
	if len(b) < 2 {
		return header{}, 0, nil
	}
	h = header{op: b[0] & 0x0f, final: b[0]&0x80 != 0, masked: b[1]&0x80 != 0, length: uint64(b[1] & 0x7f)}
	size = 2
	switch h.length {
	case 126:
		size = 4
	case 127:
		size = 10
	}
	content := size
	if h.masked {
		content += 4
	}
	switch {
	case b[0]&0x70 != 0:
		return header{}, 0, fmt.Errorf("%w: a frame of an extension", errFrame)
	case len(b) < content:
		return header{}, 0, nil
	case size == 4:
		h.length = uint64(binary.BigEndian.Uint16(b[2:]))
	case size == 10:
		h.length = binary.BigEndian.Uint64(b[2:])
	}
	if h.masked {
		h.key = binary.LittleEndian.Uint32(b[size:])
	}
	if h.op >= opClose && (h.length > maxControl || !h.final) {
		return header{}, 0, fmt.Errorf("%w: a control frame of %d bytes, or in parts", errFrame, h.length)
	}
	return h, content, nil
}

// Receive returns the next message. owned says that the caller may keep it; else it is valid until the next Receive. Errors: *CloseError,
// ErrText, ErrTooLarge, os.ErrDeadlineExceeded after an Interrupt, the connection's.
func (s *Socket) Receive() (message []byte, owned bool, err error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	message, owned, err = s.receive()
	if errors.Is(err, errFrame) {
		_ = s.answer(opClose, binary.BigEndian.AppendUint16(nil, statusProtocolError))
	}
	return message, owned, err
}

func (s *Socket) receive() (message []byte, owned bool, err error) {
	for s.closed == nil {
		if s.left == 0 {
			if err := s.begin(); err != nil {
				return nil, false, err
			}
		}
		switch {
		case s.frame.op >= opClose:
			if err := s.control(); err != nil {
				return nil, false, err
			}
		case !s.partial && s.frame.final && s.left <= len(s.buffer): // as a rule
			message, err := s.content()
			return message, false, err
		default:
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
	return nil, false, s.closed
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
	switch {
	case h.masked != s.Server:
		return fmt.Errorf("%w: a frame that is masked by a server, or not by a client", errFrame)
	case h.op == opText:
		return ErrText
	case h.op == opBinary && s.partial, h.op == opContinuation && !s.partial:
		return fmt.Errorf("%w: a message begins within another, or a continuation has no message", errFrame)
	case h.op <= opBinary && h.length > uint64(max(0, s.limit.Load()-int64(len(s.message)))):
		return ErrTooLarge
	case h.op > opBinary && h.op < opClose, h.op > opPong:
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
		m, err := s.Conn.Read(s.buffer[len(s.unread):])
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
	return taken
}

// content returns all of a frame's content, which fits the buffer.
func (s *Socket) content() ([]byte, error) {
	if err := s.fill(s.left); err != nil {
		return nil, err
	}
	content := s.use(s.left)
	s.left = 0
	if s.frame.masked {
		mask(content, s.frame.key)
	}
	return content, nil
}

// gather reads the rest of a frame into message.
func (s *Socket) gather() error {
	s.partial = true
	s.message = slices.Grow(s.message, s.left)
	n := copy(s.message[len(s.message):][:s.left], s.unread)
	s.message, s.unread, s.left = s.message[:len(s.message)+n], s.unread[n:], s.left-n
	for s.left > 0 {
		n, err := s.Conn.Read(s.message[len(s.message):][:s.left])
		s.message, s.left = s.message[:len(s.message)+n], s.left-n
		if err != nil && s.left > 0 {
			return unexpected(err)
		}
	}
	if s.frame.masked {
		mask(s.message[len(s.message)-int(s.frame.length):], s.frame.key)
	}
	return nil
}

// control does what a control frame asks.
func (s *Socket) control() error {
	content, err := s.content()
	if err != nil {
		return err
	}
	switch s.frame.op {
	case opPing:
		return s.answer(opPong, content)
	case opClose:
		s.closed = &CloseError{Code: statusNone}
		if len(content) >= 2 {
			s.closed.Code = int(binary.BigEndian.Uint16(content))
		}
		_ = s.answer(opClose, content[:min(2, len(content))])
		return s.closed
	}
	return nil
}

// answer answers a control frame. A client must never block in it, since its receive can be interrupted: it answers in the
// background. Of several frames that arrive meanwhile it answers the newest, as RFC 6455, section 5.5.3, allows.
func (s *Socket) answer(op byte, content []byte) error {
	if s.Server {
		return s.write(op, len(content), bytesOf(content))
	}
	s.answers.Lock()
	defer s.answers.Unlock()
	s.answers.next = &answer{op, slices.Clone(content)}
	if !s.answers.sending {
		s.answers.sending = true
		go s.sendAnswers()
	}
	return nil
}

// sendAnswers sends answers until none is left. A failed write ends the connection, which the receiving goroutine sees.
func (s *Socket) sendAnswers() {
	for a := s.nextAnswer(); a != nil; a = s.nextAnswer() {
		_ = s.write(a.op, len(a.content), bytesOf(a.content))
	}
}

func (s *Socket) nextAnswer() *answer {
	s.answers.Lock()
	defer s.answers.Unlock()
	next := s.answers.next
	s.answers.next, s.answers.sending = nil, next != nil
	return next
}

func bytesOf(content []byte) func(b []byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) { return append(b, content...), nil }
}

// Send sends the message that encode appends, which has about size bytes.
func (s *Socket) Send(size int, encode func(b []byte) ([]byte, error)) error {
	return s.write(opBinary, size, encode)
}

// SendParts sends a message that is in parts, without a copy. Only a server's end may: a client masks what it sends.
func (s *Socket) SendParts(parts [][]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.farewell {
		return net.ErrClosed
	}
	parts[0] = append(s.head(nil, 0x80|opBinary, size), parts[0]...) // or it would be a packet of its own
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if _, err := s.Conn.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Ping sends a ping. The other end answers it.
func (s *Socket) Ping() error { return s.write(opPing, 0, bytesOf(nil)) }

// CloseNow closes the connection without a close frame.
func (s *Socket) CloseNow() error { return s.Config.Close() }

// CloseWith closes the WebSocket with a status and a reason, waits until the other end has received all, and closes the connection.
// CloseNow ends the wait.
func (s *Socket) CloseWith(code int, reason string) {
	content := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	if s.write(opClose, len(content), bytesOf(content)) == nil {
		s.drain()
	}
	_ = s.CloseNow()
}

// drain discards frames until the other end closes the WebSocket. A connection that is closed with unread data may lose what it has sent.
func (s *Socket) drain() {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for s.closed == nil {
		for s.left > 0 {
			if s.fill(1) != nil {
				return
			}
			s.left -= len(s.use(min(s.left, len(s.unread))))
		}
		h, size, err := parseHeader(s.unread)
		switch {
		case err != nil || h.length > math.MaxInt32 || h.op == opClose:
			return
		case size == 0:
			if s.fill(len(s.unread)+1) != nil {
				return
			}
		default:
			s.use(size)
			s.left = int(h.length)
		}
	}
}

// write sends a frame by one write.
func (s *Socket) write(op byte, size int, encode func(b []byte) ([]byte, error)) error {
	buf := s.Buffers.Get()
	defer s.Buffers.Put(buf)
	buf.Grow(maxHeader + size)
	frame, err := encode(buf.AvailableBuffer()[:maxHeader])
	if err != nil {
		return err
	}
	head := s.head(frame[:0:maxHeader], 0x80|op, len(frame)-maxHeader)
	from := maxHeader - len(head)
	if !s.Server {
		mask(frame[maxHeader:], binary.LittleEndian.Uint32(head[len(head)-4:]))
	}
	copy(frame[from:], head)
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.farewell {
		return net.ErrClosed
	}
	s.farewell = op == opClose
	_, err = s.Conn.Write(frame[from:])
	return err
}

// head appends the header of a frame.
func (s *Socket) head(b []byte, first byte, size int) []byte {
	masked := byte(0x80)
	if s.Server {
		masked = 0
	}
	switch {
	case size < 126:
		b = append(b, first, masked|byte(size))
	case size <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, first, masked|126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, masked|127), uint64(size))
	}
	if !s.Server {
		b = binary.LittleEndian.AppendUint32(b, rand.Uint32())
	}
	return b
}

// AcceptKey returns what a server answers to the key of a client that asks for a WebSocket (Sec-WebSocket-Accept).
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
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
