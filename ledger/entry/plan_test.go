package entry

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/merkle"
)

// TestMemberIsCanonical compares the fast form of a member with that of the
// JSON library, canonicalized, and reads it back.
func TestMemberIsCanonical(t *testing.T) {
	for _, m := range []Member{
		{Agent: "a", Exec: "a#1", Index: 7, Method: MethodNone},
		{Agent: "a@b/c", Exec: "a@b/c#x", Index: MaxInteger, LeafHash: merkle.HashLeaf([]byte("x")), Method: MethodRestore, Checkpoint: "a@b/c#cp"},
	} {
		slow, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := (*jsontext.Value)(&slow).Canonicalize(); err != nil {
			t.Fatal(err)
		}
		fast := m.AppendJSON(nil)
		if string(fast) != string(slow) {
			t.Errorf("%s\n%s", fast, slow)
		}
		var back Member
		if err := json.Unmarshal(fast, &back); err != nil || back != m {
			t.Errorf("%+v read back as %+v: %v", m, back, err)
		}
	}
}

// TestLeafHash shows that the remembered hash is that of the instant asked for.
func TestLeafHash(t *testing.T) {
	e, err := NewRaw(KindAttempt, []byte(`{"v":1,"jti":"0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21","iss":"r","aud":"o","iat":1,"wid":"w",
		"run":"1","case":"1","rungs":[],"status":"escalated","trace_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 1, 1, 0} {
		if e.LeafHash(at) != merkle.HashLeaf(e.AppendLeaf(nil, at)) {
			t.Fatalf("hash at %d", at)
		}
	}
}
