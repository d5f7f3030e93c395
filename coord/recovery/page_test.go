package recovery

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// docs/policy.md names everything that a policy may say and that a decision may
// give.
func TestPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	wanted := append(words(Strategies()), words(Variants())...)
	wanted = append(wanted, words(Scopes())...)
	wanted = append(wanted, words(reasons(t))...)
	wanted = append(wanted, schemaMembers(t)...)
	for _, f := range facts() {
		wanted = append(wanted, f.name)
		wanted = append(wanted, f.words...)
	}
	for _, word := range wanted {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(page) {
			t.Errorf("docs/policy.md does not name %s", word)
		}
	}
	if p := Default(); !strings.Contains(page, string(p.Hash())) {
		t.Errorf("docs/policy.md has another digest of the default policy than %s", p.Hash())
	}
}

// ladderOf words a ladder as docs/taxonomy.md does.
func ladderOf(r *ruleDoc) string {
	var rungs []string
	for _, g := range r.Ladder {
		text := string(g.Strategy)
		var details []string
		if g.Variant != "" || g.Scope != "" {
			details = append(details, string(g.Variant)+string(g.Scope))
		}
		if g.Account != "" {
			details = append(details, "account: "+g.Account)
		}
		if g.Context != "" {
			details = append(details, "context: "+g.Context)
		}
		if g.Strategy == Wait {
			details = append(details, fmt.Sprintf("%d–%d s", g.MinMS/1000, g.MaxMS/1000))
		}
		if g.Strategy == Escalate {
			if g.Severity != "" {
				details = append(details, string(g.Severity))
			}
			if g.Question {
				details = append(details, "question")
			}
			if details == nil && len(r.Ladder) > 1 {
				continue
			}
		}
		if details != nil {
			text += "(" + strings.Join(details, ", ") + ")"
		}
		if g.Max > 1 {
			text += fmt.Sprintf("×%d", g.Max)
		}
		if g.When != "" {
			text += " if `" + g.When + "`"
		}
		if g.Enabled != nil && !*g.Enabled {
			text += " (not enabled)"
		}
		rungs = append(rungs, text)
	}
	text := strings.Join(rungs, " → ")
	if r.Verify {
		text += "; to be verified"
	}
	return text
}

// reasons are those that strategy.go declares.
func reasons(t *testing.T) (all []Reason) {
	t.Helper()
	source, err := os.ReadFile("strategy.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, Reason(match[1]))
	}
	if len(all) < 15 {
		t.Fatalf("reasons %v", all)
	}
	return all
}

// schemaMembers are the names of all members that the schema knows.
func schemaMembers(t *testing.T) (names []string) {
	t.Helper()
	var walk func(value jsontext.Value)
	walk = func(value jsontext.Value) {
		if value.Kind() != '{' {
			return
		}
		var object, members map[string]jsontext.Value
		if err := json.Unmarshal(value, &object); err != nil {
			t.Fatal(err)
		}
		if properties := object["properties"]; properties != nil && properties.Kind() == '{' {
			if err := json.Unmarshal(properties, &members); err != nil {
				t.Fatal(err)
			}
			for name := range members {
				names = append(names, name)
			}
		}
		for _, inside := range object {
			walk(inside)
		}
	}
	walk(jsontext.Value(schemaText))
	if len(names) < 40 {
		t.Fatalf("members %v", names)
	}
	return names
}
