package entry

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	About       *TaskCase `json:"about,omitempty"` // with op create of an engine
}

// TaskCase is a case that an engine gave up. The task asks people about the case: it has no type,
// so that it waits for an operator.
type TaskCase struct {
	Case    string    `json:"case"`
	Attempt string    `json:"attempt" doc:"jti of the attempt entry of the same issuer that has the case"`
	Agent   Principal `json:"agent,omitzero" doc:"agent whose work the case is; absent: not known"`
	Decided []string  `json:"decided" doc:"strategies that people carry out, in the order of the ladder"`
}

// Snapshot has the counts and digests of a failed execution. It never has message contents (TSK-3).
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
	ContextDigest Digest    `json:"context_digest"` // keyed
	// Attempts is the number of attempts in the claim that ends, all of which failed; 0: one
	// attempt, or unknown.
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
		err = inside("snapshot", t.Snapshot.check())
	}
	if err == nil && t.About != nil {
		err = first(refuseIf(t.Op != TaskCreate, "about", "only create may have it"),
			refuseIf(t.Type != "", "type", "a task about a case has none, so that a person decides"), inside("about", t.About.check()))
	}
	return err
}

func (c *TaskCase) check() error {
	return first(checkName("case", c.Case), refuseIf(!isUUID(c.Attempt), "attempt", "%.60q is not a UUID in lower case", c.Attempt),
		optional("agent", string(c.Agent), checkName), checkLen("decided", len(c.Decided), 1, MaxList),
		each("decided", c.Decided, func(s *string) error { return checkWord("", *s) }))
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

// The operations on a task (protocol.md, sections 3 and 9).
const (
	TaskCreate    = "create"    // by an operator
	TaskReassign  = "reassign"  // by an operator: what assign does
	TaskRelease   = "release"   // by an operator, who answers for what holds the task up
	TaskCancel    = "cancel"    // by an operator
	TaskAssign    = "assign"    // by the coordinator
	TaskFail      = "fail"      // by the coordinator
	TaskInterrupt = "interrupt" // by the coordinator
	TaskStart     = "start"     // by who holds the task, like all that follow
	TaskReview    = "review"
	TaskComplete  = "complete"
	TaskBlock     = "block"
)

// MaxResumes is how often a task is resumed from a checkpoint (TSK-1).
const MaxResumes = 2

// CheckpointName returns the prefix of the names of a task's checkpoints. A checkpoint with this
// prefix belongs to the task if the holder of the task made it.
func CheckpointName(task Ref) string {
	sum := sha256.Sum256([]byte(task))
	return "task-" + hex.EncodeToString(sum[:8]) + "-"
}

// taskMove is an operation on a task: the states that it leaves, and the state that each becomes.
type taskMove struct {
	from []TaskState
	to   TaskState
}

// taskMoves is the table of protocol.md, section 9.
var taskMoves = map[string]taskMove{
	TaskAssign:    {[]TaskState{TaskCreated, TaskFailed, TaskInterrupted}, TaskAssigned},
	TaskReassign:  {[]TaskState{TaskCreated, TaskFailed, TaskInterrupted}, TaskAssigned},
	TaskRelease:   {[]TaskState{TaskFailed, TaskBlocked, TaskInterrupted}, TaskAssigned},
	TaskStart:     {[]TaskState{TaskAssigned, TaskInReview}, TaskInProgress},
	TaskReview:    {[]TaskState{TaskInProgress}, TaskInReview},
	TaskComplete:  {[]TaskState{TaskInProgress, TaskInReview}, TaskCompleted},
	TaskBlock:     {[]TaskState{TaskAssigned, TaskInProgress, TaskInReview}, TaskBlocked},
	TaskFail:      {[]TaskState{TaskCreated, TaskAssigned, TaskInProgress, TaskInReview}, TaskFailed},
	TaskInterrupt: {[]TaskState{TaskAssigned, TaskInProgress, TaskInReview}, TaskInterrupted},
	TaskCancel:    {[]TaskState{TaskCreated, TaskAssigned, TaskInProgress, TaskInReview, TaskBlocked, TaskFailed, TaskInterrupted}, TaskCancelled},
}

// Held reports whether an agent holds a task in this state by a lease.
func (s TaskState) Held() bool {
	return s == TaskAssigned || s == TaskInProgress || s == TaskInReview
}

// Over reports whether the state is terminal.
func (s TaskState) Over() bool { return s == TaskCompleted || s == TaskCancelled }

// TaskStanding is the part of a task's state that the next entry about the task states.
type TaskStanding struct {
	State       TaskState
	Agent       Principal // of the newest claim; empty: there was none
	Epoch       int64     // of the newest claim; 0: there was none
	RetryCount  int64     // claims after a failed one
	ResumeCount int64     // claims after a failed one, from a checkpoint
}

// Standing returns where the task stands behind the entry, as far as the entry says: only a claim
// must name the agent.
func (t *Task) Standing() TaskStanding {
	return TaskStanding{State: t.To, Agent: t.Agent, Epoch: t.Epoch, RetryCount: t.RetryCount, ResumeCount: t.ResumeCount}
}

// RetriesSpent reports whether the task, if it failed, has no retry left of the given maximum
// (TSK-1). The first claim of a task is no retry.
func (s TaskStanding) RetriesSpent(maximum int64) bool {
	return s.Epoch > 0 && s.RetryCount >= maximum
}

// TaskFailure is the end of a failed claim of a task, as far as the recovery of the task depends on
// it.
type TaskFailure struct {
	Class string `json:"class"`
	Code  string `json:"code"`
	At    int64  `json:"at" doc:"registered_at of the entry with the failure, Unix milliseconds"`
	// Attempts is the number of attempts in the claim; 0: one attempt, or unknown.
	Attempts int64 `json:"attempts,omitzero" doc:"number of attempts in the claim; absent: one, or not known"`
	// Checkpoint says whether the task had a usable checkpoint when it was claimed again. For the
	// newest failure it says whether the task has one now.
	Checkpoint bool `json:"checkpoint" doc:"whether the next claim could resume from a checkpoint"`
}

// Move returns the members of the entry that moves a task by an operation: op, from, to, agent,
// epoch and the counts. agent is the principal that a claim is for. resume says that a claim after
// a failure continues from a checkpoint; such claims are counted separately. ok is false if the
// state does not allow the operation.
func (s TaskStanding) Move(op string, agent Principal, resume bool) (t Task, ok bool) {
	move, known := taskMoves[op]
	if !known || !slices.Contains(move.from, s.State) {
		return Task{}, false
	}
	t = Task{Op: op, From: s.State, To: move.to, Agent: s.Agent, Epoch: s.Epoch, RetryCount: s.RetryCount, ResumeCount: s.ResumeCount}
	if move.to != TaskAssigned {
		return t, true
	}
	t.Agent = agent
	t.Epoch++
	switch {
	case s.State != TaskFailed || op == TaskRelease || s.Epoch == 0: // the first claim is no retry
	case resume:
		t.ResumeCount++
	default:
		t.RetryCount++
	}
	return t, true
}
