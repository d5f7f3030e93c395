package bundle_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// world is a log with an incident, told by named entries. A case changes it by
// hooks on those names, as a hostile coordinator, agent or ledger could: whatever
// it changes is signed and proven all the same.
type world struct {
	*testlog.Log
	hooks   map[string]func(body entry.Body) // before the entry is signed
	before  map[string]func()                // something else to be logged first
	signer  map[string]testlog.Key           // instead of who should sign
	skip    map[string]bool                  // what is not logged
	at      map[string]uint64                // index by name
	who     map[string]testlog.Key           // principals
	members []entry.Member                   // of the plan, descending
	planned func()                           // changes the plan before the first decision
	now     int64
}

const (
	hour = 3_600_000 // in milliseconds
	zero = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	ones = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
)

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{Log: testlog.New(tb), hooks: map[string]func(entry.Body){}, before: map[string]func(){}, signer: map[string]testlog.Key{}, skip: map[string]bool{},
		at: map[string]uint64{}, who: map[string]testlog.Key{}}
	for _, name := range []entry.Principal{"authority", "enroller", "coordinator", "operator", "anna", "bert", "carl", "monitor", "source", "worker", "writer"} {
		w.who[string(name)] = testlog.NewKey(tb, name, string(name))
	}
	return w
}

// put logs an entry under a name and returns its index.
func (w *world) put(name, who string, body entry.Body) uint64 {
	w.TB.Helper()
	if before := w.before[name]; before != nil {
		delete(w.before, name)
		before()
	}
	if w.skip[name] {
		return 0
	}
	if hook := w.hooks[name]; hook != nil {
		hook(body)
	}
	k := w.who[who]
	if other, ok := w.signer[name]; ok {
		k = other
	}
	index := w.Add(k.Sign(w.TB, body))
	w.at[name] = index
	return index
}

func (w *world) leafHash(index uint64) merkle.Hash { return merkle.HashLeaf(w.Leaves[index]) }

func (w *world) refTo(name string) entry.LogRef {
	return entry.LogRef{Index: w.at[name], LeafHash: w.leafHash(w.at[name])}
}

// policyOf returns a policy with windows that leave time.
func (w *world) policyOf(who string) *entry.Policy {
	k := w.who[who]
	p := w.Policy(k, k)
	limit := entry.Cap{Members: 8, Agents: 3, Domains: 2, FencedMS: hour}
	p.Windows = entry.Windows{DecideMS: 60_000, AnswerMS: 60_000, MemberMS: 60_000, DeadlineMaxMS: hour, CooldownMS: hour,
		SinceMaxMS: hour, BundleMaxAgeMS: 600_000, IatMS: 300_000}
	p.Limits = entry.Limits{Incident: limit, Signaler: limit, Victim: limit, WindowMS: hour}
	p.Quorum = entry.Quorum{Approve: 2, Override: 2, Signalers: 2}
	return p
}

// company logs the policy and who may do what.
func (w *world) company() {
	w.TB.Helper()
	w.put("policy", "authority", w.policyOf("authority"))
	roles := map[string]entry.Role{"enroller": entry.RoleEnroller, "coordinator": entry.RoleCoordinator, "operator": entry.RoleOperator,
		"anna": entry.RoleApprover, "bert": entry.RoleApprover, "carl": entry.RoleApprover, "monitor": entry.RoleMonitor}
	for _, name := range []string{"enroller", "coordinator", "operator", "anna", "bert", "carl", "monitor"} {
		w.put(name, "authority", w.Agent(w.who["authority"], entry.Enrol, w.who[name], roles[name]))
	}
	for _, name := range []string{"source", "worker", "writer"} {
		w.put(name, "enroller", w.Agent(w.who["enroller"], entry.Enrol, w.who[name], entry.RoleAgent))
	}
}

