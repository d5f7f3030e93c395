package run

import "strings"

// byProvider takes the row of a code that a provider, a framework or a
// harness gives to its errors. The name of an exception may stand with its
// package. A wrapper that only says that retries are spent has no row: what it
// wraps does.
func byProvider(code string) Label {
	name := code[strings.LastIndexAny(code, ".:")+1:]
	for _, label := range []Label{byAPI(code), byErrorType(code), byHarness(code), byRPC(code), byException(name)} {
		if label != unknown() {
			return label
		}
	}
	return unknown()
}

// byAPI knows the codes of model providers.
func byAPI(code string) Label {
	switch code {
	case "api_error", "server_error", "internal_server_error", "service_unavailable",
		"ServiceUnavailableException", "InternalServerException", "ModelErrorException", "ModelNotReadyException":
		return Label{"transient", "unavailable"}
	case "timeout_error", "request_timeout", "ModelTimeoutException":
		return Label{"transient", "timeout"}
	case "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "slow_down", "ThrottlingException":
		return Label{"capacity", "rate_limited"}
	case "overloaded_error", "engine_overloaded":
		return Label{"capacity", "overloaded"}
	case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error", "ServiceQuotaExceededException":
		return Label{"capacity", "quota_exhausted"}
	case "context_length_exceeded", "request_too_large", "string_above_max_length":
		return Label{"request", "context_overflow"}
	case "invalid_request_error", "model_not_found", "not_found_error", "unsupported_parameter", "unknown_parameter", "invalid_value",
		"ValidationException", "ResourceNotFoundException", "DeploymentNotFound":
		return Label{"request", "invalid"}
	case "authentication_error", "invalid_api_key", "ExpiredTokenException", "UnrecognizedClientException":
		return Label{"access", "unauthenticated"}
	case "permission_error", "AccessDeniedException", "unsupported_country_region_territory":
		return Label{"access", "denied"}
	case "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation":
		return Label{"safety", "content_filtered"}
	case "refusal":
		return Label{"output", "refused"}
	}
	return unknown()
}

// byErrorType knows the values of error.type that the taxonomy gives to its
// rows.
func byErrorType(kind string) Label {
	switch kind {
	case "unavailable", "timeout":
		return Label{"transient", kind}
	case "rate_limited", "overloaded", "quota_exhausted":
		return Label{"capacity", kind}
	case "context_overflow":
		return Label{"request", kind}
	case "invalid_request":
		return Label{"request", "invalid"}
	case "malformed_output":
		return Label{"output", "malformed"}
	case "tool_not_found":
		return Label{"output", "hallucinated_tool"}
	case "tool_schema_violation":
		return Label{"output", "bad_arguments"}
	case "ungrounded_output":
		return Label{"output", "ungrounded"}
	case "refused":
		return Label{"output", kind}
	case "no_progress", "step_limit", "premature_end", "off_task":
		return Label{"progress", kind}
	case "quality_gate_failed":
		return Label{"verify", "gate_failed"}
	case "tool_error":
		return Label{"tool", "error"}
	case "effect_uncertain":
		return Label{"tool", kind}
	case "unauthenticated":
		return Label{"access", kind}
	case "permission_denied":
		return Label{"access", "denied"}
	case "content_filtered":
		return Label{"safety", kind}
	case "safety_violation":
		return Label{"safety", "violation"}
	case "budget_exceeded":
		return Label{"budget", "exceeded"}
	case "state_corrupt", "state_conflict":
		return Label{"state", strings.TrimPrefix(kind, "state_")}
	case "dependency_failed", "delegation_failed":
		return Label{"coord", kind}
	case "process_lost":
		return Label{"crash", "lost"}
	case "oom", "panic", "interrupted":
		return Label{"crash", kind}
	}
	return unknown()
}

// byHarness knows the classes in per-attempt logs of coding agents.
func byHarness(class string) Label {
	switch class {
	case "test_fail", "lint_fail": // a gate looked at the result
		return Label{"verify", "gate_failed"}
	case "edit_fail": // the edit does not fit the file
		return Label{"output", "malformed"}
	case "no_edit": // ended without what it was to produce
		return Label{"progress", "premature_end"}
	}
	return unknown()
}

// byRPC knows the codes of JSON-RPC, in which tools are called over MCP.
func byRPC(code string) Label {
	switch code {
	case "-32700":
		return Label{"output", "malformed"}
	case "-32600":
		return Label{"request", "invalid"}
	case "-32601":
		return Label{"output", "hallucinated_tool"}
	case "-32602":
		return Label{"output", "bad_arguments"}
	case "-32603":
		return Label{"tool", "error"}
	}
	return unknown()
}

// byException knows the names under which clients and frameworks raise
// errors, without their package. Those that several rows share, such as
// ValidationError, have none.
func byException(name string) Label {
	switch name {
	case "TimeoutError", "TimeoutException", "APITimeoutError", "ReadTimeout", "ReadTimeoutError", "ConnectTimeout", "ConnectTimeoutError",
		"SocketTimeoutException", "HttpTimeoutException", "DeadlineExceeded", "deadlineExceededError":
		return Label{"transient", "timeout"}
	case "APIConnectionError", "ConnectionError", "ConnectError", "ConnectException", "ConnectionResetError", "ConnectionRefusedError",
		"RemoteProtocolError", "UnknownHostException", "InternalServerError", "ServiceUnavailable", "ServiceUnavailableError":
		return Label{"transient", "unavailable"}
	case "RateLimitError", "TooManyRequests", "ResourceExhausted":
		return Label{"capacity", "rate_limited"}
	case "OverloadedError":
		return Label{"capacity", "overloaded"}
	case "AuthenticationError", "Unauthenticated":
		return Label{"access", "unauthenticated"}
	case "PermissionDeniedError", "PermissionDenied":
		return Label{"access", "denied"}
	case "BadRequestError", "NotFoundError", "UnprocessableEntityError", "InvalidArgument":
		return Label{"request", "invalid"}
	case "ContextWindowExceededError":
		return Label{"request", "context_overflow"}
	case "ConflictError":
		return Label{"state", "conflict"}
	case "JSONDecodeError", "OutputParserException", "ModelBehaviorError", "LengthFinishReasonError":
		return Label{"output", "malformed"}
	case "ToolNotFoundError":
		return Label{"output", "hallucinated_tool"}
	case "ToolException", "ToolError", "ToolCallError":
		return Label{"tool", "error"}
	case "GraphRecursionError", "MaxTurnsExceeded":
		return Label{"progress", "step_limit"}
	case "ContentPolicyViolationError", "ContentFilterFinishReasonError":
		return Label{"safety", "content_filtered"}
	case "InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered":
		return Label{"safety", "violation"}
	case "BudgetExceededError":
		return Label{"budget", "exceeded"}
	case "MemoryError", "OutOfMemoryError":
		return Label{"crash", "oom"}
	}
	return unknown()
}
