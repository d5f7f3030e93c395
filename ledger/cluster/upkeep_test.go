package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
)

// TestFullEtcd fills etcd until it takes no batch. What most nodes keep goes, the file of the
// stopped node becomes smaller, and the cluster takes batches again.
func TestFullEtcd(t *testing.T) {
	s, ctx := newSite(t, "a"), t.Context()
	config := s.config("a")
	config.Quota = 8 << 20
	n, err := cluster.Open(config)
	must(t, err)
	in := term(t, n.Terms(ctx))
	kept, offered := uint64(0), uint64(0)
	for err == nil {
		offered++
		err = n.Propose(ctx, in, offered, make([]byte, agreement.MaxBytes))
		switch {
		case err == nil:
			kept = offered
			_ = n.Say(ctx, "a", fmt.Sprintf(`{"seq":%d}`, kept)) // full as well at the end
		case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "request timed out"): // it took long: the same batch again
			offered, err = offered-1, nil
		}
	}
	if !strings.Contains(err.Error(), "space exceeded") || kept < 4 {
		t.Fatalf("batch %d: %v", offered, err)
	}
	space, err := n.Space(ctx)
	if err != nil || !space.Full || space.Quota != config.Quota || space.Bytes < config.Quota/2 {
		t.Errorf("a full etcd: %+v, %v", space, err)
	}
	if _, _, err := cluster.Defragment(config.Dir); !errors.Is(err, cluster.ErrRuns) {
		t.Errorf("defragment a node that runs: %v", err)
	}
	must(t, n.Forget(ctx))
	if _, err := take(t, n, 1, 1); !errors.Is(err, agreement.ErrTrimmed) {
		t.Errorf("what the nodes keep: %v", err)
	}
	must(t, n.Close())

	before, after, err := cluster.Defragment(config.Dir)
	if err != nil || before < config.Quota/2 || after > before/2 {
		t.Errorf("%d bytes, and then %d: %v", before, after, err)
	}
	if _, _, err := cluster.Defragment(config.Dir + "-none"); err == nil {
		t.Error("a directory without etcd")
	}
	n, err = cluster.Open(config)
	must(t, err)
	terms := n.Terms(ctx)
	for space, err = n.Space(ctx); err != nil || !space.Full; space, err = n.Space(ctx) { // it reads what it had
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	must(t, n.Disarm(ctx))
	in = term(t, terms)
	must(t, n.Propose(ctx, in, in.After+1, named(in.After+1)))
	must(t, n.Close())
}

// TestDefragmentBeforeAStart: a node that starts while its file of etcd is made smaller waits for
// that. It would go on with the file that is replaced, and lack all that it took later at its next
// start.
func TestDefragmentBeforeAStart(t *testing.T) {
	s := newSite(t, "a")
	config := s.config("a")
	n, err := cluster.Open(config)
	must(t, err)
	must(t, n.Close())
	unlock, err := cluster.Lock(config.Dir) // as Defragment does
	must(t, err)
	waits, unlocked := make(chan struct{}), make(chan struct{})
	config.Logger = slog.New(&hears{Handler: slog.DiscardHandler, text: "this node waits for the files of etcd", heard: func() { close(waits) }})
	go func() {
		<-waits
		close(unlocked)
		_ = unlock() // nothing was written
	}()
	n, err = cluster.Open(config)
	must(t, err)
	select {
	case <-unlocked:
	default:
		t.Error("a node starts while another process has its files")
	}
	if _, err := cluster.Lock(config.Dir); !errors.Is(err, cluster.ErrRuns) {
		t.Errorf("lock the files of a node that runs: %v", err)
	}
	if _, _, err := cluster.Defragment(config.Dir); !errors.Is(err, cluster.ErrRuns) {
		t.Errorf("defragment a node that runs: %v", err)
	}
	must(t, n.Close())
	left := filepath.Join(config.Dir, "member", "snap", "db.tmp.1") // of a Defragment that was killed
	must(t, os.WriteFile(left, nil, 0o600))
	again, err := cluster.Lock(config.Dir)
	must(t, err)
	must(t, again())
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left: %v", err)
	}
}

// TestAddAgain adds a node that did not come, and at once again under the same address. It has no
// vote, and cannot lead.
func TestAddAgain(t *testing.T) {
	s, ctx := newSite(t, "a", "b"), t.Context()
	config := s.config("a")
	config.Members = map[string]string{"a": config.Members["a"]}
	n, err := cluster.Open(config)
	must(t, err)
	term(t, n.Terms(ctx))
	to := cluster.Contact{Etcd: s.config("b").Members["b"], Peer: "127.0.0.1:1", Format: agreement.Newest()}
	for range 2 {
		if name, _, err := n.Add(ctx, "b", to); err != nil || name != "b" {
			t.Fatalf("added %q: %v", name, err)
		}
	}
	if err := n.HandOver(ctx, "b"); !errors.Is(err, cluster.ErrNoVote) || !cluster.Passes(err) {
		t.Errorf("a node leads that joins: %v", err)
	}
	must(t, n.Close())
}

// hears calls heard when a text is logged.
type hears struct {
	slog.Handler
	text  string
	heard func()
}

// Enabled implements [slog.Handler].
func (h *hears) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h *hears) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.text {
		h.heard()
	}
	return nil
}

// TestFormat: the format is raised only if every node knows the newest one. A node whose program
// does not know the format of the cluster does not join, and ends.
func TestFormat(t *testing.T) {
	s, ctx := newSite(t, "a"), t.Context()
	config := s.config("a")
	config.Version = "v1"
	n, err := cluster.Open(config)
	must(t, err)
	term(t, n.Terms(ctx))
	n.Show("")
	for members, _ := n.Members(ctx); len(members) == 0; members, _ = n.Members(ctx) {
		if ctx.Err() != nil {
			t.Fatal("the node is not told of")
		}
	}
	if before, after, err := n.Upgrade(ctx); before != 1 || after != 1 || err != nil || n.Format() != 1 {
		t.Errorf("from %d to %d, %v", before, after, err)
	}
	must(t, n.Tell(ctx, "b", cluster.Contact{Etcd: "b:1", Version: "v2", Format: 2}))
	if _, _, err := n.Upgrade(ctx); !errors.Is(err, cluster.ErrUpgrade) || !strings.Contains(err.Error(), `node a, which has version "v1", knows formats up to 1`) {
		t.Errorf("a node that lacks the format: %v", err)
	}
	must(t, n.CheckFormat(ctx))
	must(t, n.SetFormat(ctx, "2"))
	if _, _, err := n.Add(ctx, "c", cluster.Contact{Etcd: "127.0.0.1:1", Peer: "127.0.0.1:2", Version: "v1", Format: 1}); !errors.Is(err, agreement.ErrFormat) {
		t.Errorf("a node that lacks the format joins right after it was raised: %v", err)
	}
	if err := n.CheckFormat(ctx); !errors.Is(err, agreement.ErrFormat) || !strings.Contains(err.Error(), "the cluster has format 2") {
		t.Errorf("a format that the program does not know: %v", err)
	}
	if err := <-s.fatal; !errors.Is(err, agreement.ErrFormat) {
		t.Errorf("the node ends with %v", err)
	}
	n.End()
}
