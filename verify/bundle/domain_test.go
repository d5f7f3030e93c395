package bundle_test

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// spoke logs a signal of who has more to say than that it failed.
func (w *world) spoke(name, who, subject string, standing entry.Standing) {
	w.TB.Helper()
	s := &entry.Signal{Header: w.Work(w.who[who].Principal), Subject: entry.Ref(subject), Class: "output", Code: "ungrounded",
		Standing: standing, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: w.At}
	if standing == entry.StandingMonitor || standing == entry.StandingOperator {
		s.Evidence = []entry.Evidence{{Digest: ones}}
	}
	w.put(name, who, s)
}

// abroad is an incident over two domains, source's and that of worker and
// writer, that the coordinator authorizes alone: two of each speak for it.
func abroad(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	elsewhere := func(body entry.Body) {
		if a, ok := body.(*entry.Agent); ok {
			a.Domain = "field"
		}
	}
	w.hooks["worker"], w.hooks["writer"] = elsewhere, elsewhere
	w.hooks["policy"] = func(body entry.Body) {
		if p, ok := body.(*entry.Policy); ok {
			p.Limits.Victim.Agents = 4 // who signals what the worker did
		}
	}
	prepare(w)
	w.company()
	w.pipeline()
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	contain := w.decision("coordinator", entry.ActContain, 0, "signal")
	contain.Impact.Domains = 2
	w.put("contain", "coordinator", contain)
	w.spoke("monitor signals", "monitor", "source#read", entry.StandingMonitor)
	w.spoke("worker signals", "worker", "worker#draft", entry.StandingExecutor)
	w.spoke("writer signals", "writer", "writer#page", entry.StandingExecutor)
	signals := []string{"signal", "monitor signals", "worker signals", "writer signals"}
	d := w.decision("coordinator", entry.ActAuthorize, 0, signals...)
	if d.Impact.Domains = 2; w.hooks["domains"] != nil {
		w.hooks["domains"](d)
	}
	w.put("decision", "coordinator", d)
	w.now = w.At + 1000
	b := w.bundle("worker", accepted, w.steps(), append(pipelineEntries(), append(signals, "monitor")...)...)
	w.ahead(b)
	return w, b
}

func domainCases() []bundleCase {
	refused := func(name, desc string, prepare func(w *world)) bundleCase {
		return bundleCase{name: "domains-" + name, desc: desc, scene: abroad, prepare: prepare, want: "AGT-2 INC-2"}
	}
	signaledBy := func(name, who, subject string, standing entry.Standing) func(w *world) {
		return func(w *world) {
			w.signer[name] = w.who[who]
			w.hooks[name] = func(body entry.Body) {
				issue(body, w.who[who].Principal)
				s, _ := body.(*entry.Signal)
				s.Subject, s.Standing = entry.Ref(subject), standing
			}
		}
	}
	return []bundleCase{
		refused("silent", "two domains, in one of which one principal speaks twice", signaledBy("writer signals", "worker", "worker#draft", entry.StandingExecutor)),
		refused("without-evidence", "two domains, and the second signaler of one is a monitor without evidence",
			hook("monitor signals", func(s *entry.Signal) { s.Evidence = nil })),
		refused("dismissed", "two domains, and the decision does not believe one of the signalers", hook("decision", func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: d.Pin.Size - 1, Reason: "the writer is mistaken"}}
		})),
		refused("limit", "two domains, each with its quorum, but the policy allows one", hook("policy", func(p *entry.Policy) { p.Limits.Incident.Domains = 1 })),
		refused("three", "three domains, and two of them speak", hook("domains", func(d *entry.Decision) { d.Impact.Domains = 3 })),
		refused("two-subjects", "two signalers downstream, each of something else: no subject has a quorum", func(w *world) {
			for _, name := range []string{"signal", "monitor signals"} {
				signaledBy(name, "worker", "source#read", entry.StandingDownstream)(w)
			}
			for _, name := range []string{"worker signals", "writer signals"} {
				signaledBy(name, "writer", "worker#charge", entry.StandingDownstream)(w)
			}
			hook("domains", func(d *entry.Decision) { d.Impact.Domains = 1 })(w)
		}),
		refused("not-its-own", "a third domain speaks instead of that of the agent", func(w *world) {
			for _, name := range []string{"monitor", "writer"} {
				w.hooks[name] = func(body entry.Body) {
					a, _ := body.(*entry.Agent)
					a.Domain = "desert"
				}
			}
			signaledBy("worker signals", "operator", "worker#draft", entry.StandingOperator)(w)
			worker := w.hooks["worker signals"]
			w.hooks["worker signals"] = func(body entry.Body) {
				worker(body)
				s, _ := body.(*entry.Signal)
				s.Evidence = []entry.Evidence{{Digest: ones}}
			}
		}).changed(with("operator")),
	}
}

// TestBundleSaysWhichDomainsItDoesNotShow names what only the whole log tells of
// a plan over several domains.
func TestBundleSaysWhichDomainsItDoesNotShow(t *testing.T) {
	w, b := abroad(t, plain)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	if all := strings.Join(v.NotChecked, "\n"); !strings.Contains(all, `which domains the plan touches beside "field", that of worker`) {
		t.Error(all)
	}
}
