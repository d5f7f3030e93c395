// Package dedup finds an entry that is in a log already: one with the same issuer and the same jti
// (REG-2). [Filter] recognizes nearly all new entries. The store has a key for each committed
// entry. [Recent] has the keys of the newest entries, the commit in the making included.
package dedup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/bloom"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
)

// KeyPrefix begins the keys of the index.
const KeyPrefix = 'd'

const (
	recentSize    = 8192    // keys of one generation of recent entries
	filterBitsMin = 1 << 25 // bits of the filter: 4 MiB
	filterBitsMax = 1 << 28 // and at most: 32 MiB
)

// ID is the key of the dedup index: its prefix, and SHA-256 of issuer and jti.
type ID [1 + sha256.Size]byte

// Key returns the key of an entry.
func Key(e *entry.Entry) (key ID) {
	id := binary.BigEndian.AppendUint16(make([]byte, 0, 2+2*entry.MaxName), uint16(len(e.Header.Iss)))
	id = append(append(id, e.Header.Iss...), e.Header.JTI...)
	sum := sha256.Sum256(id)
	key[0] = KeyPrefix
	copy(key[1:], sum[:])
	return key
}

// find returns the index of the entry that a key of the index in the store names. ok is false if
// there is none. It is a Get that asks the bloom filters of the lowest level too, because nearly
// all keys asked for are not in the store.
func find(r pebble.Reader, key []byte) (index uint64, ok bool, err error) {
	it, err := r.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return 0, false, err
	}
	if ok = it.SeekPrefixGE(key); ok {
		if value := it.Value(); len(value) == 8 {
			index = binary.BigEndian.Uint64(value)
		} else {
			err = fmt.Errorf("%w: dedup key %x: %d bytes instead of an index", engine.ErrCorrupt, key, len(value))
		}
	}
	return index, ok, errors.Join(err, engine.Classed(it.Close()))
}

// Filter denies that a key is among the dedup keys of the log. Nearly every submitted entry is
// new, and the filter saves the look-up in the store for such an entry. A key is added before
// its commit, so a denied key stands in no commit that readers see. A key that the filter does
// not deny is looked up.
type Filter struct {
	keys *bloom.Filter

	// ready is set when the filter holds the keys of all entries from before Run, and the
	// keys are sound. Until then the filter denies nothing.
	ready atomic.Bool
}

// NewFilter makes room for 32 bits for each key that the log has now. When the log grows beyond
// that, more look-ups find nothing.
func NewFilter(size uint64) *Filter {
	return &Filter{keys: bloom.New(min(max(32*size, filterBitsMin), filterBitsMax))}
}

// Add adds a key. It must be called before the commit of its entry is visible.
func (f *Filter) Add(key *ID) { f.keys.Add((*[sha256.Size]byte)(key[1:])) }

// Denies reports that the key stands in no commit that was visible at the time of the call.
func (f *Filter) Denies(key *ID) bool {
	return f.ready.Load() && f.keys.Denies((*[sha256.Size]byte)(key[1:]))
}

// Find is [find] for a key that the filter does not deny.
func (f *Filter) Find(r pebble.Reader, key *ID) (index uint64, ok bool, err error) {
	if f.Denies(key) {
		return 0, false, nil
	}
	if index, ok, err = find(r, key[:]); err != nil {
		err = fmt.Errorf("dedup: look up key %x: %w", *key, err)
	}
	return index, ok, err
}

// Ready reports whether Load has ended well. Until then the filter denies nothing.
func (f *Filter) Ready() bool { return f.ready.Load() }

// Load adds the keys in the store of a log of size entries. It checks that each entry has a key,
// because a duplicate of an entry without a key would be registered as new.
func (f *Filter) Load(ctx context.Context, r pebble.Reader, size uint64) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{KeyPrefix}, UpperBound: []byte{KeyPrefix + 1}})
	if err != nil {
		return fmt.Errorf("ledger: read dedup keys: %w", engine.Classed(err))
	}
	seen, count := make([]uint64, (size+63)/64), uint64(0)
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if len(key) != 1+sha256.Size || len(value) != 8 {
			err = fmt.Errorf("%w: dedup key %x of %d bytes, with %d", engine.ErrCorrupt, key, len(key), len(value))
			break
		}
		index := binary.BigEndian.Uint64(value)
		if index >= size || seen[index/64]&(1<<(index%64)) != 0 {
			err = fmt.Errorf("%w: dedup key %x: entry %d, which is not there or has another", engine.ErrCorrupt, key, index)
			break
		}
		seen[index/64] |= 1 << (index % 64)
		f.Add((*ID)(key))
		count++
	}
	if err := cmp.Or(err, engine.Classed(it.Close()), ctx.Err()); err != nil {
		return fmt.Errorf("ledger: read dedup keys: %w", err)
	}
	if count != size {
		return fmt.Errorf("ledger: read dedup keys: %w: there are %d in a log of size %d", engine.ErrCorrupt, count, size)
	}
	f.ready.Store(true)
	return nil
}

// Recent keeps the dedup keys of the newest entries, the commit in the making included, in two
// generations. With it, the order does not look in the store again for an entry that was
// looked up before.
type Recent struct {
	// Since is the index from which on every entry is remembered.
	Since    uint64
	next     uint64 // Since of the younger generation
	old, new map[ID]uint64
}

// NewRecent returns the memory of a log that has size entries, none of which it remembers.
func NewRecent(size uint64) *Recent {
	return &Recent{Since: size, next: size, new: map[ID]uint64{}}
}

// Find returns the index of the entry with that key.
func (r *Recent) Find(key *ID) (index uint64, ok bool) {
	if index, ok = r.new[*key]; !ok {
		index, ok = r.old[*key]
	}
	return index, ok
}

// Add remembers the entry at index.
func (r *Recent) Add(key *ID, index uint64) { r.new[*key] = index }

// Remove forgets an entry that Add was called for since the last call of Turn.
func (r *Recent) Remove(key *ID) { delete(r.new, *key) }

// Turn starts a new generation when the younger one is full. size is that of the log.
func (r *Recent) Turn(size uint64) {
	if len(r.new) < recentSize {
		return
	}
	r.old, r.Since = r.new, r.next
	r.new, r.next = make(map[ID]uint64, recentSize), size
}
