package api

import "recoveryledger/ledger/entry"

// Tasks is the answer of GET /v1/tasks.
type Tasks struct {
	Size  uint64 `json:"size" doc:"size of the log that the list follows from"`
	Tasks []Task `json:"tasks" doc:"the newest first"`
	Next  string `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Task is the answer of GET /v1/tasks/{id}: a task as it stands. All but the lease
// follows from the log.
type Task struct {
	Task        entry.Ref        `json:"task"`
	Wid         entry.WorkflowID `json:"wid"`
	State       entry.TaskState  `json:"state" enum:"CREATED,ASSIGNED,IN_PROGRESS,IN_REVIEW,BLOCKED,FAILED,INTERRUPTED,COMPLETED,CANCELLED"`
	Epoch       int64            `json:"epoch" doc:"epoch of the newest claim; 0: there was no claim"`
	RetryCount  int64            `json:"retry_count"`
	ResumeCount int64            `json:"resume_count"`
	MaxRetries  int64            `json:"max_retries"`
	LeaseMS     int64            `json:"lease_ms" doc:"term of a lease in milliseconds"`
	Type        string           `json:"type,omitempty" doc:"capability that the agent needs; absent: only people assign the task"`
	Agent       entry.Principal  `json:"agent,omitempty" doc:"agent of the newest claim"`
	Created     uint64           `json:"created" doc:"index of the task's first entry"`
	Changed     uint64           `json:"changed" doc:"index of the task's newest entry"`
	ChangedAt   int64            `json:"changed_at" doc:"registered_at of the newest entry, Unix milliseconds"`
	CreatedAt   int64            `json:"created_at" doc:"registered_at of the first entry, Unix milliseconds"`
	Reason      string           `json:"reason" doc:"reason in the newest entry, for a BLOCKED task the question; untrusted text"`
	// About is told until the first claim.
	About      *entry.TaskCase `json:"about,omitempty" doc:"case that an engine gave up, and about which the task asks people; told until the task is claimed"`
	Executions int             `json:"executions"`
	Waits      string          `json:"waits,omitempty" enum:"operator,coordinator" doc:"party whose entry the task waits for; absent: the task waits for its agent, or is over"`
	GivenBy    string          `json:"given_by,omitempty" enum:"reassign,release" doc:"operation by which an operator gives the task to an agent; with release the operator also answers for what holds the task up; absent: an agent holds the task, or the task is over"`
	Gate       string          `json:"gate,omitempty" doc:"why the task must not be claimed again yet"`
	// Failures are those since its creation or its newest release, oldest first.
	Failures     []entry.TaskFailure `json:"failures,omitempty" doc:"how the claims ended since the creation or the newest release, the oldest first"`
	Checkpoints  []uint64            `json:"checkpoints,omitempty" doc:"checkpoints from which the task may go on: indexes of their entries, the newest first, at most 16. None is void or expired"`
	Recovery     *TaskRecovery       `json:"recovery,omitempty" doc:"action of the policy for the newest failure, while the task waits"`
	Unassignable bool                `json:"unassignable,omitempty" doc:"whether no agent can get the task: no enrolled agent has the capability, apart from agents that are excluded from a retry"`
	// Candidates are told of one task, not in lists.
	Candidates []Candidate `json:"candidates,omitempty" doc:"agents that may get the task: agents with the capability, the agent with the fewest tasks first; not in lists"`
	// Reassign is told of one task, not in lists.
	Reassign *Reassignment `json:"reassign,omitempty" doc:"agent that an operator may give the task to by reassign, if the state of the task allows that; not in lists"`
	Lease    *Lease        `json:"lease,omitempty" doc:"lease of the agent that holds the task; absent: no agent holds the task"`
}

// Candidate is an agent that may get a task.
type Candidate struct {
	Agent entry.Principal `json:"agent"`
	Held  int64           `json:"held" doc:"number of tasks that the agent holds"`
}

// Reassignment is the choice of an operator for a task that no agent holds.
type Reassignment struct {
	Agent    entry.Principal `json:"agent,omitempty" doc:"agent that gets the task if the operator names none; absent: obstacle says why"`
	Except   entry.Principal `json:"except,omitempty" doc:"agent that must not get the task: the agent just failed, and the policy gives the task to another"`
	Obstacle string          `json:"obstacle,omitempty" enum:"untyped,unassignable,release,busy" doc:"why no agent is chosen: the task has no type, no agent can get the task, the task needs a release, or every agent holds as many tasks as the coordinator gives"`
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

// TaskRecovery is the policy's action for a task that failed or was interrupted.
type TaskRecovery struct {
	Strategy    string `json:"strategy"`
	Rule        string `json:"rule" doc:"rule of the policy that decided"`
	Reason      string `json:"reason" doc:"reason of the action, in one word (docs/policy.md)"`
	Due         int64  `json:"due" doc:"earliest time of the action, Unix milliseconds"`
	Remediation string `json:"remediation,omitempty" doc:"remediation text of the policy, for people"`
	Another     bool   `json:"another,omitempty" doc:"whether the task must go to another agent than the one that just failed"`
}

// Parties that a task waits for, other than its agent.
const (
	WaitsOperator    = "operator"
	WaitsCoordinator = "coordinator"
)

// Matches reports whether a query asks for the task. Its Before and Limit do not count.
func (t *Task) Matches(q *TaskQuery) bool {
	switch {
	case q.Workflow != "" && t.Wid != q.Workflow, q.Agent != "" && t.Agent != q.Agent:
		return false
	case q.State == StateOpen:
		return !t.State.Over()
	case q.State == StateClosed:
		return t.State.Over()
	case q.State == StateOperator:
		return t.Waits == WaitsOperator
	}
	return q.State == "" || string(t.State) == q.State
}

// Standing returns where the task stands, to move it on.
func (t *Task) Standing() entry.TaskStanding {
	return entry.TaskStanding{State: t.State, Agent: t.Agent, Epoch: t.Epoch, RetryCount: t.RetryCount, ResumeCount: t.ResumeCount}
}

// Move returns the entry that moves the task on by an operation, without jti, iss,
// aud and iat; agent is who a claim is for. ok is false if the table of tasks has
// no such operation in this state.
func (t *Task) Move(op string, agent entry.Principal, reason string) (b *entry.Task, ok bool) {
	move, ok := t.Standing().Move(op, agent, false)
	if !ok {
		return nil, false
	}
	move.Wid, move.Task, move.Reason = t.Wid, t.Task, reason
	return &move, true
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
	Session   string          `json:"session" doc:"session that renewals name; every start of the coordinator makes a new session"`
	Seq       int64           `json:"seq" doc:"seq of the newest renewal; 0: there was none in this session"`
	TermMS    int64           `json:"term_ms" doc:"time that a renewal is valid, in milliseconds"`
	RenewMS   int64           `json:"renew_ms" doc:"interval at which the agent renews, in milliseconds"`
	ExpiresAt int64           `json:"expires_at" doc:"time at which the lease is lost, Unix milliseconds by the ledger's clock"`
}

// Renewed is the answer of POST /v1/leases.
type Renewed struct {
	Leases []RenewedLease `json:"leases" doc:"an answer for each lease, in the order of the renewal"`
}

// RenewedLease is a lease as renewed, or why it was not.
type RenewedLease struct {
	Lease   *Lease   `json:"lease,omitempty" doc:"the renewed lease"`
	Problem *Problem `json:"problem,omitempty" doc:"why the lease was not renewed"`
}

// RetriesSpent reports whether the task was claimed and has no retry left (TSK-1): its next
// failure goes to an operator.
func (t *Task) RetriesSpent() bool { return t.Standing().RetriesSpent(t.MaxRetries) }

// HeldUp reports whether no agent gets the task before its last agent or a person answers for its
// effects or its retries. A blocked task is not held up in this sense: its agent asked a person.
func (t *Task) HeldUp() bool { return t.GivenBy == entry.TaskRelease && t.State != entry.TaskBlocked }
