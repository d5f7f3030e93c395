package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/api/words/runs"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// rowsMax is how many lines a list shows on one page.
const rowsMax = 100

// reportPage is the report of a run.
type reportPage struct {
	Run            item
	Report         *engine.Report
	Conclusion     string
	Why            []string
	Sections       []section
	Near           []nearRow
	Links          []string // of the rows of failures
	AllCases, Back string
}

// section is a table of a report.
type section struct {
	ID, Title string
	Headers   []string
	Rows      []linkedRow
}

// linkedRow is a row whose first cell may be a link.
type linkedRow struct {
	Link  string // path below the base; empty: none
	Cells []string
}

// nearRow is a value next to one in force, with which cases end otherwise.
type nearRow struct {
	engine.NearLimit
	At    string
	Links []caseLink
}

// caseLink is a case, and the path of its page.
type caseLink struct{ ID, Link string }

// runOf returns the run that a path names, and the path of its page.
func (l *Lab) runOf(q *http.Request) (i item, at string, err error) {
	if i, err = l.shelf.find("run", aRun, q.PathValue("shelf")+"/"+q.PathValue("run")); err != nil {
		return item{}, "", err
	}
	return i, runPath(&i), nil
}

func runPath(i *item) string { return "/lab/runs/" + i.Shelf + "/" + url.PathEscape(i.Name) }

// report is GET /lab/runs/{shelf}/{run}.
func (l *Lab) report(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	run, at, err := l.runOf(q)
	if err != nil {
		return nil, err
	}
	r, _, err := engine.ReadReport(run.Path)
	if err != nil {
		return nil, refusal(err)
	}
	body := &reportPage{Run: run, Report: r, Conclusion: runs.Conclusion(r.Recommendation), Why: runs.Why(r), AllCases: at + "/cases"}
	for n, s := range r.Sections() {
		shown := section{ID: "s" + strconv.Itoa(n), Title: s.Title, Headers: s.Headers}
		for _, cells := range s.Rows {
			row := linkedRow{Cells: cells}
			if s.Title == engine.Failures {
				row.Link = at + "/cases?class=" + url.QueryEscape(cells[0])
			}
			shown.Rows = append(shown.Rows, row)
		}
		body.Sections = append(body.Sections, shown)
	}
	for _, n := range r.Near {
		body.Near = append(body.Near, nearRow{NearLimit: n, At: figure.Exact(n.Param, n.Value), Links: caseLinks(at+"/case", n.Cases)})
	}
	return &console.Page{Name: "run", Title: "Run " + run.Name, Command: "arl report show " + words.Quoted(run.Path), Body: body}, nil
}

func caseLinks(at string, ids []string) (links []caseLink) {
	for _, id := range ids {
		links = append(links, caseLink{id, at + "?id=" + url.QueryEscape(id)})
	}
	return links
}

// casesPage lists cases of a run.
type casesPage struct {
	Run           item
	Back          string
	Class, Status string
	Statuses      []entry.CaseStatus
	Rows          []caseRow
	More          string // path of the page with the cases behind; empty: there are none
}

type caseRow struct {
	caseLink
	Status  entry.CaseStatus
	Failure string
	Actions int
	Reason  string
}

// cases is GET /lab/runs/{shelf}/{run}/cases.
func (l *Lab) cases(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	run, at, err := l.runOf(q)
	if err != nil {
		return nil, err
	}
	values := q.URL.Query()
	after, err := strconv.Atoi(cmp.Or(values.Get("after"), "0"))
	if err != nil || after < 0 {
		return nil, entry.Refuse(entry.Malformed, "after", "%.40q is not a line of the traces", values.Get("after")).WithRemedy("a line is a number from 0 on")
	}
	k, err := engine.ReadRun(run.Path)
	if err != nil {
		return nil, refusal(err)
	}
	body := &casesPage{Run: run, Back: at, Class: values.Get("class"), Status: values.Get("status"),
		Statuses: []entry.CaseStatus{engine.AutoRecovered, engine.Escalated, engine.NoFailure}}
	line := 0
	for t, err := range k.Traces() {
		if err != nil {
			return nil, refusal(err)
		}
		line++
		failure := scenario.Label{Class: t.Class, Code: t.Code}.String()
		if line <= after || body.Class != "" && failure != body.Class || body.Status != "" && string(t.Status) != body.Status {
			continue
		}
		if len(body.Rows) == rowsMax {
			values.Set("after", strconv.Itoa(line-1))
			body.More = at + "/cases?" + values.Encode()
			break
		}
		if t.Class == "" {
			failure = ""
		}
		body.Rows = append(body.Rows, caseRow{caseLink: caseLinks(at+"/case", []string{t.Case})[0], Status: t.Status, Failure: failure, Actions: len(t.Rungs), Reason: t.Reason})
	}
	command := "cat " + words.Quoted(run.Path+"/"+engine.TracesFile)
	return &console.Page{Name: "cases", Title: "Cases of " + run.Name, Command: command, Body: body}, nil
}

