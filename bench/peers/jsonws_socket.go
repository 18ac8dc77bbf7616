package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/coder/websocket"
)

// jsonRequest is a message to the service; Data travels as base64, as package json does.
type jsonRequest struct {
	ID     int64  `json:"id"`
	Op     string `json:"op"`
	Name   string `json:"name,omitempty"`
	Flags  string `json:"flags,omitempty"`
	FD     int    `json:"fd,omitempty"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length,omitempty"`
	Data   []byte `json:"data,omitempty"`
}

type jsonReply struct {
	ID      int64   `json:"id"`
	Error   string  `json:"error"`
	Data    []byte  `json:"data"`
	FD      int     `json:"fd"`
	Size    int64   `json:"size"`
	Mode    uint32  `json:"mode"`
	Ino     uint64  `json:"ino"`
	MtimeMs float64 `json:"mtimeMs"`
	Entries []struct {
		Name      string  `json:"name"`
		Size      int64   `json:"size"`
		Mode      uint32  `json:"mode"`
		Ino       uint64  `json:"ino"`
		MtimeMs   float64 `json:"mtimeMs"`
		Directory bool    `json:"directory"`
	} `json:"entries"`
}

// jsonReceive is the largest message taken: a megabyte in base64, or a long listing.
const jsonReceive = 32 << 20

// jsonSocket is a connection with many requests under way.
type jsonSocket struct {
	conn *websocket.Conn
	wg   sync.WaitGroup

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan *jsonReply
	err     error
}

func dialJSONSocket(ctx context.Context, url string) (*jsonSocket, error) {
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	conn.SetReadLimit(jsonReceive)
	s := &jsonSocket{conn: conn, waiting: map[int64]chan *jsonReply{}}
	s.wg.Go(s.receive)
	return s, nil
}

func (s *jsonSocket) close() error {
	_ = s.conn.CloseNow() // the server's answer to a polite end would be one more exchange
	s.wg.Wait()
	return nil
}

func (s *jsonSocket) receive() {
	for {
		r, err := s.receiveOne()
		if err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		c := s.waiting[r.ID]
		delete(s.waiting, r.ID)
		s.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

func (s *jsonSocket) receiveOne() (*jsonReply, error) {
	_, b, err := s.conn.Read(context.Background())
	if err != nil {
		return nil, err
	}
	var r jsonReply
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("a reply that is not JSON: %w", err)
	}
	return &r, nil
}

func (s *jsonSocket) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for _, c := range s.waiting {
		close(c)
	}
	clear(s.waiting)
}

func (s *jsonSocket) call(req jsonRequest) (*jsonReply, error) {
	c, err := s.register(&req)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if err := s.conn.Write(context.Background(), websocket.MessageText, b); err != nil {
		return nil, err
	}
	if r, ok := <-c; ok {
		return r, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, errors.Join(errors.New("the connection ended"), s.err)
}

func (s *jsonSocket) register(req *jsonRequest) (<-chan *jsonReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.next++
	req.ID = s.next
	c := make(chan *jsonReply, 1)
	s.waiting[req.ID] = c
	return c, nil
}
