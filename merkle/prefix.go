package merkle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// The prefixes of the index of subjects, apart from those of the log's tree.
const (
	prefixLeafPrefix   = 0x02
	prefixNodePrefix   = 0x03
	prefixRecordPrefix = 0x04
)

// maxLabel is the longest label of a [Row] in bytes: its length is written in one byte.
const maxLabel = 255

// maxDepth is the number of bits of a key, and so the longest way to a leaf.
const maxDepth = 8 * HashSize

// SubjectKey returns the key of a subject in the prefix tree, such as type "agent" and
// value "booker". A type holds no newline, so that no two subjects have one key.
func SubjectKey(kind, value string) Hash {
	buf := make([]byte, 0, 128)
	buf = append(buf, "arl index/1\n"...)
	buf = append(buf, kind...)
	buf = append(buf, '\n')
	return sha256.Sum256(append(buf, value...))
}

// HashIndex returns the leaf hash of a log index in a list: that of its eight
// big-endian bytes. A list is the tree of RFC 6962 over them: [Frontier] appends to it,
// [ProveRun] and [CheckRun] show a part of it.
func HashIndex(index uint64) Hash {
	buf := [9]byte{leafPrefix}
	binary.BigEndian.PutUint64(buf[1:], index)
	return sha256.Sum256(buf[:])
}

// Row is the list of one label in the record of a subject.
type Row struct {
	Label string `json:"label"` // 1 to 255 bytes
	Count uint64 `json:"count"` // indexes in the list, at least 1
	Root  Hash   `json:"root"`  // of the list
}

// Head returns the head of the list.
func (r Row) Head() Head { return Head{Size: r.Count, Root: r.Root} }

// HashRecord returns the hash of a subject's record: SHA-256 over 0x04 and, for each
// row, the length of its label in one byte, the label, its count in eight big-endian
// bytes, and the root of its list. Labels strictly ascend as bytes, and there is a row
// at least: a subject without any entry is not in the tree. The error is
// [ErrMalformed].
func HashRecord(rows []Row) (Hash, error) {
	if len(rows) == 0 {
		return Hash{}, fmt.Errorf("%w: a record without rows", ErrMalformed)
	}
	buf := make([]byte, 0, 512)
	buf = append(buf, prefixRecordPrefix)
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Label == "" || len(r.Label) > maxLabel:
			return Hash{}, fmt.Errorf("%w: row %d of a record: a label of %d bytes, want 1 to %d", ErrMalformed, i, len(r.Label), maxLabel)
		case i > 0 && rows[i-1].Label >= r.Label:
			return Hash{}, fmt.Errorf("%w: row %d of a record: label %q is not above %q", ErrMalformed, i, r.Label, rows[i-1].Label)
		case r.Count == 0:
			return Hash{}, fmt.Errorf("%w: row %d of a record: label %q has no entry", ErrMalformed, i, r.Label)
		}
		buf = append(buf, byte(len(r.Label)))
		buf = append(buf, r.Label...)
		buf = binary.BigEndian.AppendUint64(buf, r.Count)
		buf = append(buf, r.Root[:]...)
	}
	return sha256.Sum256(buf), nil
}

// PrefixLeaf is a subject of a prefix tree: its key, and the hash of its record.
type PrefixLeaf struct {
	Key    Hash `json:"key"`
	Record Hash `json:"record"`
}

// Hash returns the hash of the leaf in the tree.
func (l PrefixLeaf) Hash() Hash {
	var buf [1 + 2*HashSize]byte
	buf[0] = prefixLeafPrefix
	copy(buf[1:], l.Key[:])
	copy(buf[1+HashSize:], l.Record[:])
	return sha256.Sum256(buf[:])
}

// hashPrefixNode returns the hash of the node above left and right. At least one of them is there.
// The zero hash takes the place of a missing one.
func hashPrefixNode(left, right Hash) Hash {
	var buf [1 + 2*HashSize]byte
	buf[0] = prefixNodePrefix
	copy(buf[1:], left[:])
	copy(buf[1+HashSize:], right[:])
	return sha256.Sum256(buf[:])
}

// bitAt returns the bit of a key at a depth: 0 leads to the left.
func bitAt(key *Hash, depth int) byte { return key[depth/8] >> (7 - depth%8) & 1 }

// sharedBits returns how many bits two keys begin with alike.
func sharedBits(a, b *Hash) int {
	for depth := range maxDepth {
		if bitAt(a, depth) != bitAt(b, depth) {
			return depth
		}
	}
	return maxDepth
}

// PrefixAnswer is the answer of a prefix tree about a key: the end of the key's way, and the leaf
// there. The key is in the tree if the leaf is its own.
type PrefixAnswer struct {
	Key   Hash
	Depth int        // nodes above the end of the way, which are bits of the key
	Leaf  PrefixLeaf // zero: nothing stands there
}

// Present reports whether the key is in the tree.
func (a PrefixAnswer) Present() bool { return a.Leaf.Key == a.Key && a.Leaf != PrefixLeaf{} }

