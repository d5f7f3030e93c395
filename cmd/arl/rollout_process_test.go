//go:build unix

package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// crashRule has a rule in front of the default policy that says what follows the first failure
// of charges.
func (m *machine) crashRule(ladder ...string) (file string, digest entry.Digest) {
	m.t.Helper()
	rule := fmt.Sprintf(`
  rules:
    - id: crashed
      when: task_type == "charges"
      ladder:
        - { strategy: %s }
`, strings.Join(append(ladder, "escalate"), " }\n        - { strategy: "))
	file = filepath.Join(m.t.TempDir(), "rules.yaml")
	m.must(os.WriteFile(file, []byte(strings.Replace(m.arl("policy", "show", "--default"), "\n  rules:\n", rule, 1)), 0o600))
	document, err := os.ReadFile(file)
	m.must(err)
	p, err := recovery.Load(file, document)
	m.must(err)
	return file, p.Hash()
}

// rollsOut starts a machine with a rollout in its shadow: after a crash the policy in force has
// another agent try, and the candidate the same one.
func rollsOut(t *testing.T) (m *machine, baseline, candidate entry.Digest) {
	t.Helper()
	m = newMachine(t)
	m.start()
	m.workers("one", "two")
	before, baseline := m.crashRule("fail_reassign")
	after, candidate := m.crashRule("retry")
	m.arl("policy", "apply", before, "--reason", "rules in the log", "--yes")
	m.arl("rollout", "start", "r1", "--policy", after, "--salt", "spring", "--reason", "fewer agents", "--yes")
	return m, baseline, candidate
}

// tools is a live configuration whose tool fails the first time that it is asked about a case.
const tools = `tools:
  call:
    command: [sh, -c, 'id=$(tr -dc a-z0-9); [ -e "$0/$id" ] && echo "{}" || { touch "$0/$id"; echo down >&2; exit 9; }', %s]
    raw: true
`

// live runs cases through arl recover --live, recorded in the ledger, and returns their traces by
// id.
func (m *machine) live(out, rules string, ids ...string) map[string]engine.Trace {
	m.t.Helper()
	dir := m.t.TempDir()
	var cases strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&cases, `{"v":1,"id":%q,"agent":"desk","task_type":"charges","steps":[{"id":"call","tool":"call","effect":"none","input":{"id":%[1]q}}]}`+"\n", id)
	}
	m.must(os.WriteFile(filepath.Join(dir, "cases.ndjson"), []byte(cases.String()), 0o600))
	m.must(os.WriteFile(filepath.Join(dir, "live.yaml"), fmt.Appendf(nil, tools, dir), 0o600))
	run, said := m.command(nil, "recover", "--scenario", filepath.Join(dir, "cases.ndjson"), "--live", filepath.Join(dir, "live.yaml"), "--policy", rules,
		"--ledger", m.url, "--out", out, "--workers", "1")
	if code := exitOf(run.Run()); code != 14 && code != 7 && code != 0 {
		m.t.Fatalf("exit code %d: %s", code, said)
	}
	traces := map[string]engine.Trace{}
	k, err := engine.ReadRun(out)
	m.must(err)
	for t, err := range k.Traces() {
		m.must(err)
		traces[t.Case] = *t
	}
	if said := m.arl("replay", out); !strings.Contains(said, "match") || strings.Contains(said, "diverged") {
		m.t.Errorf("replay: %s", said)
	}
	m.arl("verify", out)
	return traces
}

