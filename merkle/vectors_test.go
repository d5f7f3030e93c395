package merkle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/merkle"
)

var update = flag.Bool("update", false, "write the vectors of this package anew")

// vectorsDir holds the protocol vectors; its README describes them.
const vectorsDir = "../testdata/vectors"

// vector is one case, one file. Members that a case does not use are absent.
type vector struct {
	Desc  string        `json:"desc"`
	Op    string        `json:"op,omitempty"`    // merkle: leaf, node, root, inclusion, consistency
	Input *string       `json:"input,omitempty"` // text of a path or a hash, data of a leaf
	Left  *merkle.Hash  `json:"left,omitempty"`
	Right *merkle.Hash  `json:"right,omitempty"`
	Index *uint64       `json:"index,omitempty"`
	Leaf  *merkle.Hash  `json:"leaf,omitempty"`
	Older *headOf       `json:"older,omitempty"`
	Head  *headOf       `json:"head,omitempty"` // of the (newer) tree
	Proof []merkle.Hash `json:"proof,omitempty"`

	// Of the group prefix; their op is key, record, tree, prefix or run.
	Subject *subjectOf          `json:"subject,omitempty"`
	Rows    []merkle.Row        `json:"rows,omitempty"`
	Leaves  []merkle.PrefixLeaf `json:"leaves,omitempty"`
	Answers []answerOf          `json:"answers,omitempty"`
	Root    *merkle.Hash        `json:"root,omitempty"`
	From    *uint64             `json:"from,omitempty"`
	Indexes []uint64            `json:"indexes,omitempty"`

	WantErr string `json:"wantErr"` // malformed, proof; empty: accepted
	Want    any    `json:"want,omitempty"`
}

type headOf struct {
	Size uint64      `json:"size"`
	Root merkle.Hash `json:"root"`
}

func headFor(h merkle.Head) *headOf {
	head := headOf(h)
	return &head
}

// wantTile is a tile; its index may need 64 bits, so it is text.
type wantTile struct {
	Entries bool   `json:"entries"`
	Level   uint   `json:"level"`
	Index   string `json:"index"`
	Width   int    `json:"width"`
}

// generateVectors makes the vectors of this package by file name.
func generateVectors() map[string]*vector {
	all := map[string]*vector{}
	addTiles(all)
	addHashes(all)
	addInclusions(all)
	addConsistencies(all)
	addPrefix(all)
	return all
}

func addTiles(all map[string]*vector) {
	text := func(path string) *string { return &path }
	good := func(name, desc, path string, want wantTile) {
		all["tile/"+name] = &vector{Desc: desc, Input: text(path), Want: want}
	}
	bad := func(name, desc, path string) {
		all["tile/bad-"+name] = &vector{Desc: desc, Input: text(path), WantErr: "malformed"}
	}
	good("first", "the first tile", "tile/0/000", wantTile{Width: 256, Index: "0"})
	good("partial-1", "a tile with one hash", "tile/1/000.p/1", wantTile{Level: 1, Width: 1, Index: "0"})
	good("partial-255", "a tile with all hashes but one", "tile/0/273.p/255", wantTile{Width: 255, Index: "273"})
	good("two-groups", "an index of four digits", "tile/0/x001/000", wantTile{Width: 256, Index: "1000"})
	good("specification", "the example of c2sp.org/tlog-tiles", "tile/0/x001/x234/067", wantTile{Width: 256, Index: "1234067"})
	good("specification-partial", "the same, partial", "tile/0/x001/x234/067.p/112", wantTile{Width: 112, Index: "1234067"})
	good("level-63", "the highest level", "tile/63/000.p/1", wantTile{Level: 63, Width: 1, Index: "0"})
	good("entries", "a bundle of entries", "tile/entries/000", wantTile{Entries: true, Width: 256, Index: "0"})
	good("entries-partial", "a partial bundle", "tile/entries/x999/999.p/70", wantTile{Entries: true, Width: 70, Index: "999999"})
	good("index-largest", "an index of 64 bits", "tile/0/x018/x446/x744/x073/x709/x551/615", wantTile{Width: 256, Index: "18446744073709551615"})
	for _, c := range [][3]string{
		{"empty", "no path", ""},
		{"no-index", "no index", "tile/0"},
		{"empty-index", "an empty index", "tile/0/"},
		{"prefix", "another first element", "tiles/0/000"},
		{"leading-slash", "a slash in front", "/tile/0/000"},
		{"trailing-slash", "a slash behind", "tile/0/000/"},
		{"double-slash", "two slashes", "tile//0/000"},
		{"dots", "a parent directory", "tile/0/../0/000"},
		{"level-64", "a level above 63", "tile/64/000"},
		{"level-leading-zero", "a level with a leading zero", "tile/00/000"},
		{"level-sign", "a level with a sign", "tile/+1/000"},
		{"level-hex", "a level in hexadecimal", "tile/0x1/000"},
		{"level-data", "the path of golang.org/x/mod/sumdb/tlog", "tile/8/data/000"},
		{"entries-case", "Entries with a capital", "tile/Entries/000"},
		{"index-short", "a group of two digits", "tile/0/00"},
		{"index-long", "a group of four digits", "tile/0/0000"},
		{"index-plain", "an index without groups", "tile/0/1234067"},
		{"index-leading-group", "a leading group of zeros", "tile/0/x000/001"},
		{"index-without-x", "a group without x in front of another", "tile/0/001/067"},
		{"index-x-last", "an x in front of the last group", "tile/0/x001"},
		{"index-x-twice", "two x", "tile/0/xx001/067"},
		{"index-upper-x", "an X in upper case", "tile/0/X001/067"},
		{"index-letters", "letters for digits", "tile/0/abc"},
		{"index-sign", "a sign in the index", "tile/0/-01"},
		{"index-65-bits", "an index that 64 bits do not hold", "tile/0/x018/x446/x744/x073/x709/x551/616"},
		{"index-huge", "an index of thirty digits", "tile/0" + strings.Repeat("/x999", 9) + "/999"},
		{"width-0", "a width of 0: an empty tile does not exist", "tile/0/000.p/0"},
		{"width-256", "a full tile written as partial", "tile/0/000.p/256"},
		{"width-leading-zero", "a width with a leading zero", "tile/0/000.p/01"},
		{"width-sign", "a width with a sign", "tile/0/000.p/+1"},
		{"width-missing", "no width behind .p", "tile/0/000.p/"},
		{"width-no-slash", "nothing behind .p", "tile/0/000.p"},
		{"width-in-the-middle", "a width before the last group", "tile/0/x001.p/1/067"},
		{"width-twice", "two widths", "tile/0/000.p/1.p/2"},
		{"query", "a query behind the path", "tile/0/000?x=1"},
		{"escape", "a percent escape", "tile/0/%30%30%30"},
		{"space", "a space", "tile/0/000 "},
		{"nul", "a NUL", "tile/0/000\x00"},
		{"wide-digits", "digits of another script", "tile/0/００１"},
	} {
		bad(c[0], c[1], c[2])
	}
}

