package metrics

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"recoveryledger/ledger/entry"
)

// TestNames holds the catalogue to the rules of names and labels.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Catalogue() {
		if seen[m.Name] || !regexp.MustCompile(`^arl_[a-z0-9_]+$`).MatchString(m.Name) {
			t.Errorf("%s: twice, or no name", m.Name)
		}
		seen[m.Name] = true
		if strings.HasSuffix(m.Name, "_total") != (m.Type == Counter) {
			t.Errorf("%s is a %s", m.Name, m.Type)
		}
		if unit := strings.ReplaceAll(strings.ToLower(m.Unit), "-", "_"); !strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), unit) {
			t.Errorf("%s does not name its unit, %s", m.Name, m.Unit)
		}
		if (m.Type == Histogram) != (len(m.buckets) > 0) || !slices.IsSorted(m.buckets) {
			t.Errorf("%s: buckets %v", m.Name, m.buckets)
		}
		if !strings.HasSuffix(m.Meaning, ".") || m.group == "" {
			t.Errorf("%s: meaning %q, group %q", m.Name, m.Meaning, m.group)
		}
		for _, l := range m.Labels {
			if slices.Contains([]string{"agent", "principal", "issuer", "exec", "task", "incident"}, l.Name) || l.Bound == "" {
				t.Errorf("%s has the label %s, bound %q", m.Name, l.Name, l.Bound)
			}
		}
	}
}

// TestFresh reads the metrics of a ledger that did nothing. Counters with fixed labels are there
// at 0, and the linter of Prometheus, which promtool check metrics runs, finds nothing.
func TestFresh(t *testing.T) {
	m := New()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	for _, sample := range []string{`arl_invariant_violations_total{invariant="forked"} 0`, `arl_incidents_ended_total{state="PARTIAL"} 0`, `arl_entries_total{kind="signal"} 0`} {
		if !strings.Contains(text, sample+"\n") {
			t.Errorf("no sample %s", sample)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestBounds bounds what issuers may make up.
func TestBounds(t *testing.T) {
	for _, test := range [][4]string{
		{"tool", "error", "tool", "error"}, {"tool", "my-code", "tool", other}, {"my-class", "error", entry.ClassUnknown, other},
	} {
		if class, code := failure(test[0], test[1]); class != test[2] || code != test[3] {
			t.Errorf("%v: %s %s", test, class, code)
		}
	}
	if reasonOf("because I say so") != other || reasonOf("agent-1#pay cannot be undone") != "irrevocable" {
		t.Error("the reasons of escalations")
	}
}

// TestReasonsAreWritten looks for the texts by which a reason is known in the code that writes
// them.
func TestReasonsAreWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.FromSlash("../../coord/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") {
			code.Write(content)
		}
	}
	for _, e := range escalations {
		for _, part := range e.says {
			if !strings.Contains(code.String(), part) {
				t.Errorf("%s: package coord writes no %q", e.reason, part)
			}
		}
	}
}
