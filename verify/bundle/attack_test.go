package bundle_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// bundleCase is a bundle and what becomes of it. The attacks are those of
// somebody who has the ledger's key and can prove whatever is in the log, and
// of whoever carries the bundle.
type bundleCase struct {
	name, desc string
	scene      func(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle)
	prepare    func(w *world)                   // nil: nothing
	change     func(w *world, b *bundle.Bundle) // nil: nothing
	state      func(w *world) bundle.Accepted   // nil: (*world).state
	later      int64                            // milliseconds to add to now
	// want is the step and the rule that refuse the bundle, such as
	// "AGT-2 INC-5"; "worker#memo: AGT-3 SCO-2" if they refuse that member
	// alone; empty if all is well.
	want string
}

// build returns all that a case needs.
func (c *bundleCase) build(tb testing.TB) (w *world, b *bundle.Bundle, a bundle.Accepted, now int64) {
	tb.Helper()
	prepare := c.prepare
	if prepare == nil {
		prepare = plain
	}
	w, b = c.scene(tb, prepare)
	if c.change != nil {
		c.change(w, b)
	}
	a = w.state()
	if c.state != nil {
		a = c.state(w)
	}
	return w, b, a, w.now + c.later
}

// hook returns what changes the entry of a name before it is signed.
func hook[T entry.Body](name string, change func(body T)) func(w *world) {
	return hookIn(name, func(_ *world, body T) { change(body) })
}

// hookIn is [hook] for a change that needs the world as it is then.
func hookIn[T entry.Body](name string, change func(w *world, body T)) func(w *world) {
	return func(w *world) {
		w.hooks[name] = func(body entry.Body) {
			change(w, body.(T)) //nolint:forcetypeassert // a wrong name fails the test
		}
	}
}

// drop leaves an entry out, and proves the rest.
func drop(names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		var keep []uint64
		for _, logged := range b.Entries {
			left := true
			for _, name := range names {
				left = left && w.at[name] != logged.Index
			}
			if left {
				keep = append(keep, logged.Index)
			}
		}
		w.prove(b, keep)
	}
}

// with adds entries, and proves all.
func with(names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		var indexes []uint64
		for _, logged := range b.Entries {
			indexes = append(indexes, logged.Index)
		}
		for _, name := range names {
			indexes = append(indexes, w.at[name])
		}
		w.prove(b, indexes)
	}
}

// all does one change after the other.
func all(changes ...func(w *world, b *bundle.Bundle)) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		for _, change := range changes {
			change(w, b)
		}
	}
}

// step changes the step that leads to an execution.
func step(name string, change func(w *world, s *bundle.ChainStep)) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		for i := range b.Steps {
			if b.Steps[i].Exec == w.at[name] {
				change(w, &b.Steps[i])
			}
		}
	}
}

// outcomeOf returns the verdict as a case states it: of the member that it
// names, else of the first that is refused.
func outcomeOf(v bundle.Verdict, err error, want string) string {
	if rule, ok := errors.AsType[*bundle.RuleError](err); ok {
		return named(rule)
	}
	if _, ok := errors.AsType[*verify.FormatError](err); ok {
		return "form"
	}
	if err != nil {
		return err.Error()
	}
	first := ""
	for i := range v.Commands {
		refused := v.Commands[i].Refused
		if refused == nil {
			continue
		}
		got := string(v.Commands[i].Exec) + ": " + named(refused)
		if got == want {
			return got
		}
		first = cmp.Or(first, got)
	}
	return first
}

func named(e *bundle.RuleError) string {
	if e.Step == e.Rule {
		return e.Step
	}
	return e.Step + " " + e.Rule
}

// TestBundleCases goes through all named cases.
func TestBundleCases(t *testing.T) {
	seen := map[string]bool{}
	var texts []string
	for _, c := range bundleCases() {
		if seen[c.name] {
			t.Fatalf("two cases %s", c.name)
		}
		seen[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			_, b, a, now := c.build(t)
			v, err := b.Check(a, now)
			if got := outcomeOf(v, err, c.want); got != c.want {
				t.Fatalf("%s: %q (%v), want %q", c.desc, got, cause(v, err), c.want)
			}
			if err != nil && (v.Commands != nil || v.NotChecked != nil) {
				t.Errorf("beside an error: commands %v, not checked %q", v.Commands, v.NotChecked)
			}
			texts = append(texts, textOfVerdict(&c, v, err))
		})
	}
	if len(texts) == len(seen) { // all were asked for, and held
		compareVerdicts(t, texts)
	}
}

