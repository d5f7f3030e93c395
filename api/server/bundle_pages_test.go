package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify/bundle"
)

// TestRandomBundles takes random graphs of executions over HTTP to an
// authorization by people, and wants what every agent is told to verify, with no
// member refused, on pages of any size.
func TestRandomBundles(t *testing.T) { withAndWithout(t, testRandomBundles) }

func testRandomBundles(t *testing.T, c *panel) {
	t.Helper()
	budget.Unraced(t, "one question after the other")
	agents := []entry.Principal{"agent-1", "agent-2", "agent-3"}
	run, told := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		wid := entry.WorkflowID(fmt.Sprintf("random-%d", run))
		var refs []entry.Ref
		for i := range rapid.IntRange(2, 9).Draw(r, "executions") {
			agent := rapid.SampledFrom(agents).Draw(r, "agent")
			if rapid.IntRange(0, 3).Draw(r, "checkpoint") == 0 {
				c.point(agent, wid, fmt.Sprintf("c%d-%d", run, i), "")
			}
			effect := rapid.SampledFrom([]entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectReversible, entry.EffectCompensable,
				entry.EffectIrrevocable}).Draw(r, "effect")
			x := in(wid, work(agent, fmt.Sprintf("x%d-%d", run, i), effect))
			for _, ref := range refs {
				if rapid.IntRange(0, 2).Draw(r, "parent") == 0 {
					x.Parents = append(x.Parents, entry.Parent{Exec: ref, Dep: rapid.SampledFrom([]entry.Dep{entry.Hard, entry.Hard, entry.Soft}).Draw(r, "dep")})
				}
			}
			refs = append(refs, c.runs(x, whole[:rapid.IntRange(1, 3).Draw(r, "steps")]...))
		}
		subject := rapid.SampledFrom(refs).Draw(r, "subject")
		issuer, _ := subject.Split()
		sig := c.signal(subject)
		sig.Header, sig.Effects = c.header(issuer, wid), entry.EffectsUnknown
		id := c.put(sig).Index
		c.approves(id, entry.ActAuthorize)
		for _, agent := range agents {
			k := c.keeps(agent)
			commands := k.told(id)
			pages := 0
			for path := fmt.Sprintf("/v1/incidents/%d/bundle?agent=%s&limit=1", id, agent); path != ""; pages++ {
				b, next := c.fetch(path)
				path = next
				if len(commands) > 0 && !slices.ContainsFunc(b.Members, func(m bundle.PlanMember) bool { return m.Member.Agent == agent }) {
					r.Fatalf("page %d has no member of %s", pages, agent)
				}
			}
			if pages != max(1, len(commands)) {
				r.Fatalf("%d pages of one member for %d", pages, len(commands))
			}
			told += len(commands)
		}
	})
	if told < run {
		t.Errorf("agents were told %d members: the graphs are too simple", told)
	}
}

// client returns a client of the panel's server.
func (c *panel) client() *client.Client {
	c.t.Helper()
	made, err := client.New(c.url, c.root(), nil)
	must(c.t, err)
	return made
}

// news takes up all news, page by page, through the client.
func (c *panel) news(k *bundle.Accepted, limit int) (pages int) {
	c.t.Helper()
	q := api.BundleQuery{Agent: k.Agent, From: k.Size(), Limit: limit}
	for {
		page, err := c.client().Bundle(c.t.Context(), q)
		must(c.t, err)
		v, err := page.Check(*k, c.log.Now())
		must(c.t, err)
		*k = v.Next
		pages++
		if q.From, q.After = k.Size(), page.Next; page.Next == 0 {
			return pages
		}
	}
}

// What does not fit one bundle comes on pages, or is refused by name; whoever has
// read the news can go on.
func TestBundleTooLarge(t *testing.T) {
	budget.Unraced(t, "the requests are those of TestRandomBundles, with more bytes")
	withAndWithout(t, testBundleTooLarge)
}

