package merkle_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// TestPrefixPage is the log of the design: an agent is enrolled at 2, executes 3 and
// 4, and signals 5; 6 authorizes what is to be done about that.
func TestPrefixPage(t *testing.T) {
	type rows map[string][]uint64
	records := map[[2]string]rows{
		{"agent", "booker"}:      {"agent/enrol<": {2}, "execution": {3, 4}, "signal": {5}},
		{"agent", "operator"}:    {"agent/enrol>": {2}},
		{"agent", "coordinator"}: {"decision/authorize": {6}},
		{"workflow", "w-1"}:      {"execution": {3, 4}, "signal": {5}, "decision/authorize": {6}},
		{"incident", "5"}:        {"signal": {5}, "decision/authorize": {6}},
	}
	var tree merkle.PrefixTree
	for subject, labels := range records {
		leaf := merkle.PrefixLeaf{Key: merkle.SubjectKey(subject[0], subject[1]), Record: recordOf(t, labels)}
		must(t, tree.Update([]merkle.PrefixLeaf{leaf}))
	}
	requireHex(t, "list(3,4)", headOfList(t, 3, 4).Root, "fb396fe8a1b96436c7118a3cbcfeecba1c04c722e7c7bd0132149b6a49fbfdc8")
	requireHex(t, "root", tree.Root(), "f8a5c8c8183212feee5b046dbd7bee15899349c3c4a281604b5aa62bcd1c9c3a")
	incident := merkle.SubjectKey("incident", "5")
	requireHex(t, "key of incident/5", incident, "15bec5f5ece08b9e")
	record, ok := tree.Record(incident)
	if !ok {
		t.Fatal("incident/5 is not in the tree")
	}
	requireHex(t, "record of incident/5", record, "cde50b00e9e1b590")

	absent := merkle.SubjectKey("incident", "9")
	requireHex(t, "key of incident/9", absent, "d6c6c427264c2466")
	answers, path, err := tree.Prove([]merkle.Hash{absent})
	must(t, err)
	if a := answers[0]; a.Present() || a.Depth != 3 || a.Leaf.Key != merkle.SubjectKey("agent", "coordinator") {
		t.Errorf("incident/9: %+v", a)
	}
	requireHex(t, "key of agent/coordinator", answers[0].Leaf.Key, "de6af13f")
	empty := 0
	for _, h := range path {
		if (h == merkle.Hash{}) {
			empty++
		}
	}
	if len(path) != 3 || empty != 1 {
		t.Errorf("path %v", path)
	}
	must(t, merkle.CheckPrefix(answers, tree.Root(), path))
}

func recordOf(tb testing.TB, labels map[string][]uint64) merkle.Hash {
	tb.Helper()
	var rows []merkle.Row
	for label, indexes := range labels {
		list := headOfList(tb, indexes...)
		rows = append(rows, merkle.Row{Label: label, Count: list.Size, Root: list.Root})
	}
	slices.SortFunc(rows, func(a, b merkle.Row) int { return bytes.Compare([]byte(a.Label), []byte(b.Label)) })
	record, err := merkle.HashRecord(rows)
	must(tb, err)
	return record
}

func headOfList(tb testing.TB, indexes ...uint64) merkle.Head {
	tb.Helper()
	var list merkle.Frontier
	for _, index := range indexes {
		must(tb, list.Append(merkle.HashIndex(index), nil))
	}
	head, err := list.Head()
	must(tb, err)
	return head
}

