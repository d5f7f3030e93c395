package main

import (
	"os"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// historyFiles writes a history of agent and nobody, with the root: a log of a policy,
// a coordinator at 1, agent at 2, which executes at 3 and 4; the index entry at 5 covers
// these, and 6 is an execution behind.
func historyFiles(t *testing.T) {
	t.Helper()
	l := testlog.New(t)
	of := func(name entry.Principal) testlog.Key { return testlog.NewKey(t, name, string(name)) }
	authority, coordinator, agent := of("authority"), of("coordinator"), of("agent")
	l.Add(authority.Sign(t, l.Policy(authority, authority)))
	l.Add(authority.Sign(t, l.Agent(authority, entry.Enrol, coordinator, entry.RoleCoordinator)))
	l.Add(authority.Sign(t, l.Agent(authority, entry.Enrol, agent, entry.RoleAgent)))
	for range 2 {
		l.Add(agent.Sign(t, l.Execution(agent)))
	}
	x := l.Index(5)
	at := l.AddIndex(coordinator, x)
	l.Add(agent.Sign(t, l.Execution(agent)))
	h := l.History(x, at, entry.Subject{Type: entry.SubjectAgent, Value: "agent"}, entry.Subject{Type: entry.SubjectAgent, Value: "nobody"})
	t.Chdir(t.TempDir())
	t.Setenv("ARL_HOME", t.TempDir())
	for file, encode := range map[string]func() ([]byte, error){"root.json": l.Root.Encode, "history.json": h.Encode} {
		text, err := encode()
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerifyHistory asks a history what it shows, what it does not, and what nobody can
// ask.
func TestVerifyHistory(t *testing.T) {
	historyFiles(t)
	for _, c := range []struct {
		args string
		code int
		want string // in the output, or in the message
	}{
		{"--expect agent:agent:execution", exit.OK, "verified: complete: 3 entries: execution of agent:agent, in the first 7 entries of the log\n"},
		{"--expect agent:agent:execution", exit.OK, "in the first 7 entries of the log: 3, 4, 6\n"},
		{"--expect agent:agent:execution --size 6 --from 4", exit.OK, "verified: complete: 1 entry: execution of agent:agent, in entries 4 to 5 of the log"},
		{"--expect agent:agent:agent/revoke,agent/revoke<", exit.OK, "verified: none: no agent/revoke of agent:agent, in the first 7 entries of the log (and 1 other answer)"},
		{"--expect agent:agent:*", exit.OK, "verified: complete: 4 entries: entries of agent:agent"},
		{"--expect agent:nobody", exit.OK, "verified: none: no entries of agent:nobody"},
		{"", exit.OK, "complete: 4 entries: entries of agent:agent, in the first 7 entries of the log: 2, 3, 4, 6\n"},
		{"", exit.OK, "none: no entries of agent:nobody, in the first 7 entries of the log\n"},
		{"", exit.OK, "nobody asked (arl verify --expect)"},
		{"--expect agent:agent:execution --output json", exit.OK, `"answers":[{"type":"agent","value":"agent","label":"execution","from":0,"size":7,"entries":[3,4,6],"tail":1}]`},
		{"--expect agent:other", exit.Verification, "no history is given that is about it"},
		{"--expect agent:agent:execution --size 8", exit.Verification, "the history ends at 7"},
		{"--expect agent:agent:executed", exit.Usage, "is no label of a subject of type agent"},
		{"--expect person:agent", exit.Usage, "is no type of subject"},
		{"--size 5", exit.Usage, "pass --expect"},
	} {
		args := append([]string{"verify", "history.json", "--root", "root.json"}, strings.Fields(c.args)...)
		stdout, stderr, code := runARL(t, args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
	}
	data, err := os.ReadFile("history.json")
	if err != nil {
		t.Fatal(err)
	}
	h, err := verify.DecodeHistory(data)
	if err != nil {
		t.Fatal(err)
	}
	h.Subjects[0].Depth++
	if data, err = h.Encode(); err == nil {
		err = os.WriteFile("changed.json", data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := runARL(t, "verify", "changed.json", "--root", "root.json"); code != exit.Verification || !strings.Contains(stderr, "step 11 prefix") {
		t.Errorf("a changed history: exit code %d\n%s%s", code, stdout, stderr)
	}
}
