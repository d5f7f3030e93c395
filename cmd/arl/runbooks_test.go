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
// thresholds. Every alert is tried, and ArlInvariant with each invariant but the forged one, which
// has an alert of its own.
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
	for _, m := range metrics.Catalogue() {
		if m.Name != "arl_invariant_violations_total" {
			continue
		}
		for _, invariant := range m.Labels[0].Values {
			if invariant != string(metrics.Forged) && !strings.Contains(string(content), "exp_labels: { severity: page, job: arl, instance: l, invariant: "+invariant+" }\n") {
				t.Errorf("alerts_test.yaml does not have ArlInvariant fire for %s", invariant)
			}
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
	command := regexp.MustCompile(`^(?:! )?(?:exec|exits \d+|until '[^']*'|until \S+) (.*)$`)
	programs := regexp.MustCompile(`(?s)\n-- (\S+\.sh) --(\n.*?)(?:\n-- |\n*\z)`)
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if match := command.FindStringSubmatch(line); match != nil {
			lines = append(lines, match[1])
		}
		if rest, serves := strings.CutPrefix(line+" ", "serve "); serves {
			lines = append(lines, strings.TrimSpace("arl serve "+rest))
		}
		if rest, member := strings.CutPrefix(line, "member "); member {
			lines = append(lines, "arl serve --cluster --data "+rest)
		}
	}
	for _, program := range programs.FindAllStringSubmatch(script, -1) {
		if slices.Contains(lines, "sh "+program[1]) {
			lines = append(lines, strings.Split(program[2], "\n")...)
		}
	}
	return lines
}

// inlineOf returns the commands within the sentences of a page. arl run is a process that a drill
// has beside it.
func inlineOf(page string) (commands []string) {
	page = regexp.MustCompile("(?s)```sh\n.*?```").ReplaceAllString(page, "")
	for _, match := range regexp.MustCompile("`(arl [^`]+)`").FindAllStringSubmatch(page, -1) {
		words := strings.Fields(match[1])
		if words[1] != "run" {
			commands = append(commands, strings.Join(words, " "))
		}
	}
	return commands
}

