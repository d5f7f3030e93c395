package complete

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// record returns the record of a key that is in the tree, as it was written; the
// caller holds mu.
func (x *Index) record(key merkle.Hash) (*record, error) {
	if of, ok := x.previous[key]; ok {
		return of, nil
	}
	of, err := x.store.record(key)
	if err != nil {
		return nil, err
	}
	want, _ := x.tree.prefix.Record(key)
	if hash, err := merkle.HashRecord(of.view()); err != nil || hash != want {
		return nil, fmt.Errorf("%w: record %s is not that of the tree", ErrStore, key)
	}
	return of, nil
}

// Part says which part of some lists is asked for.
type Part struct {
	Labels map[entry.SubjectType][]entry.Label // of the lists, by the type of their subject
	From   uint64                              // first index that counts
	To     uint64                              // first index behind
	Limit  int                                 // at most so many entries, the oldest; 0: all
	// Beside are subjects whose lists are shown from their first entry on, up to the end of the
	// part. From and Limit do not apply to them.
	Beside map[entry.Subject]bool
}

// Proof is the proof of an Index about subjects, under its newest index entry.
type Proof struct {
	verify.Indexed
	Entry *entry.Registered // the index entry
	Found []uint64          // indexes of the part that the lists name, ascending, without the subjects beside
	// given are the indexes that the runs show below the end of the part, in no order. The
	// entry before the part is among them: a reader without the question knows of no part.
	given []uint64
	To    uint64 // where the part ends: at Part.To, or before the first entry beyond the limit
}

// Prove returns the records of subjects, and the part of each list. Prove checks each proof before
// it returns the proof, because the store may be damaged. The error is [ErrNotReady] or
// [ErrStopped].
func (x *Index) Prove(subjects []entry.Subject, part Part) (*Proof, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.shown == nil {
		if fault := x.fault.Load(); fault != nil {
			return nil, fmt.Errorf("%w: %v", ErrStopped, *fault)
		}
		return nil, fmt.Errorf("%w: no index entry covers what it covers", ErrNotReady)
	}
	p := &Proof{Entry: x.shown, To: part.To}
	var keys []merkle.Hash
	for _, s := range subjects {
		keys = append(keys, Key(s))
	}
	order := make([]int, len(subjects))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(keys[a][:], keys[b][:]) })
	slices.SortFunc(keys, func(a, b merkle.Hash) int { return bytes.Compare(a[:], b[:]) })
	answers, path, err := x.tree.prefix.Prove(keys)
	if err != nil {
		return nil, err
	}
	for _, h := range path {
		p.Prefix = append(p.Prefix, verify.Sibling(h))
	}
	var lists []*list
	for i, a := range answers {
		s := verify.SubjectProof{Subject: subjects[order[i]], Depth: a.Depth}
		switch {
		case a.Present():
			of, err := x.recordOf(a.Key)
			if err != nil {
				return nil, x.unfit(err)
			}
			s.Rows = of.rowsNow()
			for j := range of.rows {
				if slices.Contains(part.Labels[s.Type], of.rows[j].label) {
					lists = append(lists, &list{store: x.store, key: a.Key, row: &of.rows[j], subject: i, beside: part.Beside[s.Subject]})
				}
			}
		case a.Leaf != merkle.PrefixLeaf{}:
			s.Other = &a.Leaf
		}
		p.Subjects = append(p.Subjects, s)
	}
	if err := p.run(lists, part); err != nil {
		return nil, x.unfit(err)
	}
	if _, err := p.Check(p.Entry.Body.(*entry.LogIndex)); err != nil {
		return nil, x.unfit(fmt.Errorf("%w: a proof of it does not verify: %v", ErrStore, err))
	}
	return p, nil
}

// unfit stops the Index where its store is at fault.
func (x *Index) unfit(err error) error {
	if errors.Is(err, ErrStore) {
		x.stop(err)
		return fmt.Errorf("%w: %v", ErrStopped, err)
	}
	return err
}

// recordOf returns the record of a key as the tree has it.
func (x *Index) recordOf(key merkle.Hash) (*record, error) {
	if of, ok := x.tree.records[key]; ok {
		return of, nil
	}
	return x.record(key)
}

// rowsNow is view of a record that does not change, for concurrent readers.
func (r *record) rowsNow() []merkle.Row {
	rows := make([]merkle.Row, len(r.rows))
	for i := range r.rows {
		one := &r.rows[i]
		head, _ := one.list.Head() // never fails
		rows[i] = merkle.Row{Label: string(one.label), Count: head.Size, Root: head.Root}
	}
	return rows
}

