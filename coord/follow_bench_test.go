package coord

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"recoveryledger/ledger/entry"
)

// BenchmarkFollowerRestore reads the follower of a million executions.
func BenchmarkFollowerRestore(b *testing.B) {
	m := newBenchmark(b)
	m.fill(0, benchSize)
	f, r := NewFollower(origin), rand.New(rand.NewPCG(1, 2))
	f.state = m.state
	for i := range uint32(m.state.size) {
		id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
		f.identities.Append(localKey(nil, i%benchAgents, string(id)))
		f.payloads.Add([16]byte(id))
	}
	f.counts[entry.KindExecution] = m.state.size
	var data bytes.Buffer
	must(b, f.Snapshot(&data))
	b.ReportMetric(float64(data.Len())/benchSize, "B/execution")
	for b.Loop() {
		must(b, NewFollower(origin).Restore(bytes.NewReader(data.Bytes())))
	}
}
