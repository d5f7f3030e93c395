package console_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/api/act"
	"recoveryledger/api/console"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/testdata/webpage"
)

// desk signs for the log of a test. before, if not nil, is called between the page's
// question and the signature, as if something happened meanwhile.
type desk struct {
	*foldlog.Log
	keys   []console.Key
	before func()
	asked  []string
}

func (d *desk) Keys() []console.Key { return d.keys }

func (d *desk) Unlock(_ context.Context, keyID string, by entry.Principal, passphrase, question string) (act.Signer, error) {
	d.asked = append(d.asked, question)
	if passphrase != "sesame" {
		return act.Signer{}, fmt.Errorf("%w: wrong passphrase", console.ErrDeclined)
	}
	if d.before != nil {
		d.before()
	}
	return act.Signer{Principal: by, Sign: func(e *entry.Entry) error {
		signed := d.Key(by).Sign(d.TB, e.Body)
		e.KeyID, e.Sig = signed.KeyID, signed.Sig
		if e.KeyID != keyID {
			return errors.New("the key is another one")
		}
		return nil
	}}, nil
}

func (d *desk) Seal(by act.Signer, draft func(*act.Log) (*act.Draft, error)) ([]*entry.Entry, error) {
	return act.SealAside(func(show func(*act.Log) error) error {
		return show(&act.Log{Origin: testlog.Origin, State: d.State, Now: d.At})
	}, by, draft)
}

func (d *desk) Register(_ context.Context, entries []*entry.Entry) (index uint64, err error) {
	for _, e := range entries {
		index = d.State.Size()
		if err := d.State.Admit(e, index, d.At); err != nil {
			return 0, err
		}
		d.Forge(e)
		d.State.Apply(e, index, d.At)
	}
	return index, nil
}

// signing returns pages that sign with the keys of principals.
func signing(t *testing.T, l *foldlog.Log, principals ...entry.Principal) (*console.Console, *desk) {
	t.Helper()
	d := &desk{Log: l}
	for _, p := range principals {
		d.keys = append(d.keys, console.Key{ID: l.Key(p).Public.KeyID(), Name: string(p) + ".key", Encrypted: true})
	}
	c, err := console.New(&console.Config{Source: shown{l}, Origin: testlog.Origin, Derived: true, Signing: d})
	if err != nil {
		t.Fatal(err)
	}
	return c, d
}

// form is the form of an act with what its page fills in.
func form(t *testing.T, c http.Handler, path string) url.Values {
	t.Helper()
	status, body := get(t, c, path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d: %s", path, status, body)
	}
	webpage.Check(t, path, body)
	values := url.Values{"reason": {"checked"}, "passphrase": {"sesame"}}
	for _, field := range regexp.MustCompile(`<input type="(hidden|radio)" name="(\w+)" value="([^"]*)"( required checked)?`).FindAllStringSubmatch(body, -1) {
		if field[1] == "hidden" || field[4] != "" {
			values.Set(field[2], html.UnescapeString(field[3]))
		}
	}
	return values
}

// post sends a form.
func post(t *testing.T, c http.Handler, path string, values url.Values) *httptest.ResponseRecorder {
	t.Helper()
	q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values.Encode()))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, q)
	if w.Code != http.StatusSeeOther && w.Code != http.StatusMethodNotAllowed {
		webpage.Check(t, path, w.Body.String())
	}
	return w
}

// signed sends the form of an act, which must be signed.
func signed(t *testing.T, c http.Handler, path string, more url.Values) {
	t.Helper()
	values := form(t, c, path+"?"+more.Encode()) // as a person who fills in the fields, and looks again
	maps.Copy(values, more)
	w := post(t, c, path, values)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%s: %d: %s", path, w.Code, w.Body)
	}
	if status, body := get(t, c, w.Header().Get("Location")); status != http.StatusOK || !strings.Contains(body, "Signed and registered") {
		t.Errorf("%s leads to %d: %s", path, status, body)
	}
}

