package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// getTasks is GET /v1/tasks.
func (s *Server) getTasks(_ context.Context, r *request) (*api.Tasks, error) {
	q := queryOf[api.TaskQuery](r)
	page, now := &api.Tasks{}, s.log.Now()
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		var next *api.TaskQuery
		if page.Tasks, next = view.Tasks(state, s.coord.Rules(), q, now); next != nil {
			page.Next = api.URL(api.PathTasks, next)
		}
	})
	for i := range page.Tasks {
		if err := s.complete(&page.Tasks[i]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// getTask is GET /v1/tasks/{id}.
func (s *Server) getTask(_ context.Context, r *request) (*api.Task, error) {
	ref, err := r.task()
	if err != nil {
		return nil, err
	}
	task, ok := api.Task{}, false
	s.coord.Read(func(state *coord.State) {
		if task, ok = state.Task(ref); ok {
			state.Consult(&task, s.log.Now(), s.coord.Rules())
			state.Candidates(&task)
		}
	})
	if !ok {
		return nil, noTask(ref)
	}
	return &task, s.complete(&task)
}

// task returns the path parameter that names a task.
func (r *request) task() (entry.Ref, error) {
	id, err := r.name("id")
	if err == nil && !api.ValidName(id) {
		err = entry.Refuse(entry.Malformed, "id", "%.140q is not a reference", id).WithRemedy("write issuer%23id, percent-encoded")
	}
	return entry.Ref(id), err
}

func noTask(ref entry.Ref) error {
	return entry.Refuse(entry.NotFound, "id", "no task %.280s in the log", ref).WithRemedy("GET " + api.PathTasks + " lists the tasks")
}

// complete fills in the members of a task that the fold does not keep.
func (s *Server) complete(t *api.Task) error {
	newest, err := s.log.Entry(t.Changed)
	if err != nil {
		return err
	}
	first, err := s.log.Entry(t.Created)
	if err != nil {
		return err
	}
	t.CreatedAt = first.RegisteredAt
	if b, ok := newest.Body.(*entry.Task); ok {
		t.Reason, t.About = b.Reason, b.About
	}
	if l, ok := s.coord.Leases().Find(t.Task, s.log.Now()); ok && t.State.Held() {
		t.Lease = &l
	}
	return nil
}

// postLeases is POST /v1/leases: an agent renews its leases under one signature.
func (s *Server) postLeases(r *request) error {
	renewed, err := s.renew(r.c, "")
	if err != nil {
		return err
	}
	answer := api.Renewed{Leases: make([]api.RenewedLease, len(renewed))}
	for i := range renewed {
		if refused := renewed[i].Refused; refused != nil {
			f := asFailure(refused)
			s.occurred(r.c, f)
			answer.Leases[i].Problem = f.Problem
			continue
		}
		answer.Leases[i].Lease = &renewed[i].Lease
	}
	return s.answerJSON(r.c, &answer)
}

// postLease is POST /v1/tasks/{id}/lease: like postLeases, for one lease. A problem of the
// lease is the problem of the request.
func (s *Server) postLease(r *request) error {
	ref, err := r.task()
	if err != nil {
		return err
	}
	renewed, err := s.renew(r.c, ref)
	if err != nil {
		return err
	}
	if refused := renewed[0].Refused; refused != nil {
		return refused
	}
	return s.answerJSON(r.c, &renewed[0].Lease)
}

// renew renews the leases that the body names. If only is not empty, the body must name the
// lease of that task alone. A renewal that is refused as a whole counts against the client.
// Any other renewal counts for the client.
func (s *Server) renew(c echo.Context, only entry.Ref) ([]coordinator.Renewed, error) {
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
	until, err := s.fresh(c.Request().Context()) // behind the body, which may come late
	if err != nil {
		return nil, err
	}
	renewed, err := s.renewAll(c, *buf, only, until)
	switch {
	case errors.Is(err, coordinator.ErrLate):
		return nil, apart(agreement.ErrOvertaken)
	case err != nil:
		turn.refused(1)
		return nil, err
	}
	turn.taken()
	return renewed, nil
}

// renewAll is the part of renew after the body is read.
func (s *Server) renewAll(c echo.Context, body []byte, only entry.Ref, until time.Time) ([]coordinator.Renewed, error) {
	r, err := entry.DecodeRenewal(body)
	if err != nil {
		return nil, err
	}
	s.setKey(c, r.KeyID)
	if only != "" && (len(r.Leases) != 1 || r.Leases[0].Task != only) {
		return nil, entry.Refuse(entry.Malformed, "leases", "%d, the first of %s, in the place of %s alone", len(r.Leases), r.Leases[0].Task, only).
			WithRemedy("send to " + api.PathLeases + " what names several tasks")
	}
	return s.coord.Renew(r, until, s.log.Now())
}

func (s *Server) answerJSON(c echo.Context, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.answer(c, http.StatusOK, api.MediaJSON, body)
}
