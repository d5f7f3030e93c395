// Package process runs a program in a process group of its own, which is ended
// as a whole, and keeps no more of what it prints than it may print.
//
// Windows has no process groups and no signals: there the program itself is killed,
// whatever the signal, and what the program has started goes on.
package process

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// ErrOutput reports a program that was killed because it printed too much.
var ErrOutput = errors.New("more output than there may be")

// Run runs a command that [exec.CommandContext] has made to its end and returns
// its standard output. With the context, or past a number of bytes of output, it
// is killed with all that it has started. The error is [ErrOutput], beside the
// first of those bytes, or that of [exec.Cmd.Wait]; without a Process in the
// command it was not started.
func Run(cmd *exec.Cmd, limit int) ([]byte, error) {
	out := &Head{Limit: limit, over: func() { End(cmd, syscall.SIGKILL) }}
	cmd.Stdout = out
	cmd.Cancel = func() error { End(cmd, syscall.SIGKILL); return nil }
	Group(cmd)
	err := cmd.Run()
	if out.Cut {
		err = fmt.Errorf("%w: past %d bytes", ErrOutput, limit)
	}
	return out.Text, err
}

// Grace is how long after the end of a program its output, which its children may
// hold open, is waited for: a WaitDelay of [exec.Cmd].
const Grace = time.Second

// Head keeps the beginning of its input.
type Head struct {
	Limit int    // bytes of Text
	Text  []byte // what was kept
	Cut   bool   // there was more
	over  func() // called once when there is; nil: nobody is told
}

// Write implements [io.Writer]. It takes everything.
func (h *Head) Write(p []byte) (int, error) {
	fits := min(len(p), h.Limit-len(h.Text))
	h.Text = append(h.Text, p[:fits]...)
	if fits < len(p) && !h.Cut {
		h.Cut = true
		if h.over != nil {
			h.over()
		}
	}
	return len(p), nil
}
