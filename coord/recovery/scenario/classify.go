package scenario

import (
	"strconv"
	"strings"

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
// distinguishes several rows with one HTTP status, then the gRPC code, then the HTTP status, then
// messages of a known shape. Words inside a message are no evidence. An error that no step knows is
// unknown.
func Classify(raw RawError) Label {
	label, _ := classify(raw)
	return label
}

// classify also says whether the error is a refusal that comes before the
// call had any effect.
func classify(raw RawError) (label Label, refused bool) {
	message, refused := byMessage(raw.Text)
	for _, label := range []Label{byProvider(raw.ProviderCode), causes().grpc.of(raw.GRPCCode), byStatus(raw.HTTPStatus)} {
		if label != UnknownLabel() {
			return label, refused
		}
	}
	return message, refused
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

// byProvider takes the row of a code that a provider, a framework or a harness
// gives to its errors. The name of an exception may stand with its package.
func byProvider(code string) Label {
	if label := causes().codes.of(code); label != UnknownLabel() {
		return label
	}
	return causes().exceptions.of(code[strings.LastIndexAny(code, ".:")+1:])
}

// byMessage knows messages by their exact shape: the whole text, or the fixed words around a
// variable part.
func byMessage(text string) (label Label, refused bool) {
	for i := range causes().messages {
		if m := &causes().messages[i]; m.fits(text) {
			return m.label, m.Refused
		}
	}
	return UnknownLabel(), false
}
