package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/api/words/runs"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/ledger/entry"
)

// sweepForm is the form of a sweep, or of a comparison.
type sweepForm struct {
	Scenarios, Policies, Runs []item
	Scenario, Policy          string
	Field, Range              string
	Numbers                   []number // of the policy
}

// number is a number of a policy.
type number struct {
	Path, Value string
}

// sweepJob is a sweep.
type sweepJob struct {
	sweep    *engine.Sweep
	scenario string // path
	report   engine.SweepReport
}

// sweepForm is GET /lab/sweep.
func (l *Lab) sweepForm(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values := q.URL.Query()
	body := &sweepForm{Scenario: values.Get("scenario"), Policy: values.Get("policy"), Field: values.Get("field"), Range: values.Get("range")}
	var err error
	if _, body.Scenarios, body.Policies, err = l.shelf.list(); err != nil {
		return nil, refusal(err)
	}
	if p, _, err := l.shelf.rules("policy", body.Policy); err == nil { // else the sweep says what is wrong
		body.Numbers = numbers(p)
	}
	return &console.Page{Name: "sweep", Title: "Sweep", Command: "arl sweep --scenario FILE --policy FILE --param NAME=FIRST..LAST/STEP", Body: body}, nil
}

// numbers lists the limits, thresholds and bounds of rungs of a policy.
func numbers(p *recovery.Policy) (list []number) {
	for _, b := range p.Bounds() {
		list = append(list, number{b.Path, figure.Exact(b.Path, b.Value)})
	}
	var doc struct {
		Thresholds map[string]json.RawMessage `json:"thresholds"`
	}
	if json.Unmarshal(p.JSON(), &doc) != nil {
		return list
	}
	var names []string
	for name := range doc.Thresholds {
		names = append(names, "thresholds."+name)
	}
	slices.Sort(names)
	for _, path := range names {
		if n, ok := p.Int(path); ok {
			list = append(list, number{path, figure.Exact(path, n)})
		}
	}
	return list
}

// startSweep is POST /lab/sweep.
func (l *Lab) startSweep(w http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values, err := form(w, q)
	if err != nil {
		return nil, err
	}
	cases, err := l.shelf.find("scenario", aScenario, values.Get("scenario"))
	if err != nil {
		return nil, err
	}
	p, path, err := l.shelf.rules("policy", values.Get("policy"))
	if err != nil {
		return nil, refusal(err)
	}
	text := strings.TrimSpace(values.Get("field")) + "=" + strings.TrimSpace(values.Get("range"))
	param, points, err := engine.ParseRange(text)
	var sweep *engine.Sweep
	if err == nil {
		sweep, err = engine.NewSweep(engine.NewSetup(p, 0).Config, param, points)
	}
	if err != nil {
		return nil, entry.Refuse(entry.Malformed, "range", "%s", err).WithRemedy("name a number of the policy, and a range such as 1..6 or 10000..60000/5000")
	}
	sweep.Workers = l.cfg.Workers
	s := &sweepJob{sweep: sweep, scenario: cases.Path}
	return l.begin(&job{
		Title:   "Sweep of " + param + " over " + cases.Name,
		Command: fmt.Sprintf("arl sweep --scenario %s --param %s%s", words.Quoted(cases.Path), words.Quoted(text), policyFlags(p, path)),
		unit:    "bytes",
		back: "/lab/sweep?" + url.Values{"scenario": {values.Get("scenario")}, "policy": {values.Get("policy")},
			"field": {values.Get("field")}, "range": {values.Get("range")}}.Encode(),
		do:    s.do,
		show:  s.show,
		sweep: s,
	})
}

func (s *sweepJob) do(ctx context.Context, tell func(done, total int64)) error {
	f, err := os.Open(s.scenario)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	size := sizeOf(s.scenario)
	s.sweep.Progress = func(read int64) { tell(read, max(size, read)) }
	s.report, err = s.sweep.Run(ctx, s.scenario, f)
	return err
}

// sweepFinding is what a sweep found.
type sweepFinding struct {
	Chart  *chart
	Points *runs.Table
	Notes  []string
	End    []string
	Flips  []flipRow
	Chosen *chosenFlip
}

// flipRow is a flip in the list of flips.
type flipRow struct {
	Title string
	Gates []string
	Link  string // path of the page with its cases; empty: no case flips
}

