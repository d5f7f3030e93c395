package bundle_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"recoveryledger/verify/bundle"
)

// verdictTexts has what every case tells its reader: the error, or the commands
// and, of the good ones, the whole report. A change of it is to be read before
// it is committed.
const verdictTexts = "testdata/verdicts.txt"

// textOfVerdict is what a verdict says, in lines.
func textOfVerdict(c *bundleCase, v bundle.Verdict, err error) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s: %s\n", c.name, c.desc)
	if err != nil {
		fmt.Fprintf(&text, "%v\n\n", err)
		return text.String()
	}
	for i, line := range told(v) {
		command := &v.Commands[i]
		if text.WriteString(line); command.Refused != nil {
			fmt.Fprintf(&text, ": %v\n", command.Refused)
			continue
		}
		fmt.Fprintf(&text, "; %s in %q, line %q, outcome at %d, because of", command.Effect, command.Wid, command.Line, command.Outcome)
		for _, s := range command.Chain {
			fmt.Fprintf(&text, " %d (%s from %d)", s.Exec, s.Rule, s.From)
		}
		text.WriteByte('\n')
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(&text, "warning: %s\n", warning)
	}
	if c.want == "" && c.later == 0 {
		fmt.Fprintf(&text, "epoch %d, expires at %d, deadline at %d, %d entries\n", v.Epoch, v.ExpiresAt, v.DeadlineAt, len(v.Entries))
		for _, p := range v.Checked {
			fmt.Fprintf(&text, "checked %s\n", p)
		}
		for _, what := range v.NotChecked {
			fmt.Fprintf(&text, "not checked: %s\n", what)
		}
	}
	text.WriteByte('\n')
	return text.String()
}

// compareVerdicts compares the texts of all cases with those that are kept; with
// -update it keeps them.
func compareVerdicts(t *testing.T, texts []string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(verdictTexts, []byte(strings.Join(texts, "")), 0o644))
	}
	data, err := os.ReadFile(verdictTexts)
	must(t, err)
	kept := strings.SplitAfter(string(data), "\n\n")
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			t.Errorf("not in %s:\n%s", verdictTexts, text)
		}
	}
	if len(kept) != len(texts)+1 { // nothing follows the last
		t.Errorf("%d texts in %s, and %d cases", len(kept)-1, verdictTexts, len(texts))
	}
}
