package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// processGrace is how long after its end the output of a process, which its
// children may hold open, is waited for.
const processGrace = time.Second

// callProcess runs one process to its end, or to that of the context: then it
// and its children are killed.
func (l *Live) callProcess(ctx context.Context, call *Call, r *callRequest, body []byte) (answer, error) {
	cmd := exec.CommandContext(ctx, call.Command[0], call.Command[1:]...)
	stdout, stderr := limitedBuffer{limit: outputMax}, limitedBuffer{limit: textMax}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = call.Dir, bytes.NewReader(body), &stdout, &stderr
	cmd.Env = l.environment(call.Env,
		"ARL_CASE="+r.Case, "ARL_STEP="+r.Step, "ARL_ATTEMPT="+strconv.Itoa(r.Attempt), "ARL_IDEMPOTENCY_KEY="+r.Key)
	ownGroup(cmd)
	cmd.WaitDelay = processGrace
	if err := cmd.Start(); err != nil {
		return answer{}, fmt.Errorf("start %s: %w", call.Command[0], err)
	}
	err := cmd.Wait()
	switch {
	case stdout.over:
		return failure("malformed_output", "output_too_large", ""), nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return plainOutput(stdout.text, false), nil
	}
	return crashed(err, &stdout, &stderr), nil
}

// crashed is the answer of a process that did not end well. What it said on
// standard output as an error object counts first; its last words on standard
// error are the text. Nothing tells whether its effect took place.
func crashed(err error, stdout, stderr *limitedBuffer) answer {
	raw, code, reason := RawError{}, "tool_error", "exit_unknown"
	if a := plainOutput(stdout.text, false); a.failed && a.reason == "reported" {
		a.reason = "exit_reported"
		return a
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, reason = exitCode(exit, stderr.text)
	}
	raw.ProviderCode, raw.Text = code, cut(string(stderr.text), textMax)
	return answer{failed: true, raw: raw, reason: reason, evidence: digest(err.Error() + "\n" + string(stdout.text) + "\n" + string(stderr.text))}
}

// exitCode is the place in the taxonomy of how a process ended, and its
// reason.
func exitCode(exit *exec.ExitError, stderr []byte) (code, reason string) {
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok {
		return "tool_error", "exit_unknown"
	}
	number := status.ExitStatus()
	signal := syscall.Signal(0)
	if status.Signaled() {
		signal = status.Signal()
	} else if number > shellSignal {
		signal = syscall.Signal(number - shellSignal)
	}
	switch signal {
	case 0:
	case syscall.SIGKILL: // nobody else kills: the system was out of memory
		return "oom", "killed"
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return "interrupted", "signal_" + strconv.Itoa(int(signal))
	default:
		return "panic", "signal_" + strconv.Itoa(int(signal))
	}
	if bytes.HasPrefix(stderr, []byte("panic: ")) || bytes.Contains(stderr, []byte("\npanic: ")) {
		return "panic", "panic"
	}
	return "tool_error", "exit_" + strconv.Itoa(number)
}

// shellSignal is what a shell adds to the number of the signal that ended a
// program, to make its own exit status.
const shellSignal = 128

// limitedBuffer keeps what is written up to its limit and notes that there
// was more. It has no other method, so that nothing is written past it.
type limitedBuffer struct {
	text  []byte
	limit int
	over  bool
}

// Write implements [io.Writer].
func (b *limitedBuffer) Write(p []byte) (int, error) {
	fits := min(len(p), b.limit-len(b.text))
	b.text = append(b.text, p[:fits]...)
	b.over = b.over || fits < len(p)
	return len(p), nil
}
