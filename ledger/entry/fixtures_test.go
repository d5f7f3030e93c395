package entry_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// A few values that the fixtures share.
const (
	digestA = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	digestB = "hmac-sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

func header(kind entry.Kind) entry.Header {
	h := entry.Header{V: 1, JTI: "0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21", Iss: "agent-1@example.com", Aud: "example.com/log", Iat: 1790000000}
	if kind != entry.KindPolicy && kind != entry.KindAgent && kind != entry.KindIndex {
		h.Wid = "wf-1"
	}
	return h
}

func ref(index uint64) entry.LogRef {
	return entry.LogRef{Index: index, LeafHash: merkle.HashLeaf([]byte{byte(index)})}
}

func head(size uint64) merkle.Head {
	return merkle.Head{Size: size, Root: merkle.HashLeaf([]byte{byte(size)})}
}

func publicKey(tb testing.TB, name string) entry.PublicKey {
	tb.Helper()
	key, err := entry.NewPublicKey(ed25519Key(name).Public())
	must(tb, err)
	return key
}

// minimal returns a body of the kind with its mandatory members and no other.
func minimal(tb testing.TB, kind entry.Kind) entry.Body {
	tb.Helper()
	h := header(kind)
	extent := entry.Cap{Members: 50, Agents: 5, Domains: 1, FencedMS: 3_600_000}
	switch kind {
	case entry.KindPolicy:
		return &entry.Policy{Header: h, Authority: []entry.AuthorityKey{{Principal: "root@example.com", Key: publicKey(tb, "authority")}},
			Windows: entry.Windows{DecideMS: 60_000, AnswerMS: 900_000, MemberMS: 60_000, DeadlineMaxMS: 86_400_000, CooldownMS: 3_600_000,
				SinceMaxMS: 86_400_000, BundleMaxAgeMS: 600_000, IatMS: 300_000},
			Limits: entry.Limits{Incident: extent, Signaler: extent, Victim: extent, WindowMS: 86_400_000},
			Quotas: entry.Quotas{SignalsPerHour: 20}, Quorum: entry.Quorum{Approve: 2, Override: 2, Signalers: 3}, MaxStepMS: 5_000}
	case entry.KindAgent:
		return &entry.Agent{Header: h, Principal: "agent-1@example.com", Op: entry.Enrol, Key: publicKey(tb, "agent"),
			Roles: []entry.Role{entry.RoleAgent}, Domain: "example.com", Span: entry.SpanWorkflow}
	case entry.KindExecution:
		return &entry.Execution{Header: h, Exec: "exec-1", Effect: entry.EffectNone, Progress: entry.Planned}
	case entry.KindCheckpoint:
		return &entry.Checkpoint{Header: h, Checkpoint: "cp-1", Digest: digestA}
	case entry.KindSignal:
		return &entry.Signal{Header: h, Subject: "agent-1@example.com#exec-1", Class: "tool", Code: "error", Standing: entry.StandingExecutor,
			Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnsafe, ObservedAt: 1_790_000_000_000}
	case entry.KindDecision:
		return &entry.Decision{Header: h, Incident: 7, Act: entry.ActOverride, Policy: ref(0), Exp: 1_790_000_600, Reason: "operator stops it"}
	case entry.KindApproval:
		return &entry.Approval{Header: h, Incident: 7, Proposal: ref(9), Verdict: "approve", Exp: 1_790_000_600, Reason: "plan recomputed"}
	case entry.KindOutcome:
		return &entry.Outcome{Header: h, Incident: 7, Decision: ref(12), Exec: "agent-1@example.com#exec-1", Result: entry.NotExecuted,
			ObservedAt: 1_790_000_300_000}
	case entry.KindRecord:
		return &entry.Record{Header: h, Incident: 7, State: "RECOVERED", Decision: ref(12), Unresolved: head(0)}
	case entry.KindTask:
		return &entry.Task{Header: h, Task: "operator@example.com#task-1", Op: "create", From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new"}
	case entry.KindAttempt:
		return &entry.Attempt{Header: h, Run: "run-1", AttemptCase: entry.AttemptCase{Case: "case-1", Status: "no_failure", TraceDigest: digestA}}
	case entry.KindRun:
		return &entry.Run{Header: h, Run: "run-1", Op: "open", ConfigDigest: digestA, ScenarioDigest: digestA, Seed: 42, Engine: "arl/1.0"}
	case entry.KindIndex:
		return &entry.LogIndex{Header: h, Algorithm: entry.IndexAlgorithm, Size: 40, Root: head(40).Root, Subjects: 12}
	case entry.KindRollout:
		return &entry.Rollout{Header: h, Rollout: "rollout-1", Op: entry.RolloutWaive, Reason: "tried by hand"}
	}
	tb.Fatalf("no fixture for %s", kind)
	return nil
}

// full returns a body of the kind with every member that may stand together.
func full(tb testing.TB, kind entry.Kind) entry.Body {
	tb.Helper()
	count := func(n int64) *int64 { return &n }
	target := ref(12)
	body := minimal(tb, kind)
	switch b := body.(type) {
	case *entry.Policy:
		b.Authority = append(b.Authority, entry.AuthorityKey{Principal: "root@example.com", Key: publicKey(tb, "authority 2")})
		b.Roles = map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleEnroller, entry.RoleOperator}}
		b.Quotas.EntriesPerHour = 3600
		b.Witnesses = "group any 1 w1\nquorum any\n"
		b.LedgerKeys = []string{"example.com/log+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"}
		b.Recovery = jsontext.Value(`{"rules":[{"ladder":["retry"],"when":"true"}]}`)
		b.Previous = &target
		b.Index = &entry.IndexPolicy{Required: true}
		b.Predecessor = &entry.Predecessor{Origin: "example.com/lost", LedgerKeys: b.LedgerKeys, Genesis: new(target.LeafHash), Head: new(head(90))}
		b.Crit = []string{"windows"}
		b.Rollout = &entry.Promotion{Rollout: "rollout-1", Report: digestA}
	case *entry.Agent:
		b.Op, b.CompromisedSince, b.Capabilities = entry.Revoke, &entry.Compromised{Index: 3}, []string{"refund", "mail.send"}
		b.Roles = entry.Roles()
	case *entry.Execution:
		b.Parents = []entry.Parent{{Exec: "agent-2@example.com#exec-9", Dep: entry.Hard}, {Exec: "agent-3@example.com#exec-1", Dep: entry.Soft}}
		b.Effect, b.Progress, b.IdempotencyKey = entry.EffectCompensable, entry.Confirmed, digestB
		b.Task, b.Checkpoint, b.Comp = "operator@example.com#task-1", "agent-1@example.com#cp-1", digestB
		b.InpHash, b.OutHash, b.CostMicroUSD, b.LatencyMS = digestA, digestB, count(1234), count(250)
	case *entry.Checkpoint:
		after := entry.Ref("agent-1@example.com#exec-1")
		b.After, b.ExpiresAt, b.Loc = &after, 1_790_086_400_000, "s3://bucket/cp-1"
	case *entry.Signal:
		b.Since, b.LastKnownGood = "agent-1@example.com#exec-0", "agent-1@example.com#exec-0"
		b.Severity, b.Detail = entry.SeverityError, "HTTP 503 — retry later"
		b.Evidence = []entry.Evidence{{Digest: digestA, URI: "https://example.com/trace/1"}, {Digest: digestB}}
		b.RetryAfterMS, b.Attempt, b.Supersedes = count(5000), count(3), &target
	case *entry.Decision:
		signals, pin := head(2), head(40)
		b.Act, b.Epoch, b.Signals, b.Pin, b.DeadlineAt = entry.ActAuthorize, 3, &signals, &pin, 1_790_003_600_000
		b.Dismissed = []entry.Dismissal{{Index: 8, Reason: "its own probe succeeded"}}
		b.RollbackSet = &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: head(5)}
		b.Impact = &entry.Impact{Members: 5, Agents: 2, Domains: 1, Irrevocable: 1, Undeclared: 0}
		b.Approvals, b.Supersedes = []uint64{10, 11}, &target
		b.Dispositions, b.Members = []entry.Disposition{{Index: 7, Disposition: entry.SelfReported}}, []entry.Ref{"agent-1@example.com#exec-1"}
	case *entry.Outcome:
		b.Result, b.CompExec, b.PostDigest, b.Residual = entry.Compensated, "agent-1@example.com#comp-1", digestA, "fee of 0.30"
		b.Evidence, b.Supersedes = []entry.Evidence{{Digest: digestA}}, &target
	case *entry.Record:
		b.State, b.Unresolved, b.Review = "PARTIAL", head(1), 2
		b.Tally = map[entry.Result]int64{entry.Restored: 3, entry.ResultFailed: 1}
		b.Dispositions = []entry.Disposition{
			{Index: 7, Disposition: entry.Corroborated, Domains: []string{"example.com", "example.org"}, Independent: true},
			{Index: 8, Disposition: entry.Inconclusive}}
	case *entry.Task:
		b.Op, b.From, b.To, b.Epoch, b.RetryCount, b.ResumeCount = "fail", entry.TaskInProgress, entry.TaskFailed, 2, 1, 1
		b.Type, b.MaxRetries, b.Agent, b.LeaseMS = "refund", count(1), "agent-1@example.com", count(90_000)
		b.Snapshot = &entry.Snapshot{Exec: "agent-1@example.com#exec-1", Agent: "agent-1@example.com", Turns: 12, MaxTurns: 40, CostMicroUSD: 52_000,
			Status: "running", StartedAt: 1_790_000_000_000, TakenAt: 1_790_000_090_000, Messages: 31, Class: "crash", Code: "lost", ContextDigest: digestB}
	case *entry.Attempt:
		b.Agent, b.Task, b.Policy, b.Arm = "agent-1@example.com", "operator@example.com#task-1", digestB, entry.ArmCanary
		b.Status, b.CostMicroUSD, b.Tokens, b.ElapsedMS = entry.StatusRecovered, count(1400), count(2100), count(1900)
		b.Facts = jsontext.Value(`{"intent":"refund.booking","tags":["holdout"]}`)
		b.Also = []entry.AttemptCase{{Case: "case-2", Rungs: []entry.Rung{}, Status: entry.StatusNoFailure, TraceDigest: digestB}}
		b.Rungs = []entry.Rung{
			{Attempt: 1, Class: "transient", Code: "timeout", Rule: "r1", Strategy: "retry", Result: "failed", Reason: "again 504",
				Step: "book", WaitMS: count(200)},
			{Attempt: 2, Class: "transient", Code: "timeout", Rule: "r1", Strategy: "fallback_model", Variant: "cheap", Model: "vendor/m-2", Result: "recovered",
				CostMicroUSD: count(900), Tokens: count(1500), LatencyMS: count(1200)},
		}
	case *entry.LogIndex:
		b.Crit = []string{"root"}
	case *entry.Rollout:
		b.Op, b.Stage, b.SharePermille = entry.RolloutStart, entry.StageCanary, 50
		b.Start = &entry.RolloutTerms{CandidateDigest: digestA, BaselineDigest: digestB, Candidate: jsontext.Value(`{"rules":[{"when":"true"}]}`),
			Salt: "s-1", Gates: entry.RolloutGates(), TolerancePPM: 50_000, CasesMin: 30, DeadlineAt: 1_790_086_400_000}
	case *entry.Run:
		b.Op, b.RunRoot, b.ReportDigest, b.Recommendation = "close", digestA, digestA, "promote"
		b.PolicyDigest, b.BaselineDigest = digestA, digestB
	}
	return body
}

// TestFixtures holds both fixtures of every kind for good.
func TestFixtures(t *testing.T) {
	for _, kind := range entry.Kinds() {
		for _, body := range []entry.Body{minimal(t, kind), full(t, kind)} {
			if _, err := entry.New(body); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}
