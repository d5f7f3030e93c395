package ledger_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// awayKey is a signer in another place, which does not answer while it is away.
type awayKey struct {
	note.Signer
	away  atomic.Bool
	asked atomic.Int64
	delay atomic.Int64 // nanoseconds
	gate  sync.Mutex   // who holds it holds up signatures
}

func (k *awayKey) Sign(msg []byte) ([]byte, error) {
	k.asked.Add(1)
	if k.away.Load() {
		return nil, errors.New("the KMS does not answer")
	}
	time.Sleep(time.Duration(k.delay.Load())) // as a slow key does
	k.gate.Lock()
	defer k.gate.Unlock()
	return k.Signer.Sign(msg)
}

func withAwayKey(t *testing.T, disk vfs.FS) (*ledger.Config, *awayKey) {
	t.Helper()
	cfg := config(t, disk)
	k := &awayKey{Signer: cfg.Keys[0].Signer}
	cfg.Keys[0].Signer = k
	return cfg, k
}

// wantAway wants every submission answered with not-ready, which names the key and says what to do.
func wantAway(t *testing.T, l *ledger.Log, all ...*entry.Entry) {
	t.Helper()
	answer, err := l.Submit(t.Context(), all...)
	must(t, err)
	if len(answer.Registered) > 0 || answer.Refused == nil || answer.Refused.Problem != entry.NotReady ||
		!strings.Contains(answer.Refused.Detail, "KMS does not answer") || answer.Refused.Remedy == "" {
		t.Errorf("answer %+v, want not-ready", answer)
	}
}

// TestAKeyThatIsAwayForAnHour has a key leave a running log for an hour of the log's clock. No
// submission waits or is acknowledged, reads go on, and what was sent is registered once
// afterwards. No head that was shown before is contradicted.
func TestAKeyThatIsAwayForAnHour(t *testing.T) {
	disk, c := vfs.NewMem(), newClocks()
	cfg, key := withAwayKey(t, disk)
	r := start(t, "log", c.on(cfg))
	first := newEntry(t)
	_, err := r.Submit(t.Context(), first)
	must(t, err)
	before := r.Head()
	key.away.Store(true)
	sent := []*entry.Entry{newEntry(t), newEntry(t)}
	wantAway(t, r.Log, sent...)
	var all sync.WaitGroup
	for range 100 { // while it is away
		all.Go(func() { wantAway(t, r.Log, newEntry(t)) })
	}
	all.Wait()
	c.pass(time.Hour)
	wantAway(t, r.Log, sent...)
	answer, err := r.Submit(t.Context(), first, newEntry(t))
	if err != nil || len(answer.Registered) != 1 || !answer.Registered[0].Duplicate || answer.Refused == nil || answer.Refused.Problem != entry.NotReady {
		t.Errorf("an entry of before, and one more: %+v, %v", answer, err)
	}
	if refusal, ok := errors.AsType[*entry.Refusal](r.Ready()); !ok || refusal.Problem != entry.NotReady {
		t.Errorf("ready: %v", r.Ready())
	}
	if published, err := r.Published(); err != nil || published.Size != 1 || r.Head() != before {
		t.Errorf("head %+v, published %+v, %v", r.Head(), published, err)
	}
	key.away.Store(false)
	must(t, r.Wait(t.Context(), 3)) // the commit that waited
	answer, err = r.Submit(t.Context(), append(sent, newEntry(t))...)
	must(t, err)
	if len(answer.Registered) != 3 || answer.Refused != nil || !answer.Registered[0].Duplicate || answer.Registered[2].Duplicate || answer.Head.Size != 4 {
		t.Errorf("afterwards: %+v", answer)
	}
	must(t, r.Ready())
	r.stop()
	if after := r.again().Head(); after.Size != 4 {
		t.Errorf("size %d after the next start", after.Size)
	}
}

