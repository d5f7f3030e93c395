package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// pageOf returns what GET /v1/entries answers about some entries.
func pageOf(tb testing.TB, l *testlog.Log, indexes ...uint64) string {
	tb.Helper()
	var items []string
	for _, i := range indexes {
		leaf := strings.TrimSuffix(strings.TrimPrefix(string(l.Leaves[i]), "{"), "}") // envelope, registered_at
		r := l.Receipt(i)
		quoted := make([]string, len(r.Proof))
		for j, h := range r.Proof {
			quoted[j] = `"` + h.String() + `"`
		}
		items = append(items, fmt.Sprintf(`{"index":%d,"leaf_hash":%q,%s,"proof":[%s]}`, i, merkle.HashLeaf(l.Leaves[i]), leaf, strings.Join(quoted, ",")))
	}
	head := strings.ReplaceAll(l.Signed(len(l.Leaves)), "\n", `\n`)
	return `{"head":"` + head + `","entries":[` + strings.Join(items, ",\n ") + `],"next":"/v1/entries?from=10"}`
}

// TestAPageOfEntriesIsVerified gives what the ledger lists, as it was received.
func TestAPageOfEntriesIsVerified(t *testing.T) {
	l, _ := working(t)
	report := func(page string) (verify.Report, error) {
		var m verify.Material
		must(t, m.Add("page.json", []byte(page)))
		return l.Root.Verify(m)
	}
	got, err := report(pageOf(t, l, 0, 1, 7, 9))
	must(t, err)
	if want := "head 1, leaf 4, inclusion 4, order 4, audience 4, signer 4, signature 4"; counts(got) != want || len(got.Missing) > 0 {
		t.Errorf("checked %s, want %s; missing %q", counts(got), want, got.Missing)
	}
	if got, err = report(pageOf(t, l)); err != nil || counts(got) != "head 1" {
		t.Errorf("an empty page: checked %s, error %v", counts(got), err)
	}
	if got, err = report(pageOf(t, l, 9)); err != nil || len(got.Missing) != 1 {
		t.Errorf("without its chain: missing %q, error %v", got.Missing, err)
	}
	_, err = report(strings.Replace(pageOf(t, l, 0, 9), `"index":9`, `"index":10`, 1))
	wantStep(t, err, verify.StepInclusion)
	_, err = report(strings.Replace(pageOf(t, l, 0, 9), `"registered_at":17`, `"registered_at":18`, 1))
	wantStep(t, err, verify.StepInclusion)
}
