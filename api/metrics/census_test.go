//go:build unix

package metrics

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

const (
	manyIncidents = 100_000
	manyAgents    = 1_000
)

// crowd returns the replica of a log with very many open incidents, which ends at an instant. They
// are reported, or escalated: people are to decide, since the effect is not declared. Signatures
// are not checked.
func crowd(tb testing.TB, escalated bool, now int64) *coordinator.Replica {
	tb.Helper()
	c := coordinator.New(origin, func(entry.PublicKey, []byte, []byte) error { return nil })
	fold, index := c.NewFold(), uint64(0)
	key := func() entry.PublicKey {
		public, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			tb.Fatal(err)
		}
		k, err := entry.NewPublicKey(public)
		if err != nil {
			tb.Fatal(err)
		}
		return k
	}
	put := func(key entry.PublicKey, body entry.Body) {
		h := entry.HeaderOf(body)
		h.V, h.JTI, h.Aud, h.Iat = 1, uuid.NewString(), origin, now/1000
		fold.Apply(&entry.Entry{Kind: body.Kind(), Header: h, Body: body, KeyID: key.KeyID(), SignatureChecked: true}, index, now)
		index++
	}
	authority := key()
	policy := coord.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: authority})
	policy.Iss = "authority"
	put(authority, policy)
	agents := make([]entry.PublicKey, manyAgents)
	name := func(i int) entry.Principal { return entry.Principal(fmt.Sprintf("agent-%d", i%manyAgents)) }
	for i := range agents {
		agents[i] = key()
		put(authority, &entry.Agent{Header: entry.Header{Iss: "authority"}, Principal: name(i), Op: entry.Enrol, Key: agents[i], Roles: []entry.Role{entry.RoleAgent}, Domain: "d", Span: entry.SpanWorkflow})
	}
	x := entry.Execution{Effect: entry.EffectNone, Progress: entry.Failed, Parents: []entry.Parent{}}
	signal := entry.Signal{Class: "tool", Code: "error", Standing: entry.StandingExecutor, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, ObservedAt: now}
	if escalated {
		x.Effect, signal.Effects, signal.ReplaySafety = entry.EffectUndeclared, entry.EffectsUnknown, entry.ReplayUnknown
	}
	ids := make([]uint64, manyIncidents)
	for i := range ids {
		x, signal := x, signal
		x.Iss, x.Wid, x.Exec = name(i), entry.WorkflowID(fmt.Sprintf("flow-%d", i)), fmt.Sprintf("x-%d", i)
		put(agents[i%manyAgents], &x)
		signal.Iss, signal.Wid, signal.Subject, ids[i] = x.Iss, x.Wid, x.Ref(), index
		put(agents[i%manyAgents], &signal)
	}
	c.Committed(verify.SignedHead{})
	if !escalated {
		return c
	}
	coordinates := key()
	put(authority, &entry.Agent{Header: entry.Header{Iss: "authority"}, Principal: "coordinator", Op: entry.Enrol, Key: coordinates, Roles: []entry.Role{entry.RoleCoordinator}, Domain: "d"})
	c.Committed(verify.SignedHead{})
	decisions := make([]*entry.Decision, manyIncidents)
	c.Read(func(s *coord.State) {
		for i, id := range ids {
			body, _ := s.NextOf(id, now)
			decisions[i], _ = body.(*entry.Decision)
		}
	})
	for _, decision := range decisions {
		decision.Iss = "coordinator"
		put(coordinates, decision)
	}
	c.Committed(verify.SignedHead{})
	return c
}

