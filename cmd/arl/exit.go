package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/coord/audit"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// The exit codes (docs/cli.md). Scripts depend on them.
const (
	exitOK           = 0
	exitInternal     = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitDenied       = 4
	exitVerification = 5
	exitConflict     = 6
	exitRejected     = 7
	exitQuorum       = 8
	exitUnavailable  = 9
	exitInconsistent = 10
	exitIncomplete   = 11
	exitRateLimited  = 12
	exitIncomparable = 13
	exitInconclusive = 14
	exitIO           = 74 // EX_IOERR of sysexits.h
	exitConfig       = 78 // EX_CONFIG of sysexits.h
	exitInterrupted  = 130
)

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *exitError) Unwrap() error { return e.err }

// withExit gives err an exit code; nil stays nil.
func withExit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// remedyError is an error that knows what to do about it.
type remedyError struct {
	remedy string
	err    error
}

// Error implements error.
func (e *remedyError) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *remedyError) Unwrap() error { return e.err }

// usage is an error of the command line itself.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode returns the exit code for the end of a command.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.code
	}
	if own, ok := errors.AsType[*worker.Error](err); ok {
		return workerCode(own.Reason)
	}
	if _, ok := errors.AsType[*inconsistency](err); ok {
		return exitInconsistent
	}
	if _, ok := errors.AsType[*verify.ForkError](err); ok {
		return exitInconsistent
	}
	if _, ok := errors.AsType[*verify.WitnessError](err); ok {
		return exitInconclusive
	}
	if failedVerification(err) {
		return exitVerification
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return problemCode(problem)
	}
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return refusalCode(refusal.Problem)
	}
	if _, ok := errors.AsType[*scenario.Error](err); ok {
		return exitUsage
	}
	return systemCode(err)
}

// workerCode is exitCode for the end of a worker, or of a step of its program.
func workerCode(r worker.Reason) int {
	switch r {
	case worker.ReasonInvalid:
		return exitUsage
	case worker.ReasonConflict:
		return exitConflict
	case worker.ReasonRejected:
		return exitRejected
	case worker.ReasonInterrupted:
		return exitInterrupted
	case worker.ReasonFile:
		return exitIO
	case worker.ReasonPolicy:
		return exitConfig
	}
	return exitInternal
}

// failedVerification reports whether something did not hold against the pinned
// root. What it broke on may be a refusal, such as an entry that is malformed;
// what counts is where it was found.
func failedVerification(err error) bool {
	_, step := errors.AsType[*verify.StepError](err)
	_, format := errors.AsType[*verify.FormatError](err)
	_, fork := errors.AsType[*verify.ForkError](err)
	_, run := errors.AsType[*record.BrokenError](err)
	return step || format || fork || run
}

// systemCode is exitCode for errors that carry nothing but what they are.
func systemCode(err error) int {
	switch {
	case errors.Is(err, ledger.ErrCorrupt), errors.Is(err, audit.ErrDamaged), errors.Is(err, ledger.ErrRolledBack), errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrAnchor):
		return exitInconsistent
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, ledger.ErrInUse), errors.Is(err, fs.ErrExist), errors.Is(err, engine.ErrUsed), errors.Is(err, record.ErrOther):
		return exitConflict
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case fromNetwork(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ledger.ErrStopped):
		return exitUnavailable
	case errors.Is(err, ledger.ErrSystem):
		return exitConfig
	case errors.Is(err, keys.ErrPassphrase), errors.Is(err, fs.ErrPermission):
		return exitDenied
	case errors.Is(err, errFull), errors.Is(err, errFullOther), errors.Is(err, errDevice):
		return exitIO
	case errors.Is(err, client.ErrMalformed):
		return exitVerification
	}
	return exitInternal
}

// output gives an error of writing to path the exit code of input/output, and
// a remedy where there is a plain one.
func output(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFolder) {
		return withExit(exitIO, fmt.Errorf("write %s: there is no directory %s: make it first", path, filepath.Dir(path)))
	}
	return withExit(exitIO, err)
}

