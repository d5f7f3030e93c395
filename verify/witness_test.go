package verify_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestAQuorumGuardsHeadsAndReceipts pins witnesses: a head counts if enough of
// them have cosigned it, or one that it is proven to begin; else nothing that
// stands under it is verified.
func TestAQuorumGuardsHeadsAndReceipts(t *testing.T) {
	l, _ := working(t)
	l.Root.Witnesses = testlog.WitnessPolicy() // two of three
	by := func(signed string, names ...string) string {
		for _, name := range names {
			signed = testlog.Cosigned(signed, name, 1_790_000_000)
		}
		return signed
	}
	newest := l.Signed(15)
	whole := by(newest, "w1", "w3")
	under := l.All()
	for i := range under {
		under[i].Head = whole
	}
	proof, path := l.Consistency(9, 15), l.Joining(9, 15).Consistency
	cases := []struct {
		name    string
		m       verify.Material
		missing []string
	}{
		{"a head that nobody cosigned", verify.Material{Heads: []string{newest}}, []string{"size 15"}},
		{"by one of two", verify.Material{Heads: []string{by(newest, "w2")}}, []string{"size 15"}},
		{"by one twice", verify.Material{Heads: []string{by(newest, "w2", "w2")}}, []string{"size 15"}},
		{"by a forger", verify.Material{Heads: []string{by(newest, "w2", "w1 forged")}}, []string{"size 15"}},
		{"of another head", verify.Material{Heads: []string{newest + signatures(whole)[strings.Index(signatures(whole), "\n")+1:]}}, nil},
		{"by two", verify.Material{Heads: []string{whole}}, nil},
		{"beside the same head without", verify.Material{Heads: []string{whole, newest}}, nil},
		{"receipts under a head that nobody cosigned", verify.Material{Receipts: l.All()}, []string{"size 15"}},
		{"receipts under it", verify.Material{Receipts: under}, nil},
		{"a head that it continues", verify.Material{Heads: []string{proof.Older, whole}, Consistency: path}, nil},
		{"an older head that nothing connects", verify.Material{Heads: []string{proof.Older, whole}}, []string{"size 9", "size 9"}},
		{"a newer head than the cosigned one", verify.Material{Heads: []string{by(proof.Older, "w1", "w2"), newest}, Consistency: path}, []string{"size 15"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report, err := l.Root.Verify(tc.m)
			must(t, err)
			if len(report.Missing) != len(tc.missing) {
				t.Fatalf("missing %q, want %q", report.Missing, tc.missing)
			}
			for i, want := range tc.missing {
				if !strings.Contains(report.Missing[i].What, want) {
					t.Errorf("missing %q, want %q", report.Missing[i], want)
				}
			}
			const newest = "quorum g has cosigned that of size 15"
			want := len(tc.missing) == 0 || tc.name == "an older head that nothing connects"
			if got := report.Checked[0].Detail; strings.Contains(got, "has cosigned") != want || strings.Contains(got, newest) != want {
				t.Errorf("checked %q", got)
			}
			if got := strings.Join(report.NotChecked, "\n"); strings.Contains(got, "witnesses") {
				t.Errorf("not checked %q", got)
			}
		})
	}
	for signed, good := range map[string]bool{newest: false, whole: true} {
		at, err := l.Root.Witnessed(signed)
		if _, lacking := errors.AsType[*verify.WitnessError](err); lacking == good || good && at != 1_790_000_000 {
			t.Errorf("witnessed at %d, error %v", at, err)
		}
	}
	_, err := l.Root.Witnessed("hello")
	wantStep(t, err, verify.StepHead)
	l.Root.Witnesses = ""
	if at, err := l.Root.Witnessed(newest); at != 0 || err != nil || l.Root.Watched() {
		t.Errorf("without witnesses: %d, error %v", at, err)
	}
}

// TestHeadsThatMustBeWitnessed are too little under a root that names no witnesses.
func TestHeadsThatMustBeWitnessed(t *testing.T) {
	l, _ := working(t)
	m := verify.Material{Receipts: l.All(), Witnessed: true}
	report, err := l.Root.Verify(m)
	must(t, err)
	if len(report.Missing) != 1 || report.Missing[0].Step != verify.StepHead || !strings.Contains(report.Missing[0].What, "the root names none") {
		t.Errorf("missing %q", report.Missing)
	}
	l.Root.Witnesses = "quorum none\n"
	if report, err := l.Root.Verify(m); err != nil || len(report.Missing) != 1 {
		t.Errorf("quorum none: %v, missing %q", err, report.Missing)
	}
	m.Witnessed, l.Root.Witnesses = false, ""
	report, err = l.Root.Verify(m)
	must(t, err)
	if len(report.Missing) != 0 || !strings.Contains(strings.Join(report.NotChecked, "\n"), "witnesses: the root names none") {
		t.Errorf("missing %q, not checked %q", report.Missing, report.NotChecked)
	}
}

