package peer_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
)

// TestUpkeep: a node shows the files of etcd of all nodes, and raises the format of the cluster. It
// refuses to go on behind a full etcd while the file is too large for the quota.
func TestUpkeep(t *testing.T) {
	m, ctx := found(t), t.Context()
	raised, err := m.client.Upgrade(ctx, m.site.Peer)
	for errors.Is(err, context.DeadlineExceeded) { // it elects itself
		raised, err = m.client.Upgrade(ctx, m.site.Peer)
	}
	if err != nil || raised.Before != 1 || raised.Format != 1 {
		t.Errorf("the format: %+v, %v", raised, err)
	}
	for m.node.Term() == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	fill(t, m.node, agreement.Term{ID: m.node.Term()})
	if _, err := m.client.Compact(ctx, m.site.Peer); err == nil || !strings.Contains(err.Error(), "stop n1, run arl cluster compact") {
		t.Fatalf("a large file: %v", err)
	}
	m.server.Close()
	must(t, m.node.Close())
	m = openLarge(t, m.site, 3, 4*quota)
	done, err := m.client.Compact(ctx, m.site.Peer)
	if err != nil || !done.Disarmed || len(done.Nodes) != 1 || done.Nodes[0].Node != "n1" || done.Nodes[0].Quota != 4*quota || !done.Nodes[0].Full {
		t.Fatalf("with room: %+v, %v", done, err)
	}
	if done, err = m.client.Compact(ctx, m.site.Peer); err != nil || done.Disarmed || done.Nodes[0].Full {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// fill offers batches until etcd is full. The node does not say that it keeps them.
func fill(t *testing.T, n *cluster.Node, term agreement.Term) {
	t.Helper()
	for seq := term.After + 1; ; {
		err := n.Propose(t.Context(), term, seq, make([]byte, agreement.MaxBytes))
		switch {
		case err == nil:
			seq++
		case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "timed out"): // it took long: the same batch again
		case strings.Contains(err.Error(), "space exceeded"):
			return
		default:
			t.Fatal(err)
		}
	}
}
