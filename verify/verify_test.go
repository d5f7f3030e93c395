package verify_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// counts returns how often each step was done.
func counts(r verify.Report) string {
	var list []string
	for _, c := range r.Checked {
		list = append(list, fmt.Sprintf("%s %d", c.Step, c.Count))
	}
	return strings.Join(list, ", ")
}

// notChecked returns what is not checked beyond what never is: first what is
// missing.
func notChecked(r verify.Report) (list []string) {
	for _, gap := range r.Missing {
		list = append(list, gap.What)
	}
	for _, text := range r.NotChecked {
		topic, _, _ := strings.Cut(text, ":")
		if !slices.Contains([]string{"witnesses", "absences", "the state machine", "registered_at"}, topic) {
			list = append(list, text)
		}
	}
	return list
}

// wantStep fails unless err is of the step, and returns it.
func wantStep(tb testing.TB, err error, want verify.Step) {
	tb.Helper()
	step, ok := errors.AsType[*verify.StepError](err)
	if !ok || step.Step != want {
		tb.Fatalf("error %v, want one of step %s", err, want)
	}
}

func wantFork(tb testing.TB, err error, first, second string) {
	tb.Helper()
	fork, ok := errors.AsType[*verify.ForkError](err)
	if !ok {
		tb.Fatalf("error %v, want a fork", err)
	}
	if got := []string{fork.First, fork.Second}; !slices.Contains(got, first) || !slices.Contains(got, second) {
		tb.Fatalf("evidence %q, want the two heads", got)
	}
}

func wantFormat(tb testing.TB, err error) {
	tb.Helper()
	if _, ok := errors.AsType[*verify.FormatError](err); !ok {
		tb.Fatalf("error %v, want one of format", err)
	}
}

// working returns a company whose agent and a P-256 colleague have worked.
func working(tb testing.TB) (*testlog.Log, cast) {
	tb.Helper()
	l, c := newCompany(tb)
	colleague := testlog.NewP256(tb, "colleague")
	l.Add(c.enroller.Sign(tb, l.Agent(c.enroller, entry.Enrol, colleague, entry.RoleAgent)))
	for range 3 {
		l.Add(c.agent.Sign(tb, l.Execution(c.agent)))
		l.Add(colleague.Sign(tb, l.Execution(colleague)))
	}
	return l, c
}

