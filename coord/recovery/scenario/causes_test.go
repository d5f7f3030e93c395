package scenario

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// Every row of the taxonomy has its value of error.type, and every label of a
// code is a row.
func TestProviderCodesAreRows(t *testing.T) {
	reached := map[Label]bool{}
	for _, kind := range []string{
		"unavailable", "timeout", "rate_limited", "overloaded", "quota_exhausted", "context_overflow", "invalid_request", "malformed_output",
		"tool_not_found", "tool_schema_violation", "ungrounded_output", "refused", "no_progress", "step_limit", "premature_end", "off_task",
		"quality_gate_failed", "tool_error", "effect_uncertain", "unauthenticated", "permission_denied", "content_filtered", "safety_violation",
		"budget_exceeded", "state_corrupt", "state_conflict", "dependency_failed", "delegation_failed", "process_lost", "oom", "panic", "interrupted",
	} {
		label := causes().named(kind)
		if reached[label] {
			t.Errorf("%s: the row %s has two values", kind, label)
		}
		reached[label] = true
		if !slices.Contains(entry.Codes(label.Class), label.Code) {
			t.Errorf("%s: %s is no row", kind, label)
		}
	}
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			if !reached[Label{class, code}] {
				t.Errorf("no error.type for %s.%s", class, code)
			}
		}
	}
	if got := causes().named("_OTHER"); got != UnknownLabel() {
		t.Errorf("_OTHER is %s", got)
	}
}

// One code of each provider and framework that the tables know, and the
// wrappers they must not know.
func TestProviderCodes(t *testing.T) {
	for code, want := range map[string]string{
		"ThrottlingException": "capacity.rate_limited", "slow_down": "capacity.rate_limited", "anthropic.OverloadedError": "capacity.overloaded", "com.x.Client$OverloadedError": "capacity.overloaded",
		"billing_error": "capacity.quota_exhausted", "request_too_large": "request.context_overflow", "litellm.exceptions.ContextWindowExceededError": "request.context_overflow",
		"DeploymentNotFound": "request.invalid", "ExpiredTokenException": "access.unauthenticated", "google.api_core.exceptions.PermissionDenied": "access.denied",
		"ResponsibleAIPolicyViolation": "safety.content_filtered", "agents.exceptions.InputGuardrailTripwireTriggered": "safety.violation", "refusal": "output.refused",
		"json.decoder.JSONDecodeError": "output.malformed", "-32601": "output.hallucinated_tool", "-32700": "output.malformed", "-32600": "request.invalid", "-32603": "tool.error",
		"langgraph.errors.GraphRecursionError": "progress.step_limit", "java.net.SocketTimeoutException": "transient.timeout", "httpx.ConnectError": "transient.unavailable",
		"MemoryError": "crash.oom", "ToolException": "tool.error", "ToolNotFoundError": "output.hallucinated_tool", "BudgetExceededError": "budget.exceeded",
		"AuthenticationError": "access.unauthenticated", "BadRequestError": "request.invalid", "ConflictError": "state.conflict", "ModelTimeoutException": "transient.timeout",
		"tenacity.RetryError": "unknown", "urllib3.exceptions.MaxRetryError": "unknown", "pydantic.ValidationError": "unknown", "": "unknown", ".": "unknown",
	} {
		if got := Classify(RawError{ProviderCode: code}).String(); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}

// The innermost typed cause decides, not the wrapper around it; without one
// the wrapper's own words stay.
func TestInnermostCause(t *testing.T) {
	for answer, want := range map[string]string{
		`{"error": {"code": "retries_exhausted", "message": "gave up", "cause": {"type": "server_error", "error": {"code": "insufficient_quota"}}}}`: "capacity.quota_exhausted",
		`{"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}`:                                              "safety.content_filtered",
		`{"error": {"type": "overloaded_error", "message": "Overloaded", "cause": {"message": "no idea"}}}`:                                          "capacity.overloaded",
		`{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota"}}`:                                                               "capacity.rate_limited",
		`{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool"}}`:                                                          "output.bad_arguments",
		`{"error": {"code": 503}}`: "transient.unavailable",
	} {
		raw, failed := FailureIn(answer)
		if got := Classify(raw).String(); !failed || got != want {
			t.Errorf("%s: %s, failed %t, want %s", answer, got, failed, want)
		}
	}
}

// Every row that the tables name is one of the taxonomy, and no cause stands twice.
func TestCausesAreRows(t *testing.T) {
	tables := causes()
	labels := []Label{}
	for _, r := range []rows{tables.codes, tables.exceptions, tables.grpc, tables.status} {
		for _, label := range r {
			labels = append(labels, label)
		}
	}
	for i := range tables.messages {
		labels = append(labels, tables.messages[i].label)
	}
	for _, label := range labels {
		if !slices.Contains(entry.Codes(label.Class), label.Code) {
			t.Errorf("%s is no row", label)
		}
	}
	for _, text := range []string{"provider: {tool.error: [a], request.invalid: [a]}", "providers: {}", "grpc: {a: b}"} {
		if _, err := readCauses(asJSON(t, text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
