package entry_test

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// Class and code are taken as they are, but for unknown classes and for codes
// that need evidence and have none.
// Draft: SIG-2.
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

// TestCheckTaxonomy names the word that is missing, and the one that is near.
func TestCheckTaxonomy(t *testing.T) {
	for _, c := range []struct{ class, code, want string }{
		{"tool", "error", ""},
		{"tool", entry.ClassUnknown, ""},
		{entry.ClassUnknown, "whatever", ""},
		{"tol", "error", `class "tol" is not in the taxonomy (did you mean tool?)`},
		{"tool", "eror", `code "eror" is not in the taxonomy for class tool (did you mean error?)`},
	} {
		err := entry.CheckTaxonomy(c.class, c.code)
		if got := errorText(err); got != c.want {
			t.Errorf("%s.%s: %q, want %q", c.class, c.code, got, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestStandingOf: an agent is the executor of its own executions, and else a monitor.
func TestStandingOf(t *testing.T) {
	for subject, want := range map[entry.Ref]entry.Standing{"a#x": entry.StandingExecutor, "b#x": entry.StandingMonitor} {
		if got := entry.StandingOf("a", subject); got != want {
			t.Errorf("%s: %s, want %s", subject, got, want)
		}
	}
}
