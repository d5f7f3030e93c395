package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// refusal is a rule seen from outside: the entry that breaks it, and only it.
type refusal struct {
	rule    string
	make    func(w *world) *entry.Entry
	problem entry.Problem
	field   string
}

// populate registers what the refusals refer to:
//
//	a#plan   planned, effect none            a#mail   started, irrevocable
//	a#done   confirmed, reversible           b#use    hard child of a#done
//	a#other  confirmed, in workflow w2       c#one    confirmed; c#two confirmed, in w2
//	checkpoint a#cp after a#done             signal of a about a#done
//	runs r#open, with an attempt for case 1, and r#closed
func populate(w *world) (signal entry.LogRef) {
	w.put(w.exec("a", "plan"))
	mail := w.exec("a", "mail")
	mail.Effect, mail.IdempotencyKey = entry.EffectIrrevocable, someDigest("mail")
	w.put(mail)
	w.put(w.step(mail, entry.Started))
	done := w.exec("a", "done")
	done.Effect = entry.EffectReversible
	w.put(done)
	w.put(w.step(done, entry.Started))
	w.put(w.step(done, entry.Confirmed))
	w.put(w.exec("b", "use", "a#done"))
	other := w.exec("a", "other")
	other.Wid, other.Progress = "w2", entry.Confirmed
	w.put(other)
	one, two := w.exec("c", "one"), w.exec("c", "two")
	one.Progress, two.Progress, two.Wid = entry.Confirmed, entry.Confirmed, "w2"
	w.put(one)
	w.put(two)
	w.put(w.checkpoint("a", "cp", "a#done"))
	withRuns(w)
	return w.put(w.signal("a", entry.StandingExecutor, "a#done"))
}

// mail is the content of a#mail's first entry.
func (w *world) mail(progress entry.Progress) *entry.Execution {
	x := w.exec("a", "mail")
	x.Effect, x.IdempotencyKey, x.Progress = entry.EffectIrrevocable, someDigest("mail"), progress
	return x
}

// TestRefusals shows every rule an entry that breaks it alone, then that the
// log goes on as if nothing had been asked.
// Draft: REG-0, REG-3a.
func TestRefusals(t *testing.T) {
	for _, table := range [][]refusal{registration, executionRules, checkpointRules, signalRules, runRules, indexRules} {
		for _, c := range table {
			t.Run(c.rule, func(t *testing.T) {
				w := newWorld(t)
				populate(w)
				got := w.refused(c.make(w), c.problem, c.field)
				if got.Detail == "" {
					t.Error("a refusal without detail")
				}
				w.put(w.exec("c", "good"))
				w.checkAll()
			})
		}
	}
}

