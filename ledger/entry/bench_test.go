package entry_test

import (
	"crypto/ed25519"
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

// sample returns a sealed execution whose envelope has about 1 KiB.
func sample(tb testing.TB) []byte {
	tb.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := entry.NewPublicKey(pub)
	if err != nil {
		tb.Fatal(err)
	}
	cost, latency := int64(1234), int64(250)
	digest := entry.Digest("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
	body := &entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent-1@example.com", Aud: "example.com/log", Iat: 1790000000, Wid: "wf-1"},
		Exec:   "exec-000001", Parents: []entry.Parent{{Exec: "agent-2@example.com#exec-9", Dep: entry.Hard}},
		Effect: entry.EffectCompensable, Progress: entry.Confirmed, IdempotencyKey: digest,
		InpHash: digest, OutHash: digest, CostMicroUSD: &cost, LatencyMS: &latency,
	}
	e, err := entry.New(body)
	if err != nil {
		tb.Fatal(err)
	}
	e.Seal(key.KeyID(), ed25519.Sign(priv, e.PAE()))
	return e.AppendEnvelope(nil)
}

func BenchmarkDecode(b *testing.B) {
	envelope := sample(b)
	b.SetBytes(int64(len(envelope)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := entry.Decode(envelope); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendLeaf(b *testing.B) {
	e, err := entry.Decode(sample(b))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = e.AppendLeaf(buf[:0], 1790000000000)
	}
}

// BenchmarkDecodePeer is the peer of BenchmarkDecode: encoding/json without any
// of our rules.
func BenchmarkDecodePeer(b *testing.B) {
	envelope := sample(b)
	for b.Loop() {
		var env struct {
			Payload     []byte
			PayloadType string
			Signatures  []struct{ KeyID, Sig string }
		}
		if err := json.Unmarshal(envelope, &env); err != nil {
			b.Fatal(err)
		}
		var body entry.Execution
		if err := json.Unmarshal(env.Payload, &body); err != nil {
			b.Fatal(err)
		}
	}
}
