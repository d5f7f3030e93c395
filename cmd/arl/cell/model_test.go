//go:build unix

package cell_test

import (
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"
)

// operation is what a client asks: to register an entry, or whether the log has an index.
type operation struct {
	write bool
	index uint64 // of a read
}

// model is the log as clients may see it: a size, which a registration makes larger by one. A read
// says whether an index is below the size. No node may say that it is not while it is behind.
// Others have registered the entries of foreign, at any time.
func model(base uint64, foreign map[uint64]bool) porcupine.Model {
	passes := func(size, to uint64) bool { // by entries of others alone
		for ; size < to; size++ {
			if !foreign[size] {
				return false
			}
		}
		return true
	}
	return porcupine.Model{
		Init: func() any { return base },
		Step: func(state, input, output any) (bool, any) {
			size, _ := state.(uint64)
			asked, _ := input.(operation)
			switch index, ok := output.(uint64); {
			case asked.write:
				return ok && index >= size && passes(size, index), index + 1
			case output == true:
				return passes(size, asked.index+1), max(size, asked.index+1)
			}
			return asked.index >= size, size
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
	}
}

// TestModel: the model refuses what no log does.
func TestModel(t *testing.T) {
	step := model(7, map[uint64]bool{8: true}).Step
	for what, c := range map[string]struct {
		asked  operation
		answer any
		want   bool
	}{
		"the next index": {operation{write: true}, uint64(7), true}, "an index twice": {operation{write: true}, uint64(6), false},
		"a gap": {operation{write: true}, uint64(8), false}, "what is there": {operation{index: 6}, true, true},
		"a false denial": {operation{index: 6}, false, false}, "what is not there": {operation{index: 7}, false, true},
		"from the future": {operation{index: 7}, true, false},
	} {
		if ok, _ := step(uint64(7), c.asked, c.answer); ok != c.want {
			t.Errorf("%s: %v", what, ok)
		}
	}
	if ok, size := step(uint64(8), operation{write: true}, uint64(9)); !ok || size != uint64(10) {
		t.Errorf("behind an entry of others: %v, %v", ok, size)
	}
	if ok, size := step(uint64(8), operation{index: 8}, true); !ok || size != uint64(9) {
		t.Errorf("an entry of others is there: %v, %v", ok, size)
	}
	if ok, _ := step(uint64(8), operation{index: 9}, true); ok {
		t.Error("what is behind an entry of others is there")
	}
}
