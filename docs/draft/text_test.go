package draft_test

import (
	"strings"
	"testing"

	"recoveryledger/docs/draft"
)

// TestStatementTexts: every normative statement has words, one of which is a key word of BCP 14.
func TestStatementTexts(t *testing.T) {
	for _, id := range statements(t) {
		words, ok := draft.Statement(id)
		if !ok || !marks.MatchString(words) || strings.Contains(words, "("+id+")") || strings.Contains(words, "{{") || len(words) > 900 {
			t.Errorf("%s: %q, %v", id, words, ok)
		}
	}
	if words, ok := draft.Statement("ABC-1"); ok {
		t.Errorf("no statement: %q", words)
	}
}
