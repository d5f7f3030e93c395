package complete

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Keys begin with one byte that says what they are. Numbers are big-endian.
//
//	M                                          what is stored: see mark
//	R ‖ key                                    record of a subject
//	L ‖ key ‖ u8 len ‖ label ‖ u32 number      64 indexes of a list, as distances
//	N ‖ key ‖ u8 len ‖ label ‖ level ‖ u32 number   root of a perfect subtree of a list, of 64, 64² … indexes
//
// Records and mark are written together, in one batch: a crash leaves those of one
// size. L and N never change once they are complete, and are written again with the
// same bytes where a rebuild comes by.
const (
	keyMark   = 'M'
	keyRecord = 'R'
	keyList   = 'L'
	keyNode   = 'N'
)

// storeFormat begins the mark. A store of another format is made anew.
const storeFormat = "arl index store 2\n"

// ErrStore reports stored bytes that this package did not write, that are not of one index, or that
// are of the index of another log. After the directory of the store is deleted, the Index builds it
// again.
var ErrStore = errors.New("complete: the store is damaged")

// mark names the log and the size of the stored records.
type mark struct {
	size uint64      // entries
	root merkle.Hash // of the tree over the records
	log  merkle.Hash // root of the log's own tree over the entries
	seen uint64      // entries that were searched for index entries
}

func (m mark) encode() []byte {
	out := append(append([]byte(storeFormat), m.root[:]...), m.log[:]...)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(out, m.size), m.seen)
}

func decodeMark(value []byte) (m mark, err error) {
	if len(value) != len(storeFormat)+2*merkle.HashSize+16 || string(value[:len(storeFormat)]) != storeFormat {
		return m, fmt.Errorf("%w: its mark has another form", ErrStore)
	}
	value = value[len(storeFormat):]
	m.root, m.log = merkle.Hash(value[:merkle.HashSize]), merkle.Hash(value[merkle.HashSize:2*merkle.HashSize])
	value = value[merkle.HashSize:]
	m.size, m.seen = binary.BigEndian.Uint64(value[merkle.HashSize:]), binary.BigEndian.Uint64(value[merkle.HashSize+8:])
	return m, nil
}

// store is the database of an index.
type store struct {
	db    *pebble.DB
	batch *pebble.Batch // L and N that are not applied yet
}

// labels are all that a row may have.
var labels = sync.OnceValue(func() map[string]entry.Label {
	all := map[string]entry.Label{}
	for _, of := range entry.SubjectTypes() {
		for _, label := range entry.Labels(of) {
			all[string(label)] = label
		}
	}
	return all
})

const (
	cacheSize    = 32 << 20
	memTableSize = 16 << 20
	blockSize    = 16 << 10
)

// openStore opens the database in a directory, or makes it. It calls broken with an error after
// which the engine cannot continue.
func openStore(fs vfs.FS, dir string, logger *slog.Logger, broken func(error)) (*store, error) {
	return openEngine(dir, storeOptions(fs, logger, broken))
}

func storeOptions(fs vfs.FS, logger *slog.Logger, broken func(error)) *pebble.Options {
	options := &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: &engineLogger{logger, broken},
		CacheSize: cacheSize, MemTableSize: memTableSize, DisableWAL: true,
	}
	// A reader of damaged bytes gets an error, and no process has to end.
	options.EventListener = &pebble.EventListener{DataCorruption: func(info pebble.DataCorruptionInfo) {
		logger.Error("the store of the index is damaged", "file", info.Path, "error", info.Details.Error())
	}}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range options.Levels {
		options.Levels[i].BlockSize = blockSize
	}
	return options
}

func openEngine(dir string, options *pebble.Options) (*store, error) {
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrStore, dir, err)
	}
	return &store{db: db, batch: db.NewBatch()}, nil
}

func (s *store) close() error { return errors.Join(s.batch.Close(), s.db.Close()) }

// engineLogger passes on the messages of the engine. The engine must not end the process: an index
// that cannot be written is made anew, and the ledger continues.
type engineLogger struct {
	logger *slog.Logger
	broken func(error)
}

// Infof implements [pebble.Logger].
func (l *engineLogger) Infof(string, ...any) {}

// Errorf implements [pebble.Logger].
func (l *engineLogger) Errorf(format string, args ...any) {
	l.logger.Error("the store of the index", "error", fmt.Sprintf(format, args...))
}

// Fatalf implements [pebble.Logger]. It does not return, because the engine would continue after a
// failed write.
func (l *engineLogger) Fatalf(format string, args ...any) {
	l.broken(fmt.Errorf("%w: %s", ErrStore, fmt.Sprintf(format, args...)))
	select {}
}

// place returns the key of something in a list.
func place(sort byte, key merkle.Hash, label entry.Label, level uint, number uint64) []byte {
	out := make([]byte, 0, 1+merkle.HashSize+1+len(label)+1+4)
	out = append(append(out, sort), key[:]...)
	out = append(append(out, byte(len(label))), label...)
	if sort == keyNode {
		out = append(out, byte(level))
	}
	return binary.BigEndian.AppendUint32(out, uint32(number))
}

// put notes a perfect subtree of a list, and the indexes of a chunk.
func (s *store) put(t *subtree) {
	_ = s.batch.Set(place(keyNode, t.key, t.label, t.level, t.number), t.root[:], nil) // fails only on a closed batch
	if t.level == chunkLevel {
		_ = s.batch.Set(place(keyList, t.key, t.label, 0, t.number), t.indexes, nil)
	}
}

