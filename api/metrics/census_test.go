//go:build unix

package metrics

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

const (
	manyIncidents = 100_000
	manyAgents    = 1_000
)

// crowd returns the replica of a log with very many open incidents, and the instant of its end.
// Signatures are not checked.
func crowd(tb testing.TB) (*coordinator.Replica, int64) {
	tb.Helper()
	c := coordinator.New(origin, func(entry.PublicKey, []byte, []byte) error { return nil })
	fold, index, now := c.NewFold(), uint64(0), time.Now().UnixMilli()
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
	for i := range manyIncidents {
		wid := entry.WorkflowID(fmt.Sprintf("flow-%d", i))
		x := &entry.Execution{Header: entry.Header{Iss: name(i), Wid: wid}, Exec: fmt.Sprintf("x-%d", i), Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Failed}
		put(agents[i%manyAgents], x)
		put(agents[i%manyAgents], &entry.Signal{Header: entry.Header{Iss: name(i), Wid: wid}, Subject: x.Ref(), Class: "tool", Code: "error",
			Standing: entry.StandingExecutor, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, ObservedAt: now})
	}
	c.Committed(verify.SignedHead{})
	return c, now
}

// TestCensusOfManyIncidents reads the metrics of a log with 10^5 incidents over HTTP. A read takes
// less than 20 ms of the processor, the client's share and the collection of garbage among them,
// and less than 1 MiB. Processor time, since others use the machine, too.
func TestCensusOfManyIncidents(t *testing.T) {
	c, now := crowd(t)
	m := New()
	m.add("state", func(emit emit) { m.readState(c, now, emit) })
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	read := func() (size int) {
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", response.StatusCode, err)
		}
		return len(content)
	}
	read()
	runtime.GC() // what the crowd left
	const reads = 20
	began, size := processorTime(t), 0
	for range reads {
		size = read()
	}
	each := (processorTime(t) - began) / reads
	t.Logf("%v of the processor, %d bytes", each, size)
	if size >= 1<<20 {
		t.Errorf("%d bytes", size)
	}
	if each >= 20*time.Millisecond*raceFactor {
		t.Errorf("%v of the processor", each)
	}
	var census coord.Census
	c.Read(func(s *coord.State) { census = s.Census(now) })
	if census.States[entry.IncidentReported] != manyIncidents || census.NotFenced != manyIncidents {
		t.Errorf("%+v", census)
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
