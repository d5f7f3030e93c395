package scenario

import (
	"strconv"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Label is a place in the failure taxonomy.
type Label struct {
	Class string `json:"class,omitzero"`
	Code  string `json:"code,omitzero"`
}

// String gives "class.code", or "unknown".
func (l Label) String() string {
	if l == UnknownLabel() {
		return l.Class
	}
	if l.Code == "" {
		return l.Class
	}
	return l.Class + "." + l.Code
}

// RawError is an error as a source recorded it, of the innermost cause that
// the source lets through. Fields it does not have stay empty.
type RawError struct {
	// Text is the message, cut to 4 KiB. It is untrusted.
	Text string `json:"text,omitzero"`
	// HTTPStatus is the status of the response that was the cause.
	HTTPStatus int `json:"http_status,omitzero"`
	// GRPCCode is the name of the status code, for example UNAVAILABLE.
	GRPCCode string `json:"grpc_code,omitzero"`
	// ProviderCode is the error code of the provider or framework, for example rate_limit_exceeded.
	// Of several codes it is the most specific one.
	ProviderCode string `json:"provider_code,omitzero"`
	// RetryAfterMS is how long the one that refused asks to wait.
	RetryAfterMS *int64 `json:"retry_after_ms,omitzero"`
}

// Classify puts an error into the taxonomy. Typed causes come first: the provider's code, which
// distinguishes several rows with one HTTP status, then the gRPC code, then the HTTP status. Then
// come messages of a known shape, the fixed forms in which runtimes and shells write errors, and
// last phrases. An error that no step knows is unknown.
func Classify(raw RawError) Label {
	return Explain(raw).Label
}

// Explanation is a label with its reason.
type Explanation struct {
	Label Label `json:"label"`
	// By is the step that decided: code, grpc, status, pattern, message, form or phrase; empty:
	// none did.
	By string `json:"by,omitzero"`
	// Cause is what the step saw, in words for people. If no step decided, it is the phrase that
	// did not count, if there is one.
	Cause string `json:"cause,omitzero"`
	// Refused says that the call was refused before it had any effect.
	Refused bool `json:"refused,omitzero"`
	// Version is that of the tables.
	Version int64 `json:"version"`
	// Policy is the digest of the policy whose pattern decided; empty: none did.
	Policy entry.Digest `json:"policy,omitzero"`
	// Change says what would change the label.
	Change string `json:"change"`
}

// Explain classifies an error, and says why.
func Explain(raw RawError) Explanation { return ExplainBy(raw, nil) }

// ExplainBy is [Explain] with the patterns of a policy; nil: without any.
func ExplainBy(raw RawError, p *recovery.Policy) Explanation {
	if p == nil {
		return causes().explain(raw, "", nil)
	}
	e := causes().explain(raw, "", p.Patterns())
	if e.By == byPattern {
		e.Policy = p.Hash()
	}
	return e
}

// byPattern is the step of the patterns of a policy.
const byPattern = "pattern"

// Relabel is a failure as the patterns of a policy see it. A label that is not that of the
// classifier was given by somebody who knew more, and stays.
func Relabel(f *Failure, p *recovery.Policy) *Failure {
	if len(p.Patterns()) == 0 || f.Label != Classify(f.Raw) {
		return f
	}
	e := ExplainBy(f.Raw, p)
	if e.By != byPattern {
		return f
	}
	changed := *f
	changed.Label = e.Label
	if e.Refused && f.Effects == entry.EffectsUnknown {
		changed.Effects, changed.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
	}
	return &changed
}

// ExplainLeaving is [Explain] without what was found in a data set: its messages of known shapes,
// the phrases that were learned from it alone, its evidence, and, for aider_swe_bench, its own
// codes. Forms, refinements, and the phrases without a data set stay, which were made with
// tau_bench_airline, toolbench and aider_swe_bench known.
func ExplainLeaving(raw RawError, set string) Explanation { return causes().explain(raw, set, nil) }

// explain asks the steps in their order, without what was found in a data set.
func (t *causeTables) explain(raw RawError, leaving string, patterns []recovery.Pattern) Explanation {
	text := raw.Text
	if leaving == "aider_swe_bench" && t.harness[raw.ProviderCode] {
		text = raw.ProviderCode + " " + text
	}
	return t.decide(raw, leaving, patterns, t.phraseIn(text, leaving))
}

// decide asks the steps in their order. The last of them is what the phrases say.
func (t *causeTables) decide(raw RawError, leaving string, patterns []recovery.Pattern, words found) Explanation {
	e := Explanation{Label: UnknownLabel(), Version: t.version}
	var message Label
	var shape string
	message, shape, e.Refused = t.message(raw.Text, leaving)
	own, ownCause, refused := patternIn(raw.Text, patterns)
	form, formCause := t.formIn(raw.Text)
	code := t.named(raw.ProviderCode)
	if leaving == "aider_swe_bench" && t.harness[raw.ProviderCode] {
		code = UnknownLabel()
	}
	steps := []struct {
		by, cause string
		label     Label
	}{
		{"code", "code " + raw.ProviderCode, code}, {"grpc", "gRPC code " + raw.GRPCCode, t.grpc.of(raw.GRPCCode)},
		{"status", "HTTP status " + strconv.Itoa(raw.HTTPStatus), byStatus(raw.HTTPStatus)},
		{byPattern, ownCause, own}, {"message", "message " + strconv.Quote(shape), message}, {"form", formCause, form}, {"phrase", words.cause, words.label},
	}
	for _, s := range steps {
		if s.label != UnknownLabel() {
			e.Label, e.By, e.Cause = s.label, s.by, s.cause
			break
		}
	}
	if e.By == "" {
		e.Cause = words.cause
	}
	e.Refused = e.Refused || refused && e.By == byPattern
	if refinesStatus(&e, raw, words) || refinesException(&e, raw, words) {
		e.Label, e.By, e.Cause = words.label, "phrase", e.Cause+" and "+words.cause
	}
	e.Change = changes[e.By]
	return e
}

// refinesStatus says whether words refine a status. Servers answer 400 and 422 to a request that is
// wrong in itself, and to arguments that fit nothing: words alone distinguish the two.
func refinesStatus(e *Explanation, raw RawError, words found) bool {
	return e.By == "status" && (raw.HTTPStatus == 400 || raw.HTTPStatus == 422) && words.label == Label{"output", "bad_arguments"} &&
		(words.cause != bareInvalid || !repeatsStatus(raw.Text))
}

// refinesException says whether words refine the name of an exception. Tools in Python raise
// ValueError and PermissionError for anything that they refuse: words tell what the state of the
// world refuses, and what the rights of the caller.
func refinesException(e *Explanation, raw RawError, words found) bool {
	if e.By != "form" && e.By != "code" || words.label.Class != "tool" && words.label.Class != "access" {
		return false
	}
	name := raw.ProviderCode
	if e.By == "form" {
		name = exceptionIn(raw.Text)
	}
	name = name[strings.LastIndexAny(name, ".:$")+1:]
	return name == "ValueError" || name == "PermissionError"
}

// bareInvalid is what the phrase says that has no more than the word invalid.
const bareInvalid = `phrase " invalid "`

// repeatsStatus says whether a text calls the request invalid, as 400 and 422 do without words.
func repeatsStatus(text string) bool { return strings.Contains(plain(text), "request invalid") }

// changes says what would change a label, by the step that gave it.
var changes = map[string]string{
	"code":    "another code of the provider, framework or exception",
	"grpc":    "a code of the provider or framework, which comes before the gRPC code",
	"status":  "a code of the provider or framework, or a gRPC code: both come before the status",
	byPattern: "a code or a status, which come before the patterns of the policy, or an earlier pattern",
	"message": "a code or a status, which come before messages of a known shape, or a pattern of the policy",
	"form":    "a code or a status, which come before what a text says, or a pattern of the policy",
	"phrase":  "a code, a status, a pattern of the policy, the name of an exception at the head of the text, or an exit code at its end: all come before phrases",
	"":        "a code, a status, a pattern of the policy, the name of an exception at the head of the text, or an exit code at its end",
}

// UnknownLabel is the place of an error of which nothing is known.
func UnknownLabel() Label { return Label{entry.ClassUnknown, entry.ClassUnknown} }

// byStatus takes the row that a bare status means.
func byStatus(status int) Label {
	label := causes().status.of(strconv.Itoa(status))
	if label == UnknownLabel() && 400 <= status && status < 600 {
		return Label{Class: "tool", Code: "error"}
	}
	return label
}

// byMessage knows messages by their exact shape: the whole text, or the fixed words around a
// variable part.
func byMessage(text string) (label Label, refused bool) {
	label, _, refused = causes().message(text, "")
	return label, refused
}

func (t *causeTables) message(text, leaving string) (label Label, shape string, refused bool) {
	for i := range t.messages {
		if m := &t.messages[i]; (leaving == "" || m.From != leaving) && m.fits(text) {
			return m.label, m.Shape, m.Refused
		}
	}
	return UnknownLabel(), "", false
}
