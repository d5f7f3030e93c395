package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"recoveryledger/ledger/agreement"
)

// TestLeast: what all nodes keep may go. A node that was not heard of yet holds everything, and one
// that lacks a batch and is silent for an hour holds nothing more. The silence of nodes that lack
// nothing does not count. If etcd is full, what most nodes keep may go. Two heads of one number are
// found.
func TestLeast(t *testing.T) {
	said := func(name string, revision int64, k kept) *mvccpb.KeyValue {
		value, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		return &mvccpb.KeyValue{Key: []byte(name), Value: value, ModRevision: revision}
	}
	own, began, heard := kept{Seq: 9, Size: 90}, time.Unix(0, 0), trimmer{}
	a, b, c := said("a", 1, own), said("b", 2, kept{Seq: 7, Size: 70}), said("c", 3, kept{Seq: 4, Size: 40})
	for i, test := range []struct {
		after time.Duration
		nodes []*mvccpb.KeyValue
		want  uint64
	}{
		{0, []*mvccpb.KeyValue{a, b}, 0},
		{0, []*mvccpb.KeyValue{a, b, c}, 4},
		{silentMax - 1, []*mvccpb.KeyValue{a, b, c}, 4},
		{silentMax, []*mvccpb.KeyValue{a, said("b", 8, kept{Seq: 8, Size: 80}), c}, 8},
		{silentMax, []*mvccpb.KeyValue{a, said("b", 8, kept{Seq: 8, Size: 80}), said("c", 9, kept{Seq: 4, Size: 40})}, 4},
	} {
		got, err := heard.least(began.Add(test.after), test.nodes, 3, own, false)
		if err != nil || got != test.want {
			t.Errorf("case %d: %d, %v, want %d", i, got, err, test.want)
		}
	}
	idle, next := trimmer{}, kept{Seq: 10, Size: 100}
	for i, test := range []struct {
		after time.Duration
		own   kept
		want  uint64
	}{{0, own, 9}, {2 * silentMax, next, 9}, {3*silentMax - 1, next, 9}, {3 * silentMax, next, 10}} {
		nodes := []*mvccpb.KeyValue{said("a", 1, test.own), said("b", 2, own), said("c", 3, own)}
		got, err := idle.least(began.Add(test.after), nodes, 3, test.own, false)
		if err != nil || got != test.want {
			t.Errorf("idle, case %d: %d, %v, want %d", i, got, err, test.want)
		}
	}
	for want, nodes := range map[uint64][]*mvccpb.KeyValue{7: {a, b, c}, 4: {a, c}, 0: {a}} {
		if got, err := heard.least(began, nodes, 3, own, true); err != nil || got != want {
			t.Errorf("full, %d nodes: %d, %v, want %d", len(nodes), got, err, want)
		}
	}
	other := own
	other.Root[0]++
	if _, err := heard.least(began, []*mvccpb.KeyValue{a, said("b", 10, other), c}, 3, own, false); !errors.Is(err, agreement.ErrDiverged) {
		t.Errorf("another root: %v", err)
	}
	if _, err := heard.least(began, []*mvccpb.KeyValue{{Key: []byte("b"), Value: []byte("{")}}, 3, own, false); err == nil {
		t.Error("a value that is none")
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
