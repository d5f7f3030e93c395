package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func material(receipts ...verify.Receipt) verify.Material { return verify.Material{Receipts: receipts} }

// readings are everything that a client can be asked for.
func readings(n *node, c *client.Client) map[string]func(ctx context.Context) error {
	last := func(seq func(func(*client.Entry, error) bool)) (err error) {
		for _, err = range seq {
			if err != nil {
				return err
			}
		}
		return nil
	}
	return map[string]func(ctx context.Context) error{
		"/v1/entries/2/receipt": func(ctx context.Context) error { _, err := c.Receipt(ctx, 2); return err },
		"/v1/entries": func(ctx context.Context) error {
			return last(c.Entries(ctx, api.ListQuery{Kinds: []entry.Kind{entry.KindExecution}, Limit: 2}))
		},
		"/checkpoint": func(ctx context.Context) error { _, err := c.Head(ctx); return err },
		"/v1/consistency": func(ctx context.Context) error { // the published head may be a second old, a receipt's is not
			n.add(n.good())
			_, err := c.Receipt(ctx, n.log.Head().Size-1)
			return err
		},
		"/v1/log": func(ctx context.Context) error { _, err := c.Log(ctx); return err },
	}
}

// Whatever single digit or letter of an answer is changed, no answer comes of
// it, or the same one.
// Draft: LOG-4.
func TestTamperedAnswers(t *testing.T) {
	n := start(t)
	n.add(n.goods(5)...)
	for path := range readings(n, n.client(nil)) {
		if path == "/v1/log" {
			continue // nobody believes it
		}
		for at := range 40 {
			n.pass(n.handler.ServeHTTP)
			c := n.client(&client.Config{Attempts: 1})
			if _, err := c.Receipt(t.Context(), 0); err != nil { // not the published head: it may be that of the empty log
				t.Fatal(err)
			}
			asked, changed := false, false
			n.tamper(path, func(body []byte) []byte {
				asked = true
				place := at * len(body) / 40
				for place < len(body) && !strings.ContainsRune("bcdefghijklmnopqrstuvwxyz123456789", rune(body[place])) {
					place++
				}
				if place < len(body) {
					body[place]--
					changed = true
				}
				return body
			})
			err := readings(n, c)[path](t.Context())
			if !asked {
				t.Errorf("%s was not asked for", path)
			}
			if changed && err == nil && path != "/checkpoint" {
				t.Errorf("%s with byte %d of 40 changed was believed", path, at)
			}
		}
	}
}

// A proof that names other sizes than those asked for is refused, whatever it proves.
func TestTamperedConsistency(t *testing.T) {
	n := start(t)
	n.add(n.goods(5)...)
	older, err := n.log.Receipt(0)
	must(t, err)
	n.add(n.good())
	newer, err := n.log.Receipt(0)
	must(t, err)
	for _, name := range []string{"old", "new"} {
		n.tamper("/v1/consistency", func(body []byte) []byte { return bytes.Replace(body, []byte(name), []byte("not"), 1) })
		if _, err := n.client(nil).Consistency(t.Context(), older.Head, newer.Head); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A receipt of another entry, however true, is not the one asked for.
func TestSwappedAnswers(t *testing.T) {
	n := start(t)
	n.add(n.goods(5)...)
	c := n.client(&client.Config{Attempts: 1})
	other, err := n.log.Receipt(3)
	must(t, err)
	body, err := other.Encode()
	must(t, err)
	swap := func([]byte) []byte { return body }
	n.tamper("/v1/entries", swap)
	if _, err := c.Receipt(t.Context(), 2); err == nil {
		t.Error("the receipt of another entry")
	}
	if _, err := c.Submit(t.Context(), n.good()); err == nil {
		t.Error("the receipt of another entry for a submitted one")
	}
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			r.URL.RawQuery = "from=1"
		}
		n.handler.ServeHTTP(w, r)
	})
	for _, q := range []api.ListQuery{{Kinds: []entry.Kind{entry.KindExecution}}, {From: 2}, {Before: new(uint64(2))}, {Newest: true}, {Agent: "agent-2"}, {Until: 1}} {
		refused := false
		for _, err := range c.Entries(t.Context(), q) {
			refused = refused || err != nil
		}
		if !refused {
			t.Errorf("%+v was answered with something else", q)
		}
	}
}

