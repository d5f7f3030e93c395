package bundle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

const (
	largeLog  = 1 << 20
	largePlan = 100_000
	depth     = 4 // executions of others between the seed and each member
	wide      = 10
)

// large is the bundle of an agent with ten members in a plan of 100,000, in a log
// of a million entries. Each member's chain leads over four executions of other
// agents, most of which no other chain has; all of it lies scattered over the
// log. Everything but what the bundle shows is a hash.
func large(tb testing.TB) (b *bundle.Bundle, a bundle.Accepted, now int64) {
	tb.Helper()
	w := newWorld(tb)
	hook("policy", func(p *entry.Policy) { p.Limits.Incident.Members = largePlan })(w)
	w.company()
	w.checkpoint("worker#c0", nil)
	w.done("source#read", entry.EffectNone)
	steps := []bundle.ChainStep{{Exec: w.at["source#read"], Rule: bundle.RuleSeed}}
	names := []string{"enroller", "coordinator", "source", "worker", "writer", "worker#c0", "source#read", "signal", "decision"}
	for i := range wide {
		parent := "source#read"
		for j := range depth {
			agent := []string{"writer", "source"}[j%2]
			name := fmt.Sprintf("%s#%d-%d", agent, i, j)
			w.exec(name, entry.EffectNone, entry.Confirmed, parent)
			steps = append(steps, bundle.ChainStep{Exec: w.at[name], Rule: bundle.RuleDependent, From: w.at[parent]})
			names, parent = append(names, name), name
		}
		name := fmt.Sprintf("worker#%d", i)
		w.done(name, entry.EffectReversible, parent)
		steps = append(steps, bundle.ChainStep{Exec: w.at[name], Rule: bundle.RuleDependent, From: w.at[parent]})
		names = append(names, name)
		w.member(name, entry.MethodRestore, "worker#c0")
	}
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	return scatter(w, steps, names)
}

// scatter spreads the entries of a world over a large log, and its members over a
// large plan.
func scatter(w *world, steps []bundle.ChainStep, names []string) (*bundle.Bundle, bundle.Accepted, int64) {
	w.TB.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	size := len(w.Leaves)
	places := make([]uint64, size) // where each entry stands
	for i := range places {
		if places[i] = uint64(i); i >= accepted {
			places[i] = accepted + random.Uint64N(largeLog-2*accepted)
		}
	}
	slices.Sort(places)
	for i := 1; i < size; i++ {
		places[i] = max(places[i], places[i-1]+1)
	}
	log := filler("entry", largeLog)
	for i, leaf := range w.Leaves {
		log[places[i]] = merkle.HashLeaf(leaf)
	}
	plan, all := filler("member", largePlan), w.members
	b := &bundle.Bundle{Agent: "worker", Decision: largeLog - 1, From: accepted}
	for i := range all {
		all[i].Index = places[all[i].Index]
		place := uint64(i) * (largePlan / uint64(len(all)))
		plan[place] = merkle.HashLeaf(all[i].AppendJSON(nil))
		b.Members = append(b.Members, bundle.PlanMember{Place: place, Member: all[i]})
	}
	for i, s := range steps {
		if s.Exec = places[s.Exec]; s.Rule == bundle.RuleDependent {
			s.From = places[s.From]
		} else {
			s.From = places[w.at["signal"]]
		}
		steps[i] = s
	}
	slices.SortFunc(steps, func(a, b bundle.ChainStep) int { return int(int64(a.Exec) - int64(b.Exec)) })
	b.Steps = steps
	planTree := newLevels(plan)
	d := w.decision("coordinator", entry.ActAuthorize, 0, "signal")
	d.Incident, d.Pin.Size = places[w.at["signal"]], largeLog-1
	d.RollbackSet.Size, d.RollbackSet.Root, d.Impact.Members = largePlan, planTree.head(w.TB).Root, largePlan
	d.Impact.Irrevocable, d.Approvals = 0, nil
	at := w.put("decision", "coordinator", d)
	log[largeLog-1] = w.leafHash(at)
	logTree := newLevels(log)
	head := logTree.head(w.TB)
	b.Head = w.SignText(testlog.HeadText(head))
	var indexes []uint64
	for _, name := range names {
		index := w.at[name]
		leaf := w.Leaves[index]
		if name == "decision" {
			index = largeLog - 1
		} else {
			index = places[index]
		}
		indexes = append(indexes, index)
		b.Entries = append(b.Entries, bundle.Leaf{Index: index, Bytes: leaf})
	}
	slices.Sort(indexes)
	slices.SortFunc(b.Entries, func(a, b bundle.Leaf) int { return int(int64(a.Index) - int64(b.Index)) })
	var err error
	b.Inclusion, err = merkle.ProveInclusions(indexes, largeLog, logTree.node)
	must(w.TB, err)
	var ofPlan []uint64
	for i := range b.Members {
		ofPlan = append(ofPlan, b.Members[i].Place)
	}
	b.Membership, err = merkle.ProveInclusions(ofPlan, largePlan, planTree.node)
	must(w.TB, err)
	b.Consistency, err = merkle.ProveConsistency(accepted, largeLog, logTree.node)
	must(w.TB, err)
	return b, w.state(), w.At + 1000
}