// cause is the error of a verdict, or that of the first member refused.
func cause(v bundle.Verdict, err error) error {
	for i := range v.Commands {
		if refused := v.Commands[i].Refused; refused != nil && err == nil {
			return refused
		}
	}
	return err
}

func bundleCases() []bundleCase {
	var list []bundleCase
	for _, group := range [][]bundleCase{goodCases(), headCases(), waiverCases(), chainCases(), ledgerKeyCases(), decisionCases(), approvalCases(), automaticCases(), domainCases(),
		memberCases(), methodCases(), stepCases(), amendCases(), stoppedCases(), stoppedAloneCases(), boundaryCases(), absenceCases(),
		outcomeRuleCases(), withheldCases(), suitCases(), seedCases(), rangeCases(), backCases(), nowhereCases()} {
		list = append(list, group...)
	}
	return list
}

func goodCases() []bundleCase {
	return []bundleCase{
		{name: "good-automatic", desc: "the coordinator authorizes alone; a compensation is released by the outcome of the one ahead", scene: automatic},
		{name: "good-approved", desc: "two people approve; the line is restored with an irrevocable effect standing", scene: approved},
		{name: "good-two-domains", desc: "two domains, in each of which two speak for it", scene: abroad},
		{name: "good-amended", desc: "an amend keeps members whose seed is no longer believed", scene: amended},
		{name: "good-first-contact", desc: "nothing was accepted before: all is said, nothing may be done yet", scene: automatic,
			change: func(w *world, b *bundle.Bundle) {
				b.From, b.Consistency = 0, nil
				with("policy")(w, b)
			}, state: (*world).fresh},
		{name: "good-waits", desc: "the compensation ahead has no outcome yet", scene: automatic, change: drop("outcome")},
		{name: "good-same-head", desc: "the head was accepted before", scene: automatic,
			change: func(w *world, b *bundle.Bundle) { b.From, b.Consistency = uint64(len(w.Leaves)), nil },
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Head = w.Signed(len(w.Leaves))
				return a
			}},
		{name: "good-news", desc: "no decision, only what the agent is to know", scene: automatic, change: func(w *world, b *bundle.Bundle) {
			b.Decision, b.Members, b.Steps = 0, nil, nil
			w.prove(b, []uint64{w.at["coordinator"]})
			b.Membership = nil
		}},
		{name: "good-new-policy", desc: "a policy that was applied after the agent's last one, and that the decision cites", scene: automatic,
			prepare: newPolicy, change: with("policy")},
		{name: "good-revoked-later", desc: "an approver's key is revoked after the decision: what it approved stands", scene: approved,
			prepare: before("charged back", revoke("bert", nil)), change: with("revoked bert")},
		{name: "good-since", desc: "the monitor's signal reaches back to what the worker did before", scene: ranged},
		{name: "good-whole-line", desc: "no checkpoint is usable: all of the line is in the plan, and approved", scene: wholeLine},
		{name: "good-span-agent", desc: "the agent's span is the agent: its line is what it did in all workflows", scene: automatic,
			prepare: func(w *world) {
				hook("worker", func(a *entry.Agent) { a.Span = entry.SpanAgent })(w)
				elsewhere(w, "worker#memo")
			}},
		{name: "good-restored", desc: "one restore of the line is done already", scene: restored},
		{name: "good-compromised-later", desc: "an approver's key is revoked after the decision, as compromised since before: its used approval stands, with a warning",
			scene: approved, prepare: before("charged back", func(w *world) {
				since := w.at["proposal"]
				revoke("bert", &since)(w)
			}), change: with("revoked bert")},
		{name: "good-compromised-proposal", desc: "the proposal's key is revoked after the decision, as compromised since before: it is carried out, with a warning",
			scene: approved, prepare: compromisedProposal("charged back"), change: with("carl", "revoked carl")},
		{name: "good-approver-is-agent", desc: "who approved is an agent too: that it owns no other member is not checked", scene: approved,
			prepare: hook("bert", func(a *entry.Agent) { a.Roles = []entry.Role{entry.RoleApprover, entry.RoleAgent} })},
		{name: "good-stopped", desc: "an override has withheld what was in the plan, and an amend brings in more", scene: stopped},
		{name: "good-by", desc: "a compensable execution takes the line further back than the reversible one that takes it back at all", scene: further},
		{name: "good-witnessed", desc: "two of three witnesses have cosigned the head", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() }), change: cosign(60, "w1", "w2")},
	}
}

