package recovery

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// taxonomyPage is the page of the failure taxonomy.
const taxonomyPage = "../../docs/taxonomy.md"

// TestTaxonomyPage compares the tables of docs/taxonomy.md with the taxonomy in
// ledger/entry and the default policy. Each table stands behind a comment that
// names it. The flag -update writes the tables anew.
func TestTaxonomyPage(t *testing.T) {
	content, err := os.ReadFile(taxonomyPage)
	if err != nil {
		t.Fatal(err)
	}
	page := replaceTable(t, string(content), "classes", classTable())
	page = replaceTable(t, page, "codes", codeTable(t))
	page = replaceTable(t, page, "default policy", ladderTable(t))
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(taxonomyPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != string(content) {
		t.Error("docs/taxonomy.md is not what the tables in the code say: go test ./coord/recovery -run TestTaxonomyPage -update")
	}
}

// replaceTable returns the page with another table behind the comment that names
// it.
func replaceTable(t *testing.T, page, name, table string) string {
	t.Helper()
	before, after, ok := strings.Cut(page, "<!-- table: "+name+" -->\n")
	_, after, ends := strings.Cut(after, "\n\n")
	if !ok || !ends {
		t.Fatalf("docs/taxonomy.md has no table: %s", name)
	}
	return before + "<!-- table: " + name + " -->\n" + table + "\n" + after
}

func classTable() string {
	var text strings.Builder
	text.WriteString("| class | meaning |\n|---|---|\n")
	for _, class := range entry.Classes() {
		fmt.Fprintf(&text, "| `%s` | %s |\n", class, entry.Meaning(class, ""))
	}
	return text.String()
}

// codeTable has a row for every code. Effective is what a reader acts on, so the
// column is what Effective makes of a signal without evidence.
func codeTable(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| failure | meaning | evidence |\n|---|---|---|\n")
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			evidence := ""
			if c, effective := entry.Effective(class, code, false); effective != code {
				evidence = fmt.Sprintf("needed; without it `%s.%s`", c, effective)
			}
			if c, effective := entry.Effective(class, code, true); c != class || effective != code {
				t.Errorf("%s.%s counts as %s.%s with evidence", class, code, c, effective)
			}
			fmt.Fprintf(&text, "| `%s.%s` | %s | %s |\n", class, code, entry.Meaning(class, code), evidence)
		}
	}
	return text.String()
}

// ladderTable has a row for every code, and one for the other codes of each
// class: the rule of the default policy that decides, and its ladder.
func ladderTable(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| failure | rule | ladder | what people can do |\n|---|---|---|---|\n")
	p := Default()
	decided := map[string]bool{}
	for _, class := range entry.Classes() {
		for _, code := range append(entry.Codes(class), "") {
			failure := class + "." + cmp.Or(code, "*")
			if class == entry.ClassUnknown {
				failure = class
			}
			rule := ruleFor(t, p, class, cmp.Or(code, entry.ClassUnknown))
			decided[rule.ID] = true
			fmt.Fprintf(&text, "| `%s` | `%s` | %s | %s |\n", failure, rule.ID, ladderOf(rule), cmp.Or(rule.Remediation, "–"))
		}
	}
	for i := range p.doc.Rules {
		if id := p.doc.Rules[i].ID; !decided[id] {
			t.Errorf("no failure of the taxonomy comes to the rule %s", id)
		}
	}
	return text.String()
}

// ruleFor returns the rule that decides on a failure with evidence and without
// effects.
func ruleFor(t *testing.T, p *Policy, class, code string) *ruleDoc {
	t.Helper()
	h := History{Effect: entry.EffectNone, Failure: Failure{Class: class, Code: code, Effects: entry.EffectsNone, Evidence: true}}
	matching := p.ruleOf(&h, 0)
	for i := range p.doc.Rules {
		if matching != nil && p.doc.Rules[i].ID == matching.ID {
			return &p.doc.Rules[i]
		}
	}
	t.Fatalf("no rule for %s.%s", class, code)
	return nil
}
