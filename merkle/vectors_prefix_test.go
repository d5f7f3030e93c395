package merkle_test

import (
	"fmt"
	"slices"
	"strings"

	"recoveryledger/merkle"
)

// subjectOf is what a key is of.
type subjectOf struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// answerOf is a [merkle.PrefixAnswer]; without leaf nothing stands at the depth.
type answerOf struct {
	Key   merkle.Hash        `json:"key"`
	Depth int                `json:"depth"`
	Leaf  *merkle.PrefixLeaf `json:"leaf,omitempty"`
}

func (a answerOf) answer() merkle.PrefixAnswer {
	out := merkle.PrefixAnswer{Key: a.Key, Depth: a.Depth}
	if a.Leaf != nil {
		out.Leaf = *a.Leaf
	}
	return out
}

func addPrefix(all map[string]*vector) {
	for name, s := range map[string]subjectOf{
		"agent": {"agent", "booker"}, "incident": {"incident", "5"}, "log": {"log", ""}, "umlaut": {"task", "ä#ö"},
	} {
		all["prefix/key-"+name] = &vector{Desc: "key of a subject", Op: "key", Subject: &s, Want: merkle.SubjectKey(s.Type, s.Value)}
	}
	addRecords(all)
	addPrefixProofs(all)
	addRuns(all)
}

func listHead(indexes ...uint64) *headOf {
	var list merkle.Tree
	for _, index := range indexes {
		list.Append(merkle.HashIndex(index))
	}
	return headFor(list.Head(list.Size()))
}

func addRecords(all map[string]*vector) {
	rows := func(labels ...string) (out []merkle.Row) {
		for i, label := range labels {
			out = append(out, merkle.Row{Label: label, Count: 2, Root: listHead(uint64(i), uint64(i)+7).Root})
		}
		return out
	}
	hash := func(rows []merkle.Row) any {
		h, err := merkle.HashRecord(rows)
		if err != nil {
			return nil
		}
		return h
	}
	for _, c := range []struct {
		name, desc string
		rows       []merkle.Row
		wantErr    string
	}{
		{"one", "a record of one row", rows("execution"), ""},
		{"three", "a record of three rows", rows("agent/enrol<", "execution", "signal"), ""},
		{"longest", "the longest label", rows(strings.Repeat("x", 255)), ""},
		{"bad-none", "no row", nil, "malformed"},
		{"bad-empty", "an empty label", rows(""), "malformed"},
		{"bad-long", "a label of 256 bytes", rows(strings.Repeat("x", 256)), "malformed"},
		{"bad-order", "labels that descend", rows("signal", "execution"), "malformed"},
		{"bad-twice", "a label twice", rows("signal", "signal"), "malformed"},
		{"bad-count", "a row without entries", []merkle.Row{{Label: "signal"}}, "malformed"},
	} {
		all["prefix/record-"+c.name] = &vector{Desc: c.desc, Op: "record", Rows: c.rows, WantErr: c.wantErr, Want: hash(c.rows)}
	}
}

// pageTree is the tree of the log in TestPrefixPage.
func pageTree() (tree merkle.PrefixTree, leaves []merkle.PrefixLeaf) {
	row := func(label string, indexes ...uint64) merkle.Row {
		list := listHead(indexes...)
		return merkle.Row{Label: label, Count: list.Size, Root: list.Root}
	}
	decided, executed, signaled := row("decision/authorize", 6), row("execution", 3, 4), row("signal", 5)
	records := map[merkle.Hash]merkle.Hash{}
	for subject, rows := range map[subjectOf][]merkle.Row{
		{"agent", "booker"}:      {row("agent/enrol<", 2), executed, signaled},
		{"agent", "operator"}:    {row("agent/enrol>", 2)},
		{"agent", "coordinator"}: {decided},
		{"workflow", "w-1"}:      {decided, executed, signaled},
		{"incident", "5"}:        {decided, signaled},
	} {
		records[merkle.SubjectKey(subject.Type, subject.Value)], _ = merkle.HashRecord(rows) // of good rows
	}
	leaves = sortedLeaves(records)
	_ = tree.Update(leaves) // in order
	return tree, leaves
}