var registration = []refusal{
	{"REG-3 another ledger", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Aud = "elsewhere"
		return w.sign(x)
	}, entry.WrongAudience, "aud"},
	{"REG-3 comes before REG-4", func(w *world) *entry.Entry {
		x := w.exec("stranger", "x")
		x.Aud = "elsewhere"
		return w.sign(x)
	}, entry.WrongAudience, "aud"},
	{"REG-4 key of nobody", func(w *world) *entry.Entry { return w.sign(w.exec("stranger", "x")) },
		entry.UnknownIssuer, "signatures[0].keyid"},
	{"REG-4 key of another", func(w *world) *entry.Entry {
		w.keys["a"] = "b"
		return w.sign(w.exec("a", "x"))
	}, entry.UnknownIssuer, "signatures[0].keyid"},
	{"REG-4 revoked", func(w *world) *entry.Entry {
		revoke := w.enrol("root", "b", entry.RoleAgent)
		revoke.Op = entry.Revoke
		w.put(revoke)
		return w.sign(w.exec("b", "x"))
	}, entry.UnknownIssuer, "signatures[0].keyid"},
	{"REG-4 replaced by rotation", func(w *world) *entry.Entry {
		w.keys["b"] = "b's new key"
		rotate := w.enrol("root", "b", entry.RoleAgent)
		rotate.Op = entry.Rotate
		w.put(rotate)
		w.put(w.exec("b", "new"))
		w.keys["b"] = "b"
		return w.sign(w.exec("b", "x"))
	}, entry.UnknownIssuer, "signatures[0].keyid"},
	{"REG-4 role", func(w *world) *entry.Entry { return w.sign(w.exec("m", "x")) }, entry.UnauthorizedRole, "iss"},
	{"REG-4 role of a standing", func(w *world) *entry.Entry {
		return w.sign(w.signal("a", entry.StandingMonitor, "a#done"))
	}, entry.UnauthorizedRole, "iss"},
	{"REG-4 enroller grants more than it may", func(w *world) *entry.Entry {
		return w.sign(w.enrol("e", "x", entry.RoleOperator))
	}, entry.UnauthorizedRole, "iss"},
	{"REG-4 comes before REG-5", func(w *world) *entry.Entry {
		e := w.sign(w.exec("m", "x"))
		e.Sig[0] ^= 1
		return e
	}, entry.UnauthorizedRole, "iss"},
	{"REG-5 signature", func(w *world) *entry.Entry {
		e := w.sign(w.exec("a", "x"))
		e.Sig[0] ^= 1
		return e
	}, entry.BadSignature, "signatures[0].sig"},
	{"REG-5 signature over another payload", func(w *world) *entry.Entry {
		e, other := w.sign(w.exec("a", "x")), w.sign(w.exec("a", "y"))
		e.Seal(other.KeyID, other.Sig)
		return e
	}, entry.BadSignature, "signatures[0].sig"},
	{"REG-5 comes before REG-6", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Iat = 1
		e := w.sign(x)
		e.Sig[0] ^= 1
		return e
	}, entry.BadSignature, "signatures[0].sig"},
	{"REG-6 too old", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Iat -= 301
		return w.sign(x)
	}, entry.Stale, "iat"},
	{"REG-6 too new", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Iat += 301
		return w.sign(x)
	}, entry.Stale, "iat"},
	{"REG-6 the end of time", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Iat = entry.MaxInteger
		return w.sign(x)
	}, entry.Stale, "iat"},
	{"REG-6 comes before REG-8", func(w *world) *entry.Entry {
		x := w.exec("a", "x", "nobody#nothing")
		x.Iat = 1
		return w.sign(x)
	}, entry.Stale, "iat"},
	{"REG-8 comes before REG-9", func(w *world) *entry.Entry {
		x := w.exec("a", "x", "a#nothing")
		x.Effect, x.Progress = entry.EffectReversible, entry.Confirmed
		return w.sign(x)
	}, entry.UnknownSubject, "parents[0].exec"},
	{"REG-9 a second genesis", func(w *world) *entry.Entry { return w.sign(w.genesis()) },
		entry.PolicySuperseded, "previous"},
	{"REG-9 a key twice", func(w *world) *entry.Entry { return w.sign(w.enrol("root", "a", entry.RoleAgent)) },
		entry.StateConflict, "key"},
}

