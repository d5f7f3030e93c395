package merkle_test

import (
	"fmt"

	"recoveryledger/merkle"
)

// A log of three entries proves to a reader who knows its head that the second
// entry stands in it.
func ExampleCheckInclusion() {
	leaves := []merkle.Hash{merkle.HashLeaf([]byte("a")), merkle.HashLeaf([]byte("b")), merkle.HashLeaf([]byte("c"))}
	head := merkle.HeadOf(leaves)
	nodes := func(level uint, index uint64) (merkle.Hash, error) { return leaves[index], nil } // level 0 suffices here
	path, err := merkle.ProveInclusion(1, head.Size, nodes, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(path), "hashes:", merkle.CheckInclusion(1, leaves[1], head, path))
	fmt.Println(merkle.CheckInclusion(0, leaves[1], head, path) != nil)
	// Output:
	// 2 hashes: <nil>
	// true
}

// A frontier is all that an appender has to keep.
func ExampleFrontier() {
	frontier, err := merkle.NewFrontier(0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, entry := range []string{"a", "b", "c"} {
		err := frontier.Append(merkle.HashLeaf([]byte(entry)), func(level uint, index uint64, h merkle.Hash) {
			fmt.Printf("node %d/%d\n", level, index)
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	head, err := frontier.Head()
	fmt.Println(head.Size, head.Root, err)
	// Output:
	// node 0/0
	// node 0/1
	// node 1/0
	// node 0/2
	// 3 NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE= <nil>
}

// Tiles have one path each.
func ExampleTile_Path() {
	fmt.Println(merkle.Tile{Level: 0, Index: 1234067, Width: merkle.TileWidth}.Path())
	fmt.Println(merkle.Tile{Entries: true, Index: 0, Width: 70}.Path())
	_, err := merkle.ParseTilePath("tile/0/1234067")
	fmt.Println(err)
	// Output:
	// tile/0/x001/x234/067
	// tile/entries/000.p/70
	// merkle: malformed: tile path "tile/0/1234067": index is not made of groups of three digits
}