// TestActsOfALife signs each verb from its page.
func TestActsOfALife(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	at := "/incidents/" + decimal(id) + "/act/"
	c, _ := signing(t, l, "p", "k", "o")
	key := func(p entry.Principal) url.Values { return url.Values{"key": {l.Key(p).Public.KeyID()}} }
	state := func(want entry.IncidentState) {
		t.Helper()
		if got := l.Incident(id).State; got != want {
			t.Fatalf("the incident is %s, want %s", got, want)
		}
	}
	signed(t, c, at+"escalate", key("k"))
	state("ESCALATED")
	signed(t, c, at+"refuse", key("p"))
	signed(t, c, at+"approve", key("p"))
	signed(t, c, at+"authorize", key("k"))
	state("AUTHORIZED")
	signed(t, c, at+"override", key("o"))
	l.At += 48 * 3_600_000
	l.Do("a", "later", entry.EffectNone) // the clock of the pages is that of the newest entry
	signed(t, c, at+"record", key("k"))
	state("FAILED")
	if _, body := get(t, c, "/incidents/"+decimal(id)); !strings.Contains(body, "act/release") || strings.Contains(body, "escalate</") || strings.Contains(body, "act/record") || strings.Contains(body, "state-conflict") {
		t.Errorf("what can be done when it is over: %s", body)
	}
	released := key("p")
	released["member"] = []string{"a#make"}
	signed(t, c, at+"release", released)

	l.Do("b", "again", entry.EffectCompensable)
	other := l.Signal("b", "b#again")
	l.Decide(other, entry.ActEscalate)
	denied := key("p")
	denied["found-"+decimal(other)] = []string{"false"}
	signed(t, c, "/incidents/"+decimal(other)+"/act/deny", denied)
	if v := l.Incident(other); v.State != entry.IncidentDismissed || v.Signals[0].Disposition != entry.Dismissed {
		t.Errorf("the other incident is %s, its signal %s", v.State, v.Signals[0].Disposition)
	}
}

