package verify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestARefusalNamesWhatIsWrong holds the words of what ledgers are convicted with:
// the step, what it is about, and both sides of what contradicts itself.
func TestARefusalNamesWhatIsWrong(t *testing.T) {
	all := func(l *testlog.Log) verify.Material { return verify.Material{Receipts: l.All()} }
	heads := func(texts ...string) func(l *testlog.Log) verify.Material {
		return func(l *testlog.Log) (m verify.Material) {
			for _, text := range texts {
				m.Heads = append(m.Heads, l.SignText(text))
			}
			return m
		}
	}
	root := strings.Repeat("A", 43) + "="
	cases := []struct {
		want string
		do   func(l *testlog.Log, c cast)
		give func(l *testlog.Log) verify.Material
	}{
		{`verify: step 3 leaf: entry 8: malformed: leaf: not {"envelope":…,"registered_at":…}`,
			func(l *testlog.Log, c cast) { l.AddLeaf([]byte("hello")) }, all},
		{"verify: step 5 order: entry 8: registered_at 1790000004000, earlier than 1790000008000 of entry 7",
			func(l *testlog.Log, c cast) {
				l.At -= 5000
				l.Add(c.agent.Sign(l.TB, l.Execution(c.agent)))
			}, all},
		{`verify: step 6 audience: entry 8: wrong-audience: aud: "ledger.example/other", want "ledger.example/test"`,
			func(l *testlog.Log, c cast) {
				x := l.Execution(c.agent)
				x.Aud = "ledger.example/other"
				l.Add(c.agent.Sign(l.TB, x))
			}, all},
		{"verify: step 7 signer: entry 8: by the policies and agents given: unauthorized-role: iss: approver may not sign execution; agent may (ask the policy's authority for the role)",
			func(l *testlog.Log, c cast) { l.Add(c.approver.Sign(l.TB, l.Execution(c.approver))) }, all},
		{"verify: step 8 signature: entry 8: bad-signature: signatures[0].sig: not a signature by SHA256:2P9H0YKzf/Koo/QV+obq0HxXdvyEBAsRDELVu3GFtv0 " +
			"over the PAE (sign the DSSE pre-authentication encoding of the exact payload bytes)",
			func(l *testlog.Log, c cast) {
				e := c.agent.Sign(l.TB, l.Execution(c.agent))
				e.Seal(e.KeyID, make([]byte, 64))
				l.Add(e)
			}, all},
		{"verify: step 7 signer: entry 9: by the policies and agents given: state-conflict: key: SHA256:2P9H0YKzf/Koo/QV+obq0HxXdvyEBAsRDELVu3GFtv0 is not valid since index 8",
			func(l *testlog.Log, c cast) {
				l.Add(c.authority.Sign(l.TB, l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)))
				l.Add(c.authority.Sign(l.TB, l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)))
			}, all},
		{"verify: step 7 signer: entry 0: leaf hash 9gie/0IfzeqfuFbpXXTrq/Tup6SiiOppS4GNRK2+boM= is not the pinned genesis 9wie/0IfzeqfuFbpXXTrq/Tup6SiiOppS4GNRK2+boM=",
			func(l *testlog.Log, _ cast) { l.Root.Genesis[0] ^= 1 }, all},
		{"verify: step 4 inclusion: entry 4: merkle: proof does not verify: inclusion of leaf 4 in size 8: it leads to root " +
			"YwAQnHwf1RERCX6vcTF7Cl3+CIUVwV77e6qgI9XbGNg=, and not to G2Rqw/HClrs6LUiqR2Zzyc05eSuU9Ah0GtpZeaIClJU=",
			nil, func(l *testlog.Log) verify.Material {
				r := l.Receipt(3)
				r.Index = 4
				return verify.Material{Receipts: []verify.Receipt{r}}
			}},
		{"verify: step 4 inclusion: entry 3: merkle: proof does not verify: none of the 2 leaves given is the one of the .tlog-proof",
			nil, func(l *testlog.Log) verify.Material {
				return verify.Material{Leaves: l.Leaves[4:6], Proofs: []verify.Receipt{l.Receipt(3)}}
			}},
		{"verify: step 2 consistency: heads of size 3 and 8: merkle: proof does not verify: consistency of size 3 with 8: wrong proof size 3, want 4",
			nil, func(l *testlog.Log) verify.Material {
				m := l.Joining(3, 8)
				m.Consistency[0].Path = m.Consistency[0].Path[1:]
				return m
			}},
		{"verify: the ledger forked: two signed roots of size 8: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= and BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			nil, heads(testlog.Origin+"\n8\n"+root+"\n", testlog.Origin+"\n8\n"+strings.Replace(root, "A", "B", 1)+"\n")},
		{"verify: step 1 head: tree head: not signed by any trusted ledger key (TRU-5)",
			func(l *testlog.Log, _ cast) { l.Signer = testlog.OtherSigner(l.TB) }, func(l *testlog.Log) verify.Material {
				return verify.Material{Heads: []string{l.Signed(3)}}
			}},
		{"verify: step 1 head: tree head: not a signed note: malformed note",
			nil, func(*testlog.Log) verify.Material { return verify.Material{Heads: []string{"hello"}} }},
		{"verify: step 1 head: tree head: 2 lines, want origin, size and root",
			nil, heads(testlog.Origin + "\n8\n")},
		{`verify: step 1 head: tree head: of origin "ledger.example/other", want "ledger.example/test"`,
			nil, heads("ledger.example/other\n8\n" + root + "\n")},
		{`verify: step 1 head: tree head: size "08" is not a decimal number without leading zeros`,
			nil, heads(testlog.Origin + "\n08\n" + root + "\n")},
		{"verify: step 1 head: tree head: size 0 with a root other than the empty one",
			nil, heads(testlog.Origin + "\n0\n" + root + "\n")},
		{"verify: step 1 head: tree head: an empty extension line",
			nil, heads(testlog.Origin + "\n8\n" + root + "\n\n")},
	}
	for _, tc := range cases {
		l, c := newCompany(t)
		if tc.do != nil {
			tc.do(l, c)
		}
		_, err := l.Root.Verify(tc.give(l))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%v, want\n%s", err, tc.want)
		}
		if strings.Contains(tc.want, "proof does not verify") != errors.Is(err, merkle.ErrProof) {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
	l, c := newCompany(t)
	fork, _ := newCompany(t)
	a := l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	fork.AddLeaf(l.Leaves[2])
	fork.AddLeaf(l.Leaves[a])
	fork.Leaves[2] = l.Leaves[a]
	_, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.Receipt(2), fork.Receipt(2)}})
	want := fmt.Sprintf("verify: the ledger forked: two leaves at index 2: %s and %s", merkle.HashLeaf(l.Leaves[2]), merkle.HashLeaf(l.Leaves[a]))
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}