func requireHex(t *testing.T, what string, h merkle.Hash, want string) {
	t.Helper()
	if got := hex.EncodeToString(h[:]); got[:len(want)] != want {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}

// prefixRoot is the definition word for word: over leaves whose keys begin alike.
func prefixRoot(leaves []merkle.PrefixLeaf, depth int) merkle.Hash {
	if len(leaves) == 0 {
		return merkle.Hash{}
	}
	if len(leaves) == 1 {
		return hashed(2, leaves[0].Key, leaves[0].Record)
	}
	var children [2][]merkle.PrefixLeaf
	for _, l := range leaves {
		bit := l.Key[depth/8] >> (7 - depth%8) & 1
		children[bit] = append(children[bit], l)
	}
	return hashed(3, prefixRoot(children[0], depth+1), prefixRoot(children[1], depth+1))
}

// hashed is SHA-256 over a byte and hashes.
func hashed(first byte, rest ...merkle.Hash) merkle.Hash {
	data := []byte{first}
	for _, h := range rest {
		data = append(data, h[:]...)
	}
	return sha256.Sum256(data)
}

// smallKey draws keys that share many bits, at the beginning and up to the last.
func smallKey(t *rapid.T) merkle.Hash {
	var key merkle.Hash
	key[0] = rapid.Byte().Draw(t, "first")
	key[31] = rapid.SampledFrom([]byte{0, 1, 2, 3, 128}).Draw(t, "last")
	return key
}

func sortedLeaves(leaves map[merkle.Hash]merkle.Hash) []merkle.PrefixLeaf {
	out := make([]merkle.PrefixLeaf, 0, len(leaves))
	for key, record := range leaves {
		out = append(out, merkle.PrefixLeaf{Key: key, Record: record})
	}
	slices.SortFunc(out, func(a, b merkle.PrefixLeaf) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return out
}

// TestPrefixTree grows trees by random batches. After each the root is that of the
// definition, and every set of keys has a joint proof that shows what is there.
func TestPrefixTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree merkle.PrefixTree
		all := map[merkle.Hash]merkle.Hash{}
		for range rapid.IntRange(0, 6).Draw(t, "batches") {
			batch := map[merkle.Hash]merkle.Hash{}
			for range rapid.IntRange(0, 12).Draw(t, "keys") {
				key, record := smallKey(t), merkle.Hash{1, rapid.Byte().Draw(t, "record")}
				batch[key], all[key] = record, record
			}
			must(t, tree.Update(sortedLeaves(batch)))
			if tree.Root() != prefixRoot(sortedLeaves(all), 0) || tree.Size() != len(all) {
				t.Fatalf("another root for %d keys", len(all))
			}
		}
		asked := map[merkle.Hash]merkle.Hash{}
		for range rapid.IntRange(0, 8).Draw(t, "asked") {
			asked[smallKey(t)] = merkle.Hash{}
		}
		for _, l := range sortedLeaves(all) {
			if rapid.Bool().Draw(t, "ask") {
				asked[l.Key] = merkle.Hash{}
			}
		}
		var keys []merkle.Hash
		for _, l := range sortedLeaves(asked) {
			keys = append(keys, l.Key)
		}
		answers, path, err := tree.Prove(keys)
		must(t, err)
		must(t, merkle.CheckPrefix(answers, tree.Root(), path))
		for i, a := range answers {
			record, ok := all[keys[i]]
			got, there := tree.Record(keys[i])
			if a.Key != keys[i] || a.Present() != ok || there != ok || ok && (a.Leaf.Record != record || got != record) {
				t.Fatalf("key %s: %+v, want %v %v", keys[i], a, record, ok)
			}
		}
		spoil(t, answers, tree.Root(), path)
	})
}

