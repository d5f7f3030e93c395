package lab

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
)

// TestUpload uploads files, good and bad.
func TestUpload(t *testing.T) {
	s := open(t)
	s.upload("scenario", "my cases.ndjson", string(readFixture(t)), http.StatusSeeOther)
	w := s.upload("policy", `C:\files\<b>été`+"\u202e.yaml", "recovery: {", http.StatusSeeOther)
	if to := w.Header().Get("Location"); to != "/c0ffee/lab/policy?policy=uploads%2Fb--t--.yaml" {
		t.Errorf("a policy leads to %s", to)
	}
	s.shows("/lab", "my-cases.ndjson", "b--t--.yaml")
	for _, wrong := range []struct {
		kind, name, content string
		status              int
		says                string
	}{
		{"scenario", "bad.ndjson", "no case\n", http.StatusBadRequest, "line 1: is not JSON"},
		{"scenario", "empty.ndjson", "", http.StatusBadRequest, "holds no case"},
		{"scenario", "", "{}", http.StatusBadRequest, "no file is chosen"},
		{"scenario", strings.Repeat("n", 101), "{}", http.StatusBadRequest, "the limit is 100"},
		{"policy", "...", "", http.StatusBadRequest, "no file is chosen"},
		{"policy", "big.yaml", strings.Repeat("#", recovery.DocumentMax+1), http.StatusRequestEntityTooLarge, "has more than"},
		{"program", "x.yaml", "", http.StatusBadRequest, "neither scenario nor policy"},
	} {
		if page := s.upload(wrong.kind, wrong.name, wrong.content, wrong.status).Body.String(); !strings.Contains(page, wrong.says) {
			t.Errorf("%s %q: the page does not say %q: %s", wrong.kind, wrong.name, wrong.says, page)
		}
	}
	s.shelf.most = 1000
	s.upload("scenario", "large.ndjson", string(readFixture(t))[:1001], http.StatusRequestEntityTooLarge)
	s.upload("scenario", "larger.ndjson", string(readFixture(t)), http.StatusRequestEntityTooLarge)
	if page := s.get("/lab", http.StatusOK); strings.Contains(page, "bad.ndjson") || strings.Contains(page, "large") || strings.Contains(page, "big.yaml") {
		t.Errorf("the lab keeps what was refused: %s", page)
	}
	s.ask(http.MethodPost, "/lab/files", "text/plain", "x", http.StatusBadRequest)
	s.ask(http.MethodPost, "/lab/files", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n1\r\n--x--\r\n", http.StatusBadRequest)
	s.ask(http.MethodPost, "/lab/files", "multipart/form-data; boundary=x", "--x--\r\n", http.StatusBadRequest)
	s.ask(http.MethodPost, "/lab/files", "multipart/form-data; boundary=x", "--x\r\nbroken", http.StatusBadRequest)
	s.ask(http.MethodPost, "/lab/files", "multipart/form-data", "", http.StatusBadRequest)
}

// TestPolicy edits a policy: the page lists the mistakes, keeps the text, and gives the command
// that puts the policy in force.
func TestPolicy(t *testing.T) {
	s := open(t)
	s.shows("/lab/policy", "No mistake.", "Keep the policy first", "recovery:")
	s.shows("/lab/policy?policy=in-force", "No mistake.", "signal")
	s.shows("/lab/policy?policy=runs/hasty.json", "No mistake.", "the rules of recovery alone", "arl policy lint "+filepath.Join(s.cfg.Runs, "hasty.json"))
	page := s.refused("/lab/policy", url.Values{"text": {"recovery:\r\n  atempts: 1\r\n"}, "name": {"mine.yaml"}, "do": {"check"}}, http.StatusOK)
	for _, problem := range recovery.Lint("mine.yaml", []byte("recovery:\n  atempts: 1\n")) {
		if !strings.Contains(page, problem.What) || !strings.Contains(page, problem.Fix) || !strings.Contains(page, fmt.Sprintf("line %d, column %d", problem.Line, problem.Column)) {
			t.Errorf("the page does not say %v: %s", &problem, page)
		}
	}
	if !strings.Contains(page, "A policy with mistakes is not put in force.") {
		t.Errorf("a policy with mistakes: %s", page)
	}
	whole := regexp.MustCompile(`(?s)<textarea[^>]*>\n(.*)</textarea>`).FindStringSubmatch(s.get("/lab/policy", http.StatusOK))[1]
	at := s.post("/lab/policy", url.Values{"text": {whole}, "name": {"mine"}, "do": {"keep"}})
	s.shows(at, "No mistake.", "arl policy apply "+filepath.Join(s.cfg.Uploads, "mine.yaml")+" --reason …", `selected>mine.yaml`)
	text, err := os.ReadFile(filepath.Join(s.cfg.Uploads, "mine.yaml"))
	if err != nil || string(text) != whole {
		t.Errorf("the page keeps another text: %v", err)
	}
	s.refused("/lab/policy", url.Values{"text": {"recovery: {}"}, "name": {""}, "do": {"keep"}}, http.StatusBadRequest)
	s.refused("/lab/policy", url.Values{"text": {strings.Repeat("#", formMax)}}, http.StatusRequestEntityTooLarge)
	s.ask(http.MethodPost, "/lab/policy", "application/x-www-form-urlencoded", "text=%zz", http.StatusBadRequest)
	named := s.refused("/lab/policy", url.Values{"text": {"recovery:\n  strategies: [{name: ours, version: '1'}]\n"}}, http.StatusOK)
	if strings.Contains(named, "No mistake.") {
		t.Errorf("a policy that names what is not there: %s", named)
	}
	s.cfg.InForce = nil
	s.get("/lab/policy?policy=in-force", http.StatusNotFound)
}

// TestHostile shows cases, runs and policies with texts that would hide, or be markup.
func TestHostile(t *testing.T) {
	s := open(t)
	const id = "rebook-search-503"
	line, _, _ := strings.Cut(string(readFixture(t)), "\n")
	line = strings.ReplaceAll(line, `"search_flights"`, `"<img src=x>`+"\u202e"+strings.Repeat("w", 100)+`"`) + "\n"
	if err := os.WriteFile(filepath.Join(s.cfg.Runs, "cases.ndjson"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.cfg.Runs+"/<b onload=y>\u202e.yaml", []byte("recovery:\n  <script>alert(2)</script>: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := "<b onload=x>\u202e'"
	s.run(name, recovery.Default())
	at := "/lab/runs/runs/" + url.PathEscape(name)
	values := regexp.MustCompile(`(value|href|action)="[^"]*"`) // sent, and not shown
	for _, path := range []string{"/lab", at, at + "/cases", at + "/case?id=" + url.QueryEscape(id), "/lab/sweep", "/lab/compare", "/lab/replay",
		"/lab/policy?policy=" + url.QueryEscape("runs/<b onload=y>\u202e.yaml")} {
		w := s.ask(http.MethodGet, path, "", "", http.StatusOK)
		for _, raw := range []string{"<script>alert", "<img src", "<b onload", "\u202e"} {
			if strings.Contains(values.ReplaceAllString(w.Body.String(), ""), raw) {
				t.Errorf("%s has %q", path, raw)
			}
		}
	}
	s.shows(at, "<b onload=x>[U+202E]'")
	s.shows("/lab/policy?policy="+url.QueryEscape("runs/<b onload=y>\u202e.yaml"), "<script>alert(2)</script>")
	page := s.refused("/lab/policy", url.Values{"text": {"recovery: '</textarea><script>alert(1)</script>'"}, "name": {`"><b>`}}, http.StatusOK)
	if n := strings.Count(page, "alert(1)"); n == 0 {
		t.Error("the page does not show the text again")
	}
}