// TestNothingElseIsSigned sends forms that must change nothing.
func TestNothingElseIsSigned(t *testing.T) {
	l := foldlog.New(t)
	id, end := l.InFlight("a", "pay")
	l.Decide(id, entry.ActEscalate)
	path := "/incidents/" + decimal(id) + "/act/approve"
	c, d := signing(t, l, "p", "a")
	whole := form(t, c, path)
	for name, test := range map[string]struct {
		change func(url.Values)
		status int
		says   string
		asks   bool
	}{
		"no reason":          {func(v url.Values) { v.Set("reason", " ") }, 409, "give a reason", false},
		"another plan":       {func(v url.Values) { v.Set("shown", "00") }, 409, "has changed since the page was made", false},
		"nothing shown":      {func(v url.Values) { v.Del("shown") }, 409, "has changed since the page was made", false},
		"a key that may not": {func(v url.Values) { v.Set("key", l.Key("a").Public.KeyID()) }, 409, "unauthorized-role", false},
		"wrong passphrase":   {func(v url.Values) { v.Set("passphrase", "open") }, 403, "wrong passphrase", true},
		"hours":              {func(v url.Values) { v.Set("hours", "soon") }, 400, "not a number of hours", false},
		"no hours":           {func(v url.Values) { v.Set("hours", "0") }, 400, "not a number of hours", false},
		"a huge form":        {func(v url.Values) { v.Set("reason", strings.Repeat("x", 1<<17)) }, 400, "too large", false},
	} {
		values := maps.Clone(whole)
		test.change(values)
		d.asked = nil
		size := l.State.Size()
		w := post(t, c, path, values)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) || l.State.Size() != size || (len(d.asked) > 0) != test.asks {
			t.Errorf("%s: %d, %d entries, asked %q: %s", name, w.Code, l.State.Size()-size, d.asked, w.Body)
		}
	}
	d.before = end // there is nothing left to undo
	size := l.State.Size()
	if w := post(t, c, path, whole); w.Code != http.StatusConflict || l.State.Size() != size+1 || !strings.Contains(w.Body.String(), "differs from the proposed plan") {
		t.Errorf("a plan that changed while the person was asked: %d: %s", w.Code, w.Body)
	}
	if question := d.asked[len(d.asked)-1]; !strings.Contains(question, "approve, incident "+decimal(id)+": ") || !strings.Contains(question, "rollback set ") {
		t.Errorf("the person was asked %q", question)
	}
	if _, body := get(t, c, path); !strings.Contains(body, "This cannot be done now") {
		t.Errorf("the changed plan can be approved: %s", body)
	}
	for path, want := range map[string]int{
		"/incidents/" + decimal(id) + "/act/destroy": 404, "/incidents/0/act/approve": 404, "/incidents/x/act/approve": 400,
	} {
		if status, body := get(t, c, path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
		if w := post(t, c, path, whole); w.Code != want {
			t.Errorf("POST %s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if w := post(t, pages(t, l, ""), path, whole); w.Code == http.StatusSeeOther || w.Code == http.StatusOK {
		t.Errorf("pages that only show sign: %d", w.Code)
	}
}

// TestExactPayload shows what will be signed: the entry in the log has these bytes, with the reason
// in its place, whatever the log grew by meanwhile. A field that changes the payload, another key
// and an old page sign nothing.
func TestExactPayload(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("q", entry.RoleApprover)
	id := chain(l)
	path := "/incidents/" + decimal(id) + "/act/escalate"
	c, _ := signing(t, l, "k", "q")
	payload := func(body string) string {
		found := regexp.MustCompile(`(?s)<pre tabindex="0"><code>(.*?)</code></pre>`).FindStringSubmatch(body)
		if found == nil {
			t.Fatalf("no payload: %s", body)
		}
		return strings.Join(strings.Fields(html.UnescapeString(found[1])), "")
	}
	_, body := get(t, c, path)
	want, values := payload(body), form(t, c, path)
	if _, again := get(t, c, path); payload(again) == want {
		t.Error("two pages show the same identifier")
	}
	w := post(t, c, path, url.Values{"look": {l.Key("k").Public.KeyID()}, "reason": {"checked"}, "passphrase": {"sesame"}})
	if w.Code != http.StatusOK || !strings.Contains(payload(w.Body.String()), `"reason":"checked"`) || strings.Contains(w.Body.String(), "sesame") {
		t.Errorf("a draft with a reason: %d: %s", w.Code, w.Body)
	}
	want = payload(w.Body.String())
	for _, field := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		values.Set(field[1], html.UnescapeString(field[2]))
	}
	l.Do("b", "meanwhile", entry.EffectNone)
	size := l.State.Size()
	for name, change := range map[string]func(url.Values){
		"another key":  func(v url.Values) { v.Set("key", l.Key("q").Public.KeyID()) },
		"another time": func(v url.Values) { v.Set("fixed", "1"+v.Get("fixed")) },
		"another id":   func(v url.Values) { v.Set("fixed", v.Get("fixed")[:len(v.Get("fixed"))-1]+"f") },
		"no id":        func(v url.Values) { v.Del("fixed") },
		"a field":      func(v url.Values) { v.Set("out-"+decimal(id), "not believed") },
	} {
		other := maps.Clone(values)
		if change(other); other.Get("fixed") == values.Get("fixed") && name == "another id" {
			continue // the id ended in f
		}
		if w := post(t, c, path, other); w.Code != http.StatusConflict || l.State.Size() != size || !strings.Contains(w.Body.String(), "has changed since the page was made") {
			t.Errorf("%s: %d, %d more entries: %s", name, w.Code, l.State.Size()-size, w.Body)
		}
	}
	if w := post(t, c, path, values); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	if got := string(l.Entries[size].Payload()); got != want {
		t.Errorf("signed was\n%s, shown was\n%s", got, want)
	}
}

// TestWhoMay shows on the page of an incident what can be done, and why a key may not.
func TestWhoMay(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Decide(id, entry.ActEscalate)
	path := "/incidents/" + decimal(id)
	for keys, want := range map[entry.Principal]string{
		"p": `act/approve" class="button"`, "a": "may not sign approval",
	} {
		c, _ := signing(t, l, keys)
		if _, body := get(t, c, path); !strings.Contains(body, want) || strings.Contains(body, "act/override") {
			t.Errorf("%s: %s", keys, body)
		}
	}
	two, _ := signing(t, l, "a", "p") // the one who may is chosen
	if _, body := get(t, two, path+"/act/approve"); strings.Count(body, `marker-end="url(#tip)"`) != 2 {
		t.Errorf("the picture of the plan lacks its arrows: %s", body)
	}
	if values := form(t, two, path+"/act/approve"); values.Get("key") != l.Key("p").Public.KeyID() {
		t.Errorf("the key %s is chosen", values.Get("key"))
	}
	none, _ := signing(t, l)
	if _, body := get(t, none, path); !strings.Contains(body, "no key is at hand") {
		t.Errorf("without a key: %s", body)
	}
	if w := post(t, none, path+"/act/approve", form(t, none, path+"/act/approve")); w.Code != http.StatusConflict {
		t.Errorf("signed without a key: %d", w.Code)
	}
	if _, body := get(t, pages(t, l, ""), path); strings.Contains(body, "/act/") {
		t.Errorf("pages that only show link acts: %s", body)
	}
}

// TestWhoHasAnswered chooses the key of a person who has not answered, and says of the others what
// they have answered.
func TestWhoHasAnswered(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("q", entry.RoleApprover)
	id := chain(l)
	l.Decide(id, entry.ActEscalate)
	c, _ := signing(t, l, "p", "q")
	answers := func(says string, want entry.Principal) {
		t.Helper()
		for _, verb := range []string{"/act/approve", "/act/refuse"} {
			path := "/incidents/" + decimal(id) + verb
			if values := form(t, c, path); values.Get("key") != l.Key(want).Public.KeyID() {
				t.Errorf("%s: the key %s is chosen, want that of %s", path, values.Get("key"), want)
			}
			if _, body := get(t, c, path); says != "" && !strings.Contains(body, says) || strings.Count(body, "another answer takes its place") > 0 != (says != "") {
				t.Errorf("%s does not say %q: %s", path, says, body)
			}
		}
	}
	put := func(by entry.Principal, verdict string) uint64 {
		return l.Put(by, &entry.Approval{Incident: id, Proposal: l.Incident(id).Proposal.Ref, Verdict: verdict, Exp: l.At/1000 + 3600, Reason: "test"})
	}
	answers("", "p")
	answers("and has approved by entry "+decimal(put("p", "approve")), "q")
	answers("and has refused by entry "+decimal(put("q", "refuse")), "p")
	if _, body := get(t, c, "/incidents/"+decimal(id)+"/act/override"); strings.Contains(body, "another answer") {
		t.Errorf("an override is no answer: %s", body)
	}
}

// late is a source that gets its newest entry while somebody waits for it.
type late struct {
	shown
	grow func()
}

func (l late) Wait(ctx context.Context, size uint64) error {
	l.grow()
	return l.shown.Wait(ctx, size)
}

// TestAPageWaitsForItsIncident asks a derived log for an incident that it has not read yet.
func TestAPageWaitsForItsIncident(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectNone)
	id := l.State.Size()
	for _, derived := range []bool{false, true} {
		grow := sync.OnceFunc(func() { l.Signal("a", "a#make") })
		c, err := console.New(&console.Config{Source: late{shown{l}, grow}, Origin: testlog.Origin, Derived: derived})
		if err != nil {
			t.Fatal(err)
		}
		if status, body := get(t, c, "/incidents/"+decimal(id)); (status == http.StatusOK) != derived {
			t.Errorf("derived %t: %d: %s", derived, status, body)
		}
	}
}

