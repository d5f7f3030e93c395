package scenario

import (
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
)

// Typed causes decide before messages, and the provider's code before the
// status that it refines; what nothing knows is unknown.
func TestClassifyTypedCausesFirst(t *testing.T) {
	for _, c := range []struct {
		desc string
		raw  RawError
		want string
	}{
		{"nothing known", RawError{}, "unknown"},
		{"words come last", RawError{Text: "the timeout of the rate limit was unauthorized", HTTPStatus: 503}, "transient.unavailable"},
		{"words alone", RawError{Text: "the timeout of the rate limit was unauthorized"}, "capacity.rate_limited"},
		{"words refine 400", RawError{Text: "parameter x must be a number", HTTPStatus: 400}, "output.bad_arguments"},
		{"words refine no other status", RawError{Text: "parameter x must be a number", HTTPStatus: 404}, "request.invalid"},
		{"bare 400", RawError{HTTPStatus: 400}, "request.invalid"},
		{"400 refined", RawError{HTTPStatus: 400, ProviderCode: "context_length_exceeded"}, "request.context_overflow"},
		{"400 filtered", RawError{HTTPStatus: 400, ProviderCode: "content_filter"}, "safety.content_filtered"},
		{"401", RawError{HTTPStatus: 401}, "access.unauthenticated"},
		{"402", RawError{HTTPStatus: 402}, "capacity.quota_exhausted"},
		{"403", RawError{HTTPStatus: 403}, "access.denied"},
		{"404", RawError{HTTPStatus: 404}, "request.invalid"},
		{"408", RawError{HTTPStatus: 408}, "transient.timeout"},
		{"409", RawError{HTTPStatus: 409}, "state.conflict"},
		{"412", RawError{HTTPStatus: 412}, "state.conflict"},
		{"413", RawError{HTTPStatus: 413}, "request.context_overflow"},
		{"418 has no row", RawError{HTTPStatus: 418}, "tool.error"},
		{"424", RawError{HTTPStatus: 424}, "coord.dependency_failed"},
		{"bare 429", RawError{HTTPStatus: 429}, "capacity.rate_limited"},
		{"429 refined", RawError{HTTPStatus: 429, ProviderCode: "insufficient_quota"}, "capacity.quota_exhausted"},
		{"500", RawError{HTTPStatus: 500}, "transient.unavailable"},
		{"503 refined", RawError{HTTPStatus: 503, ProviderCode: "overloaded_error"}, "capacity.overloaded"},
		{"504", RawError{HTTPStatus: 504}, "transient.timeout"},
		{"529", RawError{HTTPStatus: 529}, "capacity.overloaded"},
		{"a good status is no cause", RawError{HTTPStatus: 200}, "unknown"},
		{"no status", RawError{HTTPStatus: 600}, "unknown"},
		{"status before message", RawError{HTTPStatus: 500, Text: "Forbidden"}, "transient.unavailable"},
		{"gRPC before the status of its gateway", RawError{HTTPStatus: 400, GRPCCode: "DATA_LOSS"}, "state.corrupt"},
		{"gRPC that says nothing leaves the status", RawError{HTTPStatus: 403, GRPCCode: "UNKNOWN"}, "access.denied"},
		{"a name with its package", RawError{ProviderCode: "openai.RateLimitError", HTTPStatus: 400}, "capacity.rate_limited"},
		{"a wrapper has no row", RawError{ProviderCode: "tenacity.RetryError", HTTPStatus: 529}, "capacity.overloaded"},
		{"a code of JSON-RPC", RawError{ProviderCode: "-32602"}, "output.bad_arguments"},
		{"gRPC", RawError{GRPCCode: "DEADLINE_EXCEEDED"}, "transient.timeout"},
		{"gRPC exhausted", RawError{GRPCCode: "RESOURCE_EXHAUSTED"}, "capacity.rate_limited"},
		{"gRPC argument", RawError{GRPCCode: "INVALID_ARGUMENT"}, "request.invalid"},
		{"gRPC unimplemented", RawError{GRPCCode: "UNIMPLEMENTED"}, "output.hallucinated_tool"},
		{"gRPC unauthenticated", RawError{GRPCCode: "UNAUTHENTICATED"}, "access.unauthenticated"},
		{"gRPC denied", RawError{GRPCCode: "PERMISSION_DENIED"}, "access.denied"},
		{"gRPC aborted", RawError{GRPCCode: "ABORTED"}, "state.conflict"},
		{"gRPC loss", RawError{GRPCCode: "DATA_LOSS"}, "state.corrupt"},
		{"gRPC internal", RawError{GRPCCode: "INTERNAL"}, "transient.unavailable"},
		{"gRPC ambiguous", RawError{GRPCCode: "FAILED_PRECONDITION"}, "unknown"},
		{"server_error", RawError{ProviderCode: "server_error"}, "transient.unavailable"},
		{"rate_limit_exceeded", RawError{ProviderCode: "rate_limit_exceeded"}, "capacity.rate_limited"},
		{"invalid_request_error", RawError{ProviderCode: "invalid_request_error"}, "request.invalid"},
		{"authentication_error", RawError{ProviderCode: "authentication_error"}, "access.unauthenticated"},
		{"permission_error", RawError{ProviderCode: "permission_error"}, "access.denied"},
		{"an unknown provider code leaves the status", RawError{ProviderCode: "E17", HTTPStatus: 504}, "transient.timeout"},
		{"failed tests", RawError{ProviderCode: "test_fail"}, "verify.gate_failed"},
		{"nothing produced", RawError{ProviderCode: "no_edit"}, "progress.premature_end"},
	} {
		if got := Classify(c.raw).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
	}
}

