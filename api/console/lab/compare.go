package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/api/words/runs"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger/entry"
)

// compareForm is the forms of a comparison, and what two runs differ in.
type compareForm struct {
	Scenarios, Policies, Runs []item
	Scenario, Before, After   string
	RunBefore, RunAfter       string
	Found                     *comparison
}

// comparison is two runs side by side.
type comparison struct {
	Before, After side
	Gates         []gatePair
	Classes       *runs.Table
	Notes         []string
	Changes       []policyfile.Change // of the policy
	Same          bool                // the policies have the same rules
}

// side is one of two runs.
type side struct {
	Name, Link string
	Report     *engine.Report
	Conclusion string
	Why        []string
}

// gatePair is a gate in two runs.
type gatePair struct{ Gate, Before, After string }

// compare is GET /lab/compare: the forms, or the comparison of two runs that the query names.
func (l *Lab) compare(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values := q.URL.Query()
	body := &compareForm{Scenario: values.Get("scenario"), Before: values.Get("before"), After: values.Get("after"),
		RunBefore: values.Get("run_before"), RunAfter: values.Get("run_after")}
	var err error
	if body.Runs, body.Scenarios, body.Policies, err = l.shelf.list(); err != nil {
		return nil, refusal(err)
	}
	page := &console.Page{Name: "compare", Title: "Compare", Command: "arl report diff BEFORE AFTER", Body: body}
	if body.RunBefore == "" && body.RunAfter == "" {
		return page, nil
	}
	before, err := l.shelf.find("run_before", aRun, body.RunBefore)
	if err != nil {
		return nil, err
	}
	after, err := l.shelf.find("run_after", aRun, body.RunAfter)
	if err != nil {
		return nil, err
	}
	if body.Found, err = compareRuns(&before, &after); err != nil {
		return nil, refusal(err)
	}
	page.Title = "Compare " + before.Name + " with " + after.Name
	page.Command = diffCommand(before.Path, after.Path)
	return page, nil
}

func diffCommand(before, after string) string {
	return "arl report diff " + words.Quoted(before) + " " + words.Quoted(after)
}

// compareRuns reads two runs.
func compareRuns(before, after *item) (*comparison, error) {
	c := &comparison{}
	var policies [2][]byte
	for n, i := range []*item{before, after} {
		report, _, err := engine.ReadReport(i.Path)
		if err != nil {
			return nil, err
		}
		s := side{Name: i.Name, Link: runPath(i), Report: report, Conclusion: runs.Conclusion(report.Recommendation), Why: runs.Why(report)}
		k, err := engine.ReadRun(i.Path)
		if err != nil {
			return nil, err
		}
		policies[n] = k.Rules.JSON()
		if n == 0 {
			c.Before = s
		} else {
			c.After = s
		}
	}
	d := engine.Diff(c.Before.Report, c.After.Report)
	c.Classes, c.Notes = runs.Changes(&d), runs.ChangeNotes(&d)
	c.Same = c.Before.Report.PolicyDigest == c.After.Report.PolicyDigest
	was := map[string]string{}
	for i := range c.Before.Report.Gates {
		g := &c.Before.Report.Gates[i]
		was[g.Gate] = g.Text()
	}
	for i := range c.After.Report.Gates {
		g := &c.After.Report.Gates[i]
		c.Gates = append(c.Gates, gatePair{g.Gate, was[g.Gate], g.Text()})
	}
	var err error
	c.Changes, err = policyfile.Changes(policies[0], policies[1])
	return c, err
}

// compareJob takes one scenario through two policies.
type compareJob struct {
	lab           *Lab
	scenario      string // path
	policies      [2]*recovery.Policy
	before, after item // the runs
}

// startCompare is POST /lab/compare.
func (l *Lab) startCompare(w http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values, err := form(w, q)
	if err != nil {
		return nil, err
	}
	cases, err := l.shelf.find("scenario", aScenario, values.Get("scenario"))
	if err != nil {
		return nil, err
	}
	c := &compareJob{lab: l, scenario: cases.Path}
	var names, flags [2]string
	for n, field := range []string{"before", "after"} {
		var path string
		if c.policies[n], path, err = l.shelf.rules(field, values.Get(field)); err != nil {
			return nil, refusal(err)
		}
		names[n], flags[n] = "the built-in rules", policyFlags(c.policies[n], path)
		if path != "" {
			names[n] = filepath.Base(path)
		}
	}
	if c.before, c.after, err = l.shelf.newPair(); err != nil {
		return nil, refusal(err)
	}
	recoverCommand := "arl recover --scenario " + words.Quoted(cases.Path)
	return l.begin(&job{
		Title: fmt.Sprintf("Compare %s with %s over %s", names[0], names[1], cases.Name),
		Command: fmt.Sprintf("%s%s --out before; %s%s --baseline before/%s --out after; arl report diff before after",
			recoverCommand, flags[0], recoverCommand, flags[1], engine.ReportFile),
		unit: "bytes",
		back: "/lab/compare?" + url.Values{"scenario": {values.Get("scenario")}, "before": {values.Get("before")}, "after": {values.Get("after")}}.Encode(),
		do:   c.do,
		show: c.show,
	})
}

// newPair returns two runs that are not there yet.
func (s *shelf) newPair() (before, after item, err error) {
	for n := 1; ; n++ {
		name := "comparison-" + strconv.Itoa(n)
		before = item{Shelf: given, Name: name + "-before", Kind: aRun, Path: filepath.Join(s.given, name+"-before")}
		after = item{Shelf: given, Name: name + "-after", Kind: aRun, Path: filepath.Join(s.given, name+"-after")}
		_, err := os.Stat(before.Path)
		if errors.Is(err, os.ErrNotExist) {
			return before, after, nil
		}
		if err != nil {
			return before, after, err
		}
	}
}

func (c *compareJob) do(ctx context.Context, tell func(done, total int64)) error {
	size := sizeOf(c.scenario)
	first, err := c.run(ctx, &c.before, c.policies[0], nil, func(read, _ int64) { tell(read, 2*size) })
	if err == nil {
		_, err = c.run(ctx, &c.after, c.policies[1], first, func(read, _ int64) { tell(size+read, 2*size) })
	}
	if err != nil { // half of a comparison is none
		err = errors.Join(err, os.RemoveAll(c.before.Path), os.RemoveAll(c.after.Path))
	}
	return err
}

// run takes the scenario through a policy, and returns what a later run is compared with.
func (c *compareJob) run(ctx context.Context, to *item, p *recovery.Policy, baseline *engine.Baseline, tell func(done, total int64)) (*engine.Baseline, error) {
	r := engine.NewSetup(p, 0).NewRun(c.lab.cfg.Workers)
	r.Scenario, r.Baseline, r.Progress = c.scenario, baseline, tell
	if err := r.Keep(to.Path, false); err != nil {
		return nil, err
	}
	defer r.Dir.Close() //nolint:errcheck // the end of the process closes it, too
	if _, err := r.Execute(ctx, c.lab.cfg.Build, "", c.lab.cfg.Now); err != nil {
		return nil, err
	}
	report, text, err := engine.ReadReport(to.Path)
	if err != nil {
		return nil, err
	}
	return engine.NewBaseline(report, entry.DigestOf(text)), nil
}

func (c *compareJob) show(_ *http.Request, p *jobPage) (err error) {
	p.Compare, err = compareRuns(&c.before, &c.after)
	return err
}
