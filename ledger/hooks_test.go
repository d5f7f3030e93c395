package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Precheck cuts a batch before the first entry that it refuses, and does not see
// what is registered already.
func TestPrecheckCutsTheBatch(t *testing.T) {
	problem := entry.BadSignature
	var refuse *entry.Entry
	seen := 0
	cfg := config(t, vfs.NewMem())
	cfg.Precheck = func(e *entry.Entry) error {
		seen++
		if e == refuse {
			return entry.Refuse(problem, "", "refused by the test")
		}
		return nil
	}
	r := start(t, "log", cfg)
	batch := []*entry.Entry{newEntry(t), newEntry(t), newEntry(t)}
	refuse = batch[1]
	for range 2 {
		answer, err := r.Submit(t.Context(), batch...)
		must(t, err)
		if len(answer.Registered) != 1 || answer.Refused == nil || answer.Refused.Problem != problem || answer.Head.Size != 1 {
			t.Fatalf("answer %+v", answer)
		}
	}
	if seen != 3 {
		t.Errorf("Precheck saw %d entries, want 2 and then 1", seen)
	}
	problem = entry.RateLimited
	answer, err := r.Submit(t.Context(), batch...)
	if err != nil || len(answer.Registered) != 1 || answer.Refused.Problem != entry.RateLimited {
		t.Errorf("rate-limited behind an entry: %+v, %v", answer, err)
	}
	_, err = r.Submit(t.Context(), batch[1:]...)
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.RateLimited {
		t.Errorf("rate-limited at once: %v", err)
	}
}

// Committed hears of every size in order, the first time when the log is open;
// Observe of every entry. Both are told what is durable and seen by readers.
func TestHooksAreToldInOrder(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	var sizes []uint64
	var observed []*entry.Entry
	var log *ledger.Log
	cfg.Committed = func(head verify.SignedHead) {
		if log != nil && log.Head().SignedHead != head {
			t.Errorf("told of %+v, readers see %+v", head, log.Head())
		}
		if log != nil {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := log.Wait(over, head.Size); !errors.Is(err, context.Canceled) {
				t.Errorf("who waits for size %d goes on before the state has it: %v", head.Size, err)
			}
		}
		sizes = append(sizes, head.Size)
	}
	cfg.Observe = func(c ledger.Commit) {
		observed = append(observed, c.Entries...)
		if c.Size != uint64(len(observed)) || c.Size != sizes[len(sizes)-1] {
			t.Errorf("commit of size %d with %d entries", c.Size, len(c.Entries))
		}
	}
	r := start(t, "log", cfg)
	log = r.Log
	batch := []*entry.Entry{newEntry(t), newEntry(t), newEntry(t)}
	for _, part := range [][]*entry.Entry{batch[:1], batch[1:], batch} {
		_, err := r.Submit(t.Context(), part...)
		must(t, err)
	}
	log = nil
	r.stop()
	r.again().stop()
	if !slices.Equal(sizes, []uint64{0, 1, 3, 3}) || !slices.Equal(observed, batch) {
		t.Errorf("sizes %v, %d entries", sizes, len(observed))
	}
}

func TestOpenRefusesAnotherOrigin(t *testing.T) {
	cfg := config(t, logOf(t, 1))
	cfg.Origin, cfg.Anchor = "ledger.example/other", "other.anchor"
	cfg.AcceptAnchor = true
	if _, err := ledger.Open("log", cfg); err == nil || !strings.Contains(err.Error(), origin) {
		t.Fatal(err)
	}
}

func TestOpenWantsItsConfiguration(t *testing.T) {
	for name, take := range map[string]func(*ledger.Config){
		"Origin":   func(c *ledger.Config) { c.Origin = "" },
		"Signer":   func(c *ledger.Config) { c.Keys = []ledger.Key{{Verifier: c.Keys[0].Verifier}} },
		"Verifier": func(c *ledger.Config) { c.Keys = []ledger.Key{{Signer: c.Keys[0].Signer}} },
		"NewFold":  func(c *ledger.Config) { c.NewFold = nil },
		"Fatal":    func(c *ledger.Config) { c.Fatal = nil },
	} {
		cfg := config(t, vfs.NewMem())
		take(cfg)
		if _, err := ledger.Open("log", cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestAlive asks whether a log is alive while a commit does not end, and gets the answer when the
// commit has ended. A log that has stopped says so.
func TestAlive(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	inside, end := make(chan struct{}), make(chan struct{})
	cfg.Observe = func(ledger.Commit) { close(inside); <-end }
	r := start(t, "log", cfg)
	must(t, r.Alive(t.Context()))
	var both errgroup.Group
	both.Go(func() error {
		_, err := r.Submit(t.Context(), newEntry(t))
		return err
	})
	<-inside
	var ended atomic.Bool
	both.Go(func() error {
		err := r.Alive(t.Context())
		if !ended.Load() {
			t.Error("alive in the middle of a commit")
		}
		return err
	})
	ended.Store(true)
	close(end)
	must(t, both.Wait())
	if size := r.Head().Size; size != 1 {
		t.Errorf("size %d: a question added an entry", size)
	}
	r.stop()
	if err := r.Alive(t.Context()); !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("after the stop: %v", err)
	}
}
