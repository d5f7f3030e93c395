package run

import (
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
	if l == unknown() {
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
	// GRPCCode is the status code by name, such as UNAVAILABLE.
	GRPCCode string `json:"grpc_code,omitzero"`
	// ProviderCode is the provider's or framework's own code for the error,
	// such as rate_limit_exceeded; of several the most specific one.
	ProviderCode string `json:"provider_code,omitzero"`
	// RetryAfterMS is how long the one that refused asks to wait.
	RetryAfterMS *int64 `json:"retry_after_ms,omitzero"`
}

// Classify puts an error into the taxonomy, typed causes first: the
// provider's code (it tells apart what one HTTP status means to several
// rows), the gRPC code, the HTTP status, then messages of a known shape.
// Words inside a message are no evidence: what no step knows is unknown.
func Classify(raw RawError) Label {
	label, _ := classify(raw)
	return label
}

// classify also says whether the error is a refusal that comes before the
// call had any effect.
func classify(raw RawError) (label Label, refused bool) {
	message, refused := byMessage(raw.Text)
	for _, label := range []Label{byProvider(raw.ProviderCode), byGRPC(raw.GRPCCode), byStatus(raw.HTTPStatus)} {
		if label != unknown() {
			return label, refused
		}
	}
	return message, refused
}

func unknown() Label { return Label{entry.ClassUnknown, entry.ClassUnknown} }

// byStatus takes the row that a bare status means; the rows that need more
// than the status are reached by the provider's code.
func byStatus(status int) Label {
	switch status {
	case 400, 404, 422:
		return Label{"request", "invalid"}
	case 401:
		return Label{"access", "unauthenticated"}
	case 402:
		return Label{"capacity", "quota_exhausted"}
	case 403:
		return Label{"access", "denied"}
	case 408, 504:
		return Label{"transient", "timeout"}
	case 409, 412:
		return Label{"state", "conflict"}
	case 413:
		return Label{"request", "context_overflow"}
	case 424:
		return Label{"coord", "dependency_failed"}
	case 429:
		return Label{"capacity", "rate_limited"}
	case 500, 502, 503:
		return Label{"transient", "unavailable"}
	case 529:
		return Label{"capacity", "overloaded"}
	}
	if 400 <= status && status < 600 {
		return Label{"tool", "error"}
	}
	return unknown()
}

// byGRPC leaves out the codes that several rows share without a first among
// them: UNKNOWN, CANCELLED, FAILED_PRECONDITION, OUT_OF_RANGE.
func byGRPC(code string) Label {
	switch code {
	case "UNAVAILABLE", "INTERNAL":
		return Label{"transient", "unavailable"}
	case "DEADLINE_EXCEEDED":
		return Label{"transient", "timeout"}
	case "RESOURCE_EXHAUSTED":
		return Label{"capacity", "rate_limited"}
	case "INVALID_ARGUMENT", "NOT_FOUND":
		return Label{"request", "invalid"}
	case "UNIMPLEMENTED":
		return Label{"output", "hallucinated_tool"}
	case "UNAUTHENTICATED":
		return Label{"access", "unauthenticated"}
	case "PERMISSION_DENIED":
		return Label{"access", "denied"}
	case "ABORTED":
		return Label{"state", "conflict"}
	case "DATA_LOSS":
		return Label{"state", "corrupt"}
	}
	return unknown()
}

// byMessage knows messages by their exact shape: all of the text, or the
// fixed words around what varies in it. All but the last block refuse the
// call before it does anything; for the airline tools that is so in their
// source: every check precedes the first write.
func byMessage(text string) (label Label, refused bool) {
	starts := func(head string) bool { return strings.HasPrefix(text, head) }
	ends := func(tail string) bool { return strings.HasSuffix(text, tail) }
	between := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case starts("No such function name: "):
		return Label{"output", "hallucinated_tool"}, true

	// The arguments do not fit the tool, each other, or what exists.
	case starts("payment amount does not add up, total price is "),
		starts("payment method ") && ends("not found"),
		text == "certificate cannot be used to update reservation",
		text == "user not found", text == "reservation not found",
		starts("flight ") && ends(" not found"),
		starts("genre must be an integer: "), starts("unrecognized genre: "), starts("unknown service "),
		starts("amount of values in ") && between(" parameter exceeds the limit of "),
		between("() got an unexpected keyword argument '") && ends("'"):
		return Label{"output", "bad_arguments"}, true

	// A rule of the business refuses well-formed arguments.
	case starts("flight ") && between(" not available on date "),
		starts("not enough seats on flight "),
		starts("not enough balance in payment method "),
		text == "gift card balance is not enough":
		return Label{"tool", "error"}, true

	// The tool's own configuration is wrong.
	case starts("Endpoint '") && ends("' does not exist"), text == "API doesn't exists", text == "Not Found":
		return Label{"request", "invalid"}, true
	case text == "Authentication required", starts("An API key is required "):
		return Label{"access", "unauthenticated"}, true
	case text == "Forbidden", starts("<html><head><title>Forbidden</title></head>"),
		text == "This endpoint is disabled for your subscription":
		return Label{"access", "denied"}, true

	case starts("Timeout error..."):
		return Label{"transient", "timeout"}, false
	case starts("Exceeded ") && ends(" redirects."), text == "Tracking information not found":
		return Label{"tool", "error"}, false
	}
	return unknown(), false
}
