package coord

import (
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestExecutionsAdvance takes executions of every effect along every path that
// EXE-1 and EXE-2 leave open, hashes and cost added on the way.
func TestExecutionsAdvance(t *testing.T) {
	w := newWorld(t)
	paths := map[entry.Effect][][]entry.Progress{
		entry.EffectNone: {{entry.Confirmed}, {entry.Planned, entry.Confirmed}, {entry.Started, entry.Failed}},
	}
	acting := [][]entry.Progress{
		{entry.Planned, entry.Started, entry.Confirmed}, {entry.Started, entry.Confirmed},
		{entry.Planned, entry.Cancelled}, {entry.Started, entry.Cancelled},
		{entry.Planned, entry.Failed}, {entry.Failed}, {entry.Cancelled},
	}
	for _, effect := range []entry.Effect{entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared} {
		paths[effect] = acting
	}
	for _, effect := range effects {
		for i, path := range paths[effect] {
			x := w.exec("a", string(effect)+string(rune('0'+i)))
			x.Effect = effect
			if effect != entry.EffectNone {
				x.IdempotencyKey = someDigest(x.Exec)
			}
			x.Progress = path[0]
			w.put(x)
			for _, progress := range path[1:] {
				next, cost := w.step(x, progress), int64(7)
				next.OutHash, next.CostMicroUSD = someDigest("out"), &cost
				if effect == entry.EffectReversible {
					next.IdempotencyKey = "" // optional there
				}
				w.put(next)
			}
		}
	}
	w.checkAll()
}

// TestParentsOfAnyWorkflow shows parents across agents and workflows, hard and
// soft, up to the limit, and the same id under two agents.
// Draft: EXE-5.
func TestParentsOfAnyWorkflow(t *testing.T) {
	w := newWorld(t)
	first := w.exec("a", "x")
	first.Wid = "other"
	w.put(first)
	second := w.exec("b", "x", "a#x")
	second.Parents[0].Dep = entry.Soft
	w.put(second)
	wide := w.exec("c", "wide")
	for i := range entry.MaxParents {
		id := "p" + string(rune('A'+i/16)) + string(rune('a'+i%16))
		id = id[:1] + string(someDigest(id)[7:])
		w.put(w.exec("a", id))
		wide.Parents = append(wide.Parents, entry.Parent{Exec: entry.NewRef("a", id), Dep: entry.Hard})
	}
	w.put(wide)
	w.put(w.step(wide, entry.Confirmed))
	w.checkAll()
}

// TestCheckpoints follows CHK-1 along lines of both spans.
// Draft: CHK-1a, CHK-1b.
func TestCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.put(w.checkpoint("a", "empty", "")) // the first entry of a principal
	w.put(w.checkpoint("a", "still-empty", ""))
	populate(w)
	w.put(w.checkpoint("a", "again", "a#done")) // the same place twice
	other := w.checkpoint("a", "other", "a#other")
	other.Wid = "w2"
	w.put(other)
	unseen := w.checkpoint("a", "unseen", "")
	unseen.Wid = "a-workflow-without-executions"
	w.put(unseen)
	w.put(w.checkpoint("c", "one", "c#one"))
	w.put(w.checkpoint("c", "two", "c#two")) // of another workflow: the span is agent
	from := w.exec("b", "from")
	from.Checkpoint = "a#cp"
	w.put(from)
	w.checkAll()
}

// TestSignals shows every standing where it is due. An unknown class and a code
// without its evidence are accepted (SIG-2).
// Draft: SIG-3.
func TestSignals(t *testing.T) {
	w := newWorld(t)
	old := populate(w)
	again := w.signal("a", entry.StandingExecutor, "a#done")
	again.Supersedes = &old
	again.Since, again.LastKnownGood = "a#plan", "a#cp"
	w.put(again)
	w.put(w.signal("b", entry.StandingDownstream, "a#done"))
	w.put(w.signal("a", entry.StandingUpstream, "b#use"))
	w.put(w.signal("m", entry.StandingMonitor, "b#use"))
	operator := w.signal("o", entry.StandingOperator, "b#use")
	operator.Class, operator.Code, operator.LastKnownGood = "weather", "rain", "a#plan"
	w.put(operator)
	clamped := w.signal("b", entry.StandingExecutor, "b#use")
	clamped.Class, clamped.Code = "verify", "gate_failed"
	w.put(clamped)
	w.refuse(w.sign(w.signal("a", entry.StandingDownstream, "a#done")), entry.NoStanding, "standing")
	w.put(w.exec("a", "own-child", "a#done"))
	w.put(w.signal("a", entry.StandingDownstream, "a#done"))
	w.put(w.signal("b", entry.StandingDownstream, "a#done"))
	w.checkAll()
}

