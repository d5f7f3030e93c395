package rollout

import (
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/coord/codec"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
)

// rolloutsMax bounds lists of a snapshot by what a log can have.
const rolloutsMax = math.MaxInt32

// Snapshot passes the state: it writes it, or reads into it. size is the size of the log.
func (f *Fold) Snapshot(c *codec.Codec, size uint64) {
	codec.Optional(c, &f.current, func(r *Rollout) { r.snapshot(c, size) })
	codec.List(c, &f.ended, rolloutsMax, func(e *api.EndedRollout) { endedSnapshot(c, e, size) })
	codec.List(c, &f.reports, rolloutsMax, func(r *report) {
		text(c, &r.policy)
		text(c, &r.baseline)
		text(c, &r.digest)
		c.Flag(&r.promotes)
	})
}

// text passes a text of a type of its own.
func text[T ~string](c *codec.Codec, of *T) {
	s := string(*of)
	if c.Text(&s, entry.MaxName); c.Reading() { // other states may share the value that is written
		*of = T(s)
	}
}

// word passes one of some words.
func word[T ~string](c *codec.Codec, of *T, words ...T) {
	at := max(0, slices.Index(words, *of))
	codec.Number(c, &at, uint64(len(words)))
	if c.Reading() && c.OK() {
		*of = words[at]
	}
}

func (r *Rollout) snapshot(c *codec.Codec, size uint64) {
	text(c, &r.Name)
	text(c, &r.Wid)
	text(c, &r.By)
	codec.Number(c, &r.Started, size)
	codec.Number(c, &r.Moved, size)
	c.Instant(&r.StartedAt)
	word(c, &r.Stage, entry.StageShadow, entry.StageCanary)
	codec.Number(c, &r.SharePermille, entry.ShareMax+1)
	codec.List(c, &r.Waivers, rolloutsMax, func(p *entry.Principal) { text(c, p) })
	t := &r.Terms
	text(c, &t.CandidateDigest)
	text(c, &t.BaselineDigest)
	rules := string(t.Candidate)
	if c.Text(&rules, entry.MaxEnvelope); c.Reading() {
		t.Candidate = jsontext.Value(rules)
	}
	text(c, &t.Salt)
	codec.List(c, &t.Gates, uint64(len(entry.RolloutGates())), func(g *entry.Gate) { word(c, g, entry.RolloutGates()...) })
	c.Instant(&t.TolerancePPM)
	c.Instant(&t.CasesMin)
	c.Instant(&t.DeadlineAt)
	r.Evidence.snapshot(c, t)
	r.seen.snapshot(c)
	r.open.snapshot(c)
	if c.Reading() {
		r.never = limitsOf(t.Candidate).Never
	}
}

func (e *Evidence) snapshot(c *codec.Codec, t *entry.RolloutTerms) {
	for _, a := range []*api.RolloutArm{&e.Canary, &e.Control} {
		for _, n := range []*int64{&a.Cases, &a.Recovered, &a.Unsafe, &a.Escalated, &a.Unknown, &a.Costed, &a.CostMicroUSD, &a.Timed, &a.ElapsedMS} {
			c.Instant(n)
		}
	}
	if c.Reading() {
		fresh := newEvidence(t)
		e.Gates = fresh.Gates
	}
	for i := range e.Gates {
		w := &e.Gates[i].Watch
		c.Instant(&w.Wins)
		c.Instant(&w.Losses)
		c.Instant(&w.Pairs)
		word(c, &w.Answer, judge.Neither, judge.Candidate, judge.Reference)
	}
	word(c, &e.Fell, append([]entry.Gate{""}, entry.RolloutGates()...)...)
	text(c, &e.FellIn)
	codec.List(c, &e.Groups, groupsMax, func(g *Group) { g.snapshot(c) })
	e.pairing.snapshot(c, func(r *result) { r.snapshot(c) })
}

func (r *result) snapshot(c *codec.Codec) {
	c.Flag(&r.recovered)
	c.Flag(&r.escalated)
	unknown(c, &r.cost)
	unknown(c, &r.elapsed)
}

// unknown passes a number that is -1 if it is not known.
func unknown(c *codec.Codec, n *int64) {
	one := *n + 1
	if c.Instant(&one); c.Reading() {
		*n = one - 1
	}
}

func endedSnapshot(c *codec.Codec, e *api.EndedRollout, size uint64) {
	text(c, &e.Rollout)
	text(c, &e.CandidateDigest)
	text(c, &e.BaselineDigest)
	codec.Number(c, &e.Started, size)
	codec.Number(c, &e.Ended, size)
	c.Instant(&e.StartedAt)
	c.Instant(&e.EndedAt)
	word(c, &e.Outcome, Promoted, Aborted)
	word(c, &e.Gate, append([]entry.Gate{"", entry.GateDeadline}, entry.RolloutGates()...)...)
	text(c, &e.Report)
}
