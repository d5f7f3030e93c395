package importer

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

var writeEvidence = flag.Bool("update-evidence", false, "count anew what the phrases of the classifier get right, after a change of phrases or labels")

const evidenceHead = `# What the phrases of causes.yaml get right and wrong about labelled messages: in each data set, how
# many different messages a phrase decides about rightly and wrongly if every phrase counts. Phrases
# that were learned from a set alone are not asked about it. TestClassifierEvidence compares, and
# writes this file with -update-evidence. docs/classifier.md says how the classifier reads it.

phrase:
`

// phraseCounts counts the different messages of a set that a phrase decides about: wrong, right.
type phraseCounts map[[2]string]map[string][2]int

// count counts a message once.
func (c phraseCounts) count(seen map[string]bool, set string, raw scenario.RawError, want string) {
	words, label := scenario.PhraseLeaving(raw, set)
	if words == "" || seen[set+"\n"+raw.Text] {
		return
	}
	seen[set+"\n"+raw.Text] = true
	key := [2]string{words, label.String()}
	if c[key] == nil {
		c[key] = map[string][2]int{}
	}
	n := c[key][set]
	if label.String() == want {
		n[0]++
	} else {
		n[1]++
	}
	c[key][set] = n
}

// TestClassifierEvidence counts what the phrases get right and wrong, and compares the counts with
// those that the classifier reads. Sets that are kept to check with are no evidence.
func TestClassifierEvidence(t *testing.T) {
	counts, seen := phraseCounts{}, map[string]bool{}
	for _, set := range heldSets {
		if !set.learned {
			continue
		}
		for _, m := range readHeld(t, set.name) {
			counts.count(seen, set.name, scenario.RawError{Text: m.Text}, m.Label)
		}
	}
	for _, set := range labelSets {
		labels := readLabels(t, set.name)
		for _, c := range importFiles(t, set.format, dataFiles(t, set.name, set.ext)) {
			for _, s := range c.Steps {
				if want := labels[labelKey(s)]; s.Failure != nil && want != "" && want != labelOK && want != "unknown" {
					counts.count(seen, set.name, s.Failure.Raw, want)
				}
			}
		}
	}
	var text strings.Builder
	text.WriteString(evidenceHead)
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) }) {
		fmt.Fprintf(&text, "  - words: %q\n    label: %s\n    in: {", key[0], key[1])
		for i, set := range slices.Sorted(maps.Keys(counts[key])) {
			n := counts[key][set]
			fmt.Fprintf(&text, "%s%s: [%d, %d]", strings.Repeat(", ", min(i, 1)), set, n[0], n[1])
		}
		text.WriteString("}\n")
	}
	file := filepath.Join("..", "scenario", "evidence.yaml")
	published, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(published, []byte(text.String())) {
		return
	}
	if !*writeEvidence {
		t.Fatalf("%s counts otherwise than the labels: go test ./coord/recovery/importer -run TestClassifierEvidence -update-evidence, and look at the figures of docs/classifier.md", file)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