func TestAWholeLogVerifies(t *testing.T) {
	l, _ := working(t)
	receipts := l.All()
	slices.Reverse(receipts) // the order does not matter
	report, err := l.Root.Verify(verify.Material{Receipts: receipts})
	must(t, err)
	if got, want := counts(report), "head 1, leaf 15, inclusion 15, order 15, audience 15, signer 15, signature 15"; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if got := notChecked(report); len(got) > 0 || len(report.Warnings) > 0 {
		t.Errorf("not checked %q, warnings %q", got, report.Warnings)
	}
	if len(report.NotChecked) != 4 {
		t.Errorf("not checked %q, want the four that never are", report.NotChecked)
	}
	if diff := cmp.Diff([]merkle.Head{l.Head(15)}, report.Heads); diff != "" {
		t.Error(diff)
	}
	for i, e := range report.Entries {
		if e.Index != uint64(i) || !e.Signed || !e.SignatureChecked || string(e.AppendLeaf(nil)) != string(l.Leaves[i]) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if got, want := report.Checked[2].String(), "4 inclusion (15): at its index in the tree of its head"; got != want {
		t.Errorf("step prints as %q, want %q", got, want)
	}
}

func TestEntriesOfOneBatchHaveOneTime(t *testing.T) {
	l, c := working(t)
	l.At -= 1000 // which add puts back
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	if _, err := l.Root.Verify(verify.Material{Receipts: l.All()}); err != nil {
		t.Error(err)
	}
}

func TestReceiptsUnderDifferentHeadsVerifyTogether(t *testing.T) {
	l, _ := working(t)
	receipts := l.All()
	receipts[3] = l.ReceiptAt(3, 7)
	receipts = append(receipts, l.ReceiptAt(3, 11), l.ReceiptAt(3, 15)) // entry 3 three times
	m := l.Joining(7, 11, 11, 15, 0, 7)
	m.Receipts = receipts
	report, err := l.Root.Verify(m)
	must(t, err)
	if got, want := counts(report), "head 4, consistency 4, leaf 17, inclusion 17, order 15, audience 15, signer 15, signature 15"; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if got := notChecked(report); len(got) > 0 {
		t.Errorf("not checked %q", got)
	}
}

// TestConsistencyIsNotTakenFromACommonPast gives heads of 11 and 15 that share
// only that both extend 7: they could be of two branches.
func TestConsistencyIsNotTakenFromACommonPast(t *testing.T) {
	l, _ := working(t)
	m := l.Joining(7, 11, 7, 15)
	report, err := l.Root.Verify(m)
	must(t, err)
	if got := notChecked(report); len(got) != 1 || !strings.Contains(got[0], "size 11 is the beginning of that of size 15") {
		t.Errorf("not checked %q", got)
	}
	if got, want := counts(report), "head 3, consistency 2"; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
}

// TestAHostileLedgerIsFoundOut logs what an honest ledger refuses and looks at
// which step it is caught.
// Draft: LOG-1.
func TestAHostileLedgerIsFoundOut(t *testing.T) {
	fresh := testlog.NewKey(t, "fresh", "fresh")
	cases := []struct {
		name string
		do   func(l *testlog.Log, c cast)
		want verify.Step
	}{
		{"a leaf that is no entry", func(l *testlog.Log, _ cast) { l.AddLeaf([]byte("hello")) }, verify.StepLeaf},
		{"a leaf in another spelling", func(l *testlog.Log, c cast) {
			leaf := c.agent.Sign(l.TB, l.Execution(c.agent)).AppendLeaf(nil, l.At)
			l.AddLeaf(append([]byte("{ "), leaf[1:]...))
		}, verify.StepLeaf},
		{"an entry earlier than the one before", func(l *testlog.Log, c cast) {
			l.At -= 5000
			l.Add(c.agent.Sign(l.TB, l.Execution(c.agent)))
		}, verify.StepOrder},
		{"an entry for another ledger", func(l *testlog.Log, c cast) {
			x := l.Execution(c.agent)
			x.Aud = "ledger.example/other"
			l.Add(c.agent.Sign(l.TB, x))
		}, verify.StepAudience},
		{"an execution in another's name", func(l *testlog.Log, c cast) {
			x := l.Execution(c.agent)
			x.Iss = "approver"
			l.Add(c.agent.Sign(l.TB, x))
		}, verify.StepSigner},
		{"an execution by an approver", func(l *testlog.Log, c cast) { l.Add(c.approver.Sign(l.TB, l.Execution(c.approver))) }, verify.StepSigner},
		{"an execution by a revoked key", func(l *testlog.Log, c cast) {
			l.Add(c.authority.Sign(l.TB, l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)))
			l.Add(c.agent.Sign(l.TB, l.Execution(c.agent)))
		}, verify.StepSigner},
		{"a coordinator that lets in an approver", func(l *testlog.Log, c cast) {
			l.Add(c.coordinator.Sign(l.TB, l.Agent(c.coordinator, entry.Enrol, fresh, entry.RoleApprover)))
		}, verify.StepSigner},
		{"an enroller that lets in an approver", func(l *testlog.Log, c cast) {
			l.Add(c.enroller.Sign(l.TB, l.Agent(c.enroller, entry.Enrol, fresh, entry.RoleApprover)))
		}, verify.StepSigner},
		{"an enroller that takes an approver's name", func(l *testlog.Log, c cast) {
			namesake := fresh
			namesake.Principal = "approver"
			l.Add(c.enroller.Sign(l.TB, l.Agent(c.enroller, entry.Enrol, namesake, entry.RoleAgent)))
		}, verify.StepSigner},
		{"a policy by an agent", func(l *testlog.Log, c cast) { l.Add(c.agent.Sign(l.TB, l.Policy(c.agent, c.agent))) }, verify.StepSigner},
		{"a policy without predecessor", func(l *testlog.Log, c cast) { l.Add(c.authority.Sign(l.TB, l.Policy(c.authority, c.authority))) }, verify.StepSigner},
		{"two policies after the same one", func(l *testlog.Log, c cast) {
			_, inForce := l.Chain().Policy()
			for range 2 {
				p := l.Policy(c.authority, c.authority)
				p.Previous = &inForce
				l.Add(c.authority.Sign(l.TB, p))
			}
		}, verify.StepSigner},
		{"a second genesis", func(l *testlog.Log, c cast) {
			p := l.Policy(c.authority, c.authority)
			p.Previous = nil
			l.Leaves[0] = c.authority.Sign(l.TB, p).AppendLeaf(nil, 1)
		}, verify.StepSigner},
		{"a genesis that signs itself with a key outside", func(l *testlog.Log, c cast) {
			l.Leaves = nil
			l.Add(c.agent.Sign(l.TB, l.Policy(c.agent, c.authority)))
		}, verify.StepSigner},
		{"a genesis that is no policy", func(l *testlog.Log, c cast) {
			l.Leaves = nil
			l.Add(c.agent.Sign(l.TB, l.Execution(c.agent)))
		}, verify.StepSigner},
		{"a genesis with a signature of something else", func(l *testlog.Log, c cast) {
			l.Leaves = nil
			e := c.authority.Sign(l.TB, l.Policy(c.authority, c.authority))
			e.Seal(e.KeyID, c.authority.Sign(l.TB, l.Policy(c.authority, c.authority)).Sig)
			l.Add(e)
		}, verify.StepSignature},
		{"an execution with the signature of another", func(l *testlog.Log, c cast) {
			e := c.agent.Sign(l.TB, l.Execution(c.agent))
			e.Seal(e.KeyID, c.agent.Sign(l.TB, l.Execution(c.agent)).Sig)
			l.Add(e)
		}, verify.StepSignature},
		{"an enrolment that the enroller did not sign", func(l *testlog.Log, c cast) {
			e := c.agent.Sign(l.TB, l.Agent(c.enroller, entry.Enrol, fresh, entry.RoleAgent))
			e.Seal(c.enroller.Public.KeyID(), e.Sig)
			l.Add(e)
		}, verify.StepSignature},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l, c := newCompany(t)
			tc.do(l, c)
			report, err := l.Root.Verify(verify.Material{Receipts: l.All()})
			wantStep(t, err, tc.want)
			if len(report.Checked) > 0 || len(report.Entries) > 0 {
				t.Errorf("report %+v beside an error", report)
			}
		})
	}
}

