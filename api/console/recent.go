package console

import (
	"context"
	"sync"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// The recent past of the overview, in milliseconds.
const (
	hourMS = int64(60 * 60 * 1000)
	dayMS  = 24 * hourMS
)

// overMax is the number of incidents that the overview looks at to count those that are over.
const overMax = 4096

// mark is a place in the log that was found before. Times of registration never descend, so that
// the search for a later time begins there.
type mark struct {
	mu    sync.Mutex
	at    int64  // Unix milliseconds
	index uint64 // of the first entry that was registered then or later
}

// since returns the index of the first entry below size that was registered at a time, in Unix
// milliseconds, or later; size: there is none. The error says that the log is not at hand.
func (m *mark) since(ctx context.Context, log Log, size uint64, at int64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	low, step := uint64(0), size // all entries below low are earlier
	if at >= m.at && m.index <= size {
		low, step = m.index, 1
	}
	high := low // from the mark on in growing steps, for the next page asks for little more
	for high < size {
		next := min(high+step, size)
		later, err := registeredSince(ctx, log, next-1, at)
		if err != nil {
			return 0, err
		}
		if later {
			high = next - 1
			break
		}
		low, high, step = next, next, 2*step
	}
	for low < high { // the entry at high is later
		middle := low + (high-low)/2
		later, err := registeredSince(ctx, log, middle, at)
		if err != nil {
			return 0, err
		}
		if later {
			high = middle
		} else {
			low = middle + 1
		}
	}
	m.at, m.index = at, low
	return low, nil
}

func registeredSince(ctx context.Context, log Log, index uint64, at int64) (later bool, err error) {
	err = entry.Refuse(entry.NotFound, "index", "no entry %d", index)
	for e, failed := range log.Entries(ctx, index, index+1) {
		if err = failed; err == nil {
			later = e.RegisteredAt >= at
		}
	}
	return later, err
}

// recent is what the overview tells of the last day.
type recent struct {
	Over     []stateCount
	OverMost bool   // whether there are incidents that were not looked at
	Known    bool   // whether the times are at hand; otherwise Over counts incidents of all time
	Entries  uint64 // that were registered in the last 24 hours

	from uint64 // index of the first of them
}

// look finds where the last day begins.
func (r *recent) look(ctx context.Context, k *Console) {
	at := k.cfg.Source.Standing()
	from, err := k.day.since(ctx, k.cfg.Source, at.Size, at.Now-dayMS)
	r.Known, r.from, r.Entries = err == nil, from, at.Size-from
}

// count counts the incidents that ended in the last day, by state.
func (r *recent) count(state *coord.State, now int64) {
	var counts map[entry.IncidentState]int
	if r.Known {
		closed, more := view.Incidents(state, &api.IncidentQuery{State: api.StateClosed, Limit: overMax}, now)
		counts, r.OverMost = map[entry.IncidentState]int{}, more != nil
		for i := range closed {
			if closed[i].Recorded >= r.from {
				counts[closed[i].State]++
			}
		}
	} else {
		counts = state.Census(now).States
	}
	for _, s := range entry.IncidentStates() {
		if n := counts[s]; !s.Open() && n > 0 {
			r.Over = append(r.Over, stateCount{string(s), n})
		}
	}
}
