package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/process"
)

// callProcess runs one process to its end, or to that of the context: then it
// and its children are killed.
func (l *Runtime) callProcess(ctx context.Context, call *Call, r *callRequest, body []byte) (answer, error) {
	cmd := exec.CommandContext(ctx, call.Command[0], call.Command[1:]...)
	stderr := process.Head{Limit: scenario.TextMax}
	cmd.Dir, cmd.Stdin, cmd.Stderr, cmd.WaitDelay = call.Dir, bytes.NewReader(body), &stderr, process.Grace
	cmd.Env = l.environment(call.Env,
		"ARL_CASE="+r.Case, "ARL_STEP="+r.Step, "ARL_ATTEMPT="+strconv.Itoa(r.Attempt), "ARL_IDEMPOTENCY_KEY="+r.Key)
	stdout, err := process.Run(cmd, outputMax)
	switch {
	case cmd.Process == nil:
		return answer{}, fmt.Errorf("start %s: %w", call.Command[0], err)
	case errors.Is(err, process.ErrOutput):
		return failure("malformed_output", "output_too_large", ""), nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return plainOutput(stdout, false), nil
	}
	return crashed(err, stdout, stderr.Text), nil
}

// crashed is the answer of a process that did not end well. What it said on
// standard output as an error object counts first; its last words on standard
// error are the text. Nothing tells whether its effect took place.
func crashed(err error, stdout, stderr []byte) answer {
	raw, code, reason := scenario.RawError{}, "tool_error", "exit_unknown"
	if a := plainOutput(stdout, false); a.failed && a.reason == "reported" {
		a.reason = "exit_reported"
		return a
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, reason = exitCode(exit, stderr)
	}
	raw.ProviderCode, raw.Text = code, scenario.Cut(string(stderr), scenario.TextMax)
	return answer{failed: true, raw: raw, reason: reason, evidence: entry.DigestOf(err.Error() + "\n" + string(stdout) + "\n" + string(stderr))}
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