var executionRules = []refusal{
	{"REG-8 parent that is not there", func(w *world) *entry.Entry {
		return w.sign(w.exec("a", "x", "a#done", "a#nothing"))
	}, entry.UnknownSubject, "parents[1].exec"},
	{"REG-8 parent of a stranger", func(w *world) *entry.Entry { return w.sign(w.exec("a", "x", "nobody#done")) },
		entry.UnknownSubject, "parents[0].exec"},
	{"REG-8 itself as parent", func(w *world) *entry.Entry { return w.sign(w.exec("a", "x", "a#x")) },
		entry.UnknownSubject, "parents[0].exec"},
	{"REG-8 a checkpoint as parent", func(w *world) *entry.Entry { return w.sign(w.exec("a", "x", "a#cp")) },
		entry.UnknownSubject, "parents[0].exec"},
	{"REG-8 task", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Task = "o#task"
		return w.sign(x)
	}, entry.UnknownSubject, "task"},
	{"REG-8 checkpoint", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Checkpoint = "b#cp"
		return w.sign(x)
	}, entry.UnknownSubject, "checkpoint"},
	{"EXE-1 workflow changes", func(w *world) *entry.Entry {
		x := w.mail(entry.Confirmed)
		x.Wid = "w2"
		return w.sign(x)
	}, entry.StateConflict, "wid"},
	{"EXE-1 effect changes", func(w *world) *entry.Entry {
		x := w.mail(entry.Confirmed)
		x.Effect = entry.EffectCompensable
		return w.sign(x)
	}, entry.StateConflict, "effect"},
	{"EXE-1 effect changes, and brings its key", func(w *world) *entry.Entry {
		x := w.exec("a", "plan")
		x.Effect, x.IdempotencyKey, x.Progress = entry.EffectIrrevocable, someDigest("late"), entry.Started
		return w.sign(x)
	}, entry.StateConflict, "effect"},
	{"EXE-1 key changes, beside the workflow", func(w *world) *entry.Entry {
		x := w.mail(entry.Confirmed)
		x.Wid, x.IdempotencyKey = "another", someDigest("another")
		return w.sign(x)
	}, entry.StateConflict, "idempotency_key"},
	{"EXE-1 key changes", func(w *world) *entry.Entry {
		x := w.mail(entry.Confirmed)
		x.IdempotencyKey = someDigest("another")
		return w.sign(x)
	}, entry.StateConflict, "idempotency_key"},
	{"EXE-1 key becomes a keyed one", func(w *world) *entry.Entry {
		x := w.mail(entry.Confirmed)
		x.IdempotencyKey = "hmac-" + x.IdempotencyKey
		return w.sign(x)
	}, entry.StateConflict, "idempotency_key"},
	{"EXE-1 key appears", func(w *world) *entry.Entry {
		x := w.exec("a", "plan")
		x.IdempotencyKey, x.Progress = someDigest("late"), entry.Started
		return w.sign(x)
	}, entry.StateConflict, "idempotency_key"},
	{"EXE-1 parent appears", func(w *world) *entry.Entry {
		x := w.exec("a", "plan", "a#done")
		x.Progress = entry.Confirmed
		return w.sign(x)
	}, entry.StateConflict, "parents"},
	{"EXE-1 parent disappears", func(w *world) *entry.Entry {
		x := w.exec("b", "use")
		x.Progress = entry.Confirmed
		return w.sign(x)
	}, entry.StateConflict, "parents"},
	{"EXE-1 parent changes", func(w *world) *entry.Entry {
		x := w.exec("b", "use", "a#mail")
		x.Progress = entry.Confirmed
		return w.sign(x)
	}, entry.StateConflict, "parents[0].exec"},
	{"EXE-1 dependency changes", func(w *world) *entry.Entry {
		x := w.exec("b", "use", "a#done")
		x.Parents[0].Dep, x.Progress = entry.Soft, entry.Confirmed
		return w.sign(x)
	}, entry.StateConflict, "parents[0].exec"},
	{"EXE-1 progress stays", func(w *world) *entry.Entry { return w.sign(w.mail(entry.Started)) },
		entry.StateConflict, "progress"},
	{"EXE-1 progress goes back", func(w *world) *entry.Entry { return w.sign(w.mail(entry.Planned)) },
		entry.StateConflict, "progress"},
	{"EXE-1 a final step changes", func(w *world) *entry.Entry {
		x := w.exec("a", "done")
		x.Effect, x.Progress = entry.EffectReversible, entry.Failed
		return w.sign(x)
	}, entry.StateConflict, "progress"},
	{"EXE-2 first entry is confirmed", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Effect, x.Progress = entry.EffectReversible, entry.Confirmed
		return w.sign(x)
	}, entry.StateConflict, "progress"},
	{"EXE-2 confirmed without started", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Effect = entry.EffectReversible
		w.put(x)
		return w.sign(w.step(x, entry.Confirmed))
	}, entry.StateConflict, "progress"},
	{"EXE-4 compensation", func(w *world) *entry.Entry {
		x := w.exec("a", "x")
		x.Compensates = &entry.Compensates{Incident: w.state.Size() - 1, Exec: "a#mail"}
		return w.sign(x)
	}, entry.StateConflict, "compensates"},
}

var checkpointRules = []refusal{
	{"REG-8 after", func(w *world) *entry.Entry { return w.sign(w.checkpoint("a", "x", "a#nothing")) },
		entry.UnknownSubject, "after"},
	{"CHK id twice", func(w *world) *entry.Entry { return w.sign(w.checkpoint("a", "cp", "a#done")) },
		entry.StateConflict, "checkpoint"},
	{"CHK-1 after another's execution", func(w *world) *entry.Entry { return w.sign(w.checkpoint("b", "x", "a#done")) },
		entry.StateConflict, "after"},
	{"CHK-1 after another line", func(w *world) *entry.Entry { return w.sign(w.checkpoint("a", "x", "a#other")) },
		entry.StateConflict, "after"},
	{"CHK-1 after an unfinished execution", func(w *world) *entry.Entry { return w.sign(w.checkpoint("a", "x", "a#mail")) },
		entry.StateConflict, "after"},
	{"CHK-1 covers less than before", func(w *world) *entry.Entry {
		early := w.exec("a", "early")
		early.Progress = entry.Confirmed
		w.put(early)
		late := w.exec("a", "late")
		late.Progress = entry.Failed
		w.put(late)
		w.put(w.checkpoint("a", "late", "a#late"))
		return w.sign(w.checkpoint("a", "x", "a#early"))
	}, entry.StateConflict, "after"},
	{"CHK-1 covers nothing after something", func(w *world) *entry.Entry { return w.sign(w.checkpoint("a", "x", "")) },
		entry.StateConflict, "after"},
	{"CHK-1 covers less across workflows where the span is agent", func(w *world) *entry.Entry {
		w.put(w.checkpoint("c", "two", "c#two")) // final in w2, checkpoint in w
		return w.sign(w.checkpoint("c", "x", "c#one"))
	}, entry.StateConflict, "after"},
}

