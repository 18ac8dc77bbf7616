package services

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// attachQueue is how many messages of input wait for a process while further messages are received.
	attachQueue = 4
	// farewell is how long a client may take to end its side of an Attach after the exit.
	farewell = time.Second
)

type attachStream = grpc.BidiStreamingServer[ctxfsv1.AttachRequest, ctxfsv1.AttachResponse]

// attachment is a call of Attach.
type attachment struct {
	stream  attachStream
	process *exec.Process
	// cancel ends the output with a reason.
	cancel context.CancelCauseFunc
	input  chan *ctxfsv1.AttachRequest
}

// Attach implements ExecService.
func (s *Exec) Attach(stream attachStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return execStatus(fserr.Invalid("the first message is not open"))
	}
	p, err := s.process(stream.Context(), open.GetProcessId(), true)
	if err != nil {
		return execStatus(err)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	a := &attachment{stream: stream, process: p, cancel: cancel, input: make(chan *ctxfsv1.AttachRequest, attachQueue)}
	leave := p.Connect()
	err = a.serve(ctx, [2]int64{exec.Stdout: open.GetStdoutOffset(), exec.Stderr: open.GetStderrOffset()})
	detached := errors.Is(err, exec.ErrDetached)
	leave(detached)
	if detached {
		return nil
	}
	return execStatus(err)
}

func (a *attachment) serve(ctx context.Context, offsets [2]int64) error {
	if err := a.stream.Send(&ctxfsv1.AttachResponse{Event: &ctxfsv1.AttachResponse_Attached{Attached: processToPB(a.process)}}); err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { // it ends with the stream, which ends after this function
		defer close(received)
		a.receive(ctx)
	}()
	var writing sync.WaitGroup
	writing.Go(func() { a.write(ctx) })
	err := a.process.Output(ctx, offsets, exec.Blocking, func(o exec.Output) error {
		return a.stream.Send(&ctxfsv1.AttachResponse{Event: &ctxfsv1.AttachResponse_Output{Output: outputToPB(o)}})
	})
	if err == nil {
		err = a.stream.Send(&ctxfsv1.AttachResponse{Event: &ctxfsv1.AttachResponse_Exited{Exited: processToPB(a.process)}})
		select {
		case <-received:
		case <-ctx.Done():
		case <-time.After(farewell):
		}
	} else if cause := context.Cause(ctx); cause != nil && a.stream.Context().Err() == nil {
		err = cause
	}
	a.cancel(nil)
	writing.Wait()
	return err
}

// receive carries out the client's messages. Input waits in a queue, so that a process that reads none delays nothing else.
func (a *attachment) receive(ctx context.Context) {
	defer close(a.input)
	for {
		m, err := a.stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = a.act(ctx, m)
		}
		if err != nil {
			a.cancel(err)
			return
		}
	}
}

func (a *attachment) act(ctx context.Context, m *ctxfsv1.AttachRequest) error {
	switch action := m.GetAction().(type) {
	case *ctxfsv1.AttachRequest_Stdin:
		if n := len(action.Stdin); n > maxInput {
			return fserr.Invalid("stdin has %d bytes, more than %d", n, maxInput)
		}
		return a.enqueue(ctx, m)
	case *ctxfsv1.AttachRequest_Eof:
		return a.enqueue(ctx, m)
	case *ctxfsv1.AttachRequest_Resize:
		return a.unlessEnds(ctx, a.process.Resize(int(action.Resize.GetCols()), int(action.Resize.GetRows())))
	case *ctxfsv1.AttachRequest_Signal:
		return a.unlessEnds(ctx, a.process.Signal(int(action.Signal)))
	case *ctxfsv1.AttachRequest_Detach:
		return exec.ErrDetached
	}
	return fserr.Invalid("a message after open does nothing that this server knows")
}

// unlessEnds drops an error of a process that has ended, or is about to: the exit is on the way to the client.
func (a *attachment) unlessEnds(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if a.process.Wait(ctx) == nil {
		return nil
	}
	return err
}

func (a *attachment) enqueue(ctx context.Context, m *ctxfsv1.AttachRequest) error {
	if !a.process.TakesInput() {
		return &fserr.Error{Code: fserr.EBADF, Detail: "process " + a.process.ID + " was started without input", Hint: "set open_stdin"}
	}
	select {
	case a.input <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes the input to the process. Input that the process closed is dropped, as a terminal does.
func (a *attachment) write(ctx context.Context) {
	for {
		var m *ctxfsv1.AttachRequest
		select {
		case m = <-a.input:
		case <-ctx.Done():
		}
		if m == nil {
			return
		}
		var err error
		if m.GetEof() {
			err = a.process.CloseInput(ctx)
		} else {
			err = a.process.Write(ctx, m.GetStdin())
		}
		if err != nil && fserr.CodeOf(err) != fserr.EBADF {
			a.cancel(err)
			return
		}
	}
}

// Resize implements ExecService.
func (s *Exec) Resize(ctx context.Context, req *ctxfsv1.ResizeRequest) (*ctxfsv1.ResizeResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = p.Resize(int(req.GetCols()), int(req.GetRows()))
	}
	return &ctxfsv1.ResizeResponse{}, execStatus(err)
}

// ptyOf converts a terminal; nil stays nil.
func ptyOf(pb *ctxfsv1.Pty) *exec.Pty {
	if pb == nil {
		return nil
	}
	return &exec.Pty{Cols: int(pb.GetCols()), Rows: int(pb.GetRows()), Term: pb.GetTerm()}
}

func ptyToPB(t *exec.Pty) *ctxfsv1.Pty {
	if t == nil {
		return nil
	}
	return &ctxfsv1.Pty{Cols: uint32(t.Cols), Rows: uint32(t.Rows), Term: t.Term}
}
