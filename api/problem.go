package api

import (
	"cmp"
	"net/http"
	"strings"

	"recoveryledger/ledger/entry"
)

const (
	typePrefix     = "urn:agent-recovery:problem:"
	instancePrefix = "urn:agent-recovery:request:"
	// typeBlank says that the status is all there is to say (RFC 9457, section
	// 4.2.1).
	typeBlank = "about:blank"
)

// Problem is an error as RFC 9457 problem details. It is an error of the
// client's methods.
type Problem struct {
	Type     string `json:"type" doc:"urn:agent-recovery:problem:<name>, or about:blank"`
	Title    string `json:"title" doc:"what the type means"`
	Status   int    `json:"status" doc:"HTTP status"`
	Detail   string `json:"detail" doc:"what is wrong in this request, with the value at fault"`
	Field    string `json:"field,omitempty" doc:"the member or parameter at fault, as a path"`
	Remedy   string `json:"remedy" doc:"how to correct the request"`
	Instance string `json:"instance,omitempty" doc:"urn:agent-recovery:request:<request id>; absent in the lines of a batch"`
	// RetryAfterMS is the Retry-After header with more digits.
	RetryAfterMS int64 `json:"retry_after_ms,omitzero" doc:"time to wait before the next try, in milliseconds"`
	// Incident and WaitsFor are of fenced-dependency.
	Incident uint64 `json:"incident,omitzero" doc:"the incident whose fence refuses the execution"`
	WaitsFor string `json:"waits_for,omitempty" doc:"what that incident waits for; absent: the incident is over, and the fence stands until an approver releases the members"`
}

// NewProblem returns the problem that a refusal is.
func NewProblem(r *entry.Refusal) *Problem {
	t, ok := Explain(string(r.Problem))
	if !ok {
		return NewStatus(http.StatusInternalServerError, r.Detail, r.Remedy)
	}
	remedy := cmp.Or(r.Remedy, t.Remedy)
	if r.Remedy == "" && r.Problem == entry.Malformed && r.Field == "" {
		remedy = "correct the mistake that detail names" // no field names it
	}
	return &Problem{
		Type: t.URI(), Title: t.Title, Status: t.Status, Detail: r.Detail, Field: r.Field,
		Remedy: remedy, RetryAfterMS: r.RetryAfterMS, Incident: r.Incident, WaitsFor: r.WaitsFor,
	}
}

// NewStatus returns a problem for which the protocol has no type: a plain HTTP
// status.
func NewStatus(status int, detail, remedy string) *Problem {
	return &Problem{Type: typeBlank, Title: http.StatusText(status), Status: status, Detail: detail, Remedy: remedy}
}

// Error implements error.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(cmp.Or(string(p.Name()), p.Title))
	if p.Field != "" {
		b.WriteString(": " + p.Field)
	}
	b.WriteString(": " + p.Detail)
	if p.Remedy != "" {
		b.WriteString(" (" + p.Remedy + ")")
	}
	return b.String()
}

// Name returns the problem's type by its name in the protocol; empty for a
// plain HTTP status.
func (p *Problem) Name() entry.Problem {
	name, ok := strings.CutPrefix(p.Type, typePrefix)
	if !ok {
		return ""
	}
	return entry.Problem(name)
}

// SetRequest makes the problem an occurrence in the request with that id.
func (p *Problem) SetRequest(id string) { p.Instance = instancePrefix + id }

// RequestID returns the id of the request that the problem occurred in; empty
// if it names none.
func (p *Problem) RequestID() string {
	id, ok := strings.CutPrefix(p.Instance, instancePrefix)
	if !ok {
		return ""
	}
	return id
}

// Temporary reports whether the same request may succeed later without a change: the client sent
// too much, or the server or a proxy cannot answer now.
func (p *Problem) Temporary() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
