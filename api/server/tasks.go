package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

const (
	tasksPath  = "/v1/tasks"
	leasesPath = "/v1/leases"
)

// taskQuery is the query of GET /v1/tasks.
type taskQuery struct {
	state  string
	agent  entry.Principal
	wid    entry.WorkflowID
	before uint64
	limit  int
}

// stateOperator stands for the tasks that wait for an operator.
const stateOperator = "operator"

func parseTaskQuery(rawQuery string) (taskQuery, error) {
	p := parseParams(rawQuery, "state", "agent", "workflow", "before", "limit")
	q := taskQuery{
		state: p.values.Get("state"), agent: entry.Principal(p.name("agent")), wid: entry.WorkflowID(p.name("workflow")),
		before: p.number("before", 0, entry.MaxInteger), limit: p.limit(),
	}
	if states := taskStates(); q.state != "" && !slices.Contains(states, q.state) {
		p.refuse("state", "%.40q is none of %s", q.state, strings.Join(states, ", "))
	}
	return q, p.err()
}

// taskStates are the values of the parameter state.
func taskStates() []string {
	states := []string{stateOpen, stateClosed, stateOperator}
	for _, s := range entry.TaskStates() {
		states = append(states, string(s))
	}
	return states
}

func (q *taskQuery) matches(v *coord.TaskView) bool {
	switch {
	case q.wid != "" && v.Wid != q.wid, q.agent != "" && v.Agent != q.agent:
		return false
	case q.state == stateOpen:
		return !v.State.Over()
	case q.state == stateClosed:
		return v.State.Over()
	case q.state == stateOperator:
		return v.Waits() == api.WaitsOperator
	}
	return q.state == "" || string(v.State) == q.state
}

func (q *taskQuery) next(last uint64) string {
	v := url.Values{"before": {strconv.FormatUint(last, 10)}, "limit": {strconv.Itoa(q.limit)}}
	for name, value := range map[string]string{"state": q.state, "agent": string(q.agent), "workflow": string(q.wid)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return tasksPath + "?" + v.Encode()
}

// getTasks is GET /v1/tasks.
func (s *Server) getTasks(_ context.Context, r *request) (*api.Tasks, error) {
	q, err := parseTaskQuery(r.query())
	if err != nil {
		return nil, err
	}
	page, found := &api.Tasks{Tasks: []api.Task{}}, []coord.TaskView(nil)
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		found, page.Next = q.find(state, s.consult)
	})
	for i := range found {
		task, err := s.newTask(&found[i])
		if err != nil {
			return nil, err
		}
		page.Tasks = append(page.Tasks, *task)
	}
	return page, nil
}

// consult fills in what the policy wants done about a task.
func (s *Server) consult(state *coord.State, v *coord.TaskView) {
	state.Recover(v, s.log.Now(), s.coord.Rules())
}

// find returns a page of tasks, and where the list goes on.
func (q *taskQuery) find(state *coord.State, consult func(*coord.State, *coord.TaskView)) (found []coord.TaskView, next string) {
	before := q.before
	for scanned := 0; ; {
		views := state.Tasks(before, incidentBlock)
		for i := range views {
			if len(found) == q.limit || scanned == maxTaskScan {
				return found, q.next(before)
			}
			scanned++
			before = views[i].Created
			consult(state, &views[i])
			if q.matches(&views[i]) {
				found = append(found, views[i])
			}
		}
		if len(views) < incidentBlock {
			return found, ""
		}
	}
}

// getTask is GET /v1/tasks/{id}.
func (s *Server) getTask(_ context.Context, r *request) (*api.Task, error) {
	ref, err := r.task()
	if err != nil {
		return nil, err
	}
	view, ok := coord.TaskView{}, false
	s.coord.Read(func(state *coord.State) {
		if view, ok = state.Task(ref); ok {
			s.consult(state, &view)
			state.Candidates(&view)
		}
	})
	if !ok {
		return nil, noTask(ref)
	}
	answer, err := s.newTask(&view)
	if err == nil {
		answer.Reassign = view.Reassign()
	}
	return answer, err
}

// task returns the path parameter that names a task, on a path without a query.
func (r *request) task() (entry.Ref, error) {
	if err := noParams(r.query()); err != nil {
		return "", err
	}
	id, err := r.pathName("id")
	if err == nil && !validName(id) {
		err = entry.Refuse(entry.Malformed, "id", "%.140q is no reference", id).WithRemedy("write issuer%23id, percent-encoded")
	}
	return entry.Ref(id), err
}

func noTask(ref entry.Ref) error {
	return entry.Refuse(entry.NotFound, "id", "no task %.280s in the log", ref).WithRemedy("GET " + tasksPath + " lists the tasks")
}

