package verify_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

// signedBy is the table of protocol.md, section 3, spelled out once more: an
// act and the initials of the roles that may do it, in the order of
// [entry.Roles], "authority" aside.
const signedBy = `
execution                agent
checkpoint               agent
signal executor          agent
signal upstream          agent
signal downstream        agent
signal monitor           monitor
signal operator          operator
decision contain         coordinator approver
decision escalate        agent coordinator operator approver monitor
decision authorize       coordinator approver
decision amend           coordinator approver
decision deny            coordinator approver
decision deny-again      coordinator operator approver
decision override        operator approver
decision release         coordinator approver
approval                 approver
outcome restored         agent
outcome compensated      agent
outcome not_executed     agent
outcome irrevocable      agent
outcome failed           agent
outcome refused          agent
outcome withheld         agent
outcome unknown          agent coordinator approver
record                   coordinator approver
task create              operator
task create-about        engine
task reassign            operator
task cancel              operator
task release             operator
task start               agent
task review              agent
task complete            agent
task block               agent
task assign              coordinator
task fail                coordinator
task interrupt           coordinator
attempt                  agent coordinator engine
run                      engine
rollout start            operator
rollout advance          operator
rollout waive            approver
rollout abort            operator approver coordinator
index                    coordinator
policy                   authority
agent enrol agent        enroller authority
agent rotate agent       enroller authority
agent revoke agent       enroller authority
agent enrol enroller     authority
agent enrol coordinator  authority
agent enrol operator     authority
agent enrol approver     authority
agent enrol monitor      authority
agent enrol engine       authority
`

// bodyOf returns content that does the act, well-formed only as far as rights
// depend on it.
func bodyOf(t *testing.T, l *testlog.Log, act string, by, about testlog.Key) entry.Body {
	t.Helper()
	kind, what, _ := strings.Cut(act, " ")
	h := l.Work(by.Principal)
	switch entry.Kind(kind) {
	case entry.KindPolicy:
		return l.Policy(by, by)
	case entry.KindAgent:
		op, role, _ := strings.Cut(what, " ")
		return l.Agent(by, entry.AgentOp(op), about, entry.Role(role))
	case entry.KindExecution:
		return l.Execution(by)
	case entry.KindCheckpoint:
		return &entry.Checkpoint{Header: h}
	case entry.KindSignal:
		return &entry.Signal{Header: h, Standing: entry.Standing(what)}
	case entry.KindDecision:
		if what == "deny-again" { // what nobody answered
			return &entry.Decision{Header: h, Act: entry.ActDeny, Supersedes: &entry.LogRef{}}
		}
		return &entry.Decision{Header: h, Act: entry.Act(what)}
	case entry.KindApproval:
		return &entry.Approval{Header: h}
	case entry.KindOutcome:
		return &entry.Outcome{Header: h, Result: entry.Result(what)}
	case entry.KindRecord:
		return &entry.Record{Header: h}
	case entry.KindTask:
		if op, about := strings.CutSuffix(what, "-about"); about {
			return &entry.Task{Header: h, Op: op, About: &entry.TaskCase{}}
		}
		return &entry.Task{Header: h, Op: what}
	case entry.KindAttempt:
		return &entry.Attempt{Header: h}
	case entry.KindRun:
		return &entry.Run{Header: h}
	case entry.KindIndex:
		return &entry.LogIndex{Header: h}
	case entry.KindRollout:
		return &entry.Rollout{Header: h, Op: entry.RolloutOp(what)}
	}
	t.Fatalf("act %q has no kind", act)
	return nil
}

// TestEveryRoleOnEveryAct goes through all pairs of an act and a role.
func TestEveryRoleOnEveryAct(t *testing.T) {
	l, c := newCompany(t)
	chain := l.Chain()
	fresh := testlog.NewKey(t, "fresh", "fresh")
	holders := c.holders()
	holders["authority"] = c.authority
	kinds := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(signedBy)) {
		act, roles := strings.TrimSpace(line[:25]), strings.Fields(line[25:])
		kinds[strings.Fields(act)[0]] = true
		for role, holder := range holders {
			body := bodyOf(t, l, act, holder, fresh)
			e := &entry.Entry{Kind: body.Kind(), Body: body, KeyID: holder.Public.KeyID(), Header: &entry.Header{Iss: holder.Principal}}
			signer, err := chain.Signer(e)
			want := entry.Problem("")
			if !slices.Contains(roles, string(role)) {
				want = entry.UnauthorizedRole
			}
			if got := problem(t, err); got != want {
				t.Errorf("%s by %s: problem %q, want %q", act, role, got, want)
			}
			if err == nil && (!signer.Key.Equal(holder.Public) || signer.Principal != holder.Principal || signer.Authority != (role == "authority")) {
				t.Errorf("%s by %s: signer %+v", act, role, signer)
			}
		}
	}
	for _, kind := range entry.Kinds() {
		if !kinds[string(kind)] {
			t.Errorf("kind %s is not in the table", kind)
		}
	}
}

// TestWhoSpeaks asks whose key is whose now, and who signed: for the latter, a key that was revoked
// counts still.
func TestWhoSpeaks(t *testing.T) {
	l, c := newCompany(t)
	l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)))
	chain := l.Chain()
	for _, q := range []struct {
		key  testlog.Key
		of   entry.Principal
		role entry.Role
		want entry.Problem
	}{
		{c.monitor, "monitor", entry.RoleMonitor, ""},
		{c.monitor, "monitor", entry.RoleAgent, entry.UnauthorizedRole},
		{c.monitor, "agent", entry.RoleMonitor, entry.UnknownIssuer},
		{c.agent, "agent", entry.RoleAgent, entry.UnknownIssuer},
		{testlog.NewKey(t, "x", "x"), "x", entry.RoleAgent, entry.UnknownIssuer},
	} {
		if _, refusal := chain.Speaks(q.key.Public.KeyID(), q.of, q.role); (refusal == nil) != (q.want == "") || refusal != nil && refusal.Problem != q.want {
			t.Errorf("%+v: %v", q, refusal)
		}
	}
	if !chain.SignedByIssuer(c.agent.Sign(t, l.Execution(c.agent))) || chain.SignedByIssuer(c.monitor.Sign(t, l.Execution(c.agent))) {
		t.Error("whose key signed")
	}
}
