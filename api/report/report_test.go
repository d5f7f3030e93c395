package report_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api/report"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

var update = flag.Bool("update", false, "write the golden pages; read the difference")

// told is what the entries of an incident say, where a test varies it.
type told struct {
	code, detail, reason, answer, residual string
	cost                                   int64
	quorum                                 int64
	approver                               string // domain
}

// usual is an incident as its parties tell it.
func usual() told {
	return told{"error", "the total was wrong", "two customers were charged", "refunded by hand", "a mail that was read", 2500, 1, "finance"}
}

// logOf makes the log of an incident: b and c built on what a got wrong, b is compensated, and what
// c sent stays.
func logOf(t *testing.T, say told) (l *foldlog.Log, incident uint64) {
	t.Helper()
	l = foldlog.New(t)
	policy, _ := l.State.Chain().Policy()
	next := *policy
	next.Quorum.Approve = say.quorum
	_, at := l.State.Chain().Policy()
	next.Previous = &at
	l.Put("root", &next)
	for _, name := range []entry.Principal{"ann", "bob"} {
		l.Put("root", &entry.Agent{Principal: name, Op: entry.Enrol, Key: l.Key(name).Public, Roles: []entry.Role{entry.RoleApprover}, Domain: say.approver, Span: entry.SpanWorkflow})
	}
	do := func(iss entry.Principal, id string, effect entry.Effect, cost int64, parents ...entry.Ref) {
		for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
			x := foldlog.Execution(id, effect, parents...)
			if x.Progress = progress; progress == entry.Confirmed && cost != 0 {
				x.CostMicroUSD = &cost
			}
			l.Put(iss, x)
		}
	}
	do("a", "sum", entry.EffectNone, say.cost)
	do("b", "charge", entry.EffectCompensable, 700, "a#sum")
	do("c", "mail", entry.EffectIrrevocable, 0, "b#charge")
	incident = l.Put("a", &entry.Signal{Subject: "a#sum", Class: "tool", Code: say.code, Standing: entry.StandingExecutor, Effects: entry.EffectsUnknown,
		ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At, Detail: say.detail})
	step := func() {
		todo, _ := l.State.Next(l.At + 1000)
		if len(todo) == 0 {
			t.Fatal("the coordinator has nothing to write")
		}
		l.Put("k", todo[0])
	}
	step()
	for _, name := range []entry.Principal{"ann", "bob"}[:say.quorum] {
		l.Put(name, &entry.Approval{Incident: incident, Proposal: l.Incident(incident).Proposal.Ref, Verdict: "approve", Exp: l.At/1000 + 3600, Reason: say.answer})
	}
	step()
	l.Put("c", &entry.Outcome{Incident: incident, Decision: l.Incident(incident).Decision.Ref, Exec: "c#mail", Result: entry.ResultIrrevocable, ObservedAt: l.At,
		Residual: say.residual})
	l.Compensate(incident, "b#charge")
	step()
	return l, incident
}

// pageOf makes the page about an incident from every entry that it asks for.
func pageOf(t *testing.T, l *foldlog.Log, incident uint64) *report.Report {
	t.Helper()
	facts, ok := report.Gather(l.State, incident, l.Head(len(l.Leaves)), testlog.Origin, l.At)
	if !ok {
		t.Fatalf("no incident %d", incident)
	}
	var entries []entry.Registered
	for _, index := range facts.Indexes() {
		entries = append(entries, l.Entries[index])
	}
	return facts.Report(entries)
}

// TestGolden compares the three forms of a page with files that people have read.
func TestGolden(t *testing.T) {
	l, incident := logOf(t, usual())
	r := pageOf(t, l, incident)
	var sheet bytes.Buffer
	if err := r.HTML(&sheet); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"incident.txt": r.Markdown(), "incident.html": sheet.String(), "incident.json": string(content) + "\n"} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is another page; -update writes it:\n%s", file, got)
		}
	}
}

