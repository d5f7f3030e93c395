//go:build unix

package main_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
)

// arms derives the arm of each attempt again from an export and nothing else: by the text of ROL-5,
// with none of the code that decides. It returns how many attempts of each arm it found.
func arms(t *testing.T, dir string) map[entry.Arm]int {
	t.Helper()
	x, err := export.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, share, start := map[entry.Arm]int{}, int64(0), (*entry.RolloutTerms)(nil)
	for first := uint64(0); first < x.Head.Size; first += merkle.TileWidth {
		leaves, err := x.Leaves(merkle.Tile{Entries: true, Index: first / merkle.TileWidth, Width: int(min(x.Head.Size-first, merkle.TileWidth))})
		if err != nil {
			t.Fatal(err)
		}
		for i, leaf := range leaves {
			e, _, err := entry.DecodeLeaf(leaf)
			if err != nil {
				t.Fatal(err)
			}
			switch body := e.Body.(type) {
			case *entry.Rollout:
				share = body.SharePermille
				if body.Op == entry.RolloutStart {
					start = body.Start
				}
				if body.Op == entry.RolloutAbort {
					start = nil
				}
			case *entry.Attempt:
				found[body.Arm]++
				for c := range body.Cases() {
					if want, policy := derived(start, share, body, c.Case); body.Arm != want || start != nil && body.Policy != policy {
						t.Errorf("entry %d: case %s is of arm %q by %s, want %q by %s", first+uint64(i), c.Case, body.Arm, body.Policy, want, policy)
					}
				}
			}
		}
	}
	return found
}

// derived is the arm that an attempt should name, and the rules that should have decided.
func derived(start *entry.RolloutTerms, share int64, a *entry.Attempt, id string) (entry.Arm, entry.Digest) {
	if start == nil {
		return "", ""
	}
	sum := sha256.Sum256([]byte(start.Salt + id))
	place := new(big.Int).Mul(new(big.Int).SetUint64(binary.BigEndian.Uint64(sum[:8])), big.NewInt(1000))
	switch below := place.Cmp(new(big.Int).Lsh(big.NewInt(share), 64)) < 0; {
	case below:
		return entry.ArmCanary, start.CandidateDigest
	case share == 0 && a.Arm == entry.ArmShadow:
		return entry.ArmShadow, start.CandidateDigest
	}
	return entry.ArmControl, start.BaselineDigest
}
