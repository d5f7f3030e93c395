package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/process"
)

// Program is a program as hooks: each call runs it once, without a shell, with
// the [Call] as JSON on standard input and its [Report] as JSON on standard
// output.
//
// Only exit code 0 with exactly one report counts. After any other end it is not known what the
// program did (see [Hooks]). The children that the program left running are killed too, so that
// they are not at work when Probe looks. Only children in the program's process group are
// killed.
type Program struct {
	Argv   []string
	Env    []string      // as in [exec.Cmd]; nil: that of this process
	Dir    string        // where it runs; empty: here
	Stderr io.Writer     // where its standard error goes; nil: nowhere
	Limit  time.Duration // after which it is killed; 0: 10 min
	// Held is a file that the program and its children have open as descriptor 3. If it is
	// locked, its lock tells whether they still run after this process was killed. nil: there
	// is none. On Windows no program inherits it.
	Held *os.File
	// Has are the hooks that the program has. Idempotent are the hooks among them that may run
	// again.
	Has, Idempotent []Hook
}

const (
	programLimit = 10 * time.Minute
	// killDelay is the longest wait for the pipes of a killed program. The program may have
	// left children that hold the pipes.
	killDelay = 2 * time.Second
)

// ProgramError reports a program that did not report.
type ProgramError struct {
	Hook  Hook
	Exit  int // code; -1: it did not begin, or was killed
	Cause error
}

// Error implements error.
func (e *ProgramError) Error() string {
	const want = `the program must print one report, such as {"status":"done"}, and exit with 0`
	switch {
	case errors.Is(e.Cause, context.Canceled): // the program is not to blame
		return fmt.Sprintf("agent: run %s: %v", e.Hook, e.Cause)
	case e.Exit < 0:
		return fmt.Sprintf("agent: run %s: %v (%s)", e.Hook, e.Cause, want)
	}
	return fmt.Sprintf("agent: run %s: exit code %d: %v (%s)", e.Hook, e.Exit, e.Cause, want)
}

// Unwrap returns the cause.
func (e *ProgramError) Unwrap() error { return e.Cause }

// Hooks returns the program as hooks.
func (p *Program) Hooks() Hooks {
	h := Hooks{Idempotent: p.Idempotent}
	for _, hook := range p.Has {
		switch hook {
		case Drain:
			h.Drain = p.Run
		case Restore:
			h.Restore = p.Run
		case Compensate:
			h.Compensate = p.Run
		case Cancel:
			h.Cancel = p.Run
		case Probe:
			h.Probe = p.Run
		}
	}
	return h
}

// Run is a [Func]. The error is a [*ProgramError], whose cause may be
// [ErrReport], or [ErrNotBegun] if the program is not there.
func (p *Program) Run(ctx context.Context, c *Call) (*Report, error) {
	limit := p.Limit
	if limit == 0 {
		limit = programLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	input, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return nil, &ProgramError{c.Hook, -1, err}
	}
	cmd := exec.CommandContext(limited, p.Argv[0], p.Argv[1:]...)
	cmd.Stdin, cmd.Stderr, cmd.Env, cmd.Dir, cmd.WaitDelay = bytes.NewReader(append(input, '\n')), p.Stderr, p.Env, p.Dir, killDelay
	if p.Held != nil {
		process.Inherit(cmd, p.Held)
	}
	out, err := process.Run(cmd, MaxReport)
	var report *Report
	if err == nil {
		report, err = decodeReport(out)
	}
	if err == nil {
		return report, nil
	}
	code := -1
	if cmd.Process == nil {
		err = fmt.Errorf("%w: %w", ErrNotBegun, err)
	} else {
		process.End(cmd, syscall.SIGKILL) // no process of the program may be left
		code = cmd.ProcessState.ExitCode()
	}
	switch {
	case errors.Is(err, process.ErrOutput):
		err = fmt.Errorf("%w: %w", ErrReport, err)
	case cmd.Process == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("killed because the agent stopped: %w", ctx.Err())
	case limited.Err() != nil:
		err = fmt.Errorf("killed after %v, its time limit: %w", limit, limited.Err())
	}
	return nil, &ProgramError{c.Hook, code, err}
}

// decodeReport reads the JSON of a report. The error is [ErrReport].
func decodeReport(data []byte) (*Report, error) {
	if len(data) > MaxReport {
		return nil, fmt.Errorf("%w: %d bytes or more, the limit is %d", ErrReport, len(data), MaxReport)
	}
	r := new(Report)
	if err := json.Unmarshal(bytes.TrimSpace(data), r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	return r, nil
}