// TestEverySentenceIsInTheLog reads the entries of every sentence, and looks for what they say in
// the sentence. Its commands show each of the entries, or derive the incident.
func TestEverySentenceIsInTheLog(t *testing.T) {
	l, incident := logOf(t, usual())
	sentences, executions, waits := 0, 0, 0
	for _, section := range pageOf(t, l, incident).Sections {
		for _, s := range section.Statements {
			sentences++
			if len(s.Entries) == 0 || !slices.IsSorted(s.Entries) || s.Entries[len(s.Entries)-1] >= l.State.Size() {
				t.Errorf("%q rests on %v of %d entries", s.Says, s.Entries, l.State.Size())
				continue
			}
			if !slices.Equal(s.Commands, showing(s.Entries)) && !strings.HasPrefix(strings.Join(s.Commands, "; "), fmt.Sprintf("arl incident show %d", incident)) {
				t.Errorf("%q is shown by %q", s.Says, s.Commands)
			}
			first, last := &l.Entries[s.Entries[0]], &l.Entries[s.Entries[len(s.Entries)-1]]
			took := fmt.Sprint(time.Duration(last.RegisteredAt-first.RegisteredAt) * time.Millisecond)
			switch x, is := last.Body.(*entry.Execution); {
			case is && section.ID == "happened":
				executions++
				if len(s.Entries) != 2 {
					t.Errorf("%q rests on %v", s.Says, s.Entries)
				}
				declares, _ := first.Body.(*entry.Execution)
				for _, want := range []string{string(x.Ref()), " as " + string(declares.Effect), "it is " + string(x.Progress)} {
					if declares.Ref() != x.Ref() || !strings.Contains(s.Says, want) {
						t.Errorf("%q does not say %q, as entries %v do", s.Says, want, s.Entries)
					}
				}
			case strings.HasPrefix(s.Says, "From the first report"):
				waits++
				if !strings.HasSuffix(s.Says, ": "+took+".") || strings.Contains(strings.Join(s.Commands, ""), "show") {
					t.Errorf("%q: entries %v are %s apart, and the commands are %q", s.Says, s.Entries, took, s.Commands)
				}
			}
			if len(s.Entries) > 1 {
				continue
			}
			if s.At != first.RegisteredAt {
				t.Errorf("%q happened at %d, and entry %d at %d", s.Says, s.At, first.Index, first.RegisteredAt)
			}
			for _, want := range saidBy(first, section.ID) {
				if !strings.Contains(s.Says, want) {
					t.Errorf("%s: %q does not say %q, as entry %d does", section.ID, s.Says, want, first.Index)
				}
			}
		}
	}
	if sentences < 30 || executions != 3 || waits != 3 {
		t.Errorf("the page has %d sentences, %d about executions, and %d about waits", sentences, executions, waits)
	}
}

// showing are the commands that show entries.
func showing(indexes []uint64) (commands []string) {
	for _, index := range indexes {
		commands = append(commands, fmt.Sprintf("arl entry get %d", index))
	}
	return commands
}

// TestNoCost tells work that cost nothing from work of which nobody declares a cost.
func TestNoCost(t *testing.T) {
	says := func(costs ...*int64) (list []string) {
		l := foldlog.New(t)
		for i, cost := range costs {
			var parents []entry.Ref
			if i > 0 {
				parents = []entry.Ref{entry.NewRef("a", fmt.Sprint("x", i-1))}
			}
			for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
				x := foldlog.Execution(fmt.Sprint("x", i), entry.EffectIrrevocable, parents...)
				if x.Progress = progress; progress == entry.Confirmed {
					x.CostMicroUSD = cost
				}
				l.Put("a", x)
			}
		}
		incident := l.Signal("a", "a#x0")
		l.Approve(incident)
		for _, s := range statements(pageOf(t, l, incident), "cost") {
			if slices.Equal(s.Commands, showing(s.Entries)) == strings.Contains(s.Says, "in all") {
				t.Errorf("%q is shown by %q", s.Says, s.Commands)
			}
			list = append(list, s.Says)
		}
		slices.Sort(list)
		return list
	}
	const none, nothing = "Neither the first nor the last entry of the work a#x0 of a declares a cost.", "The work a#x0 of a had cost 0.000000 USD."
	if got := says(nil); !slices.Equal(got, []string{none}) {
		t.Errorf("nobody declares a cost: %q", got)
	}
	if got := says(new(int64(0))); !slices.Equal(got, []string{nothing, "The work of the plan had cost 0.000000 USD in all."}) {
		t.Errorf("a cost of 0: %q", got)
	}
	if got := says(nil, new(int64(700))); !slices.Equal(got, []string{none, "The work a#x1 of a had cost 0.000700 USD.", "The work of the plan had cost 0.000700 USD in all."}) {
		t.Errorf("one of two: %q", got)
	}
}

