package console

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// moment is a line of the timeline of an incident: an entry, or a time to come.
type moment struct {
	Index  uint64 // of the entry
	At     int64  // Unix milliseconds; 0: the log is not at hand to tell
	Issuer entry.Principal
	Says   string
	Ahead  bool // it has not happened yet
}

// timelineMax is the number of entries that a timeline shows.
const timelineMax = 4 * rows

// moments returns the entries about an incident, superseded ones among them, and the times ahead of
// it. The entries have neither time nor words yet. earlier says that older entries are left out.
func moments(state *coord.State, v *api.Incident) (list []moment, earlier bool) {
	indexes := state.IncidentEntries(v.ID)
	if earlier = len(indexes) > timelineMax; earlier {
		indexes = indexes[len(indexes)-timelineMax:]
	}
	for _, index := range indexes {
		list = append(list, moment{Index: index})
	}
	if v.Next != nil {
		list = append(list, moment{At: v.Next.At, Says: "the coordinator: " + v.Next.Says, Ahead: true})
	}
	if w := v.Waits; w != nil && w.Until != 0 {
		list = append(list, moment{At: w.Until, Says: w.Then, Ahead: true})
	}
	return list, earlier
}

// read fills in what the entries say, as far as the log is at hand. It asks for each entry bundle
// once.
func (k *Console) read(ctx context.Context, list []moment) {
	for i := 0; i < len(list) && !list[i].Ahead; {
		last := i
		for last+1 < len(list) && !list[last+1].Ahead && list[last+1].Index/merkle.TileWidth == list[i].Index/merkle.TileWidth {
			last++
		}
		for e, err := range k.cfg.Source.Entries(ctx, list[i].Index, list[last].Index+1) {
			if err != nil {
				return
			}
			if m := &list[i]; m.Index == e.Index {
				m.At, m.Issuer, m.Says = e.RegisteredAt, e.Header.Iss, words.Summary(e.Body)
				i++
			}
		}
		i = last + 1
	}
}
