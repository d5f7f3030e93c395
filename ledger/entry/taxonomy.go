package entry

import (
	"fmt"
	"slices"
)

// ClassUnknown is the class of a failure that no other class of the taxonomy fits. It is also the
// code of a failure without a more exact code.
const ClassUnknown = "unknown"

// failure is a class or a code of the failure taxonomy.
type failure struct {
	word    string
	meaning string // for people
	codes   []failure
}

// failures is the failure taxonomy. The set of classes is closed. The codes of each class are the
// known ones; issuers may use further codes.
var failures = []failure{
	{"transient", "The cause may disappear by itself in a moment.", []failure{
		{"unavailable", "The service answered that it cannot serve now, or did not answer.", nil},
		{"timeout", "No answer came in time. Whether the request had an effect is not known.", nil},
	}},
	{"capacity", "The service refuses more work for now.", []failure{
		{"rate_limited", "The caller sent too many requests. The service may say when to retry.", nil},
		{"overloaded", "The service is overloaded for all its callers.", nil},
		{"quota_exhausted", "The account has no quota or no credit left.", nil},
	}},
	{"request", "The request cannot succeed as it is.", []failure{
		{"context_overflow", "The input is longer than the model takes.", nil},
		{"invalid", "The request is wrong: the program or its configuration has a fault.", nil},
	}},
	{"output", "The model answered, and the answer cannot be used.", []failure{
		{"malformed", "The answer does not have the requested form, such as JSON that fits a schema.", nil},
		{"hallucinated_tool", "The answer calls a tool that does not exist.", nil},
		{"bad_arguments", "The answer calls a tool with arguments that fit neither the tool, nor each other, nor existing objects.", nil},
		{"ungrounded", "The answer states something that its sources do not support.", nil},
		{"refused", "The model declined to answer.", nil},
	}},
	{"progress", "The work does not reach its end.", []failure{
		{"no_progress", "The agent repeats itself without any change.", nil},
		{"step_limit", "The agent used up its turns.", nil},
		{"premature_end", "The agent stopped before the declared results exist.", nil},
		{"off_task", "The agent does something other than its task.", nil},
	}},
	{"verify", "A check of the result failed.", []failure{
		{"gate_failed", "Tests or a grader refused the result; the evidence names the criteria.", nil},
	}},
	{"tool", "A tool failed.", []failure{
		{"error", "The tool answered with an error.", nil},
		{"effect_uncertain", "It is unknown whether the effect of the tool took place.", nil},
	}},
	{"access", "The agent may not do this.", []failure{
		{"unauthenticated", "The credential is missing, wrong or expired.", nil},
		{"denied", "The credential is known and does not permit this.", nil},
	}},
	{"safety", "A safety rule forbids the work.", []failure{
		{"content_filtered", "A content filter stopped input or output.", nil},
		{"violation", "A guardrail found a forbidden action or an injection.", nil},
	}},
	{"budget", "A limit of cost, tokens, time or tries is used up.", []failure{
		{"exceeded", "The budget of the task, or of the case, is spent.", nil},
	}},
	{"state", "The state that the agent works on is wrong.", []failure{
		{"corrupt", "The state does not fit its digest or its schema.", nil},
		{"conflict", "Another party changed the state in the meantime.", nil},
	}},
	{"coord", "Agents failed to work together.", []failure{
		{"dependency_failed", "An execution that this execution depends on failed.", nil},
		{"delegation_failed", "Another agent did not accept the work, or returned it with a question.", nil},
	}},
	{"crash", "The process of the agent ended before its work did.", []failure{
		{"lost", "The lease ran out: the process sent no renewal.", nil},
		{"oom", "The system killed the process because memory ran out.", nil},
		{"panic", "A fault of the program ended the process.", nil},
		{"interrupted", "The process was asked to end, and handed its work back. An interruption costs no retry.", nil},
	}},
	{ClassUnknown, "Nothing shows the cause. A word outside the taxonomy counts as unknown.", nil},
}

// Classes returns the classes of failure in the taxonomy's order, unknown last.
func Classes() []string {
	classes := make([]string, len(failures))
	for i, f := range failures {
		classes[i] = f.word
	}
	return classes
}

// Codes returns the known codes of a class of failure. An issuer may use other codes.
func Codes(class string) []string {
	var codes []string
	for _, code := range codesOf(class) {
		codes = append(codes, code.word)
	}
	return codes
}

// Meaning returns the meaning of a class or, with a code, the meaning of the code within the class.
// It is empty if the taxonomy does not have the word.
func Meaning(class, code string) string {
	words := failures
	if code != "" {
		words, class = codesOf(class), code
	}
	for _, f := range words {
		if f.word == class {
			return f.meaning
		}
	}
	return ""
}

func codesOf(class string) []failure {
	for _, f := range failures {
		if f.word == class {
			return f.codes
		}
	}
	return nil
}

// Effective returns the class and code on which a reader must act (SIG-2). An unknown class becomes
// "unknown". A code that needs evidence and has none becomes "unknown".
func Effective(class, code string, evidence bool) (effectiveClass, effectiveCode string) {
	known := false
	for i := range failures {
		known = known || failures[i].word == class
	}
	if !known {
		return ClassUnknown, ClassUnknown
	}
	if !evidence && NeedsEvidence(class, code) {
		return class, ClassUnknown
	}
	return class, code
}

// NeedsEvidence reports whether a code is only an opinion without evidence.
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

// CheckTaxonomy refuses a class or code that the taxonomy does not have. The log would keep such a
// word for ever, and readers act on it as unknown (SIG-2). A class without codes takes any code.
func CheckTaxonomy(class, code string) error {
	if classes := Classes(); !slices.Contains(classes, class) {
		return fmt.Errorf("class %q is not in the taxonomy%s", class, Among(class, classes))
	}
	if codes := Codes(class); len(codes) > 0 && code != ClassUnknown && !slices.Contains(codes, code) {
		return fmt.Errorf("code %q is not in the taxonomy for class %s%s", code, class, Among(code, codes))
	}
	return nil
}
