package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// policiesMax is how many digests of rules the label policy has at most, beside other.
const policiesMax = 8

// policies are the digests of the newest rules that have decided, the newest last. Only rules that
// the log knows have a place: an agent may write any digest into its attempts.
type policies []entry.Digest

// label returns the value of the label policy for the digest of an attempt. If the digest takes the
// place of the oldest one, gone is that one.
func (p *policies) label(s *coord.State, rules *coord.Rules, digest entry.Digest) (value, gone string) {
	if slices.Contains(*p, digest) {
		return string(digest), ""
	}
	if !isKnown(s, rules, digest) {
		return other, ""
	}
	if *p = append(*p, digest); len(*p) > policiesMax {
		gone = string((*p)[0])
		*p = slices.Delete(*p, 0, 1)
	}
	return string(digest), gone
}

// isKnown reports whether a digest is that of the rules in force, or of a rollout.
func isKnown(s *coord.State, rules *coord.Rules, digest entry.Digest) bool {
	if digest == "" {
		return false
	}
	if digest == rules.Of(s).Hash() {
		return true
	}
	if now := s.Rollouts().Current(); now != nil && (digest == now.Terms.CandidateDigest || digest == now.Terms.BaselineDigest) {
		return true
	}
	return slices.ContainsFunc(s.Rollouts().History(), func(e api.EndedRollout) bool { return digest == e.CandidateDigest || digest == e.BaselineDigest })
}

// decidedBy counts what an attempt's rules decided, also in a shadow. The entries about a task have
// an action as decided, and some have it again with its result. To reconcile is logged with its
// result alone. An entry about a whole case has each of its actions once.
func (f *follower) decidedBy(s *coord.State, a *entry.Attempt) {
	const metric = "arl_recovery_decisions_total"
	policy, gone := f.policies.label(s, f.rules, a.Policy)
	if gone != "" {
		f.metrics.counters[metric].DeletePartialMatch(prometheus.Labels{"policy": gone})
	}
	for c := range a.Cases() {
		for i := range c.Rungs {
			r := &c.Rungs[i]
			if a.Task != "" && r.Result != string(recovery.ResultDecided) && r.Strategy != string(recovery.Reconcile) {
				continue
			}
			f.metrics.counter(metric, within(strategies, r.Strategy), policy, armOf(a)).Inc()
		}
	}
}
