package entry_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestRefusalText asks each refusal for what a client needs: the problem,
// the member, what is wrong, and how to put it right.
func TestRefusalText(t *testing.T) {
	base := string(payloadOf(t, minimal(t, entry.KindExecution)))
	for _, c := range []struct{ payload, want string }{
		{strings.Replace(base, `"v":1,`, "", 1), "malformed: v: missing"},
		{strings.Replace(base, `"iat":1790000000`, `"iat":1.5`, 1), "malformed: iat: 1.5 is not an integer that may stand here"},
		{strings.Replace(base, `"exec":"exec-1"`, `"exec":7`, 1), "malformed: exec: a JSON number is the wrong type here"},
		{strings.Replace(base, `"exec":"exec-1"`, `"exec":"a b"`, 1), `malformed: exec: "a b" has a character outside A–Z a–z 0–9 . _ : / @ -`},
		{strings.Replace(base, `"effect":"none"`, `"effect":"some"`, 1),
			`malformed: effect: "some" is none of [none reversible compensable irrevocable undeclared]`},
		{strings.TrimSuffix(base, "}") + `,"x":[1e9]}`, "malformed: x[0]: 1e9 is not an integer within ±(2^53−1)" +
			" (write integers without fraction, exponent or negative zero)"},
		{strings.TrimSuffix(base, "}") + `,"v":1}`, `malformed: v: duplicate object member name at byte 200`},
		{strings.TrimSuffix(base, "}") + `,"task":""}`, "malformed: task: empty (leave an unknown member out)"},
		{strings.TrimSuffix(base, "}") + `,"` + strings.Repeat("x", 5000) + `":1.5}`, "malformed: 1.5 is not an integer within ±(2^53−1)" +
			" (write integers without fraction, exponent or negative zero)"},
	} {
		_, err := entry.NewRaw(entry.KindExecution, []byte(c.payload))
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	err := error(entry.Refuse(entry.Stale, "iat", "%d s old", 900).WithRemedy("set the clock"))
	if err.Error() != "stale: iat: 900 s old (set the clock)" {
		t.Error(err)
	}
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok || refusal.Problem != entry.Stale || refusal.Field != "iat" || refusal.Detail != "900 s old" || refusal.Remedy != "set the clock" {
		t.Errorf("%+v", refusal)
	}
}

// TestRefusalBounded: whatever is sent, a refusal stays short enough to log.
func TestRefusalBounded(t *testing.T) {
	base := strings.TrimSuffix(string(payloadOf(t, minimal(t, entry.KindExecution))), "}")
	long := strings.Repeat("ä", 5000)
	deep := strings.Repeat(`{"`+strings.Repeat("n", 60)+`":`, 14)
	for _, payload := range []string{
		base + `,"` + long + `":1.5}`,
		base + `,"x":` + deep + `1.5` + strings.Repeat("}", 14) + "}",
		base + `,"` + long + `":1,"` + long + `":1}`,
		strings.Replace(base, "exec-1", long, 1) + "}",
		strings.Replace(base, `"none"`, `"`+long+`"`, 1) + "}",
		base + `,"task":"` + long + `"}`,
		base + `,"crit":["` + long + `"]}`,
		base + `,"comp":"` + long + `"}`,
		base + `,"latency_ms":` + strings.Repeat("9", 5000) + "}",
		base + `,"latency_ms":"` + long + `"}`,
	} {
		_, err := entry.NewRaw(entry.KindExecution, []byte(payload))
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("refusal of %d bytes: %.300v", len(err.Error()), err)
		}
	}
}

