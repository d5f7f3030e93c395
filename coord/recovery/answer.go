package recovery

import (
	"fmt"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// AnswerError names the member that makes an answer invalid, and the remedy.
type AnswerError struct {
	Field  string // a JSON pointer: /variant
	Detail string
	Remedy string
}

// Error returns the mistake and its remedy on one line.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("recovery: check action: field %s: %s; %s", e.Field, e.Detail, e.Remedy)
}

// Check refuses an invalid action of a program or of a strategy in Go: a word that this package
// does not have, a variant without retry_altered or the reverse, and a scope without state_reset or
// the reverse. The error is an [*AnswerError].
func (a *Action) Check() error {
	severities := []entry.Severity{entry.SeverityInfo, entry.SeverityWarning, entry.SeverityError, entry.SeverityCritical}
	wrong := func(field, remedy, format string, args ...any) error {
		return &AnswerError{field, fmt.Sprintf(format, args...), remedy}
	}
	switch {
	case !slices.Contains(Strategies(), a.Strategy):
		return wrong("/strategy", oneOf(string(a.Strategy), words(Strategies())), "is %.60q", a.Strategy)
	case a.Variant != "" && !slices.Contains(Variants(), a.Variant):
		return wrong("/variant", oneOf(string(a.Variant), words(Variants())), "is %.60q", a.Variant)
	case a.Scope != "" && !slices.Contains(Scopes(), a.Scope):
		return wrong("/scope", oneOf(string(a.Scope), words(Scopes())), "is %.60q", a.Scope)
	case a.Severity != "" && !slices.Contains(severities, a.Severity):
		return wrong("/severity", oneOf(string(a.Severity), words(severities)), "is %.60q", a.Severity)
	case !isWord(a.Model, entry.MaxName, "._:/@-"):
		return wrong("/model", fmt.Sprintf("write at most %d of the characters A–Z a–z 0–9 . _ : / @ -", entry.MaxName), "%.140q is not the name of a model", a.Model)
	case !isWord(string(a.Reason), reasonMax, "_.-") || strings.ToLower(string(a.Reason)) != string(a.Reason):
		return wrong("/reason", fmt.Sprintf("write at most %d of the characters a–z 0–9 _ . -", reasonMax), "%.80q is not a word", a.Reason)
	case a.WaitMS < 0 || a.WaitMS > entry.MaxInteger:
		return wrong("/wait_ms", "write an integer from 0 to 2^53−1, or leave it out", "is %d", a.WaitMS)
	case (a.Variant != "") != (a.Strategy == RetryAltered):
		return wrong("/variant", "write it with retry_altered, and only there", "is %q with the strategy %s", a.Variant, a.Strategy)
	case (a.Scope != "") != (a.Strategy == StateReset):
		return wrong("/scope", "write it with state_reset, and only there", "is %q with the strategy %s", a.Scope, a.Strategy)
	}
	return nil
}

// isWord reports whether a text has only letters, digits and the given marks, and at most the given
// number of bytes. The text may be empty.
func isWord(text string, most int, marks string) bool {
	return len(text) <= most && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"+marks) == ""
}