// exec logs an entry of an execution: its name is "agent#id", with the progress
// behind a colon for all but the first entry. Parents are names, soft ones
// behind a "~".
func (w *world) exec(name string, effect entry.Effect, progress entry.Progress, parents ...string) uint64 {
	w.TB.Helper()
	ref, _, _ := strings.Cut(name, ":")
	agent, id, _ := strings.Cut(ref, "#")
	x := &entry.Execution{Header: w.Work(entry.Principal(agent)), Exec: id, Parents: []entry.Parent{}, Effect: effect, Progress: progress}
	for _, parent := range parents {
		dep := entry.Hard
		if rest, soft := strings.CutPrefix(parent, "~"); soft {
			dep, parent = entry.Soft, rest
		}
		x.Parents = append(x.Parents, entry.Parent{Exec: entry.Ref(parent), Dep: dep})
	}
	if effect == entry.EffectCompensable || effect == entry.EffectIrrevocable {
		x.IdempotencyKey = ones
	}
	return w.put(name, agent, x)
}

// done logs an execution from its first entry on to its end.
func (w *world) done(name string, effect entry.Effect, parents ...string) {
	w.TB.Helper()
	if effect == entry.EffectNone {
		w.exec(name, effect, entry.Confirmed, parents...)
		return
	}
	w.exec(name, effect, entry.Started, parents...)
	w.exec(name+":confirmed", effect, entry.Confirmed, parents...)
}

func (w *world) checkpoint(name string, after *entry.Ref) {
	w.TB.Helper()
	agent, id, _ := strings.Cut(name, "#")
	w.put(name, agent, &entry.Checkpoint{Header: w.Work(entry.Principal(agent)), Checkpoint: id, After: after, Digest: zero})
}

func (w *world) signal(name, who, subject string, standing entry.Standing) {
	w.TB.Helper()
	w.put(name, who, &entry.Signal{Header: w.Work(w.who[who].Principal), Subject: entry.Ref(subject), Class: "output", Code: "ungrounded",
		Standing: standing, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: w.At})
}

// member adds an execution to the plan.
func (w *world) member(ref string, method entry.Method, checkpoint string) {
	index, agent := w.at[ref], strings.Split(ref, "#")[0]
	w.members = append(w.members, entry.Member{Agent: entry.Principal(agent), Exec: entry.Ref(ref), Index: index, LeafHash: w.leafHash(index),
		Method: method, Checkpoint: entry.Ref(checkpoint)})
	slices.SortFunc(w.members, func(a, b entry.Member) int { return cmp.Compare(b.Index, a.Index) })
}

func (w *world) scopeLeaves() (leaves []merkle.Hash) {
	for i := range w.members {
		leaves = append(leaves, merkle.HashLeaf(w.members[i].AppendJSON(nil)))
	}
	return leaves
}

// decision returns a decision on the plan as it stands, about the signals given.
func (w *world) decision(who string, act entry.Act, epoch int64, signals ...string) *entry.Decision {
	w.TB.Helper()
	if w.planned != nil {
		w.planned()
		w.planned = nil
	}
	var leaves []merkle.Hash
	for _, name := range signals {
		leaves = append(leaves, w.leafHash(w.at[name]))
	}
	seeds, pin := merkle.HeadOf(leaves), merkle.HeadOf(w.leafHashes())
	agents := map[entry.Principal]bool{}
	for i := range w.members {
		agents[w.members[i].Agent] = true
	}
	d := &entry.Decision{Header: w.Work(w.who[who].Principal), Incident: w.at[signals[0]], Act: act, Policy: w.refTo("policy"), Epoch: epoch,
		Exp: w.At/1000 + 1800, Reason: "as the rules say", Signals: &seeds, Dismissed: []entry.Dismissal{}, Pin: &pin,
		RollbackSet: &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: merkle.HeadOf(w.scopeLeaves())},
		Impact:      &entry.Impact{Members: int64(len(w.members)), Agents: int64(len(agents)), Domains: 1}}
	if act == entry.ActAuthorize || act == entry.ActAmend {
		d.DeadlineAt = w.At + hour
	}
	return d
}

func (w *world) leafHashes() (leaves []merkle.Hash) {
	for i := range w.Leaves {
		leaves = append(leaves, w.leafHash(uint64(i)))
	}
	return leaves
}

func (w *world) approve(name, who string) {
	w.TB.Helper()
	w.put(name, who, &entry.Approval{Header: w.Work(w.who[who].Principal), Incident: w.at["signal"], Proposal: w.refTo("proposal"),
		Verdict: "approve", Exp: w.At/1000 + 1800, Reason: "recomputed"})
}