// alone is a source whose log cannot be shown.
type alone struct {
	shown
	at console.Standing
}

func (a alone) Standing() console.Standing { return a.at }

func (a alone) Read(show func(*coord.State, console.Standing)) { show(a.State, a.at) }

// TestAlone shows one page in the place of all while a log is read, and for good once
// something contradicts the ledger.
func TestAlone(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Decide(id, entry.ActEscalate)
	before, keys := signing(t, l, "p")
	act := "/incidents/" + decimal(id) + "/act/approve"
	open := form(t, before, act)
	for _, test := range []struct {
		at   console.Standing
		says []string
	}{
		{console.Standing{Reading: &console.Reading{Done: 412, Size: 1000}}, []string{"412 of 1000", "<progress"}},
		{console.Standing{Found: &console.Found{Detail: "two roots of size 7", Evidence: "/home/ann/fork-1.json"}},
			[]string{"Do not trust this ledger", "two roots of size 7", "arl verify /home/ann/fork-1.json"}},
		{console.Standing{Found: &console.Found{Detail: "another root"}}, []string{"Do not trust this ledger", "another root", "arl log audit"}},
	} {
		d := &desk{Log: l, keys: keys.keys}
		c, err := console.New(&console.Config{Source: alone{shown{l}, test.at}, Origin: testlog.Origin, Derived: true, Signing: d})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/log/0", act, "/nothing"} {
			status, body := get(t, c, path)
			webpage.Check(t, path, body)
			for _, text := range test.says {
				if status != http.StatusServiceUnavailable || !strings.Contains(body, text) || strings.Contains(body, "<nav") {
					t.Errorf("%s: %d, want %q: %s", path, status, text, body)
				}
			}
		}
		w := post(t, c, act, open) // of a page that was open before
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), test.says[0]) || strings.Contains(w.Body.String(), "<nav") || len(d.asked) > 0 {
			t.Errorf("POST: %d, asked %q: %s", w.Code, d.asked, w.Body)
		}
	}
	lost := console.Standing{Head: l.Head(len(l.Leaves)), LostAt: 1790000000000}
	c, err := console.New(&console.Config{Source: alone{shown{l}, lost}, Origin: testlog.Origin, Derived: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, c, "/agents"); !strings.Contains(body, "no contact with the ledger since 2026-09-21T") {
		t.Errorf("without contact: %s", body)
	}
}

