package lab

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/api/console"
	"recoveryledger/api/words/runs"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/webpage"
)

// fixture is a scenario with a hundred cases.
const fixture = "../../../testdata/tool_chain_failures.ndjson"

// calm is a log of which no page of the lab shows anything.
type calm struct{ console.Source }

func (calm) Standing() console.Standing { return console.Standing{Head: merkle.Head{Size: 1}} }

// stand is a lab with its pages. Jobs go on where the test says so.
type stand struct {
	*testing.T
	*Lab
	pages http.Handler
}

// open opens a lab with a scenario and a policy of fewer attempts in its directory.
func open(t *testing.T) *stand {
	t.Helper()
	dir := t.TempDir()
	cases, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	p, err := recovery.Default().With("limits.attempts", 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"cases.ndjson": cases, "hasty.json": fmt.Appendf(nil, `{"recovery":%s}`, p.JSON()), "notes.txt": nil, ".hidden.yaml": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New(&Config{Runs: dir, Uploads: t.TempDir(), Workers: 2, Now: func() int64 { return 1 },
		InForce: func() *entry.Policy { return entry.Genesis("") }})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := console.New(&console.Config{Source: calm{}, Origin: "ledger.example/test", Derived: true, Base: "/c0ffee", Room: l})
	if err != nil {
		t.Fatal(err)
	}
	return &stand{t, l, http.StripPrefix("/c0ffee", pages)}
}

// run makes a run in the directory of the lab.
func (s *stand) run(name string, p *recovery.Policy) string {
	s.Helper()
	dir := filepath.Join(s.cfg.Runs, name)
	r := engine.NewSetup(p, 0).NewRun(2)
	r.Scenario = filepath.Join(s.cfg.Runs, "cases.ndjson")
	if err := r.Keep(dir, false); err != nil {
		s.Fatal(err)
	}
	if _, err := r.Execute(s.Context(), "test", "", s.cfg.Now); err != nil {
		s.Fatal(err)
	}
	if err := r.Dir.Close(); err != nil {
		s.Fatal(err)
	}
	return dir
}

// ask sends a request, and holds the page that answers to the rules of pages.
func (s *stand) ask(method, path, media, body string, status int) *httptest.ResponseRecorder {
	s.Helper()
	q := httptest.NewRequest(method, "/c0ffee"+path, strings.NewReader(body))
	q.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, q)
	if w.Code != status {
		s.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	if status != http.StatusSeeOther {
		webpage.Check(s.T, path, w.Body.String())
		if w.Header().Get("Content-Security-Policy") == "" {
			s.Errorf("%s: no Content-Security-Policy", path)
		}
	}
	return w
}

// get returns the text of a page.
func (s *stand) get(path string, status int) string {
	s.Helper()
	return html.UnescapeString(s.ask(http.MethodGet, path, "", "", status).Body.String())
}

// shows holds a page to what the page must say.
func (s *stand) shows(path string, texts ...string) string {
	s.Helper()
	page := s.get(path, http.StatusOK)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.Errorf("%s does not say %q:\n%s", path, text, page)
		}
	}
	return page
}

// post sends a form, and returns the path of the page that it leads to.
func (s *stand) post(path string, values url.Values) string {
	s.Helper()
	w := s.ask(http.MethodPost, path, "application/x-www-form-urlencoded", values.Encode(), http.StatusSeeOther)
	return strings.TrimPrefix(w.Header().Get("Location"), "/c0ffee")
}

// refused sends a form that is refused, and returns the page.
func (s *stand) refused(path string, values url.Values, status int) string {
	s.Helper()
	return html.UnescapeString(s.ask(http.MethodPost, path, "application/x-www-form-urlencoded", values.Encode(), status).Body.String())
}

// upload sends a file.
func (s *stand) upload(kind, name, content string, status int) *httptest.ResponseRecorder {
	s.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	_ = w.WriteField("kind", kind) // a buffer takes all
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		s.Fatal(err)
	}
	_, _ = part.Write([]byte(content))
	_ = w.Close()
	return s.ask(http.MethodPost, "/lab/files", w.FormDataContentType(), body.String(), status)
}

