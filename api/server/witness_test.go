package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// witnessedSource is the log as the rounds see it.
type witnessedSource struct{ *ledger.Log }

func (l witnessedSource) Newest() verify.SignedHead { return l.Head().SignedHead }

// Aligned returns the head right behind the newest index entry, if that head has more entries
// than above.
func (l witnessedSource) Aligned(above uint64) (head verify.SignedHead, ok bool) {
	found, err := l.Find(ledger.Query{Index: entry.ByKind, Value: string(entry.KindIndex), From: above, Limit: 1, Newest: true})
	if err == nil && len(found) > 0 {
		head, err = l.SignedAt(found[0] + 1)
	}
	return head, head.Note != "" && err == nil
}

// watched is a panel with two of three witnesses, each of which may be down.
type watched struct {
	*panel
	down   [3]atomic.Bool
	hangs  [3]atomic.Bool
	policy string // witness policy
	// conflicts is whether the rounds may end with a conflict.
	conflicts bool
}

// newWatched serves a ledger whose policy names no witnesses yet.
func newWatched(tb testing.TB) *watched {
	tb.Helper()
	return watch(tb, newPanel(tb, nil), 50*time.Millisecond, 0)
}

// watch has witnesses ready for the ledger of a panel, whose bundles wait for them. Rounds that
// nobody waits for have every between them.
func watch(tb testing.TB, p *panel, wait, every time.Duration) *watched {
	tb.Helper()
	w := &watched{panel: p}
	var lines []string
	for i := range w.down {
		cosigner, err := witness.Open(&witness.Config{Dir: tb.TempDir(), Name: fmt.Sprintf("w.example/%d", i),
			Logs: []witness.Log{{Origin: origin, Keys: w.keys.VerifierKeys[:1]}}})
		must(tb, err)
		handler := cosigner.Handler(func(err error) { tb.Error(err) })
		web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if w.hangs[i].Load() {
				_, _ = io.Copy(io.Discard, in.Body) // only then the server sees that the client is gone
				<-in.Context().Done()
				return
			}
			if w.down[i].Load() {
				http.Error(out, "down", http.StatusServiceUnavailable)
				return
			}
			handler.ServeHTTP(out, in)
		}))
		tb.Cleanup(func() { web.Close(); must(tb, cosigner.Close()) })
		lines = append(lines, fmt.Sprintf("witness w%d %s %s", i, cosigner.Keys()[0], web.URL))
	}
	w.policy = strings.Join(lines, "\n") + "\ngroup g 2 w0 w1 w2\nquorum g\n"
	root := w.root()
	root.Cosigner = cosign.NewVerifierForCosignatureV1
	rounds, err := witness.NewRounds(witness.RoundsConfig{Source: witnessedSource{w.log}, Root: func() verify.Root { return root }, Aligned: witnessedSource{w.log}.Aligned, Every: every,
		Terms: witness.TermsOf(func() *verify.Chain { return w.coord.View().Chain }, time.Now)})
	must(tb, err)
	done := make(chan error, 1)
	go func() { done <- rounds.Run(tb.Context()) }()
	tb.Cleanup(func() {
		if err := <-done; (err != nil) != w.conflicts {
			tb.Error(err)
		}
	})
	w.cfg.Witnesses, w.cfg.WitnessWait = rounds, wait
	w.cfg.Metrics = metrics.New()
	w.metrics.Store(w.cfg.Metrics)
	s, err := server.New(w.cfg)
	must(tb, err)
	web := httptest.NewServer(s.Handler())
	tb.Cleanup(web.Close)
	w.url = web.URL
	return w
}

