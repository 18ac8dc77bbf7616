package exec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/ctxfs/ctxfs/fserr"
)

// Pty is a terminal of a command.
type Pty struct {
	// Cols and Rows are its size in characters, 1 to 65535; 0 means 80 and 24 at the start.
	Cols, Rows int
	// Term is the variable TERM; "" means xterm-256color.
	Term string
}

// endOfFile is the character that ends the input of a terminal: Ctrl-D, unless a program has set another.
const endOfFile = "\x04"

func (t Pty) check() error {
	if t.Cols < 0 || t.Rows < 0 || t.Cols > math.MaxUint16 || t.Rows > math.MaxUint16 {
		return badSize(t.Cols, t.Rows)
	}
	return nil
}

func badSize(cols, rows int) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("a terminal of %d columns and %d rows", cols, rows), Hint: "use 1 to 65535 of each"}
}

// withDefaults returns the terminal with which a command starts.
func (t Pty) withDefaults() Pty {
	return Pty{Cols: cmp.Or(t.Cols, 80), Rows: cmp.Or(t.Rows, 24), Term: cmp.Or(t.Term, "xterm-256color")}
}

// Terminal returns the process's terminal with its present size; nil if it has none.
func (p *Process) Terminal() *Pty { return p.terminal.Load() }

// Resize changes the size of the process's terminal. It fails with EINVAL if there is no terminal or the process has ended.
func (p *Process) Resize(cols, rows int) error {
	if cols < 1 || rows < 1 || cols > math.MaxUint16 || rows > math.MaxUint16 {
		return badSize(cols, rows)
	}
	was := p.Terminal()
	if was == nil {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "process " + p.ID + " has no terminal", Hint: "start it with pty"}
	}
	if p.Ended() != nil {
		return fserr.Invalid("process %s has ended", p.ID)
	}
	p.resizing.Lock() // the size that is stored is the last that was set
	defer p.resizing.Unlock()
	now := Pty{Cols: cols, Rows: rows, Term: was.Term}
	if err := (console{p.tty}).resize(now); err != nil {
		if errors.Is(err, os.ErrClosed) || p.Ended() != nil {
			return fserr.Invalid("process %s has ended", p.ID)
		}
		return err
	}
	p.terminal.Store(&now)
	return nil
}