// done does the job that waits, and returns its page.
func (s *stand) done(at string) string {
	s.Helper()
	s.shows(at, `class="state open">running<`, "data-again", `http-equiv="refresh"`, "/cancel")
	s.carryOut(s.Context(), <-s.work)
	page := s.get(at, http.StatusOK)
	if strings.Contains(page, "data-again") || strings.Contains(page, "/cancel") {
		s.Errorf("%s is over, and goes on: %s", at, page)
	}
	return page
}

// TestReport shows a run with what its report says, its cases and their steps.
func TestReport(t *testing.T) {
	s := open(t)
	hasty, _ := recovery.Default().With("limits.attempts", 2)
	dir := s.run("hasty", hasty)
	s.shows("/lab", "hasty.json", "cases.ndjson", `href="/c0ffee/lab/runs/runs/hasty"`)
	if page := s.get("/lab", http.StatusOK); strings.Contains(page, "notes.txt") || strings.Contains(page, ".hidden") {
		t.Error("the lab lists what is neither run, scenario nor policy")
	}
	report, _, err := engine.ReadReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"arl report show " + dir, report.Lead(), "One step from another result", "limits.attempts", report.Near[0].Cases[0], string(report.Recommendation)}
	want = append(want, runs.Why(report)...)
	for _, section := range report.Sections() {
		for _, row := range section.Rows {
			want = append(want, row...)
		}
	}
	page := s.shows("/lab/runs/runs/hasty", want...)
	class := regexp.MustCompile(`/c0ffee(/lab/runs/runs/hasty/cases\?class=transient[^"]*)"`).FindStringSubmatch(page)
	if class == nil {
		t.Fatalf("no link to the cases of a class: %s", page)
	}
	list := s.shows(class[1], "auto_recovered", "rebook-search-503")
	if strings.Contains(list, "logic.") {
		t.Error("the list has cases of another class")
	}
	s.shows("/lab/runs/runs/hasty/cases?status=escalated", "etl-warehouse-flaps")
	s.shows("/lab/runs/runs/hasty/cases?class=none.such", "No case matches.")
	s.shows("/lab/runs/runs/hasty/cases?after=99", "triage-smooth")
	s.get("/lab/runs/runs/hasty/cases?after=x", http.StatusBadRequest)

	at := "/lab/runs/runs/hasty/case?id=rebook-search-503"
	steps := s.shows(at, "auto_recovered", "transient.unavailable", "retry", "decision 1, step flights", "gate", "result", "sed -n 1p ", "| arl policy explain --case - --policy ")
	named := regexp.MustCompile(`--policy ([^ <]+)`).FindStringSubmatch(steps)
	text, err := os.ReadFile(named[1])
	if err != nil {
		t.Fatal(err)
	}
	if p, err := recovery.Load("named", text); err != nil || p.Hash() != hasty.Hash() {
		t.Errorf("the command names another policy: %v", err)
	}
	s.get("/lab/runs/runs/hasty/case?id=nobody", http.StatusNotFound)
}