// compromisedProposal has carl propose, whose key is revoked ahead of the entry with
// a name, as compromised since before.
func compromisedProposal(revoked string) func(w *world) {
	return func(w *world) {
		w.signer["proposal"] = w.who["carl"]
		w.hooks["proposal"] = func(body entry.Body) { issue(body, "carl") }
		w.hooks["policy"] = func(body entry.Body) { body.(*entry.Policy).Windows.DecideMS = 1 } // an approver may propose then
		before(revoked, func(w *world) {
			since := w.at["signal"]
			revoke("carl", &since)(w)
		})(w)
	}
}

// before logs something ahead of the entry with a name.
func before(name string, what func(w *world)) func(w *world) {
	return func(w *world) { w.before[name] = func() { what(w) } }
}

// elsewhere moves all entries of an execution to another workflow.
func elsewhere(w *world, name string) {
	move := func(body entry.Body) { entry.HeaderOf(body).Wid = "elsewhere" }
	w.hooks[name], w.hooks[name+":confirmed"] = move, move
}

// revoke takes a principal's key back.
func revoke(name string, since *uint64) func(w *world) {
	return func(w *world) {
		body := w.Agent(w.who["authority"], entry.Revoke, w.who[name], entry.RoleApprover)
		if since != nil {
			body.CompromisedSince = &entry.Compromised{Index: *since}
		}
		w.put("revoked "+name, "authority", body)
	}
}

// newPolicy applies a policy before the signal.
func newPolicy(w *world) {
	before("signal", func(w *world) {
		p := w.policyOf("authority")
		previous := w.refTo("policy")
		p.Previous = &previous
		w.put("policy", "authority", p)
	})(w)
}

func headCases() []bundleCase {
	return []bundleCase{
		{name: "head-other-key", desc: "the head is signed by another key of the same name", scene: automatic,
			change: func(w *world, b *bundle.Bundle) {
				b.Head = otherLedger(w).SignText(testlog.HeadText(w.Head(len(w.Leaves))))
			}, want: "AGT-1"},
		{name: "head-older", desc: "the head is older than the one accepted", scene: automatic,
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Head = w.grown().Signed(len(w.Leaves) + 1)
				return a
			}, want: "AGT-1"},
		{name: "head-fork", desc: "a second root for the size that was accepted: a proven fork", scene: automatic,
			change: func(w *world, b *bundle.Bundle) { b.From, b.Consistency = uint64(len(w.Leaves)), nil },
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Head = w.forked().Signed(len(w.Leaves))
				return a
			}, want: "AGT-1"},
		{name: "head-inconsistent", desc: "the accepted head is of a fork: no proof leads to the new one", scene: automatic,
			change: func(w *world, b *bundle.Bundle) {
				b.From, b.Consistency = uint64(len(w.Leaves)-1), w.Consistency(len(w.Leaves)-1, len(w.Leaves)).Path
			},
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Head = w.forked().Signed(len(w.Leaves) - 1)
				return a
			}, want: "AGT-1"},
		{name: "head-from-elsewhere", desc: "proven from another size than the one accepted", scene: automatic,
			change: func(w *world, b *bundle.Bundle) { b.From, b.Consistency = 9, w.Consistency(9, len(w.Leaves)).Path }, want: "AGT-1"},
		{name: "entry-not-included", desc: "an entry that is not in the log", scene: automatic,
			change: func(w *world, b *bundle.Bundle) { b.Entries[0].Bytes = w.Leaves[0] }, want: "AGT-1"},
		{name: "entry-left-out", desc: "the carrier leaves an entry out of what is proven together", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Entries = b.Entries[1:] }, want: "AGT-1"},
		{name: "times-run-backwards", desc: "registered_at falls", scene: automatic,
			prepare: before("outcome", func(w *world) { w.At -= 100_000 }), want: "AGT-1"},
		{name: "witnesses-none", desc: "the policy names witnesses, and none has cosigned", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() }), want: "AGT-1"},
		{name: "witnesses-too-few", desc: "one of three witnesses, two are needed", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() }), change: cosign(60, "w2"), want: "AGT-1"},
		{name: "witnesses-of-newer-policy", desc: "a policy that the bundle brings names witnesses, and none has cosigned", scene: automatic,
			prepare: func(w *world) {
				newPolicy(w)
				w.hooks["policy"] = func(body entry.Body) {
					if p, ok := body.(*entry.Policy); ok && p.Previous != nil {
						p.Witnesses = testlog.WitnessPolicy()
					}
				}
			}, change: with("policy"), want: "AGT-1"},
		{name: "witnesses-without-policy", desc: "witnesses are pinned, but no policy says how old their word may be", scene: automatic,
			change: all(func(_ *world, b *bundle.Bundle) { b.From, b.Consistency = 0, nil }, cosign(1, "w1", "w2")),
			state: func(w *world) bundle.Accepted {
				a := w.fresh()
				a.Root.Witnesses = testlog.WitnessPolicy()
				return a
			}, want: "AGT-1"},
		{name: "witnesses-stale", desc: "the quorum cosigned longer ago than the policy allows", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() }), change: cosign(601, "w1", "w3"), want: "AGT-1"},
		{name: "witnesses-forged", desc: "a cosignature by another key", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() }), change: cosign(60, "w1", "w2 forged"), want: "AGT-1"},
	}
}