// TestNothingInAReceiptCanBeChanged changes, drops and swaps each part of a
// receipt and looks at which step it is refused.
func TestNothingInAReceiptCanBeChanged(t *testing.T) {
	l, _ := working(t)
	other, _ := working(t) // another ledger of the same name, with another key
	skey, vkey, err := note.GenerateKey(nil, testlog.Origin)
	must(t, err)
	other.Signer, err = note.NewSigner(skey)
	must(t, err)
	other.Root.LedgerKeys = []string{vkey}
	head := l.Head(15)
	reroot := func(size uint64, root merkle.Hash) string {
		return testlog.HeadText(merkle.Head{Size: size, Root: root})
	}
	cases := []struct {
		name string
		do   func(r *verify.Receipt)
		want verify.Step
	}{
		{"leaf of the next entry", func(r *verify.Receipt) { r.Leaf = l.Leaves[12] }, verify.StepInclusion},
		{"leaf with another time", func(r *verify.Receipt) {
			r.Leaf = []byte(strings.Replace(string(r.Leaf), `"registered_at":17900`, `"registered_at":17901`, 1))
		}, verify.StepInclusion},
		{"leaf without its end", func(r *verify.Receipt) { r.Leaf = r.Leaf[:len(r.Leaf)-1] }, verify.StepLeaf},
		{"leaf with one more space", func(r *verify.Receipt) { r.Leaf = append(slices.Clone(r.Leaf), ' ') }, verify.StepLeaf},
		{"leaf dropped", func(r *verify.Receipt) { r.Leaf = nil }, verify.StepLeaf},
		{"index one higher", func(r *verify.Receipt) { r.Index++ }, verify.StepInclusion},
		{"index one lower", func(r *verify.Receipt) { r.Index-- }, verify.StepInclusion},
		{"index beyond the tree", func(r *verify.Receipt) { r.Index = 15 }, verify.StepInclusion},
		{"proof dropped", func(r *verify.Receipt) { r.Proof = nil }, verify.StepInclusion},
		{"proof one hash shorter", func(r *verify.Receipt) { r.Proof = r.Proof[1:] }, verify.StepInclusion},
		{"proof one hash longer", func(r *verify.Receipt) { r.Proof = append(r.Proof, head.Root) }, verify.StepInclusion},
		{"proof swapped", func(r *verify.Receipt) { r.Proof[0], r.Proof[1] = r.Proof[1], r.Proof[0] }, verify.StepInclusion},
		{"proof of another entry", func(r *verify.Receipt) { r.Proof = l.Receipt(3).Proof }, verify.StepInclusion},
		{"proof in a smaller tree", func(r *verify.Receipt) { r.Proof = l.ReceiptAt(11, 12).Proof }, verify.StepInclusion},
		{"head of a smaller tree", func(r *verify.Receipt) { r.Head = l.Signed(12) }, verify.StepInclusion},
		{"head dropped", func(r *verify.Receipt) { r.Head = "" }, verify.StepHead},
		{"head of another ledger key", func(r *verify.Receipt) { r.Head = other.Signed(15) }, verify.StepHead},
		{"head with another size", func(r *verify.Receipt) { r.Head = strings.Replace(r.Head, "\n15\n", "\n16\n", 1) }, verify.StepHead},
		{"head with another root", func(r *verify.Receipt) {
			r.Head = strings.Replace(r.Head, head.Root.String(), l.Head(12).Root.String(), 1)
		}, verify.StepHead},
		{"head of another origin", func(r *verify.Receipt) {
			r.Head = l.SignText("ledger.example/other" + strings.TrimPrefix(reroot(15, head.Root), testlog.Origin))
		}, verify.StepHead},
		{"head without its signature", func(r *verify.Receipt) { r.Head = reroot(15, head.Root) + "\n" }, verify.StepHead},
		{"head without its last byte", func(r *verify.Receipt) { r.Head = r.Head[:len(r.Head)-1] }, verify.StepHead},
		{"head with the signature of another", func(r *verify.Receipt) {
			r.Head = reroot(15, head.Root) + "\n" + signatures(l.Signed(12))
		}, verify.StepHead},
		{"head with leading zeros", func(r *verify.Receipt) { r.Head = l.SignText(fmt.Sprintf("%s\n015\n%s\n", testlog.Origin, head.Root)) }, verify.StepHead},
		{"head with a sign", func(r *verify.Receipt) { r.Head = l.SignText(fmt.Sprintf("%s\n+15\n%s\n", testlog.Origin, head.Root)) }, verify.StepHead},
		{"head with a size beyond 64 bits", func(r *verify.Receipt) {
			r.Head = l.SignText(fmt.Sprintf("%s\n18446744073709551616\n%s\n", testlog.Origin, head.Root))
		}, verify.StepHead},
		{"head with half a root", func(r *verify.Receipt) { r.Head = l.SignText(testlog.Origin + "\n15\nAAAA\n") }, verify.StepHead},
		{"head without a root", func(r *verify.Receipt) { r.Head = l.SignText(testlog.Origin + "\n15\n") }, verify.StepHead},
		{"head with an empty extension line", func(r *verify.Receipt) { r.Head = l.SignText(reroot(15, head.Root) + "\n") }, verify.StepHead},
		{"head with loose bits in its signature", func(r *verify.Receipt) { r.Head = loosen(r.Head) }, verify.StepHead},
		{"head of size 0 with a root", func(r *verify.Receipt) { r.Head = l.SignText(reroot(0, head.Root)) }, verify.StepHead},
		{"head of size 0", func(r *verify.Receipt) { r.Head = l.Signed(0) }, verify.StepInclusion},
		{"head of another tree", func(r *verify.Receipt) { r.Head = l.SignText(reroot(15, l.Head(12).Root)) }, verify.StepInclusion},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			receipt := l.Receipt(11)
			_, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{receipt}})
			must(t, err)
			tc.do(&receipt)
			_, err = l.Root.Verify(verify.Material{Receipts: []verify.Receipt{receipt}})
			wantStep(t, err, tc.want)
		})
	}
}

