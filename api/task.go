package api

import "recoveryledger/ledger/entry"

// Tasks is the answer of GET /v1/tasks.
type Tasks struct {
	Size  uint64 `json:"size" doc:"size of the log that the list follows from"`
	Tasks []Task `json:"tasks" doc:"the newest first"`
	Next  string `json:"next,omitempty" doc:"where the list goes on, relative to the server; absent at its end"`
}

// Task is the answer of GET /v1/tasks/{id}: a task as it stands. All but the lease
// follows from the log.
type Task struct {
	Task        entry.Ref        `json:"task"`
	Wid         entry.WorkflowID `json:"wid"`
	State       entry.TaskState  `json:"state" enum:"CREATED,ASSIGNED,IN_PROGRESS,IN_REVIEW,BLOCKED,FAILED,INTERRUPTED,COMPLETED,CANCELLED"`
	Epoch       int64            `json:"epoch" doc:"of the newest claim; 0: there was none"`
	RetryCount  int64            `json:"retry_count"`
	ResumeCount int64            `json:"resume_count"`
	MaxRetries  int64            `json:"max_retries"`
	LeaseMS     int64            `json:"lease_ms" doc:"term of a lease"`
	Type        string           `json:"type,omitempty" doc:"capability that its agent needs; absent: only people assign it"`
	Agent       entry.Principal  `json:"agent,omitempty" doc:"of the newest claim"`
	Created     uint64           `json:"created" doc:"index of its first entry"`
	Changed     uint64           `json:"changed" doc:"index of its newest entry"`
	ChangedAt   int64            `json:"changed_at" doc:"when that was registered, Unix milliseconds"`
	CreatedAt   int64            `json:"created_at" doc:"when its first entry was registered, Unix milliseconds"`
	Reason      string           `json:"reason" doc:"of its newest entry: untrusted; of a BLOCKED task the question"`
	Executions  int              `json:"executions"`
	Waits       string           `json:"waits,omitempty" enum:"operator,coordinator" doc:"whose entry it waits for; absent: its agent's, or it is over"`
	GivenBy     string           `json:"given_by,omitempty" enum:"reassign,release" doc:"operation by which an operator gives it to an agent: release answers for what holds it up; absent: an agent holds it, or it is over"`
	Gate        string           `json:"gate,omitempty" doc:"why it must not be claimed again yet"`
	// Failures are those since its creation or its newest release, oldest first.
	Failures     []entry.TaskFailure `json:"failures,omitempty" doc:"how its claims ended, since its creation or its newest release; the oldest first"`
	Recovery     *TaskRecovery       `json:"recovery,omitempty" doc:"what the policy wants done about its newest failure, while it waits"`
	Unassignable bool                `json:"unassignable,omitempty" doc:"no agent can be given it as it waits: none has its type among its capabilities, but for who must not have it again"`
	// Candidates are told of one task, not in lists.
	Candidates []Candidate `json:"candidates,omitempty" doc:"who may get it as it waits: agents with its type among their capabilities, those that hold the fewest first; not in lists"`
	// Reassign is told of one task, not in lists.
	Reassign *Reassignment `json:"reassign,omitempty" doc:"whom an operator may give it to by reassign, where its state allows that; not in lists"`
	Lease    *Lease        `json:"lease,omitempty" doc:"while somebody holds it"`
}

// Candidate is an agent that may get a task.
type Candidate struct {
	Agent entry.Principal `json:"agent"`
	Held  int64           `json:"held" doc:"how many tasks it holds"`
}

// Reassignment is whom an operator may give a task to that no agent holds.
type Reassignment struct {
	Agent    entry.Principal `json:"agent,omitempty" doc:"who gets it if the operator names nobody; absent: see obstacle"`
	Except   entry.Principal `json:"except,omitempty" doc:"who must not get it: it failed at it just now, and the policy gives it to another"`
	Obstacle string          `json:"obstacle,omitempty" enum:"untyped,unassignable,release,busy" doc:"why no agent is chosen: the task has no type, no agent can be given it, it is to be released and not reassigned, or all its agents hold as many tasks as they may"`
}

// Why no agent is chosen for a task, as [Reassignment] has it.
const (
	ObstacleUntyped      = "untyped"
	ObstacleUnassignable = "unassignable"
	ObstacleRelease      = "release"
	ObstacleBusy         = "busy"
	ObstacleExcept       = "except" // the named agent must not get it; only [Reassignment.Choose] says so
)