// TestEndWhileAKeyIsAway ends a log whose commit waits for its key. The end does not wait, nothing
// of the commit is on the disk, and a log that starts without its key serves reads and goes on when
// the key is there.
func TestEndWhileAKeyIsAway(t *testing.T) {
	for _, halts := range []bool{false, true} {
		disk := vfs.NewMem()
		cfg, key := withAwayKey(t, disk)
		r := start(t, "log", cfg)
		_, err := r.Submit(t.Context(), newEntry(t))
		must(t, err)
		key.away.Store(true)
		sent := newEntry(t)
		wantAway(t, r.Log, sent)
		if halts {
			r.Halt()
		}
		r.stop()
		r = r.again()
		if r.Head().Size != 1 {
			t.Fatalf("size %d, and nothing was acknowledged behind the first entry", r.Head().Size)
		}
		if err := r.Ready(); err == nil {
			t.Error("ready without a key")
		}
		wantAway(t, r.Log, sent)
		if published, err := r.Published(); err != nil || published.Size != 1 {
			t.Errorf("published %+v, %v", published, err)
		}
		key.away.Store(false)
		must(t, r.Prepared(t.Context()))
		answer, err := r.Submit(t.Context(), sent)
		if err != nil || answer.Refused != nil || answer.Head.Size != 2 {
			t.Errorf("afterwards: %+v, %v", answer, err)
		}
		r.stop()
	}
}

// TestASlowKeyMakesLargeCommits wants submitters to share the signatures of a slow key: many at a
// time take a few signatures, and reads take none.
func TestASlowKeyMakesLargeCommits(t *testing.T) {
	cfg, key := withAwayKey(t, vfs.NewMem())
	r := start(t, "log", cfg)
	key.delay.Store(int64(200 * time.Millisecond))
	key.asked.Store(0)
	const submitters = 200
	var all sync.WaitGroup
	for range submitters {
		all.Go(func() {
			answer, err := r.Submit(t.Context(), newEntry(t))
			if err != nil || answer.Refused != nil {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	for waiting := 0; waiting == 0; waiting = r.Waiting() { // behind the signature of the first
		must(t, t.Context().Err())
	}
	all.Wait()
	if n := r.Waiting(); n != 0 {
		t.Errorf("%d requests wait, and all were answered", n)
	}
	if n := r.SnapshotLag(); n != submitters {
		t.Errorf("%d entries behind the newest snapshot, want %d", n, submitters)
	}
	if n := key.asked.Load(); n > submitters/10 {
		t.Errorf("%d signatures for %d submitters", n, submitters)
	}
	key.asked.Store(0)
	for index := range uint64(submitters) {
		_, err := r.Inclusion(index, r.Head().Size)
		must(t, err)
	}
	if n := key.asked.Load(); n > 0 {
		t.Errorf("%d signatures for reads", n)
	}
}

// TestASlowKeyIsWaitedForTwice bounds what a slow key costs a submission: it waits for the
// signature under way, and for the one that it shares with all who came meanwhile. While the key
// signs, reads are answered.
func TestASlowKeyIsWaitedForTwice(t *testing.T) {
	cfg, key := withAwayKey(t, vfs.NewMem())
	r := start(t, "log", cfg)
	_, err := r.Submit(t.Context(), newEntry(t))
	must(t, err)
	key.asked.Store(0)
	key.gate.Lock()
	const submitters = 64
	var all sync.WaitGroup
	submit := func() {
		all.Go(func() {
			if answer, err := r.Submit(t.Context(), newEntry(t)); err != nil || answer.Refused != nil {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	for submit(); key.asked.Load() == 0; {
		must(t, t.Context().Err())
	}
	for range submitters {
		submit()
	}
	for r.Waiting() < submitters {
		must(t, t.Context().Err())
	}
	if head := r.Head(); head.Size != 1 {
		t.Errorf("size %d before the key has signed", head.Size)
	}
	_, err = r.Inclusion(0, 1)
	must(t, err)
	key.gate.Unlock()
	all.Wait()
	if n := key.asked.Load(); n != 2 || r.Head().Size != submitters+2 {
		t.Errorf("%d signatures for %d entries, want 2", n, r.Head().Size)
	}
}
