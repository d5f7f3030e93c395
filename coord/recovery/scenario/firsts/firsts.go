// Package firsts remembers on which line each id of a stream stood first. Memory has the newest
// ids. The others are in sorted runs of a temporary file, and memory keeps two bytes of each: a
// filter says of most ids that no run has them.
package firsts

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sort"

	"recoveryledger/ledger/bloom"
)

// RunIDs is how many ids memory has before they become a run.
const RunIDs = 1 << 16

const (
	recordSize = sha256.Size + 4
	filterBits = 16 // for each id of a run: one in some 400 other ids passes
)

type key = [sha256.Size]byte

// Lines has the first lines of ids. The zero value is empty. One goroutine uses Lines.
type Lines struct {
	newest map[key]int32
	runs   []run
	file   *os.File
	size   int64 // of the file
	inRAM  bool  // no temporary file can be had: all ids stay in memory
}

// run is a sorted part of the file.
type run struct {
	at     int64
	ids    int
	filter *bloom.Filter
}

// First returns the line on which an id stood first; 0: it is new, and stands on this line. Lines
// count from 1. An error is one of the temporary file.
func (l *Lines) First(id string, line int32) (first int32, err error) {
	k := sha256.Sum256([]byte(id))
	if first, ok := l.newest[k]; ok {
		return first, nil
	}
	for i := range l.runs {
		if l.runs[i].filter.Denies(&k) {
			continue
		}
		if first, err := l.find(&l.runs[i], &k); first > 0 || err != nil {
			return first, err
		}
	}
	if l.newest == nil {
		l.newest = map[key]int32{}
	}
	if l.newest[k] = line; len(l.newest) >= RunIDs && !l.inRAM {
		l.spill()
	}
	return 0, nil
}

// find looks a key up in a run.
func (l *Lines) find(r *run, k *key) (int32, error) {
	var record [recordSize]byte
	var err error
	read := func(i int) {
		if _, wrong := l.file.ReadAt(record[:], r.at+int64(i)*recordSize); err == nil && wrong != nil {
			err = wrong
		}
	}
	at := sort.Search(r.ids, func(i int) bool {
		read(i)
		return bytes.Compare(record[:sha256.Size], k[:]) >= 0
	})
	if at == r.ids && err == nil {
		return 0, nil
	}
	if read(at); err != nil {
		return 0, fmt.Errorf("firsts: %w", err)
	}
	if key(record[:sha256.Size]) != *k {
		return 0, nil
	}
	return int32(binary.BigEndian.Uint32(record[sha256.Size:])), nil
}

// spill makes a run of the ids in memory. Where there is no room for a file, they stay.
func (l *Lines) spill() {
	if l.file == nil {
		f, err := os.CreateTemp("", "arl-ids-*")
		if err != nil {
			l.inRAM = true
			return
		}
		_ = os.Remove(f.Name()) // a crash leaves nothing; Windows refuses, and Close removes it
		l.file = f
	}
	type record struct {
		key  key
		line int32
	}
	all := make([]record, 0, len(l.newest))
	for k, line := range l.newest {
		all = append(all, record{k, line})
	}
	slices.SortFunc(all, func(a, b record) int { return bytes.Compare(a.key[:], b.key[:]) })
	text := make([]byte, 0, len(all)*recordSize)
	for i := range all {
		text = binary.BigEndian.AppendUint32(append(text, all[i].key[:]...), uint32(all[i].line))
	}
	if _, err := l.file.WriteAt(text, l.size); err != nil {
		l.inRAM = true
		return
	}
	r := run{at: l.size, ids: len(all), filter: bloom.New(filterBits * uint64(len(all)))}
	for i := range all {
		r.filter.Add(&all[i].key)
	}
	l.runs, l.size = append(l.runs, r), l.size+int64(len(text))
	clear(l.newest)
}

// Close removes the temporary file.
func (l *Lines) Close() error {
	if l.file == nil {
		return nil
	}
	name := l.file.Name()
	err := l.file.Close()
	if wrong := os.Remove(name); !os.IsNotExist(wrong) {
		err = cmp.Or(err, wrong)
	}
	return err
}
