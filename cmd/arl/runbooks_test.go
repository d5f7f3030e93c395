package main_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"recoveryledger/api/metrics"
	"recoveryledger/ledger"
	"recoveryledger/testdata/needs"
)

// alertsPath and runbooksDir are where operators find alerts and runbooks.
var (
	alertsPath  = filepath.Join(root, "docs", "operations", "alerts.yaml")
	runbooksDir = filepath.Join(root, "docs", "operations", "runbooks")
)

// alertRule is a rule of the file of alerts.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	content, err := os.ReadFile(alertsPath)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(content, &file, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// TestAlerts wants of each alert what its reader needs, and a runbook. Its expression names metrics
// of the catalogue, and the catalogue names the alert.
func TestAlerts(t *testing.T) {
	uses := map[string][]string{}
	for _, m := range metrics.Catalogue() {
		uses[m.Name] = nil
	}
	for _, r := range alertRules(t) {
		for _, name := range regexp.MustCompile(`\barl_[a-z0-9_]+`).FindAllString(r.Expr, -1) {
			if _, known := uses[name]; !known {
				name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			}
			if _, known := uses[name]; !known {
				t.Errorf("%s%s: no metric %s", r.Alert, r.Record, name)
			}
			if r.Alert != "" && !slices.Contains(uses[name], r.Alert) {
				uses[name] = append(uses[name], r.Alert)
			}
		}
		if r.Record != "" {
			continue
		}
		runbook := r.Annotations["runbook_url"]
		if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.For == "" || r.Annotations["summary"] == "" || !strings.HasSuffix(r.Annotations["reason"], ".") {
			t.Errorf("%s lacks a severity, a time, a summary or a reason: %+v", r.Alert, r)
		}
		if _, err := os.Stat(filepath.Join(runbooksDir, "..", filepath.FromSlash(runbook))); err != nil || runbook == "" {
			t.Errorf("%s has no runbook %q", r.Alert, runbook)
		}
	}
	for _, m := range metrics.Catalogue() {
		slices.Sort(uses[m.Name])
		if !slices.Equal(m.Alerts, uses[m.Name]) {
			t.Errorf("%s: the catalogue names the alerts %q, want %q", m.Name, m.Alerts, uses[m.Name])
		}
	}
}

