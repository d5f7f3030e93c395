package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// dock is a node whose agent-1 has equivocated, as often as a test wants.
type dock struct {
	*node
	said     *entry.Execution
	receipts []verify.Receipt // of what the agent said, and of its key
}

func newDock(t *testing.T) *dock {
	t.Helper()
	d := &dock{node: start(t), said: execution("agent-1")}
	d.add(sign(t, d.agent, d.said))
	for _, index := range []uint64{2, 0, 1} {
		r, err := d.log.Receipt(index)
		must(t, err)
		d.receipts = append(d.receipts, *r)
	}
	return d
}

// another returns evidence of one object more under the same id.
func (d *dock) another() verify.Evidence {
	d.t.Helper()
	x := *d.said
	x.Exec = uuid.NewString()
	return verify.Evidence{Kind: verify.EvidenceEquivocation, Detail: "a claim", Receipts: d.receipts, Envelope: sign(d.t, d.agent, &x).AppendEnvelope(nil)}
}

// serve answers lists of evidence with the pages of a hostile server, numbered from 1.
func (d *dock) serve(page func(number int) []byte) {
	asked := 0
	d.pass(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.PathEvidence {
			d.handler.ServeHTTP(w, r)
			return
		}
		asked++
		w.Header().Set("Content-Type", api.MediaJSON)
		_, _ = w.Write(page(asked)) // a client that has enough goes away
	})
}

// read reads the whole list and returns how many documents were yielded.
func (d *dock) read(c *client.Client) (count int, err error) {
	for _, err = range c.Evidence(d.t.Context()) {
		if err == nil {
			count++
		}
	}
	return count, err
}

func evidencePage(tb testing.TB, next int, documents ...verify.Evidence) []byte {
	tb.Helper()
	data, err := json.Marshal(api.EvidencePage{Evidence: documents, Next: fmt.Sprintf("%s?from=%d", api.PathEvidence, next)})
	must(tb, err)
	return data
}

// TestEvidenceEnds however long a server makes the list, and the error says why.
func TestEvidenceEnds(t *testing.T) {
	budget.Unraced(t, "one question after the other")
	d := newDock(t)
	once := d.another()
	noise := once
	noise.Kind, noise.Detail = verify.EvidenceEntry, strings.Repeat("\x1b[2J", 1<<16)
	for name, tc := range map[string]struct {
		page  func(number int) []byte
		count int // documents before the error
		want  string
	}{
		"one object for ever":  {func(i int) []byte { return evidencePage(t, i, once) }, 1, "an object of agent-1 under the id " + d.said.JTI + " twice"},
		"new objects for ever": {func(i int) []byte { return evidencePage(t, i, d.another()) }, 50, "more than 50 documents"},
		"no objects for ever":  {func(i int) []byte { return evidencePage(t, i) }, 0, "the list goes on at"},
		"the same place":       {func(i int) []byte { return evidencePage(t, min(i, 2), d.another()) }, 2, "the list goes on at"},
		"not at the end":       {func(int) []byte { return evidencePage(t, 1, d.another(), d.another()) }, 0, "the list goes on at"},
		"evidence of nothing":  {func(i int) []byte { return evidencePage(t, i, noise) }, 0, `evidence that shows nothing of "\x1b[2J`},
		"one giant document":   {func(int) []byte { return bytes.Repeat([]byte(" "), client.MaxAnswer+1) }, 0, fmt.Sprintf("more than %d bytes", client.MaxAnswer)},
	} {
		d.serve(tc.page)
		c := d.client(&client.Config{Attempts: 1})
		c.SetMaxEvidence(50)
		count, err := d.read(c)
		if !errors.Is(err, client.ErrMalformed) || !strings.Contains(err.Error(), tc.want) || count != tc.count || len(err.Error()) > 1000 {
			t.Errorf("%s: %d documents, want %d: %.1000v", name, count, tc.count, err)
		}
	}
}

// TestEvidenceUnderContradictoryHeads: receipts whose tree heads are of two histories
// are a fork of the ledger, and convict no agent; one with a proof of another size is
// refused.
func TestEvidenceUnderContradictoryHeads(t *testing.T) {
	d := newDock(t)
	fork := d.start(t, nil)
	fork.add(fork.enrol("agent-1", fork.agent))
	fork.add(fork.goods(1)...)
	other, err := fork.log.Receipt(0)
	must(t, err)

	e := d.another()
	e.Receipts = append([]verify.Receipt{}, e.Receipts...)
	e.Receipts[1].Head = other.Head
	d.serve(func(int) []byte { return evidencePage(t, 1, e) })
	if count, err := d.read(d.client(&client.Config{Attempts: 1})); !isFork(err) || count != 0 {
		t.Errorf("two histories: %d documents, %v", count, err)
	}

	d.add(d.goods(5)...)
	later, err := d.log.Receipt(1)
	must(t, err)
	e = d.another()
	e.Receipts = append([]verify.Receipt{}, e.Receipts...)
	e.Receipts[1].Head = later.Head // the proof is that of a smaller tree
	d.serve(func(int) []byte { return evidencePage(t, 1, e) })
	count, err := d.read(d.client(&client.Config{Attempts: 1}))
	if step, ok := errors.AsType[*verify.StepError](err); !ok || step.Step != verify.StepInclusion || count != 0 {
		t.Errorf("a proof of another size: %d documents, %v", count, err)
	}
}