// filler returns hashes of nothing in particular.
func filler(what string, count int) []merkle.Hash {
	leaves := make([]merkle.Hash, count)
	for i := range leaves {
		leaves[i] = merkle.HashLeaf(fmt.Appendf(nil, "%s %d", what, i))
	}
	return leaves
}

// levels is a tree with all of its perfect subtrees.
type levels [][]merkle.Hash

func newLevels(leaves []merkle.Hash) levels {
	l := levels{leaves}
	for below := leaves; len(below) > 1; below = l[len(l)-1] {
		above := make([]merkle.Hash, len(below)/2)
		for i := range above {
			above[i] = merkle.HashChildren(below[2*i], below[2*i+1])
		}
		l = append(l, above)
	}
	return l
}

func (l levels) node(level uint, index uint64) (merkle.Hash, error) { return l[level][index], nil }

func (l levels) head(tb testing.TB) merkle.Head {
	tb.Helper()
	size := uint64(len(l[0]))
	frontier, err := merkle.NewFrontier(size, l.node)
	must(tb, err)
	head, err := frontier.Head()
	must(tb, err)
	return head
}

// proofBytes is what the proofs of a bundle take in its JSON.
func proofBytes(b *bundle.Bundle) int {
	const each = 47 // 44 characters of base64, quotes and a comma
	return each * (len(b.Inclusion) + len(b.Membership) + len(b.Consistency))
}

// TestBundleLarge holds the proofs of a bundle of the largest kind that is
// promised to their limit: 64 KiB beside the entries.
func TestBundleLarge(t *testing.T) {
	b, a, now := large(t)
	v, err := b.Check(a, now)
	must(t, err)
	for _, c := range v.Commands {
		if c.Refused != nil || len(c.Chain) != depth+2 {
			t.Errorf("%s: %v, a chain of %d", c.Exec, c.Refused, len(c.Chain))
		}
	}
	if len(v.Commands) != wide {
		t.Errorf("%d commands", len(v.Commands))
	}
	data, err := b.Encode()
	must(t, err)
	t.Logf("%d entries, %d bytes, of them %d of %d hashes", len(b.Entries), len(data), proofBytes(b), proofBytes(b)/47)
	if proofBytes(b) > 64<<10 {
		t.Errorf("%d bytes of proofs", proofBytes(b))
	}
}

// BenchmarkBundleCheck verifies such a bundle: decoding is counted too.
func BenchmarkBundleCheck(b *testing.B) {
	made, a, now := large(b)
	data, err := made.Encode()
	must(b, err)
	for b.Loop() {
		received, err := bundle.Decode(data)
		if err == nil {
			_, err = received.Check(a, now)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(made.Entries)), "entries")
	b.ReportMetric(float64(proofBytes(made))/1024, "KiB-proofs")
	b.ReportMetric(float64(len(data))/1024, "KiB")
}