// crowded returns the metrics of a ledger with every source that arl serve shows without witnesses
// and without a cluster. The log itself is empty: the replica has the incidents.
func crowded(t *testing.T, c *coordinator.Replica) *Metrics {
	t.Helper()
	dir := t.TempDir()
	own, err := keys.GenerateLedger(dir, origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open("log", &ledger.Config{Origin: origin, FS: vfs.NewMem(), Fatal: func(err error) { panic(err) },
		Keys: []ledger.Key{{Signer: own.Signer, Verifier: own.Verifier, Cosigner: own.Cosigner}}, NewFold: func() ledger.Fold { return c.NewFold() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	m := New()
	m.Ledger(l, c)
	m.Disk(dir, 1<<20)
	m.Build("devel", "")
	m.Checks(func(string) *Checked { return nil })
	m.Lanes(func() (none fair.LaneState) { return none })
	m.Notifications(func() map[string]time.Duration { return map[string]time.Duration{"people": 0} })
	return m
}

// TestCensusOfManyIncidents reads all metrics of a ledger with 10^5 incidents over HTTP. A read
// takes less than 20 ms of the processor, the client's share and the collection of garbage among
// them, and less than 1 MiB. Processor time, since others use the machine, too.
func TestCensusOfManyIncidents(t *testing.T) {
	now := time.Now().UnixMilli()
	t.Run("reported", func(t *testing.T) {
		censusOf(t, crowd(t, false, now), now, coord.Census{
			States: map[entry.IncidentState]int{entry.IncidentReported: manyIncidents}, NotFenced: manyIncidents})
	})
	t.Run("escalated, and the fences have ended", func(t *testing.T) {
		budget.Unraced(t, "one goroutine makes the incidents; the subtest before has those that read")
		then := now - (100 * time.Hour).Milliseconds()
		c := crowd(t, true, then)
		censusOf(t, c, now, coord.Census{
			States: map[entry.IncidentState]int{entry.IncidentEscalated: manyIncidents}, NotFenced: manyIncidents})
		checkCensus(t, c, then, coord.Census{ // people may answer
			States: map[entry.IncidentState]int{entry.IncidentEscalated: manyIncidents}, Waiting: manyIncidents, WaitingSince: then})
		each := timed(t, func() { c.Read(func(s *coord.State) { s.Census(then) }) })
		t.Logf("%v of the processor while people may answer", each)
		if each >= 20*time.Millisecond {
			t.Errorf("%v of the processor", each)
		}
	})
}

// censusOf reads the metrics of a replica.
func censusOf(t *testing.T, c *coordinator.Replica, now int64, want coord.Census) {
	t.Helper()
	server := httptest.NewServer(crowded(t, c).Handler())
	defer server.Close()
	read := func() (content []byte) {
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err = io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", response.StatusCode, err)
		}
		return content
	}
	for state, n := range want.States {
		line := fmt.Sprintf("\narl_incidents{state=%q} %d\n", state, n)
		if content := string(read()); !strings.Contains(content, line) || strings.Count(content, "\narl_incidents{") != len(entry.IncidentStates()) {
			t.Errorf("the incidents are not counted, or not once:\n%s", content)
		}
	}
	size := 0
	each := timed(t, func() { size = len(read()) })
	t.Logf("%v of the processor, %d bytes", each, size)
	if size >= 1<<20 {
		t.Errorf("%d bytes", size)
	}
	if each >= 20*time.Millisecond*raceFactor {
		t.Errorf("%v of the processor", each)
	}
	checkCensus(t, c, now, want)
}

func checkCensus(t *testing.T, c *coordinator.Replica, now int64, want coord.Census) {
	t.Helper()
	var census coord.Census
	c.Read(func(s *coord.State) { census = s.Census(now) })
	if !reflect.DeepEqual(census, want) {
		t.Errorf("%+v, want %+v", census, want)
	}
}

// timed returns the time of the processor that a call takes, the mean of twenty.
func timed(t *testing.T, call func()) time.Duration {
	t.Helper()
	runtime.GC() // what the crowd left
	const calls = 20
	began := processorTime(t)
	for range calls {
		call()
	}
	return (processorTime(t) - began) / calls
}

// processorTime returns the time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