// loosen sets a bit behind the last one of the signature that ends a note: a
// lenient decoder of base64 reads the same.
func loosen(signed string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	end := len(strings.TrimRight(signed, "=\n")) - 1
	return signed[:end] + string(alphabet[strings.IndexByte(alphabet, signed[end])|1]) + signed[end+1:]
}

// TestEveryBitOfAReceiptCounts flips each bit of a receipt's JSON.
func TestEveryBitOfAReceiptCounts(t *testing.T) {
	budget.Unraced(t, "one goroutine checks histories")
	l, _ := working(t)
	good, err := l.Receipt(9).Encode()
	must(t, err)
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			r, err := verify.DecodeReceipt(bad)
			if err == nil {
				_, err = l.Root.Verify(verify.Material{Receipts: []verify.Receipt{r}})
			}
			if err == nil {
				t.Fatalf("bit %d of byte %d does not count: %q", bit, i, bad[max(0, i-10):min(len(bad), i+10)])
			}
		}
	}
}

func TestTwoRootsOfOneSizeAreAFork(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t) // P-256 keys are random, so that the entries differ
	_, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.Receipt(3), fork.Receipt(14)}})
	wantFork(t, err, l.Signed(15), fork.Signed(15))
	_, err = l.Root.Verify(verify.Material{Heads: []string{l.Signed(15), fork.Signed(15)}})
	wantFork(t, err, l.Signed(15), fork.Signed(15))
	_, _, err = l.Root.Consistency(verify.ConsistencyProof{Older: l.Signed(15), Newer: fork.Signed(15)})
	wantFork(t, err, l.Signed(15), fork.Signed(15))
}

