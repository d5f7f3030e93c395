package scope

import (
	"reflect"
	"testing"

	"recoveryledger/coord/compact"
)

// TestClonesAreApart shows of every change that a clone does not see it, though
// it is in a part of the graph that nothing was added to since the clone was
// made.
func TestClonesAreApart(t *testing.T) {
	const size = 3000
	var g Graph
	for i := range uint64(size) {
		one := Node{First: i + 1, Line: g.AddLine(uint32(i%2), 0, false), Effect: Reversible, Agent: uint32(i % 2)}
		if i >= size/2 {
			one.Line = NoLine
		}
		if i == 20 || i == 22 {
			one.Progress, one.Final = Confirmed, size-i // the later one first, as in a graph that is restored
		}
		g.Add(one, nil)
		g.AddCheckpoint(Checkpoint{Index: i + 1, Line: uint32(i % 2)})
	}
	g.Advance(4, Confirmed, size+1)
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"finals in order", func() { g.SortFinals() }},
		{"a child, a newest and an older unfinished", func() { g.Add(Node{First: size + 2}, []Parent{{Exec: 7}}) }},
		{"one of two unfinished", func() { g.Advance(2, Confirmed, size+3) }},
		{"an older neighbour", func() { g.Advance(1024, Failed, size+3) }},
		{"a newer neighbour", func() { g.Advance(1022, Failed, size+3) }},
		{"not final", func() { g.Advance(8, Started, size+3) }},
		{"of no line", func() { g.Advance(size-5, Confirmed, size+3) }},
		{"without effects", func() { g.SetClean(9, true) }},
		{"undone", func() { g.Undo(10, size+4) }},
		{"undone after it began", func() { g.Undo(4, size+4) }},
		{"redone", func() { g.Redo(4) }},
		{"void", func() { g.Void(1, 0, 100) }},
		{"a checkpoint", func() { g.AddCheckpoint(Checkpoint{Index: size + 5}) }},
	} {
		before, clone := contents(&g), g.Clone()
		if c.change(); !reflect.DeepEqual(contents(&clone), before) {
			t.Errorf("%s: the clone shows it", c.name)
		}
		if reflect.DeepEqual(contents(&g), before) {
			t.Errorf("%s: nothing has changed", c.name)
		}
	}
}

// contents copies all that is in a graph.
func contents(g *Graph) (all [4]any) {
	return [4]any{elements(&g.nodes), elements(&g.edges), elements(&g.lines), elements(&g.checkpoints)}
}

func elements[T comparable](l *compact.List[T]) (all []T) {
	for i := range l.Size() {
		all = append(all, *l.At(i))
	}
	return all
}