// check reports an answer that no tree gives.
func (a *PrefixAnswer) check() error {
	switch {
	case a.Depth < 0 || a.Depth > maxDepth:
		return fmt.Errorf("%w: key %s at depth %d, want 0 to %d", ErrProof, a.Key, a.Depth, maxDepth)
	case a.Leaf != PrefixLeaf{} && sharedBits(&a.Key, &a.Leaf.Key) < a.Depth:
		return fmt.Errorf("%w: key %s: the leaf at depth %d is not on its way", ErrProof, a.Key, a.Depth)
	}
	return nil
}

// CheckPrefix reports nil if path proves the answers, whose keys strictly ascend, in
// the prefix tree of root, and [ErrProof] otherwise. Path is what [PrefixTree.Prove]
// makes: from left to right the hashes of the largest subtrees that no key leads to,
// zero for one that is empty. Under one root, whoever made it, a key has one answer
// that can be proven.
func CheckPrefix(answers []PrefixAnswer, root Hash, path []Hash) error {
	for i := range answers {
		a := &answers[i]
		if i > 0 && bytes.Compare(answers[i-1].Key[:], a.Key[:]) >= 0 {
			return fmt.Errorf("%w: key %s is not above the one before", ErrProof, a.Key)
		}
		if err := a.check(); err != nil {
			return err
		}
	}
	c := prefixChecker{path: path}
	got, _ := c.root(answers, 0)
	switch {
	case c.fault != "":
		return fmt.Errorf("%w: in a prefix tree, keys asked for %d: %s", ErrProof, len(answers), c.fault)
	case len(c.path) > 0:
		return fmt.Errorf("%w: in a prefix tree, keys asked for %d: %d hashes are left over", ErrProof, len(answers), len(c.path))
	case got != root:
		return fmt.Errorf("%w: in a prefix tree, keys asked for %d: it leads to root %s, and not to %s", ErrProof, len(answers), got, root)
	}
	return nil
}

type prefixChecker struct {
	path  []Hash // what is left of it
	fault string // the first one found
}

func (c *prefixChecker) fail(fault string) (Hash, bool) {
	if c.fault == "" {
		c.fault = fault
	}
	return Hash{}, false
}

// root returns the hash of the subtree at depth that the keys lead to, and whether it
// is known to hold one leaf at most.
func (c *prefixChecker) root(answers []PrefixAnswer, depth int) (h Hash, lone bool) {
	if c.fault != "" {
		return Hash{}, false
	}
	if len(answers) == 0 {
		if len(c.path) == 0 {
			return c.fail("a hash is missing")
		}
		h, c.path = c.path[0], c.path[1:]
		return h, h == Hash{}
	}
	for i := range answers {
		if a := &answers[i]; a.Depth == depth {
			return c.end(answers, depth)
		} else if a.Depth < depth {
			return c.fail("a key ends above others on its way")
		}
	}
	cut := splitAt(len(answers), depth, func(i int) *Hash { return &answers[i].Key })
	left, leftLone := c.root(answers[:cut], depth+1)
	right, rightLone := c.root(answers[cut:], depth+1)
	if leftLone && rightLone && (left == Hash{} || right == Hash{}) && c.fault == "" {
		return c.fail("a node above fewer than two leaves")
	}
	return hashPrefixNode(left, right), false
}

// end returns the hash at the end of the way of all the keys.
func (c *prefixChecker) end(answers []PrefixAnswer, depth int) (Hash, bool) {
	leaf := answers[0].Leaf
	for i := range answers {
		if answers[i].Depth != depth || answers[i].Leaf != leaf {
			return c.fail("keys that end at one place have two answers")
		}
	}
	if leaf == (PrefixLeaf{}) {
		return Hash{}, true
	}
	return leaf.Hash(), true
}

