package verify_test

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/verify"
)

// TestAQuorumGuardsHeadsAndReceipts pins witnesses: a head counts if enough of
// them have cosigned it, or one that it is proven to begin; else nothing that
// stands under it is verified.
func TestAQuorumGuardsHeadsAndReceipts(t *testing.T) {
	l, _ := working(t)
	l.root.Witnesses = witnessPolicy() // two of three
	by := func(signed string, names ...string) string {
		for _, name := range names {
			signed = cosigned(signed, name, 1_790_000_000)
		}
		return signed
	}
	newest := l.signed(15)
	whole := by(newest, "w1", "w3")
	under := l.all()
	for i := range under {
		under[i].Head = whole
	}
	proof, path := l.consistency(9, 15), l.joining(9, 15).Consistency
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
		{"receipts under a head that nobody cosigned", verify.Material{Receipts: l.all()}, []string{"size 15"}},
		{"receipts under it", verify.Material{Receipts: under}, nil},
		{"a head that it continues", verify.Material{Heads: []string{proof.Older, whole}, Consistency: path}, nil},
		{"an older head that nothing connects", verify.Material{Heads: []string{proof.Older, whole}}, []string{"size 9", "size 9"}},
		{"a newer head than the cosigned one", verify.Material{Heads: []string{by(proof.Older, "w1", "w2"), newest}, Consistency: path}, []string{"size 15"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report, err := l.root.Verify(tc.m)
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
		at, err := l.root.Witnessed(signed)
		if _, lacking := errors.AsType[*verify.WitnessError](err); lacking == good || good && at != 1_790_000_000 {
			t.Errorf("witnessed at %d, error %v", at, err)
		}
	}
	_, err := l.root.Witnessed("hello")
	wantStep(t, err, verify.StepHead)
	l.root.Witnesses = ""
	if at, err := l.root.Witnessed(newest); at != 0 || err != nil || l.root.Watched() {
		t.Errorf("without witnesses: %d, error %v", at, err)
	}
}

// TestEachCosignedHeadCounts has two heads cosigned that nothing connects, at
// several times: the quorum stands behind both, and what is told is the newest time
// of the largest.
func TestEachCosignedHeadCounts(t *testing.T) {
	l, _ := working(t)
	l.root.Witnesses = witnessPolicy()
	by := func(size int, at int64) string { return cosigned(cosigned(l.signed(size), "w1", at), "w2", at) }
	m := verify.Material{Heads: []string{by(15, 1_790_000_000), by(9, 1_790_000_900), by(15, 1_790_000_500), by(15, 1_790_000_200)}}
	for range 20 { // heads have no order
		report, err := l.root.Verify(m)
		must(t, err)
		if len(report.Missing) != 1 || report.Missing[0].Step != verify.StepConsistency {
			t.Fatalf("missing %q", report.Missing)
		}
		if got := report.Checked[0].Detail; !strings.HasSuffix(got, "quorum g has cosigned that of size 15, at 2026-09-21T14:21:40Z") {
			t.Fatalf("checked %q", got)
		}
	}
}

// TestARootWithBadWitnessesIsRefused: such a root would guard nothing.
func TestARootWithBadWitnessesIsRefused(t *testing.T) {
	l, _ := working(t)
	for _, text := range []string{"hello", "quorum g", "witness w1 x", witnessPolicy() + "quorum g\n", "group g any"} {
		l.root.Witnesses = text
		_, err := l.root.Encode()
		wantFormat(t, err)
		_, err = l.root.Verify(verify.Material{Heads: []string{l.signed(15)}})
		wantFormat(t, err)
	}
}
