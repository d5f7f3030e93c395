package glossary_test

import (
	"strings"
	"testing"

	"recoveryledger/cmd/arl/glossary"
)

// TestStatementsAreExplained: what a failure of the conformance kit names is explained.
func TestStatementsAreExplained(t *testing.T) {
	for id, want := range map[string]string{"RPL-1": "MUST refuse an authorize or amend", "AGT-7": "MUST make these checks", "INC-5a": "MUST NOT be counted", "ENV-8": "without cofactor"} {
		found, err := glossary.Find(id)
		if err != nil || len(found) != 1 || !strings.Contains(found[0].Text, want) {
			t.Errorf("%s: %v, %v", id, found, err)
		}
	}
}