// spoil changes one thing of a proof, which then proves nothing.
func spoil(t *rapid.T, answers []merkle.PrefixAnswer, root merkle.Hash, path []merkle.Hash) {
	refuse := func(what string, answers []merkle.PrefixAnswer, path []merkle.Hash) {
		if err := merkle.CheckPrefix(answers, root, path); !errors.Is(err, merkle.ErrProof) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	refuse("a hash more", answers, append(slices.Clone(path), merkle.Hash{}))
	if len(path) > 0 {
		i := rapid.IntRange(0, len(path)-1).Draw(t, "hash")
		refuse("a hash less", answers, slices.Delete(slices.Clone(path), i, i+1))
		changed := slices.Clone(path)
		changed[i][rapid.IntRange(0, 31).Draw(t, "byte")]++
		refuse("another hash", answers, changed)
	}
	if len(answers) == 0 {
		return
	}
	i := rapid.IntRange(0, len(answers)-1).Draw(t, "answer")
	for what, change := range map[string]func(a *merkle.PrefixAnswer){
		"another record":    func(a *merkle.PrefixAnswer) { a.Leaf.Record[0]++ },
		"another leaf":      func(a *merkle.PrefixAnswer) { a.Leaf.Key[31] ^= 64 },
		"one bit deeper":    func(a *merkle.PrefixAnswer) { a.Depth++ },
		"one bit higher":    func(a *merkle.PrefixAnswer) { a.Depth-- },
		"absent":            func(a *merkle.PrefixAnswer) { a.Leaf = flip(a.Leaf) },
		"its own record":    func(a *merkle.PrefixAnswer) { a.Leaf = merkle.PrefixLeaf{Key: a.Key, Record: merkle.Hash{9, 9}} },
		"a depth below all": func(a *merkle.PrefixAnswer) { a.Depth = 257 },
	} {
		changed := slices.Clone(answers)
		change(&changed[i])
		refuse(what, changed, path)
	}
	refuse("an answer twice", slices.Insert(slices.Clone(answers), i, answers[i]), path)
}

// flip makes a leaf nothing, and of nothing a leaf.
func flip(l merkle.PrefixLeaf) merkle.PrefixLeaf {
	if l == (merkle.PrefixLeaf{}) {
		return merkle.PrefixLeaf{Key: merkle.Hash{1}, Record: merkle.Hash{1}}
	}
	return merkle.PrefixLeaf{}
}

// TestCheckPrefixOneForm: a root that no tree has, since a node stands above a single
// leaf, proves nothing, be it absent or present.
func TestCheckPrefixOneForm(t *testing.T) {
	leaf := merkle.PrefixLeaf{Key: merkle.Hash{0x10}, Record: merkle.Hash{7}}
	root := hashed(3, leaf.Hash(), merkle.Hash{})
	for name, answers := range map[string][]merkle.PrefixAnswer{
		"present":        {{Key: leaf.Key, Depth: 1, Leaf: leaf}},
		"absent, a leaf": {{Key: merkle.Hash{0x20}, Depth: 1, Leaf: leaf}},
	} {
		if err := merkle.CheckPrefix(answers, root, []merkle.Hash{{}}); !errors.Is(err, merkle.ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckPrefixOffTheWay: a root that somebody made with a leaf on the wrong side of a node
// proves nothing of the keys on that side.
func TestCheckPrefixOffTheWay(t *testing.T) {
	leaf, other := merkle.PrefixLeaf{Key: merkle.Hash{0x80}, Record: merkle.Hash{7}}, merkle.Hash{9}
	root := hashed(3, leaf.Hash(), other)
	absent := []merkle.PrefixAnswer{{Key: merkle.Hash{0x10}, Depth: 1, Leaf: leaf}}
	if err := merkle.CheckPrefix(absent, root, []merkle.Hash{other}); !errors.Is(err, merkle.ErrProof) {
		t.Errorf("absent by a leaf that is on another way: %v", err)
	}
}

// TestPrefixTreeRefuses: keys that do not ascend.
func TestPrefixTreeRefuses(t *testing.T) {
	var tree merkle.PrefixTree
	a, b := merkle.Hash{1}, merkle.Hash{2}
	for _, keys := range [][]merkle.Hash{{a, a}, {b, a}, {a, b, b}} {
		var batch []merkle.PrefixLeaf
		for _, key := range keys {
			batch = append(batch, merkle.PrefixLeaf{Key: key})
		}
		if err := tree.Update(batch); !errors.Is(err, merkle.ErrMalformed) || tree.Size() != 0 {
			t.Errorf("%v: %v", keys, err)
		}
		if _, _, err := tree.Prove(keys); err == nil {
			t.Errorf("%v: proven", keys)
		}
	}
}

// TestHashRecord: bytes as the definition has them, and what is no record.
func TestHashRecord(t *testing.T) {
	root := merkle.Hash{5}
	got, err := merkle.HashRecord([]merkle.Row{{Label: "a", Count: 1, Root: root}, {Label: "b", Count: 258, Root: root}})
	must(t, err)
	want := slices.Concat([]byte{4, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 1}, root[:], []byte{1, 'b', 0, 0, 0, 0, 0, 0, 1, 2}, root[:])
	if got != sha256.Sum256(want) {
		t.Error("another hash")
	}
	for name, rows := range map[string][]merkle.Row{
		"none":            {},
		"empty label":     {{Label: "", Count: 1}},
		"long label":      {{Label: string(make([]byte, 256)), Count: 1}},
		"no entry":        {{Label: "a"}},
		"a label twice":   {{Label: "a", Count: 1}, {Label: "a", Count: 1}},
		"labels descend":  {{Label: "b", Count: 1}, {Label: "a", Count: 1}},
		"the last is bad": {{Label: "a", Count: 1}, {Label: "b", Count: 0}},
	} {
		if _, err := merkle.HashRecord(rows); !errors.Is(err, merkle.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := merkle.HashRecord([]merkle.Row{{Label: string(bytes.Repeat([]byte{'x'}, 255)), Count: 1}}); err != nil {
		t.Error(err)
	}
}

// TestRun proves every run of lists of every small length, and refuses another index,
// rank, order, length and path.
func TestRun(t *testing.T) {
	for count := uint64(1); count <= 20; count++ {
		var tree merkle.Tree
		var indexes []uint64
		for i := range count {
			indexes = append(indexes, i*i+3)
			tree.Append(merkle.HashIndex(i*i + 3))
		}
		list := tree.Head(count)
		for from := range count {
			for end := from + 1; end <= count; end++ {
				path, err := merkle.ProveRun(from, end-from, count, tree.Node)
				must(t, err)
				run := indexes[from:end]
				must(t, merkle.CheckRun(from, run, list, path))
				for name, err := range map[string]error{
					"another index": merkle.CheckRun(from, append(slices.Clone(run[:len(run)-1]), run[len(run)-1]+1), list, path),
					"another rank":  merkle.CheckRun(from+1, run, list, path),
					"one less":      merkle.CheckRun(from, run[1:], list, path),
					"left over":     merkle.CheckRun(from, run, list, append(slices.Clone(path), merkle.Hash{})),
					"reversed":      merkle.CheckRun(from, reversed(run), list, path),
				} {
					if !errors.Is(err, merkle.ErrProof) && (name != "reversed" || len(run) > 1) {
						t.Errorf("%d to %d of %d: %s: %v", from, end, count, name, err)
					}
				}
			}
		}
		for _, bad := range [][2]uint64{{0, count + 1}, {count, 1}, {1, ^uint64(0)}, {^uint64(0), 2}} {
			if _, err := merkle.ProveRun(bad[0], bad[1], count, tree.Node); err == nil {
				t.Errorf("%v of %d: proven", bad, count)
			}
		}
	}
}

func reversed(run []uint64) []uint64 {
	run = slices.Clone(run)
	slices.Reverse(run)
	return run
}

// FuzzCheckPrefix reads answers and a path out of bytes. Whatever passes agrees with
// the tree about every key.
func FuzzCheckPrefix(f *testing.F) {
	var tree merkle.PrefixTree
	var leaves []merkle.PrefixLeaf
	for i := range byte(9) {
		leaves = append(leaves, merkle.PrefixLeaf{Key: merkle.Hash{i * 27, i}, Record: merkle.Hash{i}})
	}
	if err := tree.Update(leaves); err != nil {
		f.Fatal(err)
	}
	for _, keys := range [][]merkle.Hash{{}, {{27, 1}}, {{1}, {27, 1}, {27, 2}, {255}}} {
		answers, path, err := tree.Prove(keys)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encodeProof(answers, path))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answers, path := decodeProof(data)
		if err := merkle.CheckPrefix(answers, tree.Root(), path); err != nil {
			if !errors.Is(err, merkle.ErrProof) {
				t.Fatal(err)
			}
			return
		}
		for _, a := range answers {
			if record, ok := tree.Record(a.Key); ok != a.Present() || ok && record != a.Leaf.Record {
				t.Fatalf("%+v is proven, the tree has %v %v", a, record, ok)
			}
		}
	})
}

// encodeProof and decodeProof are the bytes of the fuzz target: the number of answers,
// each in 98 bytes, and the path.
func encodeProof(answers []merkle.PrefixAnswer, path []merkle.Hash) []byte {
	out := []byte{byte(len(answers))}
	for _, a := range answers {
		out = append(out, a.Key[:]...)
		out = binary.BigEndian.AppendUint16(out, uint16(a.Depth))
		out = append(append(out, a.Leaf.Key[:]...), a.Leaf.Record[:]...)
	}
	for _, h := range path {
		out = append(out, h[:]...)
	}
	return out
}

func decodeProof(data []byte) (answers []merkle.PrefixAnswer, path []merkle.Hash) {
	if len(data) == 0 {
		return nil, nil
	}
	n := int(data[0])
	for data = data[1:]; n > 0 && len(data) >= 98; n, data = n-1, data[98:] {
		answers = append(answers, merkle.PrefixAnswer{
			Key: merkle.Hash(data), Depth: int(binary.BigEndian.Uint16(data[32:])),
			Leaf: merkle.PrefixLeaf{Key: merkle.Hash(data[34:]), Record: merkle.Hash(data[66:])},
		})
	}
	for ; len(data) >= merkle.HashSize; data = data[merkle.HashSize:] {
		path = append(path, merkle.Hash(data))
	}
	return answers, path
}

// BenchmarkPrefix updates, proves and checks in a tree of 124,000 and of 1.2 million keys.
func BenchmarkPrefix(b *testing.B) {
	for _, size := range []int{124_000, 1_200_000} {
		var tree merkle.PrefixTree
		leaves := map[merkle.Hash]merkle.Hash{}
		keys := make([]merkle.Hash, size)
		for i := range keys {
			keys[i] = merkle.SubjectKey("workflow", fmt.Sprint(i))
			leaves[keys[i]] = merkle.HashIndex(uint64(i))
		}
		must(b, tree.Update(sortedLeaves(leaves)))
		for _, n := range []int{256, 20_000} {
			b.Run(fmt.Sprintf("keys=%d/update=%d", size, n), func(b *testing.B) {
				for at := 0; b.Loop(); at += n {
					batch := map[merkle.Hash]merkle.Hash{}
					b.StopTimer()
					for i := range n {
						batch[keys[(at+i*7919)%size]] = merkle.Hash{byte(at), byte(i)}
					}
					sorted := sortedLeaves(batch)
					b.StartTimer()
					must(b, tree.Update(sorted))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
		}
		b.Run(fmt.Sprintf("keys=%d/prove", size), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				_, _, err := tree.Prove(keys[i*7919%size:][:1])
				must(b, err)
			}
		})
		b.Run(fmt.Sprintf("keys=%d/check", size), func(b *testing.B) {
			answers, path, err := tree.Prove(keys[:1])
			must(b, err)
			for b.Loop() {
				must(b, merkle.CheckPrefix(answers, tree.Root(), path))
			}
			b.ReportMetric(float64(len(path)), "hashes")
		})
	}
}

// BenchmarkList appends an index to a list and takes its root.
func BenchmarkList(b *testing.B) {
	b.ReportAllocs()
	var list merkle.Frontier
	for b.Loop() {
		must(b, list.Append(merkle.HashIndex(list.Size()), nil))
		if _, err := list.Head(); err != nil {
			b.Fatal(err)
		}
	}
}
