// Package exit maps the error of a command to its exit code (docs/cli.md), and to the remedy that
// is printed with the error.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/coord/audit"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// The exit codes (docs/cli.md). Scripts depend on them.
const (
	OK           = 0
	Internal     = 1
	Usage        = 2
	NotFound     = 3
	Denied       = 4
	Verification = 5
	Conflict     = 6
	Rejected     = 7
	Quorum       = 8
	Unavailable  = 9
	Inconsistent = 10
	Incomplete   = 11
	RateLimited  = 12
	Incomparable = 13
	Inconclusive = 14
	IO           = 74 // EX_IOERR of sysexits.h
	Config       = 78 // EX_CONFIG of sysexits.h
	Interrupted  = 130
)

// PassphraseVariable is the environment variable with the passphrase. If it is set, no person is
// asked.
const PassphraseVariable = "ARL_PASSPHRASE"

// Error is an error that knows its exit code.
type Error struct {
	code int
	err  error
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *Error) Unwrap() error { return e.err }

// With gives err an exit code; nil stays nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{code, err}
}

// remedyError is an error with a remedy.
type remedyError struct {
	remedy string
	err    error
}

// Error implements error.
func (e *remedyError) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *remedyError) Unwrap() error { return e.err }

// Usagef returns an error of the command line itself.
func Usagef(format string, args ...any) error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Code returns the exit code for the end of a command.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own.code
	}
	if own, ok := errors.AsType[*worker.Error](err); ok {
		return workerCode(own.Reason)
	}
	if _, ok := errors.AsType[*Contradiction](err); ok {
		return Inconsistent
	}
	_, fork := errors.AsType[*verify.ForkError](err)
	_, root := errors.AsType[*audit.RootError](err)
	if fork || root || audit.Evidence(err) != nil {
		return Inconsistent
	}
	_, witness := errors.AsType[*verify.WitnessError](err)
	if _, ok := errors.AsType[*verify.InconclusiveError](err); ok || witness {
		return Inconclusive
	}
	if failedVerification(err) {
		return Verification
	}
	if key, ok := errors.AsType[*verify.KeyError](err); ok {
		return keyCode(key)
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return problemCode(problem)
	}
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return refusalCode(refusal.Problem)
	}
	if _, ok := errors.AsType[*scenario.Error](err); ok {
		return Usage
	}
	if key, ok := errors.AsType[*keys.KMSError](err); ok {
		return kmsCode(key)
	}
	return SystemCode(err)
}

// kmsCode returns the exit code for a key in a KMS that cannot be used.
func kmsCode(e *keys.KMSError) int {
	switch {
	case errors.Is(e, keys.ErrSignature):
		return Verification
	case errors.Is(e, exec.ErrNotFound):
		return Config
	}
	return Unavailable
}

// keyCode returns the exit code for a key that cannot be chosen.
func keyCode(e *verify.KeyError) int {
	if e.Valid > 0 {
		return Usage
	}
	return NotFound
}

// workerCode returns the exit code for the end of a worker, or of a step of its program.
func workerCode(r worker.Reason) int {
	switch r {
	case worker.ReasonInvalid:
		return Usage
	case worker.ReasonConflict:
		return Conflict
	case worker.ReasonRejected:
		return Rejected
	case worker.ReasonInterrupted:
		return Interrupted
	case worker.ReasonFile:
		return IO
	case worker.ReasonPolicy:
		return Config
	}
	return Internal
}

// failedVerification reports whether a check against the pinned root failed. The cause may be a
// refusal, for example a malformed entry. The place counts, and not the cause.
func failedVerification(err error) bool {
	_, step := errors.AsType[*verify.StepError](err)
	_, format := errors.AsType[*verify.FormatError](err)
	_, fork := errors.AsType[*verify.ForkError](err)
	_, run := errors.AsType[*record.BrokenError](err)
	_, rule := errors.AsType[*bundle.RuleError](err)
	return step || format || fork || run || rule
}