// casePage is one case with the decisions on it.
type casePage struct {
	ID        string
	End       string
	Hint      string
	With      string // what of the policy is otherwise than in its file; empty: nothing
	Steps     *runs.Table
	Decisions []decision
	File      string
	Line      int
	Back      string
	Other     []caseLink // the same case with other values
}

// decision is a decision with its reasoning.
type decision struct {
	Title, Outcome string
	Reasoning      []recovery.Step
}

// caseOf is the page of a case of a file, decided by c. command names the policy and the outcome
// model of c in a terminal.
func caseOf(ctx context.Context, c engine.Config, path, id, flags string) (*console.Page, *casePage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, refusal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	found, line, err := scenario.Find(path, f, id)
	if err != nil {
		return nil, nil, refusal(err)
	}
	if line == 0 {
		return nil, nil, entry.Refuse(entry.NotFound, "id", "no case of %s has the id %.140q", path, id).WithRemedy("the scenario may have changed since the run: compare by arl replay")
	}
	done, decisions, err := c.Explain(ctx, &found)
	if err != nil {
		return nil, nil, refusal(err)
	}
	body := &casePage{ID: id, End: runs.End(&done.Trace), Hint: done.Trace.Hint(), Steps: runs.Steps(&done.Trace), File: path, Line: line}
	for i := range decisions {
		d := &decisions[i]
		body.Decisions = append(body.Decisions, decision{runs.DecisionTitle(d), d.Outcome, d.Reasoning})
	}
	command := fmt.Sprintf("sed -n %dp %s | arl policy explain --case -%s", line, words.Quoted(path), flags)
	return &console.Page{Name: "case", Title: "Case " + id, Command: command, Body: body}, body, nil
}

// caseOfRun is GET /lab/runs/{shelf}/{run}/case: a case of a run, decided again.
func (l *Lab) caseOfRun(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	run, at, err := l.runOf(q)
	if err != nil {
		return nil, err
	}
	k, err := engine.ReadRun(run.Path)
	if err != nil {
		return nil, refusal(err)
	}
	flags, err := l.flags(k.Rules, &k.Snapshot)
	if err != nil {
		return nil, refusal(err)
	}
	config, err := k.Config()
	if err != nil {
		return nil, refusal(err)
	}
	page, body, err := caseOf(q.Context(), config, k.Input(), q.URL.Query().Get("id"), flags)
	if err != nil {
		return nil, err
	}
	body.Back = at
	return page, nil
}

// flags names in a terminal how cases are decided. s has the outcome model and the seed; nil:
// nothing is drawn.
func (l *Lab) flags(p *recovery.Policy, s *engine.Snapshot) (string, error) {
	path, err := l.shelf.keepRules(p)
	if err != nil {
		return "", err
	}
	text := policyFlags(p, path)
	if s == nil || s.Outcomes == nil {
		return text, nil
	}
	content, err := json.Marshal(s.Outcomes)
	if err != nil {
		return "", err
	}
	path, err = l.shelf.hide("outcomes-"+string(entry.DigestOf(content))[len("sha256:"):]+".json", content)
	return fmt.Sprintf("%s --simulate %s --seed %d", text, words.Quoted(path), s.Seed), err
}

// policyFlags names the file of a policy in a terminal; an empty path names the built-in rules.
func policyFlags(p *recovery.Policy, path string) (text string) {
	if path != "" {
		text = " --policy " + words.Quoted(path)
	}
	if len(p.Missing(nil)) > 0 { // the lab asks no strategy
		text += " --allow-missing-strategies"
	}
	return text
}