func chainCases() []bundleCase {
	return []bundleCase{
		{name: "genesis-other", desc: "the log begins with another policy than the pinned one", scene: automatic,
			change: func(w *world, b *bundle.Bundle) {
				b.From, b.Consistency = 0, nil
				with("policy")(w, b)
			}, state: func(w *world) bundle.Accepted {
				a := w.fresh()
				a.Root.Genesis[0] ^= 1
				return a
			}, want: "AGT-2 TRU-1"},
		{name: "genesis-missing", desc: "first contact without the genesis", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.From, b.Consistency = 0, nil }, state: (*world).fresh, want: "AGT-2 TRU-2"},
		{name: "key-never-let-in", desc: "the coordinator's key is let in by nobody shown", scene: automatic, change: drop("coordinator"), want: "AGT-2 TRU-2"},
		{name: "coordinator-without-role", desc: "an approver authorizes alone", scene: automatic,
			prepare: func(w *world) { w.signer["decision"] = w.who["anna"]; issuedBy(w, "anna") },
			change:  with("anna"), want: "AGT-2 INC-2"},
		{name: "coordinator-is-agent", desc: "an agent authorizes", scene: automatic,
			prepare: func(w *world) { w.signer["decision"] = w.who["writer"]; issuedBy(w, "writer") }, want: "AGT-2 TRU-2"},
		{name: "decision-forged", desc: "signed with another key under the coordinator's key id", scene: automatic,
			prepare: func(w *world) {
				k := w.who["coordinator"]
				k.Private = w.who["writer"].Private
				w.signer["decision"] = k
			}, want: "AGT-2 TRU-2"},
		{name: "enrolled-by-agent", desc: "the writer is enrolled by an agent", scene: automatic,
			prepare: func(w *world) {
				w.signer["writer"] = w.who["worker"]
				w.hooks["writer"] = func(body entry.Body) { issue(body, "worker") }
			}, want: "AGT-2 TRU-2"},
		{name: "policy-not-cited", desc: "a newer policy was in force when the coordinator decided", scene: automatic,
			prepare: func(w *world) {
				newPolicy(w)
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Policy = entry.LogRef{Index: 0, LeafHash: w.leafHash(0)}
				}
			}, change: with("policy"), want: "AGT-2 TRU-3"},
		{name: "policy-accepted-not-cited", desc: "as before, and the bundle does not show the newer policy, but the agent knows it", scene: automatic,
			prepare: func(w *world) {
				newPolicy(w)
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Policy = entry.LogRef{Index: 0, LeafHash: w.leafHash(0)}
				}
			},
			change: fromAll, state: knowing("policy"), want: "AGT-2 TRU-3"},
		{name: "policy-unknown", desc: "the decision cites a policy that is not shown", scene: automatic, prepare: newPolicy, want: "AGT-2 TRU-3"},
		{name: "policy-gap", desc: "a policy whose predecessor is not shown", scene: automatic,
			prepare: func(w *world) {
				newPolicy(w)
				w.before["decision"] = func() {
					w.at["between"] = w.at["policy"]
					p := w.policyOf("authority")
					previous := w.refTo("policy")
					p.Previous = &previous
					w.put("policy", "authority", p)
				}
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Policy = w.refTo("policy")
				}
			}, change: with("policy"), want: "AGT-2 TRU-2"},
		{name: "coordinator-revoked", desc: "the coordinator's key was revoked before it decided, and the bundle shows it", scene: automatic,
			prepare: before("decision", revokeRole("coordinator", entry.RoleCoordinator)), change: with("revoked coordinator"), want: "AGT-2 TRU-2"},
		{name: "coordinator-revoked-hidden", desc: "as before, and the bundle hides it, but the agent knows it", scene: automatic,
			prepare: before("decision", revokeRole("coordinator", entry.RoleCoordinator)),
			change:  fromAll, state: knowing("coordinator", "revoked coordinator"), want: "AGT-2 TRU-2"},
		{name: "coordinator-compromised", desc: "its key was revoked after the decision, as compromised since before", scene: automatic,
			prepare: before("outcome", func(w *world) {
				since := w.at["signal"]
				body := w.Agent(w.who["authority"], entry.Revoke, w.who["coordinator"], entry.RoleCoordinator)
				body.CompromisedSince = &entry.Compromised{Index: since}
				w.put("revoked coordinator", "authority", body)
			}), change: with("revoked coordinator"), want: "AGT-2 TRU-4"},
		{name: "link-other", desc: "the agent has accepted another entry at an index of the chain", scene: automatic,
			state: func(w *world) bundle.Accepted {
				a := w.state()
				e := w.who["enroller"].Sign(w.TB, w.Agent(w.who["enroller"], entry.Enrol, testlog.NewKey(w.TB, "worker", "another"), entry.RoleAgent))
				a.Links[2].Bytes = e.AppendLeaf(nil, w.At)
				return a
			}, want: "AGT-2 TRU-3"},
		{name: "audience-other", desc: "a signal that was made for another ledger", scene: automatic,
			prepare: hook("signal", func(s *entry.Signal) { s.Aud = "ledger.example/other" }), want: "AGT-2"},
		{name: "audience-decision", desc: "a decision that was made for another ledger", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Aud = "ledger.example/other" }), want: "AGT-2"},
	}
}

