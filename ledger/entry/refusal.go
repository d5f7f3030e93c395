package entry

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Problem names the reason why a request was refused. The set is closed (protocol.md, section 4).
// Package api has the HTTP status and the text of each problem.
type Problem string

// The problem types.
const (
	Malformed           Problem = "malformed"
	UnsupportedAlg      Problem = "unsupported-alg"
	BadSignature        Problem = "bad-signature"
	UnknownIssuer       Problem = "unknown-issuer"
	UnauthorizedRole    Problem = "unauthorized-role"
	NoStanding          Problem = "no-standing"
	WrongAudience       Problem = "wrong-audience"
	ScopeExceedsPolicy  Problem = "scope-exceeds-policy"
	NotFound            Problem = "not-found"
	IDConflict          Problem = "id-conflict"
	StateConflict       Problem = "state-conflict"
	PolicySuperseded    Problem = "policy-superseded"
	FencedDependency    Problem = "fenced-dependency"
	StaleEpoch          Problem = "stale-epoch"
	TooLarge            Problem = "too-large"
	Stale               Problem = "stale"
	UnknownSubject      Problem = "unknown-subject"
	ScopeMismatch       Problem = "scope-mismatch"
	RateLimited         Problem = "rate-limited"
	NotReady            Problem = "not-ready"
	InsufficientStorage Problem = "insufficient-storage"
)

// Refusal is the reason why an entry was not registered: a fault of the caller, or a momentary
// state of the ledger. No part of a refused entry reaches the log.
type Refusal struct {
	Problem Problem
	Field   string // the member at fault, as a path; empty for the whole
	Detail  string // what is wrong, with the offending value
	Remedy  string // how to put it right; empty if the problem's own text says all
	// RetryAfterMS is the time until a retry can succeed, in milliseconds. 0 means unknown.
	RetryAfterMS int64
	// Incident is the incident whose fence refuses an execution; 0: none. WaitsFor names what the
	// incident waits for. It is empty if the incident is over: only a release by an approver then
	// lifts the fence.
	Incident uint64
	WaitsFor string
	// Against is the index of an entry of the same issuer that the refused entry contradicts. For
	// an id-conflict it is the entry that has the id. For a second idempotency key it is the first
	// entry of the execution. 0: none.
	Against uint64
}

// Error implements error.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Problem))
	if r.Field != "" {
		b.WriteString(": " + r.Field)
	}
	b.WriteString(": " + r.Detail)
	if r.Remedy != "" {
		b.WriteString(" (" + r.Remedy + ")")
	}
	return b.String()
}

// Refuse returns a [*Refusal] with a formatted detail.
func Refuse(problem Problem, field, format string, args ...any) *Refusal {
	return refuse(problem, field, format, args...)
}

// WithRemedy sets the remedy and returns r.
func (r *Refusal) WithRemedy(text string) *Refusal { return r.remedy(text) }

func refuse(problem Problem, field, format string, args ...any) *Refusal {
	return &Refusal{Problem: problem, Field: field, Detail: fmt.Sprintf(format, args...)}
}

func malformed(field, format string, args ...any) *Refusal {
	return refuse(Malformed, field, format, args...)
}

func (r *Refusal) remedy(text string) *Refusal {
	r.Remedy = text
	return r
}

// asRefusal turns an error of the JSON decoder into a refusal that names the member, or whole if no
// member is known. A refusal by a type of this module is returned unchanged.
func asRefusal(whole string, err error) *Refusal {
	field := ""
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		field = fieldPath(semantic.JSONPointer)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field = fieldPath(syntactic.JSONPointer)
	}
	if own, ok := errors.AsType[*Refusal](err); ok {
		own.Field = field
		return own
	}
	return malformed(cmp.Or(field, whole), "%s", jsonCause(err))
}

// inside prefixes the field of a refusal with the member or the element, "[3]", that contains the
// field. A name that is longer than every name of the protocol is left out.
func inside(place string, err error) error {
	if r, ok := errors.AsType[*Refusal](err); ok && r.Field != wholePayload && len(place) <= maxToken {
		if r.Field != "" && r.Field[0] != '[' {
			place += "."
		}
		r.Field = place + r.Field
	}
	return err
}

// wholePayload is the field of a refusal that no single member causes.
const wholePayload = "payload"

// fieldPath turns a JSON pointer (RFC 6901) into the path form of Field.
func fieldPath(pointer jsontext.Pointer) string {
	var b strings.Builder
	depth := 0
	for token := range pointer.Tokens() {
		if depth++; depth > MaxDepth || len(token) > maxToken {
			break // none of the protocol's members
		}
		if token != "" && strings.Trim(token, "0123456789") == "" {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}

// jsonCause returns the cause of a decoder's error without the decoder's Go types.
func jsonCause(err error) string {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if semantic.Err != nil && semantic.JSONKind == '0' {
			return fmt.Sprintf("%.40s is not an integer that may stand here", semantic.JSONValue)
		}
		if semantic.Err != nil {
			return semantic.Err.Error()
		}
		return fmt.Sprintf("a JSON %s is the wrong type here", semantic.JSONKind)
	}
	return err.Error()
}