// TestEachCosignedHeadCounts has two heads cosigned that nothing connects, at
// several times: the quorum stands behind both, and what is told is the newest time
// of the largest.
func TestEachCosignedHeadCounts(t *testing.T) {
	l, _ := working(t)
	l.Root.Witnesses = testlog.WitnessPolicy()
	by := func(size int, at int64) string {
		return testlog.Cosigned(testlog.Cosigned(l.Signed(size), "w1", at), "w2", at)
	}
	m := verify.Material{Heads: []string{by(15, 1_790_000_000), by(9, 1_790_000_900), by(15, 1_790_000_500), by(15, 1_790_000_200)}}
	for range 20 { // heads have no order
		report, err := l.Root.Verify(m)
		must(t, err)
		if len(report.Missing) != 1 || report.Missing[0].Step != verify.StepConsistency {
			t.Fatalf("missing %q", report.Missing)
		}
		if got := report.Checked[0].Detail; !strings.HasSuffix(got, "quorum g has cosigned that of size 15, at 2026-09-21T14:21:40Z") {
			t.Fatalf("checked %q", got)
		}
	}
}

// TestOneKeyIsOneWitness: a key under two names would count twice in a quorum, also
// where its two verifier keys have different names (c2sp.org/tlog-policy).
func TestOneKeyIsOneWitness(t *testing.T) {
	l, _ := working(t)
	_, w1 := testlog.WitnessKey("w1")
	_, other := testlog.WitnessKey("w2")
	raw, err := base64.StdEncoding.DecodeString(strings.SplitN(w1, "+", 3)[2])
	must(t, err)
	renamed := cosignatureKey("another.name", raw)
	for name, second := range map[string]string{"the same": w1, "under another key name": renamed} {
		_, err := l.Root.Quorum("witness a " + w1 + "\nwitness b " + second + "\ngroup g 2 a b\nquorum g\n")
		wantFormat(t, err)
		if err != nil && !strings.Contains(err.Error(), `line 2: witness "b" has the key of witness "a": one key counts once`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Root.Quorum("witness a " + w1 + "\nwitness b " + other + "\ngroup g 2 a b\nquorum g\n"); err != nil {
		t.Error(err)
	}
}

// cosignatureKey encodes a verifier key of c2sp.org/tlog-cosignature under a name;
// raw is the algorithm and the public key.
func cosignatureKey(name string, raw []byte) string {
	sum := sha256.Sum256(append([]byte(name+"\n"), raw...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(raw))
}

// TestCommentsOfAWitnessPolicy begin with #, also behind white space.
func TestCommentsOfAWitnessPolicy(t *testing.T) {
	l, _ := working(t)
	q, err := l.Root.Quorum("# first\n  # indented\n\t# by a tab\n" + testlog.WitnessPolicy())
	must(t, err)
	if q == nil || q.Name() != "g" {
		t.Errorf("%+v", q)
	}
}

// TestARootWithBadWitnessesIsRefused: such a root would guard nothing.
func TestARootWithBadWitnessesIsRefused(t *testing.T) {
	l, _ := working(t)
	_, w1 := testlog.WitnessKey("w1")
	_, w2 := testlog.WitnessKey("w2")
	_, w3 := testlog.WitnessKey("w3")
	both := "witness a " + w1 + "\nwitness b " + w2 + "\n"
	for name, policy := range map[string]string{
		"no policy":               "hello",
		"a broken last line":      testlog.WitnessPolicy() + "group g any",
		"a quorum again":          testlog.WitnessPolicy() + "quorum g\n",
		"no quorum":               both,
		"two quorums":             both + "quorum a\nquorum b\n",
		"unknown quorum":          both + "quorum c\n",
		"a name twice":            both + "witness a " + w3 + "\nquorum a\n",
		"none as a name":          both + "witness none " + w3 + "\nquorum a\n",
		"unknown member":          both + "group g any a c\nquorum g\n",
		"a member in two groups":  both + "group g any a b\ngroup h any b a\nquorum g\n",
		"more than there are":     both + "group g 3 a b\nquorum g\n",
		"none needed":             both + "group g 0 a b\nquorum g\n",
		"a number in other words": both + "group g +1 a b\nquorum g\n",
		"a group without members": both + "group g any\nquorum g\n",
		"another word":            both + "mirror a\nquorum a\n",
		"no key":                  "witness a\nquorum a\n",
		"a broken key":            "witness a " + w1[:len(w1)-4] + "\nquorum a\n",
		"a ledger key":            "witness a " + l.Root.LedgerKeys[0] + "\nquorum a\n",
	} {
		l.Root.Witnesses = policy
		_, err := l.Root.Encode()
		wantFormat(t, err)
		if !strings.Contains(err.Error(), "witness policy") {
			t.Errorf("%s: %v", name, err)
		}
		_, err = l.Root.Verify(verify.Material{Heads: []string{l.Signed(15)}})
		wantFormat(t, err)
		_, err = l.Root.Quorum(policy)
		wantFormat(t, err)
	}
}

// TestWitnessLimits tries how many names a witness policy may have.
func TestWitnessLimits(t *testing.T) {
	l, _ := working(t)
	var policy strings.Builder
	for i := range 2*verify.MaxWitnesses + 1 {
		_, vkey := testlog.WitnessKey(fmt.Sprintf("w%d", i))
		fmt.Fprintf(&policy, "witness n%d %s\n", i, vkey)
		q, err := l.Root.Quorum(policy.String() + "quorum n0\n")
		if past := i >= 2*verify.MaxWitnesses; past {
			wantText(t, err, "verify: witness policy: line 129: more than 128 witnesses and groups")
			continue
		}
		must(t, err)
		if at, ok := q.Since(testlog.Cosigned(l.Signed(15), "w0", 7), 7); !ok || at != 7 || q.Name() != "n0" {
			t.Errorf("%d names: quorum %s, cosigned %v at %d", i+1, q.Name(), ok, at)
		}
	}
}

// TestAQuorumPassesOverLaterCosignatures has a witness cosign a head again and
// again: the newest counts that is not of the future.
func TestAQuorumPassesOverLaterCosignatures(t *testing.T) {
	l, _ := working(t)
	_, w1 := testlog.WitnessKey("w1")
	q, err := l.Root.Quorum("witness a " + w1 + "\nquorum a\n")
	must(t, err)
	signed := l.Signed(15)
	for _, at := range []int64{5, 9, 7} {
		signed = testlog.Cosigned(signed, "w1", at)
	}
	for latest, want := range map[int64]int64{4: 0, 5: 5, 8: 7, 9: 9, 10: 9} {
		if at, ok := q.Since(signed, latest); at != want || ok != (want != 0) {
			t.Errorf("not later than %d: cosigned %v at %d, want %d", latest, ok, at, want)
		}
	}
	if q, err := l.Root.Quorum("witness a " + w1 + "\nquorum none\n"); q != nil || err != nil {
		t.Errorf("quorum none: %v, error %v", q, err)
	}
}

// TestCosignaturesOfOthers has the cosignatures of these tests verified by the
// library that witnesses use.
func TestCosignaturesOfOthers(t *testing.T) {
	l, _ := working(t)
	_, vkey := testlog.WitnessKey("w1")
	verifier, err := cosignature.NewVerifierForCosignatureV1(vkey)
	must(t, err)
	opened, err := note.Open([]byte(testlog.Cosigned(l.Signed(15), "w1", 1_790_000_000)), note.VerifierList(verifier))
	must(t, err)
	at, err := cosignature.CoSigV1Timestamp(opened.Sigs[0])
	must(t, err)
	if at.Unix() != 1_790_000_000 {
		t.Errorf("cosigned at %v", at)
	}
}

// FuzzWitnesses looks for witness policies that make a quorum panic.
func FuzzWitnesses(f *testing.F) {
	f.Add(testlog.WitnessPolicy())
	f.Add("quorum none")
	l := repeatable(f)
	signed := testlog.Cosigned(testlog.Cosigned(l.Signed(15), "w1", 1), "w2", 1)
	f.Fuzz(func(t *testing.T, policy string) {
		q, err := l.Root.Quorum(policy)
		if err != nil {
			wantFormat(t, err)
			return
		}
		if q != nil {
			q.Since(signed, 2)
		}
	})
}
