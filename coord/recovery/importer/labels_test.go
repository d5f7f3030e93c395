package importer

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

var writeConfusion = flag.Bool("update-confusion", false, "write the figures in docs/classifier.md anew; read the difference")

// labelSets are the files of labels with the data that they label.
var labelSets = []struct {
	name, ext string
	format    Format
}{
	{"tau_bench_airline", ".json", OpenAIChat},
	{"toolbench", ".json", ToolBench},
	{"aider_swe_bench", ".ndjson", Attempts},
}

const labelOK = "ok"

var labelForm = regexp.MustCompile(`^(ok|unknown|[a-z]+\.[a-z_]+)$`)

// readLabels reads a file of labels: digest to label.
func readLabels(tb testing.TB, name string) map[string]string {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "labels", name+".ndjson"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	labels, before := map[string]string{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct {
			Digest string `json:"digest"`
			Label  string `json:"label"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line, json.RejectUnknownMembers(true)); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		if !digestForm.MatchString(line.Digest) || !labelForm.MatchString(line.Label) || line.Digest <= before {
			tb.Fatalf("%s: line %s is no label, or out of order", name, lines.Bytes())
		}
		labels[line.Digest], before = line.Label, line.Digest
	}
	return labels
}

// labelKey is the digest that a step is labelled under: of call and answer,
// or of the row of an attempts file.
func labelKey(s scenario.Step) string {
	if s.OutputDigest == "" && s.Failure != nil {
		return string(s.Failure.Evidence)
	}
	return string(entry.DigestOf(s.Tool + "\n" + string(s.InputDigest) + "\n" + string(s.OutputDigest)))
}

// confusion counts pairs of a label made by hand and what the classifier said.
type confusion map[[2]string]int

func (c confusion) agreed() (agreed, all int) {
	for pair, n := range c {
		all += n
		if pair[0] == pair[1] {
			agreed += n
		}
	}
	return agreed, all
}

// confuse compares the labels of a set with the classifier, answer by answer.
func confuse(t *testing.T, cases []scenario.Case, labels map[string]string) (occurrences, distinct confusion) {
	t.Helper()
	occurrences, distinct = confusion{}, confusion{}
	seen := map[string]bool{}
	for _, c := range cases {
		for _, s := range c.Steps {
			key, said := labelKey(s), labelOK
			if s.Failure != nil {
				said = s.Failure.String()
			}
			want, ok := labels[key]
			if !ok {
				continue
			}
			occurrences[[2]string{want, said}]++
			if !seen[key] {
				distinct[[2]string{want, said}]++
			}
			seen[key] = true
		}
	}
	if len(seen) != len(labels) {
		t.Errorf("%d of %d labels are about an answer in the data", len(seen), len(labels))
	}
	return occurrences, distinct
}

// The labels are about at least 100 real errors, and the page publishes what
// the classifier makes of them: run with -update-confusion after a change.
func TestClassifierAgainstLabels(t *testing.T) {
	var page strings.Builder
	total := confusion{}
	for _, set := range labelSets {
		labels := readLabels(t, set.name)
		occurrences, distinct := confuse(t, importFiles(t, set.format, dataFiles(t, set.name, set.ext)), labels)
		writeSet(&page, set.name, occurrences, distinct)
		for pair, n := range occurrences {
			total[pair] += n
		}
	}
	writeMatrix(&page, total)
	failures := 0
	for pair, n := range total {
		if pair[0] != labelOK {
			failures += n
		}
	}
	if failures < 100 {
		t.Errorf("%d real errors are labelled, want at least 100", failures)
	}
	compareFigures(t, "TestClassifierAgainstLabels", page.String())
}

// Labels are places in the taxonomy, whether or not the data is there.
func TestLabelsAreWellFormed(t *testing.T) {
	for _, set := range labelSets {
		if n := len(readLabels(t, set.name)); n < 40 {
			t.Errorf("%s: %d labels", set.name, n)
		}
	}
}

// writeSet writes the summary line of a set.
func writeSet(page *strings.Builder, name string, occurrences, distinct confusion) {
	if page.Len() == 0 {
		page.WriteString("| set | labelled answers | of them right | different answers | of them right |\n|---|--:|--:|--:|--:|\n")
	}
	agreed, all := occurrences.agreed()
	agreedOnce, once := distinct.agreed()
	fmt.Fprintf(page, "| `%s` | %d | %s | %d | %s |\n", name, all, share(agreed, all), once, share(agreedOnce, once))
}

// writeMatrix writes the pairs, the labels' order first, then that of what
// the classifier said; then precision and recall of each label.
func writeMatrix(page *strings.Builder, c confusion) {
	agreed, all := c.agreed()
	fmt.Fprintf(page, "| together | %d | %s | | |\n\n", all, share(agreed, all))
	page.WriteString("| label by hand | classifier | answers | |\n|---|---|--:|---|\n")
	pairs := slices.SortedFunc(maps.Keys(c), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	wanted, said := map[string]int{}, map[string]int{}
	for _, pair := range pairs {
		verdict := "wrong"
		if pair[0] == pair[1] {
			verdict = "right"
		}
		fmt.Fprintf(page, "| %s | %s | %d | %s |\n", pair[0], pair[1], c[pair], verdict)
		wanted[pair[0]] += c[pair]
		said[pair[1]] += c[pair]
	}
	page.WriteString("\n| label | precision | recall |\n|---|--:|--:|\n")
	for _, label := range slices.Sorted(maps.Keys(wanted)) {
		right := c[[2]string{label, label}]
		fmt.Fprintf(page, "| %s | %s | %s |\n", label, share(right, said[label]), share(right, wanted[label]))
	}
}

func share(part, of int) string {
	if of == 0 {
		return "–"
	}
	permille := (part*2000 + of) / (2 * of)
	return fmt.Sprintf("%d/%d = %d.%d %%", part, of, permille/10, permille%10)
}

// compareFigures compares the figures of a test with those in docs/classifier.md, between
// two marks.
func compareFigures(t *testing.T, test, figures string) {
	t.Helper()
	compareFiguresOf(t, "classifier.md", test, figures)
}

// compareFiguresOf is compareFigures for another page.
func compareFiguresOf(t *testing.T, page, test, figures string) {
	t.Helper()
	begin, end := "<!-- figures: "+test+" -->\n", "<!-- end of figures -->\n"
	file := filepath.Join("..", "..", "..", "docs", page)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(content), begin)
	published, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the marks of the figures", file)
	}
	if published == figures {
		return
	}
	if !*writeConfusion {
		t.Fatalf("%s publishes\n%s\nbut the test gives\n%s", file, published, figures)
	}
	if err := os.WriteFile(file, []byte(head+begin+figures+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