// outcome logs what became of a member, after its compensation if that is it.
func (w *world) outcome(name, ref string, result entry.Result) {
	w.TB.Helper()
	who, _, _ := strings.Cut(ref, "#")
	if result == entry.Compensated {
		w.put(name+" by", who, &entry.Execution{Header: w.Work(entry.Principal(who)), Exec: "undo", Parents: []entry.Parent{}, Effect: entry.EffectNone,
			Progress: entry.Confirmed, Compensates: &entry.Compensates{Incident: w.at["signal"], Decision: w.refTo("decision"), Exec: entry.Ref(ref)}})
	}
	o := &entry.Outcome{Header: w.Work(entry.Principal(who)), Incident: w.at["signal"], Decision: w.refTo("decision"), Exec: entry.Ref(ref),
		Result: result, ObservedAt: w.At}
	switch result {
	case entry.Restored:
		o.PostDigest = zero
	case entry.Compensated:
		o.CompExec = entry.Ref(who + "#undo")
	default:
		o.Residual = "what was done stands"
	}
	w.put(name, who, o)
}

// bundle returns the bundle for an agent with the entries named. It is proven
// from size from on; steps say why.
func (w *world) bundle(agent string, from int, steps []bundle.ChainStep, names ...string) *bundle.Bundle {
	w.TB.Helper()
	size := len(w.Leaves)
	b := &bundle.Bundle{Agent: entry.Principal(agent), Decision: w.at["decision"], Head: w.Signed(size), From: uint64(from), Steps: steps,
		Consistency: w.Consistency(from, size).Path}
	slices.SortFunc(b.Steps, func(a, b bundle.ChainStep) int { return cmp.Compare(a.Exec, b.Exec) })
	var indexes []uint64
	for _, name := range names {
		index, ok := w.at[name]
		if !ok {
			w.TB.Fatalf("no entry %q", name)
		}
		indexes = append(indexes, index)
	}
	for i := range w.members {
		if string(w.members[i].Agent) == agent {
			b.Members = append(b.Members, bundle.PlanMember{Place: uint64(i), Member: w.members[i]})
		}
	}
	w.prove(b, indexes)
	return b
}

// prove sets the entries and the joint proofs of a bundle.
func (w *world) prove(b *bundle.Bundle, indexes []uint64) {
	w.TB.Helper()
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	b.Entries = nil
	for _, index := range indexes {
		b.Entries = append(b.Entries, bundle.Leaf{Index: index, Bytes: w.Leaves[index]})
	}
	var err error
	b.Inclusion, err = merkle.ProveInclusions(indexes, uint64(len(w.Leaves)), w.Node)
	must(w.TB, err)
	w.proveScope(b)
}

func (w *world) proveScope(b *bundle.Bundle) {
	w.TB.Helper()
	var places []uint64
	for i := range b.Members {
		places = append(places, b.Members[i].Place)
	}
	leaves := w.scopeLeaves()
	var err error
	b.Membership, err = merkle.ProveInclusions(places, uint64(len(leaves)), nodesOf(leaves))
	must(w.TB, err)
}

// cosign adds cosignatures of witnesses to the head, so many seconds old.
func cosign(age int64, names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		for _, name := range names {
			b.Head = testlog.Cosigned(b.Head, name, w.now/1000-age)
		}
	}
}

// nodesOf reads the tree over leaf hashes.
func nodesOf(leaves []merkle.Hash) merkle.NodeReader {
	var read merkle.NodeReader
	read = func(level uint, index uint64) (merkle.Hash, error) {
		if level == 0 {
			return leaves[index], nil
		}
		left, err := read(level-1, 2*index)
		if err != nil {
			return left, err
		}
		right, err := read(level-1, 2*index+1)
		return merkle.HashChildren(left, right), err
	}
	return read
}

// place returns where a member stands in the scope.
func (w *world) place(ref string) uint64 {
	return uint64(slices.IndexFunc(w.members, func(m entry.Member) bool { return string(m.Exec) == ref }))
}

// exampleTB is for examples, which have no testing.TB of their own.
type exampleTB struct{ testing.TB }

// Helper does nothing.
func (exampleTB) Helper() {}

// Fatal panics.
func (exampleTB) Fatal(args ...any) { panic(args) }
