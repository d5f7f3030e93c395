package console_test

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/net/html"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/testdata/webpage"
)

// TestSearch leads to whatever has a name in the log, by each of its names.
func TestSearch(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	task := l.Put("o", &entry.Task{Task: "o#report", Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand"})
	policy := entry.Genesis(testlog.Origin, entry.AuthorityKey{Principal: "root", Key: l.Key("root").Public})
	_, previous := l.State.Chain().Policy()
	policy.Previous, policy.Recovery = &previous, recovery.Default().JSON()
	second := l.Put("root", policy)
	over := tried(l, "over")
	l.Put("o", &entry.Rollout{Rollout: "over", Op: entry.RolloutAbort, Reason: "test"})
	under := tried(l, "under-way")
	c := pages(t, l, "/base")
	first := &l.Entries[id-6] // of b#note
	leaf := l.Entries[3].LeafHash()
	entries := func(index uint64) string { return "/base/log/" + decimal(index) }
	for name, test := range map[string]struct{ text, want string }{
		"entry index":          {"3", entries(3)},
		"entry index, worded":  {"entry " + decimal(id), entries(id)},
		"entry id":             {first.Header.JTI, entries(first.Index)},
		"entry id of issuer":   {"b#" + first.Header.JTI, entries(first.Index)},
		"agent":                {"a", "/base/agents/a"},
		"agent, with spaces":   {"\ta ", "/base/agents/a"},
		"workflow":             {"w", "/base/workflows/w"},
		"incident":             {"incident " + decimal(id), "/base/incidents/" + decimal(id)},
		"incident, as subject": {"Incident/" + decimal(id), "/base/incidents/" + decimal(id)},
		"execution":            {"b#note", entries(first.Index)},
		"task":                 {"o#report", "/base/tasks/o%23report"},
		"task's entry":         {decimal(task), entries(task)},
		"key":                  {l.Key("p").Public.KeyID(), "/base/agents/p"},
		"leaf hash":            {leaf.String(), entries(3)},
		"leaf hash, digits":    {hex.EncodeToString(leaf[:]), entries(3)},
		"rollout under way":    {"under-way", entries(under)},
		"rollout, over":        {"over", entries(over)},
		"policy digest":        {string(recovery.Default().Hash()), entries(second)},
	} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/search?q="+url.QueryEscape(test.text), http.NoBody))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != test.want {
			t.Errorf("%s: %s leads to %q (%d), want %q: %s", name, test.text, got, w.Code, test.want, w.Body)
		}
	}
	l.Do("a", "w", entry.EffectNone) // of whose agent a workflow has the name, next
	l.Put("c", &entry.Execution{Header: entry.Header{Wid: "a"}, Exec: "x", Effect: entry.EffectNone, Progress: entry.Planned, Parents: []entry.Parent{}})
	c = pages(t, l, "")
	for text, want := range map[string][]string{decimal(id): {"/incidents/" + decimal(id), "/log/" + decimal(id)}, "a": {"/agents/a", "/workflows/a"}} {
		status, body := get(t, c, "/search?q="+text)
		links := webpage.Check(t, "/search", body)
		for _, link := range want {
			if status != http.StatusOK || !slices.Contains(links, link) {
				t.Errorf("%s: %d, no link to %s: %s", text, status, link, body)
			}
		}
	}
}

// tried begins the rollout of a candidate. It returns the index of the entry.
func tried(l *foldlog.Log, name string) uint64 {
	l.TB.Helper()
	candidate := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
	return l.Put("o", &entry.Rollout{Rollout: name, Op: entry.RolloutStart, Stage: entry.StageShadow, Reason: "test", Start: &entry.RolloutTerms{
		CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate,
		Salt: "s", Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: l.At + 3_600_000}})
}

// TestSearchNothing says of what there is not what was looked through.
func TestSearchNothing(t *testing.T) {
	l := foldlog.New(t)
	c, size := pages(t, l, ""), decimal(l.State.Size())
	for _, text := range []string{"nobody", "99999", "incident 3", "entry x", "a#b#c", "sha256:" + strings.Repeat("0", 64), "<script>", "\u202e\x00", strings.Repeat("x", 1<<12), ""} {
		status, body := get(t, c, "/search?q="+url.QueryEscape(text))
		webpage.Check(t, "/search", body)
		if status != http.StatusOK || text != "" && !strings.Contains(body, "Nothing in the "+size+" entries") {
			t.Errorf("%.20s: %d: %s", text, status, body)
		}
	}
	id := uuid.NewString()
	for _, query := range []string{id, "a#" + id, "b#" + l.Entries[0].Header.JTI} {
		if _, body := get(t, c, "/search?q="+url.QueryEscape(query)); !strings.Contains(html.UnescapeString(body), "Entries 0 to below "+size+" were read") {
			t.Errorf("%s: %s", query, body)
		}
	}
	if _, body := get(t, c, "/search?before=2&q="+id); !strings.Contains(body, "Entries 0 to below 2 were read") {
		t.Errorf("older entries: %s", body)
	}
	if status, _ := get(t, c, "/search?before=x&q="+id); status != http.StatusBadRequest {
		t.Errorf("older than x: %d", status)
	}
}