func testBundleTooLarge(t *testing.T, c *panel) {
	t.Helper()
	c.pipeline()
	for range 210 { // policies of 40 KB each, in base64: of a remark, whose reading costs nothing
		p := c.follower()
		p.Witnesses = "# " + strings.Repeat("x", 29_000) + "\nquorum none\n"
		c.put(p)
	}
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	c.problem(c.get(fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2", id)), entry.TooLarge, http.StatusRequestEntityTooLarge)
	k := c.keeps("agent-2")
	if pages := c.news(&k.Accepted, 0); pages < 2 {
		t.Errorf("%d pages of news", pages)
	}
	if commands := k.told(id); len(commands) != 2 {
		t.Fatalf("%+v", commands)
	}
	_, err := c.client().Bundle(t.Context(), api.BundleQuery{Incident: id, Agent: "agent-2", From: k.Size(), Whole: true})
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Name() != entry.TooLarge {
		t.Errorf("%v", err)
	}
}

// News come on pages, in which keys stand before what they sign; an agent that
// lacks some asks for all.
func TestNews(t *testing.T) {
	c := newPanel(t, nil)
	k := c.keeps("agent-1")
	if pages := c.news(&k.Accepted, 1); pages < 5 {
		t.Errorf("%d pages of one entry", pages)
	}
	c.put(c.follower())
	rotated := newSigner(t)
	rotation := c.enrolment("ann", rotated, entry.RoleApprover)
	rotation.Op = entry.Rotate
	c.put(rotation)
	c.signers["ann"] = rotated
	_ = c.news(&k.Accepted, 0)
	chain := map[uint64]bool{}
	for _, link := range k.Links {
		chain[link.Index] = true
	}
	size := c.log.Head().Size
	if !chain[size-1] || !chain[size-2] {
		t.Errorf("links %v, the newest are %d and %d", chain, size-2, size-1)
	}
	k.Links = nil
	page, err := c.client().Bundle(t.Context(), api.BundleQuery{Agent: "agent-1", From: k.Size()})
	must(t, err)
	if _, err := page.Check(k.Accepted, c.log.Now()); err != nil && len(page.Entries) > 0 {
		t.Fatalf("nothing new: %v", err)
	}
	page, err = c.client().Bundle(t.Context(), api.BundleQuery{Agent: "agent-1", From: k.Size(), Whole: true})
	must(t, err)
	v, err := page.Check(k.Accepted, c.log.Now())
	must(t, err)
	if len(v.Next.Links) < 9 {
		t.Errorf("%d links of all", len(v.Next.Links))
	}
}

// A page has one member at least, and 4,096 at most.
func TestBundleLimits(t *testing.T) { withAndWithout(t, testBundleLimits) }

func testBundleLimits(t *testing.T, c *panel) {
	t.Helper()
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	for query, want := range map[string]int{"limit=1": 200, "limit=4096": 200, "limit=0": 400, "limit=4097": 400, "from=9999": 404, "whole=maybe": 400, "after=x": 400} {
		for _, path := range []string{fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-1&", id), "/v1/agents/agent-1/news?"} {
			if a := c.get(path + query); a.StatusCode != want {
				t.Errorf("%s%s: %s, want %d", path, query, a.Status, want)
			}
		}
	}
}

// Whoever waits for commands is told when there is something, and of nothing
// else.
func TestCommands(t *testing.T) { withAndWithout(t, testCommands) }

func testCommands(t *testing.T, c *panel) {
	t.Helper()
	c.pipeline()
	cl := c.client()
	before := c.log.Head().Size
	first, err := cl.Commands(t.Context(), "agent-2", api.CommandsQuery{})
	must(t, err)
	if now := c.log.Head().Size; first.Size < before || first.Size > now || len(first.Commands) != 0 || first.News == 0 { // index entries come at any time
		t.Fatalf("%+v, the log has size %d", first, now)
	}
	idle, err := cl.Commands(t.Context(), "agent-2", api.CommandsQuery{From: first.Size, Wait: time.Millisecond})
	must(t, err)
	if len(idle.Commands) != 0 {
		t.Fatalf("%+v", idle)
	}
	wait := func(from uint64, act func()) *api.Commands {
		t.Helper()
		answer := make(chan *api.Commands, 1)
		go func() {
			got, err := cl.Commands(t.Context(), "agent-2", api.CommandsQuery{From: from, Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			answer <- got
		}()
		act()
		got := <-answer
		if got == nil {
			t.FailNow()
		}
		return got
	}
	var id, decision uint64
	got := wait(first.Size, func() {
		id = c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
		decision = c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})).Index
	})
	if want := (api.Command{Incident: id, Decision: decision, Members: 1, Released: 1, Changed: decision}); len(got.Commands) != 1 || got.Commands[0] != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	_, err = cl.Bundle(t.Context(), api.BundleQuery{Incident: id, Agent: "agent-2"})
	must(t, err)
	sent, err := cl.Commands(t.Context(), "agent-2", api.CommandsQuery{})
	must(t, err)
	if len(sent.Commands) != 1 || sent.Commands[0].BundleAt < sent.Since || sent.Since == 0 {
		t.Errorf("a bundle was sent: %+v", sent)
	}
	var override uint64
	over := wait(got.Size, func() { override = c.put(c.draft("olga", coord.Order{Incident: id, Act: entry.ActOverride})).Index })
	if len(over.Commands) != 0 || over.News != override || over.Size <= override {
		t.Fatalf("%+v, the override stands at %d", over, override)
	}
	for path, want := range map[string]entry.Problem{"?wait=25001": entry.Malformed, "?from=x": entry.Malformed, "?from=9999": entry.NotFound} {
		c.problem(c.get("/v1/agents/agent-2/commands"+path), want, map[entry.Problem]int{entry.NotFound: 404, entry.Malformed: 400}[want])
	}
}

// A question that waits ends with the server.
func TestCommandsEndWithServer(t *testing.T) {
	n := start(t, nil)
	address, stop := n.serve(func(c *server.Config) { c.Grace = time.Minute })
	answer := dial(t, address, fmt.Sprintf("GET /v1/agents/agent-1/commands?wait=25000&from=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", n.log.Head().Size))
	for under := ""; !strings.Contains(under, "\narl_event_streams 1\n"); {
		response, err := http.Get("http://" + address + "/metrics")
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, errors.Join(err, response.Body.Close()))
		under = string(body)
	}
	stop()
	line, err := answer.ReadString('\n')
	must(t, err)
	if !strings.HasPrefix(line, "HTTP/1.1 200") {
		t.Errorf("%q", line)
	}
}