// run adds the part of each list.
func (p *Proof) run(lists []*list, part Part) error {
	for _, l := range lists {
		if l.beside {
			continue
		}
		if err := l.cut(part.From, part.To, part.Limit); err != nil {
			return err
		}
		p.Found = append(p.Found, l.inside...)
	}
	slices.Sort(p.Found)
	p.Found = slices.Compact(p.Found)
	limited := part.Limit > 0 && len(p.Found) > part.Limit
	if limited {
		p.To = p.Found[part.Limit]
		p.Found = p.Found[:part.Limit]
	}
	for _, l := range lists {
		from := part.From
		switch {
		case l.beside:
			from = 0
		case !limited:
			continue
		}
		if err := l.cut(from, p.To, 0); err != nil {
			return err
		}
	}
	for _, l := range lists {
		run, err := l.run()
		if err != nil {
			return err
		}
		of := &p.Subjects[l.subject]
		of.Lists = append(of.Lists, run)
		for _, index := range run.Indexes {
			if index < p.To {
				p.given = append(p.given, index)
			}
		}
	}
	return nil
}

// list is a list that a part is cut from.
type list struct {
	store   *store
	key     merkle.Hash
	row     *row
	subject int
	beside  bool // see [Part]

	from, to uint64   // ranks that are shown: the ranks of the part, and one on each side
	inside   []uint64 // indexes of the part

	number uint64   // of the chunk that was read last
	chunks []uint64 // its indexes; nil: none was read
}

// cut finds the ranks from the last index below first to the first one from end on,
// and the indexes between; at most limit + 1 of them, unless limit is 0.
func (l *list) cut(first, end uint64, limit int) error {
	count := l.row.list.Size()
	low, err := l.rank(first)
	if err != nil {
		return err
	}
	l.from, l.inside = low-min(low, 1), nil
	rank := low
	for ; rank < count; rank++ {
		index, err := l.at(rank)
		if err != nil {
			return err
		}
		if index >= end || limit > 0 && len(l.inside) > limit {
			break
		}
		l.inside = append(l.inside, index)
	}
	l.to = min(rank+1, count)
	return nil
}

// rank returns the first rank with an index that is not below first.
func (l *list) rank(first uint64) (uint64, error) {
	var failed error
	rank := sort.Search(int(l.row.list.Size()), func(rank int) bool {
		index, err := l.at(uint64(rank))
		failed = errors.Join(failed, err)
		return err != nil || index >= first
	})
	return uint64(rank), failed
}

// at returns the index at a rank.
func (l *list) at(rank uint64) (uint64, error) {
	chunk, err := l.chunk(rank / chunkSize)
	if err != nil {
		return 0, err
	}
	return chunk[rank%chunkSize], nil
}

// chunk returns the indexes of a chunk. The last chunk may have fewer.
func (l *list) chunk(number uint64) ([]uint64, error) {
	if l.chunks != nil && l.number == number {
		return l.chunks, nil
	}
	indexes, err := l.read(number)
	l.number, l.chunks = number, indexes
	return indexes, err
}

func (l *list) read(number uint64) ([]uint64, error) {
	if number == l.row.list.Size()/chunkSize {
		return l.row.indexes()
	}
	value, err := l.store.get(place(keyList, l.key, l.row.label, 0, number))
	var indexes []uint64
	if err == nil {
		indexes, err = readIndexes(value, chunkSize)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: chunk %d of %s under %s: %v", ErrStore, number, l.row.label, l.key, err)
	}
	return indexes, nil
}

// run returns the ranks that cut found, with their proof.
func (l *list) run() (verify.ListRun, error) {
	r := verify.ListRun{Label: l.row.label, From: l.from, Indexes: make([]uint64, 0, l.to-l.from)}
	for rank := l.from; rank < l.to; rank++ {
		index, err := l.at(rank)
		if err != nil {
			return r, err
		}
		r.Indexes = append(r.Indexes, index)
	}
	var err error
	r.Path, err = merkle.ProveRun(l.from, l.to-l.from, l.row.list.Size(), l.node)
	return r, err
}

// node is a [merkle.NodeReader] over the list.
func (l *list) node(level uint, index uint64) (merkle.Hash, error) {
	if level < chunkLevel {
		chunk, err := l.chunk(index << level / chunkSize)
		if err != nil {
			return merkle.Hash{}, err
		}
		first := index << level % chunkSize
		leaves := make([]merkle.Hash, 0, 1<<level)
		for _, i := range chunk[first : first+1<<level] {
			leaves = append(leaves, merkle.HashIndex(i))
		}
		return merkle.HeadOf(leaves).Root, nil
	}
	base := level - level%chunkLevel
	nodes := make([]merkle.Hash, 1<<(level-base))
	for i := range nodes {
		value, err := l.store.get(place(keyNode, l.key, l.row.label, base, index<<(level-base)+uint64(i)))
		if err != nil || len(value) != merkle.HashSize {
			return merkle.Hash{}, fmt.Errorf("%w: node %d/%d of %s under %s: %v", ErrStore, base, i, l.row.label, l.key, err)
		}
		nodes[i] = merkle.Hash(value)
	}
	return merkle.HeadOf(nodes).Root, nil
}
