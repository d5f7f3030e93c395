package coordinator

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// TestNoCrashLosesTheAttemptOfAClaim has the process die at every write of the coordinator in turn,
// before it and after it, while a task goes from an agent whose lease is lost to the next: the
// attempt follows the claim at once, and is there once.
func TestNoCrashLosesTheAttemptOfAClaim(t *testing.T) {
	for at := 1; ; at++ {
		if crashed := claimed(t, at, true); !crashed {
			if at < 3 {
				t.Errorf("%d writes: the test shows little", at-1)
			}
			return
		}
		claimed(t, at, false)
	}
}

// claimed runs the claims with a crash at a write of the coordinator, and checks the log.
func claimed(t *testing.T, at int, before bool) (crashed bool) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s, now := &site{world: emptyWorld(t), fs: disk, dir: "data"}, &clock{time.Now()}
	s.open()
	s.c.leases.now = now.now
	heir, task := s.Enrol("root", "b", entry.RoleAgent), s.newTask("task")
	heir.Capabilities, task.Type, task.MaxRetries = []string{"work"}, "work", new(int64(1))
	s.submit(5, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), heir,
		s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	s.submit(1, "", s.Sign(task))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", entry.TaskAssign, "a") }))
	log := &fragile{desk{s}, at, before}
	for next, steps := false, 0; !next; steps++ {
		if steps > 60 {
			t.Fatalf("write %d, before it: %t: nobody claims the task", at, before)
		}
		s.pass(now, 10*time.Second)
		k := s.coordinator()
		k.Log = log
		_, _, err := k.Step(t.Context())
		if errors.Is(err, errCrash) {
			crashed = true
			disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 0))})
			s.stop()
			s.fs = disk
			s.open()
			s.c.leases.now = now.now
			s.c.leases.begin(s.c.state)
			continue
		}
		must(t, err)
		s.c.Read(func(state *coord.State) {
			v, _ := state.Task("o#task")
			next = v.Epoch == 2
		})
	}
	var last entry.Body
	attempts := 0
	for e, err := range s.entries() {
		must(t, err)
		if a, is := e.Body.(*entry.Attempt); is {
			claim, follows := last.(*entry.Task)
			if attempts++; !follows || claim.Op != entry.TaskAssign || claim.Agent != "b" || a.Agent != "a" || a.Task != claim.Task {
				t.Errorf("write %d, before it: %t: the attempt %+v follows %+v", at, before, a, last)
			}
		}
		last = e.Body
	}
	if attempts != 1 {
		t.Errorf("write %d, before it: %t: %d attempts", at, before, attempts)
	}
	s.check()
	return crashed
}