func TestTwoLeavesAtOneIndexAreAFork(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t)
	fork.AddLeaf([]byte("more"))
	a, b := l.ReceiptAt(14, 15), fork.ReceiptAt(14, 16)
	_, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{a, b}})
	wantFork(t, err, a.Head, b.Head)
}

func TestCompromisedKeysAreWarnedOf(t *testing.T) {
	l, c := working(t) // the agent signs 9, 11 and 13
	revocation := l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)
	revocation.CompromisedSince = &entry.Compromised{Index: 11}
	l.Add(c.authority.Sign(t, revocation))
	report, err := l.Root.Verify(verify.Material{Receipts: l.All()})
	must(t, err)
	if len(report.Warnings) != 2 || !strings.HasPrefix(report.Warnings[0], "entry 11:") || !strings.HasPrefix(report.Warnings[1], "entry 13:") {
		t.Errorf("warnings %q", report.Warnings)
	}
}

func TestALedgerKeyThatIsNotPinnedIsWarnedOf(t *testing.T) {
	l, c := newCompany(t)
	_, inForce := l.Chain().Policy()
	_, vkey, err := note.GenerateKey(nil, testlog.Origin)
	must(t, err)
	p := l.Policy(c.authority, c.authority)
	p.Previous, p.LedgerKeys = &inForce, []string{l.Root.LedgerKeys[0], vkey}
	l.Add(c.authority.Sign(t, p))
	report, err := l.Root.Verify(verify.Material{Receipts: l.All()})
	must(t, err)
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "policy at 8") {
		t.Errorf("warnings %q", report.Warnings)
	}
	l.Root.LedgerKeys = append(l.Root.LedgerKeys, vkey)
	if report, err = l.Root.Verify(verify.Material{Receipts: l.All()}); err != nil || len(report.Warnings) != 0 {
		t.Errorf("with both pinned: warnings %q, error %v", report.Warnings, err)
	}
}

