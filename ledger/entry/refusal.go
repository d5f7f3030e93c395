package entry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Problem names why a request was refused. The set is closed (protocol.md,
// section 4); package api gives each its HTTP status and text.
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

// Refusal is why an entry was not registered: the caller's fault, or the
// ledger's momentary state. Nothing of a refused entry reaches the log.
type Refusal struct {
	Problem Problem
	Field   string // the member at fault, as a path; empty for the whole
	Detail  string // what is wrong, with the offending value
	Remedy  string // how to put it right; empty if the problem's own text says all
	// RetryAfterMS is when to try again, in milliseconds; 0 if unknown.
	RetryAfterMS int64
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

// asRefusal turns an error of the JSON decoder into a refusal that names the
// member; a refusal by one of our own types comes through as it is.
func asRefusal(err error) *Refusal {
	field := ""
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		field = fieldPath(string(semantic.JSONPointer))
	}
	if own, ok := errors.AsType[*Refusal](err); ok {
		own.Field = field
		return own
	}
	return malformed(field, "%s", jsonCause(err))
}

// fieldPath turns a JSON pointer (RFC 6901) into the path form of Field.
func fieldPath(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

// jsonCause says what is wrong without the Go types of the decoder.
func jsonCause(err error) string {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if semantic.Err != nil {
			return semantic.Err.Error()
		}
		return fmt.Sprintf("a JSON %s is not what stands here", semantic.JSONKind)
	}
	return err.Error()
}