// TestRecoverObeysRollout makes attempts for real in each stage of a rollout: a case is decided by
// the rules of its arm, its trace and its entry say so, and what the candidate of a shadow decided
// stands beside. The directory of such a run replays, and is verified offline.
func TestRecoverObeysRollout(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	before, baseline := m.crashRule()
	after, candidate := m.crashRule("retry")
	m.arl("policy", "apply", before, "--reason", "rules in the log", "--yes")
	m.arl("rollout", "start", "r1", "--policy", after, "--salt", "spring", "--reason", "fewer people", "--yes")
	dir := t.TempDir()
	quiet := m.live(filepath.Join(dir, "shadow"), before, "quiet")["quiet"]
	if quiet.Arm != entry.ArmControl || quiet.Policy != baseline || quiet.Status != engine.Escalated || quiet.Shadow == nil || quiet.Shadow.Policy != candidate ||
		len(quiet.Shadow.Rungs) != len(quiet.Rungs) || quiet.Shadow.Rungs[0].Strategy != "retry" || quiet.Rungs[0].Strategy != "escalate" {
		t.Errorf("shadow: %+v, %+v", quiet, quiet.Shadow)
	}
	m.arl("rollout", "promote", "r1", "--stage", "canary", "--share", "500", "--reason", "the shadow agrees", "--yes")
	a, b := armed("a", true), armed("b", false)
	both := m.live(filepath.Join(dir, "canary"), before, a, b)
	if c := both[a]; c.Arm != entry.ArmCanary || c.Policy != candidate || c.Status != engine.AutoRecovered || c.Shadow != nil ||
		c.Other == nil || c.Other.Policy != baseline || len(c.Other.Rungs) != len(c.Rungs) || c.Other.Rungs[0].Strategy != "escalate" {
		t.Errorf("%s: %+v, %+v", a, c, c.Other)
	}
	if c := both[b]; c.Arm != entry.ArmControl || c.Policy != baseline || c.Status != engine.Escalated || c.Shadow != nil ||
		c.Other == nil || c.Other.Policy != candidate || c.Other.Rungs[0].Strategy != "retry" {
		t.Errorf("%s: %+v, %+v", b, c, c.Other)
	}
	if c := m.live(filepath.Join(dir, "other"), after, a)[a]; c.Arm != "" || c.Policy != "" || c.Status != engine.AutoRecovered {
		t.Errorf("rules of one's own: %+v", c)
	}
	m.arl("rollout", "abort", "r1", "--reason", "not now", "--yes")
	if c := m.live(filepath.Join(dir, "late"), before, a)[a]; c.Arm != "" || c.Policy != "" || c.Status != engine.Escalated {
		t.Errorf("after the abort: %+v", c)
	}
	var got []string
	for _, a := range entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", "desk") {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %t %s %s", a.Case, a.Arm, a.Policy == candidate, a.Status, a.Rungs[0].Strategy), " "))
	}
	if want := []string{"quiet control false escalated escalate", "quiet shadow true passed_on retry", a + " canary true auto_recovered retry",
		b + " control false escalated escalate", a + "  true auto_recovered retry", a + "  false escalated escalate"}; !slices.Equal(got, want) {
		t.Errorf("entries\n%q, want\n%q", got, want)
	}
	m.arl("log", "audit")
	m.stop()
}

// armed is an id of a task that the canary of half of the cases has, or has not.
func armed(name string, canary bool) string {
	for n := 0; ; n++ {
		if id := name + strconv.Itoa(n); canary == (rollout.Draw("spring", id) < entry.ShareMax) {
			return id
		}
	}
}

// decision is an attempt entry as this test compares it.
type decision struct {
	by     entry.Principal
	arm    entry.Arm
	policy entry.Digest
	action string // strategy and result of each rung
}

// decisions crashes the first holder of a task, after the script of its attempts, and returns what
// is in the log about the task when the coordinator has given it on.
func (m *machine) decisions(id, script string) (holder entry.Principal, all []decision) {
	m.t.Helper()
	task, holder := m.given(id, "--max-retries", "5", "--lease-ms", "600000") // who gets the task then must not lose it
	run, said := m.scripted(holder, task, script+"; exit 1")
	if code := exitOf(run.Run()); code != 7 {
		m.t.Fatalf("%s: exit code %d: %s", id, code, said)
	}
	m.until(task, func(t *api.Task) bool { return t.Epoch == 2 || t.State == entry.TaskBlocked }, said)
	return holder, m.decided(id, holder)
}

// decided returns what is in the log about a task of an agent.
func (m *machine) decided(id string, holder entry.Principal) (all []decision) {
	m.t.Helper()
	task := "operator#" + id
	for _, a := range entriesOf[entry.Attempt](m, entry.KindAttempt, "--task", task) {
		d := decision{by: a.Iss, arm: a.Arm, policy: a.Policy}
		for _, r := range a.Rungs {
			d.action = strings.TrimPrefix(d.action+" "+r.Strategy+":"+r.Result, " ")
		}
		if a.Case != id {
			m.t.Errorf("%s: %+v", id, a)
		}
		if a.Agent == holder {
			all = append(all, d)
		}
	}
	return all
}

// meanwhile is a script that runs a command of arl in the second attempt.
func (m *machine) meanwhile(args ...string) string {
	return fmt.Sprintf(`test "$ARL_ATTEMPT" = 1 || "$ARL_PROGRAM" '%s' --yes --home '%s' || exit 9`, strings.Join(args, "' '"), m.home)
}