func addHashes(all map[string]*vector) {
	ref := decimals(300)
	for name, data := range map[string]string{"empty": "", "a": "a", "nul": "\x00", "umlaut": "ü", "long": strings.Repeat("x", 200)} {
		h := merkle.HashLeaf([]byte(data))
		all["merkle/leaf-"+name] = &vector{Desc: "leaf hash of data", Op: "leaf", Input: &data, Want: h}
	}
	left, right := merkle.HashLeaf([]byte("0")), merkle.HashLeaf([]byte("1"))
	all["merkle/node"] = &vector{Desc: "hash of two children", Op: "node", Left: &left, Right: &right, Want: merkle.HashChildren(left, right)}
	all["merkle/node-swapped"] = &vector{Desc: "the children the other way round", Op: "node", Left: &right, Right: &left, Want: merkle.HashChildren(right, left)}
	for _, size := range []int{0, 1, 2, 3, 7, 8, 255, 256, 257, 300} {
		all[fmt.Sprintf("merkle/root-%d", size)] = &vector{Desc: "root of the tree whose leaf i is the number i in decimal", Op: "root",
			Head: headFor(ref.head(size))}
	}
	hash := ref.head(3).Root.String()
	for _, c := range [][4]string{
		{"good", "a hash", hash, ""},
		{"zero", "32 zero bytes", strings.Repeat("A", 43) + "=", ""},
		{"empty", "no text", "", "malformed"},
		{"unpadded", "without padding", hash[:43], "malformed"},
		{"padding-bits", "padding bits that are not zero", strings.Repeat("A", 42) + "B=", "malformed"},
		{"of-31", "31 bytes", strings.Repeat("A", 42) + "==", "malformed"},
		{"of-33", "33 bytes", strings.Repeat("A", 44), "malformed"},
		{"line-break", "a line break behind", hash + "\n", "malformed"},
		{"line-breaks-inside", "line breaks for characters", strings.Repeat("A", 40) + "\n\n\n\n", "malformed"},
		{"url", "URL-safe base64", strings.Repeat("_", 43) + "=", "malformed"},
		{"hex", "hexadecimal", fmt.Sprintf("%x", ref.head(3).Root), "malformed"},
	} {
		all["hash/"+c[0]] = &vector{Desc: c[1], Input: &c[2], WantErr: c[3]}
	}
}