// A message counts only in its exact shape; a refusal is told from an error
// that may have come after an effect.
func TestClassifyMessageShapes(t *testing.T) {
	for text, want := range map[string]string{
		"No such function name: fly":                             "output.hallucinated_tool refused",
		"payment method card_1 not found":                        "output.bad_arguments refused",
		"payment method not found":                               "output.bad_arguments refused",
		"flight AB1 not found":                                   "output.bad_arguments refused",
		"flight AB1 not available on date 2024-01-01":            "tool.error refused",
		"gift card balance is not enough":                        "tool.error refused",
		"f() got an unexpected keyword argument 'x'":             "output.bad_arguments refused",
		"Endpoint '/a' does not exist":                           "request.invalid refused",
		"Authentication required":                                "access.unauthenticated refused",
		"Forbidden":                                              "access.denied refused",
		"Forbidden love, a novel":                                "unknown",
		"Exceeded 30 redirects.":                                 "tool.error",
		"Timeout error...HTTPConnectionPool: Read timed out.":    "transient.timeout",
		"Log: Timeout error...":                                  "unknown",
		"he said: No such function name: fly":                    "unknown",
		"amount of values in x parameter exceeds the limit of 4": "output.bad_arguments refused",
	} {
		label, refused := byMessage(text)
		got := label.String()
		if refused {
			got += " refused"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// What is known of a failure's effects: none for a step without effect or a
// refused call, else unknown.
func TestFailureEffects(t *testing.T) {
	for _, c := range []struct {
		effect entry.Effect
		raw    RawError
		want   string
	}{
		{entry.EffectNone, RawError{HTTPStatus: 500}, "none safe"},
		{entry.EffectCompensable, RawError{HTTPStatus: 500}, "unknown unknown"},
		{entry.EffectUndeclared, RawError{Text: "Timeout error..."}, "unknown unknown"},
		{entry.EffectIrrevocable, RawError{Text: "reservation not found"}, "none safe"},
		{entry.EffectUndeclared, RawError{Text: "No such function name: x"}, "none safe"},
	} {
		f := NewFailure(c.effect, c.raw, entry.DigestOf(""))
		if got := fmt.Sprintf("%s %s", f.Effects, f.ReplaySafety); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.effect, c.raw, got, c.want)
		}
	}
}
