package verify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/verify"
)

// TestVerdict: a receipt with those that let its signer in is verified, the receipt alone is
// included, and heads that nothing connects are inconclusive.
func TestVerdict(t *testing.T) {
	l, _ := working(t)
	asked := []verify.Receipt{l.Receipt(9)}
	for name, c := range map[string]struct {
		material verify.Material
		want     verify.Verdict
		subject  bool
	}{
		"with the signer's receipts": {verify.Material{Receipts: append(asked, l.All()...)}, verify.Verified, true},
		"alone":                      {verify.Material{Receipts: asked}, verify.Included, true},
		"heads apart":                {verify.Material{Heads: []string{l.Signed(9), l.Signed(15)}}, verify.Inconclusive, false},
		"a proof without its leaf":   {verify.Material{Proofs: []verify.Receipt{l.Receipt(9)}}, verify.Inconclusive, false},
		"a head":                     {verify.Material{Heads: []string{l.Signed(15)}}, verify.Verified, false},
	} {
		report, err := l.Root.Verify(c.material)
		must(t, err)
		if got := report.Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if s := report.Subject; (s != nil) != c.subject || s != nil && s.Index != 9 {
			t.Errorf("%s: about %+v", name, s)
		}
		err = verify.Conclusive(report.Missing)
		unfinished, open := errors.AsType[*verify.InconclusiveError](err)
		if open != (c.want != verify.Verified) || open && !strings.HasPrefix(unfinished.Error(), "inconclusive: nothing false was found") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestInconclusiveErrorCountsTheOthers names the first claim that was not checked.
func TestInconclusiveErrorCountsTheOthers(t *testing.T) {
	first := verify.Gap{Step: verify.StepHead, What: "that it is signed", Give: "the head"}
	err := verify.Conclusive([]verify.Gap{first, first, first})
	if want := "everything could be checked: 1 head: that it is signed: give the head; and 2 more"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want …%s", err, want)
	}
}

// TestReportAsJSON writes steps by number and name, and lists that are empty as lists.
func TestReportAsJSON(t *testing.T) {
	l, _ := working(t)
	report, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.Receipt(9)}})
	must(t, err)
	text, err := json.Marshal(&report, json.Deterministic(true))
	must(t, err)
	for _, want := range []string{
		`"entries":[{"index":9,"kind":"execution","iss":"agent","registered_at":`, `"signed":false}]`,
		`"checked":[{"step":1,"name":"head","count":1,"detail":"signed by`, `"missing":[{"step":7,"name":"signer","what":`, `"warnings":[]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