// SystemCode returns the exit code of an error that has no exit code, problem type or failed check
// of its own.
func SystemCode(err error) int {
	switch {
	case errors.Is(err, ledger.ErrCorrupt), errors.Is(err, export.ErrDamaged), errors.Is(err, audit.ErrDamaged),
		errors.Is(err, ledger.ErrRolledBack), errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrAnchor), errors.Is(err, agreement.ErrDiverged):
		return Inconsistent
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, ledger.ErrInUse), errors.Is(err, export.ErrInUse), errors.Is(err, fs.ErrExist), errors.Is(err, engine.ErrUsed),
		errors.Is(err, record.ErrOther), errors.Is(err, agreement.ErrTrimmed):
		return Conflict
	case errors.Is(err, context.Canceled):
		return Interrupted
	case fromNetwork(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ledger.ErrStopped):
		return Unavailable
	case errors.Is(err, disk.ErrSystem), errors.Is(err, agreement.ErrFormat):
		return Config
	case errors.Is(err, keys.ErrPassphrase), errors.Is(err, fs.ErrPermission), errors.Is(err, record.ErrKey):
		return Denied
	case errors.Is(err, errFull), errors.Is(err, errFullOther), errors.Is(err, errDevice):
		return IO
	case errors.Is(err, client.ErrMalformed), errors.Is(err, api.ErrOtherPlan):
		return Verification
	}
	if o, ok := errors.AsType[*act.Obstacle](err); ok {
		switch {
		case o.Quorum:
			return Quorum
		case o.Unnamed:
			return Usage
		}
		return Conflict
	}
	return Internal
}

// Output gives an error of writing to path the exit code of input/output. For a missing directory
// it adds the remedy.
func Output(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFolder) {
		return With(IO, fmt.Errorf("write %s: there is no directory %s: make the directory first", path, filepath.Dir(path)))
	}
	return With(IO, err)
}

// fromNetwork reports whether an error is an error of a connection. A bare error number of the
// system is no such error, although it has the methods of a [net.Error].
func fromNetwork(err error) bool {
	_, operation := errors.AsType[*net.OpError](err)
	_, request := errors.AsType[*url.Error](err)
	return operation || request
}

// Remedy returns the remedy of an error that has one, or of an error of the system.
func Remedy(err error) string {
	if own, ok := errors.AsType[*remedyError](err); ok {
		return own.remedy
	}
	if key, ok := errors.AsType[*keys.KMSError](err); ok {
		return key.Remedy
	}
	if _, ok := errors.AsType[*verify.WitnessError](err); ok {
		return "ask the ledger's operator for a tree head with the witnesses' cosignatures, or pin a root without witnesses if no witness cosigns"
	}
	if _, ok := errors.AsType[*audit.RootError](err); ok {
		return "read the log at another node, mirror or export (--url): whoever carries or stores the log may have changed it. Of a ledger in place, arl log fsck --data DIR finds the damage"
	}
	if key, ok := errors.AsType[*verify.KeyError](err); ok && key.Valid > 0 {
		return "pass --keyid: arl agent list shows the keys"
	} else if ok {
		return "arl agent list shows all keys"
	}
	request, asked := errors.AsType[*url.Error](err)
	switch {
	case asked && request.Timeout():
		return "see whether the ledger hangs or is overloaded, and whether a firewall drops what is sent to it, or pass --url"
	case errors.Is(err, errRefused):
		return "no server listens at this address: start the ledger with arl serve, or pass --url"
	case errors.Is(err, errAddress):
		return "another process listens at this address: end that process, or pass --listen with another port"
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
		return NotFound
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return Denied
	case p.Status == http.StatusTooManyRequests:
		return RateLimited
	case p.Status >= http.StatusInternalServerError:
		return Unavailable
	}
	return Usage
}

func refusalCode(problem entry.Problem) int {
	switch problem {
	case entry.Malformed, entry.UnsupportedAlg, entry.TooLarge:
		return Usage
	case entry.NotFound, entry.UnknownSubject:
		return NotFound
	case entry.BadSignature:
		return Verification
	case entry.IDConflict, entry.StateConflict, entry.PolicySuperseded, entry.FencedDependency, entry.StaleEpoch, entry.ScopeMismatch, entry.Stale:
		return Conflict
	case entry.RateLimited:
		return RateLimited
	case entry.NotReady, entry.InsufficientStorage:
		return Unavailable
	}
	return Denied
}

// Remedied adds a remedy to an error.
func Remedied(remedy string, err error) error { return &remedyError{remedy, err} }

// Contradicts returns the error of a log that contradicts itself, where [audit.Evidence] does not
// know the error. kind is a word for the name of the file with the evidence.
func Contradicts(kind string, evidence any, err error) error {
	return &Contradiction{Kind: kind, Evidence: evidence, err: err}
}

// Evident returns the error of a log that contradicts itself, if a file of the user already has the
// evidence.
func Evident(file string, err error) error { return &Contradiction{File: file, err: err} }

// Contradiction is the error of a log that contradicts itself, with the evidence.
type Contradiction struct {
	Kind     string // of the evidence: a word for the file's name
	Evidence any    // nil with File
	File     string // that already has the evidence; empty: none
	err      error
}