// Choose returns the agent that gets the task: the named agent, or without a name the
// agent that the coordinator would choose. The obstacle says why there is none.
func (r *Reassignment) Choose(named entry.Principal) (agent entry.Principal, obstacle string) {
	switch named {
	case "":
		return r.Agent, r.Obstacle
	case r.Except:
		return "", ObstacleExcept
	}
	return named, ""
}

// TaskRecovery is what the policy wants done about a task that failed or was
// interrupted.
type TaskRecovery struct {
	Strategy    string `json:"strategy"`
	Rule        string `json:"rule" doc:"where in the policy that stands"`
	Reason      string `json:"reason" doc:"why, in one word (docs/policy.md)"`
	Due         int64  `json:"due" doc:"not before, Unix milliseconds"`
	Remediation string `json:"remediation,omitempty" doc:"what people can do, as the policy says"`
	Another     bool   `json:"another,omitempty" doc:"it goes to another agent than the one that failed at it just now"`
}

// What a task waits for, if not for its agent.
const (
	WaitsOperator    = "operator"
	WaitsCoordinator = "coordinator"
)

// Standing returns where the task stands, to move it on.
func (t *Task) Standing() entry.TaskStanding {
	return entry.TaskStanding{State: t.State, Epoch: t.Epoch, RetryCount: t.RetryCount, ResumeCount: t.ResumeCount}
}

// Move returns the entry that moves the task on by an operation, without jti, iss,
// aud and iat; agent is who a claim is for. ok is false if the table of tasks has
// no such operation in this state.
func (t *Task) Move(op string, agent entry.Principal, reason string) (b *entry.Task, ok bool) {
	move, ok := t.Standing().Move(op, false)
	if !ok {
		return nil, false
	}
	move.Wid, move.Task, move.Reason, move.Agent = t.Wid, t.Task, reason, t.Agent
	if move.To == entry.TaskAssigned {
		move.Agent = agent
	}
	return &move, true
}

// ReleaseOp returns the operation by which an operator gives the task to an agent. A
// task that is held or over has none; its reassign says why.
func (t *Task) ReleaseOp() string {
	if t.GivenBy == "" {
		return entry.TaskReassign
	}
	return t.GivenBy
}

// NextAt returns when the task changes by itself, in Unix milliseconds: its lease is
// lost, or the policy lets the task continue. 0: it waits for an entry.
func (t *Task) NextAt() int64 {
	switch {
	case t.Lease != nil:
		return t.Lease.ExpiresAt
	case t.Recovery != nil && t.Waits == WaitsCoordinator && t.Recovery.Due > t.ChangedAt:
		return t.Recovery.Due
	}
	return 0
}

// Lease is a lease on a task, and the answer of POST /v1/tasks/{id}/lease. It is
// the coordinator's word, and no part of the log.
type Lease struct {
	Task      entry.Ref       `json:"task"`
	Agent     entry.Principal `json:"agent"`
	Epoch     int64           `json:"epoch"`
	Session   string          `json:"session" doc:"what renewals name; another one when the coordinator has started again"`
	Seq       int64           `json:"seq" doc:"of the newest renewal; 0: there was none in this session"`
	TermMS    int64           `json:"term_ms" doc:"for how long a renewal holds"`
	RenewMS   int64           `json:"renew_ms" doc:"how often to renew"`
	ExpiresAt int64           `json:"expires_at" doc:"when it is lost, Unix milliseconds by the ledger's clock"`
}

// Renewed is the answer of POST /v1/leases.
type Renewed struct {
	Leases []RenewedLease `json:"leases" doc:"what became of each that the renewal names, in its order"`
}

// RenewedLease is a lease as renewed, or why it was not.
type RenewedLease struct {
	Lease   *Lease   `json:"lease,omitempty" doc:"as renewed"`
	Problem *Problem `json:"problem,omitempty" doc:"why it was not"`
}

// RetriesSpent reports whether the task was claimed and has no retry left (TSK-1): its next
// failure goes to an operator.
func (t *Task) RetriesSpent() bool { return t.Epoch > 0 && t.RetryCount >= t.MaxRetries }