// newTask returns what is said of a task.
func (s *Server) newTask(v *coord.TaskView) (*api.Task, error) {
	newest, err := s.log.Entry(v.Changed)
	if err != nil {
		return nil, err
	}
	first, err := s.log.Entry(v.Created)
	if err != nil {
		return nil, err
	}
	t := &api.Task{
		Task: v.Ref, Wid: v.Wid, State: v.State, Epoch: v.Epoch, RetryCount: v.RetryCount, ResumeCount: v.ResumeCount,
		MaxRetries: v.MaxRetries, LeaseMS: v.LeaseMS, Type: v.Type, Agent: v.Agent, Created: v.Created, CreatedAt: first.RegisteredAt, Changed: v.Changed,
		ChangedAt: v.ChangedAt, Executions: v.Executions, Waits: v.Waits(), GivenBy: v.GivenBy(), Failures: v.Failures, Nobody: v.Nobody,
	}
	if b, ok := newest.Body.(*entry.Task); ok {
		t.Reason = b.Reason
	}
	if v.Gate != nil {
		t.Gate = v.Gate.Detail
	}
	if r := v.Recovery; r != nil {
		t.Recovery = &api.TaskRecovery{Strategy: string(r.Action.Strategy), Rule: r.Rule.String(), Reason: string(r.Action.Reason), Due: r.Due, Remediation: r.Remediation, Another: r.Another}
	}
	for _, candidate := range v.Candidates {
		t.Candidates = append(t.Candidates, api.Candidate(candidate))
	}
	if l, ok := s.coord.Leases().Find(v.Ref); ok && v.State.Held() {
		t.Lease = s.newLease(&l)
	}
	return t, nil
}

func (s *Server) newLease(l *coord.Lease) *api.Lease {
	return &api.Lease{Task: l.Task, Agent: l.Agent, Epoch: l.Epoch, Session: l.Session, Seq: l.Seq, TermMS: l.Term.Milliseconds(),
		RenewMS: l.Renew().Milliseconds(), ExpiresAt: s.log.Now() + l.Left.Milliseconds()}
}

// postLeases is POST /v1/leases: an agent renews what it holds, by one signature.
func (s *Server) postLeases(c echo.Context) error {
	if err := noParams(c.Request().URL.RawQuery); err != nil {
		return err
	}
	renewed, err := s.renew(c, "")
	if err != nil {
		return err
	}
	answer := api.Renewed{Leases: make([]api.RenewedLease, len(renewed))}
	for i := range renewed {
		if refused := renewed[i].Refused; refused != nil {
			f := asFailure(refused)
			s.occurred(c, f)
			answer.Leases[i].Problem = f.Problem
			continue
		}
		answer.Leases[i].Lease = s.newLease(&renewed[i].Lease)
	}
	return s.answerJSON(c, &answer)
}

// postLease is POST /v1/tasks/{id}/lease: as postLeases for one, whose problem is
// that of the request.
func (s *Server) postLease(c echo.Context) error {
	ref, err := (&request{c}).task()
	if err != nil {
		return err
	}
	renewed, err := s.renew(c, ref)
	if err != nil {
		return err
	}
	if refused := renewed[0].Refused; refused != nil {
		return refused
	}
	return s.answerJSON(c, s.newLease(&renewed[0].Lease))
}

// renew renews what the body says, of one task alone unless only is empty. A
// renewal that is refused as a whole counts against the client, one that is not for
// it.
func (s *Server) renew(c echo.Context, only entry.Ref) ([]coord.Renewed, error) {
	if mediaType := c.Request().Header.Get(echo.HeaderContentType); mediaType != api.MediaJSON {
		return nil, &failure{Problem: api.NewStatus(http.StatusUnsupportedMediaType, "Content-Type "+strconv.QuoteToASCII(mediaType)+" is not taken here",
			"send the renewal as "+api.MediaJSON)}
	}
	buf := s.buffer()
	defer s.put(buf)
	var err error
	if *buf, err = readBody(c.Request(), *buf, entry.MaxRenewal); err != nil {
		return nil, err
	}
	turn, err := s.enter(c)
	if err != nil {
		return nil, err
	}
	defer turn.end()
	renewed, err := s.renewAll(c, *buf, only)
	if err != nil {
		turn.refused(1)
		return nil, err
	}
	turn.taken()
	return renewed, nil
}

// renewAll is renew behind the body.
func (s *Server) renewAll(c echo.Context, body []byte, only entry.Ref) ([]coord.Renewed, error) {
	r, err := entry.DecodeRenewal(body)
	if err != nil {
		return nil, err
	}
	s.setKey(c, r.KeyID)
	if only != "" && (len(r.Leases) != 1 || r.Leases[0].Task != only) {
		return nil, entry.Refuse(entry.Malformed, "leases", "%d, the first of %s, in the place of %s alone", len(r.Leases), r.Leases[0].Task, only).
			WithRemedy("send to " + leasesPath + " what names several tasks")
	}
	return s.coord.Renew(r)
}

func (s *Server) answerJSON(c echo.Context, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.answer(c, http.StatusOK, api.MediaJSON, body)
}
