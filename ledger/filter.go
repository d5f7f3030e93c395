package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/bloom"
)

// filter denies that a key is among the dedup keys of the log. Nearly every submitted entry is
// new, and the filter saves the look-up in the store for such an entry. A key is added before
// its commit, so a denied key stands in no commit that readers see. A key that the filter does
// not deny is looked up.
type filter struct {
	keys *bloom.Filter

	// ready is set when the filter holds the keys of all entries from before Run, and the
	// keys are sound. Until then the filter denies nothing.
	ready atomic.Bool
}

// newFilter makes room for 32 bits for each key that the log has now. When the log grows beyond
// that, more look-ups find nothing.
func newFilter(size uint64) *filter {
	return &filter{keys: bloom.New(min(max(32*size, filterBitsMin), filterBitsMax))}
}

func (f *filter) add(key *dedupID) { f.keys.Add((*[sha256.Size]byte)(key[1:])) }

// denies reports that the key stands in no commit that was visible at the time of the call.
func (f *filter) denies(key *dedupID) bool {
	return f.ready.Load() && f.keys.Denies((*[sha256.Size]byte)(key[1:]))
}

// load adds the keys in the store of a log of size entries. It checks that each entry has a key,
// because a duplicate of an entry without a key would be registered as new.
func (f *filter) load(ctx context.Context, r pebble.Reader, size uint64) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{keyDedup}, UpperBound: []byte{keyDedup + 1}})
	if err != nil {
		return fmt.Errorf("ledger: read dedup keys: %w", classed(err))
	}
	seen, count := make([]uint64, (size+63)/64), uint64(0)
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if len(key) != 1+sha256.Size || len(value) != 8 {
			err = fmt.Errorf("%w: dedup key %x of %d bytes, with %d", ErrCorrupt, key, len(key), len(value))
			break
		}
		index := indexOf(value)
		if index >= size || seen[index/64]&(1<<(index%64)) != 0 {
			err = fmt.Errorf("%w: dedup key %x: entry %d, which is not there or has another", ErrCorrupt, key, index)
			break
		}
		seen[index/64] |= 1 << (index % 64)
		f.add((*dedupID)(key))
		count++
	}
	if err := cmp.Or(err, classed(it.Close()), ctx.Err()); err != nil {
		return fmt.Errorf("ledger: read dedup keys: %w", err)
	}
	if count != size {
		return fmt.Errorf("ledger: read dedup keys: %w: there are %d in a log of size %d", ErrCorrupt, count, size)
	}
	f.ready.Store(true)
	return nil
}
