package client

import (
	"maps"
	"slices"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// judgedMax is the number of the newest verdicts on signals that count
// (protocol.md, section 8).
const judgedMax = 256

// history is what a server says of a principal, and the entries that it is held
// to.
type history struct {
	*api.History
	entries map[uint64]*verify.Entry
}

// check holds every line to its entry, and the counts to the entries.
func (h *history) check() error {
	own := map[uint64]bool{}
	for i := range h.Signals {
		s := &h.Signals[i]
		body, ok := bodyOf[*entry.Signal](h, s.Index)
		if !ok || body.Iss != h.Principal || body.Subject != s.Subject || body.Standing != s.Standing {
			return malformed("entry %d is not that signal", s.Index)
		}
		own[s.Index] = true
	}
	last, verdicts := h.verdicts(own)
	for i := range h.Signals {
		if s := &h.Signals[i]; last[s.Index] != (found{s.Disposed, s.Disposition}) {
			return malformed("entry %d does not say that signal %d is %.20q", s.Disposed, s.Index, s.Disposition)
		}
	}
	verdicts = verdicts[max(0, len(verdicts)-judgedMax):]
	count := map[string]int64{}
	for _, word := range verdicts {
		count[word]++
	}
	if h.Judged != len(verdicts) || h.Confirmed != count["confirmed"] || h.Unfounded != count["unfounded"] {
		return malformed("%d judged, %d confirmed, %d unfounded, the entries give %d, %d, %d",
			h.Judged, h.Confirmed, h.Unfounded, len(verdicts), count["confirmed"], count["unfounded"])
	}
	return h.outcomes()
}

// found is what the entry at an index says of a signal.
type found struct {
	index uint64
	word  string
}

// verdicts returns what was found of some signals, in the order of the log, and
// of each what was found last: one that was merged into an older incident is
// disposed of twice.
func (h *history) verdicts(own map[uint64]bool) (last map[uint64]found, verdicts []string) {
	last = map[uint64]found{}
	for _, index := range slices.Sorted(maps.Keys(h.entries)) {
		var list []entry.Disposition
		if record, ok := bodyOf[*entry.Record](h, index); ok {
			list = record.Signals
		} else if deny, ok := bodyOf[*entry.Decision](h, index); ok {
			list = deny.Signals
		}
		for _, one := range list {
			if own[one.Index] {
				last[one.Index] = found{index, one.Disposition}
				verdicts = append(verdicts, one.Disposition)
			}
		}
	}
	return last, verdicts
}

func (h *history) outcomes() error {
	corrections := int64(0)
	for i := range h.Outcomes {
		o := &h.Outcomes[i]
		body, ok := bodyOf[*entry.Outcome](h, o.Index)
		if !ok || body.Iss != h.Principal || body.Exec != o.Exec || body.Result != o.Result || body.Incident != o.Incident {
			return malformed("entry %d is not that outcome", o.Index)
		}
		if o.Correction {
			corrections++
		}
	}
	if corrections != h.Corrections {
		return malformed("%d corrections, the entries give %d", h.Corrections, corrections)
	}
	return nil
}

// bodyOf returns the content of a proven entry.
func bodyOf[T entry.Body](h *history, index uint64) (body T, ok bool) {
	if e := h.entries[index]; e != nil {
		body, ok = e.Body.(T)
	}
	return body, ok
}
