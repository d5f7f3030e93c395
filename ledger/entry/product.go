package entry

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// TaskState is a state of a task (protocol.md, section 9).
type TaskState string

// The states of a task.
const (
	TaskCreated     TaskState = "CREATED"
	TaskAssigned    TaskState = "ASSIGNED"
	TaskInProgress  TaskState = "IN_PROGRESS"
	TaskInReview    TaskState = "IN_REVIEW"
	TaskBlocked     TaskState = "BLOCKED"
	TaskFailed      TaskState = "FAILED"
	TaskInterrupted TaskState = "INTERRUPTED"
	TaskCompleted   TaskState = "COMPLETED"
	TaskCancelled   TaskState = "CANCELLED"
)

// TaskStates returns all states in the order of the protocol.
func TaskStates() []TaskState {
	return []TaskState{TaskCreated, TaskAssigned, TaskInProgress, TaskInReview, TaskBlocked, TaskFailed,
		TaskInterrupted, TaskCompleted, TaskCancelled}
}

// Task is a transition of a task.
type Task struct {
	Header
	Task        Ref       `json:"task"`
	Op          string    `json:"op"`
	From        TaskState `json:"from"` // CREATED with op create
	To          TaskState `json:"to"`
	Reason      string    `json:"reason"`
	Epoch       int64     `json:"epoch"` // fencing token
	RetryCount  int64     `json:"retry_count"`
	ResumeCount int64     `json:"resume_count"`
	Type        string    `json:"type,omitempty"`
	MaxRetries  *int64    `json:"max_retries,omitempty"`
	Agent       Principal `json:"agent,omitempty"`
	LeaseMS     *int64    `json:"lease_ms,omitempty"`
	Snapshot    *Snapshot `json:"snapshot,omitempty"`
}

// Snapshot is what is kept of a failed execution; never message contents (TSK-3).
type Snapshot struct {
	Exec          Ref       `json:"exec"`
	Agent         Principal `json:"agent"`
	Turns         int64     `json:"turns"`
	MaxTurns      int64     `json:"max_turns"`
	CostMicroUSD  int64     `json:"cost_micro_usd"`
	Status        string    `json:"status"`
	StartedAt     int64     `json:"started_at"`
	TakenAt       int64     `json:"taken_at"`
	Messages      int64     `json:"messages"` // their number
	Class         string    `json:"class"`
	Code          string    `json:"code"`
	ContextDigest string    `json:"context_digest"` // keyed
	// Attempts is how often the work was begun in the claim that ends, each time
	// with a failure; 0: once, or nobody knows.
	Attempts int64 `json:"attempts,omitzero"`
}

// Kind implements [Body].
func (*Task) Kind() Kind { return KindTask }

func (t *Task) check() error {
	err := first(
		checkRef("task", t.Task),
		checkOneOf("op", t.Op, TaskCreate, TaskReassign, TaskCancel, TaskRelease, TaskStart, TaskReview, TaskComplete, TaskBlock,
			TaskAssign, TaskFail, TaskInterrupt),
		checkOneOf("from", t.From, TaskStates()...),
		checkOneOf("to", t.To, TaskStates()...),
		checkReason(t.Reason),
		checkCount("epoch", t.Epoch),
		checkCount("retry_count", t.RetryCount),
		checkCount("resume_count", t.ResumeCount),
		optional("type", t.Type, checkWord),
		checkWithin("max_retries", t.MaxRetries, 0, MaxRetries),
		optional("agent", string(t.Agent), checkName),
		checkWithin("lease_ms", t.LeaseMS, MinLeaseMS, MaxLeaseMS))
	if err == nil && t.Snapshot != nil {
		return inside("snapshot", t.Snapshot.check())
	}
	return err
}