// fromNetwork reports whether an error is of a connection. An error number of
// the system alone is none, although it has the methods of one.
func fromNetwork(err error) bool {
	_, operation := errors.AsType[*net.OpError](err)
	_, request := errors.AsType[*url.Error](err)
	return operation || request
}

// remedy says what to do about an error that knows it, or that the system words.
func remedy(err error) string {
	if own, ok := errors.AsType[*remedyError](err); ok {
		return own.remedy
	}
	if _, ok := errors.AsType[*verify.WitnessError](err); ok {
		return "ask the ledger's operator for a tree head with the witnesses' cosignatures, or pin a root without witnesses if nobody cosigns"
	}
	switch {
	case errors.Is(err, errRefused):
		return "no server listens there: start it with arl serve, or pass --url"
	case errors.Is(err, errAddress):
		return "another process listens there: end it, or pass --listen with another port"
	case errors.Is(err, errFiles), errors.Is(err, errAllFiles):
		return "let the process open more files (ulimit -n)"
	}
	return ""
}

func problemCode(p *api.Problem) int {
	if p.Name() != "" {
		return refusalCode(p.Name())
	}
	switch {
	case p.Status == http.StatusNotFound:
		return exitNotFound
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return exitDenied
	case p.Status == http.StatusTooManyRequests:
		return exitRateLimited
	case p.Status >= http.StatusInternalServerError:
		return exitUnavailable
	}
	return exitUsage
}

func refusalCode(problem entry.Problem) int {
	switch problem {
	case entry.Malformed, entry.UnsupportedAlg, entry.TooLarge:
		return exitUsage
	case entry.NotFound, entry.UnknownSubject:
		return exitNotFound
	case entry.BadSignature:
		return exitVerification
	case entry.IDConflict, entry.StateConflict, entry.PolicySuperseded, entry.FencedDependency, entry.StaleEpoch, entry.ScopeMismatch, entry.Stale:
		return exitConflict
	case entry.RateLimited:
		return exitRateLimited
	case entry.NotReady, entry.InsufficientStorage:
		return exitUnavailable
	}
	return exitDenied
}

// inconsistency is a log that contradicts itself, and what shows it.
type inconsistency struct {
	kind     string // of evidence, a word for the file's name
	evidence any
	err      error
}

// Error implements error.
func (e *inconsistency) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *inconsistency) Unwrap() error { return e.err }

// contradiction returns the inconsistency that an error is about.
func contradiction(err error) (found *inconsistency, ok bool) {
	if found, ok = errors.AsType[*inconsistency](err); ok {
		return found, true
	}
	fork, ok := errors.AsType[*verify.ForkError](err)
	if !ok {
		return nil, false
	}
	return &inconsistency{"fork", forkEvidence{fork.Detail, fork.First, fork.Second}, err}, true
}

// forkEvidence are two signed heads that cannot both be of one log.
type forkEvidence struct {
	Detail string `json:"detail"`
	First  string `json:"first"`
	Second string `json:"second"`
}

// printError writes what went wrong and, where it is known, what to do. What
// shows that a log is inconsistent is kept.
func (a *app) printError(w io.Writer, err error) {
	if errors.Is(err, context.Canceled) && exitCode(err) == exitInterrupted {
		err = withExit(exitInterrupted, errors.New("interrupted"))
	}
	say := func(format string, args ...any) { fmt.Fprint(w, fitted(w, fmt.Sprintf(format, args...))) }
	say("arl: %v\n", err)
	if do := remedy(err); do != "" {
		say("Remedy: %s\n", do)
	}
	if name := problemName(err); name != "" {
		say("More: arl explain %s\n", name)
	}
	found, ok := contradiction(err)
	if !ok {
		return
	}
	path, err := a.keepEvidence(found.kind, found.evidence)
	if err != nil {
		say("The evidence could not be kept: %v\n", err)
		return
	}
	say("Evidence: %s\n", path)
}

// problemName is the problem type of an error that has one. Nobody refused what
// failed verification.
func problemName(err error) entry.Problem {
	if failedVerification(err) {
		return ""
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return problem.Name()
	}
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return refusal.Problem
	}
	return ""
}