var signalRules = []refusal{
	{"REG-8 subject", func(w *world) *entry.Entry { return w.sign(w.signal("a", entry.StandingExecutor, "a#nothing")) },
		entry.UnknownSubject, "subject"},
	{"REG-8 since", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Since = "a#nothing"
		return w.sign(s)
	}, entry.UnknownSubject, "since"},
	{"REG-8 last_known_good", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.LastKnownGood = "a#nothing"
		return w.sign(s)
	}, entry.UnknownSubject, "last_known_good"},
	{"REG-8 supersedes no signal", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		_, policy := w.state.Chain().Policy()
		s.Supersedes = &policy
		return w.sign(s)
	}, entry.UnknownSubject, "supersedes"},
	{"REG-8 supersedes with another leaf hash", func(w *world) *entry.Entry {
		old := w.put(w.signal("a", entry.StandingExecutor, "a#done"))
		old.LeafHash[0] ^= 1
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Supersedes = &old
		return w.sign(s)
	}, entry.UnknownSubject, "supersedes"},
	{"REG-8 supersedes another's signal", func(w *world) *entry.Entry {
		old := w.put(w.signal("b", entry.StandingDownstream, "a#done"))
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Supersedes = &old
		return w.sign(s)
	}, entry.UnknownSubject, "supersedes"},
	{"REG-8 supersedes a signal on another subject", func(w *world) *entry.Entry {
		old := w.put(w.signal("a", entry.StandingExecutor, "a#mail"))
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Supersedes = &old
		return w.sign(s)
	}, entry.UnknownSubject, "supersedes"},
	{"REG-8 supersedes a signal to come", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Supersedes = &entry.LogRef{Index: w.state.Size()}
		return w.sign(s)
	}, entry.UnknownSubject, "supersedes"},
	{"SIG executor of another's execution", func(w *world) *entry.Entry {
		return w.sign(w.signal("b", entry.StandingExecutor, "a#done"))
	}, entry.NoStanding, "standing"},
	{"SIG downstream without an edge", func(w *world) *entry.Entry {
		return w.sign(w.signal("c", entry.StandingDownstream, "a#done"))
	}, entry.NoStanding, "standing"},
	{"SIG downstream over two edges", func(w *world) *entry.Entry {
		w.put(w.exec("c", "x", "b#use"))
		return w.sign(w.signal("c", entry.StandingDownstream, "a#done"))
	}, entry.NoStanding, "standing"},
	{"SIG downstream of what it is upstream of", func(w *world) *entry.Entry {
		return w.sign(w.signal("a", entry.StandingDownstream, "b#use"))
	}, entry.NoStanding, "standing"},
	{"SIG upstream without an edge", func(w *world) *entry.Entry {
		return w.sign(w.signal("c", entry.StandingUpstream, "b#use"))
	}, entry.NoStanding, "standing"},
	{"SIG upstream of what it is downstream of", func(w *world) *entry.Entry {
		return w.sign(w.signal("b", entry.StandingUpstream, "a#done"))
	}, entry.NoStanding, "standing"},
	{"SIG standing of who has no entry yet", func(w *world) *entry.Entry {
		w.put(w.enrol("e", "new", entry.RoleAgent))
		return w.sign(w.signal("new", entry.StandingDownstream, "a#done"))
	}, entry.NoStanding, "standing"},
	{"SIG another workflow", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Wid = "w2"
		return w.sign(s)
	}, entry.StateConflict, "wid"},
	{"SIG since of another agent", func(w *world) *entry.Entry {
		s := w.signal("a", entry.StandingExecutor, "a#done")
		s.Since = "b#use"
		return w.sign(s)
	}, entry.StateConflict, "since"},
}
