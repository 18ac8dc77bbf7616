package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// maxPacket bounds a packet of a link, in bytes. It is below what a socket takes by default (net.core.wmem_default).
const maxPacket = 128 << 10

// sendTime bounds how long a packet waits until the other end reads.
const sendTime = 10 * time.Second

// packet is what a link carries: a call, a reply, or a note, which is a call without an ID and has no reply. A file may come with it.
type packet struct {
	ID    uint64          `json:"id,omitempty"`
	Reply bool            `json:"reply,omitempty"`
	Op    string          `json:"op,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	// Error is a google.rpc.Status.
	Error []byte `json:"error,omitempty"`
}

// answer is the result of a call.
type answer struct {
	body json.RawMessage
	file *os.File
	err  error
}

// link is the connection between a server and a runner. Both ends call each other.
type link struct {
	conn *net.UnixConn
	// handle receives the other end's calls and notes, one at a time, and must not block. For a call it calls reply once, at any time.
	handle func(op string, body json.RawMessage, reply func(out any, file *os.File, err error))
	// done is closed when the link has ended.
	done chan struct{}

	mu      sync.Mutex
	ended   bool
	last    uint64
	waiting map[uint64]chan answer
}

// newLink returns a link. The caller calls serve.
func newLink(conn *net.UnixConn) *link {
	return &link{conn: conn, done: make(chan struct{}), waiting: map[uint64]chan answer{}}
}

// serve reads packets until the link ends.
func (l *link) serve() {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	for {
		p, file, err := l.read(buf, oob)
		if err != nil {
			break
		}
		l.received(p, file)
	}
	_ = l.conn.Close() // it was read to its end
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.done)
	for _, w := range l.waiting {
		w <- answer{err: errGone}
	}
	l.waiting = nil
}

func (l *link) read(buf, oob []byte) (p packet, file *os.File, err error) {
	n, oobn, flags, _, err := l.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return p, nil, err
	}
	if file, err = received(oob[:oobn]); err != nil {
		return p, nil, err
	}
	if n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("no whole packet")
	} else {
		err = json.Unmarshal(buf[:n], &p)
	}
	if err != nil {
		closeFile(file)
	}
	return p, file, err
}

// received returns the file that came with a packet; nil if none did.
func received(oob []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "received"), nil
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() // nothing was written through it
	}
}

func (l *link) received(p packet, file *os.File) {
	if p.Reply {
		l.mu.Lock()
		w := l.waiting[p.ID]
		delete(l.waiting, p.ID)
		l.mu.Unlock()
		if w == nil { // its caller has left
			closeFile(file)
			return
		}
		w <- answer{p.Body, file, decodeError(p.Error)}
		return
	}
	closeFile(file) // no call has one
	l.handle(p.Op, p.Body, func(out any, file *os.File, err error) {
		if p.ID == 0 {
			return
		}
		l.reply(p, out, file, err)
	})
}

// reply answers a call. The other end waits for it: a result that cannot be sent becomes an error.
func (l *link) reply(call packet, out any, file *os.File, err error) {
	reply := packet{ID: call.ID, Reply: true, Error: encodeError(err)}
	if err := l.send(reply, out, file); err != nil && !errors.Is(err, errGone) {
		reply.Error = encodeError(&fserr.Error{Code: fserr.EIO, Detail: fmt.Sprintf("the reply to %s: %s", call.Op, err)})
		_ = l.send(reply, nil, nil) // if this fails the link has ended, and the caller knows
	}
}

// call sends a call and decodes its reply into out, unless out is nil. The caller closes the file that came with the reply.
func (l *link) call(ctx context.Context, op string, in, out any) (*os.File, error) {
	w := make(chan answer, 1)
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return nil, errGone
	}
	l.last++
	id := l.last
	l.waiting[id] = w
	l.mu.Unlock()
	if err := l.send(packet{ID: id, Op: op}, in, nil); err != nil {
		l.forget(id)
		return nil, err
	}
	select {
	case a := <-w:
		if a.err == nil && out != nil {
			a.err = json.Unmarshal(a.body, out)
		}
		if a.err != nil {
			closeFile(a.file)
			return nil, a.err
		}
		return a.file, nil
	case <-ctx.Done():
		l.forget(id)
		select {
		case a := <-w:
			closeFile(a.file)
		default:
		}
		return nil, ctx.Err()
	}
}

func (l *link) forget(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// note sends a call that has no reply. One that cannot be sent ends the link.
func (l *link) note(op string, in any) { _ = l.send(packet{Op: op}, in, nil) }

// send sends a packet with a body. It takes over no file. A link that cannot send is of no use: it ends. It does not end if the packet itself
// cannot be sent.
func (l *link) send(p packet, body any, file *os.File) error {
	var err error
	if body != nil {
		if p.Body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode %s: %w", p.Op, err)
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode %s: %w", p.Op, err)
	}
	if len(data) > maxPacket {
		return fmt.Errorf("a packet of %d bytes, more than %d", len(data), maxPacket)
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	err = l.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err == nil {
		_, _, err = l.conn.WriteMsgUnix(data, rights, nil) // a packet is written whole
	}
	if err != nil {
		_ = l.conn.Close() // serve ends
		return errGone
	}
	return nil
}

func encodeError(err error) []byte {
	if err == nil {
		return nil
	}
	data, marshalErr := proto.Marshal(status.Convert(fserrpb.ToStatus(err)).Proto())
	if marshalErr != nil {
		return []byte("?") // no status: decodeError says so
	}
	return data
}

func decodeError(data []byte) error {
	if data == nil {
		return nil
	}
	var st spb.Status
	if err := proto.Unmarshal(data, &st); err != nil || st.GetCode() == 0 {
		return &fserr.Error{Code: fserr.EIO, Detail: "an error that could not be read"}
	}
	err := status.FromProto(&st).Err()
	if known, ok := fserrpb.FromStatus(err); ok {
		return known
	}
	return err
}

// sameUser refuses the other end of a connection if it belongs to another user.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) { cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if sockErr != nil {
		return sockErr
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("the other end belongs to uid %d", cred.Uid)
	}
	return nil
}