// issue makes a body one of another principal.
func issue(body entry.Body, who entry.Principal) { entry.HeaderOf(body).Iss = who }

// issuedBy makes the decision one of another principal.
func issuedBy(w *world, who entry.Principal) {
	w.hooks["decision"] = func(body entry.Body) { issue(body, who) }
}

func revokeRole(name string, role entry.Role) func(w *world) {
	return func(w *world) {
		w.put("revoked "+name, "authority", w.Agent(w.who["authority"], entry.Revoke, w.who[name], role))
	}
}

// knowing is a state that has accepted the whole log, and the links named.
func knowing(names ...string) func(w *world) bundle.Accepted {
	return func(w *world) bundle.Accepted {
		a := w.state()
		a.Head = w.Signed(len(w.Leaves))
		for _, name := range names {
			index := w.at[name]
			i := 0
			for i < len(a.Links) && a.Links[i].Index < index {
				i++
			}
			a.Links = append(a.Links[:i:i], append([]bundle.Leaf{{Index: index, Bytes: w.Leaves[index]}}, a.Links[i:]...)...)
		}
		return a
	}
}

// fromAll asks from the newest head on.
func fromAll(w *world, b *bundle.Bundle) { b.From, b.Consistency = uint64(len(w.Leaves)), nil }

// grown is the log with one entry more.
func (w *world) grown() *testlog.Log {
	l := *w.Log
	l.Leaves = append(slices.Clip(l.Leaves), []byte("one more"))
	return &l
}

// forked is a log with another entry where the outcome is about to be.
func (w *world) forked() *testlog.Log {
	l := *w.Log
	l.Leaves = append([][]byte{}, l.Leaves...)
	l.Leaves[accepted+1] = []byte("never shown to others")
	return &l
}

func otherLedger(w *world) *testlog.Log {
	l := testlog.New(w.TB)
	l.Signer = testlog.OtherSigner(w.TB)
	return l
}