// TestAbsencesOfABusyLog: behind each index entry come more entries than a bundle shows beside
// its lists, before a round can have the index entry. The rounds have the head right behind the
// index entry, so that agents get their proof, and a history its end (WIT-2).
func TestAbsencesOfABusyLog(t *testing.T) {
	w := watch(t, newIndexedPanel(t), 20*time.Second, 0)
	w.name()
	w.pipeline()
	w.busy.Store(complete.TailMax + 100)
	id := w.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	w.put(w.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	b, _ := w.fetch(fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=0&absences=true", id))
	v, err := b.Check(w.keeps("agent-2").Accepted, w.log.Now())
	if err != nil || !slices.ContainsFunc(v.Checked, func(p bundle.Passed) bool { return p.Rule == "ABS-4" }) {
		t.Errorf("%v %+v", err, v.Checked)
	}
	if _, err := w.quorum().Witnessed(b.Head); err != nil {
		t.Error(err)
	}
	c, err := client.New(w.url, w.quorum(), nil)
	must(t, err)
	h, err := c.Complete(t.Context(), api.CompleteQuery{Type: entry.SubjectIncident, Value: entry.IncidentValue(id), Witnessed: true})
	must(t, err)
	if len(h.Report.Answers[0].Entries) < 2 {
		t.Errorf("%v", &h.Report.Answers[0])
	}
}

// name puts the witness policy in force.
func (w *watched) name() {
	w.t.Helper()
	chain := w.coord.View().Chain
	now, at := chain.Policy()
	next := *now
	next.Header = w.header("authority", "")
	next.Witnesses, next.Previous = w.policy, &at
	w.put(&next)
}

// quorum returns the root that names the witnesses.
func (w *watched) quorum() verify.Root {
	root := w.root()
	root.Cosigner, root.Witnesses = cosign.NewVerifierForCosignatureV1, w.policy
	return root
}

// TestWitnessedHeads shows what the server gives under heads that the witnesses have
// cosigned: the checkpoint, receipts where they are asked for, and every bundle.
func TestWitnessedHeads(t *testing.T) {
	w := newWatched(t)
	a := w.get(api.PathCheckpoint)
	if _, err := w.quorum().Witnessed(string(a.body)); err == nil || value[api.Log](w.node, api.PathLog).Witnessed != nil {
		t.Fatalf("before the policy: %s", a.body)
	}
	a = w.get("/v1/entries/1/receipt?witnessed=true")
	if w.receipt(a, http.StatusOK); a.Header.Get(api.HeaderWitnessed) != "false" {
		t.Fatalf("before the policy: %v", a.Header)
	}
	w.name()
	for _, path := range []string{"/v1/entries/1/receipt?witnessed=true&wait=20000", fmt.Sprintf("/v1/entries/%d/receipt?witnessed=true&wait=20000", w.log.Head().Size-1)} {
		a := w.get(path)
		r := w.receipt(a, http.StatusOK)
		if _, err := w.quorum().Witnessed(r.Head); err != nil || a.Header.Get(api.HeaderWitnessed) != "true" {
			t.Errorf("%s: %v", path, err)
		}
	}
	a = w.get(api.PathCheckpoint)
	if _, err := w.quorum().Witnessed(string(a.body)); err != nil {
		t.Error(err)
	}
	report, err := w.quorum().Verify(verify.Material{Heads: []string{string(a.body)}})
	if err != nil || !strings.Contains(fmt.Sprint(report), "ML-DSA-44") {
		t.Errorf("%v %+v", err, report)
	}
	e := w.good()
	a = w.postTo(api.PathEntries+"?witnessed=true&wait=20000", api.MediaJSON, e.AppendEnvelope(nil))
	if r := w.receipt(a, http.StatusCreated); a.Header.Get(api.HeaderWitnessed) != "true" {
		t.Errorf("%+v", r)
	} else if _, err := w.quorum().Witnessed(r.Head); err != nil {
		t.Error(err)
	}
	if l := value[api.Log](w.node, api.PathLog); l.Witnessed == nil || l.Witnessed.Size == 0 || len(l.Witnessed.Witnesses) != 3 || l.Witnessed.Witnesses[0].Name != "w0" {
		t.Errorf("%+v", l.Witnessed)
	}
	if size := w.metric("arl_witnessed_size"); size == "0" || w.metric("arl_witnesses_failing") != "0" {
		t.Errorf("metrics: size %s", size)
	}
	w.problem(w.postTo(api.PathEntries+"?witnessed=true", api.MediaNDJSON, append(w.good().AppendEnvelope(nil), '\n')), entry.Malformed, http.StatusBadRequest)
	w.problem(w.get("/v1/entries/1/receipt?wait=5"), entry.Malformed, http.StatusBadRequest)
}

// TestDecisionsWaitForWitnesses has the witnesses fail one after the other. With two of
// three, agents are told; with one, entries are registered and bundles wait.
func TestDecisionsWaitForWitnesses(t *testing.T) {
	w := newWatched(t)
	w.name()
	w.pipeline()
	w.down[2].Store(true)
	id := w.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	w.put(w.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	w.get(fmt.Sprintf("/v1/entries/%d/receipt?witnessed=true&wait=20000", w.log.Head().Size-1))
	path := fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=0", id)
	b, _ := w.fetch(path)
	if _, err := w.quorum().Witnessed(b.Head); err != nil || b.Decision == 0 {
		t.Fatalf("%v: %+v", err, b)
	}
	v, err := b.Check(w.keeps("agent-2").Accepted, w.log.Now())
	if err != nil || len(v.Commands) == 0 {
		t.Fatalf("%v %+v", err, v)
	}
	w.down[1].Store(true)
	w.receipt(w.postTo(api.PathEntries+"?witnessed=true&wait=10", api.MediaJSON, w.by(w.draft("olga", coord.Order{Incident: id, Act: entry.ActOverride})).AppendEnvelope(nil)), http.StatusCreated)
	problem := w.problem(w.get(path), entry.NotReady, http.StatusServiceUnavailable)
	for i := 0; i < 100 && strings.Contains(problem.Detail, "w0"); i++ { // the witness that is up has not cosigned yet
		problem = w.problem(w.get(path), entry.NotReady, http.StatusServiceUnavailable)
	}
	if !strings.Contains(problem.Detail, "quorum g lacks w1 (") || !strings.Contains(problem.Detail, "w2 (") || strings.Contains(problem.Detail, "w0") {
		t.Errorf("%+v", problem)
	}
	if l := value[api.Log](w.node, api.PathLog); !strings.Contains(l.Witnessed.Witnesses[1].Failed, "503") || l.Witnessed.Lacking != "" {
		t.Errorf("%+v", l.Witnessed)
	}
	w.down[1].Store(false)
	w.get(fmt.Sprintf("/v1/entries/%d/receipt?witnessed=true&wait=20000", w.log.Head().Size-1))
	b, _ = w.fetch(path)
	if _, err := w.quorum().Witnessed(b.Head); err != nil {
		t.Error(err)
	}
}

// TestAPolicyNeedsItsWitnesses submits policies whose quorum does not answer, and one whose
// quorum does. A policy that the ledger refuses has nobody asked.
func TestAPolicyNeedsItsWitnesses(t *testing.T) {
	w := newWatched(t)
	next := func(text string) *entry.Policy {
		now, at := w.coord.View().Chain.Policy()
		p := *now
		p.Header, p.Witnesses, p.Previous = w.header("authority", ""), text, &at
		return &p
	}
	post := func(p *entry.Policy) int {
		a := w.postTo(api.PathEntries, api.MediaJSON, w.by(p).AppendEnvelope(nil))
		if a.StatusCode != http.StatusCreated {
			if problem := w.problem(a, entry.StateConflict, http.StatusConflict); !strings.Contains(problem.Detail, "quorum g has not cosigned the newest tree head: w1 (") {
				t.Errorf("%+v", problem)
			}
		}
		return a.StatusCode
	}
	w.down[1].Store(true)
	w.down[2].Store(true)
	if status := post(next(w.policy)); status != http.StatusConflict {
		t.Fatalf("without a quorum: %d", status)
	}
	w.down[2].Store(false)
	if status := post(next(w.policy)); status != http.StatusCreated {
		t.Fatalf("with a quorum: %d", status)
	}
	w.down[0].Store(true) // the same witnesses are not asked again
	same := next(w.policy)
	same.MaxStepMS++
	if status := post(same); status != http.StatusCreated {
		t.Fatalf("with the same witnesses: %d", status)
	}
	var asked atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer web.Close()
	foreign := next(strings.NewReplacer("http://127.0.0.1", web.URL+"/").Replace(w.policy))
	foreign.Header = w.header("agent-1", "")
	w.problem(w.postTo(api.PathEntries, api.MediaJSON, w.by(foreign).AppendEnvelope(nil)), entry.UnauthorizedRole, http.StatusForbidden)
	forged := w.by(next(foreign.Witnesses))
	forged.Sig = make([]byte, len(forged.Sig))
	w.problem(w.postTo(api.PathEntries, api.MediaJSON, forged.AppendEnvelope(nil)), entry.BadSignature, http.StatusBadRequest)
	stale := next(foreign.Witnesses)
	stale.Iat -= 86_400
	w.problem(w.postTo(api.PathEntries, api.MediaJSON, w.by(stale).AppendEnvelope(nil)), entry.Stale, http.StatusUnprocessableEntity)
	if asked.Load() {
		t.Error("a policy that the ledger refuses has somebody asked")
	}
}

// TestTheWitnessesAreWaived is WIT-6 from end to end. All witnesses end, and the authority
// applies a policy without them. Agents obey nothing under it until an approver of the
// emergency group has cosigned a tree head that covers the policy, and pushed.
func TestTheWitnessesAreWaived(t *testing.T) {
	w := newWatched(t)
	anna, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "anna.example", Logs: []witness.Log{{Origin: origin, Keys: w.keys.VerifierKeys[:1]}}})
	must(t, err)
	defer func() { must(t, anna.Close()) }()
	w.policy += "witness anna " + anna.Keys()[0] + "\ngroup emergency any anna\n"
	w.name()
	w.pipeline()
	id := w.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	w.put(w.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	path := fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=", id)
	keeps := w.keeps("agent-2")
	w.get(fmt.Sprintf("/v1/entries/%d/receipt?witnessed=true&wait=20000", w.log.Head().Size-1))
	b, _ := w.fetch(path + "0")
	v, err := b.Check(keeps.Accepted, w.log.Now())
	must(t, err)
	for i := range w.down {
		w.down[i].Store(true)
	}
	chain := w.coord.View().Chain
	now, at := chain.Policy()
	none := *now
	none.Header, none.Witnesses, none.Previous = w.header("authority", ""), "", &at
	w.put(&none)
	from := v.Next.Size()
	problem := w.problem(w.get(path+fmt.Sprint(from)), entry.NotReady, http.StatusServiceUnavailable)
	if !strings.Contains(problem.Detail, fmt.Sprintf("for an agent that has accepted the tree head of size %d, quorum g lacks w0 (", from)) {
		t.Errorf("%+v", problem)
	}
	hostile := *b // the ledger gives its own head instead
	hostile.From, hostile.Head = from, w.log.Head().Note
	hostile.Consistency, err = w.log.Consistency(from, w.log.Head().Size)
	must(t, err)
	if _, err := hostile.Check(v.Next, w.log.Now()); err == nil || !strings.Contains(err.Error(), "no quorum") {
		t.Errorf("the ledger alone: %v", err)
	}

	round := value[api.Round](w.node, api.PathRound+"?from=0&wait=20000")
	lines, err := anna.Cosign(&witness.Request{Proof: round.Path, Note: round.Head})
	must(t, err)
	text, _, _ := strings.Cut(round.Head, "\n\n")
	cosigned := text + "\n\n" + lines
	w.problem(w.postTo(api.PathCosign, api.MediaNote, []byte("hello")), entry.Malformed, http.StatusBadRequest)
	w.problem(w.postTo(api.PathCosign, api.MediaNote, []byte(text+"\n\n")), entry.UnknownIssuer, http.StatusUnauthorized)
	if a := w.postTo(api.PathCosign, api.MediaNote, []byte(cosigned)); a.StatusCode != http.StatusOK || !strings.Contains(string(a.body), `"counted":1`) {
		t.Fatalf("%s %s", a.Status, a.body)
	}
	b, _ = w.fetch(path + fmt.Sprint(from))
	v, err = b.Check(v.Next, w.log.Now())
	if err != nil || len(v.Commands) == 0 {
		t.Fatalf("%v %+v", err, v)
	}
	w.put(w.by(w.good().Body).Body) // goes on without witnesses
	b, _ = w.fetch(path + fmt.Sprint(v.Next.Size()))
	if _, err := b.Check(v.Next, w.log.Now()); err != nil {
		t.Error(err)
	}
	w.problem(w.get(api.PathRound+"?from=900"), entry.NotFound, http.StatusNotFound)
}

// witnesses meets what the paths for witnesses that push answer.
func (d *document) witnesses() {
	w := newWatched(d.t)
	pusher, err := witness.Open(&witness.Config{Dir: d.t.TempDir(), Name: "pusher.example", Logs: []witness.Log{{Origin: origin, Keys: w.keys.VerifierKeys[:1]}}})
	must(d.t, err)
	defer func() { must(d.t, pusher.Close()) }()
	w.policy += "witness pusher " + pusher.Keys()[0] + "\n"
	d.check(api.PathRound, w.get(api.PathRound))
	d.check(api.PathRound, w.get(api.PathRound+"?wait=x"))
	w.name()
	round := value[api.Round](w.node, api.PathRound+"?wait=20000")
	d.check(api.PathRound, w.get(api.PathRound))
	lines, err := pusher.Cosign(&witness.Request{Note: round.Head})
	must(d.t, err)
	text, _, _ := strings.Cut(round.Head, "\n\n")
	fork := strings.Split(text, "\n")
	fork[2] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	forked, err := note.Sign(&note.Note{Text: strings.Join(fork, "\n") + "\n"}, w.keys.Signer)
	must(d.t, err)
	forged := strings.ReplaceAll(lines, "AAAA", "AAAB")
	for _, body := range []string{text + "\n\n" + lines, "", text + "\n\n", strings.Repeat("x", verify.MaxNote+1), strings.Join(fork, "\n") + "\n\n" + lines, text + "\n\n" + forged} {
		d.check(api.PathCosign, w.postTo(api.PathCosign, api.MediaNote, []byte(body)))
	}
	d.check(api.PathCosign, w.postTo(api.PathCosign, api.MediaJSON, []byte("{}")))
	w.conflicts = true
	d.check(api.PathCosign, w.postTo(api.PathCosign, api.MediaNote, forked))
}
