package scenario

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// Ids keep to the grammar, leave what fits as it is and keep apart what
// differs.
func TestLocalID(t *testing.T) {
	long := strings.Repeat("a", entry.MaxName)
	for _, fits := range []string{"a", "task-1/trial-2", "G1_answer/10_x@y:z.", long} {
		if got := LocalID(fits); got != fits {
			t.Errorf("%q became %q", fits, got)
		}
	}
	seen := map[string]string{}
	for _, text := range []string{"", " ", "a b", "a-b", "a\tb", "é", "è", long + "a", long + "b", "a\x00b"} {
		got := LocalID(text)
		if CheckName("/id", got) != nil {
			t.Errorf("%q became %q", text, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q both became %q", text, other, got)
		}
		seen[got] = text
	}
}