// chosenFlip is the flip whose cases are listed.
type chosenFlip struct {
	Title string
	Cases []flippedCase
	More  int64 // cases that have no name here
}

// flippedCase is a case that ends otherwise, and the paths of its pages on both sides.
type flippedCase struct {
	Text     string
	From, To caseLink
}

// show shows the finding, with the cases of the flip that the query chooses, from 1.
func (s *sweepJob) show(q *http.Request, p *jobPage) error {
	r := &s.report
	at := "/lab/jobs/" + strconv.Itoa(p.N)
	found := &sweepFinding{Chart: drawSweep(r, at), Points: runs.Points(r), Notes: runs.PointNotes(r), End: runs.SweepEnd(r)}
	for n := range r.Flips {
		f := &r.Flips[n]
		row := flipRow{Title: runs.FlipTitle(r.Param, f)}
		for _, g := range f.Gates {
			row.Gates = append(row.Gates, runs.FlipGate(&g))
		}
		if f.Count > 0 {
			row.Link = flipLink(at, n)
		}
		found.Flips = append(found.Flips, row)
	}
	if text := q.URL.Query().Get("flip"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(r.Flips) {
			return entry.Refuse(entry.NotFound, "flip", "%.40q is no flip of this sweep", text).WithRemedy("the page of the job lists its flips")
		}
		found.Chosen = s.chosen(p.N, &r.Flips[n-1])
	}
	p.Sweep = found
	return nil
}

// flipLink returns the path of the page with the cases of a flip.
func flipLink(at string, n int) string { return at + "?flip=" + strconv.Itoa(n+1) + "#cases" }

// chosen lists the cases of a flip.
func (s *sweepJob) chosen(n int, f *engine.Flip) *chosenFlip {
	c := &chosenFlip{Title: runs.FlipTitle(s.report.Param, f), More: f.Count - int64(len(f.Cases))}
	at := func(value int64, id string) caseLink {
		return caseLink{figure.Exact(s.report.Param, value), fmt.Sprintf("/lab/jobs/%d/case?at=%d&id=%s", n, value, url.QueryEscape(id))}
	}
	for i := range f.Cases {
		of := &f.Cases[i]
		c.Cases = append(c.Cases, flippedCase{Text: runs.FlipCase(of), From: at(f.From, of.Case), To: at(f.To, of.Case)})
	}
	return c
}

// caseOfJob is GET /lab/jobs/{job}/case: a case under a value of a sweep.
func (l *Lab) caseOfJob(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	j, err := l.find(q)
	if err != nil {
		return nil, err
	}
	if j.sweep == nil {
		return nil, entry.Refuse(entry.NotFound, "job", "job %d is not a sweep", j.N).WithRemedy("the page of the lab lists the jobs")
	}
	s, values := j.sweep, q.URL.Query()
	value, err := strconv.ParseInt(values.Get("at"), 10, 64)
	if err != nil || !slices.Contains(s.sweep.Values, value) {
		return nil, entry.Refuse(entry.NotFound, "at", "%.40q is no value of this sweep", values.Get("at")).WithRemedy("the page of the job lists its values")
	}
	p, err := s.sweep.Policy.With(s.sweep.Param, value)
	if err != nil {
		return nil, refusal(err)
	}
	flags, err := l.flags(p, nil)
	if err != nil {
		return nil, refusal(err)
	}
	config := s.sweep.Config
	config.Policy = p
	page, body, err := caseOf(q.Context(), config, s.scenario, values.Get("id"), flags)
	if err != nil {
		return nil, err
	}
	body.With = fmt.Sprintf("%s is %s", s.sweep.Param, figure.Exact(s.sweep.Param, value))
	body.Back = "/lab/jobs/" + strconv.Itoa(j.N)
	at := slices.Index(s.sweep.Values, value)
	for _, n := range []int{at - 1, at + 1} {
		if n >= 0 && n < len(s.sweep.Values) {
			other := s.sweep.Values[n]
			body.Other = append(body.Other, caseLink{figure.Exact(s.sweep.Param, other), fmt.Sprintf("%s/case?at=%d&id=%s", body.Back, other, url.QueryEscape(body.ID))})
		}
	}
	return page, nil
}
