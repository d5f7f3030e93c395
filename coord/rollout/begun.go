package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"recoveryledger/coord/codec"
	"recoveryledger/ledger/entry"
)

// begunMax bounds the cases under way that are remembered. Of a case that was forgotten nobody
// knows the earlier entries.
const begunMax = 1024

// KeyOf returns the key of a case: a case belongs to its task, or else to the issuer of the entry.
// So two issuers may use one id for two cases. A task has one case, whoever writes about it.
func KeyOf(salt string, a *entry.Attempt, id string) uint64 {
	owner := cmp.Or(string(a.Task), string(a.Iss)) // no issuer has the "#" of a task
	sum := sha256.Sum256([]byte(salt + "\n" + owner + "\n" + id))
	return binary.BigEndian.Uint64(sum[:]) >> 1
}

// begun is a case under way: what its entries so far say, for the entry that ends it.
type begun struct {
	key   uint64    // see KeyOf
	class string    // of the first failure
	never bool      // a failure that the rules leave to people
	arm   entry.Arm // that decided first; empty: none
	mixed bool      // another arm decided, too
	// unpriced says that nobody knows what an attempt cost.
	unpriced bool
}

// by reports whether no arm but this one decided about the case.
func (b *begun) by(arm entry.Arm) bool { return b.key == 0 || b.arm == arm && !b.mixed }

// Open holds the newest cases under way, in the order of their first entries. The zero value holds
// none. It is not safe for concurrent use.
type Open struct {
	cases     []begun
	forgotten seen // cases that made room for newer ones
}

// classOf returns the class of the first failure in an entry.
func classOf(c *entry.AttemptCase) string {
	if len(c.Rungs) == 0 {
		return ""
	}
	return c.Rungs[0].Class
}

// Note takes up an entry of a case that goes on: which arm decided, and whether the entry names a
// failure that the rules leave to people. The case has the class of its first failure, and no known
// cost if one of its attempts has none.
func (o *Open) Note(key uint64, arm entry.Arm, c *entry.AttemptCase, never bool) {
	class, unpriced := classOf(c), unpriced(c)
	if i := o.find(key); i >= 0 {
		at := &o.cases[i]
		at.class, at.never, at.mixed = cmp.Or(at.class, class), at.never || never, at.mixed || at.arm != arm
		at.unpriced = at.unpriced || unpriced
		return
	}
	if len(o.cases) == begunMax {
		o.forgotten.add(o.cases[0].key)
		o.cases = slices.Delete(o.cases, 0, 1)
	}
	o.cases = append(o.cases, begun{key: key, class: class, never: never, arm: arm, unpriced: unpriced})
}

// End forgets a case that ends. never says that an earlier entry named a failure that the rules
// leave to people.
func (o *Open) End(key uint64) (never bool) { return o.end(key).never }

func (o *Open) end(key uint64) (b begun) {
	if i := o.find(key); i >= 0 {
		b = o.cases[i] // before Delete moves the others
		o.cases = slices.Delete(o.cases, i, i+1)
	}
	return b
}

// unknown reports whether earlier entries of a case may have been forgotten.
func (o *Open) unknown(key uint64) bool { return o.forgotten.full() || o.forgotten.has(key) }

func (o *Open) find(key uint64) int {
	return slices.IndexFunc(o.cases, func(b begun) bool { return b.key == key })
}

func (o *Open) clone() Open { return Open{slices.Clone(o.cases), o.forgotten} }

// snapshot passes the cases.
func (o *Open) snapshot(c *codec.Codec) {
	codec.List(c, &o.cases, begunMax, func(b *begun) {
		codec.Number(c, &b.key, math.MaxInt64)
		text(c, &b.class)
		c.Flag(&b.never)
		word(c, &b.arm, "", entry.ArmControl, entry.ArmCanary)
		c.Flag(&b.mixed)
		c.Flag(&b.unpriced)
	})
	o.forgotten.snapshot(c)
}