// apply makes the new values visible to readers.
func (s *store) apply() error {
	if s.batch.Empty() {
		return nil
	}
	err := s.db.Apply(s.batch, pebble.NoSync)
	s.batch.Reset()
	if err != nil {
		return fmt.Errorf("%w: %v", ErrStore, err)
	}
	return nil
}

// write makes records and mark durable, in one piece.
func (s *store) write(records map[merkle.Hash]*record, m mark) error {
	err := s.apply()
	batch := s.db.NewBatch()
	var buf []byte
	for _, key := range keysOf(records) {
		buf = appendRecord(buf[:0], records[key])
		err = errors.Join(err, batch.Set(append([]byte{keyRecord}, key[:]...), buf, nil))
	}
	err = errors.Join(err, batch.Set([]byte{keyMark}, m.encode(), nil))
	if err == nil {
		err = s.db.Apply(batch, pebble.NoSync)
	}
	if err = errors.Join(err, batch.Close()); err == nil {
		err = s.db.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: write: %v", ErrStore, err)
	}
	return nil
}

// mark returns the stored mark, or the zero mark.
func (s *store) mark() (mark, error) {
	value, err := s.get([]byte{keyMark})
	if errors.Is(err, pebble.ErrNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	return decodeMark(value)
}

func (s *store) get(key []byte) ([]byte, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrStore, err)
	}
	return append([]byte(nil), value...), closer.Close()
}

// record returns the stored record of a key.
func (s *store) record(key merkle.Hash) (*record, error) {
	value, err := s.get(append([]byte{keyRecord}, key[:]...))
	if err != nil {
		return nil, fmt.Errorf("%w: record %s: %v", ErrStore, key, err)
	}
	return decodeRecord(value)
}

// appendRecord appends the stored form of a record: for each row
//
//	u8 len ‖ label ‖ uvarint count ‖ roots of its perfect subtrees of 64 indexes and more ‖ uvarint last ‖ uvarint len ‖ tail
func appendRecord(dst []byte, r *record) []byte {
	for i := range r.rows {
		one := &r.rows[i]
		dst = append(append(dst, byte(len(one.label))), one.label...)
		count := one.list.Size()
		dst = binary.AppendUvarint(dst, count)
		for _, h := range one.list.Edge()[:bits.OnesCount64(count>>chunkLevel)] {
			dst = append(dst, h[:]...)
		}
		dst = binary.AppendUvarint(dst, one.last)
		dst = append(binary.AppendUvarint(dst, uint64(len(one.tail))), one.tail...)
	}
	return dst
}

// decodeRecord reads the output of appendRecord, and computes the values that appendRecord leaves
// out.
func decodeRecord(value []byte) (*record, error) {
	r, in := &record{}, reader{rest: value}
	for len(in.rest) > 0 && !in.failed {
		label, known := labels()[string(in.take(uint64(in.byte())))]
		one := row{label: label, stale: true}
		count := in.uvarint()
		edge := make([]merkle.Hash, 0, bits.OnesCount64(count))
		for range bits.OnesCount64(count >> chunkLevel) {
			var h merkle.Hash
			copy(h[:], in.take(merkle.HashSize))
			edge = append(edge, h)
		}
		one.last = in.uvarint()
		tail := in.take(in.uvarint())
		indexes, err := readIndexes(tail, int(count%chunkSize))
		if n := len(r.rows); n > 0 && r.rows[n-1].label >= label || len(indexes) > 0 && indexes[len(indexes)-1] != one.last {
			known = false
		}
		if !known || err != nil || in.failed {
			return nil, fmt.Errorf("%w: a record of %d bytes", ErrStore, len(value))
		}
		list, err := merkle.ResumeFrontier(count&^(chunkSize-1), edge)
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrStore, err)
		}
		for _, index := range indexes {
			_ = list.Append(merkle.HashIndex(index), nil) // never fails
		}
		one.list, one.tail = *list, append([]byte(nil), tail...)
		r.rows = append(r.rows, one)
	}
	if len(r.rows) == 0 {
		return nil, fmt.Errorf("%w: an empty record", ErrStore)
	}
	return r, nil
}

// reader reads a value. After a failure it reads zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// tree returns the tree over the stored records, if it is that of the mark.
func (s *store) tree(m mark) (*Tree, error) {
	t := NewTree()
	t.stored, t.size = s.put, m.size
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyRecord}, UpperBound: []byte{keyRecord + 1}})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrStore, err)
	}
	var batch []merkle.PrefixLeaf
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var of *record
		var hash merkle.Hash
		if of, err = decodeRecord(it.Value()); err == nil {
			hash, err = merkle.HashRecord(of.view())
		}
		leaf := merkle.PrefixLeaf{Record: hash}
		if copy(leaf.Key[:], it.Key()[1:]) != merkle.HashSize {
			err = fmt.Errorf("%w: key %x", ErrStore, it.Key())
		}
		batch = append(batch, leaf)
	}
	if err = errors.Join(err, it.Close()); err == nil {
		err = t.prefix.Update(batch)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrStore, err)
	}
	if root := t.prefix.Root(); root != m.root {
		return nil, fmt.Errorf("%w: its records give root %s, and it says %s of size %d", ErrStore, root, m.root, m.size)
	}
	return t, nil
}