// runs reports whether a line runs a command with all its words, in their order.
func runs(line, command string) bool {
	rest := strings.Fields(line)
	for word := range strings.FieldsSeq(command) {
		at := slices.Index(rest, word)
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
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
	for _, command := range inlineOf(page) {
		if !slices.ContainsFunc(ran, func(line string) bool { return runs(line, command) }) {
			t.Errorf("%s: no drill runs `%s`", name, command)
		}
	}
}

// TestRunbookIndex wants each runbook in the index, beside the alerts that lead to it. A script, or
// a test of the nodes of a cluster, makes each printed reason and problem of the index.
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
		made += strings.Join(regexp.MustCompile(`(?m)^(?:stderr|stdout|grep) .*$`).FindAllString(string(script), -1), "\n")
	}
	for _, folder := range []string{filepath.Join("cmd", "arl", "cell"), filepath.Join("ledger", "cluster")} {
		tests, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tests {
			test := readFile(t, folder, filepath.Base(path))
			made += strings.Join(regexp.MustCompile(`!strings\.Contains\([^\n]*`).FindAllString(test, -1), "\n")
		}
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

// exitReason is a reason for which arl serve ends with exit code 10: what it prints, and the
// runbook that says so.
type exitReason struct{ printed, runbook string }

// exitReasons are the reasons, by the names in package exit and in audit.Evidence. A name without a
// reason is of other commands.
var exitReasons = map[string]exitReason{
	"ledger.ErrCorrupt":     {"the stored log is damaged", "ledger-down"},
	"ledger.ErrRolledBack":  {"the log is older than what was signed", "ledger-down"},
	"ledger.ErrLost":        {"the log is gone", "ledger-down"},
	"ledger.ErrAnchor":      {"no usable anchor", "ledger-down"},
	"agreement.ErrDiverged": {"this node is not like the others", "node-diverged"},
	"verify.ForkError":      {"the ledger forked", "ledger-down"},
	"Contradiction":         {"cosigned another history of this log", "fork"},
	"export.ErrDamaged":     {}, // arl log import
	"audit.ErrDamaged":      {}, // arl log audit
	"audit.RootError":       {}, // arl log audit
	"verify.IndexError":     {}, // readers of a log
	"FindingError":          {}, // arl log audit
	"IndexError":            {}, // arl log audit
}

// exitPlaces are the functions of the commands that give an error exit code 10, or that say more
// than the error of the ledger.
var exitPlaces = map[string][]exitReason{
	"node/witness.go conflicts":       {{"cosigned another history of this log", "fork"}, {"entries are lost", "restored-from-backup"}},
	"node/publish.go conflict":        {{"is published", "restored-from-backup"}, {"is no tree head of this log", "restored-from-backup"}},
	"node/founding.go ContinuesKnown": {{"the ledger forked", "ledger-down"}},
	"node/inplace.go Continues":       {{"this machine has accepted", "restored-from-backup"}},
	"trust/profile.go RefuseKnown":    {{"this start would begin a new log", "ledger-down"}},
	"node/index.go CheckIndex":        nil, // arl log fsck
	"node/restore.go restoreError":    nil, // arl restore
	"node/restore.go askWitnesses":    nil, // arl restore
	"node/servewitness.go tell":       nil, // arl witness
	"cell/reseed.go judge":            nil, // arl cluster reseed
	"backups/backups.go backupError":  nil, // arl backup, arl restore
	"backups/export.go writeExport":   nil, // arl log export
	"doctor/doctor.go checkIndex":     nil, // arl doctor
	"listen/options.go Obey":          nil, // arl agent listen
	"log.go fsck":                     nil, // arl log fsck
	"replay.go replay":                nil, // arl replay
	"witness.go witnessPushes":        nil, // arl witness
}

// TestExitReasons wants each reason for which arl serve ends with exit code 10 in a runbook, and
// made by its drill. It finds the reasons in the code: the errors that package exit and
// audit.Evidence know, and the functions below cmd/arl that give an error this code.
func TestExitReasons(t *testing.T) {
	names := inconsistentErrors(readFile(t, "cmd", "arl", "exit", "exit.go"))
	_, evidence, _ := strings.Cut(readFile(t, "coord", "audit", "accuse.go"), "\nfunc Evidence(")
	evidence, _, _ = strings.Cut(evidence, "\n}\n")
	for _, match := range errorType.FindAllStringSubmatch(evidence, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var wanted []exitReason
	for _, name := range names {
		reason, known := exitReasons[name]
		if !known {
			t.Errorf("%s has exit code 10, and no runbook", name)
		}
		wanted = append(wanted, reason)
	}
	if len(wanted) < len(exitReasons) {
		t.Errorf("the code has %d errors with exit code 10, want %d", len(wanted), len(exitReasons))
	}
	for _, place := range inconsistentPlaces(t) {
		reasons, known := exitPlaces[place]
		if !known {
			t.Errorf("%s gives exit code 10: has it a runbook?", place)
		}
		wanted = append(wanted, reasons...)
	}
	for _, reason := range wanted {
		if reason.printed == "" {
			continue
		}
		page := strings.Join(strings.Fields(readFile(t, "docs", "operations", "runbooks", reason.runbook+".md")), " ")
		if !regexp.MustCompile("`[^`]*" + reason.printed + "[^`]*`").MatchString(page) {
			t.Errorf("%s.md says nothing about %q", reason.runbook, reason.printed)
		}
		drill := readFile(t, "testdata", "scripts", "drill_"+reason.runbook+".txtar")
		ends := `(?m)^(?:exits 10 arl serve .*\nstderr|(?:ended|unmember \S+) 10\ngrep) '.*` + reason.printed
		if !regexp.MustCompile(ends).MatchString(drill) {
			t.Errorf("the drill of %s does not make %q", reason.runbook, reason.printed)
		}
	}
}

// errorType finds the name of an error for which code asks.
var errorType = regexp.MustCompile(`errors\.(?:Is\(err, |AsType\[\*)([\w.]+)`)

// inconsistentErrors returns the names of the errors to which package exit gives exit code 10.
func inconsistentErrors(code string) (names []string) {
	for _, block := range strings.Split(code, "return Inconsistent\n")[:strings.Count(code, "return Inconsistent\n")] {
		block = block[max(strings.LastIndex(block, "return "), strings.LastIndex(block, "switch {"), 0):]
		for _, match := range errorType.FindAllStringSubmatch(block, -1) {
			names = append(names, match[1])
		}
	}
	return names
}

// inconsistentPlaces returns the functions below cmd/arl that give an error exit code 10, or wrap
// an error that has it, in the form "node/witness.go conflicts".
func inconsistentPlaces(t *testing.T) (places []string) {
	t.Helper()
	for _, folder := range []string{"", "access", "node", "cell", "backups", "doctor", "listen", "service", "trust"} {
		files, err := filepath.Glob(filepath.Join(root, "cmd", "arl", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			function := ""
			for line := range strings.Lines(readFile(t, "cmd", "arl", folder, filepath.Base(file))) {
				if match := regexp.MustCompile(`^func (?:\([^)]*\) )?(\w+)`).FindStringSubmatch(line); match != nil {
					function = match[1]
				}
				place := strings.TrimPrefix(folder+"/"+filepath.Base(file)+" "+function, "/")
				gives := regexp.MustCompile(`exit\.(Inconsistent|Contradicts\()|"%w.*\b(ledger\.Err(Corrupt|RolledBack|Lost|Anchor)|agreement\.ErrDiverged)|^\s+(ledger\.Err(Corrupt|RolledBack|Lost|Anchor)|agreement\.ErrDiverged),`)
				if gives.MatchString(line) && !slices.Contains(places, place) {
					places = append(places, place)
				}
			}
		}
	}
	return places
}

// TestFailureMatrixNamesRunbooks wants of each row of the failure matrix runbooks, or the word that
// nobody has to act. Somebody has to where an alert fires, a process ends by itself, people are
// waited for, an operator restores or begins again, a person is named, or effects stay. Each
// runbook but those of plans has a row. TestRunbooks wants a drill for each runbook.
func TestFailureMatrixNamesRunbooks(t *testing.T) {
	acts := regexp.MustCompile(`exit (code )?(6|10|74|78)\b|an operator restores|joins anew|an operator begins|\bArl[A-Z]|people are asked|operator ` +
		`accepts|until a person|silence denies|the ledger stops|is PARTIAL|refused; the file or the missing head|obeys nothing|reports the hiding|an ` +
		`audit names the first such entry|counts as started|cannot be undone|others write .unknown.|or .unknown. |(else|otherwise|\|) .unknown.|: ` +
		`.failed. |NOT FENCED|nobody is told|refused before anything is made|go on without the agent|second source|.refused. only if|only then ` +
		`answers .refused.|are refused as .stale.|a token of another node|\b(people|person|operator|somebody|approver who)\b`)
	links := regexp.MustCompile(`^\[([a-z-]+)\]\(operations/runbooks/([a-z-]+)\.md\)$`)
	named := map[string]bool{"moving": true} // what people plan is no failure
	section := ""
	for line := range strings.Lines(readFile(t, "docs", "failure-matrix.md")) {
		if name, found := strings.CutPrefix(line, "## "); found {
			section = strings.TrimSpace(name)
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "| failure" {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("%s: %d cells, want 4: %s", section, len(cells), line)
			continue
		}
		if cells[2] == "–" {
			if acts.MatchString(line) {
				t.Errorf("%s: no runbook: %s", section, line)
			}
			continue
		}
		for link := range strings.SplitSeq(cells[2], ", ") {
			match := links.FindStringSubmatch(link)
			if len(match) != 3 || match[1] != match[2] {
				t.Errorf("%s: %q is no runbook: %s", section, link, line)
				continue
			}
			named[match[1]] = true
		}
	}
	pages, err := filepath.Glob(filepath.Join(runbooksDir, "*.md"))
	if err != nil || len(pages) < len(named) {
		t.Errorf("%d pages, and %d runbooks are named: %v", len(pages), len(named), err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); !named[name] {
			t.Errorf("no row names the runbook %s", name)
		}
	}
}
