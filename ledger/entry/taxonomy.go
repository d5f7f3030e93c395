package entry

import "slices"

// ClassUnknown is the class of a failure that fits none of the taxonomy's, and
// the code of every class without a more exact one.
const ClassUnknown = "unknown"

// failures is the failure taxonomy: its classes, a closed set, and the codes
// that each is known to have. Further codes may be used.
var failures = []struct {
	class string
	codes []string
}{
	{"transient", []string{"unavailable", "timeout"}},
	{"capacity", []string{"rate_limited", "overloaded", "quota_exhausted"}},
	{"request", []string{"context_overflow", "invalid"}},
	{"output", []string{"malformed", "hallucinated_tool", "bad_arguments", "ungrounded", "refused"}},
	{"progress", []string{"no_progress", "step_limit", "premature_end", "off_task"}},
	{"verify", []string{"gate_failed"}},
	{"tool", []string{"error", "effect_uncertain"}},
	{"access", []string{"unauthenticated", "denied"}},
	{"safety", []string{"content_filtered", "violation"}},
	{"budget", []string{"exceeded"}},
	{"state", []string{"corrupt", "conflict"}},
	{"coord", []string{"dependency_failed", "delegation_failed"}},
	{"crash", []string{"lost", "oom", "panic", "interrupted"}},
	{ClassUnknown, nil},
}

// Classes returns the classes of failure in the taxonomy's order, unknown last.
func Classes() []string {
	classes := make([]string, len(failures))
	for i, f := range failures {
		classes[i] = f.class
	}
	return classes
}

// Codes returns the codes that a class of failure is known to have. An issuer
// may use others.
func Codes(class string) []string {
	for _, f := range failures {
		if f.class == class {
			return slices.Clone(f.codes)
		}
	}
	return nil
}

// Effective returns the class and code that a reader must act on: an unknown
// class is "unknown", and a code that is mere opinion without evidence and has
// none is clamped to "unknown" (SIG-2).
func Effective(class, code string, evidence bool) (effectiveClass, effectiveCode string) {
	known := false
	for i := range failures {
		known = known || failures[i].class == class
	}
	if !known {
		return ClassUnknown, ClassUnknown
	}
	if !evidence && NeedsEvidence(class, code) {
		return class, ClassUnknown
	}
	return class, code
}

// NeedsEvidence reports whether a code is mere opinion without evidence.
func NeedsEvidence(class, code string) bool {
	switch class {
	case "output":
		return code == "ungrounded"
	case "progress":
		return code == "no_progress" || code == "off_task"
	case "verify":
		return code == "gate_failed"
	}
	return false
}
