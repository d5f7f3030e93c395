package console

import (
	"context"
	"iter"
	"slices"

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

// read fills in what the entries say, as far as the log is at hand.
func (k *Console) read(ctx context.Context, list []moment) {
	places, indexes := map[uint64]*moment{}, []uint64{}
	for i := range list {
		if m := &list[i]; !m.Ahead {
			places[m.Index], indexes = m, append(indexes, m.Index)
		}
	}
	for e, err := range k.entriesAt(ctx, indexes) {
		if err != nil {
			return
		}
		m := places[e.Index]
		m.At, m.Issuer, m.Says = e.RegisteredAt, e.Header.Iss, words.Summary(e.Body)
	}
}

// entriesAt yields the entries at ascending indexes. It asks for each entry bundle once.
func (k *Console) entriesAt(ctx context.Context, indexes []uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		for len(indexes) > 0 {
			tile, n := indexes[0]/merkle.TileWidth, 1
			for n < len(indexes) && indexes[n]/merkle.TileWidth == tile {
				n++
			}
			part := indexes[:n]
			indexes = indexes[n:]
			for e, err := range k.cfg.Source.Entries(ctx, part[0], part[n-1]+1) {
				if err != nil {
					yield(nil, err)
					return
				}
				if _, wanted := slices.BinarySearch(part, e.Index); wanted && !yield(e, nil) {
					return
				}
			}
		}
	}
}