// Error implements error.
func (e *Contradiction) Error() string { return e.err.Error() }

// Unwrap returns the error beneath.
func (e *Contradiction) Unwrap() error { return e.err }

// Contradicted returns the contradiction that an error reports.
func Contradicted(err error) (found *Contradiction, ok bool) {
	if found, ok = errors.AsType[*Contradiction](err); ok {
		return found, true
	}
	if evidence := audit.Evidence(err); evidence != nil {
		return &Contradiction{Kind: fileKind(err), Evidence: evidence, err: err}, true
	}
	return nil, false
}

// fileKind returns the word for the name of the file of an error that [audit.Evidence] knows, in
// the order of that function.
func fileKind(err error) string {
	_, finding := errors.AsType[*audit.FindingError](err)
	_, derived := errors.AsType[*audit.IndexError](err)
	if finding || derived {
		return "audit"
	}
	if _, ok := errors.AsType[*verify.IndexError](err); ok {
		return "index"
	}
	return "fork"
}

// Problem returns the problem type of an error, if it has one. A failed verification has none: no
// server refused it.
func Problem(err error) entry.Problem {
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

// Meaning is the meaning of an exit code.
type Meaning struct {
	Code        int
	Title, Text string
}

// Meanings returns the meaning of each exit code, in the order of the codes.
func Meanings() []Meaning {
	return []Meaning{
		{OK, "success", "The command did what was asked, and every check passed."},
		{Internal, "internal error", "An internal error. The message on stderr says what failed; please report it."},
		{Usage, "usage", "The command line or the content of a given file is wrong; nothing was sent or changed. --help shows one example."},
		{NotFound, "not found", "A named file, entry, agent, profile or ledger does not exist."},
		{Denied, "denied", "The key may not do this (unknown-issuer, unauthorized-role), a passphrase is wrong, or the operating system refuses access."},
		{Verification, "verification failed", "A signature, proof or receipt does not hold against the pinned root. Do not act on what it claims."},
		{Conflict, "conflict", "The present state does not allow the action: an id is taken, another policy is in force, a file exists, or another process has the ledger open."},
		{Rejected, "rejected", "A gate of the policy failed. The report of the run names the gate, its value and its limit."},
		{Quorum, "quorum incomplete", "The proposal has fewer approvals than the policy asks for. arl incident show says how many are missing."},
		{Unavailable, "timeout, unavailable", "The command could not reach the ledger, or the ledger takes no entries now. Sending the same bytes again is safe."},
		{Inconsistent, "inconsistent log", "Two signed tree heads contradict each other, stored bytes contradict the signed head, or the log holds an entry that its rules " +
			"do not allow. If signatures of the ledger show it, the message names the file with the evidence; keep this file. From arl replay: a trace or the report does not follow " +
			"from scenario and policy."},
		{Incomplete, "rollback incomplete", "An incident ended PARTIAL or FAILED: some effects were not undone. arl incident show names these effects, with the reports of their agents."},
		{RateLimited, "rate limited", "The client sends too many requests, or the issuer has used its hourly quota. Send the same bytes again later."},
		{Incomparable, "not comparable", "The replay cannot be compared: engine, policy, configuration or scenario differs from the run."},
		{Inconclusive, "inconclusive", "The command found nothing false, but could not check everything. From arl verify: the signer is not checked, " +
			"or whether two tree heads are of one log; the message says " +
			"which file to give. From a report: too few cases failed, or a gate needs a value that was not observed."},
		{IO, "input/output", "A write or a sync failed. A ledger then stops at once. The entries that the ledger acknowledged are on disk."},
		{Config, "configuration", "A setting, a profile or a policy file is wrong; the message names file, line and key."},
		{Interrupted, "interrupted", "A signal ended the command, or the user did not confirm the action."},
	}
}

// KeyFile completes the error of a key file. An unusable key file is an error of the configuration.
func KeyFile(err error) error {
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		return fmt.Errorf("%w (type the passphrase of the file, or set it in %s)", err, PassphraseVariable)
	case err != nil && Code(err) == Internal:
		return With(Config, err)
	}
	return err
}

// LedgerKeys completes the error of the ledger's keys in dir, as KeyFile does.
func LedgerKeys(dir string, err error) error {
	if errors.Is(err, keys.ErrDamaged) {
		return With(Config, Remedied(fmt.Sprintf("restore the file from a backup of %s: the ledger cannot continue without the keys "+
			"that the policy in force names", dir), err))
	}
	return KeyFile(err)
}