// TestPromtool has Prometheus itself read the alerts, and try them with their own times and
// thresholds. Every alert is tried.
func TestPromtool(t *testing.T) {
	promtool := needs.Program(t, "promtool", "prometheus", "the alerts are not tried")
	tests := filepath.Join(filepath.Dir(alertsPath), "alerts_test.yaml")
	for _, args := range [][]string{{"check", "rules", alertsPath}, {"test", "rules", tests}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	content, err := os.ReadFile(tests)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alertRules(t) {
		if r.Alert != "" && !regexp.MustCompile(`alertname: `+r.Alert+`\n`).Match(content) {
			t.Errorf("alerts_test.yaml does not have %s fire", r.Alert)
		}
	}
}

// runbookSections are the headings of a runbook, in their order.
var runbookSections = []string{"Symptom", "What it means for safety", "First commands", "Decide", "How to know that it is over"}

// TestRunbooks wants of each runbook its sections, three first commands, and a drill that runs
// every command of the page. A drill without a runbook is refused.
func TestRunbooks(t *testing.T) {
	drills := map[string]string{}
	scripts, err := filepath.Glob(filepath.Join(root, "testdata", "scripts", "drill_*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		drills[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "drill_"), ".txtar")] = string(content)
	}
	pages, err := filepath.Glob(filepath.Join(runbooksDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, page := strings.TrimSuffix(filepath.Base(path), ".md"), string(content)
		checkRunbook(t, name, page, ranCommands(drills[name]))
		delete(drills, name)
	}
	if len(drills) > 0 {
		t.Errorf("drills without a runbook: %v", slices.Sorted(maps.Keys(drills)))
	}
}

// ranCommands returns the command lines that a script runs.
func ranCommands(script string) (lines []string) {
	command := regexp.MustCompile(`^(?:! )?(?:exec|exits \d+) (.*)$`)
	for line := range strings.Lines(script) {
		if match := command.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			lines = append(lines, match[1])
		}
	}
	return lines
}

// commandsOf returns the command lines in the blocks of a page.
func commandsOf(page string) (lines []string) {
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func checkRunbook(t *testing.T, name, page string, ran []string) {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	if !slices.Equal(found, runbookSections) {
		t.Errorf("%s has the sections %q, want %q", name, found, runbookSections)
	}
	_, first, _ := strings.Cut(page, "## First commands\n")
	first, _, _ = strings.Cut(first, "\n## ")
	if n := len(commandsOf(first)); n != 3 {
		t.Errorf("%s has %d first commands, want 3", name, n)
	}
	for _, command := range commandsOf(page) {
		if !slices.Contains(ran, command) {
			t.Errorf("%s: no drill runs %q", name, command)
		}
	}
}

// TestRunbookIndex wants each runbook in the index, beside the alerts that lead to it. A script
// makes each printed reason and problem of the index.
func TestRunbookIndex(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(runbooksDir, "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	index := string(content)
	alerts := map[string]string{}
	for _, r := range alertRules(t) {
		if path := r.Annotations["runbook_url"]; path != "" {
			alerts[path] = strings.TrimPrefix(alerts[path]+", `"+r.Alert+"`", ", ")
		}
	}
	pages, err := filepath.Glob(filepath.Join(runbooksDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		path := "runbooks/" + name + ".md"
		cell := strings.Replace(" "+alerts[path]+" ", "  ", " ", 1)
		if row := "| [" + name + "](" + path + ") |" + cell + "| "; !strings.Contains(index, row) {
			t.Errorf("the index has no row %q", row)
		}
	}
	made := ""
	scripts, err := filepath.Glob(filepath.Join(root, "testdata", "scripts", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		script, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made += strings.Join(regexp.MustCompile(`(?m)^std(?:err|out) .*$`).FindAllString(string(script), -1), "\n")
	}
	reasons := regexp.MustCompile("(?m)^\\| (?:\\d+|`not-ready`.*|`insufficient-storage`) \\| .*$").FindAllString(index, -1)
	if len(reasons) < 12 {
		t.Errorf("the index has %d reasons and problems", len(reasons))
	}
	for _, row := range reasons {
		for _, reason := range regexp.MustCompile("`([a-z -]+)`").FindAllStringSubmatch(row, -1) {
			if !strings.Contains(made, reason[1]) {
				t.Errorf("no script makes %q", reason[1])
			}
		}
	}
}

// TestExitReasons wants each reason for which arl serve ends with exit code 10 in the runbook of a
// ledger that refuses to start, and made by its drill. The reasons are those of package exit.
func TestExitReasons(t *testing.T) {
	read := func(path ...string) string {
		content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	codes := regexp.MustCompile(`case (errors\.Is\(err, ledger\.ErrCorrupt\).*):\n\t\treturn Inconsistent\n`).FindStringSubmatch(read("cmd", "arl", "exit", "exit.go"))
	if codes == nil {
		t.Fatal("package exit has no errors of a ledger with exit code 10")
	}
	errs := map[string]error{"ErrCorrupt": ledger.ErrCorrupt, "ErrRolledBack": ledger.ErrRolledBack, "ErrLost": ledger.ErrLost, "ErrAnchor": ledger.ErrAnchor}
	reasons := []string{"the ledger forked"}
	for _, name := range regexp.MustCompile(`ledger\.(Err\w+)`).FindAllStringSubmatch(codes[1], -1) {
		if errs[name[1]] == nil {
			t.Fatalf("ledger.%s is a reason, too", name[1])
		}
		reasons = append(reasons, strings.TrimPrefix(errs[name[1]].Error(), "ledger: "))
	}
	if len(reasons) < 5 {
		t.Errorf("reasons %q", reasons)
	}
	page, drill := read("docs", "operations", "runbooks", "ledger-down.md"), read("testdata", "scripts", "drill_ledger-down.txtar")
	for _, reason := range reasons {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("ledger-down.md says nothing about %q", reason)
		}
		if !regexp.MustCompile(`(?m)^exits 10 arl serve .*\nstderr '.*` + reason).MatchString(drill) {
			t.Errorf("the drill does not make %q", reason)
		}
	}
}

// TestFailureMatrixNamesRunbooks wants a runbook in each row of the failure matrix in which
// somebody has to act: where the ledger ends with exit code 10 or 74, an alert fires, or people are
// waited for. An agent's rows are for whoever runs the agent.
func TestFailureMatrixNamesRunbooks(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "failure-matrix.md"))
	if err != nil {
		t.Fatal(err)
	}
	acts := regexp.MustCompile(`exit (code )?(10|74)\b|\bArl[A-Z]|people are asked|operator accepts|until a person|silence denies|the ledger stops|is PARTIAL`)
	link := regexp.MustCompile(`\((operations/runbooks/[a-z-]+\.md|disk-gone\.md)\)`)
	section, rows := "", 0
	for line := range strings.Lines(string(content)) {
		if name, found := strings.CutPrefix(line, "## "); found {
			section = strings.TrimSpace(name)
		}
		if !strings.HasPrefix(line, "| ") || section == "The agent" || !acts.MatchString(line) {
			continue
		}
		rows++
		named := link.FindStringSubmatch(line)
		if named == nil {
			t.Errorf("%s: no runbook: %s", section, line)
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "docs", filepath.FromSlash(named[1]))); err != nil {
			t.Error(err)
		}
	}
	if rows < 14 {
		t.Errorf("people act in %d rows", rows)
	}
}

// TestEveryAlertIsDrilled wants a drill that makes each alert fire by its fault, and has it end.
func TestEveryAlertIsDrilled(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "testdata", "scripts", "drill_*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{} // by what a line of a drill waits for
	for _, path := range scripts {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\[prometheus\] alert (\w+ (?:fires|over))$`).FindAllStringSubmatch(string(content), -1) {
			seen[match[1]]++
		}
	}
	for _, r := range alertRules(t) {
		if r.Alert != "" && (seen[r.Alert+" fires"] == 0 || seen[r.Alert+" over"] == 0) {
			t.Errorf("no drill has %s fire and end", r.Alert)
		}
	}
}
