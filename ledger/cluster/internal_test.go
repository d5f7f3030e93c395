package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// TestLeast: what all nodes keep may go. A node that was not heard of yet holds everything, and one
// that lacks a batch and is silent for an hour holds nothing more. The silence of nodes that lack
// nothing does not count. If etcd is full, what most nodes keep may go.
func TestLeast(t *testing.T) {
	nodes := func(all ...keep) map[string]keep {
		named := map[string]keep{}
		for i, k := range all {
			named[string(rune('a'+i))] = k
		}
		return named
	}
	said := func(revision int64, seq uint64) keep { return keep{kept{Seq: seq}, revision} }
	began, heard := time.Unix(0, 0), lacking{}
	a, b, c := said(1, 9), said(2, 7), said(3, 4)
	for i, test := range []struct {
		after time.Duration
		nodes map[string]keep
		want  uint64
	}{
		{0, nodes(a, b), 0},
		{0, nodes(a, b, c), 4},
		{silentMax - 1, nodes(a, b, c), 4},
		{silentMax, nodes(a, said(8, 8), c), 8},
		{silentMax, nodes(a, said(8, 8), said(9, 4)), 4},
	} {
		if got := heard.least(began.Add(test.after), test.nodes, 3, 9, false); got != test.want {
			t.Errorf("case %d: %d, want %d", i, got, test.want)
		}
	}
	idle := lacking{}
	for i, test := range []struct {
		after     time.Duration
		own, want uint64
	}{{0, 9, 9}, {2 * silentMax, 10, 9}, {3*silentMax - 1, 10, 9}, {3 * silentMax, 10, 10}} {
		if got := idle.least(began.Add(test.after), nodes(said(1, test.own), said(2, 9), said(3, 9)), 3, test.own, false); got != test.want {
			t.Errorf("idle, case %d: %d, want %d", i, got, test.want)
		}
	}
	for want, all := range map[uint64]map[string]keep{7: nodes(a, b, c), 4: nodes(a, c), 0: nodes(a)} {
		if got := heard.least(began, all, 3, 9, true); got != want {
			t.Errorf("full, %d nodes: %d, want %d", len(all), got, want)
		}
	}
}

// TestSlowed: batches are offered slowly between the half and three quarters of the quota.
func TestSlowed(t *testing.T) {
	for used, want := range map[int64]time.Duration{0: 0, 400: 0, 500: slowMost / 2, 600: slowMost, 900: slowMost} {
		if got := slowed(used, 800, agreement.MaxBytes); got != want {
			t.Errorf("%d of 800: %v, want %v", used, got, want)
		}
	}
	if whole, small, none := slowed(600, 800, agreement.MaxBytes), slowed(600, 800, agreement.MaxBytes/4), slowed(600, 800, 0); whole != 4*small || none != whole/16 {
		t.Errorf("a whole batch waits %v, a quarter of one %v, none %v", whole, small, none)
	}
}

// TestUnable: entries are refused from three quarters of the quota on, and where the database is
// about to reach its quota, though little of it is in use.
func TestUnable(t *testing.T) {
	for _, test := range []struct {
		size, used int64
		want       string
	}{
		{590, 590, ""}, {690, 599, ""}, {600, 600, "start the nodes that lag"}, {700, 10, "arl cluster compact"}, {900, 10, "arl cluster compact"},
	} {
		refusal := unable(test.size, test.used, 800)
		if test.want == "" && refusal != nil || test.want != "" && (refusal == nil || refusal.Problem != entry.InsufficientStorage || !strings.Contains(refusal.Remedy, test.want)) {
			t.Errorf("%+v: %v", test, refusal)
		}
	}
}

// TestEtcdSays: warnings of etcd reach the log of the process, with their fields. Where etcd would
// end the process, the node does.
func TestEtcdSays(t *testing.T) {
	var out bytes.Buffer
	var ended error
	logger := zapTo(slog.New(slog.NewTextHandler(&out, nil)), func(err error) { ended = err; panic("ended") })
	logger.Info("not shown")
	logger.With(zap.String("member", "m1")).Warn("slow disk", zap.Int("took", 7))
	logger.Error("broken")
	if got := out.String(); !strings.Contains(got, `level=WARN msg=etcd message="slow disk"`) || !strings.Contains(got, "member=m1") ||
		!strings.Contains(got, "took=7") || !strings.Contains(got, "level=ERROR msg=etcd message=broken") || strings.Contains(got, "not shown") {
		t.Error(got)
	}
	for _, fail := range []func(string, ...zap.Field){logger.Fatal, logger.Panic} {
		ended = nil
		func() {
			defer func() { _ = recover() }() // the process would have ended before
			fail("cannot go on")
		}()
		if ended == nil || !strings.Contains(ended.Error(), "cannot go on") {
			t.Errorf("ended with %v", ended)
		}
	}
}