// TestNewRefuses: New makes nothing that Decode would not read.
func TestNewRefuses(t *testing.T) {
	for field, damage := range map[string]func(p *entry.Policy){
		"witnesses":             func(p *entry.Policy) { p.Witnesses = "\xff" },
		"recovery.x":            func(p *entry.Policy) { p.Recovery = []byte(`{"x":1,"x":2}`) },
		"recovery.y":            func(p *entry.Policy) { p.Recovery = []byte(`{"y":1.5}`) },
		"max_step_ms":           func(p *entry.Policy) { p.MaxStepMS = 0 },
		"iat":                   func(p *entry.Policy) { p.Iat = entry.MaxInteger + 1 },
		"authority":             func(p *entry.Policy) { p.Authority = nil },
		"crit":                  func(p *entry.Policy) { p.Crit = []string{"x"} },
		"limits.victim.members": func(p *entry.Policy) { p.Limits.Victim.Members = -1 },
	} {
		policy := minimal(t, entry.KindPolicy).(*entry.Policy)
		damage(policy)
		e, err := entry.New(policy)
		if problem, at := problemOf(err); e != nil || problem != string(entry.Malformed) || at != field {
			t.Errorf("%s: entry %v, error %v", field, e, err)
		}
	}
}

// TestUUID spoils a UUID at each of its characters.
func TestUUID(t *testing.T) {
	base := string(payloadOf(t, minimal(t, entry.KindExecution)))
	jti := header(entry.KindExecution).JTI
	for i := range jti {
		for _, c := range []string{"g", "A", "-", "0", ""} {
			spoiled := jti[:i] + c + jti[i+1:]
			_, err := entry.NewRaw(entry.KindExecution, []byte(strings.Replace(base, jti, spoiled, 1)))
			good := c == "0" && jti[i] != '-' || c == "-" && jti[i] == '-'
			if _, field := problemOf(err); (err == nil) != good || !good && field != "jti" {
				t.Errorf("%s: %v", spoiled, err)
			}
		}
	}
}

// TestNewRawUnknownKind: a kind may come from a command line.
func TestNewRawUnknownKind(t *testing.T) {
	for _, kind := range []entry.Kind{"", "verdict", "Run"} {
		e, err := entry.NewRaw(kind, []byte("{}"))
		if problem, field := problemOf(err); e != nil || problem != string(entry.Malformed) || field != "payloadType" {
			t.Errorf("kind %q: %v", kind, err)
		}
	}
}

func TestRefSplit(t *testing.T) {
	ref := entry.NewRef("agent-1@example.com", "exec-1")
	if issuer, id := ref.Split(); ref != "agent-1@example.com#exec-1" || issuer != "agent-1@example.com" || id != "exec-1" {
		t.Errorf("%s splits into %s and %s", ref, issuer, id)
	}
	if x := full(t, entry.KindExecution).(*entry.Execution); x.Ref() != ref {
		t.Errorf("reference %s, want %s", x.Ref(), ref)
	}
}

func TestProgressFinal(t *testing.T) {
	for progress, want := range map[entry.Progress]bool{
		entry.Planned: false, entry.Started: false, entry.Confirmed: true, entry.Failed: true, entry.Cancelled: true,
	} {
		if progress.Final() != want {
			t.Errorf("%s is final: %v", progress, !want)
		}
	}
}

// TestSignalEffective reads SIG-2: an unknown class counts as unknown, and an
// opinion without evidence is clamped.
func TestSignalEffective(t *testing.T) {
	evidence := []entry.Evidence{{Digest: digestA}}
	for _, c := range []struct {
		class, code         string
		evidence            []entry.Evidence
		wantClass, wantCode string
	}{
		{"tool", "error", nil, "tool", "error"},
		{"tool", "code-of-tomorrow", nil, "tool", "code-of-tomorrow"},
		{"weather", "storm", evidence, "unknown", "unknown"},
		{"output", "ungrounded", nil, "output", "unknown"},
		{"output", "ungrounded", evidence, "output", "ungrounded"},
		{"progress", "no_progress", nil, "progress", "unknown"},
		{"progress", "off_task", nil, "progress", "unknown"},
		{"progress", "step_limit", nil, "progress", "step_limit"},
		{"verify", "gate_failed", nil, "verify", "unknown"},
		{"unknown", "unknown", nil, "unknown", "unknown"},
	} {
		signal := entry.Signal{Class: c.class, Code: c.code, Evidence: c.evidence}
		if class, code := signal.Effective(); class != c.wantClass || code != c.wantCode {
			t.Errorf("%s.%s counts as %s.%s, want %s.%s", c.class, c.code, class, code, c.wantClass, c.wantCode)
		}
	}
}

