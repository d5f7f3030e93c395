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

// arms derives the arm of each attempt again from an export and nothing else: by the text of ROL-5
// and of docs/rollout.md, with none of the code that decides. It returns how many attempts of each
// arm it found.
func arms(t *testing.T, dir string) map[entry.Arm]int {
	t.Helper()
	x, err := export.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, d := map[entry.Arm]int{}, deriver{before: map[entry.Ref]*entry.Attempt{}}
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
			a, ok := e.Body.(*entry.Attempt)
			if !ok {
				d.read(t, e.Body)
				continue
			}
			found[a.Arm]++
			for c := range a.Cases() {
				if arm, policy := d.decides(a, c); a.Arm != arm || a.Policy != policy {
					t.Errorf("entry %d: case %s is of arm %q by %s, want %q by %s", first+uint64(i), c.Case, a.Arm, a.Policy, arm, policy)
				}
			}
			if a.Task != "" && a.Arm != entry.ArmShadow {
				d.before[a.Task] = a
			}
		}
	}
	return found
}

// deriver is what the entries up to one say of arms.
type deriver struct {
	inForce entry.Digest        // rules
	start   *entry.RolloutTerms // of the rollout under way; nil: there is none
	share   int64
	before  map[entry.Ref]*entry.Attempt // the last of each task that something was done about
}

func (d *deriver) read(t *testing.T, body entry.Body) {
	t.Helper()
	switch b := body.(type) {
	case *entry.Policy:
		rules := b.Recovery.Clone()
		if rules != nil {
			if err := rules.Canonicalize(); err != nil {
				t.Fatal(err)
			}
			d.inForce = entry.DigestOf(rules)
		}
		if b.Rollout != nil {
			d.start, d.share = nil, 0
		}
	case *entry.Rollout:
		switch b.Op {
		case entry.RolloutStart:
			d.start, d.share = b.Start, b.SharePermille
		case entry.RolloutAdvance:
			d.share = b.SharePermille
		case entry.RolloutAbort:
			d.start, d.share = nil, 0
		}
	}
}

// decides returns the arm that an attempt should name, and the rules that should have decided. Work
// that is under way ends under its own policy: an entry that says what came of an attempt is of the
// arm that decided the attempt, and so is what follows it in the entry.
func (d *deriver) decides(a *entry.Attempt, c *entry.AttemptCase) (entry.Arm, entry.Digest) {
	if before := d.before[a.Task]; before != nil && a.Arm != entry.ArmShadow && c.Rungs[0].Result != "decided" {
		return before.Arm, before.Policy
	}
	if d.start == nil {
		return "", d.inForce
	}
	sum := sha256.Sum256([]byte(d.start.Salt + c.Case))
	place := new(big.Int).Mul(new(big.Int).SetUint64(binary.BigEndian.Uint64(sum[:8])), big.NewInt(1000))
	switch below := place.Cmp(new(big.Int).Lsh(big.NewInt(d.share), 64)) < 0; {
	case below:
		return entry.ArmCanary, d.start.CandidateDigest
	case d.share == 0 && a.Arm == entry.ArmShadow:
		return entry.ArmShadow, d.start.CandidateDigest
	}
	return entry.ArmControl, d.start.BaselineDigest
}
