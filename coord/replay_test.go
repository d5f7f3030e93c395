package coord

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// stream is the log of a random run of incidents, with a snapshot taken on the
// way.
type stream struct {
	*world
	cut    uint64 // entries that the snapshot covers
	resume []byte
}

// randomStream returns the stream of a seed.
func randomStream(t *testing.T, seed int) stream {
	t.Helper()
	return rapid.Custom(func(r *rapid.T) stream {
		s := stream{world: newWorld(t)}
		g := generator{r, s.world}
		g.graph()
		actions := rapid.IntRange(20, 120).Draw(r, "actions")
		cut := rapid.IntRange(0, actions-1).Draw(r, "cut")
		for i := range actions {
			if i == cut {
				s.cut, s.resume = s.state.Size(), s.snapshot()
			}
			g.act()
		}
		return s
	}).Example(seed)
}

// TestReplayInAnotherProcessChaos gives random streams to a new process of this
// test, where hash tables are seeded anew: the state that it folds from zero,
// and the one that it goes on to from a snapshot taken on the way, are the same
// to the byte. The seed of a stream that differs is told; ARL_CHAOS=1 tries
// 2,000.
// Draft: AUD-1.
func TestReplayInAnotherProcessChaos(t *testing.T) {
	const folder = "COORD_TEST_REPLAY"
	if dir := os.Getenv(folder); dir != "" {
		replayAll(t, dir)
		return
	}
	streams := budget.Budget{Short: 10, Usual: 50, Chaos: 2000}.Now()
	first, dir := int(budget.Seed(t)&math.MaxUint32), t.TempDir()
	want, entries := make([][]byte, streams), 0
	for i := range streams {
		s := randomStream(t, first+i)
		want[i], entries = s.snapshot(), entries+len(s.log)
		var leaves bytes.Buffer
		for _, e := range s.log {
			leaves.Write(e.AppendLeaf(nil))
			leaves.WriteByte('\n')
		}
		name := filepath.Join(dir, fmt.Sprint(i))
		must(t, os.WriteFile(name+".log", leaves.Bytes(), 0o600))
		must(t, os.WriteFile(name+fmt.Sprintf(".%d.snapshot", s.cut), s.resume, 0o600))
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplayInAnotherProcessChaos$")
	other.Env = append(os.Environ(), folder+"="+dir)
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i := range streams {
		for _, way := range []string{"rebuilt", "resumed"} {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, way)))
			must(t, err)
			if !bytes.Equal(got, want[i]) {
				t.Errorf("seed %d: %s in another process, the state is another", first+i, way)
			}
		}
	}
	t.Logf("%d streams, %d entries", streams, entries)
}

// replayAll folds every stream in a folder, from zero and from its snapshot.
func replayAll(t *testing.T, dir string) {
	t.Helper()
	snapshots, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	must(t, err)
	for _, file := range snapshots {
		var i int
		var cut uint64
		_, err := fmt.Sscanf(filepath.Base(file), "%d.%d.snapshot", &i, &cut)
		must(t, err)
		leaves, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
		must(t, err)
		before, err := os.ReadFile(file)
		must(t, err)
		rebuilt, resumed := NewState(origin), restored(t, before)
		for leaf := range bytes.Lines(leaves) {
			e, at, err := entry.DecodeLeaf(bytes.TrimSuffix(leaf, []byte("\n")))
			must(t, err)
			must(t, rebuilt.Admit(e, rebuilt.Size(), at))
			if rebuilt.Apply(e, rebuilt.Size(), at); rebuilt.Size() > cut {
				must(t, resumed.Admit(e, resumed.Size(), at))
				resumed.Apply(e, resumed.Size(), at)
			}
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.rebuilt", i)), snapshot(t, rebuilt), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.resumed", i)), snapshot(t, resumed), 0o600))
	}
}