func addInclusions(all map[string]*vector) {
	ref := decimals(300)
	prove := func(index, size int) *vector {
		leaf, at := merkle.HashLeaf(ref.leaves[index]), uint64(index)
		return &vector{Desc: fmt.Sprintf("leaf %d in the tree of %d", index, size), Op: "inclusion", Index: &at, Leaf: &leaf,
			Head: headFor(ref.head(size)), Proof: ref.path(index, 0, size)}
	}
	for _, c := range [][2]int{{0, 1}, {0, 2}, {1, 2}, {2, 3}, {6, 7}, {3, 8}, {0, 255}, {254, 255}, {128, 256}, {255, 256}, {0, 257}, {200, 257}, {256, 257}} {
		all[fmt.Sprintf("merkle/inclusion-%d-in-%d", c[0], c[1])] = prove(c[0], c[1])
	}
	bad := func(name, desc string, index, size int, damage func(v *vector)) {
		v := prove(index, size)
		damage(v)
		v.Desc, v.WantErr = desc, "proof"
		all["merkle/inclusion-bad-"+name] = v
	}
	at := func(index uint64) *uint64 { return &index }
	bad("bit", "one bit of a hash flipped", 200, 257, func(v *vector) { v.Proof[3][0] ^= 1 })
	bad("missing", "the last hash missing", 200, 257, func(v *vector) { v.Proof = v.Proof[:len(v.Proof)-1] })
	bad("extra", "a hash too many", 200, 257, func(v *vector) { v.Proof = append(v.Proof, merkle.Hash{}) })
	bad("reversed", "the hashes in reverse", 200, 257, func(v *vector) { slices.Reverse(v.Proof) })
	bad("index", "the index of its neighbour", 200, 257, func(v *vector) { v.Index = at(201) })
	bad("index-is-size", "the size as index", 200, 257, func(v *vector) { v.Index = at(257) })
	bad("index-huge", "an index beyond every tree", 200, 257, func(v *vector) { v.Index = at(1<<53 - 1) })
	bad("leaf", "the hash of another leaf", 200, 257, func(v *vector) { h := merkle.HashLeaf([]byte("x")); v.Leaf = &h })
	bad("root", "the root of another size", 200, 257, func(v *vector) { v.Head.Root = ref.mth(0, 256) })
	bad("size", "another size with the same root", 200, 257, func(v *vector) { v.Head.Size = 513 })
	bad("size-0", "the empty tree", 0, 1, func(v *vector) { v.Head = headFor(merkle.EmptyHead()) })
	bad("size-1-extra", "a tree of one leaf with a proof", 0, 1, func(v *vector) { v.Proof = []merkle.Hash{*v.Leaf} })
	bad("empty", "no proof in a tree of two", 0, 2, func(v *vector) { v.Proof = nil })
}

func addConsistencies(all map[string]*vector) {
	ref := decimals(300)
	prove := func(older, newer int) *vector {
		v := &vector{Desc: fmt.Sprintf("the tree of %d is a prefix of the tree of %d", older, newer), Op: "consistency",
			Older: headFor(ref.head(older)), Head: headFor(ref.head(newer))}
		if older > 0 {
			v.Proof = ref.subproof(older, 0, newer, true)
		}
		return v
	}
	for _, c := range [][2]int{{0, 0}, {0, 1}, {0, 256}, {1, 1}, {1, 2}, {1, 257}, {2, 3}, {3, 7}, {4, 7}, {6, 8}, {128, 256}, {255, 256}, {255, 257}, {256, 256}, {256, 257}} {
		all[fmt.Sprintf("merkle/consistency-%d-to-%d", c[0], c[1])] = prove(c[0], c[1])
	}
	bad := func(name, desc string, older, newer int, damage func(v *vector)) {
		v := prove(older, newer)
		damage(v)
		v.Desc, v.WantErr = desc, "proof"
		all["merkle/consistency-bad-"+name] = v
	}
	fork := decimals(300)
	fork.leaves[3] = []byte("forged")
	bad("bit", "one bit of a hash flipped", 100, 257, func(v *vector) { v.Proof[2][31] ^= 0x80 })
	bad("missing", "the first hash missing", 100, 257, func(v *vector) { v.Proof = v.Proof[1:] })
	bad("extra", "a hash too many", 100, 257, func(v *vector) { v.Proof = append(v.Proof, merkle.Hash{}) })
	bad("reversed", "the hashes in reverse", 100, 257, func(v *vector) { slices.Reverse(v.Proof) })
	bad("swapped", "the newer tree as the older", 100, 257, func(v *vector) { v.Older, v.Head = v.Head, v.Older })
	bad("older-root", "another root of the older tree", 100, 257, func(v *vector) { v.Older.Root = ref.mth(0, 99) })
	bad("newer-root", "another root of the newer tree", 100, 257, func(v *vector) { v.Head.Root = ref.mth(0, 256) })
	bad("fork", "a leaf below the older size was changed, and the proof made for that tree", 100, 257, func(v *vector) {
		v.Head, v.Proof = headFor(fork.head(257)), fork.subproof(100, 0, 257, true)
	})
	bad("same-size", "one size, two roots", 8, 8, func(v *vector) { v.Head = headFor(fork.head(8)) })
	bad("same-size-extra", "one head twice, with a proof", 8, 8, func(v *vector) { v.Proof = []merkle.Hash{v.Head.Root} })
	bad("empty-root", "size 0 with a root other than the empty one", 0, 8, func(v *vector) { v.Older.Root = merkle.HashLeaf(nil) })
	bad("empty-extra", "from size 0 with a proof", 0, 8, func(v *vector) { v.Proof = []merkle.Hash{v.Head.Root} })
	bad("empty-both-roots", "size 0 twice, with a root other than the empty one", 0, 0, func(v *vector) {
		v.Older.Root = merkle.HashLeaf(nil)
		v.Head.Root = v.Older.Root
	})
	bad("power-of-two", "the older root added in front, though the proof implies it", 128, 256, func(v *vector) {
		v.Proof = slices.Insert(v.Proof, 0, v.Older.Root)
	})
}