func TestNothingToVerifyIsRefused(t *testing.T) {
	l, _ := working(t)
	for name, m := range map[string]verify.Material{"nothing": {}, "a leaf alone": {Leaves: [][]byte{l.Leaves[0]}}} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Root.Verify(m)
			wantFormat(t, err)
		})
	}
	_, err := verify.Root{}.Verify(verify.Material{Receipts: l.All()})
	wantFormat(t, err)
}

// TestTheHeadOfTheRootIsContinued: material that contradicts the tree head which the
// root carries is a fork or false, and material that nothing connects with that head
// says so.
func TestTheHeadOfTheRootIsContinued(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t) // P-256 keys are random, so that its entries from 8 on differ
	for name, tc := range map[string]struct {
		seen  string
		given verify.Material
		said  bool // that nothing connects the two
	}{
		"no head":                  {"", verify.Material{Heads: []string{l.Signed(15)}}, false},
		"the same":                 {l.Signed(15), verify.Material{Heads: []string{l.Signed(15)}}, false},
		"smaller, unconnected":     {l.Signed(9), verify.Material{Heads: []string{l.Signed(15)}}, true},
		"larger, unconnected":      {l.Signed(15), verify.Material{Heads: []string{l.Signed(9)}}, true},
		"smaller, with a proof":    {l.Signed(9), verify.Material{Heads: []string{l.Signed(15)}, Consistency: l.Joining(9, 15).Consistency}, false},
		"larger, with a proof":     {l.Signed(15), verify.Material{Heads: []string{l.Signed(9)}, Consistency: l.Joining(9, 15).Consistency}, false},
		"between, one proof of it": {l.Signed(9), beside(l.Joining(7, 15), l.Signed(7)), true},
		"of the empty log":         {l.Signed(0), verify.Material{Heads: []string{l.Signed(15)}}, false},
	} {
		root := l.Root
		root.Seen = tc.seen
		report, err := root.Verify(tc.given)
		must(t, err)
		if said := strings.Contains(strings.Join(report.NotChecked, "\n"), "which was accepted before"); said != tc.said || len(report.Missing) > 0 {
			t.Errorf("%s: not checked %q, missing %q", name, report.NotChecked, report.Missing)
		}
	}

	root := l.Root
	root.Seen = l.Signed(15)
	_, err := root.Verify(verify.Material{Heads: []string{fork.Signed(15)}})
	wantFork(t, err, l.Signed(15), fork.Signed(15))
	_, err = root.Verify(verify.Material{Receipts: []verify.Receipt{fork.Receipt(9)}})
	wantFork(t, err, l.Signed(15), fork.Signed(15))
	root.Seen = l.Signed(9)
	_, err = root.Verify(verify.Material{Heads: []string{fork.Signed(15)}, Consistency: fork.Joining(9, 15).Consistency})
	wantStep(t, err, verify.StepConsistency)
	root.Seen = "nothing"
	_, err = root.Verify(verify.Material{Heads: []string{l.Signed(15)}})
	wantStep(t, err, verify.StepHead)
}