// splitAt returns how many of n ascending keys lead to the left at depth, all of which
// begin alike.
func splitAt(n, depth int, key func(i int) *Hash) int {
	low, high := 0, n
	for low < high {
		if mid := (low + high) / 2; bitAt(key(mid), depth) == 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// ProveRun returns the joint proof of n ranks of a list from rank from on, which are
// below count: see [ProveInclusions].
func ProveRun(from, n, count uint64, nodes NodeReader) ([]Hash, error) {
	if n > count || from > count-n {
		return nil, fmt.Errorf("merkle: prove %d ranks from %d of a list of %d: there are fewer", n, from, count)
	}
	ranks := make([]uint64, n)
	for i := range ranks {
		ranks[i] = from + uint64(i)
	}
	return ProveInclusions(ranks, count, nodes)
}

// CheckRun reports nil if path proves that a list has these indexes, which strictly
// ascend, from rank from on, and [ErrProof] otherwise.
func CheckRun(from uint64, indexes []uint64, list Head, path []Hash) error {
	places := make([]Place, len(indexes))
	for i, index := range indexes {
		if i > 0 && indexes[i-1] >= index {
			return fmt.Errorf("%w: index %d of a list is not above %d before it", ErrProof, index, indexes[i-1])
		}
		places[i] = Place{Index: from + uint64(i), Leaf: HashIndex(index)}
	}
	return CheckInclusions(places, list, path)
}

// PrefixTree is a prefix tree in memory: about 120 bytes a key. The zero PrefixTree is
// empty. Several goroutines may read it while none updates it.
type PrefixTree struct {
	top    prefixRef
	nodes  []prefixNode
	leaves []PrefixLeaf
}

// prefixRef points into a tree: 0 at nothing, n > 0 at node n-1, n < 0 at leaf -n-1.
type prefixRef int32

// prefixNode is a node above two leaves at least.
type prefixNode struct {
	child [2]prefixRef
	hash  Hash
}

// Size returns the number of keys.
func (t *PrefixTree) Size() int { return len(t.leaves) }

// Root returns the root of the tree, which is zero if it is empty.
func (t *PrefixTree) Root() Hash { return t.hash(t.top) }

// Update sets the records of keys, which strictly ascend, be they in the tree or not.
// The error is [ErrMalformed], and then nothing is set.
func (t *PrefixTree) Update(batch []PrefixLeaf) error {
	for i := 1; i < len(batch); i++ {
		if bytes.Compare(batch[i-1].Key[:], batch[i].Key[:]) >= 0 {
			return fmt.Errorf("%w: update of a prefix tree: key %s is not above the one before", ErrMalformed, batch[i].Key)
		}
	}
	t.top = t.put(t.top, batch, 0)
	return nil
}

// Record returns the record of a key, and whether the tree has it.
func (t *PrefixTree) Record(key Hash) (record Hash, ok bool) {
	leaf, _ := t.find(key)
	return leaf.Record, leaf.Key == key && leaf != PrefixLeaf{}
}

// find follows a key to its end.
func (t *PrefixTree) find(key Hash) (leaf PrefixLeaf, depth int) {
	at := t.top
	for at > 0 {
		at = t.nodes[at-1].child[bitAt(&key, depth)]
		depth++
	}
	return t.leaf(at), depth
}

// leaf returns the leaf at the end of a way.
func (t *PrefixTree) leaf(at prefixRef) PrefixLeaf {
	if at == 0 {
		return PrefixLeaf{}
	}
	return t.leaves[-at-1]
}

func (t *PrefixTree) hash(at prefixRef) Hash {
	switch {
	case at == 0:
		return Hash{}
	case at < 0:
		return t.leaves[-at-1].Hash()
	}
	return t.nodes[at-1].hash
}

// put sets leaves in the subtree at depth, and returns it.
func (t *PrefixTree) put(at prefixRef, batch []PrefixLeaf, depth int) prefixRef {
	if len(batch) == 0 {
		return at
	}
	if len(batch) == 1 {
		switch {
		case at == 0:
			t.leaves = append(t.leaves, batch[0])
			return prefixRef(-len(t.leaves))
		case at < 0 && t.leaves[-at-1].Key == batch[0].Key:
			t.leaves[-at-1].Record = batch[0].Record
			return at
		}
	}
	if at <= 0 { // two leaves at least: there is a node above them
		var node prefixNode
		if at < 0 {
			node.child[bitAt(&t.leaves[-at-1].Key, depth)] = at
		}
		t.nodes = append(t.nodes, node)
		at = prefixRef(len(t.nodes))
	}
	cut := splitAt(len(batch), depth, func(i int) *Hash { return &batch[i].Key })
	child := t.nodes[at-1].child
	child[0] = t.put(child[0], batch[:cut], depth+1)
	child[1] = t.put(child[1], batch[cut:], depth+1)
	t.nodes[at-1] = prefixNode{child, hashPrefixNode(t.hash(child[0]), t.hash(child[1]))}
	return at
}

// Prove returns the answers of the tree about keys, which strictly ascend, and their joint proof,
// which [CheckPrefix] checks. The error names a key that is out of order.
func (t *PrefixTree) Prove(keys []Hash) ([]PrefixAnswer, []Hash, error) {
	for i := 1; i < len(keys); i++ {
		if bytes.Compare(keys[i-1][:], keys[i][:]) >= 0 {
			return nil, nil, fmt.Errorf("merkle: prove keys of a prefix tree: %s is not above the one before", keys[i])
		}
	}
	p := prefixProver{tree: t, answers: make([]PrefixAnswer, 0, len(keys)), path: []Hash{}}
	p.prove(t.top, keys, 0)
	return p.answers, slices.Clip(p.path), nil
}

type prefixProver struct {
	tree    *PrefixTree
	answers []PrefixAnswer
	path    []Hash
}

// prove goes over the subtree at depth.
func (p *prefixProver) prove(at prefixRef, keys []Hash, depth int) {
	switch {
	case len(keys) == 0:
		p.path = append(p.path, p.tree.hash(at))
	case at <= 0:
		for _, key := range keys {
			p.answers = append(p.answers, PrefixAnswer{Key: key, Depth: depth, Leaf: p.tree.leaf(at)})
		}
	default:
		cut := splitAt(len(keys), depth, func(i int) *Hash { return &keys[i] })
		child := p.tree.nodes[at-1].child
		p.prove(child[0], keys[:cut], depth+1)
		p.prove(child[1], keys[cut:], depth+1)
	}
}
