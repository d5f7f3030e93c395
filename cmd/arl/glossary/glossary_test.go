package glossary_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/glossary"
	"recoveryledger/ledger/entry"
)

// Every problem type has an exit code of its own kind, and an explanation, as
// has every exit code that there is.
func TestEveryProblemIsExplained(t *testing.T) {
	known, senses := map[string]bool{}, map[string]bool{}
	for _, e := range glossary.All() {
		if sense := e.Code + ": " + e.Title; senses[sense] || e.Title == "" {
			t.Errorf("%s is explained twice, or without a title", sense)
		} else {
			senses[sense] = true
		}
		known[e.Code] = true
	}
	for _, problem := range []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.NotFound,
		entry.IDConflict, entry.RateLimited, entry.NotReady, entry.Stale} {
		if !known[string(problem)] {
			t.Errorf("%s is not explained", problem)
		}
		code := exit.Code(entry.Refuse(problem, "", "x"))
		if code == exit.Internal || code == exit.OK || !known[strconv.Itoa(code)] {
			t.Errorf("%s: exit code %d", problem, code)
		}
	}
}

// Every rule that a document names, and every word that an entry, a trace or a
// view can hold for a state, a result or a reason, is explained.
func TestEveryWordIsExplained(t *testing.T) {
	known := map[string]bool{}
	for _, e := range glossary.All() {
		known[e.Code] = true
		if e.Text == "" && !strings.Contains(e.Title, " ") {
			t.Errorf("%s: no text", e.Code)
		}
	}
	wanted := func(pattern string, expression *regexp.Regexp) {
		t.Helper()
		files, err := filepath.Glob(filepath.FromSlash("../../../" + pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range expression.FindAllStringSubmatch(string(content), -1) {
				if found++; !known[match[1]] {
					t.Errorf("%s: %s is not explained", file, match[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: nothing found: the expression does not fit the source any more", pattern)
		}
	}
	wanted("docs/*.md", regexp.MustCompile(`\b((?:REG|TRU|EXE|CHK|SIG|SCO|INC|AGT|TSK|RUN|WIT)-[0-9]+)\b`))
	word := func(types string) *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\t\w+ +(?:` + types + `) += "(\w+)"`)
	}
	wanted("ledger/entry/*.go", word("TaskState|Result|Method|Act|Dep|Effects?|Progress|Standing|ReplaySafety|Severity"))
	wanted("ledger/entry/task.go", regexp.MustCompile(`(?m)^\tTask\w+ += "(\w+)"`))
	wanted("ledger/entry/incident.go", regexp.MustCompile(`(?m)^\t(?:Corroborated|SelfReported|Dismissed|Inconclusive) += "(\w+)"`))
	wanted("coord/recovery/*.go", word("Reason|Strategy|Variant|Scope|Result"))
	wanted("coord/recovery/action.go", regexp.MustCompile(`(?m)^\tRule\w+ = "(\w+)"`))
	wanted("coord/recovery/engine/*.go", word("Status|Recommendation|Verdict|Match|Misplaced"))
	wanted("coord/recovery/engine/gates.go", regexp.MustCompile(`(?:Gate: |\tgate\w+ += )"(\w+)"`))
	wanted("coord/recovery/engine/execute.go", regexp.MustCompile(`(?m)^\tMode\w+ += "(\w+)"`))
	wanted("api/client/agent/*.go", word("Status|EventKind"))
	wanted("api/words/finding.go", regexp.MustCompile(`(?m)^\tFinding\w+ += "(\w+)"`))
	wanted("api/incident.go", regexp.MustCompile(`json:"rule" enum:"(\w+),`))
	for _, state := range entry.IncidentStates() {
		if !known[string(state)] {
			t.Errorf("state %s is not explained", state)
		}
	}
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			if !known[class+"."+code] {
				t.Errorf("%s.%s is not explained", class, code)
			}
		}
	}
}