func addPrefixProofs(all map[string]*vector) {
	tree, leaves := pageTree()
	for n := range len(leaves) + 1 {
		all[fmt.Sprintf("prefix/tree-%d", n)] = &vector{Desc: fmt.Sprintf("root over %d leaves", n), Op: "tree", Leaves: leaves[:n], Want: prefixRoot(leaves[:n], 0)}
	}
	agent, incident, absent, gap := merkle.SubjectKey("agent", "booker"), merkle.SubjectKey("incident", "5"), merkle.SubjectKey("incident", "9"), merkle.Hash{0xa0}
	prove := func(tree *merkle.PrefixTree, keys ...merkle.Hash) *vector {
		slices.SortFunc(keys, func(a, b merkle.Hash) int { return slices.Compare(a[:], b[:]) })
		answers, path, _ := tree.Prove(keys) // in order
		root := tree.Root()
		v := &vector{Op: "prefix", Root: &root, Proof: path}
		for _, a := range answers {
			out := answerOf{Key: a.Key, Depth: a.Depth}
			if a.Leaf != (merkle.PrefixLeaf{}) {
				out.Leaf = &a.Leaf
			}
			v.Answers = append(v.Answers, out)
		}
		return v
	}
	add := func(name, desc string, v *vector) {
		v.Desc = desc
		all["prefix/proof-"+name] = v
	}
	add("present", "a key that is there", prove(&tree, incident))
	add("absent", "a key in whose place another leaf stands", prove(&tree, absent))
	add("nothing", "a key in whose place nothing stands", prove(&tree, gap))
	add("joint", "keys of all three kinds together", prove(&tree, agent, incident, absent, gap))
	add("neighbours", "a key that is there, and an absent one that leads to it", prove(&tree, leaves[0].Key, near(leaves[0].Key)))
	add("none", "no key: the root alone", prove(&tree))
	add("empty-tree", "an absent key of the empty tree", prove(new(merkle.PrefixTree), absent))
	var one merkle.PrefixTree
	_ = one.Update(leaves[:1])
	add("one-leaf", "the only key of a tree", prove(&one, leaves[0].Key))
	bad := func(name, desc string, damage func(v *vector), keys ...merkle.Hash) {
		v := prove(&tree, keys...)
		damage(v)
		v.WantErr = "proof"
		add("bad-"+name, desc, v)
	}
	bad("hash", "one bit of a hash flipped", func(v *vector) { v.Proof[0][5] ^= 1 }, incident)
	bad("missing", "a hash missing", func(v *vector) { v.Proof = v.Proof[1:] }, incident)
	bad("left-over", "a hash left over", func(v *vector) { v.Proof = append(v.Proof, merkle.Hash{}) }, incident)
	bad("reversed", "the hashes in reverse", func(v *vector) { slices.Reverse(v.Proof) }, absent)
	bad("root", "the root of another tree", func(v *vector) { v.Root = &merkle.Hash{1} }, incident)
	bad("record", "another record", func(v *vector) { v.Answers[0].Leaf.Record[0] ^= 1 }, incident)
	bad("hidden", "a key that is there, said to be absent", func(v *vector) { v.Answers[0].Leaf = nil }, incident)
	bad("foreign", "another leaf, which is not on the way of the key", func(v *vector) { v.Answers[0].Leaf = &leaves[len(leaves)-1] }, incident)
	bad("invented", "an absent key, said to be there", func(v *vector) { v.Answers[0].Leaf.Key = v.Answers[0].Key }, absent)
	bad("deeper", "a depth too large", func(v *vector) { v.Answers[0].Depth++ }, absent)
	bad("higher", "a depth too small", func(v *vector) { v.Answers[0].Depth-- }, absent)
	bad("depth", "a depth that no key has", func(v *vector) { v.Answers[0].Depth = 257 }, absent)
	bad("order", "keys that do not ascend", func(v *vector) { slices.Reverse(v.Answers) }, incident, absent)
	bad("twice", "a key twice", func(v *vector) { v.Answers = append(v.Answers, v.Answers[0]) }, incident)
	bad("two-answers", "two answers at one place", func(v *vector) { v.Answers[1].Leaf = nil }, leaves[0].Key, near(leaves[0].Key))
	lone := hashed(3, leaves[0].Hash(), merkle.Hash{})
	add("bad-form", "a root that is a node above one leaf", &vector{Op: "prefix", Root: &lone, WantErr: "proof", Proof: []merkle.Hash{{}},
		Answers: []answerOf{{Key: leaves[0].Key, Depth: 1, Leaf: &leaves[0]}}})
}

