package conformance

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// noted is the scene of the cases about bundles: beside the charge of the agent the plan has an
// execution of the writer, so that each proof has a hash.
func (p *play) noted() {
	p.did(charge, entry.EffectCompensable)
	p.did("writer#note", entry.EffectNone, charge)
	p.fails(charge)
	p.authorized(nil)
}

// onTheWay is a case in which somebody changes the bundle on its way. Then the agent gets the right
// one, and obeys.
func onTheWay(name, about string, ids []string, change func(p *play, b *bundle.Bundle)) agentCase {
	return agentCase{name: "bundle/" + name, ids: ids, about: about, play: func(p *play) {
		p.noted()
		p.doctor(func(b *bundle.Bundle) { change(p, b) })
		p.start()
		p.idle()
		if p.refused(charge) {
			return
		}
		p.honest()
		p.outcome(charge, entry.Compensated)
	}}
}

// refused reports whether the agent has answered that a member has no valid chain, as it may.
func (p *play) refused(of entry.Ref) bool {
	return slices.ContainsFunc(p.entries(), func(e *entry.Registered) bool {
		o, is := e.Body.(*entry.Outcome)
		return is && o.Exec == of && o.Result == entry.Refused
	})
}

// bundleCases are those of a bundle that is changed on its way.
func bundleCases() []agentCase {
	is := func(kind entry.Kind) func(*entry.Entry) bool {
		return func(e *entry.Entry) bool { return e.Kind == kind }
	}
	cases := []agentCase{
		onTheWay("leaf", "one character of the signature of the decision is another", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) {
			for i := range b.Entries {
				if b.Entries[i].Index == b.Decision {
					b.Entries[i].Bytes = flipped(b.Entries[i].Bytes)
				}
			}
		}),
		onTheWay("inclusion", "one bit of the inclusion proof is another", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Inclusion[0][0] ^= 1 }),
		onTheWay("inclusion-longer", "the inclusion proof has a hash that nothing needs", []string{"AGT-6"}, func(_ *play, b *bundle.Bundle) {
			b.Inclusion = append(b.Inclusion, b.Inclusion[0])
		}),
		onTheWay("without-signal", "the signal is left out, and the rest is proven", []string{"AGT-7"}, func(p *play, b *bundle.Bundle) { p.without(b, is(entry.KindSignal)) }),
		onTheWay("without-execution", "the first entry of the execution is left out", []string{"AGT-7"}, func(p *play, b *bundle.Bundle) { p.without(b, is(entry.KindExecution)) }),
		onTheWay("needless", "an entry that nothing needs is added and proven", []string{"AGT-6"}, func(p *play, b *bundle.Bundle) {
			p.prove(b, append(indexes(b), p.incident-1)...) // the writer's execution
		}),
		onTheWay("head-signature", "the signature of the tree head is another", []string{"TRU-1"}, func(p *play, b *bundle.Bundle) {
			text, signatures, _ := strings.Cut(b.Head, "\n\n")
			b.Head = text + "\n\n" + strings.Replace(signatures, "A", "B", 1)
			if !strings.Contains(signatures, "A") {
				b.Head = text + "\n\n" + strings.Replace(signatures, "a", "b", 1)
			}
		}),
		onTheWay("head-key", "another key of the ledger's name signed the tree head", []string{"TRU-1"}, func(p *play, b *bundle.Bundle) {
			b.Head = p.headBy(stage.Origin, stage.Origin)
		}),
		onTheWay("head-origin", "the tree head is that of another ledger, by a key of that one", []string{"TRU-1"}, func(p *play, b *bundle.Bundle) {
			b.Head = p.headBy("elsewhere.example/ledger", "elsewhere.example/ledger")
		}),
		onTheWay("membership", "one bit of the proof of the members is another", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Membership[0][0] ^= 1 }),
		onTheWay("place", "the member stands in another place of the set", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Members[0].Place++ }),
		onTheWay("method", "the method of the member is another", []string{"SCO-4"}, func(_ *play, b *bundle.Bundle) { b.Members[0].Member.Method = entry.MethodCancel }),
		onTheWay("member", "the member is another execution of the agent", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Members[0].Member.Exec = second }),
		onTheWay("chain", "no step says why the member is in the set", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Steps = []bundle.ChainStep{} }),
		onTheWay("seed", "the step names another entry as the signal", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Steps[0].From-- }),
		onTheWay("decision", "another entry is named as the decision", []string{"AGT-7"}, func(_ *play, b *bundle.Bundle) { b.Decision-- }),
	}
	return append(cases, strangers()...)
}

