package merkle_test

import (
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// TestFrontier grows a tree leaf by leaf: after each the head is that of the
// reference, and exactly the completed subtrees are visited, each once.
func TestFrontier(t *testing.T) {
	ref := decimals(exhaustive)
	frontier, err := merkle.NewFrontier(0, nil)
	must(t, err)
	visited := map[[2]uint64]bool{}
	for i := range exhaustive {
		last := -1
		must(t, frontier.Append(merkle.HashLeaf(ref.leaves[i]), func(level uint, index uint64, h merkle.Hash) {
			key := [2]uint64{uint64(level), index}
			if int(level) != last+1 || visited[key] || h != ref.mth(int(index<<level), int((index+1)<<level)) {
				t.Fatalf("leaf %d: visits %d/%d after level %d", i, level, index, last)
			}
			last, visited[key] = int(level), true
		}))
		for level := uint64(0); uint64(i+1)%(1<<level) == 0; level++ {
			if !visited[[2]uint64{level, uint64(i) >> level}] {
				t.Fatalf("leaf %d: node at level %d not visited", i, level)
			}
		}
		requireHead(t, frontier, ref.head(i+1))
	}
}

func requireHead(t rapid.TB, frontier *merkle.Frontier, want merkle.Head) {
	t.Helper()
	got, err := frontier.Head()
	must(t, err)
	if got != want {
		t.Fatalf("head %v, want %v", got, want)
	}
}

// TestFrontierResumed draws a size, resumes there, and grows on: it equals the
// one that has grown from nothing.
func TestFrontierResumed(t *testing.T) {
	const most = 700
	ref := decimals(most)
	hashes := make([]merkle.Hash, most)
	for i := range hashes {
		hashes[i] = merkle.HashLeaf(ref.leaves[i])
	}
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(0, most-1).Draw(r, "size")
		end := rapid.IntRange(size, min(size+40, most)).Draw(r, "end")
		resumed, err := merkle.NewFrontier(uint64(size), ref.nodes(r, size))
		must(r, err)
		for _, h := range hashes[size:end] {
			must(r, resumed.Append(h, func(uint, uint64, merkle.Hash) {}))
		}
		requireHead(r, resumed, merkle.HeadOf(hashes[:end]))
		requireHead(r, resumed, ref.head(end))
	})
}

// TestFrontierEverySize resumes at every small size.
func TestFrontierEverySize(t *testing.T) {
	ref := decimals(exhaustive)
	for size := range exhaustive {
		resumed, err := merkle.NewFrontier(uint64(size), ref.nodes(t, size))
		must(t, err)
		requireHead(t, resumed, ref.head(size))
		must(t, resumed.Append(merkle.HashLeaf(ref.leaves[size]), func(uint, uint64, merkle.Hash) {}))
		requireHead(t, resumed, ref.head(size+1))
	}
}
