package importer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
)

const (
	testOrigin = "run.test/log"
	testNow    = 1_800_000_000 // Unix seconds
)

// testLog is a log of the real rules, to which every entry is admitted and
// applied.
type testLog struct {
	t       testing.TB
	state   *coord.State
	signers map[entry.Principal]*keys.Signer
	size    uint64
	counts  map[string]int // by kind and progress
	leaves  [][]byte
}

func newTestLog(tb testing.TB) *testLog {
	tb.Helper()
	l := &testLog{t: tb, state: coord.NewState(testOrigin), signers: map[entry.Principal]*keys.Signer{}, counts: map[string]int{}}
	authority := l.signer("authority")
	policy := entry.Genesis(testOrigin, entry.AuthorityKey{Principal: "authority", Key: authority.Public()})
	policy.JTI, policy.Iat = testJTI("genesis"), testNow
	l.register(policy)
	return l
}

func testJTI(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (l *testLog) signer(p entry.Principal) *keys.Signer {
	l.t.Helper()
	if l.signers[p] == nil {
		seed := sha256.Sum256([]byte(p))
		signer, err := keys.NewSigner(ed25519.NewKeyFromSeed(seed[:]))
		if err != nil {
			l.t.Fatal(err)
		}
		l.signers[p] = signer
	}
	return l.signers[p]
}

// register signs and admits an entry, after enrolling an issuer that is new.
func (l *testLog) register(body entry.Body) {
	l.t.Helper()
	e, err := entry.New(body)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, known := l.signers[e.Header.Iss]; !known {
		l.register(&entry.Agent{
			Header:    entry.Header{V: 1, JTI: testJTI(string(e.Header.Iss)), Iss: "authority", Aud: testOrigin, Iat: testNow},
			Principal: e.Header.Iss, Op: entry.Enrol, Key: l.signer(e.Header.Iss).Public(),
			Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow,
		})
	}
	if err := l.signer(e.Header.Iss).Sign(e); err != nil {
		l.t.Fatal(err)
	}
	if err := l.state.Admit(e, l.size, testNow*1000); err != nil {
		l.t.Fatalf("entry %d: %v\n%s", l.size, err, e.Payload())
	}
	l.state.Apply(e, l.size, testNow*1000)
	l.size++
	l.leaves = append(l.leaves, e.AppendLeaf(nil, testNow*1000))
	name := string(e.Kind)
	if x, ok := body.(*entry.Execution); ok {
		name = string(x.Progress)
	}
	l.counts[name]++
}

// importSet registers all files of a set and returns its cases.
func (l *testLog) importSet(format Format, files []string) []scenario.Case {
	l.t.Helper()
	var cases []scenario.Case
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			l.t.Fatal(err)
		}
		stream := testStream(entry.DigestOf(content))
		for c, err := range Import(format, file, strings.NewReader(string(content)), new(Counts)) {
			if err != nil {
				l.t.Fatal(err)
			}
			cases = append(cases, c)
			for _, body := range stream.Entries(c) {
				l.register(body)
			}
		}
	}
	return cases
}

func testStream(file entry.Digest) *EntryBuilder {
	return &EntryBuilder{Origin: testOrigin, File: string(file),
		Secret: func(agent entry.Principal) []byte { return []byte("secret of " + agent) },
		Iat:    func(string) int64 { return testNow },
	}
}

