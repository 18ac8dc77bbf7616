package webconn_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/webconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnInterruptIsNotLost interrupts the wait for the first message before it has begun.
func TestAnInterruptIsNotLost(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := &webconn.Conn{Conn: near, Keepalive: time.Minute}
	if err := c.AwaitFirst(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c.Interrupt()
	go func() { _, _ = far.Write([]byte{1}) }() // what a Read that had forgotten it would get
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
}

// TestSilence has the other end answer two pings, and no third.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		begun, pings := time.Now(), 0
		c := &webconn.Conn{Conn: near, Keepalive: 3 * time.Second, Ping: func() {
			if pings++; pings < 3 {
				go func() { _, _ = far.Write([]byte{1}) }()
			}
		}}
		b := make([]byte, 1)
		var err error
		for err == nil {
			_, err = c.Read(b)
		}
		if !errors.Is(err, webconn.ErrSilent) || pings != 3 || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v and %d pings", err, time.Since(begun), pings)
		}
	})
}

// TestWhoTakesNothingIsCutOff writes to an end that does not read.
func TestWhoTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		begun := time.Now()
		c := &webconn.Conn{Conn: near, Keepalive: time.Second}
		if _, err := c.Write(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is open: %v", err)
		}
	})
}