// TestNoPlan has an incident that waits for approvers: the page does not say that nothing stays,
// and that the work cost nothing.
func TestNoPlan(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "pay", entry.EffectIrrevocable)
	page := pageOf(t, l, l.Signal("a", "a#pay"))
	for section, want := range map[string]string{"left": "No plan is in force: nobody is asked to undo anything.", "cost": "No plan is in force: no work is counted here."} {
		if said := statements(page, section); len(said) != 1 || said[0].Says != want {
			t.Errorf("%s: %+v, want %q", section, said, want)
		}
	}
}

// TestUnderWay has an execution that is started: no entry that the page reads says so.
func TestUnderWay(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "sum", entry.EffectNone)
	for _, progress := range []entry.Progress{entry.Planned, entry.Started} {
		x := foldlog.Execution("send", entry.EffectIrrevocable, "a#sum")
		x.Progress = progress
		l.Put("b", x)
	}
	incident := l.Signal("a", "a#sum")
	l.Approve(incident)
	for _, s := range statements(pageOf(t, l, incident), "happened") {
		if strings.Contains(s.Says, "b#send was built on") {
			if want := fmt.Sprintf("arl incident show %d --output json", incident); !strings.Contains(s.Says, "it is started") || !slices.Equal(s.Commands, []string{want}) {
				t.Errorf("%q is shown by %q", s.Says, s.Commands)
			}
			return
		}
	}
	t.Error("the page does not have the execution")
}

// TestFlags names a log in every command that reads one, and in no other.
func TestFlags(t *testing.T) {
	l, incident := logOf(t, usual())
	facts, _ := report.Gather(l.State, incident, l.Head(len(l.Leaves)), testlog.Origin, l.At)
	var entries []entry.Registered
	for _, index := range facts.Indexes() {
		entries = append(entries, l.Entries[index])
	}
	r := facts.Report(entries, "--data", "my data")
	var commands []string
	for _, section := range r.Sections {
		for _, s := range section.Statements {
			commands = append(commands, s.Commands...)
		}
	}
	for _, s := range r.Verify {
		commands = append(commands, s.Command)
	}
	for _, command := range commands {
		offline := strings.HasPrefix(command, "arl verify ") || strings.Contains(command, " --prove ")
		if strings.Contains(command, " --data 'my data'") == offline {
			t.Errorf("%s", command)
		}
	}
	if again := facts.Report(entries); strings.Contains(again.Markdown(), "--data") {
		t.Error("the facts keep the flags")
	}
}

// saidBy returns texts of an entry that a sentence about it has in a section.
func saidBy(e *entry.Registered, section string) []string {
	switch b := e.Body.(type) {
	case *entry.Execution:
		return []string{string(b.Ref())}
	case *entry.Signal:
		return []string{string(b.Iss), string(b.Subject), b.Class, b.Code}
	case *entry.Decision:
		if section == "decided" {
			return []string{string(b.Iss), b.Reason, "entry " + string('0'+rune(b.Policy.Index))}
		}
	case *entry.Approval:
		if section == "decided" {
			return []string{string(b.Iss), b.Verdict, b.Reason}
		}
		return []string{string(b.Iss), b.Verdict}
	case *entry.Outcome:
		if section == "when" {
			return []string{string(b.Iss), string(b.Result)}
		}
		return []string{string(b.Exec), string(b.Result), b.Residual, string(b.Iss)}
	case *entry.Record:
		return []string{string(b.State)}
	case *entry.Agent:
		return []string{string(b.Principal), b.Key.KeyID(), b.Domain, string(b.Roles[0])}
	}
	return nil
}

// statements returns the sentences of a section.
func statements(r *report.Report, id string) []report.Statement {
	i := slices.IndexFunc(r.Sections, func(s report.Section) bool { return s.ID == id })
	return r.Sections[i].Statements
}

