package simulation

import (
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

func newKeys(tb testing.TB) *keyring {
	tb.Helper()
	keys, err := newKeyring()
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// number reads a number from the environment.
func number(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	return n, err == nil
}

// TestReplay runs seeds twice, and compares everything that happens: the first
// ones, and those that failed once. With ARL_SEED it runs that one, and prints
// what happens.
func TestReplay(t *testing.T) {
	budget.Unraced(t, "TestChaosSimulation runs other seeds in the same way")
	seeds, out := []uint64{297496, 310496, 333845, 354213, 428166, 440879, 442198, 443527, 513356, 548155, 720258, 847746, 936262}, io.Discard
	for seed := range uint64(20) {
		seeds = append(seeds, seed)
	}
	if seed, one := number("ARL_SEED"); one {
		seeds, out = []uint64{seed}, os.Stdout
	}
	for _, seed := range seeds {
		r, again := simulate(seed, newKeys(t), out), simulate(seed, newKeys(t), nil)
		if r.err != nil {
			t.Errorf("seed %d: %v", seed, r.err)
		}
		if r.digest != again.digest {
			t.Errorf("seed %d runs differently again: %s, then %s", seed, r.digest, again.digest)
		}
	}
}

// TestChaosSimulation runs many seeds, for as long as the tests may take: from
// ARL_FIRST on, if that is set, and ARL_SEEDS of them.
func TestChaosSimulation(t *testing.T) {
	seeds := uint64(budget.Budget{Short: 200, Usual: 1_000, Chaos: 1_000_000}.Now())
	if n, ok := number("ARL_SEEDS"); ok {
		seeds = n
	}
	first, _ := number("ARL_FIRST")
	s := &sweep{t: t, incidents: map[entry.IncidentState]int{}, next: first, end: first + seeds}
	if deadline, ok := t.Deadline(); ok {
		s.until = time.Until(deadline) - time.Minute
	}
	s.run()
	t.Logf("%d seeds of %d, %d entries, %d events, incidents %v", s.done, seeds, s.entries, s.steps, s.incidents)
	for _, state := range entry.IncidentStates() {
		if !state.Open() && s.done >= 1000 && s.incidents[state] == 0 {
			t.Errorf("no incident is %s in the end: the runs are too simple", state)
		}
	}
	if s.done < seeds && !t.Failed() { // so that nobody takes them for all of them
		t.Skipf("%d of %d seeds: there was no time for more", s.done, seeds)
	}
}

// sweep is many seeds on all processors.
type sweep struct {
	t         *testing.T
	mu        sync.Mutex
	next, end uint64
	until     time.Duration // how long it may take; 0: for ever
	done      uint64
	failed    int
	entries   int
	steps     int
	incidents map[entry.IncidentState]int
}

// failuresMax is how many seeds may fail before a sweep ends.
const failuresMax = 5

func (s *sweep) run() {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // little lives on from one seed to the next
	if s.until != 0 {
		stop := time.AfterFunc(s.until, s.stop)
		defer stop.Stop()
	}
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		keys := newKeys(s.t)
		wait.Go(func() {
			for seed, more := s.take(); more; seed, more = s.take() {
				s.took(seed, simulate(seed, keys, nil))
			}
		})
	}
	wait.Wait()
}

func (s *sweep) take() (seed uint64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seed, more = s.next, s.next < s.end && s.failed < failuresMax
	s.next++
	return seed, more
}

// stop ends a sweep after the seeds that are on their way.
func (s *sweep) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = min(s.end, s.next)
}

func (s *sweep) took(seed uint64, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	s.entries += r.entries
	s.steps += r.steps
	for state, n := range r.incidents {
		s.incidents[state] += n
	}
	if r.err != nil {
		s.failed++
		s.t.Errorf("seed %d: %v\nagain: ARL_SEED=%d go test ./api/client/agent/simulation -run TestReplay -v", seed, r.err, seed)
	}
}