// A server that has nothing to give is not asked for ever: every list ends.
func TestEndlessLists(t *testing.T) {
	n := start(t)
	n.add(n.goods(5)...)
	head, err := n.client(nil).Head(t.Context())
	must(t, err)
	asked := 0
	serve := func(next func(from int) string) {
		asked = 0
		n.pass(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/entries" {
				n.handler.ServeHTTP(w, r)
				return
			}
			asked++
			w.Header().Set("Content-Type", "application/json")
			_ = json.MarshalWrite(w, api.Page{Head: head.Note, Entries: []api.Item{}, Next: next(asked)}) // whoever asks sees what is missing
		})
	}
	for name, next := range map[string]func(int) string{
		"one further":        func(i int) string { return fmt.Sprintf("/v1/entries?from=%d", i) },
		"one fewer":          func(i int) string { return fmt.Sprintf("/v1/entries?before=%d&newest=true", max(1, 7-i)) },
		"other words":        func(i int) string { return fmt.Sprintf("/v1/entries?from=0&limit=%d", i) },
		"behind the end":     func(i int) string { return fmt.Sprintf("/v1/entries?from=%d", i*client.ScanMin) },
		"from the beginning": func(i int) string { return strings.Repeat("/v1/entries?", 1+i%2) },
		"nowhere":            func(int) string { return "/v1/entries?from=x&before=y" },
		"another list":       func(i int) string { return fmt.Sprintf("/v1/incidents?from=%d", i) },
	} {
		for _, q := range []api.ListQuery{{}, {Newest: true}, {Since: 1}} {
			serve(next)
			var last error
			for _, last = range n.client(&client.Config{Attempts: 1}).Entries(t.Context(), q) {
			}
			if !errors.Is(last, client.ErrMalformed) || asked > 2 {
				t.Errorf("%s, %+v: asked %d times: %v", name, q, asked, last)
			}
		}
	}
}

// A page without entries that has looked at enough of them goes on, at the limit
// and not one short of it.
func TestEmptyPages(t *testing.T) {
	for looked, good := range map[uint64]bool{client.ScanMin: true, client.ScanMin - 1: false} {
		for _, newest := range []bool{false, true} {
			if got := client.GoesOn(newest, 2*client.ScanMin, looked); got != good {
				t.Errorf("%d looked at, newest %v: %v", looked, newest, got)
			}
		}
	}
}

// Two logs under one key: whoever saw one is not shown the other. The error has
// both heads, and the client believes nothing more.
func TestFork(t *testing.T) {
	id := newIdentity(t)
	one, two := id.start(t, nil), id.start(t, nil)
	enrolment := one.enrol("agent-1", id.agent)
	one.add(enrolment)
	two.add(enrolment)
	one.add(one.goods(3)...)
	two.add(two.goods(4)...)
	c := one.client(&client.Config{Attempts: 1})
	_, err := c.Receipt(t.Context(), 0)
	must(t, err)
	later := one.client(&client.Config{Attempts: 1, Accepted: c.Accepted().Note})
	one.pass(two.handler.ServeHTTP)
	two.clock.Store(int64(2 * time.Second)) // past the moment for which a published head is kept
	for name, use := range map[string]func(c *client.Client) error{
		"head":    func(c *client.Client) error { _, err := c.Head(t.Context()); return err },
		"receipt": func(c *client.Client) error { _, err := c.Receipt(t.Context(), 0); return err },
		"submit":  func(c *client.Client) error { _, err := c.Submit(t.Context(), two.good()); return err },
		"list": func(c *client.Client) (err error) {
			for _, err = range c.Entries(t.Context(), api.ListQuery{}) {
				break
			}
			return err
		},
		"events": func(c *client.Client) (err error) {
			for _, err = range c.Events(t.Context(), 0) {
				break
			}
			return err
		},
	} {
		for _, c := range []*client.Client{c, later} {
			fork, ok := errors.AsType[*verify.ForkError](use(c))
			if !ok || fork.First == fork.Second || !strings.HasPrefix(fork.First, origin) || !strings.HasPrefix(fork.Second, origin) {
				t.Errorf("%s: no fork: %v", name, use(c))
				continue
			}
			first, err := one.root().Head([]byte(fork.First))
			must(t, err)
			second, err := one.root().Head([]byte(fork.Second))
			must(t, err)
			for _, want := range []string{fmt.Sprint(first.Size), fmt.Sprint(second.Size), first.Root.String(), second.Root.String()} {
				if text := fork.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") {
					t.Errorf("%s: no %s on one line: %s", name, want, text)
				}
			}
		}
	}
	one.pass(one.handler.ServeHTTP)
	if _, err := c.Head(t.Context()); err == nil {
		t.Error("after a fork the client believes again")
	}
}