// TestAnotherEntryMakesAnotherPage changes what one entry says, and finds the sentences about that
// entry changed.
func TestAnotherEntryMakesAnotherPage(t *testing.T) {
	l, incident := logOf(t, usual())
	before := pageOf(t, l, incident)
	for name, c := range map[string]struct {
		change func(*told)
		kind   entry.Kind
	}{
		"code":     {func(s *told) { s.code = "timeout" }, entry.KindSignal},
		"detail":   {func(s *told) { s.detail = "the total was right" }, entry.KindSignal},
		"answer":   {func(s *told) { s.answer = "nobody minds" }, entry.KindApproval},
		"residual": {func(s *told) { s.residual = "a mail that nobody read" }, entry.KindOutcome},
		"cost":     {func(s *told) { s.cost = 1 }, entry.KindExecution},
		"quorum":   {func(s *told) { s.quorum = 2 }, entry.KindPolicy},
		"domain":   {func(s *told) { s.approver = "sales" }, entry.KindAgent},
	} {
		t.Run(name, func(t *testing.T) {
			say := usual()
			c.change(&say)
			other, _ := logOf(t, say)
			changed := 0
			for _, section := range pageOf(t, other, incident).Sections {
				for _, s := range section.Statements {
					if len(s.Entries) == 1 && other.Entries[s.Entries[0]].Kind == c.kind && !slices.ContainsFunc(statements(before, section.ID), func(old report.Statement) bool {
						return old.Says == s.Says
					}) {
						changed++
					}
				}
			}
			if changed == 0 {
				t.Errorf("no sentence about the entry of kind %s changed", c.kind)
			}
		})
	}
}

// TestWithoutAnEntry leaves an entry out: no sentence rests on what the page has not read.
func TestWithoutAnEntry(t *testing.T) {
	l, incident := logOf(t, usual())
	facts, _ := report.Gather(l.State, incident, l.Head(len(l.Leaves)), testlog.Origin, l.At)
	for _, missing := range facts.Indexes() {
		var entries []entry.Registered
		for _, index := range facts.Indexes() {
			if index != missing {
				entries = append(entries, l.Entries[index])
			}
		}
		for _, section := range facts.Report(entries).Sections {
			for _, s := range section.Statements {
				if slices.Contains(s.Entries, missing) {
					t.Errorf("without entry %d: %q", missing, s.Says)
				}
			}
		}
	}
	if _, ok := report.Gather(l.State, incident+1, l.Head(len(l.Leaves)), testlog.Origin, l.At); ok {
		t.Error("there is a page about no incident")
	}
}

// TestOpenIncident says what an undecided incident waits for.
func TestOpenIncident(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "send", entry.EffectIrrevocable)
	incident := l.Signal("a", "a#send")
	l.Decide(incident, entry.ActEscalate)
	open := statements(pageOf(t, l, incident), "open")
	if len(open) == 0 || !strings.Contains(open[0].Says, "0 of 1 approvals") || !slices.Equal(open[0].Entries, []uint64{incident, incident + 1}) {
		t.Errorf("open: %+v", open)
	}
}

// hostile are texts that an agent could write so that a page says something else.
var hostile = []string{
	"<script>alert(1)</script>", "</li></ul><h1>RECOVERED</h1>", "\u202eDEREVOCER", "one\n\n# RECOVERED\n", "[ok](https://evil.example)", "![x](http://evil.example/x)",
	"`code` **bold** _it_ ~~gone~~ $x$", "https://evil.example www.evil.example", "&lt;b&gt;", "\x1b[2J", "a\u2028b", "{{.Origin}}", "javascript:alert(1)", "\" onload=\"x",
}

// TestHostileTexts puts texts with markup into every place that an agent or an approver can write
// to.
func TestHostileTexts(t *testing.T) {
	plain, incident := logOf(t, usual())
	var want bytes.Buffer
	if err := pageOf(t, plain, incident).HTML(&want); err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		say := usual()
		say.detail, say.answer, say.residual = text, text, text
		l, _ := logOf(t, say)
		r := pageOf(t, l, incident)
		var got bytes.Buffer
		if err := r.HTML(&got); err != nil {
			t.Fatal(err)
		}
		if w, g := elements(t, want.String()), elements(t, got.String()); !slices.Equal(w, g) {
			t.Errorf("%q makes other elements", text)
		}
		page := r.Markdown()
		if w, g := strings.Count(pageOf(t, plain, incident).Markdown(), "\n"), strings.Count(page, "\n"); w != g {
			t.Errorf("%q makes %d lines of %d", text, g, w)
		}
		for _, bad := range []string{"<script", "</", "\u202e", "\x1b", "\u2028", "https://", "http://", " www.evil", "](", "**", "~~", " _it_", "`code", "$x", "&lt"} {
			for at := range strings.Lines(page) {
				if i := strings.Index(at, bad); i > 0 && at[i-1] != '\\' {
					t.Errorf("%q: %q stands in %q", text, bad, at)
				}
			}
		}
	}
}