// TestStandingBeforeTheFirstEntry shows that who has no entry yet is taken for
// nobody else, the first principal least of all.
func TestStandingBeforeTheFirstEntry(t *testing.T) {
	w := newWorld(t)
	alsoAgent := w.enrol("root", "root", entry.RoleAgent)
	alsoAgent.Key = public(t, "root's key as an agent")
	w.put(alsoAgent)
	w.put(w.enrol("e", "new", entry.RoleAgent))
	w.keys["root"] = "root's key as an agent"
	w.put(w.exec("root", "x"))
	w.refuse(w.sign(w.signal("new", entry.StandingExecutor, "root#x")), entry.NoStanding, "standing")
	w.put(w.exec("new", "y", "root#x"))
	w.put(w.signal("new", entry.StandingDownstream, "root#x"))
	w.checkAll()
}

// TestGenesis shows that an empty log takes a policy signed by its own
// authority at index 0, within five minutes, and nothing else.
func TestGenesis(t *testing.T) {
	w := emptyWorld(t)
	w.refuse(w.sign(w.exec("a", "x")), entry.UnknownIssuer, "signatures[0].keyid")
	w.refuse(w.sign(w.enrol("root", "a", entry.RoleAgent)), entry.UnknownIssuer, "signatures[0].keyid")
	w.keys["root"] = "another key"
	forged := w.genesis()
	forged.Authority[0].Key = public(t, "root")
	w.refuse(w.sign(forged), entry.UnknownIssuer, "signatures[0].keyid")
	delete(w.keys, "root")
	late := w.genesis()
	late.Windows.IatMS = dayMS // its own window does not count yet
	late.Iat -= 301
	w.refuse(w.sign(late), entry.Stale, "iat")
	bad := w.sign(w.genesis())
	bad.Sig[0] ^= 1
	w.refuse(bad, entry.BadSignature, "signatures[0].sig")
	w.put(w.genesis())
	w.checkAll()
}

// TestPolicyInForce shows that the window of REG-6 and the roles are those of
// the newest policy.
func TestPolicyInForce(t *testing.T) {
	w := newWorld(t)
	x := w.exec("a", "x")
	x.Iat += 200
	w.put(x)
	next := w.nextPolicy()
	next.Windows.IatMS = 100_000
	next.Roles = map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleOperator}}
	w.put(next)
	y := w.exec("a", "y")
	y.Iat += 101
	w.refuse(w.sign(y), entry.Stale, "iat")
	y.Iat--
	w.put(y)
	w.refuse(w.sign(w.enrol("e", "new", entry.RoleAgent)), entry.UnauthorizedRole, "iss")
	w.put(w.enrol("o", "new", entry.RoleAgent))
	w.put(w.exec("new", "x"))
	w.checkAll()
}

// TestRegistry takes a key through its life: enrolled by an enroller, rotated,
// revoked, never enrolled again.
// Draft: ENV-3, REG-4a.
func TestRegistry(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("e", "n", entry.RoleAgent))
	w.put(w.exec("n", "x"))
	w.keys["n"] = "second key of n"
	rotate := w.enrol("e", "n", entry.RoleAgent)
	rotate.Op = entry.Rotate
	w.put(rotate)
	w.put(w.exec("n", "y"))
	revoke := w.enrol("root", "n", entry.RoleAgent)
	revoke.Op = entry.Revoke
	revoke.CompromisedSince = &entry.Compromised{Index: w.state.Size() - 1}
	w.put(revoke)
	w.refuse(w.sign(w.exec("n", "z")), entry.UnknownIssuer, "signatures[0].keyid")
	again := w.enrol("root", "n", entry.RoleAgent)
	w.refuse(w.sign(again), entry.StateConflict, "key")
	w.keys["n"] = "third key of n"
	w.put(w.enrol("e", "n", entry.RoleAgent))
	w.put(w.exec("n", "z"))
	w.checkAll()
}

// TestAdmitOutOfOrder shows that a caller who skips an index is told so, not
// the submitter.
func TestAdmitOutOfOrder(t *testing.T) {
	w := newWorld(t)
	err := w.state.Admit(w.sign(w.exec("a", "x")), w.state.Size()+1, w.at)
	if _, refused := errors.AsType[*entry.Refusal](err); refused || err == nil {
		t.Fatalf("error %v", err)
	}
}

// TestApplyOfInadmissible shows that a log that was never admitted stops the
// fold instead of giving it a state.
func TestApplyOfInadmissible(t *testing.T) {
	w := newWorld(t)
	defer func() {
		if recover() == nil {
			t.Fatal("an execution with an unknown parent was applied")
		}
	}()
	w.state.Apply(w.sign(w.exec("a", "x", "a#nothing")), w.state.Size(), w.at)
}