// TestTags finds the full fixture of each kind under what it is about.
func TestTags(t *testing.T) {
	for kind, want := range map[entry.Kind][]entry.Tag{
		entry.KindPolicy:     {},
		entry.KindAgent:      {},
		entry.KindExecution:  {{Index: entry.ByTask, Value: "operator@example.com#task-1"}},
		entry.KindCheckpoint: {},
		entry.KindSignal:     {{Index: entry.ByIncident, Value: "41"}},
		entry.KindDecision:   {{Index: entry.ByIncident, Value: "7"}},
		entry.KindApproval:   {{Index: entry.ByIncident, Value: "7"}},
		entry.KindOutcome:    {{Index: entry.ByIncident, Value: "7"}},
		entry.KindRecord:     {{Index: entry.ByIncident, Value: "7"}},
		entry.KindTask:       {{Index: entry.ByTask, Value: "operator@example.com#task-1"}},
		entry.KindAttempt:    {{Index: entry.ByTask, Value: "operator@example.com#task-1"}},
		entry.KindRun:        {},
		entry.KindIndex:      {},
		entry.KindRollout:    {},
	} {
		e, err := entry.New(full(t, kind))
		must(t, err)
		all := []entry.Tag{{Index: entry.ByKind, Value: string(kind)}, {Index: entry.ByAgent, Value: self}}
		if e.Header.Wid != "" {
			all = append(all, entry.Tag{Index: entry.ByWorkflow, Value: "wf-1"})
		}
		if got := e.Tags(41); !slices.Equal(got, append(all, want...)) {
			t.Errorf("%s: tags %v, want %v", kind, got, append(all, want...))
		}
	}
}

// TestTagsOfOthers: an entry about another principal is found under both; a
// compensation under its incident.
func TestTagsOfOthers(t *testing.T) {
	signal := minimal(t, entry.KindSignal).(*entry.Signal)
	signal.Subject = "agent-2@example.com#exec-1"
	e, err := entry.New(signal)
	must(t, err)
	for _, agent := range []string{"agent-1@example.com", "agent-2@example.com"} {
		if !slices.Contains(e.Tags(1), entry.Tag{Index: entry.ByAgent, Value: agent}) {
			t.Errorf("not found under %s: %v", agent, e.Tags(1))
		}
	}
	x := minimal(t, entry.KindExecution).(*entry.Execution)
	x.Compensates = &entry.Compensates{Incident: 7, Decision: ref(12), Exec: "agent-1@example.com#exec-1"}
	e, err = entry.New(x)
	must(t, err)
	if !slices.Contains(e.Tags(50), entry.Tag{Index: entry.ByIncident, Value: entry.IncidentValue(7)}) {
		t.Errorf("tags %v", e.Tags(50))
	}
}

// TestSealCopies: an entry does not keep the caller's bytes.
func TestSealCopies(t *testing.T) {
	e := signed(t)
	sig := []byte{1, 2, 3}
	e.Seal(e.KeyID, sig)
	sig[0] = 9
	if e.Sig[0] != 1 {
		t.Error("the signature changed with the caller's")
	}
}

// TestDecodeCopies: an entry does not keep the envelope it was decoded from.
func TestDecodeCopies(t *testing.T) {
	envelope := signed(t).AppendEnvelope(nil)
	e, err := entry.Decode(envelope)
	must(t, err)
	want := string(envelope)
	for i := range envelope {
		envelope[i] = 'x'
	}
	if string(e.AppendEnvelope(nil)) != want || e.Header.Iss != "agent-1@example.com" {
		t.Error("the entry changed with the caller's bytes")
	}
}
