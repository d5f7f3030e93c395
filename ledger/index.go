package ledger

import (
	"bytes"
	"slices"

	"recoveryledger/ledger/tags"
)

// indexKey is a key of the dedup or of a secondary index, with its value.
type indexKey struct{ key, value []byte }

// putIndexes writes the index keys of the commit in order, which the store takes fastest.
func (l *Log) putIndexes(p *pending) {
	o := &l.order
	for tag, in := range p.tagged {
		p.index = append(p.index, indexKey{tags.Key(tag, in.First), in.Gaps})
	}
	slices.SortFunc(p.index, func(a, b indexKey) int { return bytes.Compare(a.key, b.key) })
	for _, index := range p.index {
		l.must(p.store.Set(index.key, index.value, nil))
	}
	clear(p.index)
	o.index, o.records = p.index, p.records
}
