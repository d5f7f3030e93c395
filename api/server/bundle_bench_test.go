//go:build unix

package server_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// BenchmarkServedBundle measures what an agent with ten members in a plan of
// 100,000 gets over HTTP: making and fetching the bundle, decoding and verifying
// it, and its proofs beside the entries.
func BenchmarkServedBundle(b *testing.B) {
	c := newPanel(b, nil)
	const size = 100_000
	c.put(c.lenient(size))
	var batch []*entry.Entry
	flush := func() {
		_, err := c.log.Submit(b.Context(), batch...)
		must(b, err)
		batch = batch[:0]
	}
	name := func(i int) (entry.Principal, string) {
		if i%(size/10) == size/10-1 {
			return "agent-2", fmt.Sprintf("x%d", i)
		}
		return "agent-1", fmt.Sprintf("x%d", i)
	}
	for i := range size { // each depends on one a tenth as old
		agent, id := name(i)
		x := &entry.Execution{Header: c.header(agent, "flow-1"), Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
		if i > 0 {
			parent, of := name((i - 1) / 10)
			x.Parents = append(x.Parents, entry.Parent{Exec: entry.NewRef(parent, of), Dep: entry.Hard})
		}
		if agent == "agent-2" {
			x.Effect, x.Progress, x.IdempotencyKey = entry.EffectCompensable, entry.Started, someDigest
		}
		if batch = append(batch, c.by(x)); len(batch) == 1000 {
			flush()
		}
	}
	flush()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#x0")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
	c.put(c.approval("ann", id, "approve"))
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	k := c.keeps("agent-2")
	_ = k.told(0)
	path := fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=%d", id, k.Size())
	began := time.Now()
	data := c.get(path).body
	first := time.Since(began)
	b.Run("make", func(b *testing.B) {
		defer processor(b)()
		for b.Loop() {
			a := c.get(path)
			if data = a.body; a.StatusCode != http.StatusOK {
				b.Fatalf("%s", data)
			}
		}
		b.ReportMetric(float64(len(data)), "bytes")
		b.ReportMetric(float64(first.Milliseconds()), "ms-first")
	})
	b.Run("verify", func(b *testing.B) {
		var judged *bundle.Bundle
		defer processor(b)()
		for b.Loop() {
			var err error
			judged, err = bundle.Decode(data)
			must(b, err)
			v, err := judged.Check(k.Accepted, c.log.Now())
			must(b, err)
			if len(v.Commands) != 10 || v.Commands[0].Refused != nil {
				b.Fatalf("%+v", v.Commands)
			}
		}
		leaves := 0
		for _, e := range judged.Entries {
			leaves += len(e.Bytes)
		}
		b.ReportMetric(float64(len(judged.Entries)), "entries")
		b.ReportMetric(float64(len(data)-leaves)/1024, "KiB_beside_entries")
	})
}

// lenient returns a policy that lets one incident have so many members.
func (c *panel) lenient(members int64) *entry.Policy {
	p := c.follower()
	p.Limits.Incident.Members, p.Limits.Signaler.Members, p.Limits.Victim.Members = members, members, members
	return p
}

// processor reports the processor's time beside that of the clock, which says
// little where others use it too.
func processor(b *testing.B) func() {
	b.Helper()
	used := func() (ns int64) {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}
