package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/api/metrics"
)

// TestEveryAlertIsDrilled wants a drill that makes each alert fire by its fault, and has it end.
func TestEveryAlertIsDrilled(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "testdata", "scripts", "drill_*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	drilled := map[string]bool{} // by name: one drill has it fire, and then end
	for _, path := range scripts {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fired := map[string]bool{}
		for _, match := range regexp.MustCompile(`(?m)^\[prometheus\] alert (\w+) (fires|over)\b`).FindAllStringSubmatch(string(content), -1) {
			name, what := match[1], match[2]
			drilled[name] = drilled[name] || what == "over" && fired[name]
			fired[name] = what == "fires"
		}
	}
	for _, r := range alertRules(t) {
		if r.Alert != "" && !drilled[r.Alert] {
			t.Errorf("no drill has %s fire and end", r.Alert)
		}
	}
}

// TestEveryInvariantIsFired wants a script in which a fault at a real ledger fires the alert of
// each invariant, and the alert ends.
func TestEveryInvariantIsFired(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "testdata", "scripts", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, path := range scripts {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script := string(content)
		over := func(alert, rest string) bool {
			return regexp.MustCompile(`(?m)^(?:\[prometheus\] )?alert ` + alert + ` over$`).MatchString(rest)
		}
		for _, match := range regexp.MustCompile(`(?m)^(?:\[prometheus\] )?alert ArlInvariant fires invariant=(\w+)$`).FindAllStringSubmatchIndex(script, -1) {
			fired[script[match[2]:match[3]]] = over("ArlInvariant", script[match[1]:])
		}
		if _, rest, found := strings.Cut(script, "alert ArlForged fires\n"); found {
			fired[string(metrics.Forged)] = fired[string(metrics.Forged)] || over("ArlForged", rest)
		}
	}
	for _, m := range metrics.Catalogue() {
		if m.Name != "arl_invariant_violations_total" {
			continue
		}
		for _, invariant := range m.Labels[0].Values {
			if !fired[invariant] {
				t.Errorf("no script has an alert fire for %s, and end", invariant)
			}
		}
	}
}
