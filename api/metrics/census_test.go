//go:build unix

package metrics

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: authority})
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
func crowded(tb testing.TB, c *coordinator.Replica) *Metrics {
	tb.Helper()
	dir := tb.TempDir()
	own, err := keys.GenerateLedger(dir, origin, nil)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := ledger.Open("log", &ledger.Config{Origin: origin, FS: vfs.NewMem(), Fatal: func(err error) { panic(err) },
		Keys: []ledger.Key{{Signer: own.Signer, Verifier: own.Verifier, Cosigner: own.Cosigner}}, NewFold: func() ledger.Fold { return c.NewFold() }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	m := New()
	m.Ledger(l, c)
	m.Disk(dir, 1<<20)
	m.Build("devel", "")
	m.Checks(func(string) *Checked { return nil })
	m.Backup(func() *Checked { return nil })
	m.Anchor(filepath.Join(dir, "anchor"), l, origin) // none is there: the series of its lag are absent
	m.Lanes(func() (none fair.LaneState) { return none })
	m.Notifications(func() map[string]time.Duration { return map[string]time.Duration{"people": 0} })
	m.Publishing(func() (uint64, time.Duration) { return 0, 0 })
	return m
}

// costMost is how many times as long as a count of as many records ([counting]) a read of all
// metrics may take. On a quiet machine a read takes less than 20 ms, which
// BenchmarkCensusOfManyIncidents tells. A machine that others use, too, is slower at both.
const costMost = 4

// TestCensusOfManyIncidents reads all metrics of a ledger with 10^5 incidents over HTTP. A read
// has less than 1 MiB, and takes at most [costMost] times a bare count of as many records. The
// client's share and the collection of garbage are among its time.
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
		checkCost(t, func() { c.Read(func(s *coord.State) { s.Census(then) }) })
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
	if size := len(read()); size >= 1<<20 {
		t.Errorf("%d bytes", size)
	}
	checkCost(t, func() { read() })
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

// checkCost wants of a call what [costMost] says. Both are measured twenty times, in turn.
func checkCost(t *testing.T, call func()) {
	t.Helper()
	count := counting()
	runtime.GC() // what the crowd left
	const calls = 20
	var took, counted time.Duration
	for range calls {
		began := processorTime(t)
		call()
		between := processorTime(t)
		count()
		took, counted = took+between-began, counted+processorTime(t)-between
	}
	t.Logf("%v of the processor, %.1f times a count of as many records", took/calls, float64(took)/float64(counted))
	if took > costMost*raceFactor*counted {
		t.Errorf("%v of the processor, and a count of as many records takes %v", took/calls, counted/calls)
	}
}

// counting returns a function that counts as many records as there are incidents, by state, and
// reads of each record, and of another one that it points to, one time.
func counting() (count func()) {
	type other struct {
		at int64
		_  [280]byte
	}
	type record struct {
		state entry.IncidentState
		exp   int64
		other *other
		_     [300]byte
	}
	all := make([]*record, manyIncidents)
	for i := range all {
		all[i] = &record{state: entry.IncidentEscalated, exp: int64(i), other: &other{at: int64(i)}}
	}
	return func() {
		states, over := map[entry.IncidentState]int{}, 0
		for _, r := range all {
			if states[r.state]++; r.exp > r.other.at {
				over++
			}
		}
		if states[entry.IncidentEscalated] != manyIncidents || over > 0 {
			panic("not all were counted")
		}
	}
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

// BenchmarkCensusOfManyIncidents reads all metrics of a ledger with 10^5 escalated incidents: the
// goal is less than 20 ms.
func BenchmarkCensusOfManyIncidents(b *testing.B) {
	now := time.Now().UnixMilli()
	h := crowded(b, crowd(b, true, now-(100*time.Hour).Milliseconds())).Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
