package demo

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// world is what a rolled-back pipeline has left, and the log and the plan that
// say so.
type world struct {
	t    *testing.T
	dir  directory
	log  *history
	plan *coord.PlanView
}

const cancelKey = "key-1" // of the idempotency of the booker's compensation

func newWorld(t *testing.T) *world {
	t.Helper()
	d := directory(t.TempDir())
	w := &world{t: t, dir: d, log: &history{executions: map[entry.Ref]*entry.Execution{}, comps: map[entry.Ref]entry.Ref{},
		checkpoints: map[entry.Ref]*entry.Checkpoint{}}, plan: &coord.PlanView{}}
	for _, m := range []coord.MemberView{
		{Member: entry.Member{Exec: ref(mailer, "reminder"), Agent: mailer}, Result: entry.NotExecuted},
		{Member: entry.Member{Exec: ref(mailer, "send"), Agent: mailer}, Result: entry.ResultIrrevocable},
		{Member: entry.Member{Exec: ref(writer, "draft"), Agent: writer, Checkpoint: ref(writer, "before")}, Result: entry.Restored},
		{Member: entry.Member{Exec: ref(booker, "hold"), Agent: booker}, Result: entry.Compensated},
		{Member: entry.Member{Exec: ref(pricer, "quote"), Agent: pricer, Checkpoint: ref(pricer, "before")}, Result: entry.Restored},
	} {
		w.plan.Members = append(w.plan.Members, m)
		w.log.executions[m.Exec] = &entry.Execution{Header: entry.Header{Wid: offer}}
		w.must(write(d.path("agents", string(m.Agent), "secret"), []byte("00ff")))
	}
	w.log.comps[ref(booker, "hold")] = ref(booker, "undo")
	w.log.executions[ref(booker, "undo")] = &entry.Execution{IdempotencyKey: entry.DigestOf([]byte(cancelKey))}
	for _, p := range []entry.Principal{writer, pricer} {
		state, err := d.reversible(p).snapshot(offer)
		w.must(err)
		w.log.checkpoints[ref(p, "before")] = &entry.Checkpoint{Digest: stateDigest([]byte{0, 255}, state)}
	}
	w.must(d.rows(booker).book(ref(booker, "hold"), map[string]int{"seats": 12}))
	w.must(d.rows(booker).cancel(cancelKey, ref(booker, "hold"), ref(booker, "undo")))
	w.must(os.MkdirAll(d.path("sink"), 0o700))
	w.mail(ref(mailer, "send"))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// mail sends one as the gateway does.
func (w *world) mail(exec entry.Ref) {
	w.t.Helper()
	w.must((&gateway{path: w.dir.mails()}).keep(mail{Exec: exec, To: "customer@example.org", Text: "text"}))
}

// compare compares the world with the log, as the demo does.
func (w *world) compare() error {
	c := &comparison{dir: w.dir, log: w.log}
	if err := c.plan(w.plan); err != nil {
		return err
	}
	return c.rest()
}

// TestCheckFindsDifferences makes the world differ from the log in each way that
// is compared: it is found, and the execution named.
func TestCheckFindsDifferences(t *testing.T) {
	if err := newWorld(t).compare(); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	for name, test := range map[string]struct {
		tamper func(w *world)
		want   string
	}{
		"a file is not restored":       {func(w *world) { w.must(w.dir.files(writer).set(offer, "letter.txt", "x")) }, "writer#draft is restored, but"},
		"a row is not restored":        {func(w *world) { w.must(w.dir.rows(pricer).setPrices(offer, map[string]int{"x": 1})) }, "pricer#quote is restored, but"},
		"no checkpoint in the log":     {func(w *world) { delete(w.log.checkpoints, ref(writer, "before")) }, "writer#draft is restored, but"},
		"cancelled twice":              {func(w *world) { w.must(w.dir.rows(booker).cancel("key-2", ref(booker, "hold"), "c")) }, "cancelled 2 times"},
		"never cancelled":              {func(w *world) { w.must(os.Remove(string(w.dir.rows(booker)))) }, "cancelled 0 times"},
		"cancelled by another key":     {func(w *world) { w.log.executions[ref(booker, "undo")].IdempotencyKey = entry.DigestOf([]byte("key-2")) }, "under another key"},
		"no compensation in the log":   {func(w *world) { delete(w.log.comps, ref(booker, "hold")) }, "booker#hold is compensated, but"},
		"sent twice":                   {func(w *world) { w.mail(ref(mailer, "send")) }, "2 mails of it"},
		"never sent":                   {func(w *world) { w.must(os.WriteFile(w.dir.mails(), nil, 0o600)) }, "0 mails of it"},
		"still in the queue":           {func(w *world) { w.must(write(w.dir.queued("reminder"), nil)) }, "mailer#reminder is not_executed, but"},
		"sent though cancelled":        {func(w *world) { w.mail(ref(mailer, "reminder")) }, "mailer#reminder is not_executed, but"},
		"an outcome nobody foresaw":    {func(w *world) { w.plan.Members[2].Result = entry.ResultUnknown }, "writer#draft is unknown, but"},
		"an outcome that is not there": {func(w *world) { w.plan.Members[2].Result = "" }, "no such outcome"},
		"a mail of nobody":             {func(w *world) { w.mail(ref(mailer, "spam")) }, "mailer#spam, which is not in the log"},
		"a booking of nobody":          {func(w *world) { w.must(w.dir.rows(booker).book(ref(booker, "x"), map[string]int{"y": 1})) }, "a booking of booker#x stands"},
		"published behind the fence":   {func(w *world) { w.must(w.dir.files(publisher).set(offer, "page.html", "x")) }, "published what was fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.tamper(w)
			if err := w.compare(); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestVerifiedIsShownAfterTheDecision has an agent read the log before the
// conductor does.
func TestVerifiedIsShownAfterTheDecision(t *testing.T) {
	var out bytes.Buffer
	c := &conductor{shown: timeline{out: &out}, decided: map[uint64]bool{}, early: map[uint64][]line{}}
	accepted := []byte(`{"kind":"accepted","incident":7}`)
	for _, name := range []string{"writer", "writer"} {
		if err := c.said(&child{name: name}, accepted); err != nil || out.Len() > 0 {
			t.Fatalf("before the decision: %s, %v", &out, err)
		}
	}
	d := &entry.Decision{Header: entry.Header{Iss: "coordinator"}, Incident: 7, Act: entry.ActAuthorize}
	decision := &entry.Entry{Header: &d.Header, Kind: entry.KindDecision, Body: d}
	err := c.logged(&client.Entry{Entry: verify.Entry{Registered: entry.Registered{Entry: decision, Index: 9}}})
	if err == nil {
		err = c.said(&child{name: "mailer"}, accepted)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if want := []string{"authorize", "writer", "mailer", ""}[min(i, 3)]; want == "" || !strings.Contains(line, want) {
			t.Errorf("line %d: %s", i, line)
		}
	}
}