func (s *Snapshot) check() error {
	return first(
		checkRef("exec", s.Exec), checkName("agent", string(s.Agent)),
		checkCount("turns", s.Turns), checkCount("max_turns", s.MaxTurns),
		checkCount("cost_micro_usd", s.CostMicroUSD), checkWord("status", s.Status),
		checkPositive("started_at", s.StartedAt), checkPositive("taken_at", s.TakenAt),
		checkCount("messages", s.Messages), checkWord("class", s.Class),
		checkWord("code", s.Code), checkDigest("context_digest", s.ContextDigest),
		checkWithin("attempts", &s.Attempts, 0, MaxAttempts))
}

// Attempt records how the recovery engine dealt with one case of a run.
type Attempt struct {
	Header
	Run         string `json:"run"`
	Case        string `json:"case"`
	Rungs       []Rung `json:"rungs"`
	Status      string `json:"status"` // auto_recovered, escalated, no_failure
	TraceDigest string `json:"trace_digest"`
}

// Rung is one step on a ladder of recovery.
type Rung struct {
	Attempt      int64  `json:"attempt"`
	Class        string `json:"class"`
	Code         string `json:"code"`
	Rule         string `json:"rule"`
	Strategy     string `json:"strategy"`
	Model        string `json:"model,omitempty"`
	Result       string `json:"result"`
	CostMicroUSD *int64 `json:"cost_micro_usd,omitempty"`
	LatencyMS    *int64 `json:"latency_ms,omitempty"`
	Reason       string `json:"reason"`
}

// AttemptJTI returns the jti that the attempt of a case in a run must have: a UUID
// of version 8 (RFC 9562) made of both. It makes the attempt of a case one entry,
// however often an engine registers it (REG-2).
func AttemptJTI(run, id string) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint16([]byte("attempt"), uint16(len(run))), run+id...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// Kind implements [Body].
func (*Attempt) Kind() Kind { return KindAttempt }

func (a *Attempt) check() error {
	err := first(checkName("run", a.Run), checkName("case", a.Case), checkLen("rungs", len(a.Rungs), 0, MaxList),
		checkOneOf("status", a.Status, "auto_recovered", "escalated", "no_failure"),
		checkDigest("trace_digest", a.TraceDigest))
	return first(err, each("rungs", a.Rungs, (*Rung).check))
}

func (r *Rung) check() error {
	return first(checkCount("attempt", r.Attempt), checkWord("class", r.Class), checkWord("code", r.Code),
		checkWord("rule", r.Rule), checkWord("strategy", r.Strategy), optional("model", r.Model, checkName),
		checkWord("result", r.Result), checkOptionalCount("cost_micro_usd", r.CostMicroUSD),
		checkOptionalCount("latency_ms", r.LatencyMS), checkText("reason", r.Reason))
}

// Run opens or closes a run of the recovery engine.
type Run struct {
	Header
	Run            string `json:"run"`
	Op             string `json:"op"` // open, close
	ConfigDigest   string `json:"config_digest"`
	ScenarioDigest string `json:"scenario_digest"`
	Seed           int64  `json:"seed"`
	Engine         string `json:"engine"` // name and version
	RunRoot        string `json:"run_root,omitempty"`
	ReportDigest   string `json:"report_digest,omitempty"`
	Recommendation string `json:"recommendation,omitempty"` // promote, reject, inconclusive
}

// Kind implements [Body].
func (*Run) Kind() Kind { return KindRun }

func (r *Run) check() error {
	err := first(checkName("run", r.Run), checkOneOf("op", r.Op, "open", "close"),
		checkDigest("config_digest", r.ConfigDigest), checkDigest("scenario_digest", r.ScenarioDigest),
		checkName("engine", r.Engine))
	if err != nil || r.Op == "open" {
		return first(err, refuseIf(r.RunRoot != "" || r.ReportDigest != "" || r.Recommendation != "", "op", "an open run has no result yet"))
	}
	return first(checkDigest("run_root", r.RunRoot), checkDigest("report_digest", r.ReportDigest),
		checkOneOf("recommendation", r.Recommendation, "promote", "reject", "inconclusive"))
}
