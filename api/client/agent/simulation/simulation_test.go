package simulation

import (
	"io"
	"os"
	"strconv"
	"testing"
)

func newKeys(tb testing.TB) *keyring {
	tb.Helper()
	keys, err := newKeyring()
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// TestReplay runs the seed in ARL_SEED again, and prints everything that happens.
func TestReplay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("ARL_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	out := io.Discard
	if err == nil {
		out = os.Stdout
	}
	one, two := simulate(seed, newKeys(t), out), simulate(seed, newKeys(t), nil)
	if one.err != nil {
		t.Errorf("seed %d: %v", seed, one.err)
	}
	if one.digest != two.digest {
		t.Errorf("seed %d runs differently again: %s, then %s", seed, one.digest, two.digest)
	}
}

// TestSimulation runs seeds.
func TestSimulation(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("SEEDS"))
	if err != nil {
		seeds = 50
	}
	keys := newKeys(t)
	for seed := range seeds {
		r := simulate(uint64(seed), keys, nil)
		if r.err != nil {
			t.Errorf("seed %d: %v", seed, r.err)
		}
	}
}
