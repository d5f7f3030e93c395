package entry_test

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// Class and code are taken as they are, but for unknown classes and for codes
// that need evidence and have none.
func TestEffective(t *testing.T) {
	for _, c := range []struct {
		class, code         string
		evidence            bool
		wantClass, wantCode string
	}{
		{"transient", "timeout", false, "transient", "timeout"},
		{"transient", "of_our_own", false, "transient", "of_our_own"},
		{"transcient", "timeout", true, "unknown", "unknown"},
		{"", "", false, "unknown", "unknown"},
		{"output", "ungrounded", false, "output", "unknown"},
		{"output", "ungrounded", true, "output", "ungrounded"},
		{"progress", "no_progress", false, "progress", "unknown"},
		{"progress", "off_task", false, "progress", "unknown"},
		{"progress", "off_task", true, "progress", "off_task"},
		{"verify", "gate_failed", false, "verify", "unknown"},
		{"output", "gate_failed", false, "output", "gate_failed"},
	} {
		class, code := entry.Effective(c.class, c.code, c.evidence)
		if class != c.wantClass || code != c.wantCode {
			t.Errorf("%s.%s, evidence %t: %s.%s, want %s.%s", c.class, c.code, c.evidence, class, code, c.wantClass, c.wantCode)
		}
	}
}

// A class of the taxonomy has codes, each of one class only, but for unknown.
func TestTaxonomyIsAPartition(t *testing.T) {
	var seen []string
	for _, class := range entry.Classes() {
		codes := entry.Codes(class)
		if (len(codes) == 0) != (class == entry.ClassUnknown) {
			t.Errorf("%s has the codes %v", class, codes)
		}
		for _, code := range codes {
			if slices.Contains(seen, code) {
				t.Errorf("%s.%s: another class has that code", class, code)
			}
			seen = append(seen, code)
		}
	}
	if entry.Codes("transcient") != nil {
		t.Error("an unknown class has codes")
	}
}