// near returns a key that shares all bits but the last.
func near(key merkle.Hash) merkle.Hash {
	key[31] ^= 1
	return key
}

func addRuns(all map[string]*vector) {
	indexes := []uint64{2, 3, 5, 8, 13, 21, 34, 1 << 40, 1 << 41}
	var list merkle.Tree
	for _, index := range indexes {
		list.Append(merkle.HashIndex(index))
	}
	prove := func(desc string, from, end uint64) *vector {
		path, _ := merkle.ProveRun(from, end-from, list.Size(), list.Node) // of good ranks
		return &vector{Desc: desc, Op: "run", From: &from, Indexes: slices.Clone(indexes[from:end]), Head: headFor(list.Head(list.Size())), Proof: path}
	}
	for _, c := range [][2]uint64{{0, 9}, {0, 1}, {8, 9}, {3, 7}, {7, 9}} {
		all[fmt.Sprintf("prefix/run-%d-to-%d", c[0], c[1])] = prove(fmt.Sprintf("ranks %d to %d of a list of 9", c[0], c[1]), c[0], c[1])
	}
	bad := func(name, desc string, damage func(v *vector)) {
		v := prove(desc, 3, 7)
		damage(v)
		v.WantErr = "proof"
		all["prefix/run-bad-"+name] = v
	}
	bad("left-out", "an index left out", func(v *vector) { v.Indexes = slices.Delete(v.Indexes, 1, 2) })
	bad("tail", "the last index left out", func(v *vector) { v.Indexes = v.Indexes[:3] })
	bad("foreign", "an index that is not in the list", func(v *vector) { v.Indexes[1]++ })
	bad("order", "two indexes the other way round", func(v *vector) { slices.Reverse(v.Indexes[:2]) })
	bad("rank", "another rank", func(v *vector) { *v.From = 2 })
	bad("left-over", "a hash left over", func(v *vector) { v.Proof = append(v.Proof, merkle.Hash{}) })
	bad("missing", "a hash missing", func(v *vector) { v.Proof = v.Proof[1:] })
	bad("count", "the length of a list of another shape", func(v *vector) { v.Head.Size = 17 })
}

// runPrefix is run for the group prefix.
func runPrefix(v *vector) (any, error) {
	switch v.Op {
	case "key":
		return merkle.SubjectKey(v.Subject.Type, v.Subject.Value), nil
	case "record":
		return merkle.HashRecord(v.Rows)
	case "tree":
		var tree merkle.PrefixTree
		err := tree.Update(v.Leaves)
		return tree.Root(), err
	case "prefix":
		var answers []merkle.PrefixAnswer
		for _, a := range v.Answers {
			answers = append(answers, a.answer())
		}
		return nil, merkle.CheckPrefix(answers, *v.Root, v.Proof)
	case "run":
		return nil, merkle.CheckRun(*v.From, v.Indexes, merkle.Head(*v.Head), v.Proof)
	}
	return nil, fmt.Errorf("no such operation %q", v.Op)
}