// All four sets are admitted by the rules of registration: references, progress,
// checkpoints and signals stand where they may. The counts follow from those of
// the sets: one entry for a step that is only planned or has no effect, two for
// any other.
func TestEntriesOfRealRunsAreAdmitted(t *testing.T) {
	sets := []struct {
		format   Format
		set, ext string
		want     map[string]int
	}{
		{Attempts, "aider_swe_bench", ".ndjson",
			map[string]int{"started": 835, "confirmed": 223, "failed": 612, "checkpoint": 223, "signal": 85}},
		{ToolBench, "toolbench", ".json",
			map[string]int{"started": 107, "confirmed": 148, "failed": 180, "checkpoint": 118, "signal": 6}},
		{Galaxy, "galaxy_iwc", ".ga", map[string]int{"planned": 1668}},
		{OpenAIChat, "tau_bench_airline", ".json",
			map[string]int{"started": 298, "confirmed": 1091, "failed": 73 + 14, "checkpoint": 518, "signal": 116}},
	}
	for _, set := range sets[:budget.Budget{Short: 2, Usual: len(sets)}.Now()] {
		t.Run(set.set, func(t *testing.T) {
			l := newTestLog(t)
			cases := l.importSet(set.format, dataFiles(t, set.set, set.ext))
			delete(l.counts, "policy")
			delete(l.counts, "agent")
			if diff := cmp.Diff(set.want, l.counts); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			failed := 0
			for i := range cases {
				if cases[i].Outcome == scenario.Failed {
					failed++
				}
			}
			if l.counts["signal"] != failed {
				t.Errorf("%d runs failed, %d have a signal", failed, l.counts["signal"])
			}
			t.Logf("%d cases, %d entries with policy and agents", len(cases), l.size)
		})
	}
}

