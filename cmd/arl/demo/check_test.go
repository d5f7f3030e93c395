package demo

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// world is what a rolled-back pipeline has left, and the log and the plan that
// say so.
type world struct {
	*comparison
	t *testing.T
}

const reminder entry.Ref = "mailer#reminder"

const cancelKey = "key-1" // of the idempotency of the booker's compensation

func newWorld(t *testing.T) *world {
	t.Helper()
	d := directory(t.TempDir())
	log := newHistory()
	w := &world{t: t, comparison: &comparison{dir: d, log: log}}
	w.members = []member{
		{Exec: reminder, Agent: mailer, Result: entry.NotExecuted},
		{Exec: send, Agent: mailer, Result: entry.ResultIrrevocable},
		{Exec: draft, Agent: writer, Checkpoint: "writer#before", Result: entry.Restored},
		{Exec: hold, Agent: booker, Result: entry.Compensated},
		{Exec: quote, Agent: pricer, Checkpoint: "pricer#before", Result: entry.Restored},
	}
	for _, m := range w.members {
		log.executions[m.Exec] = &entry.Execution{Header: entry.Header{Wid: offer}}
		w.must(write(d.key(m.Agent)+".secret", []byte("00ff\n")))
	}
	log.comps[hold] = &entry.Execution{IdempotencyKey: entry.DigestOf([]byte(cancelKey))}
	for _, p := range []entry.Principal{writer, pricer} {
		state, err := d.files(p, offer).snapshot()
		w.must(err)
		log.checkpoints[entry.NewRef(p, "before")] = &entry.Checkpoint{Digest: stateDigest([]byte{0, 255}, state)}
	}
	w.must(d.bookings().book(hold, map[string]int{"seats": 12}))
	w.must(d.bookings().cancel(cancelKey, hold, "booker#undo"))
	w.must(write(d.gateway().path, nil))
	w.mail(send)
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
	w.must(w.dir.gateway().keep(mail{Exec: exec, To: "customer@example.org", Text: "text"}))
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
		"a file is not restored":       {func(w *world) { w.must(w.dir.files(writer, offer).set("letter.txt", "x")) }, "writer#draft is restored, but"},
		"prices are not restored":      {func(w *world) { w.must(w.dir.files(pricer, offer).set("prices.json", "{}")) }, "pricer#quote is restored, but"},
		"no checkpoint in the log":     {func(w *world) { delete(w.log.checkpoints, "writer#before") }, "writer#draft is restored, but"},
		"cancelled twice":              {func(w *world) { w.must(w.dir.bookings().cancel("key-2", hold, "c")) }, "cancelled 2 times"},
		"never cancelled":              {func(w *world) { w.must(os.RemoveAll(w.dir.path("work", string(booker), "cancelled"))) }, "cancelled 0 times"},
		"cancelled by another key":     {func(w *world) { w.log.comps[hold].IdempotencyKey = entry.DigestOf([]byte("key-2")) }, "under another key"},
		"no compensation in the log":   {func(w *world) { delete(w.log.comps, hold) }, "booker#hold is compensated, but"},
		"sent twice":                   {func(w *world) { w.mail(send) }, "2 mails were sent for it"},
		"never sent":                   {func(w *world) { w.must(os.WriteFile(w.dir.gateway().path, nil, 0o600)) }, "0 mails were sent for it"},
		"still in the queue":           {func(w *world) { w.must(write(w.dir.queued(reminder), nil)) }, "mailer#reminder is not_executed, but"},
		"sent though cancelled":        {func(w *world) { w.mail(reminder) }, "mailer#reminder is not_executed, but"},
		"an outcome nobody foresaw":    {func(w *world) { w.members[2].Result = entry.ResultUnknown }, "writer#draft is unknown, but"},
		"an outcome that is not there": {func(w *world) { w.members[2].Result = "" }, "no such outcome"},
		"a mail of nobody":             {func(w *world) { w.mail("mailer#spam") }, "mailer#spam, which is not in the log"},
		"a booking of nobody":          {func(w *world) { w.must(w.dir.bookings().book("booker#x", map[string]int{"y": 1})) }, "a booking of booker-x stands"},
		"published behind the fence":   {func(w *world) { w.must(w.dir.files(publisher, offer).set("page.html", "x")) }, "published a fenced output"},
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
	accepted := []byte(`{"kind":"verified","incident":7,"text":"has verified"}`)
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
