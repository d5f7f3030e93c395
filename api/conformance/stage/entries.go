package stage

import "recoveryledger/ledger/entry"

// ZeroDigest stands for a digest that nobody compares.
const ZeroDigest entry.Digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Execution is one entry of an execution.
func Execution(ref entry.Ref, effect entry.Effect, progress entry.Progress, parents ...entry.Ref) *entry.Execution {
	_, id := Owner(ref)
	x := &entry.Execution{Exec: id, Effect: effect, Progress: progress, Parents: []entry.Parent{}}
	if effect != entry.EffectNone && effect != entry.EffectReversible {
		x.IdempotencyKey = ZeroDigest
	}
	for _, parent := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: parent, Dep: entry.Hard})
	}
	return x
}

// Signal is a signal about an execution whose output is wrong.
func Signal(subject entry.Ref, standing entry.Standing, at int64) *entry.Signal {
	return &entry.Signal{Subject: subject, Class: "output", Code: "ungrounded", Standing: standing, Effects: entry.EffectsUnknown,
		ReplaySafety: entry.ReplayUnknown, ObservedAt: at}
}
