package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"recoveryledger/ledger"
	"recoveryledger/testdata/budget"
)

// TestPowerLossChaosDuringImport takes the power away before operations on the disk,
// with nothing, half and all of the unsynced data kept, during a first import and
// during one that goes on where another was cut off. Whatever is left is no log, or
// the whole one; another import makes it whole. It is every eighth of these, with -short
// every 48th, with ARL_CHAOS each.
func TestPowerLossChaosDuringImport(t *testing.T) {
	budget.Unraced(t, "the goroutines of an import are those of TestImportRestoresALog")
	x := exportLog(t, 4200)
	disk := vfs.NewCrashableMem()
	copyTo(t, x.disk, disk, "log.anchor")
	must(t, markUsed(disk)) // which syncs the directory
	every := budget.Budget{Short: 48, Usual: 8, Chaos: 1}.Now()
	for round := range 2 {
		rng, operations, states := newRNG(uint64(round)), 0, 0
		var mu sync.Mutex     // the storage engine writes in goroutines of its own, too
		var left []*vfs.MemFS // every so many of the states; a disk with an import on it is large
		var cutOff *vfs.MemFS
		power := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				mu.Lock()
				defer mu.Unlock()
				// Every operation at the end, where names change; some of the many before.
				if operations++; operations%10 == 0 || op.Kind == errorfs.OpRename || op.Kind == errorfs.OpFileSync {
					if states++; (states-1)%every != 0 {
						return nil
					}
					left = append(left, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng}))
				}
			}
			return nil
		})
		_, err := x.importTo(everyFile{errorfs.Wrap(disk, power), power})
		must(t, err)
		mu.Lock()
		cutOff = left[len(left)/2].CrashClone(vfs.CrashCloneCfg{}) // what the next round goes on with
		resumed := map[uint64]int{}
		for i, after := range left {
			report, err := x.checkCutOff(after)
			if err != nil {
				t.Fatalf("round %d, state %d: %v", round, i, err)
			}
			resumed[report.Resumed]++
			left[i] = nil
		}
		t.Logf("%d of %d states after %d operations, resumed at %v", len(left), states, operations, resumed)
		if round == 0 && (states < 20 || resumed[0] == 0) { // [TestImportGoesOnWhereItWas] resumes in the middle
			t.Errorf("%d states, resumed at %v", states, resumed)
		}
		mu.Unlock()
		disk = cutOff
	}
}

// checkCutOff looks at what an import left that was cut off, and imports again.
func (x *exportedLog) checkCutOff(disk *vfs.MemFS) (*ledger.ImportReport, error) {
	cfg := config(x.t, disk)
	cfg.Used = true
	log, err := ledger.Open("log", cfg)
	if err == nil {
		head := log.Head().Head
		if err := log.Close(); err != nil || head != x.head {
			return nil, fmt.Errorf("a log of %d entries is there: %w", head.Size, err)
		}
	} else if !errors.Is(err, ledger.ErrRolledBack) { // there is an anchor
		return nil, err
	}
	report, err := x.importTo(disk)
	if err != nil {
		return nil, err
	}
	found, err := ledger.Check(x.t.Context(), "log", cfg, nil)
	if err == nil && (found.Head != x.head || found.Anchor != x.head) {
		err = fmt.Errorf("%v under the anchor %v", found.Head, found.Anchor)
	}
	return report, err
}

// TestImportChaosAtTheSecondLevel goes on behind the second batch, and with ARL_CHAOS behind
// the 256th tile.
func TestImportChaosAtTheSecondLevel(t *testing.T) {
	budget.Unraced(t, "TestImportRestoresALog has the same goroutines")
	const batch = 4096
	batches := budget.Budget{Short: 2, Usual: 2, Chaos: 17}.Now()
	x := exportLog(t, batches*batch+368)
	disk := vfs.NewMem()
	cfg := config(t, disk)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := ledger.Import(ctx, "log", cfg, &ledger.ImportConfig{Export: x.dir, Newest: []ledger.KnownHead{{Head: x.head}}, Progress: func(done, total uint64) {
		if done > uint64(batches-1)*batch && done < total {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	report, err := x.importTo(disk, x.head)
	must(t, err)
	if report.Resumed != uint64(batches)*batch {
		t.Errorf("%+v", report)
	}
	if found := fsck(t, "log", cfg); found.Head != x.head {
		t.Errorf("imported %v", found.Head)
	}
}
