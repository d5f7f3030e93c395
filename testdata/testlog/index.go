package testlog

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Index is the index of a log, made by the definition (IDX-1, IDX-2). A test may
// change Lists before it proves: then it is a false one.
type Index struct {
	Size  uint64
	Lists map[entry.Subject]map[entry.Label][]uint64
}

// Index returns the index of the first size leaves.
func (l *Log) Index(size int) *Index {
	l.TB.Helper()
	x := &Index{Size: uint64(size), Lists: map[entry.Subject]map[entry.Label][]uint64{}}
	for i, leaf := range l.Leaves[:size] {
		e, _, err := entry.DecodeLeaf(leaf)
		must(l.TB, err)
		for _, listing := range e.Subjects(uint64(i)) {
			of := x.Lists[listing.Subject]
			if of == nil {
				of = map[entry.Label][]uint64{}
				x.Lists[listing.Subject] = of
			}
			of[listing.Label] = append(of[listing.Label], uint64(i))
		}
	}
	return x
}

func listOf(indexes []uint64) *merkle.Tree {
	var list merkle.Tree
	for _, index := range indexes {
		list.Append(merkle.HashIndex(index))
	}
	return &list
}

// rows returns the record of a subject.
func (x *Index) rows(s entry.Subject) (rows []merkle.Row) {
	for _, label := range slices.Sorted(maps.Keys(x.Lists[s])) {
		indexes := x.Lists[s][label]
		rows = append(rows, merkle.Row{Label: string(label), Count: uint64(len(indexes)), Root: listOf(indexes).Head(uint64(len(indexes))).Root})
	}
	return rows
}

// tree returns the prefix tree.
func (x *Index) tree() *merkle.PrefixTree {
	var leaves []merkle.PrefixLeaf
	for s := range x.Lists {
		if rows := x.rows(s); len(rows) > 0 {
			record, err := merkle.HashRecord(rows)
			if err != nil {
				panic(err) // a test has made rows that are none
			}
			leaves = append(leaves, merkle.PrefixLeaf{Key: merkle.SubjectKey(string(s.Type), s.Value), Record: record})
		}
	}
	slices.SortFunc(leaves, func(a, b merkle.PrefixLeaf) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	tree := new(merkle.PrefixTree)
	if err := tree.Update(leaves); err != nil {
		panic(err)
	}
	return tree
}

// Entry returns the content of the index entry, by the issuer.
func (x *Index) Entry(h entry.Header) *entry.LogIndex {
	tree := x.tree()
	return &entry.LogIndex{Header: h, Algorithm: entry.IndexAlgorithm, Size: x.Size, Root: tree.Root(), Subjects: uint64(tree.Size())}
}

// Prove returns what the index says about subjects, with their whole lists.
func (x *Index) Prove(subjects ...entry.Subject) verify.Indexed {
	key := func(s entry.Subject) merkle.Hash { return merkle.SubjectKey(string(s.Type), s.Value) }
	subjects = slices.Clone(subjects)
	slices.SortFunc(subjects, func(a, b entry.Subject) int {
		i, j := key(a), key(b)
		return bytes.Compare(i[:], j[:])
	})
	var keys []merkle.Hash
	for _, s := range subjects {
		keys = append(keys, key(s))
	}
	answers, path, err := x.tree().Prove(keys)
	if err != nil {
		panic(err)
	}
	var out verify.Indexed
	for i, a := range answers {
		p := verify.SubjectProof{Subject: subjects[i], Rows: x.rows(subjects[i]), Depth: a.Depth}
		if !a.Present() && a.Leaf != (merkle.PrefixLeaf{}) {
			p.Other = &a.Leaf
		}
		for _, row := range p.Rows {
			p.Lists = append(p.Lists, x.Run(subjects[i], entry.Label(row.Label), 0, row.Count))
		}
		out.Subjects = append(out.Subjects, p)
	}
	for _, h := range path {
		out.Prefix = append(out.Prefix, verify.Sibling(h))
	}
	return out
}

// Run returns n ranks of a list from rank from on.
func (x *Index) Run(s entry.Subject, label entry.Label, from, n uint64) verify.ListRun {
	indexes := x.Lists[s][label]
	path, err := merkle.ProveRun(from, n, uint64(len(indexes)), listOf(indexes).Node)
	if err != nil {
		panic(err)
	}
	return verify.ListRun{Label: label, From: from, Indexes: indexes[from : from+n], Path: path}
}

// AddIndex logs the entry of an index by a key, and returns where it stands.
func (l *Log) AddIndex(k Key, x *Index) uint64 {
	l.TB.Helper()
	return l.Add(k.Sign(l.TB, x.Entry(l.Header(k.Principal))))
}

// Prove proves entries together under the head of a size; indexes need not ascend.
func (l *Log) Prove(size int, indexes ...uint64) (leaves []verify.Leaf, inclusion []merkle.Hash) {
	l.TB.Helper()
	indexes = slices.Clone(indexes)
	slices.SortFunc(indexes, cmp.Compare)
	indexes = slices.Compact(indexes)
	for _, index := range indexes {
		leaves = append(leaves, verify.Leaf{Index: index, Bytes: l.Leaves[index]})
	}
	inclusion, err := merkle.ProveInclusions(indexes, uint64(size), l.Node)
	must(l.TB, err)
	return leaves, inclusion
}

// History returns the history of subjects up to the newest head, by the index whose
// entry stands at an index: with all policies and agent entries, what the index lists,
// and all behind it.
func (l *Log) History(x *Index, at uint64, subjects ...entry.Subject) *verify.History {
	l.TB.Helper()
	size := len(l.Leaves)
	h := &verify.History{Head: l.Signed(size), Index: at, Indexed: x.Prove(subjects...), Size: uint64(size)}
	needed := []uint64{at}
	for i, leaf := range l.Leaves {
		e, _, err := entry.DecodeLeaf(leaf)
		must(l.TB, err)
		if uint64(i) >= x.Size || e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent {
			needed = append(needed, uint64(i))
		}
	}
	for _, s := range h.Subjects {
		for _, run := range s.Lists {
			needed = append(needed, run.Indexes...)
		}
	}
	h.Entries, h.Inclusion = l.Prove(size, needed...)
	return h
}
