// Package scale simulates many ledgers at a load that no machine of ours makes: which tenant goes
// to which cell, how long an entry takes, and how large the state grows. docs/scale.md has the
// results, and says where the parameters come from.
//
// The simulation is of discrete events, and of one seed: the same parameters give the same
// results everywhere. Cells share nothing, so each one is simulated by itself. A cell orders one
// batch at a time, as the leader of a cluster does: a batch takes what waits, up to a limit, and
// the time of an agreement and of the serial work for each entry.
package scale

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

// Parameters describe the ledgers and the load.
type Parameters struct {
	Seed    uint64
	Cells   int
	Tenants int
	Rate    float64 // entries a second, of all tenants
	LogRate float64 // entries a second that one log may have; a larger tenant has several logs
	// Agree is the time of an agreement, of which Jitter is random, and Serial that of the serial
	// work for an entry.
	Agree, Jitter, Serial time.Duration
	BatchMax              int // entries
	// OutageMin and OutageMax bound the time without a leader.
	OutageMin, OutageMax time.Duration
}

// Measured returns the parameters of docs/scale.md.
func Measured() Parameters {
	return Parameters{
		Seed: 1, Cells: 100, Tenants: 10_000, Rate: 500_000, LogRate: 5_000,
		Agree: 3 * time.Millisecond, Jitter: time.Millisecond, Serial: 30 * time.Microsecond, BatchMax: 1024,
		OutageMin: time.Second, OutageMax: 3 * time.Second,
	}
}

func (p *Parameters) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, stream)) //nolint:gosec // a simulation keeps no secret
}

// Zipf returns the rate of each tenant, the largest first: the n-th has 1/nˢ of the first one's.
func (p *Parameters) Zipf(s float64) []float64 {
	rates, sum := make([]float64, p.Tenants), 0.0
	for i := range rates {
		rates[i] = math.Pow(float64(i+1), -s)
		sum += rates[i]
	}
	for i := range rates {
		rates[i] *= p.Rate / sum
	}
	return rates
}

// Logs splits tenants into logs, each of LogRate at most.
func (p *Parameters) Logs(tenants []float64) (logs []float64) {
	for _, rate := range tenants {
		n := max(1, math.Ceil(rate/p.LogRate))
		for range int(n) {
			logs = append(logs, rate/n)
		}
	}
	return logs
}

// ByHash puts each log into a cell that its name alone chooses, and returns the rate of each cell.
func (p *Parameters) ByHash(logs []float64) []float64 {
	cells, random := make([]float64, p.Cells), p.random(1)
	for _, rate := range logs {
		cells[random.IntN(p.Cells)] += rate
	}
	return cells
}

// ByDirectory puts each log, the largest first, into the lighter one of two cells, as a directory
// can that knows the rates.
func (p *Parameters) ByDirectory(logs []float64) []float64 {
	logs = slices.Clone(logs)
	slices.SortStableFunc(logs, func(a, b float64) int { return cmp.Compare(b, a) })
	cells, random := make([]float64, p.Cells), p.random(2)
	for _, rate := range logs {
		one, other := random.IntN(p.Cells), random.IntN(p.Cells)
		if cells[other] < cells[one] {
			one = other
		}
		cells[one] += rate
	}
	return cells
}

// Peak returns the rate of the busiest cell over the mean.
func Peak(cells []float64) float64 {
	sum := 0.0
	for _, rate := range cells {
		sum += rate
	}
	return slices.Max(cells) * float64(len(cells)) / sum
}

// Latencies counts times from the arrival of an entry to its receipt, in steps of 1/16 of an
// octave.
type Latencies struct {
	counts  [40 * latencySteps]uint64
	total   uint64
	Waiting int // entries without a receipt at the end
}

const latencySteps = 16

func (l *Latencies) add(seconds float64) {
	micros := max(1, uint64(seconds*1e6))
	octave := bits.Len64(micros) - 1
	l.counts[min(len(l.counts)-1, octave*latencySteps+int((micros-1<<octave)*latencySteps>>octave))]++
	l.total++
}

// Add adds the counts of another cell.
func (l *Latencies) Add(other *Latencies) {
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.total += other.total
	l.Waiting += other.Waiting
}

// Percentile returns the time that a part of the entries, from 0 to 1, does not exceed, rounded up
// by 6 % at most.
func (l *Latencies) Percentile(part float64) time.Duration {
	want, seen := uint64(math.Ceil(part*float64(l.total))), uint64(0)
	for i, n := range l.counts {
		if seen += n; seen >= want && n > 0 {
			octave, step := i/latencySteps, i%latencySteps
			return time.Duration(math.Ldexp(1+float64(step+1)/latencySteps, octave)) * time.Microsecond
		}
	}
	return 0
}

// outage is a time without a leader, in seconds.
type outage struct{ from, to float64 }

// Cell simulates a cell that entries reach at a rate, for so many seconds. With fails its leader is
// lost once. stream makes cells differ.
func (p *Parameters) Cell(stream uint64, rate, seconds float64, fails bool) *Latencies {
	random, l := p.random(1000+stream), new(Latencies)
	down := outage{math.Inf(1), math.Inf(1)}
	if fails {
		// What has gathered is registered before the end.
		down.from = random.Float64() * (seconds - 1 - p.OutageMax.Seconds())
		down.to = down.from + p.OutageMin.Seconds() + random.Float64()*(p.OutageMax-p.OutageMin).Seconds()
	}
	var waiting []float64 // the instants at which they came
	next, now := random.ExpFloat64()/rate, 0.0
	for now < seconds {
		if len(waiting) == 0 {
			now = max(now, next)
		}
		for ; next <= now; next += random.ExpFloat64() / rate {
			waiting = append(waiting, next)
		}
		batch := waiting[:min(len(waiting), p.BatchMax)]
		ends := now + (p.Agree - p.Jitter).Seconds() + random.ExpFloat64()*p.Jitter.Seconds() + float64(len(batch))*p.Serial.Seconds()
		if now < down.to && ends > down.from { // the batch is offered again by the next leader
			now, down = down.to, outage{math.Inf(1), math.Inf(1)}
			continue
		}
		for _, came := range batch {
			l.add(ends - came)
		}
		waiting, now = waiting[len(batch):], ends
	}
	l.Waiting = len(waiting)
	return l
}

// State simulates the entries that a fold has in memory when it forgets a workflow some time after
// the end of the workflow. Workflows begin at a rate a second, have so many entries each, and live
// for random times of a mean. It returns the number of entries at the end of so many seconds. keep
// is how long a workflow that is over stays; negative: for ever.
func (p *Parameters) State(rate, entries, mean, keep, seconds float64) float64 {
	random, kept := p.random(3), 0
	for begun := random.ExpFloat64() / rate; begun < seconds; begun += random.ExpFloat64() / rate {
		if over := begun + random.ExpFloat64()*mean; keep < 0 || over+keep > seconds {
			kept++
		}
	}
	return float64(kept) * entries
}
