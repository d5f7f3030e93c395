// Package words says in a few words how incidents and tasks stand. The command line
// and the pages of the console print the same words, because both take them from
// here.
package words

import (
	"fmt"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Instant is a time of the ledger's clock, in Unix milliseconds, in UTC (RFC 3339).
func Instant(unixMilli int64) string { return api.Instant(unixMilli) }

// BundleSent says when a ledger last sent the bundle of a command, and since when it remembers
// that.
func BundleSent(c *api.Command, since int64) string {
	if c.BundleAt == 0 {
		return "not sent since the ledger started, " + Instant(since)
	}
	return "last sent " + Instant(c.BundleAt)
}

// IncidentState is the state of an incident, with what a state does not tell.
func IncidentState(i *api.Incident) string {
	switch {
	case i.Silence:
		return string(i.State) + " (nobody answered in time)"
	case i.Unacknowledged():
		return string(i.State) + " (nobody answered an amend)"
	}
	return string(i.State)
}

// IncidentWaitsFor says what an incident waits for, and which fence stands though it
// waits for nothing; empty: it waits for nothing, and nothing is fenced.
func IncidentWaitsFor(i *api.Incident) string {
	waits := i.WaitsFor
	if i.NotFenced != "" {
		waits += "; NOT FENCED"
	}
	if i.StillFenced > 0 {
		return fmt.Sprintf("%s; members still fenced: %d", OrNothing(waits), i.StillFenced)
	}
	return waits
}

// The words for a member of a plan in force that has no outcome.
const (
	MayBegin = "may begin"
	Waits    = "waits"
)

// MemberState says how a member of a plan in force is: its result, or else whether its undo may
// begin (INC-7).
func MemberState(m *api.PlanMember) string {
	switch {
	case m.Result != "":
		return string(m.Result)
	case m.Released:
		return MayBegin
	}
	return Waits
}

// WhoDecides says who may put a plan for an incident in force. inForce is the plan in force; nil:
// there is none.
func WhoDecides(i *api.Incident, plan, inForce *api.Plan) string {
	switch {
	case plan.Asks != nil:
		return "people must decide: " + plan.Asks.Detail
	case i.Waits == nil, i.Waits.For == api.ForAcknowledgement:
		return "nothing is left to decide: the incident is over"
	case inForce != nil && inForce.RollbackSet == plan.RollbackSet:
		return fmt.Sprintf("it is decided: entry %d", i.Decision.Ref.Index)
	}
	return "the coordinator may authorize it alone"
}

// Compromised is the warning that stands beside an entry whose key was compromised; empty: nothing
// says so.
func Compromised(c *verify.Compromise) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" [KEY COMPROMISED since %d, revoked at %d]", c.Since, c.Revoked)
}

// KeyState says whether a key counts. Of a key that does not count, it gives the index of the
// revocation. signed is how many entries a compromised key signed since its compromise.
func KeyState(key *api.Key, signed int) string {
	switch {
	case key.Revoked == nil:
		return "counts"
	case key.CompromisedSince == nil:
		return fmt.Sprintf("ended at %d", *key.Revoked)
	}
	return fmt.Sprintf("ended at %d, COMPROMISED since %d: %s since", *key.Revoked, *key.CompromisedSince, Counted(signed, "entry"))
}

// OrNothing is the text, or the word nothing where it is empty.
func OrNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// Disposition is what was found of a signal, and which domains corroborate it.
func Disposition(s *api.IncidentSignal) string {
	switch {
	case s.Silence:
		return s.Disposition + ": nobody answered in time"
	case s.Disposition != entry.Corroborated:
		return s.Disposition
	case s.Independent:
		return s.Disposition + " by " + strings.Join(s.Domains, ", ")
	}
	return s.Disposition + " by its own domain " + strings.Join(s.Domains, ", ")
}

// Tally writes the counts of outcomes in the order of the protocol.
func Tally(counts map[entry.Result]int64) string {
	var parts []string
	for _, r := range []entry.Result{entry.Restored, entry.Compensated, entry.NotExecuted, entry.ResultIrrevocable, entry.ResultFailed,
		entry.Refused, entry.Withheld, entry.ResultUnknown} {
		if n := counts[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if parts == nil {
		return "none yet"
	}
	return strings.Join(parts, ", ")
}

// Dollars writes an amount in micro-USD as USD.
func Dollars(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }

// Counted is a number of things, in words: 1 line, 2 lines, 3 entries.
func Counted[N int | int64 | uint64](n N, thing string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(thing, "y"); ok {
			thing = stem + "ies"
		} else {
			thing += "s"
		}
	}
	return fmt.Sprint(n) + " " + thing
}