// A ledger that lost entries it has signed for is found out: it is stale while its log is smaller,
// and a fork once it has signed other entries in their place.
// Draft: LOG-4.
func TestLostEntries(t *testing.T) {
	id := newIdentity(t)
	long := id.start(t, nil)
	short := long.copied()
	enrolment := long.enrol("agent-1", id.agent)
	long.add(enrolment)
	c := long.client(&client.Config{Attempts: 1})
	_, err := c.Receipt(t.Context(), 0)
	must(t, err)
	long.pass(short.handler.ServeHTTP)
	stale, ok := errors.AsType[*client.StaleError](second(c.Head(t.Context())))
	if !ok || stale.Size != 1 || stale.Least != 2 || stale.Accepted != c.Accepted().Note {
		t.Fatalf("error %+v", stale)
	}
	if opened, err := short.root().Head([]byte(stale.Published)); err != nil || opened.Size != 1 {
		t.Fatalf("the head that the ledger shows now: %v, %v", opened, err)
	}
	short.clock.Store(int64(2 * time.Second)) // another time, and past the moment for which a head is kept
	short.add(enrolment)
	if _, err := c.Receipt(t.Context(), 0); !isFork(err) {
		t.Fatalf("error %v", err)
	}
}

func isFork(err error) bool {
	_, ok := errors.AsType[*verify.ForkError](err)
	return ok
}

// anything is a fold that admits whatever comes.
type anything struct{}

func (anything) Admit(*entry.Entry, uint64, int64) error { return nil }
func (anything) Apply(*entry.Entry, uint64, int64)       {}
func (anything) Snapshot(io.Writer) error                { return nil }
func (anything) Restore(r io.Reader) error               { _, err := io.Copy(io.Discard, r); return err }

// A ledger that logs what nobody signed proves its inclusion in vain.
func TestUnsignedEntries(t *testing.T) {
	id := newIdentity(t)
	n := id.start(t, func() ledger.Fold { return anything{} })
	n.add(n.enrol("agent-1", n.agent))
	forged := sign(t, newSigner(t), execution("agent-1"))
	forged.Seal(n.agent.Public().KeyID(), bytes.Repeat([]byte{1}, 64))
	n.add(n.good(), forged, sign(t, newSigner(t), execution("agent-1")), sign(t, n.agent, execution("agent-2")))
	c := n.client(&client.Config{Attempts: 1})
	if _, err := c.Entry(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for index := uint64(3); index < 6; index++ {
		step, ok := errors.AsType[*verify.StepError](entryError(c.Entry(t.Context(), index)))
		if !ok || step.Step != verify.StepSigner {
			t.Errorf("entry %d: %v", index, step)
		}
	}
	intruder := newSigner(t)
	stolen := n.agentEntry("agent-1", intruder, entry.Enrol)
	stolen.Seal(intruder.Public().KeyID(), stolen.Sig)
	n.add(stolen, sign(t, intruder, execution("agent-1")))
	if _, err := c.Entry(t.Context(), 7); err == nil {
		t.Error("a key that nobody enrolled")
	}
	if _, err := c.Chain(t.Context()); err == nil {
		t.Error("a chain with a broken link")
	}
}

func entryError(_ *client.Entry, err error) error { return err }

// Another genesis is another ledger, whatever its keys.
func TestAnotherGenesis(t *testing.T) {
	n := start(t)
	root := n.root()
	root.Genesis = merkle.HashLeaf([]byte("another"))
	c, err := client.New(n.url, root, nil)
	must(t, err)
	if _, err := c.Entry(t.Context(), 1); err == nil {
		t.Error("a chain from another genesis")
	}
	if _, err := c.Receipt(t.Context(), 0); err == nil {
		t.Error("a receipt of another genesis")
	}
	root = n.root()
	root.Origin = "ledger.example/other"
	if c, err = client.New(n.url, root, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Log(t.Context()); err == nil {
		t.Error("another ledger's log")
	}
}

// Consistency is proven between signed heads, and only between those.
func TestConsistency(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	older, err := c.Head(t.Context())
	must(t, err)
	got, err := c.Submit(t.Context(), n.good())
	must(t, err)
	proof, err := c.Consistency(t.Context(), older.Note, got.Head)
	must(t, err)
	if _, _, err := n.root().Consistency(proof); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Consistency(t.Context(), older.Note, strings.Replace(got.Head, "\n3\n", "\n4\n", 1)); err == nil {
		t.Error("a head that nobody signed")
	}
}