// TestVectorFiles compares the files with what is generated; with -update it
// writes them. The difference is to be read before it is committed.
func TestVectorFiles(t *testing.T) {
	generated := generateVectors()
	onDisk := readVectorFiles(t)
	for name, v := range generated {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		must(t, encoder.Encode(v))
		file := filepath.Join(vectorsDir, name+".json")
		if *update {
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, text.Bytes(), 0o644))
		} else if onDisk[name] != text.String() {
			t.Errorf("%s: the file says\n%s\nwant\n%s", name, onDisk[name], text.String())
		}
		delete(onDisk, name)
	}
	for name := range onDisk {
		if *update {
			must(t, os.Remove(filepath.Join(vectorsDir, name+".json")))
		} else {
			t.Errorf("%s: nothing generates this file", name)
		}
	}
	t.Logf("%d vectors", len(generated))
}

// readVectorFiles returns the texts of the files of this package's groups.
func readVectorFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, group := range []string{"tile", "hash", "merkle", "prefix"} {
		list, err := os.ReadDir(filepath.Join(vectorsDir, group))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, file := range list {
			text, err := os.ReadFile(filepath.Join(vectorsDir, group, file.Name()))
			must(t, err)
			files[path.Join(group, strings.TrimSuffix(file.Name(), ".json"))] = string(text)
		}
	}
	return files
}

// TestVectors runs every file against this package.
func TestVectors(t *testing.T) {
	files := readVectorFiles(t)
	if len(files) == 0 {
		t.Fatal("no vectors")
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			v := new(vector)
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			must(t, decoder.Decode(v))
			got, err := run(v, path.Dir(name))
			if class := classOf(err); class != v.WantErr {
				t.Fatalf("%s: error %v, want %q", v.Desc, err, v.WantErr)
			}
			if err == nil && v.Want != nil && fmt.Sprint(got) != fmt.Sprint(v.Want) {
				t.Fatalf("%s: got %v, want %v", v.Desc, got, v.Want)
			}
		})
	}
}

func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, merkle.ErrMalformed):
		return "malformed"
	case errors.Is(err, merkle.ErrProof):
		return "proof"
	}
	return err.Error()
}

// run returns what the package makes of a vector, in the form of its want.
func run(v *vector, group string) (any, error) {
	switch group {
	case "tile":
		tile, err := merkle.ParseTilePath(*v.Input)
		return map[string]any{"entries": tile.Entries, "level": tile.Level, "index": strconv.FormatUint(tile.Index, 10), "width": tile.Width}, err
	case "hash":
		return merkle.ParseHash(*v.Input)
	case "prefix":
		return runPrefix(v)
	}
	switch v.Op {
	case "leaf":
		return merkle.HashLeaf([]byte(*v.Input)), nil
	case "node":
		return merkle.HashChildren(*v.Left, *v.Right), nil
	case "root":
		var leaves []merkle.Hash
		for i := range v.Head.Size {
			leaves = append(leaves, merkle.HashLeaf(fmt.Append(nil, i)))
		}
		if head := merkle.HeadOf(leaves); head != merkle.Head(*v.Head) {
			return nil, fmt.Errorf("head %v", head)
		}
		return nil, nil
	case "inclusion":
		return nil, merkle.CheckInclusion(*v.Index, *v.Leaf, merkle.Head(*v.Head), v.Proof)
	case "consistency":
		return nil, merkle.CheckConsistency(merkle.Head(*v.Older), merkle.Head(*v.Head), v.Proof)
	}
	return nil, fmt.Errorf("no such operation %q", v.Op)
}