// TestUnknown asks for what is not there, or must not be reached.
func TestUnknown(t *testing.T) {
	s := open(t)
	s.run("whole", recovery.Default())
	for _, path := range []string{"/lab/runs/runs/none", "/lab/runs/runs/..%2Fwhole", "/lab/runs/runs/..", "/lab/runs/uploads/.named", "/lab/runs/else/whole", "/lab/runs/runs/cases.ndjson",
		"/lab/jobs/7", "/lab/jobs/x", "/lab/jobs/7/case?at=1&id=x", "/lab/policy?policy=runs/none.yaml", "/lab/policy?policy=runs/../x.yaml", "/lab/policy?policy=runs/.hidden.yaml",
		"/lab/policy?policy=runs/cases.ndjson", "/lab/compare?run_before=runs/none&run_after=runs/whole", "/lab/nothing"} {
		q := httptest.NewRequest(http.MethodGet, "/c0ffee"+path, http.NoBody)
		w := httptest.NewRecorder()
		s.pages.ServeHTTP(w, q)
		if w.Code != http.StatusNotFound && w.Code != http.StatusTemporaryRedirect { // the second one has no .. left
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	s.refused("/lab/replay", url.Values{"run": {"runs/none"}}, http.StatusNotFound)
	s.refused("/lab/replay", url.Values{}, http.StatusBadRequest)
	s.refused("/lab/sweep", url.Values{"scenario": {"runs/cases.ndjson"}, "field": {"limits.nothing"}, "range": {"1..2"}}, http.StatusBadRequest)
	s.refused("/lab/sweep", url.Values{"scenario": {"runs/cases.ndjson"}, "field": {"limits.attempts"}, "range": {"2..1"}}, http.StatusBadRequest)
	s.refused("/lab/sweep", url.Values{"scenario": {"runs/hasty.json"}, "field": {"limits.attempts"}, "range": {"1..2"}}, http.StatusNotFound)
	s.refused("/lab/jobs/9/cancel", nil, http.StatusNotFound)

	// A run without report did not come to its end.
	if err := os.Remove(filepath.Join(s.cfg.Runs, "whole", engine.ReportFile)); err != nil {
		t.Fatal(err)
	}
	s.get("/lab/runs/runs/whole", http.StatusNotFound)
	if err := os.WriteFile(filepath.Join(s.cfg.Runs, "whole", engine.ReportFile), []byte(`{"v":`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.get("/lab/runs/runs/whole", http.StatusBadRequest)
}

// TestSweep sweeps a number, and opens a flip, a case of the flip, and the same case with the other
// value.
func TestSweep(t *testing.T) {
	s := open(t)
	s.shows("/lab/sweep?policy=runs/hasty.json", "limits.attempts", "thresholds.recovery_rate_min_ppm", "rules[transient.timeout].ladder[0].max")
	at := s.post("/lab/sweep", url.Values{"scenario": {"runs/cases.ndjson"}, "policy": {""}, "field": {"limits.attempts"}, "range": {"1..6"}})
	page := s.done(at)
	p := recovery.Default()
	sweep, err := engine.NewSweep(engine.NewSetup(p, 0).Config, "limits.attempts", []int64{1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := sweep.Run(t.Context(), fixture, f)
	if err != nil {
		t.Fatal(err)
	}
	want := append(runs.PointNotes(&r), "arl sweep --scenario "+filepath.Join(s.cfg.Runs, "cases.ndjson")+" --param 'limits.attempts=1..6'", "<polyline", "value of the policy")
	for _, row := range runs.Points(&r).Rows {
		want = append(want, row.Cells...)
	}
	for i := range r.Flips {
		want = append(want, runs.FlipTitle(r.Param, &r.Flips[i]), fmt.Sprintf(`href="/c0ffee%s?flip=%d#cases"`, at, i+1))
		for _, g := range r.Flips[i].Gates {
			want = append(want, runs.FlipGate(&g))
		}
	}
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page of the sweep does not say %q:\n%s", text, page)
		}
	}
	flip := s.shows(at+"?flip=2", "etl-warehouse-flaps: escalated, then auto_recovered", at+"/case?at=3&id=etl-warehouse-flaps")
	if strings.Count(flip, "/case?at=2&id=") != 10 {
		t.Errorf("the flip does not list its 10 cases: %s", flip)
	}
	s.shows(at+"/case?at=2&id=etl-warehouse-flaps", "limits.attempts is 2", "etl-warehouse-flaps: escalated attempts_exhausted", at+"/case?at=3&id=etl-warehouse-flaps")
	s.shows(at+"/case?at=3&id=etl-warehouse-flaps", "limits.attempts is 3", "etl-warehouse-flaps: auto_recovered")
	for _, wrong := range []string{"?flip=0", "?flip=9", "?flip=x", "/case?at=7&id=etl-warehouse-flaps", "/case?at=x&id=a", "/case?at=2&id=nobody"} {
		s.get(at+wrong, http.StatusNotFound)
	}
}

// TestJobs has one job at a time, which can be cancelled, and which fails with what is wrong.
func TestJobs(t *testing.T) {
	s := open(t)
	begun, ctx := make(chan struct{}), t.Context()
	page, err := s.begin(&job{Title: "long", unit: "bytes", do: func(ctx context.Context, tell func(done, total int64)) error {
		tell(30, 100)
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.carryOut(ctx, <-s.work)
	}()
	<-begun
	s.shows(page.To, "30 of 100 bytes", `max="100" value="30"`)
	sweep := url.Values{"scenario": {"runs/cases.ndjson"}, "field": {"limits.attempts"}, "range": {"1..2"}}
	if page := s.refused("/lab/sweep", sweep, http.StatusConflict); !strings.Contains(page, "job 1 is running: long") {
		t.Errorf("a second job: %s", page)
	}
	if to := s.post(page.To+"/cancel", nil); to != page.To {
		t.Errorf("cancelling leads to %s", to)
	}
	<-over
	s.shows(page.To, ">cancelled<", "nothing of its work is kept")
	s.shows("/lab", "1: <bdi>long</bdi>", ">cancelled<")
	s.post(page.To+"/cancel", nil) // once more changes nothing

	// A job that is cancelled before it begins does nothing.
	at := s.post("/lab/sweep", sweep)
	s.post(at+"/cancel", nil)
	s.refused("/lab/sweep", sweep, http.StatusConflict) // until its turn has come
	s.carryOut(ctx, <-s.work)
	s.shows(at, ">cancelled<")

	// A scenario that cannot be used.
	if err := os.WriteFile(filepath.Join(s.cfg.Runs, "cases.ndjson"), []byte("{\"v\":1,\"id\":\"<b>\u202e\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if page := s.done(s.post("/lab/sweep", sweep)); !strings.Contains(page, ">failed<") || !strings.Contains(page, "line 1: field /id") {
		t.Errorf("a scenario that cannot be used: %s", page)
	}

	// The console ends.
	ended, stop := context.WithCancel(ctx)
	stop()
	if err := s.Lab.Run(ended); err != nil {
		t.Error(err)
	}
}

// TestJobsEnd carries a job out by Run, and forgets old jobs.
func TestJobsEnd(t *testing.T) {
	s := open(t)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- s.Lab.Run(ctx) }()
	for n := range jobsMax + 1 {
		turn := make(chan struct{})
		for {
			_, err := s.begin(&job{Title: "short", do: func(context.Context, func(int64, int64)) error { close(turn); return nil }})
			if err == nil {
				break
			} // the job before is still at its end
		}
		if <-turn; n == 0 {
			continue
		}
	}
	s.get("/lab/jobs/1", http.StatusNotFound)
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestCompare compares two policies over a scenario, and the two runs once more.
func TestCompare(t *testing.T) {
	s := open(t)
	values := url.Values{"scenario": {"runs/cases.ndjson"}, "before": {""}, "after": {"runs/hasty.json"}}
	at := s.post("/lab/compare", values)
	page := s.done(at)
	before, after := filepath.Join(s.cfg.Uploads, "comparison-1-before"), filepath.Join(s.cfg.Uploads, "comparison-1-after")
	first, _, err := engine.ReadReport(before)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := engine.ReadReport(after)
	if err != nil {
		t.Fatal(err)
	}
	d := engine.Diff(first, second)
	want := append(runs.ChangeNotes(&d), ">promote<", ">reject<", "the report rejects: a gate of the policy failed", "gate recovery_rate_min: fail", "/limits/attempts",
		"--baseline before/report.json --out after; arl report diff before after")
	for _, row := range runs.Changes(&d).Rows {
		want = append(want, row.Cells...)
	}
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the comparison does not say %q:\n%s", text, page)
		}
	}
	s.shows("/lab/runs/uploads/comparison-1-after", ">reject<", "gate baseline")
	s.shows("/lab/compare?run_before=uploads/comparison-1-before&run_after=uploads/comparison-1-after", "arl report diff "+before+" "+after, "/limits/attempts", runs.ChangeNotes(&d)[0])
	s.shows("/lab/compare?run_before=uploads/comparison-1-before&run_after=uploads/comparison-1-before", "Both have the same rules of recovery.")

	// A comparison that is cancelled leaves no run.
	s.post("/lab/compare", values)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.carryOut(ctx, <-s.work)
	s.shows("/lab/jobs/2", ">cancelled<")
	if page := s.get("/lab", http.StatusOK); strings.Contains(page, "comparison-2") {
		t.Errorf("the runs of a cancelled comparison are listed: %s", page)
	}
}

// TestReplay replays a run that matches, one whose trace was changed, and one whose scenario was.
func TestReplay(t *testing.T) {
	s := open(t)
	dir := s.run("whole", recovery.Default())
	values := url.Values{"run": {"runs/whole"}, "scenario": {""}}
	s.shows("/lab/replay?run=runs/whole", `value="runs/whole" selected`)
	if page := s.done(s.post("/lab/replay", values)); !strings.Contains(page, "<bdi>match</bdi>") || !strings.Contains(page, "<bdi>100</bdi>") || !strings.Contains(page, "arl replay "+dir) {
		t.Errorf("a replay that matches: %s", page)
	}
	traces := filepath.Join(dir, engine.TracesFile)
	text, err := os.ReadFile(traces)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte(`"case":"rebook-two-outages","class":"transient","code":"unavailable"`), []byte(`"case":"rebook-two-outages","class":"transient","code":"timeout"`), 1)
	if err := os.WriteFile(traces, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	page := s.done(s.post("/lab/replay", values))
	for _, text := range []string{"diverged", "traces.ndjson", "rebook-two-outages", "/code", "timeout", "unavailable",
		"the run does not follow from its scenario and policy", "/lab/runs/runs/whole/case?id=rebook-two-outages"} {
		if !strings.Contains(page, text) {
			t.Errorf("a replay that diverges does not say %q: %s", text, page)
		}
	}
	cases := filepath.Join(s.cfg.Runs, "cases.ndjson")
	if err := os.WriteFile(cases, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if page := s.done(s.post("/lab/replay", values)); !strings.Contains(page, "not_comparable") || !strings.Contains(page, "cases.ndjson changed") {
		t.Errorf("a replay that cannot be compared: %s", page)
	}
	s.upload("scenario", "again.ndjson", string(readFixture(t)), http.StatusSeeOther)
	values.Set("scenario", "uploads/again.ndjson")
	if page := s.done(s.post("/lab/replay", values)); !strings.Contains(page, "diverged") || !strings.Contains(page, " --scenario ") {
		t.Errorf("a replay with the scenario from elsewhere: %s", page)
	}
}

func readFixture(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRealRuns takes recorded runs of others through a comparison and a replay.
func TestRealRuns(t *testing.T) {
	file := "../../../../shared/data/aider_swe_bench/attempts.ndjson"
	in, err := os.Open(file)
	if err != nil {
		t.Skip("missing: ../shared/data/aider_swe_bench")
	}
	defer in.Close()
	s := open(t)
	out, err := os.Create(filepath.Join(s.cfg.Runs, "cases.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	w := &importer.Writer{Out: out}
	if err := w.All(t.Context(), file, importer.Import(importer.Attempts, file, in, new(importer.Counts)), func() {}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	page := s.done(s.post("/lab/compare", url.Values{"scenario": {"runs/cases.ndjson"}, "before": {""}, "after": {"runs/hasty.json"}}))
	if !strings.Contains(page, "recommendation: ") {
		t.Errorf("the comparison: %s", page)
	}
	if page := s.done(s.post("/lab/replay", url.Values{"run": {"uploads/comparison-1-after"}})); !strings.Contains(page, "<bdi>match</bdi>") {
		t.Errorf("the replay: %s", page)
	}
	s.shows("/lab/runs/uploads/comparison-1-after/cases", "escalated")
}
