package api

import (
	"fmt"
	"math"
	"slices"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// Limits of a request.
const (
	// MaxPage is the number of elements in a page, PageDefault if the query says nothing.
	MaxPage     = 1000
	PageDefault = 100
	// maxHistory is the number of incidents that a page of a history covers: each has up
	// to 64 signals and a plan, and every entry gets its proof.
	maxHistory     = 20
	historyDefault = 10
	// MaxCompletePage is the number of entries of a complete history in one answer.
	MaxCompletePage = 10_000
	// maxEvidence is the number of documents in a page of evidence, each with some
	// receipts.
	maxEvidence = 20
	// bundleDefault is the number of an agent's members in an authorization bundle.
	bundleDefault = 256
	// MaxWait is how long a question for commands may wait for one.
	MaxWait = 25 * time.Second
	// WitnessedDefault is how long a question for a witnessed tree head waits for one if
	// it does not say.
	WitnessedDefault = 5 * time.Second
)

// ListQuery says which entries are asked for. The zero value is all of them.
type ListQuery struct {
	Kinds    []entry.Kind     // only of these kinds; none: of any
	Agent    entry.Principal  // only by this principal, or about it
	Workflow entry.WorkflowID // only of this workflow
	Incident *uint64          // only of this incident
	Task     entry.Ref        // only of this task
	Since    int64            // registered at this instant or later, Unix milliseconds; 0: any
	Until    int64            // registered before this instant; 0: any
	From     uint64           // lowest index
	Before   *uint64          // index behind the highest; nil: the end of the log
	Limit    int              // entries a page; 0: as many as the server likes
	Newest   bool             // from the newest backwards
}

// filters are the parameters that an index answers.
func (q *ListQuery) filters() []Param {
	return []Param{
		kinds(&q.Kinds, "only entries of these kinds, with commas between them"),
		named("agent", &q.Agent, "agent-1", "only entries by or about this principal"),
		named("workflow", &q.Workflow, "flow-1", "only entries of this workflow"),
		optional("incident", &q.Incident, entry.MaxInteger, 4, "only entries of this incident; a signal belongs to the incident that the signal would open"),
		named("task", &q.Task, "olga#book-room", "only entries of this task, issuer#id"),
	}
}

// Params implements [Query].
func (q *ListQuery) Params() []Param {
	return append(q.filters(),
		number("since", &q.Since, entry.MaxInteger, 1790000000000, "only entries registered at or after this time, Unix milliseconds"),
		number("until", &q.Until, entry.MaxInteger, 1900000000000, "only entries registered before this time, Unix milliseconds"),
		number("from", &q.From, math.MaxUint64, 0, "only entries from this index on"),
		optional("before", &q.Before, math.MaxUint64, 1000, "only entries below this index"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "greatest number of entries on a page"),
		flag("newest", &q.Newest, "true: the newest entry first"))
}

// Tags returns the tags of every entry that the query asks for, beside its kind; usually the rarest
// first.
func (q *ListQuery) Tags() []entry.Tag {
	var tags []entry.Tag
	if q.Incident != nil {
		tags = append(tags, entry.Tag{Index: entry.ByIncident, Value: entry.IncidentValue(*q.Incident)})
	}
	return slices.DeleteFunc(append(tags, entry.Tag{Index: entry.ByTask, Value: string(q.Task)},
		entry.Tag{Index: entry.ByWorkflow, Value: string(q.Workflow)}, entry.Tag{Index: entry.ByAgent, Value: string(q.Agent)}),
		func(tag entry.Tag) bool { return tag.Value == "" })
}

// EventsQuery says which entries an event stream has.
type EventsQuery struct {
	From *uint64   // the first index; nil: only new entries
	Only ListQuery // its kinds, agent, workflow, incident and task alone count
}

// Params implements [Query].
func (q *EventsQuery) Params() []Param {
	return append(q.Only.filters(), optional("from", &q.From, math.MaxUint64, 0, "index of the first entry; without from, only new entries"))
}

// ReceiptQuery selects the parts of an answer with a receipt.
type ReceiptQuery struct {
	Links bool // the receipts of the policies and agent entries that its signer counts by
	// Witnessed asks for a tree head that the quorum of witnesses has cosigned, and Wait
	// for how long the answer may wait for one, at most [MaxWait]; 0: [WitnessedDefault].
	Witnessed bool
	Wait      time.Duration
}

// Params implements [Query].
func (q *ReceiptQuery) Params() []Param {
	return []Param{
		flag("links", &q.Links, "true: the receipt, then the receipts of the policies and agent entries that verify its signer, one a line"),
		flag("witnessed", &q.Witnessed, "true: a receipt under a tree head that the quorum of witnesses has cosigned, if there is one in time; "+
			"otherwise a receipt under the newest tree head, with the header "+HeaderWitnessed+": false"),
		waiting(&q.Wait, fmt.Sprintf("with witnessed: time to wait for the cosignatures, in milliseconds, at most %d", MaxWait.Milliseconds())),
	}
}

func (q *ReceiptQuery) check() *entry.Refusal {
	if q.Wait > 0 && !q.Witnessed {
		return refuseParam("wait", "needs witnessed=true: the server waits only for cosignatures")
	}
	return nil
}

// RoundQuery says from where on, and how long, a tree head to cosign is waited for.
type RoundQuery struct {
	From uint64        // entries below the head that the witness cosigned last
	Wait time.Duration // for one of more entries, at most [MaxWait]; 0: the answer comes at once
}

// Params implements [Query].
func (q *RoundQuery) Params() []Param {
	return []Param{
		number("from", &q.From, math.MaxInt64, 0, "size of the tree head that the witness cosigned last; 0: none"),
		waiting(&q.Wait, fmt.Sprintf("time to wait for a larger tree head, in milliseconds, at most %d", MaxWait.Milliseconds())),
	}
}

// EvidenceQuery says which evidence is asked for.
type EvidenceQuery struct {
	From  uint64 // how many documents to leave out
	Limit int    // documents a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *EvidenceQuery) Params() []Param {
	return []Param{number("from", &q.From, math.MaxInt64, 0, "number of documents to skip"),
		pageLimit(&q.Limit, maxEvidence, maxEvidence, "elements a page")}
}

// AgentsQuery says which principals are asked for. The zero value is all of them.
type AgentsQuery struct {
	After  entry.Principal // only those behind it, in the order of their bytes
	Domain string          // only those of this domain
	Counts bool            // with what the log counts of each, which changes as the log grows
	Limit  int             // principals a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *AgentsQuery) Params() []Param {
	return []Param{
		named("after", &q.After, "a", "only principals after this one, in the order of their bytes"),
		named("domain", &q.Domain, "test", "only principals of this domain"),
		flag("counts", &q.Counts, "true: with what the log counts of each principal; the tag then changes as the log grows"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "greatest number of principals on a page"),
	}
}

// Words of the parameter state that select several states.
const (
	StateOpen   = "open"
	StateClosed = "closed"
	// StateUnacknowledged selects incidents that no approver answered in time, or with an
	// amend that no approver answered in time, if no person has acknowledged that.
	StateUnacknowledged = "unacknowledged"
	// StateOperator is of tasks that wait for an operator.
	StateOperator = "operator"
)

// IncidentQuery says which incidents are asked for. The zero value is all of them.
type IncidentQuery struct {
	State    string           // a state, open, closed or unacknowledged; empty: any
	Agent    entry.Principal  // only incidents that involve the principal
	Domain   string           // only incidents that involve a principal of this domain
	Workflow entry.WorkflowID // only incidents whose opening signal is of this workflow
	Before   uint64           // only those below this id; 0: all
	Limit    int              // incidents a page; 0: as many as the server likes
}

// IncidentChoices returns the words that State of an [IncidentQuery] may have.
func IncidentChoices() []string {
	words := []string{StateOpen, StateClosed, StateUnacknowledged}
	for _, state := range entry.IncidentStates() {
		words = append(words, string(state))
	}
	return words
}

// Params implements [Query].
func (q *IncidentQuery) Params() []Param {
	return []Param{
		choice("state", &q.State, IncidentChoices(), "open", "only incidents in this state, or in any open or closed state; unacknowledged: no "+
			"approver answered the incident or an amend of it in time, and no person has acknowledged that"),
		named("agent", &q.Agent, "agent-1", "only incidents that involve this principal, by its own entries or as the agent of members"),
		named("domain", &q.Domain, "test", "only incidents that involve a principal of this domain"),
		named("workflow", &q.Workflow, "flow-1", "only incidents whose opening signal is of this workflow"),
		number("before", &q.Before, entry.MaxInteger, 1000, "only incidents with an id below this one"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "elements a page"),
	}
}

// EscalationQuery says which of the tasks and incidents that wait for people are asked for. The
// zero value is all of them.
type EscalationQuery struct {
	Before uint64 // only those whose first entry is below this index; 0: all
	Limit  int    // elements a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *EscalationQuery) Params() []Param {
	return []Param{
		number("before", &q.Before, entry.MaxInteger, 1000, "only tasks and incidents whose first entry is below this index"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "elements a page"),
	}
}

// TaskQuery says which tasks are asked for. The zero value is all of them.
type TaskQuery struct {
	State    string           // a state, open, closed, or operator for tasks that wait for an operator; empty: any
	Agent    entry.Principal  // only tasks whose newest claim is of this agent
	Workflow entry.WorkflowID // only those of it
	Before   uint64           // only tasks whose first entry is below this index; 0: all
	Limit    int              // tasks a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *TaskQuery) Params() []Param {
	states := []string{StateOpen, StateClosed, StateOperator}
	for _, state := range entry.TaskStates() {
		states = append(states, string(state))
	}
	return []Param{
		choice("state", &q.State, states, "open", "only tasks in this state, or in any open or closed state; operator: tasks that wait for an operator"),
		named("agent", &q.Agent, "agent-1", "only tasks whose newest claim is of this agent"),
		named("workflow", &q.Workflow, "flow-1", "only tasks of this workflow"),
		number("before", &q.Before, entry.MaxInteger, 1000, "only tasks whose first entry is below this index"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "elements a page"),
	}
}

// PlanQuery says which plan of an incident is asked for.
type PlanQuery struct {
	Preview   bool     // the plan that a decision would have now, even if a decision is in force
	Dismissed []uint64 // of a preview: indexes of signals to leave out
	Before    uint64   // only members below this index; 0: all
	Limit     int      // members a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *PlanQuery) Params() []Param {
	return []Param{
		flag("preview", &q.Preview, "true: the plan that a decision would have now, even if a decision is in force"),
		numbers("dismissed", &q.Dismissed, "4", "with preview: indexes of signals to leave out, with commas between them"),
		number("before", &q.Before, entry.MaxInteger, 1000, "only members below this index"),
		pageLimit(&q.Limit, MaxPage, MaxPage, "elements a page"),
	}
}

func (q *PlanQuery) check() *entry.Refusal {
	if len(q.Dismissed) > 0 && !q.Preview {
		return refuseParam("dismissed", "needs preview=true: only a preview leaves signals out")
	}
	return nil
}

// BundleQuery says which authorization bundle is asked for.
type BundleQuery struct {
	Incident uint64          // index of its opening signal; 0: news alone
	Agent    entry.Principal // whose members
	// From is the size of the head that the agent accepted last: of its
	// [bundle.Accepted]. 0: none.
	From uint64
	// After is where the page before ended. 0: the first page.
	After uint64
	// Whole asks for all policies and keys, whatever the agent accepted: some are
	// missing (TRU-2, TRU-3).
	Whole bool
	// Absences asks for the proof that the bundle leaves nothing out (ABS-1 to ABS-4), also
	// where the policy does not want it.
	Absences bool
	// Limit is how many of the agent's members a page may have. 0: as many as the server
	// likes.
	Limit int
}

// Params implements [Query] for the bundle of an incident.
func (q *BundleQuery) Params() []Param {
	agent := named("agent", &q.Agent, "agent-1", "agent whose members the bundle shows")
	agent.Required = true
	absences := flag("absences", &q.Absences, "true: the bundle must prove that it leaves nothing out (ABS-1 to ABS-4), even if the policy does not ask for the proof")
	return append([]Param{agent, absences}, (*NewsQuery)(q).Params()...)
}

// URL returns the path that asks for the bundle of an incident, or for news.
func (q *BundleQuery) URL() string {
	if q.Incident == 0 {
		return URL(PathNews, (*NewsQuery)(q), q.Agent)
	}
	return URL(PathBundle, q, q.Incident)
}

// NewsQuery is a BundleQuery for news. The path names its agent.
type NewsQuery BundleQuery

// Params implements [Query].
func (q *NewsQuery) Params() []Param {
	return []Param{
		number("from", &q.From, entry.MaxInteger, 0, "size of the tree head that the agent accepted last; policies, keys and the consistency proof begin there"),
		number("after", &q.After, entry.MaxInteger, 0, "where the previous page ended, as its header Link says"),
		flag("whole", &q.Whole, "true: all policies and keys, for an agent that lacks some (TRU-2, TRU-3)"),
		pageLimit(&q.Limit, bundleDefault, bundle.MaxMembers, "elements a page"),
	}
}

// CommandsQuery says since when and how long is waited for commands.
type CommandsQuery struct {
	// From is the size of the previous answer: only newer entries end the wait. 0: every entry
	// counts.
	From uint64
	// Wait is how long the server may wait for something, at most [MaxWait]. 0: it
	// answers at once.
	Wait time.Duration
}

// Params implements [Query].
func (q *CommandsQuery) Params() []Param {
	return []Param{
		number("from", &q.From, entry.MaxInteger, 0, "size of the previous answer; only newer entries end the wait"),
		waiting(&q.Wait, fmt.Sprintf("time to wait, in milliseconds, at most %d", MaxWait.Milliseconds())),
	}
}

// HistoryQuery selects a part of a history: backwards from its end, or the incidents that changed
// after an index.
type HistoryQuery struct {
	Before *uint64 // only incidents below this id; nil or 0: all
	After  *uint64 // only incidents in which something changed behind this index; nil: read backwards
	Limit  int     // incidents a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *HistoryQuery) Params() []Param {
	return []Param{
		optional("before", &q.Before, entry.MaxInteger, 1000, "only incidents with an id below this one"),
		optional("after", &q.After, entry.MaxInteger, 0, "in place of before: only incidents that changed after this index, the oldest change first; "+
			"pass the cursor of an answer as the next after"),
		pageLimit(&q.Limit, historyDefault, maxHistory, "elements a page"),
	}
}

func (q *HistoryQuery) check() *entry.Refusal {
	if q.After != nil && q.Before != nil {
		return refuseParam("after", "before reads a history backwards, and after reads it forward: pass one of them")
	}
	return nil
}

// GraphQuery says which executions of a workflow are asked for.
type GraphQuery struct {
	Before uint64 // only executions whose first entry is below this index; 0: all
	Limit  int    // executions a page; 0: as many as the server likes
}

// Params implements [Query].
func (q *GraphQuery) Params() []Param {
	return []Param{number("before", &q.Before, entry.MaxInteger, 1000, "only executions whose first entry is below this index"),
		pageLimit(&q.Limit, PageDefault, MaxPage, "elements a page")}
}
