package complete

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// CheckReport lists the parts of an index that [Check] computed again and found correct.
type CheckReport struct {
	Size     uint64      `json:"size"` // entries that the store covers; those behind are replayed at the next start
	Root     merkle.Hash `json:"root"` // of the index over them
	Subjects uint64      `json:"subjects"`
	Keys     uint64      `json:"keys"` // of the store that were compared; 0: there is no store yet
}

// Check computes the index of a log again, and compares the store in a directory with it: the mark,
// all records, and all stored parts of lists. Check changes nothing. A store that covers fewer
// entries than the log is sound, and so is a missing store. Of the Config, Check uses Log, HeadAt
// and FS. The first difference is [ErrStore]. No process may have the store open. tell hears how
// far Check is: in entries, and then in entries and keys of the store.
func Check(ctx context.Context, dir string, cfg Config, tell func(done, total uint64)) (*CheckReport, error) {
	c := New(dir, cfg).cfg
	if _, err := c.FS.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &CheckReport{}, nil
	}
	var broken error
	options := storeOptions(c.FS, slog.New(slog.DiscardHandler), func(err error) { broken = err })
	options.ReadOnly, options.ErrorIfNotExists = true, true
	s, err := openEngine(dir, options)
	if err != nil {
		if written, listErr := hasTables(c.FS, dir); written || listErr != nil {
			return nil, errors.Join(err, listErr)
		}
		return &CheckReport{}, nil
	}
	k := checker{cfg: &c, store: s, want: map[string]stored{}, tell: tell}
	err = k.run(ctx)
	if err := errors.Join(err, broken, s.close()); err != nil {
		return nil, err
	}
	return &CheckReport{Size: k.mark.size, Root: k.mark.root, Subjects: k.subjects, Keys: k.keys}, nil
}

// hasTables reports whether the engine has written a table. Without one, nothing is stored:
// a crash while the store was made leaves files of the engine that do not go together.
func hasTables(files vfs.FS, dir string) (bool, error) {
	names, err := files.List(dir)
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") }), err
}

// checker is one run of Check.
type checker struct {
	cfg      *Config
	store    *store
	mark     mark
	want     map[string]stored // keys and values that the log gives, and that were not found in the store yet
	subjects uint64
	keys     uint64
	tell     func(done, total uint64) // of entries, and then of keys, too
}

// stored is the value that the log gives for a key of the store.
type stored struct {
	value []byte
	due   bool // whether the value must be there: it follows from the entries that the store covers
}

func (k *checker) run(ctx context.Context) (err error) {
	if k.mark, err = k.store.mark(); err != nil {
		return err
	}
	size := k.cfg.Log.Size()
	if k.mark.size > size || k.mark.seen > size {
		return fmt.Errorf("%w: it covers %d entries, and the log has %d", ErrStore, max(k.mark.size, k.mark.seen), size)
	}
	if head, err := k.cfg.HeadAt(k.mark.size); err != nil {
		return err
	} else if k.mark.size > 0 && head.Root != k.mark.log {
		return fmt.Errorf("%w: it is of a log that had root %s at size %d, where this one has %s", ErrStore, k.mark.log, k.mark.size, head.Root)
	}
	if err := k.compute(ctx, size); err != nil {
		return err
	}
	if err := k.compare(ctx, size); err != nil {
		return err
	}
	k.tell(size+k.keys, size+k.keys)
	return nil
}

// compute makes the index of the log again. A crash may have left parts of lists beyond the entries
// that the store covers. These parts are right if the log gives them.
func (k *checker) compute(ctx context.Context, size uint64) error {
	t := NewTree()
	t.stored = func(s *subtree) {
		due := t.size < k.mark.size
		k.want[string(place(keyNode, s.key, s.label, s.level, s.number))] = stored{bytes.Clone(s.root[:]), due}
		if s.level == chunkLevel {
			k.want[string(place(keyList, s.key, s.label, 0, s.number))] = stored{bytes.Clone(s.indexes), due}
		}
	}
	if err := k.covered(t); err != nil {
		return err
	}
	for e, err := range k.cfg.Log.Entries(ctx, 0, size) {
		if err == nil {
			err = k.passed(e)
		}
		if err == nil {
			err = t.Add(e.Entry)
		}
		if err == nil {
			err = k.covered(t)
		}
		if err != nil {
			return err
		}
		k.tell(t.size, size)
	}
	return nil
}

// covered notes the records that the store must have, once the tree is as far as the store.
func (k *checker) covered(t *Tree) error {
	if t.size != k.mark.size {
		return nil
	}
	root, err := t.Root()
	if err != nil {
		return err
	}
	if root != k.mark.root && t.size > 0 {
		return fmt.Errorf("%w: it says root %s of %d entries, and they give %s", ErrStore, k.mark.root, t.size, root)
	}
	k.subjects = t.Subjects()
	for key, value := range t.Records() {
		k.want[string(append([]byte{keyRecord}, key[:]...))] = stored{bytes.Clone(value), true}
	}
	return nil
}

// passed compares an entry with the place from which the index looks for index entries. The store
// covers the index entries before that place. The index entries after it cover at least as much.
func (k *checker) passed(e *entry.Registered) error {
	x, ok := e.Body.(*entry.LogIndex)
	if !ok || (e.Index >= k.mark.seen || x.Size <= k.mark.size) && (e.Index < k.mark.seen || x.Size >= k.mark.size) {
		return nil
	}
	return fmt.Errorf("%w: it covers %d entries and goes on at entry %d, and index entry %d covers %d", ErrStore, k.mark.size, k.mark.seen, e.Index, x.Size)
}

// compare reads the whole store. Every due value must be there, and no value that the log does not
// give. entries is how many steps were done before.
func (k *checker) compare(ctx context.Context, entries uint64) error {
	total := entries + uint64(len(k.want))
	it, err := k.store.db.NewIter(nil)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrStore, err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		k.keys++
		if string(it.Key()) == string(keyMark) {
			continue
		}
		want, known := k.want[string(it.Key())]
		if !known || !bytes.Equal(want.value, it.Value()) {
			err = fmt.Errorf("%w: key %x is not what the log gives", ErrStore, it.Key())
		}
		delete(k.want, string(it.Key()))
		err = errors.Join(err, ctx.Err())
		k.tell(min(entries+k.keys, total), total)
	}
	if closed := it.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("%w: %v", ErrStore, closed))
	}
	if err != nil {
		return err
	}
	for key, want := range k.want {
		if want.due {
			return fmt.Errorf("%w: key %x is missing", ErrStore, key)
		}
	}
	return nil
}