// The entries of a small run, one by one.
func TestEntriesOfACase(t *testing.T) {
	var lines []string
	for c, err := range Import(Attempts, "folder/attempts.ndjson", strings.NewReader(`
{"case": "p-1", "seq": 0, "model": "small", "class": "test_fail", "edit_outcome": true, "patch_bytes": 12, "cost_usd": 0.5}
{"case": "p-1", "seq": 1, "model": "large", "class": "no_edit", "patch_bytes": 0}
{"case": "p-2", "seq": 0, "model": "small", "class": "ok", "edit_outcome": true, "patch_bytes": 9, "latency_ms": 7}`), new(Counts)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range testStream("sha256:0").Entries(c) {
			lines = append(lines, line(body))
		}
	}
	want := []string{
		"attempts/small#attempts/attempts/p-1/0 started reversible",
		"attempts/small#attempts/attempts/p-1/0 failed reversible $500000",
		"attempts/large#attempts/attempts/p-1/1 started reversible soft attempts/small#attempts/attempts/p-1/0",
		"attempts/large#attempts/attempts/p-1/1 failed reversible soft attempts/small#attempts/attempts/p-1/0",
		"signal attempts/large#attempts/attempts/p-1/1 progress.premature_end executor none safe, 1 evidence",
		"attempts/small#attempts/attempts/p-2/0 started reversible",
		"attempts/small#attempts/attempts/p-2/0 confirmed reversible 7ms",
		"checkpoint attempts/attempts/p-2/0 after attempts/small#attempts/attempts/p-2/0",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// Every run that failed has a signal: about the step that failed last, or else about
// the last one that was observed, with the verdict of the source; a run of which
// nothing was observed is an execution that failed.
func TestFailedRunsHaveASignal(t *testing.T) {
	verdict := func(failure *scenario.Failure, outcome scenario.Outcome, steps ...scenario.Step) scenario.Case {
		return scenario.Case{ID: "c", Agent: "a", Workflow: "w", Outcome: outcome, Verdict: failure, Steps: steps}
	}
	ok := func(id string, effect entry.Effect) scenario.Step {
		return scenario.Step{ID: id, Agent: "a", Effect: effect, Attempt: scenario.Attempt{Outcome: scenario.OK}}
	}
	planned := func(id string) scenario.Step {
		return scenario.Step{ID: id, Agent: "b", Effect: entry.EffectNone, Attempt: scenario.Attempt{Outcome: scenario.NotObserved}}
	}
	wrong := scenario.Step{ID: "wrong", Agent: "a", Effect: entry.EffectNone, Attempt: scenario.Attempt{Outcome: scenario.Failed,
		Failure: &scenario.Failure{Label: scenario.Label{Class: "tool", Code: "error"}, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe}}}
	gate := &scenario.Failure{Label: scenario.Label{Class: "verify", Code: "gate_failed"}, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: entry.DigestOf("0")}
	for _, c := range []struct {
		desc    string
		of      scenario.Case
		signal  string // empty: there is none
		entries int
	}{
		{"by the verdict alone", verdict(gate, scenario.Failed, ok("1", entry.EffectNone), ok("2", entry.EffectIrrevocable), planned("3")),
			"signal a#w/2 verify.gate_failed executor complete unsafe, 1 evidence", 5},
		{"without effect", verdict(gate, scenario.Failed, ok("1", entry.EffectNone)), "signal a#w/1 verify.gate_failed executor none safe, 1 evidence", 2},
		{"nobody says why", verdict(nil, scenario.Failed, ok("1", entry.EffectNone)), "signal a#w/1 unknown.unknown executor none safe, 1 evidence", 2},
		{"a step failed", verdict(gate, scenario.Failed, wrong, ok("2", entry.EffectNone)), "signal a#w/wrong tool.error executor none safe, 1 evidence", 3},
		{"no call", verdict(gate, scenario.Failed), "signal a#w/run verify.gate_failed executor none safe, 1 evidence", 2},
		{"planned only", verdict(gate, scenario.Failed, planned("run")), "signal a#w/run/c verify.gate_failed executor none safe, 1 evidence", 3},
		{"it went well", verdict(nil, scenario.OK, ok("1", entry.EffectNone)), "", 1},
		{"nobody says", verdict(nil, scenario.NotObserved, ok("1", entry.EffectNone)), "", 1},
		{"nothing at all", verdict(nil, scenario.NotObserved), "", 0},
	} {
		l := newTestLog(t)
		signal, writers := "", map[entry.Principal]bool{}
		all := testStream("sha256:0").Entries(c.of)
		for _, body := range all {
			l.register(body)
			if s, ok := body.(*entry.Signal); ok {
				signal = line(s)
			}
			if e, err := entry.New(body); err == nil {
				writers[e.Header.Iss] = true
			}
		}
		if signal != c.signal || len(all) != c.entries {
			t.Errorf("%s: %s among %d entries; want %s among %d", c.desc, signal, len(all), c.signal, c.entries)
		}
		if named := Writers(c.of); len(named) != len(writers) {
			t.Errorf("%s: written by %v, named are %v", c.desc, writers, named)
		}
	}
}

func line(body entry.Body) string {
	switch b := body.(type) {
	case *entry.Execution:
		text := fmt.Sprintf("%s %s %s", b.Ref(), b.Progress, b.Effect)
		for _, p := range b.Parents {
			text += fmt.Sprintf(" %s %s", p.Dep, p.Exec)
		}
		if b.CostMicroUSD != nil {
			text += fmt.Sprintf(" $%d", *b.CostMicroUSD)
		}
		if b.LatencyMS != nil {
			text += fmt.Sprintf(" %dms", *b.LatencyMS)
		}
		return text
	case *entry.Checkpoint:
		return fmt.Sprintf("checkpoint %s after %s", b.Checkpoint, *b.After)
	case *entry.Signal:
		return fmt.Sprintf("signal %s %s.%s %s %s %s, %d evidence", b.Subject, b.Class, b.Code, b.Standing, b.Effects, b.ReplaySafety, len(b.Evidence))
	}
	return fmt.Sprintf("%T", body)
}

// Every sample's entries are admitted too, twice under two instances, and
// nothing in them is a digest that could be guessed.
func TestEntriesOfSamplesAreAdmitted(t *testing.T) {
	samples := map[Format]string{OpenAIChat: chatSample, Attempts: attemptsSample, ToolBench: toolbenchSample, Galaxy: galaxySample}
	l := newTestLog(t)
	for _, format := range []Format{OpenAIChat, Attempts, ToolBench, Galaxy} {
		cases, _ := importAll(t, format, samples[format])
		for _, instance := range []string{"", "again"} {
			stream := testStream(entry.DigestOf(samples[format]))
			stream.Instance = instance
			for _, c := range cases {
				for _, body := range stream.Entries(c) {
					l.register(body)
					e, err := entry.New(body)
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(string(e.Payload()), `"sha256:`) {
						t.Errorf("a digest without key in %s", e.Payload())
					}
				}
			}
		}
	}
}

// The same file gives the same entries; another origin, file or instance gives
// other ids, and another secret other digests.
func TestEntriesAreDeterministic(t *testing.T) {
	cases := importText(t, ToolBench, toolbenchSample)
	encode := func(change func(*EntryBuilder)) (ids, payloads string) {
		stream := testStream("sha256:0")
		change(stream)
		for _, body := range stream.Entries(cases[0]) {
			e, err := entry.New(body)
			if err != nil {
				t.Fatal(err)
			}
			ids += e.Header.JTI + "\n"
			payloads += string(e.Payload()) + "\n"
		}
		return ids, payloads
	}
	ids, payloads := encode(func(*EntryBuilder) {})
	if again, same := encode(func(*EntryBuilder) {}); again != ids || same != payloads {
		t.Error("a second conversion differs")
	}
	seen := map[string]bool{ids: true}
	for name, change := range map[string]func(*EntryBuilder){
		"origin":   func(s *EntryBuilder) { s.Origin = "other/log" },
		"file":     func(s *EntryBuilder) { s.File = "sha256:1" },
		"instance": func(s *EntryBuilder) { s.Instance = "2" },
	} {
		other, _ := encode(change)
		if seen[other] {
			t.Errorf("another %s gives ids that were there", name)
		}
		seen[other] = true
	}
	sameIDs, other := encode(func(s *EntryBuilder) { s.Secret = func(entry.Principal) []byte { return []byte("another") } })
	if sameIDs != ids || other == payloads {
		t.Error("another secret should change digests only")
	}
}

// A checkpoint's digest follows from the line so far: it changes with an output
// before it.
func TestCheckpointDigestFollowsFromOutputs(t *testing.T) {
	checkpoint := func(output string) entry.Digest {
		step := scenario.Step{ID: "1", Agent: "a", Effect: entry.EffectNone, Attempt: scenario.Attempt{Outcome: scenario.OK, OutputDigest: entry.DigestOf(output)}}
		last := scenario.Step{ID: "2", Agent: "a", Effect: entry.EffectNone, Checkpoint: true, Attempt: scenario.Attempt{Outcome: scenario.OK}}
		c := scenario.Case{ID: "c", Agent: "a", Workflow: "w", Outcome: scenario.OK, Steps: []scenario.Step{step, last}}
		for _, body := range testStream("sha256:0").Entries(c) {
			if b, ok := body.(*entry.Checkpoint); ok {
				return b.Digest
			}
		}
		t.Fatal("no checkpoint")
		return ""
	}
	first, again, other := checkpoint("x"), checkpoint("x"), checkpoint("y")
	if first != again || first == other {
		t.Error("the digest does not follow from the outputs")
	}
}

// Names at their limit still make ids and references.
func TestEntriesOfLongNames(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, entry.MaxName) }
	c := scenario.Case{ID: long("c"), Agent: entry.Principal(long("a")), Workflow: entry.WorkflowID(long("w")), Outcome: scenario.OK}
	for i := range 3 {
		step := scenario.Step{ID: long(fmt.Sprint(i)), Agent: entry.Principal(long("a")), Effect: entry.EffectUndeclared, Checkpoint: true, Attempt: scenario.Attempt{Outcome: scenario.OK}}
		if i > 0 {
			step.Parents = []scenario.Parent{{Step: c.Steps[i-1].ID, Dep: entry.Hard}}
		}
		c.Steps = append(c.Steps, step)
	}
	l := newTestLog(t)
	stream := testStream("sha256:0")
	stream.Instance = filepath.Join("runs", long("i"))
	for _, body := range stream.Entries(c) {
		l.register(body)
	}
}