// strangers are bundles that are not the agent's, or not of its log.
func strangers() []agentCase {
	return []agentCase{
		{name: "bundle/of-another-agent", ids: []string{"AGT-0a", "AGT-7"}, about: "the bundle of another agent, whose members are its own", play: func(p *play) {
			p.swapped(func(*bundle.Bundle) {})
		}},
		{name: "bundle/given-to-the-agent", ids: []string{"AGT-0a", "AGT-7"}, about: "the bundle of another agent, with the name of this one on it", play: func(p *play) {
			p.swapped(func(b *bundle.Bundle) { b.Agent = stage.Agent })
		}},
		{name: "bundle/consistency", ids: []string{"AGT-1b"}, about: "the tree head does not continue the pinned one: an earlier entry is another, under the ledger's own signature", play: func(p *play) {
			p.noted()
			p.doctor(p.otherPast)
			p.start()
			p.idle()
		}},
		{name: "bundle/first-contact", ids: []string{"AGT-1a"}, about: "the pinned root has no tree head, and there is no second source and no witness", play: func(p *play) {
			root := p.stage.Root
			root.Seen = ""
			p.must(p.files(root.Encode))
			p.charged()
			p.authorized(nil)
			p.start()
			p.until("the agent asks the ledger", func() bool { return len(p.stage.Seen()) > 0 })
			if p.gone() {
				p.err = nil
			}
			p.still()
		}},
	}
}

// swapped has the ledger show the agent the bundle of the writer, changed.
func (p *play) swapped(change func(b *bundle.Bundle)) {
	p.did(charge, entry.EffectCompensable)
	p.did(page, entry.EffectCompensable, charge)
	p.fails(charge)
	p.authorized(nil)
	p.answers(func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "agent="+string(stage.Agent), "agent="+string(stage.Writer), 1)
		answer := stage.Honest(honest, r)
		if b, err := bundle.Decode(answer.Body); err == nil {
			change(b)
			if data, err := b.Encode(); err == nil {
				answer.Body = data
			}
		}
		answer.Send(w)
	})
	p.start()
	p.idle()
}

// ask asks the ledger as an agent does.
func (p *play) ask(path string) *stage.Answer {
	r, err := http.NewRequestWithContext(noContext, http.MethodGet, path, http.NoBody)
	p.must(err)
	return p.stage.Ask(r)
}

// headBy is the newest head under another name, or by a key that nobody has pinned.
func (p *play) headBy(origin, key string) string {
	private, _, err := note.GenerateKey(nil, key)
	p.must(err)
	signer, err := note.NewSigner(private)
	p.must(err)
	tree, err := p.stage.Tree()
	p.must(err)
	if p.err != nil {
		return ""
	}
	head, err := p.stage.Head(origin, tree.Head(p.stage.Size()), signer)
	p.must(err)
	return head
}

// otherPast proves the entries of a bundle in a tree whose third entry is another.
func (p *play) otherPast(b *bundle.Bundle) {
	list, err := p.stage.Entries(0)
	p.must(err)
	tree := new(merkle.Tree)
	for _, e := range list {
		leaf := e.AppendLeaf(nil)
		if e.Index == 2 {
			leaf = flipped(leaf)
		}
		for i := range b.Entries {
			if b.Entries[i].Index == e.Index {
				b.Entries[i].Bytes = leaf
			}
		}
		tree.Append(merkle.HashLeaf(leaf))
	}
	size := uint64(len(list))
	b.Head, err = p.stage.Head(stage.Origin, tree.Head(size), nil)
	p.must(err)
	b.Inclusion, err = merkle.ProveInclusions(indexes(b), size, tree.Node)
	p.must(err)
	if b.From != 0 && b.From != size {
		b.Consistency, err = merkle.ProveConsistency(b.From, size, tree.Node)
		p.must(err)
	}
}

// flipped is a leaf with another character in its signature.
func flipped(leaf []byte) []byte {
	changed := bytes.Clone(leaf)
	at := bytes.Index(changed, []byte(`"sig":"`)) + len(`"sig":"`)
	if changed[at] == 'A' {
		changed[at] = 'B'
	} else {
		changed[at] = 'A'
	}
	return changed
}
