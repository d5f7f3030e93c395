package coord_test

import (
	"bytes"
	"context"
	"iter"
	"os"
	"slices"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify/bundle"
)

// TestMain gives tests of the fold the rooms above it. The fold has one goroutine. Make race has
// those of a snapshot, and the folds that share what is old.
func TestMain(m *testing.M) {
	coord.AuditLog, coord.MakeBundle = auditLog, makeBundle
	os.Exit(budget.Raced(m, "TestRandomStreams", "TestFoldsShareWhatIsOld"))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// each yields the entries as a store would: decoded anew.
func each(log []entry.Registered) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for _, e := range log {
			decoded, at, err := entry.DecodeLeaf(e.AppendLeaf(nil))
			if !yield(entry.Registered{Entry: decoded, Index: e.Index, RegisteredAt: at}, err) {
				return
			}
		}
	}
}

func followerSnapshot(tb testing.TB, f *audit.Follower) []byte {
	tb.Helper()
	var out bytes.Buffer
	must(tb, f.Snapshot(&out))
	return out.Bytes()
}

func auditLog(tb testing.TB, origin string, log []entry.Registered, stop int) (size uint64, found *coord.AuditFound) {
	tb.Helper()
	straight, before, after := audit.NewFollower(origin), audit.NewFollower(origin), audit.NewFollower(origin)
	follow := func(f *audit.Follower, log []entry.Registered) audit.Report {
		tb.Helper()
		report, err := f.Follow(tb.Context(), each(log), nil)
		must(tb, err)
		return report
	}
	want := follow(straight, log)
	if first := follow(before, log[:stop]); first.Finding != nil {
		tb.Fatalf("audit of the first %d entries: %+v", stop, first.Finding)
	}
	must(tb, after.Restore(bytes.NewReader(followerSnapshot(tb, before))))
	after.ReadAgain(func(_ context.Context, from, to uint64) iter.Seq2[*entry.Entry, error] {
		return func(yield func(*entry.Entry, error) bool) {
			for e, err := range each(log[from:to]) {
				if !yield(e.Entry, err) {
					return
				}
			}
		}
	})
	got := follow(after, log[stop:])
	if got.Size != want.Size || !slices.Equal(got.Kinds, want.Kinds) || after.RegisteredAt() != straight.RegisteredAt() {
		tb.Fatalf("an audit that went on after %d entries says %+v, one at one go %+v", stop, got, want)
	}
	if !bytes.Equal(followerSnapshot(tb, after), followerSnapshot(tb, straight)) {
		tb.Fatalf("an audit that went on after %d entries differs", stop)
	}
	if want.Finding == nil {
		return want.Size, nil
	}
	if got.Finding == nil || got.Finding.Index != want.Finding.Index || *got.Finding.Refusal != *want.Finding.Refusal {
		tb.Fatalf("an audit that went on found %+v, want %+v", got.Finding, want.Finding)
	}
	return want.Size, &coord.AuditFound{Index: want.Finding.Index, Refusal: want.Finding.Refusal}
}

func makeBundle(log coord.BundleLog, q api.BundleQuery) (made *bundle.Bundle, next uint64, err error) {
	of, err := new(assemble.Maker).Make(log, nil, q)
	if err != nil {
		return nil, 0, err
	}
	return of.Bundle, of.Next, nil
}