// TestActsOfATask creates tasks that wait for an operator, who moves them on from their
// pages.
func TestActsOfATask(t *testing.T) {
	l := foldlog.New(t)
	create := func(id, capability string) entry.Ref {
		ref := entry.NewRef("o", id)
		l.Put("o", &entry.Task{Header: entry.Header{Wid: "w"}, Task: ref, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated,
			Reason: "which <b>one</b>?", Type: capability, MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
		return ref
	}
	one, two := create("one", ""), create("two", "cook")
	c, d := signing(t, l, "o")
	found := crawl(t, c)
	for path, texts := range map[string][]string{
		"/":              {"task <bdi>o#one</bdi>", "task <bdi>o#two</bdi>", "the capability cook"},
		"/tasks":         {"o#one", "CREATED", "0 of 3"},
		"/tasks/o%23one": {"which &lt;b&gt;one&lt;/b&gt;?", `act/reassign" class="button"`, `act/cancel" class="button"`},
	} {
		for _, text := range texts {
			if !strings.Contains(found[path], text) {
				t.Errorf("%s does not say %q: %s", path, text, found[path])
			}
		}
	}
	path := "/tasks/" + url.PathEscape(string(one)) + "/act/reassign"
	unnamed := form(t, c, path)
	if w := post(t, c, path, unnamed); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "name the agent") || len(d.asked) > 0 {
		t.Errorf("a task for nobody: %d: %s", w.Code, w.Body)
	}
	signed(t, c, path, url.Values{"agent": {"a"}})
	if task, _ := l.State.Task(one); task.Agent != "a" || task.State != entry.TaskAssigned {
		t.Errorf("the task is %s, of %s", task.State, task.Agent)
	}
	stale := form(t, c, "/tasks/"+url.PathEscape(string(two))+"/act/cancel")
	signed(t, c, "/tasks/"+url.PathEscape(string(two))+"/act/cancel", nil)
	if w := post(t, c, "/tasks/"+url.PathEscape(string(two))+"/act/cancel", stale); w.Code != http.StatusConflict {
		t.Errorf("cancelled twice: %d: %s", w.Code, w.Body)
	}
	for path, want := range map[string]int{
		"/tasks/none": 404, "/tasks/o%23none": 404, "/tasks?state=GONE": 400, "/tasks?state=open": 200, "/tasks?before=x": 400,
		"/tasks/o%23one/act/approve": 404, "/tasks/o%23one/act/release": 200, "/tasks/o%23one?signed=x": 400,
	} {
		if status, body := get(t, c, path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
}