// TestRunObeysRollout crashes agents in each stage of a rollout: arl run and the router decide by
// the rules of the task's arm, and say so; the candidate of a shadow decides beside, and nothing is
// done about it; after an abort the baseline decides, and after a promotion the candidate. A claim
// that is under way then, and one that the router gave before, end for their arm. An export gives
// each arm again.
func TestRunObeysRollout(t *testing.T) {
	t.Parallel()
	m, baseline, candidate := rollsOut(t)
	const router entry.Principal = "coordinator"
	check := func(id, script string, want func(holder entry.Principal) []decision) {
		t.Helper()
		if holder, got := m.decisions(id, script); !slices.Equal(got, want(holder)) {
			t.Errorf("%s of %s:\n%+v, want\n%+v", id, holder, got, want(holder))
		}
	}
	retried := func(arm entry.Arm) func(entry.Principal) []decision {
		return func(holder entry.Principal) []decision {
			return []decision{{holder, arm, candidate, "retry:decided"}, {holder, arm, candidate, "retry:failed escalate:decided"}}
		}
	}
	reassigned := func(arm entry.Arm) func(entry.Principal) []decision {
		return func(holder entry.Principal) []decision {
			return []decision{{holder, arm, baseline, "fail_reassign:decided"}, {router, arm, baseline, "fail_reassign:decided"}}
		}
	}
	check("shadow", "true", func(holder entry.Principal) []decision {
		return []decision{
			{holder, entry.ArmControl, baseline, "fail_reassign:decided"}, {holder, entry.ArmShadow, candidate, "retry:decided"},
			{router, entry.ArmControl, baseline, "fail_reassign:decided"}, {router, entry.ArmShadow, candidate, "retry:decided"},
		}
	})
	m.arl("rollout", "promote", "r1", "--stage", "canary", "--share", "500", "--reason", "the shadow agrees", "--yes")
	control := armed("control", false)
	check(armed("canary", true), "true", retried(entry.ArmCanary))
	check(control, "true", reassigned(entry.ArmControl))
	check(armed("aborted", true), m.meanwhile("rollout", "abort", "r1", "--reason", "not now"), retried(entry.ArmCanary))
	check(armed("late", true), "true", reassigned(""))
	next := m.stands("operator#" + control).Agent
	run, said := m.scripted(next, "operator#"+control, "true")
	if code := exitOf(run.Run()); code != 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
	if got := m.decided(control, next); !slices.Equal(got, []decision{{next, entry.ArmControl, baseline, "fail_reassign:ok"}}) {
		t.Errorf("%+v", got)
	}

	ann := filepath.Join(t.TempDir(), "ann.key")
	m.arl("key", "generate", "--out", ann)
	m.arl("agent", "enrol", "--principal", "ann", "--key", ann, "--domain", "people", "--roles", "approver")
	rules, _ := m.crashRule("retry")
	m.arl("rollout", "start", "r2", "--policy", rules, "--salt", "spring", "--stage", "canary", "--share", "500", "--reason", "once more", "--yes")
	m.arl("rollout", "promote", "r2", "--waive", "--reason", "known since r1", "--key", ann, "--yes")
	check(armed("promoted", true), m.meanwhile("rollout", "promote", "r2", "--full", "--reason", "waived"), retried(entry.ArmCanary))
	check(armed("afterwards", false), "true", retried(""))
	public := filepath.Join(t.TempDir(), "public")
	m.arl("log", "export", public)
	if found := arms(t, public); found[entry.ArmControl] != 5 || found[entry.ArmShadow] != 2 || found[entry.ArmCanary] != 6 || found[""] != 4 {
		t.Errorf("the export has attempts of %v", found)
	}
	m.arl("log", "audit")
	m.stop()
}

// newEngine starts a ledger with the key of an enrolled engine, which may record so many cases an
// hour for callers without a certificate.
func newEngine(t *testing.T, quota int) *machine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "engine.key")
	_, err := keys.Generate(file, keys.Ed25519, nil)
	m := newMachine(t, "--engine-key", file, "--engine-quota", strconv.Itoa(quota))
	m.must(err)
	m.start()
	m.arl("agent", "enrol", "--principal", "engine-1", "--key", file, "--roles", "engine", "--domain", "engine")
	return m
}

// TestServeRecordsRecoveries: a served ledger signs attempts by the key of an engine that is
// enrolled, within its quota.
func TestServeRecordsRecoveries(t *testing.T) {
	t.Parallel()
	m := newEngine(t, 2)
	const one = `{"v":1,"id":"one","agent":"desk","steps":[{"id":"s","effect":"none","outcome":"failed","failure":{"raw":{"http_status":529}}}]}`
	for _, want := range []string{`"cases":1,"entries":1,"asked":1,"known":0`, `"cases":1,"entries":0,"known":1`, `"reason":"quota"`} {
		response, err := http.Post(m.url+"/v1/recoveries", api.MediaJSON, strings.NewReader(one))
		m.must(err)
		body, err := io.ReadAll(response.Body)
		m.must(errors.Join(err, response.Body.Close()))
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s %s, want %s", response.Status, body, want)
		}
	}
	if all := entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", "desk"); len(all) != 1 || all[0].Iss != "engine-1" || all[0].Case != "one" {
		t.Errorf("%+v", all)
	}
	m.arl("log", "audit")
	m.stop()
}
