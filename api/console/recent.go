package console

import (
	"context"
	"slices"
	"strconv"
	"strings"
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

// hoursShown are the full hours and the present one that the overview draws.
const hoursShown = 24

// hours are the places in the log at which full hours begin. The place of an hour stays, so that
// each look reads one entry an hour. The search for a new hour begins at the hour a day before.
type hours [hoursShown]mark

// counts returns how many entries were registered in each of the last hours, the present one last.
// The error says that the log is not at hand.
func (h *hours) counts(ctx context.Context, log Log, size uint64, now int64) (counts [hoursShown]uint64, err error) {
	present, next := now/hourMS, size
	for back := range int64(hoursShown) {
		hour := present - back // since 1970
		first, err := h[hour%hoursShown].since(ctx, log, size, hour*hourMS)
		if err != nil {
			return counts, err
		}
		counts[hoursShown-1-back] = next - min(first, next)
		next = first
	}
	return counts, nil
}

// sparkline is a picture of counts: bars from left to right, and the same in words.
type sparkline struct {
	Width, Height int
	Bars          []sparkBar
	Says          string
}

type sparkBar struct{ X, Y, Width, Height int }

// draw makes the picture of counts.
func draw(counts []uint64) *sparkline {
	const step, height = 6, 32
	most := max(1, slices.Max(counts))
	s := &sparkline{Width: step * len(counts), Height: height}
	said := make([]string, len(counts))
	for i, n := range counts {
		said[i] = strconv.FormatUint(n, 10)
		if n > 0 {
			tall := max(1, int(n*height/most))
			s.Bars = append(s.Bars, sparkBar{step * i, height - tall, step - 1, tall})
		}
	}
	s.Says = strings.Join(said, ", ")
	return s
}

// recent is what the overview tells of the last day.
type recent struct {
	Over     []stateCount
	OverMost bool   // whether there are incidents that were not looked at
	Known    bool   // whether the times are at hand; otherwise Over counts incidents of all time
	Entries  uint64 // that were registered in the last 24 hours
	ByHour   *sparkline

	from uint64 // index of the first of them
}

// look finds where the last day and its hours begin. If the log is not at hand, Known stays false.
func (r *recent) look(ctx context.Context, k *Console) {
	at := k.cfg.Source.Standing()
	from, err := k.day.since(ctx, k.cfg.Source, at.Size, at.Now-dayMS)
	if err != nil {
		return
	}
	counts, err := k.hours.counts(ctx, k.cfg.Source, at.Size, at.Now)
	if err != nil {
		return
	}
	r.Known, r.from, r.Entries, r.ByHour = true, from, at.Size-from, draw(counts[:])
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
